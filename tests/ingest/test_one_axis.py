"""Profiles of one run: impossible times, copies, and clocks that nothing ties together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from ingest.made import write_log

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.show import show
from trueput.verbs.sql import sql

MS, SECOND, DAY = 10**6, 10**9, 86_400 * 10**9
BASE_NS = 1_767_189_312_000_000_000
HEADER = "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp"

Span = tuple[int, int, int]
"""Device, start and length (ns)."""

STEPS: Sequence[Span] = [(0, 0, 3 * MS), (0, 10 * MS, 2 * MS), (0, 20 * MS, 7 * MS)]


def kineto(path: Path, spans: Sequence[Span], base_ns: int | None = BASE_NS) -> None:
    """Write kernels as PyTorch does; without a base they count from an unknown zero."""
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": device, "tid": 7, "ts": at / 1000 + 5,
         "dur": length / 1000, "args": {"device": device, "stream": 7, "correlation": number}}
        for number, (device, at, length) in enumerate(spans, 1)
    ]  # fmt: skip
    told = {"schemaVersion": 1, "traceEvents": events}
    if base_ns is not None:
        told["baseTimeNanoseconds"] = base_ns
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))


def rocprof(path: Path, spans: Sequence[Span], up_ns: int = 500 * SECOND) -> None:
    """Write kernels as rocprofv3 does, on the clock of a machine that has been up so long."""
    rows = [
        f"KERNEL_DISPATCH,Agent {device},1,other,{number},{up_ns + at},{up_ns + at + length}"
        for number, (device, at, length) in enumerate(spans, 1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([HEADER, *rows, ""]))


class Held:
    """What a store holds of the run that was just put into it."""

    def __init__(self, run: Path) -> None:
        self.how = Reading(store=run.parent / "store")
        ingest([run], store=self.how.store)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Answer a query."""
        return sql(f"SELECT * FROM ({query}) ORDER BY ALL", self.how).rows

    @property
    def windows(self) -> list[tuple[object, ...]]:
        """Window and devices of the ledger, and whether every view can be computed."""
        for check in ("check_ledger_sums", "check_gpu_busy", "check_gpu_op_totals"):
            assert self.rows(f"FROM {check}") == []
        show(self.rows("SELECT run_id FROM runs")[0][0], self.how)  # type: ignore[arg-type]
        return self.rows("SELECT DISTINCT window_ns, devices FROM gpu_ledger")

    @property
    def busy(self) -> list[tuple[object, ...]]:
        """Busy time of each device."""
        return self.rows("SELECT device, value FROM gpu_activity WHERE metric = 'kernel_union'")

    @property
    def told(self) -> list[tuple[object, ...]]:
        """File, code and count of each problem that is not about a missing base."""
        return self.rows(
            "SELECT source_id, code, occurrences FROM problems WHERE code NOT IN ('KINETO016')"
        )


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param((3, 1 * MS, 1_500_000_000 * SECOND), id="lasts for 47 years"),
        pytest.param((3, 1 * MS, 1_000 * SECOND), id="lasts 60000 times as long as all others"),
        pytest.param((3, 4_000 * DAY, 1 * MS), id="eleven years later"),
        pytest.param((3, -4_000 * DAY, 1 * MS), id="eleven years earlier"),
    ],
)
def test_impossible_times_are_kept_and_counted_nowhere(tmp_path: Path, broken: Span) -> None:
    # by hand: each of 8 devices runs 0..1 ms and 15..16 ms, so the window is 16 ms
    sound = [(device, at * MS, 1 * MS) for device in range(8) for at in (0, 15)]
    kineto(tmp_path / "run" / "t.pt.trace.json", [*sound, broken])
    held = Held(tmp_path / "run")
    assert held.windows == [(16 * MS, 8)]
    assert held.busy == [(device, 2.0 * MS) for device in range(8)]
    # one of 17 is more than one in a hundred: what ran in its place is not known to be idle
    assert held.told == [("t.pt.trace.json", "INGEST007", 1), ("t.pt.trace.json", "INGEST009", 1)]
    assert held.rows(
        "SELECT count(*), count(*) FILTER (quality = 'implausible'), "
        f"count(*) FILTER (end_at_ns - start_at_ns = {broken[2]} AND quality = 'implausible') "
        "FROM gpu_ops"
    ) == [(17, 1, 1)]


@pytest.mark.long
def test_long_operations_that_can_be_are_counted(tmp_path: Path) -> None:
    """A collective that hangs for ten minutes beside a second of other work."""
    spans = [(0, 0, 1 * MS), (0, 999 * MS, 1 * MS), (0, 10 * MS, 600 * SECOND)]
    kineto(tmp_path / "run" / "t.pt.trace.json", spans)
    held = Held(tmp_path / "run")
    assert held.windows == [(600 * SECOND + 10 * MS, 1)]
    assert "INGEST007" not in [code for _, code, _ in held.told]


@pytest.mark.long
def test_device_time_beyond_64_bits_is_no_ledger_and_no_crash(tmp_path: Path) -> None:
    """Half of the operations lie a century from the others: nothing says which half is right."""
    century = 36_500 * DAY
    spans = [(device, at, 1 * MS) for device in range(8) for at in (0, century)]
    kineto(tmp_path / "run" / "t.pt.trace.json", spans)
    held = Held(tmp_path / "run")
    assert held.windows == []
    assert held.rows("FROM gpu_idle") == []
    assert held.busy == [(device, 2.0 * MS) for device in range(8)]


@pytest.mark.long
def test_files_on_clocks_that_nothing_ties(tmp_path: Path) -> None:
    """Two devices on the machine's own clock, one on UTC: the larger group is counted."""
    run = tmp_path / "run"
    rocprof(run / "5_kernel_trace.csv", [(1, 0, 4 * MS), (2, 5 * MS, 5 * MS)])
    kineto(run / "rank0.pt.trace.json", STEPS)
    held = Held(run)
    assert held.windows == [(10 * MS, 2)]
    assert held.busy == [(1, 4.0 * MS), (2, 5.0 * MS)]
    assert held.told == [
        ("5_kernel_trace.csv", "INGEST018", 1),
        ("rank0.pt.trace.json", "ATTR008", 1),
    ]
    (text,) = held.rows("SELECT text FROM problems WHERE code = 'ATTR008'")[0]
    assert "`rank0.pt.trace.json`" in str(text)
    assert "`5_kernel_trace.csv`" in str(text)
    assert held.rows("SELECT source_id, quality, count(*) FROM gpu_ops GROUP BY ALL") == [
        ("5_kernel_trace.csv", None, 2),
        ("rank0.pt.trace.json", "other_clock", 3),
    ]


def test_anchors_tie_clocks(tmp_path: Path) -> None:
    run = tmp_path / "run"
    rocprof(run / "5_kernel_trace.csv", [(1, 0, 4 * MS), (2, 5 * MS, 5 * MS)])
    kineto(run / "rank0.pt.trace.json", STEPS)
    (run / "run.toml").write_text(
        f"[[clock_anchors]]\nunix = {BASE_NS // SECOND}.0\nmonotonic = 500.0\n"
    )
    held = Held(run)
    # by hand: Kineto's events begin 5 us after its base, so 0 to 27.005 ms, on three devices
    assert held.windows == [(27 * MS + 5_000, 3)]
    assert held.told == [("5_kernel_trace.csv", "INGEST018", 1)]


def test_requests_take_the_profile_that_can_be_laid_beside_them(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_log(run / "server.log")
    rocprof(run / "5_kernel_trace.csv", [(1, 0, 4 * MS), (2, 5 * MS, 5 * MS)])
    kineto(run / "rank0.pt.trace.json", STEPS)
    held = Held(run)
    assert ("5_kernel_trace.csv", "ATTR008", 1) in held.told
    assert held.rows("SELECT DISTINCT device_key FROM gpu_busy") == [("rank0:0",)]


@pytest.mark.long
def test_recordings_of_other_days_are_not_one_window(tmp_path: Path) -> None:
    run = tmp_path / "run"
    kineto(run / "rank0.pt.trace.json", [*STEPS, (0, 40 * MS, 1 * MS)])
    kineto(run / "rank1.pt.trace.json", STEPS, BASE_NS + 3 * DAY)
    held = Held(run)
    assert held.windows == [(41 * MS, 1)]
    assert held.told == [("rank1.pt.trace.json", "ATTR008", 1)]


@pytest.mark.long
def test_one_recording_in_two_formats_is_counted_once(tmp_path: Path) -> None:
    """Other names, devices and clocks; the times agree to the rounding."""
    run = tmp_path / "run"
    rocprof(run / "5_kernel_trace.csv", [(2, at + 300, length) for _, at, length in STEPS])
    kineto(run / "rank0.pt.trace.json", STEPS)
    held = Held(run)
    assert held.windows == [(27 * MS, 1)]
    assert held.busy == [(0, 12.0 * MS)]
    assert held.told == [("5_kernel_trace.csv", "ATTR007", 1)]
    (text,) = held.rows("SELECT text FROM problems WHERE code = 'ATTR007'")[0]
    assert "`5_kernel_trace.csv`" in str(text)
    assert "`rank0.pt.trace.json`" in str(text)
    assert held.rows("SELECT source_id, quality, count(*) FROM gpu_ops GROUP BY ALL") == [
        ("5_kernel_trace.csv", "copy", 3),
        ("rank0.pt.trace.json", None, 3),
    ]


@pytest.mark.long
def test_a_kernel_of_another_length_is_no_copy(tmp_path: Path) -> None:
    run = tmp_path / "run"
    rocprof(run / "5_kernel_trace.csv", [(2, at, length + 3_000) for _, at, length in STEPS])
    rocprof(run / "later" / "6_kernel_trace.csv", STEPS)
    held = Held(run)
    kernels = ["5_kernel_trace.csv", "later/6_kernel_trace.csv"]
    assert held.told == [(file, "INGEST018", 1) for file in kernels]
    assert held.windows == [(27 * MS + 3_000, 2)]


def test_ranks_that_run_in_step_are_no_copies(tmp_path: Path) -> None:
    """Two ranks with kernels of the same times on their own devices."""
    run = tmp_path / "run"
    for rank in (0, 1):
        kineto(run / f"rank{rank}.pt.trace.json", [(rank, at, length) for _, at, length in STEPS])
    held = Held(run)
    assert held.told == []
    assert held.windows == [(27 * MS, 2)]
    assert held.busy == [(0, 12.0 * MS), (1, 12.0 * MS)]
