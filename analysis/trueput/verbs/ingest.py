"""ingest: files -> store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trueput.errors import UsageError
from trueput.ingest.folders import (
    RunFolder,
    UnclaimedError,
    as_text,
    claim,
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

    To `passed` are added the paths, and the folders below them, in which nothing is of a known
    format: they keep none of the others from being read.

    Same bytes again change nothing, unless files of the run are damaged or `replace` asks for it.
    Files that killed ingests left are removed once they are old.

    Raises UsageError when a run of that name but from another path is held (unless `replace`), and
    InputError when a path does not exist or nothing at any of them is of a known format.
    """
    kept = open_store(store)
    over: list[Path] = []
    folders = _folders([Path(p) for p in paths], run, over)
    over += [f for p in paths if Path(p) not in over for f in passed_over(Path(p), folders)]
    names = [f.run_id for f in folders]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two of the given folders would be the run `{name}`",
                "ingest them one by one with `--run NAME`",
            )
    done: list[Ingested] = []
    nothing: UnclaimedError | None = None
    for folder in folders:
        try:
            done.append(_one(folder, kept, replace, progress))
        except UnclaimedError as error:  # a folder of which only its run.toml is known
            nothing = nothing or error
            over.append(folder.root)
    if nothing is not None and not done:
        raise nothing
    if passed is not None:
        passed += over
    kept.sweep()
    return done


def _runs_at(paths: list[Path], over: list[Path]) -> list[RunFolder]:
    """Return the runs at some paths; those without any are added to `over`.

    Raises UnclaimedError when there is none at all.
    """
    found: list[RunFolder] = []
    nothing: UnclaimedError | None = None
    for path in paths:
        try:
            runs = find_runs(path)
            if len(paths) > 1 and path.is_file() and not _is_known(path):
                raise UnclaimedError(f"`{path}`: not of a known format")
            found += runs
        except UnclaimedError as error:
            nothing = nothing or error
            over.append(path)
    if nothing is not None and not found:
        raise nothing
    return found


def _is_known(file: Path) -> bool:
    """Return whether a source claims a file; one that cannot be read may be of any format."""
    try:
        return claim(file).source is not None
    except OSError:
        return True


def _folders(paths: list[Path], run: str | None, over: list[Path]) -> list[RunFolder]:
    if not paths:
        raise UsageError("no path given")
    if run is None:
        return _runs_at(paths, over)
    if not run.strip():
        raise UsageError("--run: the name is empty")
    if "\0" in run or as_text(run) != run:
        raise UsageError("--run: the name is not text (UTF-8 without NUL)")
    for path in paths:
        inside = find_runs(path)
        if len(inside) > 1:
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
        origin = f" (from `{held.path}`)" if held.path else ""
        raise UsageError(
            f"the store already holds another run `{folder.run_id}`{origin}",
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
