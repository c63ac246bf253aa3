"""The recorded vLLM runs: exact totals, and victims against the instrumented scheduler."""

from __future__ import annotations

from statistics import median

import pytest
from attribution.recorded_runs import RecordedRun, TrueVictim, fixtures_root, load_run, load_truth

from trueput.attribution.preemption import Attribution, attribute

RECOMPUTED = {
    "candidate_overload_truth": 6562,
    "prefix_cache": 743,
    "regress_candidate": 17288,
    "regress_candidate_truth": 16149,
    "candidate_high": 3566,
    "control_candidate": 2952,
    "torch_profile": 4279,
    "baseline_low": 0,
    "baseline_high": 0,
    "control_baseline": 0,
    "regress_baseline": 0,
    "regress_baseline_r2": 0,
}
WITH_TRUTH = ["candidate_overload_truth", "prefix_cache", "aiperf", "errors_debug"]
loaded: dict[str, tuple[RecordedRun, Attribution]] = {}


def attributed(name: str) -> tuple[RecordedRun, Attribution]:
    """A recorded run and its attribution, made once."""
    if name not in loaded:
        run = load_run(fixtures_root() / name)
        loaded[name] = run, attribute(run.steps, run.streams, run.limits, run.totals)
    return loaded[name]


def errors_ns(found: Attribution, truth: dict[str, TrueVictim]) -> list[tuple[int, int]]:
    """(error, truth) of requeue + recompute of each victim found.

    The truth's recompute time is its tokens' share of what the model gives each iteration.
    """
    made = found.steps[0]
    pairs = []
    for row in found.requests:
        true = truth[row.request_id]
        spent = sum(
            int(made.recompute_ns[step]) * tokens // max(int(made.recomputed_tokens[step]), 1)
            for step, tokens in true.recomputed.items()
        )
        whole = true.requeue_ns + spent
        pairs.append((abs(row.requeue_ns + row.recompute_ns - whole), whole))
    return pairs


@pytest.mark.parametrize(("name", "tokens"), RECOMPUTED.items())
def test_abort_free_runs_are_exact(name: str, tokens: int) -> None:
    totals = attributed(name)[1].totals
    assert totals.recomputed_tokens == tokens
    assert totals.recomputed_tokens_low == totals.recomputed_tokens_high == tokens


@pytest.mark.parametrize(("name", "tokens"), [("errors_debug", 689), ("aiperf", 888)])
def test_runs_with_aborts_hold_the_truth(name: str, tokens: int) -> None:
    totals = attributed(name)[1].totals
    assert totals.recomputed_tokens_high is not None
    assert totals.recomputed_tokens_low <= tokens <= totals.recomputed_tokens_high


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_victims_are_those_of_the_scheduler(name: str) -> None:
    found = attributed(name)[1]
    truth, _ = load_truth(fixtures_root() / name)
    victims = {request for request, true in truth.items() if true.preemptions}
    named = {row.request_id for row in found.requests}
    assert len(named & victims) >= 0.9 * len(named)
    assert len(named & victims) >= 0.9 * len(victims)
    for row in found.requests:
        assert row.preemptions == truth[row.request_id].preemptions
        assert row.recomputed_tokens == sum(truth[row.request_id].recomputed.values())


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_their_time_is_right_to_ten_percent_or_30_ms(name: str) -> None:
    found = attributed(name)[1]
    truth, _ = load_truth(fixtures_root() / name)
    pairs = errors_ns(found, truth)
    assert median(error for error, _ in pairs) <= max(
        0.1 * median(whole for _, whole in pairs), 30_000_000
    )


@pytest.mark.parametrize("name", [*RECOMPUTED, "errors_debug", "aiperf", "guidellm"])
def test_time_is_divided_exactly_and_stays_within_its_bounds(name: str) -> None:
    run, found = attributed(name)
    for one, made in zip(run.steps, found.steps, strict=True):
        parts = made.parts
        total = parts.prefill_ns + parts.decode_ns + parts.recompute_ns
        assert (total == one.elapsed_ns).all()
        assert (made.recompute_ns <= made.recompute_ns_high).all()
        assert (made.recompute_ns[made.recomputed_tokens == 0] == 0).all()
    totals = found.totals
    if totals.recompute_ns is not None:
        assert totals.recompute_ns_high is not None
        assert totals.recompute_ns_low <= totals.recompute_ns <= totals.recompute_ns_high
    of_requests = sum(row.recompute_ns for row in found.requests)
    assert of_requests <= sum(int(made.recompute_ns.sum()) for made in found.steps)


@pytest.mark.parametrize("name", [*RECOMPUTED, "torch_profile"])
def test_the_cost_of_a_prefilled_token_is_alike_in_all_runs(name: str) -> None:
    cost = attributed(name)[1].cost
    assert cost.usable
    assert 250_000 < cost.prefill_token_ns < 350_000
