"""Compare says what the gate says, and what the load's own client printed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from trueput.verbs.compare import Line, compare
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading

BASE, CANDIDATE = "regress_baseline", "regress_candidate"


@pytest.fixture(scope="module")
def lines(store: Path) -> dict[str, Line]:
    (one,) = compare(BASE, [CANDIDATE], Reading(store=store))
    return {line.metric: line for line in one.lines}


def printed(fixtures: Path, run: str) -> dict[str, Any]:
    """The result as the load's client wrote it."""
    path = fixtures / "vllm_cpu" / run / "bench.json"
    packed = path.with_name(path.name + ".gz")
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.mark.parametrize("share", ["p50", "p99"])
@pytest.mark.parametrize(
    ("latency", "theirs"), [("ttft", "ttft"), ("tpot", "tpot"), ("e2e", "e2el")]
)
def test_percentiles_are_those_that_the_client_prints(
    lines: dict[str, Line], fixtures: Path, latency: str, theirs: str, share: str
) -> None:
    """All 60 requests of both runs are complete: client and compare look at the same ones."""
    line, name = lines[f"{latency}_{share}"], f"{share}_{theirs}_ms"
    assert line.baseline is not None
    assert line.candidate is not None
    assert line.baseline / 1e6 == pytest.approx(printed(fixtures, BASE)[name], rel=1e-6)
    assert line.candidate / 1e6 == pytest.approx(printed(fixtures, CANDIDATE)[name], rel=1e-6)


def test_one_run_a_side_has_the_gate_s_intervals(store: Path, lines: dict[str, Line]) -> None:
    """Of every figure that both show, as a ratio or by its difference."""
    agree(store, BASE, CANDIDATE, lines)


def test_repeats_have_the_gate_s_figures(store: Path) -> None:
    """Over several runs a side the same mean of the same figure has one name in both.

    Whether they are of one load does not matter for that.
    """
    sides = f"{BASE},{BASE}_r2", f"{CANDIDATE},candidate_high"
    (one,) = compare(sides[0], [sides[1]], Reading(store=store))
    agree(store, *sides, {line.metric: line for line in one.lines})
    (turned,) = compare(sides[1], [sides[0]], Reading(store=store))
    agree(store, sides[1], sides[0], {line.metric: line for line in turned.lines})


def agree(store: Path, base: str, candidate: str, lines: dict[str, Line]) -> None:
    (found,) = gate(base, [candidate], reading=Reading(store=store)).candidates
    shown = {item.metric.replace("_ns_", "_"): item for item in found.findings}
    both = sorted(shown.keys() & lines.keys())
    assert both == [
        "engine_step", "goodput_rps", "output_tokens_per_s", "recomputed_ratio",
        "scheduled_tokens", "slo_attainment_ratio", "ttft_p50",
    ]  # fmt: skip
    for metric in both:
        line, item = lines[metric], shown[metric]
        figures = [line.baseline, line.candidate, line.ratio, line.ratio_low, line.ratio_high]
        theirs = [item.baseline, item.candidate, item.ratio, item.ratio_low, item.ratio_high]
        if item.baseline == 0:
            # nothing is a multiple of none
            figures[2] = theirs[2] = None
        assert [v is None for v in figures] == [v is None for v in theirs]
        known = [pair for pair in zip(figures, theirs, strict=True) if None not in pair]
        assert [a for a, _ in known] == pytest.approx([b for _, b in known], rel=1e-8)
        assert line.mean == ("arithmetic" if item.ratio_low is None else "geometric")
    low, high = (
        lines["recomputed_ratio"].difference_low,
        lines["recomputed_ratio"].difference_high,
    )
    assert low is not None
    assert high is not None
    assert f"({100 * low:+.1f} to {100 * high:+.1f})" in shown["recomputed_ratio"].conclusion


def test_what_a_load_plans_has_no_interval(lines: dict[str, Line]) -> None:
    """60 were planned on both sides: no run-to-run variation is in that."""
    line = lines["planned_requests"]
    assert (line.baseline, line.candidate, line.ratio) == (60, 60, 1)
    assert line.ratio_low is line.ratio_high is None
