"""A process that ingests, for tests that kill it or run it beside others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def start(path: Path, store: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start `trueput ingest PATH --store STORE ...` and return its process."""
    import trueput

    root = str(Path(trueput.__file__).resolve().parent.parent)
    return subprocess.Popen(
        [sys.executable, "-m", "trueput", "ingest", str(path), "--store", str(store), *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": root, "POLARS_MAX_THREADS": "1"},
    )
