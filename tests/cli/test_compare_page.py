"""Configurations side by side: the ratio that is printed follows from the figures beside it."""

from __future__ import annotations

import io

from gate.made_up import run
from rich.console import Console

from trueput.cli.pages.compare_page import draw
from trueput.gate.figures import RunFigures
from trueput.verbs.compare import METRICS, Comparison, line_of
from trueput.verbs.opening import Configuration


def side(name: str, *preemptions: int) -> list[RunFigures]:
    rows = [{"preemptions": n, "basis": "reported"} for n in preemptions]
    return [
        RunFigures.from_views({"runs": [{"run_id": f"{name}{i}"}], "recompute": [row]})
        for i, row in enumerate(rows)
    ]


def preemptions(base: list[RunFigures], cand: list[RunFigures]) -> list[str]:
    metric = next(m for m in METRICS if m.name == "preemptions")
    names = [Configuration(n, (n,)) for n in ("base", "cand")]
    out = io.StringIO()
    line = line_of(metric, base, cand)
    draw(Console(file=out, width=160), [Comparison(names[0], names[1], (line,), (), "how")])
    (told,) = [text for text in out.getvalue().splitlines() if "preemptions" in text]
    return told.split()


def test_a_mean_of_counts_is_not_rounded_to_a_count() -> None:
    """13, 13, 14 are 13.33 on the mean and 9, 11, 8 are 9.333: 0.700 of it. The pooled sd is
    sqrt((1/3 + 7/3) / 2) = 1.155, and 2.132 x 1.155 x sqrt(2 / 3) = 2.01 about -4."""
    found = preemptions(side("b", 13, 13, 14), side("c", 9, 11, 8))
    assert found == ["preemptions", "13.33", "9.333", "0.700", "by", "-6.0", "to", "-2.0"]


def test_counts_that_are_whole_are_printed_so() -> None:
    assert preemptions(side("b", 4000, 4000), side("c", 1000, 3000))[:4] == [
        "preemptions", "4,000", "2,000", "0.500",
    ]  # fmt: skip


def test_a_count_of_one_run_has_no_bounds() -> None:
    assert preemptions(side("b", 2), side("c", 1)) == ["preemptions", "2", "1", "0.500"]


def test_a_figure_says_by_which_mean_it_is() -> None:
    """1 and 4 are 2 on the geometric mean; where a run has none they are as they are."""
    metric = next(m for m in METRICS if m.name == "complete_requests")
    base = [run("b0", "g"), run("b1", "g" * 4)]
    line = line_of(metric, base, [run("c0", "g" * 4), run("c1", "g" * 4)])
    assert (line.baseline, line.candidate, line.mean) == (2, 4, "geometric")
    assert line.ratio is not None
    assert round(line.ratio, 9) == 2
    line = line_of(metric, base, [run("c0", "f"), run("c1", "g" * 4)])
    assert (line.baseline, line.candidate, line.mean) == (2.5, 2, "arithmetic")
    assert (line.ratio, line.ratio_low) == (0.8, None)
