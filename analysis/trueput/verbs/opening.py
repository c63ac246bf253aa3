"""From what a user names (runs, paths, configurations) to an open warehouse."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trueput.errors import InputError, StoreError, UsageError
from trueput.ingest.store import READER_VERSION, Manifest, Store
from trueput.slo import Slo, parse_slo
from trueput.verbs import baseline_file
from trueput.warehouse.connect import Selection, parse_window
from trueput.warehouse.session import Warehouse

if TYPE_CHECKING:  # a question about what is stored needs no reader of files
    from trueput.ingest.folders import RunFolder
    from trueput.ingest.run import Ingested, Progress

DEFAULT_STORE = ".trueput"
Note = Callable[[str], None]


def silent(_: str) -> None:
    """Drop a note; the library's default."""


@dataclass(frozen=True)
class Reading:
    """How runs are to be judged and where they are kept; shared by all reading verbs."""

    store: Path | None = None
    slo: str | Slo | None = None
    window: str = "all"
    note: Note = silent
    progress: Progress | None = None
    slo_origin: str = "command"
    judging: tuple[str, bool] | None = None

    def open_store(self) -> Store:
        """Return the store: the given folder, else $TRUEPUT_STORE, else `./.trueput`."""
        return open_store(self.store)

    def objective(self) -> Slo | None:
        """Return the objective that was given, parsed."""
        return parse_slo(self.slo) if isinstance(self.slo, str) else self.slo


def open_store(path: Path | None = None) -> Store:
    """Return the store at `path`, else at $TRUEPUT_STORE, else at `./.trueput`."""
    return Store(path or Path(os.environ.get("TRUEPUT_STORE") or DEFAULT_STORE))


@dataclass(frozen=True)
class Configuration:
    """One configuration: how it was named, and the run ids of its repeats."""

    name: str
    runs: tuple[str, ...]


@dataclass
class Ingest:
    """What an ingest of several paths did."""

    runs: list[Ingested] = field(default_factory=list)


def _free_name(store: Store, folder: RunFolder, digest: str) -> str:
    """Return the run_id under which a path is kept: its default, or one with a content suffix.

    A run that is part of a baseline keeps its content: what its path holds now is another run.
    """
    held = store.held(folder.run_id)
    here = str(folder.root.resolve())
    if held is None or held.content_sha256 == digest:
        return folder.run_id
    if held.path == here and not baseline_file.read(store).holders(folder.run_id):
        return folder.run_id
    return f"{folder.run_id}~{digest[:8]}"


def ensure_run(folder: RunFolder, reading: Reading) -> str:
    """Ingest a run folder when it is new or changed; return its run_id.

    Where too little of the path can be read any more, a usable run that was read from it stays,
    and what the path holds now is a run of its own.
    """
    from trueput.ingest.folders import content_sha256
    from trueput.ingest.run import hash_run, ingest_run

    store = reading.open_store()
    hashes = hash_run(folder)
    digest = content_sha256(hashes)
    run_id = _free_name(store, folder, digest)
    beside = f"{folder.run_id}~{digest[:8]}"
    if not _is_current(store, run_id, digest):
        spares = run_id != beside
        if spares and _is_current(store, beside, digest):
            run_id = beside
        else:
            done = ingest_run(folder, run_id, store, hashes, reading.progress, spare_usable=spares)
            if done.state == "kept":
                reading.note(
                    f"too little of `{folder.root}` can be read: `{run_id}` stays as it was"
                )
                run_id = beside
                ingest_run(folder, run_id, store, hashes, reading.progress)
        if run_id != folder.run_id:
            reading.note(f"`{folder.root}` is kept as `{run_id}`: the name is taken")
    return run_id


def _is_current(store: Store, run_id: str, digest: str) -> bool:
    """Return whether the store holds these bytes under a run_id, read by this reader and whole."""
    held = store.held(run_id)
    if held is None or (held.content_sha256, held.reader_version) != (digest, READER_VERSION):
        return False
    return not store.damaged(held)


def _unknown(name: str, store: Store) -> InputError:
    known = list(store.manifests())
    near = difflib.get_close_matches(name, known, 3)
    if near:
        hint = "did you mean " + " or ".join(f"`{n}`" for n in near) + "?"
    elif known:
        hint = "`trueput runs` lists the runs of the store"
    else:
        hint = f"the store `{store.root}` is empty; give a path, or run `trueput ingest PATH`"
    return InputError(f"`{name}` is neither a path nor a run in the store", hint)


def runs_of(name: str, reading: Reading) -> list[str]:
    """Return the run ids that an argument names: a path (ingested when new) or a run name."""
    if not name.strip():
        raise UsageError("an argument is empty", "name a run or a path")
    path = Path(name)
    if path.exists():
        from trueput.ingest.folders import find_runs

        return [ensure_run(folder, reading) for folder in find_runs(path)]
    if reading.open_store().manifest(name) is not None:
        return [name]
    raise _unknown(name, reading.open_store())


def configuration(argument: str, reading: Reading) -> Configuration:
    """Return one configuration: a run, repeats joined with commas, or a folder of run folders.

    A path that exists wins over splitting at commas.
    """
    if "," not in argument or Path(argument).exists():
        runs = runs_of(argument, reading)
        name = Path(argument).resolve().name if len(runs) > 1 else runs[0]
        return Configuration(name, tuple(dict.fromkeys(runs)))
    parts = [part.strip() for part in argument.split(",")]
    if not all(parts):
        raise UsageError(f"`{argument}`: a name between its commas is empty", "write `a,b`")
    found = [run for part in parts for run in runs_of(part, reading)]
    unique = tuple(dict.fromkeys(found))
    return Configuration(",".join(unique), unique)


def selection(
    store: Store, run_ids: Sequence[str] | None, reading: Reading
) -> tuple[Selection, dict[str, Manifest]]:
    """Return the files of the given runs (all without), with the objective and window in force."""
    if run_ids is None:
        chosen: Mapping[str, Manifest | None] = store.manifests()
    else:
        chosen = {r: store.manifest(r) for r in run_ids}
    manifests: dict[str, Manifest] = {}
    for run_id, manifest in chosen.items():
        if manifest is None:
            raise _unknown(run_id, store)
        manifests[run_id] = _sound(store, manifest)
    files: dict[str, list[Path]] = {}
    root = store.root.resolve()
    for manifest in manifests.values():
        for table, names in manifest.files.items():
            files.setdefault(table, []).extend(root / n for n in names)
    made = Selection(
        files=files,
        slo=reading.objective(),
        slo_origin=reading.slo_origin,
        judging=reading.judging,
        window=parse_window(reading.window),
        mixed=any(m.reader_version != READER_VERSION for m in manifests.values()),
    )
    return made, manifests


def _sound(store: Store, manifest: Manifest) -> Manifest:
    """Return the manifest of a run whose files are all there. Raises StoreError."""
    if not (damaged := store.damaged(manifest)):
        return manifest
    again = store.manifest(manifest.run_id)  # it may have been written anew meanwhile
    if again is None or again == manifest or store.damaged(again):
        raise damaged_run(store, manifest, damaged)
    return again


def damaged_run(store: Store, manifest: Manifest, damaged: Sequence[str]) -> StoreError:
    """Return what to tell of a run of which files of the store are gone or cut."""
    more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    again = "" if manifest.path is None else f": `trueput ingest {manifest.path}`"
    return StoreError(
        f"`{store.root / damaged[0]}`{more}: gone or cut; run `{manifest.run_id}` cannot be read",
        f"ingest it again{again}; questions about other runs alone "
        "are still answered (`trueput sql --run NAME`)",
    )


def open_runs(run_ids: Sequence[str] | None, reading: Reading) -> Warehouse:
    """Open a warehouse on the given runs of the store; on all of them without."""
    made, manifests = selection(reading.open_store(), run_ids, reading)
    rows = sum(sum(m.rows.values()) for m in manifests.values())
    return Warehouse(made, input_rows=rows)
