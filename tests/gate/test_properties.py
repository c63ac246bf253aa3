"""What must hold of every verdict: better is no worse, worse no better, order and unit are nil."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from effort import examples
from gate.made_up import repeats
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trueput.gate.figures import RunFigures
from trueput.gate.render import to_json
from trueput.gate.requests import Requests
from trueput.gate.verdict import CandidateResult, Verdict, gate


@dataclass(frozen=True)
class Pair:
    """A load served twice, letter by letter, with what else differs between the sides."""

    base: str
    cand: str
    count: int
    tokens: int
    recomputed: float
    answers: tuple[int, ...]
    base_answers: tuple[int, ...]
    latency_ns: int

    def sides(self, cand: str | None = None) -> tuple[list[RunFigures], list[RunFigures]]:
        """Return both sides, the candidate with other letters where given."""
        return (
            repeats("a", self.count, self.base, answers=self.base_answers),
            repeats(
                "b", self.count, self.cand if cand is None else cand, tokens=self.tokens,
                recomputed=self.recomputed, answers=self.answers, latency_ns=self.latency_ns,
            ),
        )  # fmt: skip

    def verdict(self, cand: str | None = None) -> Verdict:
        """Return the gate's word on the candidate."""
        base, judged = self.sides(cand)
        return gate(base, [("c", judged)]).verdict


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Draw two sides of one length: mostly good ones, since a pass is what may be turned."""
    count = draw(st.integers(8, 60))
    letters = st.text(alphabet=draw(st.sampled_from(["glfrn", "gggggl", "gggf", "gl"])),
                      min_size=count, max_size=count)  # fmt: skip
    lengths = st.sampled_from([(20,), (20, 18), (5, 40, 20), (21, 20, 19)])
    return Pair(
        base=draw(letters),
        cand=draw(letters),
        count=draw(st.integers(2, 4)),
        tokens=draw(st.sampled_from([9_000, 10_000, 10_400, 14_000])),
        recomputed=draw(st.sampled_from([0.0, 0.02, 0.3])),
        answers=draw(lengths),
        base_answers=draw(lengths),
        latency_ns=draw(st.sampled_from([5 * 10**8, 10**9, 2 * 10**9])),
    )


def changed(letters: str, place: int, before: str, after: str) -> str:
    """Return the letters with the `place`-th of a kind changed; as they are without that kind."""
    places = [i for i, letter in enumerate(letters) if letter == before]
    if not places:
        return letters
    at = places[place % len(places)]
    return letters[:at] + after + letters[at + 1 :]


@settings(max_examples=examples(120), deadline=None)
@given(pairs(), st.integers(0, 59))
def test_a_late_request_made_good_never_turns_pass_into_flagged(pair: Pair, place: int) -> None:
    better = changed(pair.cand, place, "l", "g")
    assert pair.verdict() is not Verdict.PASS or pair.verdict(better) is not Verdict.FLAGGED


@settings(max_examples=examples(120), deadline=None)
@given(pairs(), st.integers(0, 59), st.sampled_from("frn"))
@example(
    # the answer that is lost is a short one: the mean of the others grows
    Pair("g" * 50, "g" * 50, 4, 10_000, 0.0, (5, 40, 20), (20, 18), 5 * 10**8),
    30,
    "f",
)
@example(
    Pair("gnnlnfgggnlfrflrlllg", "ngllglgggfggfgfggggg", 3, 10_000, 0.0, (5, 40, 20), (20,),
         5 * 10**8), 2, "f",
)  # fmt: skip
def test_a_good_request_made_failed_never_reaches_a_pass(pair: Pair, place: int, end: str) -> None:
    worse = changed(pair.cand, place, "g", end)
    assert pair.verdict() is Verdict.PASS or pair.verdict(worse) is not Verdict.PASS


@pytest.mark.parametrize("end", ["f", "r", "l"])
def test_a_pass_is_lost_somewhere_on_the_way_down(end: str) -> None:
    """Good ones turned bad by fives, in every repeat: pass, then never pass again, then flagged."""
    verdicts = []
    for lost in range(0, 51, 5):
        cand = repeats("b", 3, "g" * (50 - lost) + end * lost)
        verdicts.append(gate(repeats("a", 3), [("c", cand)]).verdict)
    assert verdicts[0] is Verdict.PASS
    assert verdicts[-1] is Verdict.FLAGGED
    first = next(i for i, verdict in enumerate(verdicts) if verdict is not Verdict.PASS)
    assert Verdict.PASS not in verdicts[first:]


def alike(one: CandidateResult, other: CandidateResult) -> None:
    """Assert that two results agree in all but the last digits of their figures."""
    assert (one.verdict, one.reason, one.settle_runs) == (
        other.verdict, other.reason, other.settle_runs,
    )  # fmt: skip
    for mine, theirs in zip(one.findings, other.findings, strict=True):
        assert (mine.rule, mine.metric, mine.outcome, mine.severity) == (
            theirs.rule, theirs.metric, theirs.outcome, theirs.severity,
        )  # fmt: skip
        for name in ("ratio", "ratio_low", "ratio_high"):
            figure, other_figure = getattr(mine, name), getattr(theirs, name)
            if figure is None or other_figure is None:
                assert figure is other_figure
            else:
                assert figure == pytest.approx(other_figure, rel=1e-9, nan_ok=True)


@settings(max_examples=examples(40), deadline=None)
@given(pairs(), st.sampled_from([10, 1000]))
def test_units_change_nothing(pair: Pair, scale: int) -> None:
    """Every span and the window times `scale`, and rates by as much less: the same ratios."""

    def side(name: str, letters: str, unit: int, **other: object) -> list[RunFigures]:
        return repeats(name, pair.count, letters, scale=unit, **other)

    results = [
        gate(side("a", pair.base, unit),
             [("c", side("b", pair.cand, unit, tokens=pair.tokens))]).candidates[0]
        for unit in (1, scale)
    ]  # fmt: skip
    alike(*results)


@settings(max_examples=examples(40), deadline=None)
@given(pairs())
def test_order_of_rows_and_runs_changes_nothing(pair: Pair) -> None:
    base, cand = pair.sides()
    results = [
        gate(b, [("c", c)]).candidates[0]
        for b, c in (
            (base, cand),
            ([_turned(r) for r in base[::-1]], [_turned(r) for r in cand[::-1]]),
        )
    ]
    alike(*results)
    assert results[0].comparability == results[1].comparability


def _turned(run: RunFigures) -> RunFigures:
    """Return a run whose requests stand in another order."""
    rows = list(run.requests)
    return replace(run, requests=Requests.of(rows[1::2][::-1] + rows[::2]))


@settings(max_examples=examples(25), deadline=None)
@given(pairs())
def test_a_run_that_is_not_named_changes_nothing(pair: Pair) -> None:
    """A gate keeps nothing from one call to the next."""
    base, cand = pair.sides()
    before = to_json(gate(base, [("c", cand)]))
    gate(cand, [("other", repeats("z", 3, tokens=99_000)), ("c", base)])
    assert to_json(gate(base, [("c", cand)])) == before
