"""The page of one run: its figures keep their order."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from typing import Any

import pytest
from rich.console import Console

from trueput.cli.commands.runs import _complete
from trueput.cli.pages.show.activity import draw_activity
from trueput.cli.pages.show.ledger import draw_ledger
from trueput.cli.pages.show.recompute import draw_recompute
from trueput.cli.pages.show.requests import _claim, draw_outcomes
from trueput.cli.pages.show_page import draw


@pytest.mark.parametrize(
    ("answered", "complete", "good", "unknown", "shown"),
    [
        ((120, 120), (0, 120), (0, 120), 120, ["120", "120", "120", "0 to 120", "0 to 120"]),
        ((50, 70), (40, 60), (30, 50), 20, ["120", "120", "50 to 70", "40 to 60", "30 to 50"]),
        ((120, 120), (120, 120), (120, 120), 0, ["120", "120", "120", "120", "120"]),
    ],
)
def test_no_count_exceeds_the_one_before(
    answered: tuple[int, int],
    complete: tuple[int, int],
    good: tuple[int, int],
    unknown: int,
    shown: list[str],
) -> None:
    row: dict[str, Any] = defaultdict(lambda: None)
    row |= {"window_rule": "all", "basis": "bounded", "planned_requests": 120,
            "sent_requests": 120, "unknown_requests": unknown}  # fmt: skip
    for name, (low, high) in {"answered": answered, "complete": complete, "good": good}.items():
        row |= {f"{name}_requests_low": low, f"{name}_requests_high": high}
        row |= {f"{name}_requests": low if low == high else None}
    out = io.StringIO()
    draw_outcomes(Console(file=out, width=160), row)
    (counts,) = [line for line in out.getvalue().splitlines() if line.strip().startswith("120")]
    assert re.split(r"\s{2,}", counts.strip()) == shown


@pytest.mark.parametrize(
    ("claimed", "bounds", "basis", "word"),
    [
        (60, (60, 60), "measured", "the same"),
        (59, (60, 60), "measured", "NOT the same"),
        (60, (55, 75), "bounded", "the other records leave it open"),
        (80, (55, 75), "bounded", "NOT the same"),
        (60, (60, 60), "reported", "no other record here checks it"),
        # nobody checks the client, and yet it contradicts itself
        (59, (60, 60), "reported", "NOT the same as its own records"),
        (59, (None, None), "reported", "no other record here checks it"),
    ],
)
def test_what_the_client_claims_is_held_against_the_bounds(
    claimed: int, bounds: tuple[int | None, int | None], basis: str, word: str
) -> None:
    row = {"client_claimed_complete_requests": claimed, "basis": basis, "window_rule": "all",
           "complete_requests_low": bounds[0], "complete_requests_high": bounds[1]}  # fmt: skip
    out = io.StringIO()
    _claim(Console(file=out, width=160), row)
    assert out.getvalue().strip() == f"the client claims {claimed} complete: {word}"


@pytest.mark.parametrize(
    ("bounds", "planned", "shown"),
    [
        ((60, 60), 60, "60 of 60"),
        ((0, 60), 60, "0 to 60 of 60"),
        ((44, 44), None, "44"),  # counters alone say how many ended, not how many were to
        ((None, None), 60, None),
    ],
)
def test_runs_shows_what_is_complete_as_far_as_files_tell(
    bounds: tuple[int | None, int | None], planned: int | None, shown: str | None
) -> None:
    row = {"complete_requests_low": bounds[0], "complete_requests_high": bounds[1]}
    assert _complete({**row, "planned_requests": planned}) == shown


ON_GPUS, ON_RANKS = [{"are_gpus": True}], [{"are_gpus": False}]


def ledger_page(basis: str, time_ns: int, high_ns: int, devices: list[Any] = ON_GPUS) -> str:
    """The ledger of a run with 10 ns of decode and so much idle; no rung of activity."""
    cell: dict[str, Any] = {"outcome": "none", "window_ns": 100, "devices": 1, "time_ns_low": 0}
    rows = [
        {**cell, "work": "decode", "time_ns": 10, "time_ns_high": 10, "basis": "inferred"},
        {**cell, "work": "idle", "time_ns": time_ns, "time_ns_high": high_ns, "basis": basis},
    ]
    out = io.StringIO()
    found: dict[str, Any] = {"gpu_ledger": rows, "gpu_idle": [], "ledger_devices": devices}
    draw_ledger(Console(file=out, width=160), found)
    return out.getvalue()


def test_what_may_be_some_and_is_not_seen_is_not_printed_as_none() -> None:
    for high_ns, time in ((0, "0"), (90, "-")):
        lines = ledger_page("bounded", 0, high_ns).splitlines()
        assert ["idle", time] in [line.split()[:2] for line in lines]


@pytest.mark.parametrize("basis", ["measured", "bounded", "reported"])
def test_the_caption_tells_whose_time_it_is(basis: str) -> None:
    """A window without an operation has no rung of activity."""
    for devices, caption in ((ON_GPUS, "Where the GPUs' time"), (ON_RANKS, "Where the engine's")):
        assert ledger_page(basis, 90, 90, devices).splitlines()[1].startswith(caption)


def test_a_log_in_part_leaves_idle_time_of_the_engine_bounded() -> None:
    page = ledger_page("bounded", 40, 90, ON_RANKS)
    assert "idle: 0 ns to 90 ns; the log tells of a part of the window" in page
    assert "profile" not in page


def test_iterations_that_overlap_are_why_idle_time_is_bounded() -> None:
    told = {"are_gpus": False, "overlaps": True, "is_in_part": False}
    page = ledger_page("bounded", 40, 90, [told])
    assert "idle: 0 ns to 90 ns; iterations overlap, and print more time than" in page
    assert "part of the window" not in page
    page = ledger_page("bounded", 40, 90, [told | {"is_in_part": True}])
    assert "the engine was busy; the log tells of a part of the window" in page


def test_hidden_time_is_told_as_at_most_idle() -> None:
    assert "idle: at most 90 ns" in ledger_page("bounded", 0, 90)
    assert "at most" not in ledger_page("measured", 90, 90)


def test_a_ledger_of_many_outcomes_breaks_no_span_at_80_columns() -> None:
    outcomes = ("good", "late", "aborted", "unknown")
    cell: dict[str, Any] = {"window_ns": 20 * 10**9, "devices": 2, "basis": "inferred"}
    rows = [
        {**cell, "work": work, "outcome": outcome, "time_ns": 10_100_000_000, "time_ns_high": 0}
        for work in ("prefill", "communication", "unattributed") for outcome in outcomes
    ]  # fmt: skip
    rows.append({**cell, "work": "idle", "outcome": "none", "time_ns": 1, "time_ns_high": 1})
    found: dict[str, Any] = {"gpu_ledger": rows, "gpu_idle": [], "ledger_devices": ON_GPUS}
    out = io.StringIO()
    draw_ledger(Console(file=out, width=80), found)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    works = [line for line in lines if "10.1 s" in line]
    assert [line.split()[0] for line in works] == ["prefill", "communication", "unattributed"]
    assert [line.count("10.1 s") for line in works] == [4, 4, 4]
    (idle,) = [line.split() for line in lines if line.strip().startswith("idle")]
    assert idle == ["idle", "1", "ns", "0.0", "%", "1", "ns"]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160])
def test_every_cell_of_the_ledger_is_on_the_page(width: int) -> None:
    """Nine works and outcomes, each cell with a time of its own."""
    outcomes = ("good", "late", "rejected", "failed", "aborted", "unfinished", "unknown",
                "other_traffic", "none")  # fmt: skip
    works = ("prefill", "decode", "recompute", "communication", "copy", "other", "idle")
    cell: dict[str, Any] = {"window_ns": 20 * 10**9, "devices": 2, "basis": "measured"}
    cells = [(work, outcome) for work in works for outcome in outcomes]
    rows = [
        {**cell, "work": work, "outcome": outcome, "time_ns": at * 10**6, "time_ns_high": 0}
        for at, (work, outcome) in enumerate(cells, 101)
    ]
    found: dict[str, Any] = {"gpu_ledger": rows, "gpu_idle": [], "ledger_devices": ON_GPUS}
    out = io.StringIO()
    draw_ledger(Console(file=out, width=width), found)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for at, (work, _) in enumerate(cells, 101):
        assert any(line.split()[:1] == [work] and f" {at} ms" in line for line in lines)


@pytest.mark.parametrize(
    ("empty", "waiting", "said"),
    [
        (
            (7_456_501_205, 6_196_977_481, 8_436_251_608),
            (3_393_338_665, 2_413_588_262, 4_652_862_389),
            "idle: 7.46 s (6.20 s to 8.44 s) with no request in the engine, "
            "3.39 s (2.41 s to 4.65 s) while one was",
        ),
        # bounds that read as the figure does say nothing more
        (
            (1_540_444, 0, 4_554_684),
            (13_483_802_307, 13_480_788_067, 13_485_342_751),
            "idle: 1.54 ms (0 ns to 4.55 ms) with no request in the engine, "
            "13.5 s while one was",
        ),
        (
            (2 * 10**9,) * 3, (10**9,) * 3,
            "idle: 2.00 s with no request in the engine, 1.00 s while one was",
        ),
        (
            (None, 0, 2 * 10**9), (None, 0, 10**9),
            "idle: 0 ns to 2.00 s with no request in the engine; the end of a request is not known",
        ),
    ],
)  # fmt: skip
def test_idle_without_a_request_has_its_bounds(
    empty: tuple[int | None, int, int], waiting: tuple[int | None, int, int], said: str
) -> None:
    row: dict[str, Any] = {"idle_ns": 10**10}
    for part, values in (("queue_empty", empty), ("work_waiting", waiting)):
        names = (f"{part}_ns", f"{part}_ns_low", f"{part}_ns_high")
        row |= dict(zip(names, values, strict=True))
    cell: dict[str, Any] = {"outcome": "none", "window_ns": 100, "devices": 1, "time_ns_low": 90,
                            "time_ns": 90, "time_ns_high": 90, "basis": "measured"}  # fmt: skip
    found: dict[str, Any] = {"gpu_ledger": [{**cell, "work": "idle"}], "gpu_idle": [row],
                             "ledger_devices": ON_GPUS}  # fmt: skip
    out = io.StringIO()
    draw_ledger(Console(file=out, width=160), found)
    assert [line.strip() for line in out.getvalue().splitlines() if "idle:" in line] == [said]


def test_tables_that_nothing_can_fill_are_left_out() -> None:
    nothing = {"session": None, "basis": "unknown", "sent_requests": None, "goodput_rps": None}
    run = dict.fromkeys(("engine", "engine_version", "model", "hardware"))
    figures = ("preemptions", "preempted_requests", "recomputed_tokens", "recomputed_tokens_low",
               "scheduled_tokens", "recompute_ns")  # fmt: skip
    recompute = dict.fromkeys(figures)
    rung = {"metric": "power", "device": 0, "value": 9.0, "unit": "W", "rate": 9.0,
            "basis": "reported", "value_low": 9.0, "value_high": 9.0}  # fmt: skip
    found: dict[str, Any] = {
        "runs": [{**run, "run_id": "r", "usable": True, "simulated": False}],
        "slo_policy": [{"slo": None, "origin": None}], "goodput": [nothing], "run_phases": [],
        "recompute": [{**recompute, "method": "none"}], "gpu_ledger": [], "gpu_idle": [],
        "gpu_activity": [rung], "batching": [], "paid_most": [], "evidence": [], "problems": [],
    }  # fmt: skip
    out = io.StringIO()
    draw(Console(file=out, width=80), found)
    headings = [line for line in out.getvalue().splitlines() if line and line[0] != " "]
    assert [line.split()[0] for line in headings] == ["r", "Activity"]


def test_telemetry_says_what_its_readings_leave_open() -> None:
    share = {"metric": "engine_active", "device": 0, "value": 0.65, "unit": "ratio", "rate": 0.65,
             "basis": "bounded", "value_low": 0.572, "value_high": 0.714}  # fmt: skip
    power = {"metric": "power", "device": 0, "value": 175.0, "unit": "W", "rate": 175.0,
             "basis": "bounded", "value_low": 140.0, "value_high": None}  # fmt: skip
    out = io.StringIO()
    draw_activity(Console(file=out, width=100), {"gpu_activity": [share, power], "batching": []})
    first, second = (line.rstrip() for line in out.getvalue().splitlines()[-2:])
    assert first.endswith("bounded: 57.2 % to 71.4 %")
    assert second.endswith("bounded: 140 W to unknown")


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("all", "the client claims 60 complete: NOT the same"),
        ("fixed", "of its whole load the client claims 60 complete"),
        ("steady", "of its whole load the client claims 60 complete"),
    ],
)
def test_a_claim_of_the_whole_load_is_not_set_against_a_part(rule: str, shown: str) -> None:
    """Four requests of a window cannot contradict the 60 of the load."""
    row: dict[str, Any] = defaultdict(lambda: None)
    row |= {"window_rule": rule, "basis": "measured", "planned_requests": 4, "sent_requests": 4,
            "complete_requests_low": 4, "complete_requests_high": 4, "complete_requests": 4,
            "client_claimed_complete_requests": 60}  # fmt: skip
    out = io.StringIO()
    draw_outcomes(Console(file=out, width=160), row)
    (said,) = [line.strip() for line in out.getvalue().splitlines() if "claims" in line]
    assert said == shown


@pytest.mark.parametrize("cell_low", [200_000_000, 0])
@pytest.mark.parametrize(
    ("high", "above", "below"),
    [
        (3_000_000_000, "200 ms to 3.00 s", "200 ms to 3.00 s"),
        (None, "200 ms to unknown", "at least 200 ms"),
    ],
)
def test_recompute_that_is_bounded_is_told_alike_above_and_in_the_ledger(
    cell_low: int, high: int | None, above: str, below: str
) -> None:
    """Its time lies between 0.2 and 3 s; iterations that show some took 0.25 s of it. Whose
    that is may be open, and is not how much."""
    row: dict[str, Any] = defaultdict(lambda: None)
    row |= {"method": "shape", "basis": "bounded", "recomputed_tokens_low": 7,
            "recompute_ns_low": 200_000_000, "recompute_ns_high": high}  # fmt: skip
    cells = {("decode", "unknown"): 2_750, ("recompute", "unknown"): 250, ("idle", "none"): 1_000}
    ledger = [
        {"work": work, "outcome": outcome, "time_ns": ms * 10**6, "devices": 1,
         "window_ns": 4 * 10**9, "basis": "reported" if work == "idle" else "bounded",
         "time_ns_low": cell_low, "time_ns_high": 3_000_000_000}
        for (work, outcome), ms in cells.items()
    ]  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {
        "recompute": [row], "gpu_ledger": ledger, "gpu_idle": [], "ledger_devices": ON_RANKS
    }  # fmt: skip
    out = io.StringIO()
    console = Console(file=out, width=160)
    draw_recompute(console, found)
    assert "7 to unknown" in out.getvalue()
    assert above in out.getvalue()
    draw_ledger(console, found)
    assert f"recompute: {below}; what single iterations show" in out.getvalue()
    # other traffic outside of the load may have been computed again: the ledger is of the load
    found["goodput"] = [{"other_traffic_requests": 3, "window_rule": "all"}]
    out.truncate(0)
    draw_ledger(console, found)
    own = below if cell_low else below.replace("200 ms", "0 ns")
    assert f"recompute: {own}; what single iterations show" in out.getvalue()


@pytest.mark.parametrize(
    ("basis", "bounds", "shown"),
    [
        ("measured", (0.852, 0.852, 0.852), "0.852/s"),
        ("bounded", (0.852, 0.0, 0.852), "0/s to 0.852/s"),  # spans alone
        ("bounded", (None, 0.4, 0.5), "0.4/s to 0.5/s"),
        ("bounded", (0.14, 0.14, None), "at least 0.14/s"),  # beyond all that is known
        ("unknown", (None, None, None), "-"),
    ],
)
def test_goodput_that_is_bounded_is_no_point(
    basis: str, bounds: tuple[float | None, float | None, float | None], shown: str
) -> None:
    row: dict[str, Any] = defaultdict(lambda: None)
    row |= {"window_rule": "fixed", "basis": basis}
    row |= dict(zip(("goodput_rps", "goodput_rps_low", "goodput_rps_high"), bounds, strict=True))
    out = io.StringIO()
    draw_outcomes(Console(file=out, width=160), row, "fixed:1s..2s")
    lines = [re.split(r"\s{2,}", line.strip()) for line in out.getvalue().splitlines()]
    (at,) = [at for at, cells in enumerate(lines) if cells[0] == "goodput"]
    assert lines[at + 2][0] == shown
    assert "window `fixed:1s..2s`" in out.getvalue()


@pytest.mark.parametrize(
    ("others", "window", "tokens", "is_told"),
    [
        (44, "all", 689, True),
        (0, "all", 689, False),
        (44, "fixed", 689, False),
        (44, "all", 0, False),
    ],
)
def test_recompute_says_that_other_traffic_is_in_it(
    others: int, window: str, tokens: int, is_told: bool
) -> None:
    row: dict[str, Any] = defaultdict(lambda: None)
    row |= {"method": "replay", "basis": "inferred", "preemptions": 8,
            "recomputed_tokens": tokens, "recomputed_tokens_low": tokens,
            "recomputed_tokens_high": tokens}  # fmt: skip
    load = {"other_traffic_requests": others, "window_rule": window}
    out = io.StringIO()
    draw_recompute(Console(file=out, width=160), {"recompute": [row], "goodput": [load]})
    assert ("other traffic included" in out.getvalue()) is is_told


@pytest.mark.parametrize(
    ("method", "r2", "works", "said"),
    [
        ("token_share", 0.124, ("prefill", "decode"), "1,203 steps, no cost model fits (R2 0.12)"),
        ("token_share", None, ("prefill", "decode"), "1,203 steps, too few for a cost model"),
        ("token_share", 0.124, ("decode",), None),
        ("robust_nnls", 0.9998, ("prefill", "decode"), "1,203 steps, R2 0.999"),
        ("robust_nnls", 0.98, ("prefill",), None),
    ],
)
def test_how_mixed_steps_are_divided_is_told(
    method: str, r2: float | None, works: tuple[str, ...], said: str | None
) -> None:
    cell: dict[str, Any] = {"window_ns": 100, "devices": 1, "basis": "inferred", "outcome": "good"}
    rows = [{**cell, "work": work, "time_ns": 10, "time_ns_high": 10} for work in works]
    rows.append({**cell, "work": "idle", "outcome": "none", "time_ns": 0,
                 "time_ns_high": 0, "basis": "measured"})  # fmt: skip
    fitted = {"method": method, "trimmed_r2": r2, "steps_fitted": 1203}
    found: dict[str, Any] = {"gpu_ledger": rows, "gpu_idle": [], "gpu_step_cost": [fitted],
                             "ledger_devices": ON_GPUS}  # fmt: skip
    out = io.StringIO()
    draw_ledger(Console(file=out, width=160), found)
    told = [line.strip() for line in out.getvalue().splitlines() if "divided" in line]
    by = "their tokens" if method == "token_share" else "the run's own cost model"
    expected = [f"mixed steps are divided by {by}: {said}"] if said else []
    assert told == expected
