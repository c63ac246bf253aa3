"""What differs, on pages of two widths: no column of one word a line, and what blocks first."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from trueput.cli.pages.differences import draw_differences
from trueput.gate.loads import Difference

LONG = Difference(
    "asked_output_lengths", "200 requests, mean 80.0 tokens", "200 requests, mean 40.0 tokens",
    "mean -50.0%, Kolmogorov distance 1.000; not known for every planned request", True,
)  # fmt: skip
SHORT = Difference("engine_version", "0.10.1", "0.11.0", "not the same", False)
HELD = Difference("model", "unknown", "m", "known on one side only", False, holds_back=True)
AMONG = Difference(
    "planned_requests among candidate repeats", "", "c0 60, c1 " + "6" * 60, "", False
)


def drawn(width: int, *differences: Difference) -> list[str]:
    out = io.StringIO()
    draw_differences(Console(file=out, width=width), differences)
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


@pytest.mark.parametrize(("width", "most"), [(80, 4), (160, 3)])
def test_a_long_difference_takes_few_lines(width: int, most: int) -> None:
    lines = drawn(width, LONG)[1:]
    assert len(lines) <= most
    assert all(len(line) <= width for line in lines)
    told = " ".join(" ".join(lines).split())
    for text in ("blocks", LONG.aspect, LONG.difference, f"{LONG.baseline} -> {LONG.candidate}"):
        assert text in told


def test_what_fits_is_a_table() -> None:
    lines = drawn(80, SHORT)
    assert lines[1].split() == ["aspect", "baseline", "candidate", "by"]
    assert lines[3].split() == ["engine_version", "0.10.1", "0.11.0", "not", "the", "same"]


@pytest.mark.parametrize("width", [80, 160])
def test_what_blocks_comes_first_then_what_holds_back(width: int) -> None:
    told = "\n".join(drawn(width, SHORT, HELD, LONG))
    places = [told.index(d.aspect) for d in (LONG, HELD, SHORT)]
    assert places == sorted(places)


def test_a_difference_among_repeats_has_no_arrow() -> None:
    told = "\n".join(drawn(60, AMONG))
    assert "->" not in told
    assert "c0 60" in told
    assert "blocks" not in told
