"""Defects seen in other gates, each as a test that fails where the defect is.

They are: a metric that is offered and never compared; load levels that only one side has; a metric
that is absent, read as 0 or as "no change"; a test of means that licenses a verdict on a tail; one
run a side with no spread; requests taken for independent runs; failures filtered out first; a
failed configuration that drops out of the table; a huge change that nothing looks at.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from gate.made_up import SECOND, repeats, run

from trueput.gate.evidence import Evidence
from trueput.gate.figures import RunFigures
from trueput.gate.percentiles import percentile, requests_needed, too_few
from trueput.gate.policy import Policy
from trueput.gate.requests import Requests
from trueput.gate.statistics import Noise, Sample, ratio_effect
from trueput.gate.verdict import CandidateResult, Verdict, gate
from trueput.verbs.compare import METRICS, line_of

Runs = list[RunFigures]


def judge(base: Runs, cand: Runs) -> CandidateResult:
    return gate(base, [("candidate", cand)]).candidates[0]


def evidence(base: Runs, cand: Runs) -> Evidence:
    return Evidence(tuple(base), tuple(cand), Policy(), ())


def with_row(runs: Runs, view: str, **columns: object) -> Runs:
    return [replace(r, **{view: {**(getattr(r, view) or {}), **columns}}) for r in runs]


def with_requests(runs: Runs, **columns: object) -> Runs:
    return [
        replace(r, requests=Requests.of(replace(x, **columns) for x in r.requests))  # type: ignore[arg-type]
        for r in runs
    ]


# --- 1. a metric that is offered and never compared ----------------------------------------------

HITS = {"hit_ratio": 0.1, "basis": "reported"}
#: Metric -> baseline and a candidate in which this alone got much worse (or grew for nothing).
BROKEN: dict[str, tuple[Runs, Runs]] = {
    "goodput_rps": (repeats("a", 3), with_row(repeats("b", 3), "goodput", goodput_rps=0.2)),
    "slo_attainment_ratio": (
        repeats("a", 3), with_row(repeats("b", 3), "goodput", slo_attainment_ratio=0.4)),
    "lost_requests_ratio": (
        repeats("a", 3), with_row(repeats("b", 3), "goodput", complete_requests=30)),
    "answer_tokens_per_request": (
        repeats("a", 3), with_requests(repeats("b", 3), output_tokens=10)),
    "quality.accuracy": (
        [replace(r, quality={"accuracy": 0.8}) for r in repeats("a", 3)],
        [replace(r, quality={"accuracy": 0.5}) for r in repeats("b", 3)]),
    "scheduled_tokens": (repeats("a", 3), repeats("b", 3, tokens=15_000)),
    "recomputed_ratio": (repeats("a", 3), repeats("b", 3, recomputed=0.4)),
    "ttft_ns_p50": (repeats("a", 3), with_requests(repeats("b", 3), ttft_ns=SECOND // 50)),
    "ttft_ns_mean": (
        with_requests(repeats("a", 3, slo="tpot=1s"), tpot_ns=1000.0),
        with_requests(repeats("b", 3, slo="tpot=1s"), tpot_ns=1000.0, ttft_ns=SECOND // 2)),
    "tpot_ns_mean": (
        with_requests(repeats("a", 3), tpot_ns=1000.0),
        with_requests(repeats("b", 3), tpot_ns=1500.0)),
    "longest_gap_ns_mean": (
        with_requests(repeats("a", 3), longest_gap_ns=1000),
        with_requests(repeats("b", 3), longest_gap_ns=1500)),
    "e2e_ns_mean": (repeats("a", 3), with_requests(repeats("b", 3), e2e_ns=2 * SECOND)),
    "output_tokens_per_s": (
        repeats("a", 3), with_row(repeats("b", 3), "goodput", output_tokens_per_s=20.0)),
    "hit_ratio": (
        [replace(r, prefix_cache=HITS) for r in repeats("a", 3)],
        [replace(r, prefix_cache={**HITS, "hit_ratio": 0.8}) for r in repeats("b", 3)]),
    "warm_but_later_ratio": (
        repeats("a", 3),
        [replace(r, routing=({"compared_requests": 9, "warm_but_later_requests": 9},))
         for r in repeats("b", 3)]),
    "kv_used_ratio_p99": (
        with_row(repeats("a", 3), "batching", kv_used_ratio_p99=0.9),
        with_row(repeats("b", 3), "batching", kv_used_ratio_p99=0.4)),
    "preemptions_per_request": (
        with_row(repeats("a", 3), "recompute", preemptions=40),
        with_row(repeats("b", 3), "recompute", preemptions=0)),
}  # fmt: skip


@pytest.mark.parametrize("metric", BROKEN)
def test_every_metric_is_compared(metric: str) -> None:
    base, cand = BROKEN[metric]
    assert not [f for f in judge(base, base).findings if f.outcome == "flagged"]
    flagged = {f.metric for f in judge(base, cand).findings if f.outcome == "flagged"}
    assert metric in flagged


# --- 2. load levels that only one side has -------------------------------------------------------


def level(name: str, rate: float) -> RunFigures:
    """Return a run at a rate of its own: the same requests, sent closer together."""
    made = run(name)
    rows = [replace(r, sent_ns=int(i * SECOND / rate)) for i, r in enumerate(made.requests)]
    return replace(made, asked_rate_rps=rate, requests=Requests.of(rows))


@pytest.mark.parametrize("there", ["baseline", "candidate"])
def test_a_level_that_one_side_lacks_is_not_skipped(there: str) -> None:
    three = [level(f"a{rate}", rate) for rate in (1.0, 2.0, 4.0)]
    two = [level(f"b{rate}", rate) for rate in (1.0, 2.0)]
    base, cand = (three, two) if there == "baseline" else (two, three)
    found = judge(base, cand)
    assert found.verdict is Verdict.NOT_COMPARABLE
    blocked = {d.aspect for d in found.comparability if d.blocks}
    assert "arrival_rate" in blocked


def test_several_levels_in_one_run_are_not_judged_as_one() -> None:
    rows = [{"run_id": "s", "session": s, "goodput_rps": 1.0} for s in ("1rps", "2rps")]
    both = RunFigures.from_views({"goodput": rows})
    assert judge([both], [run("b")]).verdict is Verdict.UNUSABLE


# --- 3. and 4. a metric that is absent is neither 0 nor unchanged --------------------------------


def test_a_latency_that_no_request_has_is_no_improvement() -> None:
    base, cand = repeats("a", 3), repeats("b", 3, "f" * 50)
    assert evidence(base, cand).ttft is None
    found = judge(base, cand)
    assert found.verdict is Verdict.FLAGGED
    shown = [f for f in found.findings if f.rule == "first-token-only"]
    assert {f.outcome for f in shown} == {"inconclusive"}
    assert {f.candidate for f in shown} == {None}


@pytest.mark.parametrize("side", ["baseline", "candidate", "both"])
@pytest.mark.parametrize(
    "column",
    ["goodput_rps", "slo_attainment_ratio", "planned_requests", "complete_requests"],
)
def test_a_null_figure_is_never_a_pass(column: str, side: str) -> None:
    base, cand = repeats("a", 3), repeats("b", 3)
    gone: dict[str, object] = {column: None}
    if column == "complete_requests":
        gone |= {"good_requests": None, "late_requests": None}
    if side != "candidate":
        base = with_row(base, "goodput", **gone)
    if side != "baseline":
        cand = with_row(cand, "goodput", **gone)
    assert judge(base, cand).verdict is not Verdict.PASS


# --- 5. tails, single runs, independence, failures -----------------------------------------------


def test_a_tail_of_few_requests_has_no_verdict() -> None:
    """A p99 needs ten requests beyond it, 1,000 in all; medians need twenty."""
    assert [requests_needed(share) for share in (0.5, 0.9, 0.99)] == [20, 100, 1000]
    small, large = repeats("a", 3), repeats("b", 3, "g" * 1000)
    assert too_few(small, "ttft_ns", 0.99, with_failures=False)
    assert not too_few(large, "ttft_ns", 0.99, with_failures=False)
    p99 = next(m for m in METRICS if m.name == "ttft_p99")
    p50 = next(m for m in METRICS if m.name == "ttft_p50")
    assert (line_of(p99, small, small).ratio, line_of(p99, small, small).ratio_low) == (1.0, None)
    assert line_of(p50, small, small).ratio_low is not None
    assert line_of(p99, large, large).ratio_low is not None


def test_one_run_a_side_without_spread_is_not_certain() -> None:
    effect = ratio_effect([Sample.exact(1.0)], [Sample.exact(1.1)], Noise())
    assert effect is not None
    # log 1.1 - log 1.05 = 0.0465 over 0.1 x sqrt 2 = 0.1414: 0.329 sds, p = 0.371
    assert effect.p_rose(0.05) == pytest.approx(0.371, abs=1e-3)
    assert not effect.rose(0.05)


def test_more_requests_in_a_run_are_not_more_runs() -> None:
    """A hundred times the requests at the same goodput: the bounds stay as wide as two runs are."""
    widths = []
    for count in (50, 5000):
        base, cand = (
            [replace(run(f"{n}{i}", "g" * count), goodput={**(run("x").goodput or {}),
                     "goodput_rps": g}) for i, g in enumerate(values)]
            for n, values in (("a", (0.50, 0.52)), ("b", (0.48, 0.50)))
        )  # fmt: skip
        effect = evidence(base, cand).goodput
        assert effect is not None
        widths.append(effect.high / effect.low)
    assert widths[0] == pytest.approx(widths[1], rel=1e-12)
    assert widths[0] > 1.1


def test_failures_are_not_filtered_out_before_a_percentile() -> None:
    """Half of 50 lost: the survivors' median is 1 s; among all that was sent it is no time."""
    (half,) = [run("b", "gf" * 25)]
    assert percentile(half, "e2e_ns", 0.5, with_failures=False) == SECOND
    assert percentile(half, "e2e_ns", 0.5, with_failures=True) == math.inf
    assert percentile(half, "e2e_ns", 24 / 49, with_failures=True) == SECOND  # the last survivor
    quick = repeats("b", 3, "gf" * 25, latency_ns=SECOND // 2)
    assert judge(repeats("a", 3), quick).verdict is Verdict.FLAGGED


# --- 6. zeros in means, failed configurations, huge changes --------------------------------------


def test_an_absent_figure_does_not_enter_a_mean_as_zero() -> None:
    cand = repeats("b", 3)
    cand[1] = with_row([cand[1]], "goodput", output_tokens_per_s=None)[0]
    assert evidence(repeats("a", 3), cand).output_tokens is None
    throughput = next(m for m in METRICS if m.name == "output_tokens_per_s")
    assert line_of(throughput, repeats("a", 3), cand).candidate is None


def test_unknown_output_lengths_are_not_zero_tokens() -> None:
    """The wobble inside a run is that of the requests whose length is known."""
    base = run("a")
    tenth = [replace(r, output_tokens=None if i % 10 == 0 else 20)
             for i, r in enumerate(base.requests)]  # fmt: skip
    known = [r for r in tenth if r.output_tokens is not None]
    spreads = [
        evidence([replace(base, requests=Requests.of(rows))], [run("b")]).output_tokens
        for rows in (tenth, known)
    ]
    assert spreads[0] is not None
    assert spreads[1] is not None
    assert spreads[0].se == spreads[1].se


def test_a_failed_configuration_stays_in_the_table() -> None:
    broken = [replace(r, unusable="is half written") for r in repeats("x", 3)]
    result = gate(repeats("a", 3), [("good", repeats("b", 3)), ("broken", broken)])
    assert [c.config for c in result.candidates] == ["good", "broken"]
    assert (result.verdict, result.exit_code) == (Verdict.UNUSABLE, 2)
    failed = gate(repeats("a", 3), [("good", repeats("b", 3)), ("dead", repeats("d", 3, "f" * 50))])
    assert [c.verdict for c in failed.candidates] == [Verdict.PASS, Verdict.FLAGGED]
    assert failed.exit_code == 1


@pytest.mark.parametrize("times", [1e-9, 0.5])
def test_a_huge_change_is_seen(times: float) -> None:
    cand = with_row(repeats("b", 3), "goodput", goodput_rps=0.5 * times)
    assert judge(repeats("a", 3), cand).verdict is Verdict.FLAGGED
    busy = repeats("b", 3, tokens=10_000 / times)
    assert judge(repeats("a", 3), busy).verdict is Verdict.FLAGGED
