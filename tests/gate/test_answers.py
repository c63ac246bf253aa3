"""How long answers are on two sides: who is compared with whom, and how sure that makes it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from gate.made_up import repeats

from trueput.gate.answers import answers_effect
from trueput.gate.figures import RunFigures
from trueput.gate.requests import Requests
from trueput.gate.rule_api import Finding, Outcome
from trueput.gate.statistics import Effect, Noise
from trueput.gate.verdict import Verdict, gate

UNKNOWN = math.nan


def told(
    tokens: Sequence[float],
    prompts: Sequence[int] = (),
    *,
    asked: Sequence[int] = (),
    sent: Sequence[float] = (),
) -> RunFigures:
    """Return a run of complete requests with these output tokens."""
    count = len(tokens)
    columns = {
        "output_tokens": tokens,
        "prompt_tokens": prompts or range(count),
        "sent_ns": sent or range(count),
        "asked_output_tokens": asked or [UNKNOWN] * count,
    }
    made = {name: np.array(list(column), dtype=float) for name, column in columns.items()}
    requests = Requests.of_columns(np.zeros(count, np.int8), np.ones(count, bool), made)
    return RunFigures("run", requests=requests)


def compared(base: Sequence[RunFigures], cand: Sequence[RunFigures]) -> Effect:
    effect = answers_effect(base, cand, Noise())
    assert effect is not None
    return effect


def answers_of(base: Sequence[RunFigures], cand: Sequence[RunFigures]) -> list[Finding]:
    found = gate(base, [("c", cand)]).candidates[0].findings
    return [f for f in found if f.metric == "answer_tokens_per_request"]


def test_each_request_is_compared_with_itself() -> None:
    """10 and 20 tokens against 10 and 18, by hand.

    The ratio is 28/30, what it leaves 2/3 and -2/3, their sd 0.9428; the standard error
    0.9428 / sqrt 2 / 14 = 0.04762, and t of 95 % with two degrees of freedom 2.920.
    """
    found = compared([told([10, 20])] * 2, [told([10, 18])] * 2)
    assert found.estimate == pytest.approx(28 / 30)
    assert found.low == pytest.approx(28 / 30 * math.exp(-2.920 * 0.04762), rel=1e-3)
    assert found.high == pytest.approx(28 / 30 * math.exp(2.920 * 0.04762), rel=1e-3)


def test_answers_that_all_shrink_alike_leave_nothing_open() -> None:
    found = compared([told([10, 200, 1000])] * 3, [told([9, 180, 900])] * 3)
    assert (found.low, found.high) == pytest.approx((0.9, 0.9))


def test_other_requests_are_no_pairs() -> None:
    """10 and 20 tokens, prompts not the same: each side's mean is as open as its two lengths."""
    found = compared([told([10, 20], [1, 2])] * 2, [told([10, 20], [3, 4])] * 2)
    own = 7.0711 / math.sqrt(2) / 15  # sd / sqrt n / mean
    assert found.low == pytest.approx(math.exp(-2.920 * own * math.sqrt(2)), rel=1e-3)


def test_repeats_of_other_requests_count_for_more_than_repeats_of_the_same() -> None:
    """Three repeats of two requests are two requests; three pairs of requests are six."""
    same = [told([10, 20], [1, 2])] * 3
    cand = [told([10, 20], [3, 4])] * 3
    anew = [told([10, 20], [5 + i, 8 + i]) for i in range(3)]
    assert compared(anew, cand).low > compared(same, cand).low


def test_what_the_asked_length_explains_is_not_open() -> None:
    """The same lengths asked for other prompts, each answer as long as asked."""
    base = [told([10, 20], [1, 2], asked=[10, 20])] * 2
    cand = [told([20, 10], [3, 4], asked=[20, 10])] * 2
    assert compared(base, cand).low == pytest.approx(1.0)


def test_two_requests_sent_in_the_other_order_stay_the_same_requests() -> None:
    base = told([10, 20, 30], [1, 2, 3], sent=[0, 5, 6])
    cand = told([10, 30, 20], [1, 3, 2], sent=[0, 5, 6])
    found = compared([base] * 2, [cand] * 2)
    assert (found.low, found.high) == (1.0, 1.0)


def test_unknown_lengths_are_anything_from_nothing_to_the_longest() -> None:
    """One of four unknown: means 7.5 (0 tokens) to 10 (10 tokens) against exactly 10."""
    found = compared([told([10] * 4)] * 2, [told([10, 10, 10, UNKNOWN])] * 2)
    assert (found.low, found.high) == pytest.approx((0.75, 1.0))


def test_one_run_a_side_assumes_what_runs_differ_by_unless_every_answer_is_the_same() -> None:
    same = compared([told([10, 20])], [told([10, 20])])
    assert (same.low, same.high, same.assumed_noise) == (1.0, 1.0, False)
    other = compared([told([10, 20])], [told([20, 10])])
    assert other.assumed_noise
    assert other.low < math.exp(-1.645 * 0.10 * math.sqrt(2))


@pytest.mark.parametrize(
    ("tokens", "outcome"),
    [(200, Outcome.PASS), (191, Outcome.PASS), (189, Outcome.FLAGGED), (100, Outcome.FLAGGED)],
)
def test_the_limit_is_five_percent(tokens: int, outcome: Outcome) -> None:
    """200 tokens before: 191 are 4.5 % fewer, 189 5.5 % fewer; the finding is never left out."""
    base, cand = repeats("a", 3, answers=(200,)), repeats("b", 3, answers=(tokens,))
    (found,) = answers_of(base, cand)
    assert (found.outcome, found.ratio) == (outcome, pytest.approx(tokens / 200))
    assert f"{tokens / 200:.3f}x" in found.conclusion


def test_a_shortening_that_may_be_five_percent_is_not_passed() -> None:
    """Every other answer is 18 tokens for 20: by 0.95, and what is left of a token each way."""
    (found,) = answers_of(repeats("a", 3), repeats("b", 3, answers=(20, 18)))
    assert found.outcome is Outcome.INCONCLUSIVE
    result = gate(repeats("a", 3), [("c", repeats("b", 3, answers=(20, 18)))])
    assert result.verdict is Verdict.INCONCLUSIVE


def test_lengths_told_on_one_side_only_are_inconclusive_and_on_none_are_said_to_be_unknown() -> (
    None
):
    silent = [{"answers": (None,)}] * 2
    base, cand = (repeats(name, 3, **kept) for name, kept in zip("ab", silent, strict=True))  # type: ignore[arg-type]
    (found,) = answers_of(repeats("a", 3), cand)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert not answers_of(base, cand)
    findings = gate(base, [("c", cand)]).candidates[0].findings
    lost = next(f for f in findings if f.rule == "hidden-failures")
    assert "no run tells how long they are" in lost.scope
