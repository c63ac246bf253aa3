"""The store on disk: where a run's Parquet files lie, and how a run appears whole or not at all.

    <store>/<table>/<encoded run_id>/<encoded source>-<generation>-<part>.parquet
    <store>/_runs/<encoded run_id>.json        manifest: names the run's current files
    <store>/_locks/<encoded run_id>.lock       held while the run is being written

Files are written first; the rename of the manifest makes the run current. Files that no manifest
names are remains of a killed or replaced ingest and are swept once they are old enough that no
reader can still be using them.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from trueput.errors import StoreError

STORE_FORMAT = 1
READER_VERSION = "5"
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


@dataclass(frozen=True)
class Manifest:
    """What the store knows of one run without opening Parquet."""

    run_id: str
    content_sha256: str
    reader_version: str
    path: str | None
    files: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
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

    def table_folder(self, table: str, run_id: str) -> Path:
        """Return the folder of one table's files for one run."""
        return self.root / table / encode(run_id)

    def lock_path(self, run_id: str) -> Path:
        """Return the lock file of a run, with its folder made."""
        folder = self.root / _LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{encode(run_id)}.lock"

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

    def sweep(self, run_id: str, now: float | None = None) -> int:
        """Remove old files of a run that its manifest does not name; return how many.

        The caller holds the run's lock.
        """
        manifest = self.manifest(run_id)
        named = {n for names in manifest.files.values() for n in names} if manifest else set()
        limit = (now if now is not None else time.time()) - SWEEP_AFTER_S
        removed = 0
        for folder in self.root.glob(f"*/{_glob_escape(encode(run_id))}"):
            for path in folder.glob("*.parquet"):
                relative = path.relative_to(self.root).as_posix()
                if relative not in named and path.stat().st_mtime < limit:
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed


def _glob_escape(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _read_manifest(path: Path) -> Manifest | None:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: the manifest cannot be read ({error})") from error
    if raw.get("format") != STORE_FORMAT:
        raise StoreError(
            f"{path}: store format {raw.get('format')}, this trueput reads {STORE_FORMAT}",
            hint="ingest again into a new store, or use the trueput that wrote it",
        )
    return Manifest(**raw)
