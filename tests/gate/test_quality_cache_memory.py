"""Quality scores, prefix-cache hits, freed memory and routing: their rules on runs in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from gate.made_up import SECOND, repeats

from trueput.gate.figures import RunFigures
from trueput.gate.policy import Policy, parse_policy
from trueput.gate.rule_api import Finding
from trueput.gate.verdict import CandidateResult, Verdict, gate

Runs = list[RunFigures]


def judge(base: Runs, cand: Runs, policy: Policy | None = None) -> CandidateResult:
    return gate(base, [("candidate", cand)], policy).candidates[0]


def only(result: CandidateResult, rule: str, metric: str = "") -> Finding:
    (found,) = (f for f in result.findings if f.rule == rule and metric in {"", f.metric})
    return found


def scored(name: str, *scores: float | None, **kwargs: object) -> Runs:
    """Return repeats, each with one score of `accuracy` or none."""
    runs = repeats(name, len(scores), **kwargs)
    given: list[Mapping[str, float]] = [{} if s is None else {"accuracy": s} for s in scores]
    return [replace(r, quality=score) for r, score in zip(runs, given, strict=True)]


# --- quality-drop --------------------------------------------------------------------------------


def test_a_lower_score_blocks_whatever_else_improved() -> None:
    better = scored("b", 0.60, 0.60, 0.60, latency_ns=SECOND // 2)
    found = judge(scored("a", 0.80, 0.80, 0.80), better)
    assert found.verdict is Verdict.FLAGGED
    finding = only(found, "quality-drop")
    assert (finding.metric, finding.severity, finding.outcome, finding.basis) == (
        "quality.accuracy", "blocking", "flagged", "reported",
    )  # fmt: skip
    assert finding.ratio == pytest.approx(0.75)
    # equal repeats: floor 0.02, t with 4 degrees 2.1318468, reach 2.1318468 x 0.02 x sqrt(2/3)
    assert finding.ratio_high == pytest.approx(0.75 * 1.035426, rel=1e-5)


def test_an_equal_score_passes_and_a_slightly_lower_one_is_open() -> None:
    base = scored("a", 0.8, 0.8, 0.8)
    assert only(judge(base, scored("b", 0.8, 0.8, 0.8)), "quality-drop").outcome == "pass"
    small = judge(base, scored("b", 0.78, 0.78, 0.78))
    assert only(small, "quality-drop").outcome == "inconclusive"
    assert small.verdict is Verdict.INCONCLUSIVE


def test_a_finer_limit_for_quality() -> None:
    """A score of an evaluation may be held to 1 %, and to less noise than goodput is."""
    policy = parse_policy("floor_log_sd = 0.002\n[metrics.quality]\nmin_effect = 0.01")
    found = judge(scored("a", 0.8, 0.8, 0.8), scored("b", 0.78, 0.78, 0.78), policy)
    assert only(found, "quality-drop").outcome == "flagged"


@pytest.mark.parametrize(
    ("base", "cand"),
    [((0.8, 0.8, 0.8), (0.8, None, 0.8)), ((0.8,) * 3, (None,) * 3), ((None,) * 3, (0.8,) * 3)],
)
def test_a_score_that_is_not_given_for_every_run_is_no_pass(
    base: tuple[float | None, ...], cand: tuple[float | None, ...]
) -> None:
    found = judge(scored("a", *base), scored("b", *cand))
    assert only(found, "quality-drop").outcome == "inconclusive"
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "missing:" in only(found, "quality-drop").conclusion


def test_a_score_of_zero() -> None:
    """A share that fell to 0 has no ratio, and is compared in points; another score cannot be."""
    gone = judge(scored("a", 0.8, 0.8, 0.8), scored("b", 0.0, 0.0, 0.0))
    assert only(gone, "quality-drop").outcome == "flagged"
    negative = judge(scored("a", -1.5, -1.5, -1.5), scored("b", -9.0, -9.0, -9.0))
    assert only(negative, "quality-drop").outcome == "inconclusive"
    assert negative.verdict is Verdict.INCONCLUSIVE


def test_no_score_does_not_apply() -> None:
    found = judge(repeats("a", 3), repeats("b", 3))
    assert only(found, "quality-drop").outcome == "not_applicable"
    assert found.verdict is Verdict.PASS


# --- cache-hit-without-benefit -------------------------------------------------------------------


def cached(name: str, hit: float | None, share: float | None = 0.03, **kwargs: object) -> Runs:
    row = {"hit_ratio": hit, "prefill_share_of_e2e_ratio": share, "basis": "reported"}
    return [replace(r, prefix_cache=row) for r in repeats(name, 3, **kwargs)]


def test_more_hits_that_save_nothing_show_what_they_could_have_saved() -> None:
    finding = only(judge(cached("a", 0.1), cached("b", 0.7)), "cache-hit-without-benefit")
    assert (finding.severity, finding.outcome) == ("informing", "flagged")
    assert (finding.baseline, finding.candidate) == (pytest.approx(0.1), pytest.approx(0.7))
    assert "rose by +60.0 points" in finding.conclusion
    assert "prefill is 3.0% of end-to-end in the baseline, the most" in finding.conclusion


def test_more_hits_that_help_pass() -> None:
    faster = cached("b", 0.7, latency_ns=SECOND // 2)
    finding = only(judge(cached("a", 0.1), faster), "cache-hit-without-benefit")
    assert finding.outcome == "pass"


def test_losing_requests_is_no_benefit() -> None:
    """Survivors are twice as fast, but half of all that was sent never came back."""
    losing = cached("b", 0.7, latency_ns=SECOND // 2, outcomes="gf" * 25)
    finding = only(judge(cached("a", 0.1), losing), "cache-hit-without-benefit")
    assert finding.outcome == "inconclusive"


def test_a_cache_switched_on_counts_from_none() -> None:
    off = [
        replace(r, prefix_cache={"hit_ratio": None, "hit_tokens": 0, "queried_tokens": 0})
        for r in repeats("a", 3)
    ]
    finding = only(judge(off, cached("b", 0.5)), "cache-hit-without-benefit")
    assert (finding.outcome, finding.baseline) == ("flagged", 0.0)
    assert "is not known" in finding.conclusion
    both = only(judge(off, [replace(r, run_id=f"c{r.run_id}") for r in off]),
                "cache-hit-without-benefit")  # fmt: skip
    assert both.outcome == "not_applicable"


def test_hits_on_one_side_only_are_open() -> None:
    finding = only(judge(repeats("a", 3), cached("b", 0.5)), "cache-hit-without-benefit")
    assert finding.outcome == "inconclusive"
    none = only(judge(repeats("a", 3), repeats("b", 3)), "cache-hit-without-benefit")
    assert none.outcome == "not_applicable"


# --- memory-freed-without-capacity ---------------------------------------------------------------


def memory(name: str, kv: float, preemptions: int, batch: float, **kwargs: object) -> Runs:
    batching = {"kv_used_ratio_p99": kv, "decode_batch_mean": batch, "running_mean": batch + 1}
    return [
        replace(r, batching=batching, recompute={**(r.recompute or {}), "preemptions": preemptions})
        for r in repeats(name, 3, **kwargs)
    ]


def test_freed_memory_without_more_goodput_names_the_batch() -> None:
    found = judge(memory("a", 0.95, 40, 8.0), memory("b", 0.5, 0, 3.0))
    for metric in ("kv_used_ratio_p99", "preemptions_per_request"):
        finding = only(found, "memory-freed-without-capacity", metric)
        assert (finding.severity, finding.outcome) == ("informing", "flagged")
        assert "decode batch 8.0 to 3.0, running 9.0 to 4.0" in finding.conclusion
    preempted = only(found, "memory-freed-without-capacity", "preemptions_per_request")
    assert preempted.unit == "1/request"
    assert (preempted.baseline, preempted.candidate) == (pytest.approx(0.8), 0.0)
    assert found.verdict is Verdict.PASS, "an informing rule blocks nothing"


def test_freed_memory_with_more_goodput_passes() -> None:
    base = memory("a", 0.95, 40, 8.0, outcomes="l" * 25 + "g" * 25)
    found = judge(base, memory("b", 0.5, 0, 8.0))
    for metric in ("kv_used_ratio_p99", "preemptions_per_request"):
        assert only(found, "memory-freed-without-capacity", metric).outcome == "pass"


def test_memory_that_was_not_freed_passes_and_unknown_memory_does_not_apply() -> None:
    same = judge(memory("a", 0.9, 4, 8.0), memory("b", 0.9, 4, 8.0))
    assert only(same, "memory-freed-without-capacity", "kv_used_ratio_p99").outcome == "pass"
    none = judge(repeats("a", 3), repeats("b", 3))
    assert {f.outcome for f in none.findings if f.rule == "memory-freed-without-capacity"} == {
        "not_applicable"
    }
    half = judge(repeats("a", 3), memory("b", 0.5, 0, 8.0))
    finding = only(half, "memory-freed-without-capacity", "kv_used_ratio_p99")
    assert finding.outcome == "inconclusive"


# --- warm-but-later ------------------------------------------------------------------------------


def routed(name: str, later: int, compared: int) -> Runs:
    row = {"replica": "A", "warm_but_later_requests": later, "compared_requests": compared}
    return [replace(r, routing=(row,)) for r in repeats(name, 3)]


@pytest.mark.parametrize(
    ("later", "compared", "outcome"),
    # a share above 5 % is flagged; below it, 3 x 100 are enough to rule 5 % out, 3 x 5 are not:
    # exact upper bounds 1 - 0.05 ** (1 / 300) = 1.0 % and 1 - 0.05 ** (1 / 15) = 18.1 %
    [(1, 1, "flagged"), (6, 100, "flagged"), (0, 100, "pass"), (0, 5, "inconclusive")],
)
def test_share_of_warm_requests_that_came_later(later: int, compared: int, outcome: str) -> None:
    found = judge(routed("a", 0, 10), routed("b", later, compared))
    finding = only(found, "warm-but-later")
    assert (finding.severity, finding.outcome) == ("informing", outcome)
    assert f"{3 * later} of {3 * compared} warm requests" in finding.conclusion
    if later == 0:
        upper = 1 - 0.05 ** (1 / (3 * compared))
        assert f"(0.0% to {upper:.1%})" in finding.conclusion


def test_warm_requests_on_one_side_only() -> None:
    lacking = only(judge(routed("a", 1, 2), repeats("b", 3)), "warm-but-later")
    assert lacking.outcome == "inconclusive"
    alone = only(judge(repeats("a", 3), routed("b", 2, 2)), "warm-but-later")
    assert alone.outcome == "flagged", "it is counted inside the candidate's own runs"
