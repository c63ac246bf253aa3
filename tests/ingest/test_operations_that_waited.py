"""Operations that were launched and began long after, though nothing is shown to run meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest.traces import Answers, Event, Held, of_case

from trueput.attribution.gpu.losses.waits import waited


def pair(number: int, called: int, start: int, **more: Any) -> list[Event]:
    """A call (us) and the operation of 100 us that it launched; the call lasts 5 us."""
    of = {"api": "cudaLaunchKernel", "cat": "kernel", "lasts": 5, "device": 0, "dur": 100} | more
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": of["api"], "pid": 9, "tid": 9, "ts": called,
         "dur": of["lasts"], "args": {"correlation": number}},
        {"ph": "X", "cat": of["cat"], "name": "k", "pid": of["device"], "tid": 7, "ts": start,
         "dur": of["dur"],
         "args": {"device": of["device"], "stream": 7, "correlation": number}},
    ]  # fmt: skip


def every_ms(first: int, last: int) -> list[Event]:
    """A kernel each millisecond, 10 us after its call."""
    return [e for n in range(first, last) for e in pair(n + 1, 1_000 * n, 1_000 * n + 10)]


@dataclass(frozen=True)
class Case:
    """A trace, its gaps and the time that operations waited in them (us, by hand)."""

    events: Sequence[Event]
    gaps_us: int
    waited_us: int = 0
    is_little: bool = False


# kernels from 10 us to 9,110 us, another launched at 9,200 us: 10 of them busy for 100 us each
TEN = every_ms(0, 10)
CASES = {
    "it begins at once": Case([*TEN, *pair(99, 40_000, 40_010)], 40_110 - 10 - 1_100),
    # from the return of its call, at 9,205 us, to its start
    "it was launched before the gap": Case(
        [*TEN, *pair(99, 9_200, 40_000)], 40_100 - 10 - 1_100, waited_us=30_795
    ),
    "a copy was": Case(
        [*TEN, *pair(99, 9_200, 40_000, api="cudaMemcpyAsync", cat="gpu_memcpy")],
        40_100 - 10 - 1_100, waited_us=30_795,
    ),
    "less than a millisecond": Case([*TEN, *pair(99, 9_200, 10_200)], 10_300 - 10 - 1_100),
    # a call that loads the kernel's code first
    "the call itself lasted as long": Case(
        [*TEN, *pair(99, 9_200, 40_000, lasts=30_790)], 40_100 - 10 - 1_100
    ),
    # one kernel of 30 ms on device 1, from 9,300 us on: device 0 is idle. Both are watched
    # from 10 us on, device 1 to its end at 39,300 us
    "another device of the process was busy": Case(
        [*TEN, *pair(98, 9_250, 9_300, device=1, dur=30_000), *pair(99, 9_200, 39_310)],
        (39_410 - 10 - 1_100) + (39_300 - 10 - 30_000),
    ),
    # 2 ms of 501 ms; the gap begins 890 us after the kernel before, with its end
    "one short wait in a long capture": Case(
        [*every_ms(0, 250), *pair(9_999, 249_200, 251_205), *every_ms(252, 500)],
        499_110 - 10 - 499 * 100, waited_us=2_000, is_little=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operation_that_waited_for_nothing(answers: Answers, name: str) -> None:
    case, found = CASES[name], of_case(answers, CASES, name)
    is_lost = case.waited_us > 0 and not case.is_little
    gaps, low = case.gaps_us, case.gaps_us - case.waited_us
    idle = (0, 0, gaps, "bounded") if is_lost else (gaps, low, gaps, "measured")
    if case.is_little:
        idle = (gaps, low, gaps, "bounded")
    assert found["idle"] == [idle]
    assert found["lost"] == [(is_lost,)]
    assert found["basis"] == [(idle[3],)]
    code = "INGEST009" if is_lost else "INGEST013"
    assert found["told"] == ([(code, 1)] if case.waited_us else [])


def write_parts(folder: Path, *apis: str) -> dict[str, Path]:
    """Parts of a file whose second operation was launched 5 ms before it began."""
    told = {"source_id": "f", "process_key": "p", "device_key": "d", "quality": None}
    tables: dict[str, list[dict[str, Any]]] = {
        "busy": [
            {"device_key": "d", "start_at_ns": at, "end_at_ns": at + 1_000} for at in (0, 6_000_000)
        ],
        "ops": [
            {**told, "correlation_id": n, "start_at_ns": at} for n, at in ((1, 0), (2, 6_000_000))
        ],
        "calls": [
            {**told, "api": api, "correlation_id": n, "start_at_ns": at, "end_at_ns": at}
            for n, (api, at) in enumerate(zip(apis, (0, 1_000_000, 500_000), strict=False), 1)
        ],
    }
    for name, rows in tables.items():
        texts = {"source_id", "process_key", "device_key", "quality", "api"}
        columns = {
            c: pa.array([r[c] for r in rows], pa.string() if c in texts else pa.int64())
            for c in rows[0]
        }
        pq.write_table(pa.table(columns), folder / name)
    return {name: folder / name for name in tables}


@pytest.mark.parametrize(
    ("third", "idle"), [("cudaLaunchHostFunc", []), ("cudaLaunchKernel", [5_000_000])]
)
def test_a_host_function_explains_a_wait(tmp_path: Path, third: str, idle: list[int]) -> None:
    parts = write_parts(tmp_path, "cudaLaunchKernel", "cudaLaunchKernel", third)
    found = waited(parts["busy"], [parts["ops"]], [parts["calls"]], ())
    assert [one.idle_ns for one in found] == idle
    assert waited(parts["busy"], [parts["ops"]], [parts["calls"]], ("f",)) == []


def test_a_recorded_step_of_which_the_one_before_was_cut_away(tmp_path: Path) -> None:
    """A kernel launched at 43 us and a copy at 92 us begin at 493 ms; nothing is shown between."""
    from fixture_folder import fixture_folder

    folder = fixture_folder("gpu") / "tracelens"
    name = "inference__sglang_prefilldecode__sglang_Qwen3-8B_prefilldecode.json.gz"
    run = tmp_path / "run"
    run.mkdir()
    (run / name).symlink_to(folder / name)
    held = Held(run)
    time, low, high, basis = held.idle
    assert (time, low, basis) == (0, 0, "bounded")
    assert high == 494_482
    assert held.told["INGEST009"] == 1
