"""ingest: files -> store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trueput.errors import UsageError
from trueput.ingest.folders import (
    RunFolder,
    as_text,
    content_sha256,
    find_runs,
    passed_over,
    several_paths,
)
from trueput.ingest.run import Ingested, Progress, hash_run, ingest_run
from trueput.ingest.store import Store
from trueput.verbs import baseline_file
from trueput.verbs.opening import open_store


def ingest(
    paths: Sequence[str | Path],
    run: str | None = None,
    store: Path | None = None,
    replace: bool = False,
    progress: Progress | None = None,
    passed: list[Path] | None = None,
) -> list[Ingested]:
    """Put the runs at `paths` into the store and return what came of each.

    To `passed` are added the folders below `paths` in which nothing is of a known format.

    Same bytes again change nothing, unless files of the run are damaged or `replace` asks for it.
    Files that killed ingests left are removed once they are old.

    Raises UsageError when a run of that name but from another path is held (unless `replace`), and
    InputError when nothing at a path is of a known format.
    """
    kept = open_store(store)
    folders = _folders([Path(p) for p in paths], run)
    if passed is not None:
        passed += [folder for path in paths for folder in passed_over(Path(path), folders)]
    names = [f.run_id for f in folders]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two of the given folders would be the run `{name}`",
                "ingest them one by one with `--run NAME`",
            )
    done = [_one(folder, kept, replace, progress) for folder in folders]
    kept.sweep()
    return done


def _folders(paths: list[Path], run: str | None) -> list[RunFolder]:
    if not paths:
        raise UsageError("no path given")
    found = [folder for path in paths for folder in find_runs(path)] if run is None else []
    if run is None:
        return found
    if not run.strip():
        raise UsageError("--run: the name is empty")
    if "\0" in run or as_text(run) != run:
        raise UsageError("--run: the name is not text (UTF-8 without NUL)")
    for path in paths:
        inside = find_runs(path)
        if len(inside) > 1 or inside[0].root.resolve() != path.resolve():
            raise UsageError(
                f"`{path}` holds {len(inside)} runs; --run names one",
                "leave --run out, or name one run folder",
            )
    if len(paths) == 1:
        only = find_runs(paths[0])[0]
        return [RunFolder(run, only.root, only.files)]
    return [several_paths(run, paths)]


def _one(folder: RunFolder, store: Store, replace: bool, progress: Progress | None) -> Ingested:
    hashes = hash_run(folder)
    held = store.held(folder.run_id)
    here = str(folder.root.resolve())
    other_bytes = held is not None and held.content_sha256 != content_sha256(hashes)
    if held is not None and other_bytes and held.path != here and not replace:
        raise UsageError(
            f"the store already holds another run `{folder.run_id}` (from `{held.path}`)",
            f"`--run NAME` keeps both; `--replace` puts `{folder.root}` in its place",
        )
    holders = baseline_file.read(store).holders(folder.run_id) if other_bytes else ()
    if holders and not replace:
        raise UsageError(
            f"`{folder.run_id}` is kept by {', '.join(holders)} and was not overwritten",
            "`--run NAME` keeps both; `--replace` takes it from under the baseline",
        )
    return ingest_run(
        folder, folder.run_id, store, hashes, progress, needs_claim=True, replace=replace
    )
