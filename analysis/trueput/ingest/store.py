"""The store on disk: where a run's Parquet files lie, and how a run appears whole or not at all.

    <store>/<table>/<encoded run_id>/<encoded source>-<generation>-<part>.parquet
    <store>/_runs/<encoded run_id>.json        manifest: names the run's current files
    <store>/_locks/<encoded run_id>.lock       held while the run is being written

Files are written first; the rename of the manifest makes the run current. Files that no manifest
names are remains of a killed or replaced ingest and are swept once they are old enough that no
reader can still be using them, by the next ingest of any run.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock, Timeout

from trueput.errors import StoreError

STORE_FORMAT = 1
READER_VERSION = "14"
"""Raised when the same bytes would give other rows or columns."""
SWEEP_AFTER_S = 900
_MANIFESTS = "_runs"
_LOCKS = "_locks"


def encode(name: str) -> str:
    """Return `name` as one safe path component; different names give different components."""
    text = quote(name, safe="+=,@ ")
    if text.startswith((".", "_")):
        text = f"%{ord(text[0]):02X}{text[1:]}"
    if len(text) > 120:
        text = text[:80] + "~" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
    return text or "%00"


class DamagedManifestError(StoreError):
    """A manifest is no JSON, or not what a manifest holds."""


@dataclass(frozen=True)
class Manifest:
    """What the store knows of one run without opening Parquet."""

    run_id: str
    content_sha256: str
    reader_version: str
    path: str | None
    files: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    """File -> bytes; nothing of what an older version wrote."""
    format: int = STORE_FORMAT


class Store:
    """One store folder, there or not yet.

    Raises StoreError where something else has its name.
    """

    def __init__(self, root: Path) -> None:
        if root.exists() and not root.is_dir():
            raise StoreError(
                f"`{root}`: a store is a folder, and this is none",
                "name a folder with --store or in TRUEPUT_STORE",
            )
        self.root = root

    def manifests(self) -> dict[str, Manifest]:
        """Return the manifests of all runs, sorted by run_id."""
        folder = self.root / _MANIFESTS
        found = {}
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            manifest = _read_manifest(path)
            if manifest is not None:
                found[manifest.run_id] = manifest
        return dict(sorted(found.items()))

    def manifest(self, run_id: str) -> Manifest | None:
        """Return the manifest of one run, None if the store does not hold it."""
        return _read_manifest(self.root / _MANIFESTS / f"{encode(run_id)}.json")

    def held(self, run_id: str) -> Manifest | None:
        """Return the manifest of a run that is about to be written; None also where it is damaged,
        so that the run can be written again."""
        try:
            return self.manifest(run_id)
        except DamagedManifestError:
            return None

    def table_folder(self, table: str, run_id: str) -> Path:
        """Return the folder of one table's files for one run."""
        return self.root / table / encode(run_id)

    def lock_path(self, run_id: str) -> Path:
        """Return the lock file of a run, with its folder made."""
        folder = self.root / _LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{encode(run_id)}.lock"

    def sizes_of(self, files: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Return the size of every file of a run, by its name in the store."""
        return {n: (self.root / n).stat().st_size for names in files.values() for n in names}

    def damaged(self, manifest: Manifest) -> list[str]:
        """Return the files of a run that are gone or not as long as they were written.

        Cheap: nothing is opened where the manifest holds sizes. Where an older version wrote none,
        a table that holds other than its count of rows is told by its first file.
        """
        found = []
        for name in (n for names in manifest.files.values() for n in names):
            try:
                size = (self.root / name).stat().st_size
            except OSError:
                found.append(name)
                continue
            if manifest.sizes.get(name, size) != size:
                found.append(name)
        for table, names in manifest.files.items():
            if names and not manifest.sizes.keys() & names and not {*found} & {*names}:
                rows = manifest.rows.get(table)
                if rows is not None and _count_rows([self.root / name for name in names]) != rows:
                    found.append(names[0])
        return found

    def commit(self, manifest: Manifest) -> None:
        """Make `manifest` the current state of its run (atomic)."""
        folder = self.root / _MANIFESTS
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{encode(manifest.run_id)}.json"
        scratch = target.with_suffix(f".{os.getpid()}.tmp")
        text = json.dumps(asdict(manifest), indent=1, sort_keys=True, ensure_ascii=True)
        with scratch.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(target)

    def sweep(self, now: float | None = None) -> int:
        """Remove old files that no manifest names, of all runs; return how many.

        They are remains of killed and of replaced ingests. A run that is being written is left
        alone, and so is what is younger than SWEEP_AFTER_S: a reader may be using it.
        """
        limit = (now if now is not None else time.time()) - SWEEP_AFTER_S
        return sum(
            self._sweep_run(encoded, paths, limit)
            for encoded, paths in sorted(self._unnamed(limit).items())
        )

    def _unnamed(self, limit: float) -> dict[str, list[Path]]:
        """Return old files that no manifest names, by the encoded run."""
        try:
            manifests = self.manifests().values()
        except StoreError:  # what a damaged manifest names is not known
            return {}
        named = {n for m in manifests for names in m.files.values() for n in names}
        found: dict[str, list[Path]] = {}
        for table in self.root.iterdir() if self.root.is_dir() else ():
            if not table.is_dir() or table.name == _LOCKS:
                continue
            for path in table.glob("*.tmp" if table.name == _MANIFESTS else "*/*"):
                run = path.stem.rpartition(".")[0] if table.name == _MANIFESTS else path.parent.name
                if path.relative_to(self.root).as_posix() not in named and _is_older(path, limit):
                    found.setdefault(run, []).append(path)
        return found

    def _sweep_run(self, encoded: str, paths: Sequence[Path], limit: float) -> int:
        """Remove files of one run, unless it is being written."""
        lock = FileLock(self.root / _LOCKS / f"{encoded}.lock", timeout=0)
        try:
            (self.root / _LOCKS).mkdir(exist_ok=True)
            with lock:
                manifest = _read_manifest(self.root / _MANIFESTS / f"{encoded}.json")
                kept = {n for names in manifest.files.values() for n in names} if manifest else ()
                removed = 0
                for path in paths:
                    name = path.relative_to(self.root).as_posix()
                    if name not in kept and _is_older(path, limit):
                        path.unlink(missing_ok=True)
                        removed += 1
                return removed
        except (Timeout, OSError, StoreError):
            return 0


def _count_rows(paths: Sequence[Path]) -> int | None:
    """Return how many rows Parquet files hold by their footers; None where one cannot be read."""
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        return sum(pq.read_metadata(path).num_rows for path in paths)
    except (ArrowException, OSError):
        return None


def _is_older(path: Path, limit: float) -> bool:
    try:
        return path.is_file() and path.stat().st_mtime < limit
    except OSError:
        return False


def _read_manifest(path: Path) -> Manifest | None:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path}: the manifest cannot be read ({error})") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(raw, dict):
        raise _damaged(path, "no object")
    if raw.get("format") != STORE_FORMAT:
        raise StoreError(
            f"{path}: store format {raw.get('format')}, this trueput reads {STORE_FORMAT}",
            hint="ingest again into a new store, or use the trueput that wrote it",
        )
    try:
        return Manifest(**raw)
    except TypeError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> DamagedManifestError:
    text = f"`{path}`: the manifest is damaged ({why})"
    return DamagedManifestError(text, "ingest its run again, or remove the file and lose the run")
