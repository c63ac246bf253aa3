"""Where the recorded runs are, and a store of them that all workers of a session share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from fixture_folder import fixture_folder

from trueput.verbs.ingest import ingest

RUNS = (
    "aiperf", "baseline_high", "baseline_low", "candidate_high", "candidate_overload_truth",
    "control_baseline", "control_candidate", "errors_debug", "guidellm", "prefix_cache",
    "regress_baseline", "regress_baseline_r2", "regress_candidate", "regress_candidate_truth",
    "torch_profile",
)  # fmt: skip
"""Every recorded vLLM run."""


def fixtures_root() -> Path:
    """Return the folder of fixtures; skip without one, fail where one is required."""
    return fixture_folder("vllm_cpu").parent


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder of the session, the same for all its workers."""
    base = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent
    folder = base / name
    folder.mkdir(exist_ok=True)
    return folder


def shared_store(factory: pytest.TempPathFactory, name: str, paths: Sequence[Path]) -> Path:
    """Return a store with the runs at `paths`, ingested by whichever worker comes first."""
    base = shared_folder(factory, "stores")
    made = base / name
    with FileLock(f"{made}.lock"):
        if not made.exists():
            scratch = base / f"{name}.new"
            ingest(list(paths), store=scratch)
            scratch.rename(made)
    return made
