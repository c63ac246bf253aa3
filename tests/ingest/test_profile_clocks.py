"""Profiles whose clock is not that of the engine's log, or of another rank."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from fixture_folder import fixture_folder
from ingest.made import write_log
from ingest.traces import Held, kernel, launch, write

NOON_NS = 1_764_417_600 * 10**9
"""The log begins at 2025-11-29 12:00:00 UTC: a request a second, three iterations each."""
REQUESTS = 8


def write_rank(run: Path, rank: int, late_s: float = 0, *, shuffled: bool = False) -> None:
    """Write steps that end 0.3, 0.4 and 0.5 s into the second that the log prints."""
    events = []
    for second in range(REQUESTS):
        for i in range(3):
            number = 3 * second + i + 1
            at = 1_000_000 * second + 300_000 + 100_000 * i - 4_000
            first = i == 0
            context = f"{int(first)}({32 * int(first)})"
            name = f"execute_context_{context}_generation_{int(not first)}({int(not first)})"
            if shuffled:
                name = f"execute_context_0(0)_generation_{number}({number})"
            note = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 9, "tid": 9,
                    "ts": at, "dur": 4_000, "args": {}}  # fmt: skip
            call, ran = launch(number), kernel(number)
            events += [note, call | {"ts": at + 10}, ran | {"ts": at + 20, "dur": 3_000}]
    base = NOON_NS + round(late_s * 1e9)
    write(run / f"rank{rank}.pt.trace.json", events, baseTimeNanoseconds=base)


def told(run: Path, *ranks: float, shuffled: bool = False) -> list[tuple[str, str, str]]:
    """File, code and text of what is told of the clocks of ranks that are so late (s)."""
    write_log(run / "server.log", REQUESTS)
    (run / "run.toml").write_text('timezone = "UTC"\nyear = 2025\n')
    for rank, late in enumerate(ranks):
        write_rank(run, rank, late, shuffled=shuffled)
    rows = Held(run).rows(
        "SELECT source_id, code, text FROM problems WHERE code IN ('ATTR010', 'ATTR011') ORDER BY 1"
    )
    return [(str(source), str(code), str(text)) for source, code, text in rows]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("late", [0.0, 0.45, -0.75])
def test_what_whole_seconds_leave_open_is_not_told(tmp_path: Path, late: float) -> None:
    assert told(tmp_path / "run", late, late) == []


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(
    ("late", "words"),
    [
        # the last of the three steps ends 0.5 s into its second: a clock may be 0.5 s early unseen
        pytest.param(5.0, "lie 4.50 s or more later than the same steps in the log", id="late"),
        pytest.param(-3.0, "lie 2.50 s or more earlier than the same steps in the log", id="early"),
    ],
)
def test_a_profile_off_the_clock_of_the_log(tmp_path: Path, late: float, words: str) -> None:
    (problem,) = told(tmp_path / "run", late)
    assert problem[:2] == ("rank0.pt.trace.json", "ATTR010")
    assert words in problem[2]


@pytest.mark.long
def test_a_rank_off_the_clock_of_another_by_less_than_the_log_can_show(tmp_path: Path) -> None:
    (problem,) = told(tmp_path / "run", 0.0, 0.3, 0.1)
    assert problem[:2] == ("rank1.pt.trace.json", "ATTR010")
    assert "lie 300 ms later than the same steps in `rank0.pt.trace.json`" in problem[2]


def test_a_profile_outside_of_the_log_is_told_once(tmp_path: Path) -> None:
    assert told(tmp_path / "run", 3_600.0) == []


@pytest.mark.long
def test_times_from_an_unknown_zero_contradict_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_rank(run, 0)
    path = run / "rank0.pt.trace.json"
    path.write_text(path.read_text().replace("baseTimeNanoseconds", "base"))
    write_log(run / "server.log", REQUESTS)
    assert "ATTR010" not in Held(run).told


def test_steps_that_are_no_iterations_of_the_log(tmp_path: Path) -> None:
    (problem,) = told(tmp_path / "run", 5.0, shuffled=True)
    assert problem[:2] == ("rank0.pt.trace.json", "ATTR011")
    # the first begins 296 ms into the fifth second after the first that is printed
    assert "5.30 s after the first printed iteration" in problem[2]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("late", [0.05, 0.3, 5.0, -3.0])
def test_what_is_off_the_clock_measures_nothing_in_the_window(tmp_path: Path, late: float) -> None:
    """Two ranks, the second so late (s): of the first all is known as before."""
    run = tmp_path / "run"
    write_log(run / "server.log", REQUESTS)
    (run / "run.toml").write_text('timezone = "UTC"\nyear = 2025\n')
    write_rank(run, 0)
    write_rank(run, 1, late)
    held = Held(run)
    is_off = abs(late) > 0.2
    captures = "SELECT coalesce(off_clock, false) FROM gpu_captures ORDER BY source_id"
    assert held.rows(captures) == [(False,), (is_off,)]
    unions = "SELECT device, basis FROM gpu_activity WHERE metric = 'kernel_union' ORDER BY device"
    bases = ["measured", "bounded" if is_off else "measured"]
    assert [basis for _, basis in held.rows(unions)] == bases
    (idle,) = held.rows("SELECT time_ns_high, window_ns, basis FROM gpu_ledger WHERE work = 'idle'")
    assert idle[2] == ("bounded" if is_off else "measured")
    if is_off:
        assert idle[0] >= idle[1]  # of the second rank all of it may be
    (source,) = held.rows("SELECT best_basis FROM evidence WHERE question = 'GPU activity'")
    assert source == ("bounded" if is_off else "measured",)


def test_a_recorded_profile_is_the_stretch_of_the_log_that_took_as_long(tmp_path: Path) -> None:
    """90 steps in the midst of 2,259: when each was printed and how long it took agree."""
    run = tmp_path / "run"
    shutil.copytree(fixture_folder("vllm_cpu") / "torch_profile", run)
    steps = Held(run).rows(
        "SELECT g.step_ix - g.gpu_step_ix, g.end_at_ns - g.start_at_ns, t.elapsed_ns,"
        " g.end_at_ns - t.logged_at_ns FROM raw.gpu_steps AS g JOIN raw.engine_steps AS t"
        " ON t.run_id = g.run_id AND t.step_ix = g.step_ix"
    )
    assert len(steps) == 90
    assert len({shift for shift, *_ in steps}) == 1
    took, printed = np.array(steps)[:, 1:3].T
    assert np.corrcoef(took, printed)[0, 1] > 0.99
    assert all(0 <= late < 1_000_000_000 for *_, late in steps)
