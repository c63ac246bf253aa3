"""Iterations whose tokens no copy brought to the host: the profile lacks their steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueput.attribution.gpu.losses.uncopied import Uncopied, uncopied

MS = 1_000_000
SECOND = 1_000 * MS
STEPS = 1_500
STEP_NS = 20 * MS
"""Thirty seconds of iterations, each followed by the next."""
ENDS = STEP_NS * np.arange(1, STEPS + 1)


def asked(
    path: Path,
    copied: np.ndarray,
    late_ns: np.ndarray | int = 0,
    names: tuple[str, ...] = ("DtoH",),
) -> Uncopied | None:
    """Iterations printed so long after their end, beside a profile with copies at some instants."""
    rows = [(at, name) for name in names for at in copied.tolist()]
    kernels = [(int(end) - 15 * MS, "k") for end in ENDS]
    table = pa.table(
        {
            "process_key": pa.repeat("p", len(rows) + STEPS),
            "name": [name for _, name in rows + kernels],
            "quality": pa.nulls(len(rows) + STEPS, pa.string()),
            "start_at_ns": [at for at, _ in rows + kernels],
            "end_at_ns": [at + MS for at, _ in rows + kernels],
        }
    )
    pq.write_table(table, path / "ops.parquet", row_group_size=1_000)
    iterations = pa.table(
        {
            "source_id": pa.repeat("log", STEPS),
            "engine": pa.repeat("0", STEPS),
            "logged_at_ns": (ENDS + late_ns) // SECOND * SECOND,
            "generation_tokens": np.ones(STEPS, np.int64),
            "elapsed_ns": np.full(STEPS, STEP_NS),
        }
    )
    return uncopied("profile", path / "ops.parquet", iterations, {})


COPIES = ENDS - 2 * MS


@pytest.mark.parametrize("late_ms", [-400, 0, 400])
def test_a_whole_profile_lacks_nothing_whatever_its_clock(tmp_path: Path, late_ms: int) -> None:
    assert asked(tmp_path, COPIES, late_ms * MS) is None


def test_lines_may_be_late_now_and_then(tmp_path: Path) -> None:
    late = np.where(np.arange(STEPS) % 500 < 250, 450 * MS, 0)
    assert asked(tmp_path, COPIES, late) is None


@pytest.mark.parametrize("every", [5, 10, 20])
def test_what_is_told_is_no_more_than_what_is_missing(tmp_path: Path, every: int) -> None:
    """The edges of the stretch that is looked at cost up to two seconds of copies."""
    missing = STEPS // every
    found = asked(tmp_path, COPIES[np.arange(STEPS) % every > 0])
    assert found is not None
    assert max(0, missing - 2 * SECOND // STEP_NS) <= found.lost <= missing
    assert found.time_ns == found.lost * STEP_NS
    assert found.steps <= STEPS


@pytest.mark.parametrize(
    ("copied", "names"),
    [
        pytest.param(COPIES[::8], ("DtoH",), id="tokens of eight iterations at once"),
        pytest.param(COPIES[:0], ("DtoH",), id="no copy at all"),
        pytest.param(COPIES[::2], ("DtoH", "Memcpy DtoH (Device -> Pinned)"), id="several copies"),
        pytest.param(COPIES[::2], ("DtoH", "HtoD"), id="every second iteration"),
    ],
)
def test_an_engine_that_copies_otherwise_proves_nothing(
    tmp_path: Path, copied: np.ndarray, names: tuple[str, ...]
) -> None:
    assert asked(tmp_path, copied, names=names) is None
