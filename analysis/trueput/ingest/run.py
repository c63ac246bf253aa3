"""One run: hash, claim, read its files in parallel, attribute, and swap it into the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from trueput.errors import InputError
from trueput.ingest.finish import Ingested, finish
from trueput.ingest.folders import RUN_TOML, RunFolder, UnclaimedError, content_sha256
from trueput.ingest.plan import plan
from trueput.ingest.read_all import Progress, read_all
from trueput.ingest.run_toml import read_run_toml
from trueput.ingest.store import READER_VERSION, Manifest, Store
from trueput.ingest.work import UNREADABLE, Work, hash_run

__all__ = ["PROBLEM_CODES", "Ingested", "Progress", "hash_run", "ingest_run"]

PROBLEM_CODES = {
    "INGEST001": "A reader failed inside a file; what came before the failure is kept.",
    "INGEST002": "No source claims the file; it was not read.",
    "INGEST003": "Two sources are about equally sure of the file; the surer one read it.",
    "INGEST004": "The file changed while it was being read.",
    "INGEST005": "The same bytes stand twice in the run; the copy was not read.",
    "INGEST006": "The file cannot be read (its permissions, or it went away); the rest was.",
    "INGEST007": "Operations with times that cannot be; they are kept, marked, and not counted.",
    "INGEST008": "The file is of a known format and holds no record: it tells nothing.",
    "INGEST009": "Operations are missing, or many count nowhere: gaps are not known to be idle.",
    "INGEST010": "Operations that ran on one of several devices; kept, marked, and not counted.",
    "INGEST011": "Operations without a device or a process: on the only device it can have been.",
    "INGEST012": "Kernels of AMD devices that ran far into their successors; they are cut there.",
    "INGEST013": "A few operations are missing; gaps between the others are taken for idle.",
    "INGEST014": "Operations or samples that stand twice in one file; they count once.",
    "INGEST015": "The run has more GPUs than its profiles show: the others are unattributed.",
    "INGEST016": "Profiles show more devices than the run, or its engine, has.",
    "INGEST018": "A file of kernels without that of its copies: gaps may be copies, not idle time.",
    "INGEST017": "Kernels that end after their successor on a stream began: their ends are lost.",
}


def ingest_run(
    folder: RunFolder,
    run_id: str,
    store: Store,
    hashes: dict[str, str] | None = None,
    progress: Progress | None = None,
    *,
    needs_claim: bool = False,
    replace: bool = False,
    spare_usable: bool = False,
) -> Ingested:
    """Put one run into the store, replacing what it held under this run_id.

    With `needs_claim` a run of which no source claims a file raises UnclaimedError; else it is kept
    as an unusable run that says what was tried. With `spare_usable` such a run does not replace a
    usable one of other bytes: that one stays, and the state is `kept`.

    Same bytes as before, the same reader and all files of the run in place: nothing changes, unless
    `replace` asks for it. A kill at any point leaves the run as it was before. Waits while another
    process writes the same run. Raises OSError, which names the store where it names no file, when
    the store cannot be written.
    """
    with _naming(store.root):
        store.root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(store.lock_path(run_id))
    with lock, _naming(store.root):
        hashes = hashes if hashes is not None else hash_run(folder)
        digest = content_sha256(hashes)
        before = store.held(run_id)
        held = (before.content_sha256, before.reader_version) if before else None
        is_same = held == (digest, READER_VERSION)
        if before and is_same and not replace and not store.damaged(before):
            return Ingested(run_id, "unchanged", len(hashes), ())
        toml = read_run_toml(folder.run_toml())
        work = Work(folder, run_id, store, toml, hashes)
        work.problems += [(RUN_TOML, p) for p in toml.problems]
        tasks = plan(work)
        if needs_claim and UNREADABLE in hashes.values() and not tasks:
            raise InputError(f"`{folder.root}`: cannot be read")
        if needs_claim and not tasks:
            raise UnclaimedError(f"`{folder.root}`: no file of it is of a known format")
        read_all(work, tasks, progress)
        manifest, done = finish(work, digest)
        if spare_usable and before and not done.usable and _is_lost(store, before, digest):
            for name in (n for names in manifest.files.values() for n in names):
                (store.root / name).unlink(missing_ok=True)
            return Ingested(run_id, "kept", len(hashes), ())
        store.commit(manifest)
        return Ingested(
            run_id=run_id,
            state="replaced" if before else "new",
            files=done.files,
            unclaimed=done.unclaimed,
            copies=done.copies,
            rows=done.rows,
            problems=done.problems,
            usable=done.usable,
        )


def _is_lost(store: Store, before: Manifest, digest: str) -> bool:
    """Return whether a usable run of other bytes would be lost if it were replaced."""
    if before.content_sha256 == digest or store.damaged(before):
        return False
    parts = [store.root / name for name in before.files.get("runs", ())]
    try:
        return any(all(pq.read_table(part).column("usable").to_pylist()) for part in parts)
    except (OSError, KeyError, pa.ArrowException):  # no run that can be read
        return False


@contextmanager
def _naming(root: Path) -> Iterator[None]:
    """Let an error of the system that names no file (a full disk) name the store."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(root)) from error
