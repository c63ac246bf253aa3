"""What a profile did not record is not idle, and operations without a place make no device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ingest.made import write_log
from ingest.traces import Answers, Event, Held, copy, kernel, launch, launched, of_case, write

from trueput.attribution.gpu.losses.unseen import Launched, unseen_launches


@dataclass(frozen=True)
class Case:
    """A trace, the gaps between its operations (us, by hand), and how many launches ran unseen:
    so many that gaps are not idle, or so few that they are."""

    events: Sequence[Event]
    gaps_us: int
    unseen: int = 0
    few: int = 0
    beside_us: int = 0
    """Idle time beside so few: what was lost may have run there."""
    blind: Mapping[str, int] = field(default_factory=dict)


# 100 launches from 100 us to 10,000 us: from the first kernel to the end of the last 9,960 us
CASES = {
    "every launch has its kernel": Case(launched(range(1, 101), range(1, 101)), 9_960 - 100 * 60),
    # beside it, from its call to the start of the fourth kernel behind it: 410 us, of which three
    # kernels run 180: 230 us, of which 1 % would be a trace of 23 ms
    "one of a hundred has none": Case(
        launched(range(1, 101), [n for n in range(1, 101) if n != 50]), 9_960 - 99 * 60, unseen=1
    ),
    "one of three hundred has none": Case(
        launched(range(1, 301), [n for n in range(1, 301) if n != 150]), 29_960 - 299 * 60, few=1,
        beside_us=230,
    ),
    # two bursts of 100, 1 s apart; the last of the first burst is lost, and may have run for 1 s
    "one of two hundred, before a long gap": Case(
        launched([*range(1, 101), *range(10_000, 10_100)],
                 [*range(1, 100), *range(10_000, 10_100)]),
        10_099 * 100 + 70 - 110 - 199 * 60, unseen=1,
    ),
    "dropped for its time, before a long gap": Case(
        [*launched([*range(1, 101), *range(10_000, 10_100)],
                   [*range(1, 100), *range(10_000, 10_100)]), kernel(100, dur=-9)],
        10_099 * 100 + 70 - 110 - 199 * 60, unseen=1, blind={"KINETO009": 1},
    ),
    "copies without a row": Case(
        [*launched(range(1, 101), range(1, 101)), *(
            launch(n, "cudaMemcpyAsync") | {"args": {"correlation": 500 + n}}
            for n in range(2, 100))],
        9_960 - 100 * 60, unseen=98,
    ),
    # recorded traces have such memsets: of no bytes, or elided by the driver
    "memsets without a row": Case(
        [*launched(range(1, 101), range(1, 101)), *(
            launch(n, "cudaMemsetAsync") | {"args": {"correlation": 500 + n}}
            for n in range(2, 100))],
        9_960 - 100 * 60,
    ),
    "copies alone, and no launch that would tell of kernels": Case(
        [copy(n) for n in range(1, 21)], 1_905 - 20 * 5, unseen=20
    ),
    "copies alone, and only copies were launched": Case(
        [*(launch(n, "cudaMemcpyAsync") | {"args": {"correlation": 10_000 + n}}
           for n in range(1, 21)), *(copy(n) for n in range(1, 21))], 1_905 - 20 * 5
    ),
    "two of a hundred have none": Case(
        launched(range(1, 101), [n for n in range(1, 101) if n not in (50, 51)]),
        9_960 - 98 * 60, unseen=2,
    ),
    "the middle half has none": Case(
        launched(range(1, 101), [*range(1, 26), *range(76, 101)]), 9_960 - 50 * 60, unseen=50
    ),
    # the window is that of the operations: 76 of them, from 2,110 us to 9,670 us
    "none before the first and behind the last": Case(
        launched(range(1, 101), range(21, 97)), 96 * 100 + 70 - 2_110 - 76 * 60
    ),
    # the first launch is made before the first copy begins
    "two copies among launches without a kernel": Case(
        [*launched(range(1, 21), []), copy(1), copy(20)], 1_905 - 10, unseen=19
    ),
    # any of these kernels may be that of any launch
    "kernels without a correlation id": Case(
        [*launched(range(1, 101), []), *(kernel(n, 0) for n in range(1, 101))], 9_960 - 100 * 60
    ),
    "graphs of which most have no kernel": Case(
        launched(range(1, 11), [1, 10], name="cudaGraphLaunch"), 960 - 120, unseen=8
    ),
    # 1 of 51 launches, but half of the graphs, each of which may be a whole step
    "one of two graphs in the middle": Case(
        [*launched(range(1, 101), range(1, 101)), launch(101, "cudaGraphLaunch"), kernel(101),
         kernel(101, name="other"), launch(102, "cudaGraphLaunch"), launch(103), kernel(103)],
        10_260 - 102 * 60, unseen=1,
    ),
    "no graph has a kernel: blind to graphs, as before": Case(
        [*launched(range(1, 11), range(1, 11)), launch(5, "cudaGraphLaunch") | {
            "args": {"correlation": 99}}],
        960 - 600, blind={"KINETO013": 1},
    ),
    "a host function is no launch of the device": Case(
        [*launched(range(1, 11), range(1, 11)), *(
            launch(n, "cudaLaunchHostFunc") | {"args": {"correlation": 50 + n}}
            for n in range(2, 9))],
        960 - 600,
    ),
}  # fmt: skip


OPERATION = ["kind", "process_key", "device_key", "quality", "correlation_id", "start_at_ns",
             "end_at_ns"]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_launches_without_operations(answers: Answers, name: str) -> None:
    case, found = CASES[name], of_case(answers, CASES, name)
    is_floor = bool(case.unseen or "KINETO013" in case.blind)
    low, gaps = case.gaps_us - case.beside_us, case.gaps_us
    idle = (gaps, low, gaps, "bounded" if case.few else "measured")
    if is_floor:
        idle = (0, 0, gaps, "bounded")
    assert found["idle"] == [idle]
    assert found["lost"] == [(case.unseen > 0,)]
    assert found["basis"] == [(idle[3],)]
    told = {"INGEST009": case.unseen, "INGEST013": case.few, **case.blind}
    assert sorted(found["told"]) == [(code, count) for code, count in told.items() if count]


@pytest.mark.long
def test_more_launches_behind_the_last_operation_than_a_queue_holds(tmp_path: Path) -> None:
    """The profiler's buffers were full: 1,024 launches can wait, more cannot."""
    for waiting in (1_024, 1_025):
        run = tmp_path / str(waiting)
        events = launched(range(1, 11 + waiting), range(1, 11))
        events[-1]["dur"] = 110_000  # the device is busy as long as they come
        write(run / "t.pt.trace.json", events)
        assert Held(run).told == ({"INGEST009": waiting} if waiting > 1_024 else {})


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(
    ("launches", "ran", "unseen"),
    [
        # 0.1 ms apart: the tenth kernel ends at 1.06 ms, and the last launch is made at 200 ms
        pytest.param([*range(1, 21), 2_000], range(1, 11), 10, id="the end is lost"),
        pytest.param([*range(1, 21), 1_000], range(1, 11), 0, id="too late to have run"),
        pytest.param([*range(1, 11), *range(2_000, 2_010)], range(2_000, 2_010), 10,
                     id="the beginning is lost"),
        pytest.param([*range(1, 11), *range(900, 910)], range(900, 910), 0,
                     id="just before the device was watched"),
    ],
)  # fmt: skip
def test_launches_to_an_idle_device_at_an_end(
    tmp_path: Path, launches: Iterable[int], ran: Iterable[int], unseen: int
) -> None:
    write(tmp_path / "run" / "t.pt.trace.json", launched(launches, ran))
    assert Held(tmp_path / "run").told == ({"INGEST009": unseen} if unseen else {})


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(("name", "unseen"), [("hipLaunchKernel", 0), ("cudaLaunchKernel", 4)])
def test_a_second_kernel_of_a_launch_is_that_of_another_on_amd(
    tmp_path: Path, name: str, unseen: int
) -> None:
    """Ten launches: the odd ones have two kernels, the even ones none; the last is at the edge."""
    events = launched(range(1, 11), range(1, 11, 2), name=name)
    events += [kernel(n + 1, n) for n in range(1, 11, 2)]
    write(tmp_path / "run" / "t.pt.trace.json", events)
    assert Held(tmp_path / "run").told == ({"INGEST009": unseen} if unseen else {})


@settings(max_examples=examples(40), deadline=None)
@example([(0, False, False), (0, False, True)], 1)  # the unknown operation has the id of the first
@example([(0, False, False), (0, False, True), (1, False, False), (1, False, False)], 1)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 3),
)
def test_counts_are_those_of_looking_at_every_launch(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, bool, bool]], unkeyed: int
) -> None:
    """`calls`: process, whether it is a graph launch, whether it has an operation."""
    folder = tmp_path_factory.mktemp("unseen")
    launches = [
        {"process_key": f"p{p}", "correlation_id": n, "start_at_ns": 10 * n,
         "api": "cuGraphLaunch" if graph else "cuLaunchKernelEx"}
        for n, (p, graph, _) in enumerate(calls, 1)
    ]  # fmt: skip
    ran = [(n, p) for n, (p, _, joined) in enumerate(calls, 1) if joined]
    operations: list[dict[str, Any]] = [
        {"kind": "kernel", "process_key": f"p{p}", "device_key": f"p{p}:0", "quality": None,
         "correlation_id": n, "start_at_ns": 10 * n + 1, "end_at_ns": 10 * n + 5} for n, p in ran
    ]  # fmt: skip
    operations += [
        {"kind": "kernel", "process_key": None, "device_key": "p0:0", "quality": None,
         "correlation_id": 1, "start_at_ns": 300, "end_at_ns": 301}
    ] * unkeyed  # fmt: skip
    types = dict.fromkeys(("kind", "process_key", "device_key", "quality", "api"), pa.string())
    for name, rows in (("ops", operations), ("calls", launches)):
        columns = list(rows[0]) if rows else OPERATION
        table = {c: pa.array([r[c] for r in rows], types.get(c, pa.int64())) for c in columns}
        pq.write_table(pa.table(table), folder / name, row_group_size=7)

    found = unseen_launches(folder / "ops", folder / "calls")
    span = [v for o in operations for v in (o["start_at_ns"], o["end_at_ns"])]
    expected = {False: Launched(), True: Launched()}
    for n, (p, graph, joined) in enumerate(calls, 1):
        others = [10 * m for m, q in ran if q == p] or span
        if others and min(others) <= 10 * n <= max(others):
            expected[graph].launches += 1
            expected[graph].unseen += not joined
    missing = any(not joined for _, _, joined in calls)
    for mine, theirs in ((found.kernels, expected[False]), (found.graphs, expected[True])):
        theirs.unseen = max(0, theirs.unseen - unkeyed)
        assert mine == theirs or (mine == Launched() and not missing)


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(
    ("device", "pid"),
    [({}, ""), ({"device": -1}, -1), ({"device": 2**31 - 1}, 2**31 - 1), ({}, 2**32 - 1)],
)
def test_an_operation_without_a_device_ran_on_the_only_one(
    tmp_path: Path, device: dict[str, int], pid: str | int
) -> None:
    nowhere = kernel(30, pid=pid) | {"args": {**device, "stream": 7, "correlation": 30}}
    write(tmp_path / "run" / "t.pt.trace.json", [*launched(range(1, 31), range(1, 30)), nowhere])
    held = Held(tmp_path / "run")
    # from 110 us to 3,070 us, 30 kernels of 60 us
    assert held.idle == (1_160, 1_160, 1_160, "measured")
    assert held.told == {"INGEST011": 1, "KINETO020": 1}
    assert held.rows("SELECT DISTINCT devices FROM gpu_ledger") == [(1,)]


@pytest.mark.long
def test_of_several_devices_none_is_chosen(tmp_path: Path) -> None:
    """The operation stays and counts nowhere; one of 201 is less than one in a hundred."""
    nowhere = kernel(150, pid="") | {"args": {"stream": 7, "correlation": 150}}
    other = [kernel(n, 1_000 + n) for n in range(1, 101)]
    for event in other:
        event["args"]["device"] = 1
    events = [*(kernel(n) for n in range(1, 101)), *other, nowhere]
    write(tmp_path / "run" / "t.pt.trace.json", events)
    held = Held(tmp_path / "run")
    assert held.told == {"INGEST010": 1, "KINETO020": 1}
    # two devices, each from 110 us to 10,070 us with 100 kernels of 60 us
    assert held.idle == (7_920, 7_920, 7_920, "measured")
    assert held.rows("SELECT DISTINCT devices FROM gpu_ledger") == [(2,)]
    assert held.rows("SELECT count(*) FROM gpu_ops WHERE quality = 'no_device'") == [(1,)]
    assert held.rows("FROM check_gpu_busy") == held.rows("FROM check_gpu_op_totals") == []


AMD = {"deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}]}


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(
    ("told", "api", "length_us", "expected"),
    [
        pytest.param(AMD, "cudaLaunchKernel", 1_600_000, 100, id="AMD by the name of its device"),
        pytest.param({}, "hipLaunchKernel", 1_600_000, 100, id="AMD by its calls"),
        pytest.param(AMD, "hipLaunchKernel", 100_090, 100_090, id="100 ms into the next: legal"),
        pytest.param({}, "cudaLaunchKernel", 1_600_000, 1_600_000, id="overlap is legal on CUDA"),
    ],
)
def test_kernels_of_amd_that_run_on_for_long_are_cut(
    tmp_path: Path, told: dict[str, Any], api: str, length_us: int, expected: int
) -> None:
    """The fourth of ten kernels; the next on its queue starts 100 us after it, others earlier."""
    events = launched(range(1, 11), range(1, 11), name=api)
    events[13]["dur"] = length_us
    beside = kernel(4, 77)
    beside["ts"] += 1
    beside["args"]["stream"] = 8
    write(tmp_path / "run" / "t.pt.trace.json", [*events, beside], **told)
    held = Held(tmp_path / "run")
    is_cut = expected < length_us
    assert held.rows("SELECT max(end_at_ns - start_at_ns) // 1000 FROM gpu_ops") == [(expected,)]
    assert held.rows("SELECT count(*) FROM gpu_ops WHERE quality = 'clipped'") == [(is_cut,)]
    assert held.told.get("INGEST012", 0) == is_cut


@pytest.mark.long
def test_a_trace_written_anew_is_a_copy(tmp_path: Path) -> None:
    run = tmp_path / "run"
    events = launched(range(1, 11), range(1, 11))
    first = write(run / "tp0_rank0.pt.trace.json", events)
    turned = [dict(reversed(e.items())) for e in reversed(events)]
    text = json.dumps({"traceEvents": turned, **json.loads(first.read_text())} | {
        "traceEvents": turned}, indent=3)  # fmt: skip
    (run / "copy_tp0_rank0.pt.trace.json").write_text(text)
    held = Held(run)
    assert held.told == {"ATTR007": 1}
    assert held.rows("SELECT DISTINCT devices FROM gpu_ledger") == [(1,)]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("what", ["stream", "correlation", "device", "dur"])
def test_one_other_field_and_it_is_a_recording_of_its_own(tmp_path: Path, what: str) -> None:
    run = tmp_path / "run"
    for rank in (0, 1):
        events = [kernel(n) for n in range(1, 11)]
        if what == "dur":
            events[5]["dur"] += rank * 0.001
        else:
            events[5]["args"][what] += rank
        write(run / f"rank{rank}.pt.trace.json", events)
    assert Held(run).told == {}


def test_a_rank_whose_clock_is_an_hour_off_is_told(tmp_path: Path) -> None:
    run = tmp_path / "run"
    # the log is of 2025-11-29 12:00:00 UTC and the seconds after it
    write_log(run / "server.log", 20)
    (run / "run.toml").write_text('timezone = "UTC"\nyear = 2025\n')
    noon = 1_764_417_600 * 10**9
    for rank, base in ((0, noon), (1, noon + 3_600 * 10**9)):
        events = [kernel(n * 1_000) for n in range(1, 100)]
        write(run / f"rank{rank}.pt.trace.json", events, baseTimeNanoseconds=base)
    held = Held(run)
    told = held.rows("SELECT source_id, text FROM problems WHERE code = 'ATTR009'")
    assert [source for source, _ in told] == ["rank1.pt.trace.json"]
    assert "after" in told[0][1]
    # what its device did in the window is not known at all
    ledger = "FROM gpu_ledger WHERE work = 'idle'"
    assert held.rows(f"SELECT time_ns_high - time_ns_low = window_ns {ledger}") == [(True,)]
    assert held.rows(f"SELECT basis {ledger}") == [("bounded",)]
    assert held.rows("SELECT basis FROM gpu_idle") == [("bounded",)]
