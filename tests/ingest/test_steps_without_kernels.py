"""Steps that ran while a profile shows nothing of them: what it lost is not idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ingest.traces import Answers, Event, Held, of_case, write

STEP_US = 1_000
"""A step a millisecond: annotated for 400 us, with a kernel of 100 us launched at its start."""


def event(cat: str, name: str, at: int, dur: int, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": at, "dur": dur,
            "args": args}  # fmt: skip


def note(n: int, tokens: int = 1, pid: int = 9) -> Event:
    name = f"execute_context_0(0)_generation_{tokens}({tokens})"
    return event("user_annotation", name, n * STEP_US, 400) | {"pid": pid}


def call(n: int, api: str = "cudaLaunchKernel", number: int = 0) -> Event:
    return event("cuda_runtime", api, n * STEP_US + 10, 5, correlation=number or n)


def ran(n: int, cat: str = "kernel", number: int = 0) -> Event:
    more = {"device": 0, "stream": 7, "correlation": number or n}
    return event(cat, "k", n * STEP_US + 20, 100, **more) | {"pid": 0}


def copied(n: int) -> list[Event]:
    """A copy of 10 us, 200 us into the step, with its call."""
    pair = call(n, "cudaMemcpyAsync", 10_000 + n), ran(n, "gpu_memcpy", 10_000 + n)
    return [e | {"ts": e["ts"] + 200, "dur": 10} for e in pair]


def steps(
    numbers: Iterable[int],
    lost: Iterable[int] = (),
    *,
    make: Callable[[int], list[Event]] = lambda n: [call(n), ran(n)],
    left: Callable[[int], list[Event]] = lambda _: [],
) -> list[Event]:
    """Annotated steps; of the lost ones only what `left` makes is there."""
    gone = set(lost)
    return [e for n in numbers for e in (note(n), *(left(n) if n in gone else make(n)))]


@dataclass(frozen=True)
class Case:
    """A trace, its gaps and the idle time beside a few lost steps (us, by hand), and how many
    steps are told to be lost: so many that gaps are not idle, or so few that they are."""

    events: list[Event]
    gaps_us: int
    lost: int = 0
    few: int = 0
    beside_us: int = 0


# of 100 steps: from the first kernel at 1,020 us to the end of the last at 100,120 us
HUNDRED, LONG = range(1, 101), range(1, 1_001)
WHOLE_US = 99_100
CASES = {
    "every step has its kernel": Case(steps(HUNDRED), WHOLE_US - 100 * 100),
    "five steps lost it, and the launch": Case(
        steps(HUNDRED, range(40, 45)), WHOLE_US - 95 * 100, lost=5
    ),
    # from the start of the step, at 500,000 us, to the kernel of the next one at 501,020 us
    "one of a thousand": Case(
        steps(LONG, [500]), 999_100 - 999 * 100, few=1, beside_us=1_020
    ),
    "one of a thousand, before a second without steps": Case(
        steps([*range(1, 501), *range(1_500, 2_000)], [500]), 1_998_100 - 999 * 100, lost=1
    ),
    # from the first kernel, at 1,020 us, to the end of the last copy, at 100,230 us
    "copies are left": Case(
        steps(HUNDRED, range(40, 45), make=lambda n: [call(n), ran(n), *copied(n)], left=copied),
        99_210 - 95 * 100 - 100 * 10, lost=5,
    ),
    "launches are lost, kernels are not": Case(
        steps(HUNDRED, range(40, 45), left=lambda n: [ran(n)]), WHOLE_US - 100 * 100
    ),
    "steps that compute nothing": Case(
        [*steps([*range(1, 40), *range(45, 101)]), *(note(n, tokens=0) for n in range(40, 45))],
        WHOLE_US - 95 * 100,
    ),
    "steps at the ends, before and after all launches": Case(
        [*steps(HUNDRED), *(note(n) for n in (-1, 0, 101, 102))], WHOLE_US - 100 * 100
    ),
    "the first and the last step of a capture that watched longer": Case(
        steps(HUNDRED, [1, 100], left=copied), 99_010 - 98 * 100 - 2 * 10
    ),
    "another process annotates": Case(
        [*(note(n, pid=8) for n in HUNDRED), *(e for n in HUNDRED if n % 50 == 1
                                               for e in (call(n), ran(n)))],
        50 * STEP_US + 100 - 200,
    ),
    "copies alone in annotated steps, of which only the copies were launched": Case(
        steps(HUNDRED, HUNDRED, left=copied), 99_010 - 100 * 10, lost=98
    ),
    "copies alone, without annotations": Case(
        [e for n in HUNDRED for e in copied(n)], 99_010 - 100 * 10
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_annotated_steps_without_a_kernel(answers: Answers, name: str) -> None:
    case, found = CASES[name], of_case(answers, CASES, name)
    gaps = case.gaps_us
    idle = (gaps, gaps - case.beside_us, gaps, "bounded" if case.few else "measured")
    if case.lost:
        idle = (0, 0, gaps, "bounded")
    assert found["idle"] == [idle]
    assert found["basis"] == [(idle[3],)]
    told = {"INGEST009": case.lost, "INGEST013": case.few}
    assert found["told"] == [(code, count) for code, count in told.items() if count]


NOON_NS = 1_764_417_600 * 10**9
"""The log begins at 2025-11-29 12:00:00 UTC: four iterations a second, no two alike."""
A_SECOND = 4


def tokens_of(n: int) -> int:
    return 100 + n


def write_logged(run: Path, iterations: int, *, engines: int = 1) -> None:
    """Write the log of an engine; of several, each with its own iterations."""
    lines = ["INFO 11-29 12:00:00 [api_server.py:1351] vLLM API server version 0.32.0"]
    for n in range(iterations):
        lines += [
            f"(EngineCore_DP{engine} pid={9 + engine}) INFO 11-29 12:00:{n // A_SECOND:02} "
            f"[core.py:338] Iteration({n}): 1 context requests, {tokens_of(n)} context tokens, "
            "0 generation requests, 0 generation tokens, iteration elapsed time: 4.25 ms"
            for engine in range(engines)
        ]
    run.mkdir(parents=True)
    (run / "server.log").write_text("\n".join(lines) + "\n")
    (run / "run.toml").write_text('timezone = "UTC"\nyear = 2025\n')


def traced(
    numbers: Iterable[int], lost: Iterable[int] = (), *, notes: str = "kept", kernels: int = 2
) -> list[Event]:
    """Iterations as a profile shows them: a call and its kernels, 200 ms apart, in each second."""
    gone, events = set(lost), []
    for n in numbers:
        at = n // A_SECOND * 1_000_000 + n % A_SECOND * 200_000
        if (notes == "kept" and n not in gone) or notes == "all":
            name = f"execute_context_1({tokens_of(n)})_generation_0(0)"
            events.append(event("user_annotation", name, at, 40_000))
        if n not in gone or notes == "lost":
            for k in range(kernels):
                number = 10 * n + k + 1
                events.append(call(0, number=number) | {"ts": at + 10 + k})
                events.append(ran(0, number=number) | {"ts": at + 1_000 * (k + 1), "dur": 900})
    return events


@pytest.mark.long(besides=2)
@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param(traced(range(40)), 0, id="all there"),
        pytest.param(traced(range(40), range(12, 20)), 8, id="annotations lost as well"),
        pytest.param(traced(range(40), [*range(5, 8), *range(12, 20)]), 11, id="twice"),
        pytest.param(traced(range(80), range(70, 76)), 6, id="so late that the rest matches"),
        pytest.param(traced(range(40), range(12, 20), notes="lost"), 0, id="annotations alone"),
        pytest.param(traced(range(8, 30)), 0, id="a capture of a part of the log"),
        # nothing from 2.6 to 7.0 s: what is printed as 4 s ran from 3.5 to 5.5 s, 5 s likewise
        pytest.param(traced(range(40), range(12, 28), notes="none"), 8, id="no annotation at all"),
        pytest.param(traced(range(40), range(12, 16), notes="none"), 0, id="too short to be seen"),
        pytest.param(traced(range(40), notes="none"), 0, id="no annotation, and all there"),
    ],
)  # fmt: skip
def test_iterations_that_a_log_prints(tmp_path: Path, events: list[Event], lost: int) -> None:
    run = tmp_path / "run"
    write_logged(run, 80)
    write(run / "t.pt.trace.json", events, baseTimeNanoseconds=NOON_NS)
    held = Held(run)
    assert held.told == ({"INGEST009": lost} if lost else {})
    assert held.rows("SELECT DISTINCT operations_lost FROM gpu_captures") == [(lost > 0,)]


def test_the_work_beside_what_is_lost_is_tied_to_its_iterations(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_logged(run, 40)
    write(run / "t.pt.trace.json", traced(range(40), range(12, 20)), baseTimeNanoseconds=NOON_NS)
    found = Held(run).rows("SELECT step_ix FROM gpu_steps ORDER BY start_at_ns")
    assert found == [(n,) for n in range(40) if n not in range(12, 20)]


def test_of_several_engines_a_profile_may_be_of_the_one_that_rested(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_logged(run, 40, engines=2)
    events = traced(range(40), range(12, 28), notes="none")
    write(run / "t.pt.trace.json", events, baseTimeNanoseconds=NOON_NS)
    assert Held(run).told == {}
