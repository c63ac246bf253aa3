"""What each prefill computed where only the sums of iterations are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.preemption.cache_hits import Prompt, likely_hits, share_hits
from trueput.attribution.preemption.presence import DECODE, PREFILL, Presence

BLOCK = 8


def prompt(tokens: int, *, is_known: bool = False) -> Prompt:
    """A prompt that was prefilled to its end."""
    return Prompt(tokens, 0 if is_known else (tokens - 1) // BLOCK * BLOCK, is_whole=True)


def prefill(job: int, step: int, tokens: int) -> Presence:
    """One request in one iteration."""
    return Presence(job, PREFILL, step, step, tokens)


def figures(rows: Sequence[Presence]) -> list[tuple[int | None, ...]]:
    """Tokens, what they may be as well, low and high."""
    return [(x.tokens, x.other, x.low, x.high) for x in rows]


def shared(rows: Sequence[Presence], prompts: Mapping[int, Prompt]) -> list[tuple[int | None, ...]]:
    """The figures of rows whose tokens are shared out anew."""
    return figures(share_hits(rows, prompts))


def test_who_prefills_alone_took_all_tokens() -> None:
    assert shared([prefill(0, 5, 16)], {0: prompt(40)}) == [(16, 16, 16, 16)]


def test_beside_a_request_of_known_tokens_the_rest_is_known() -> None:
    rows = [prefill(0, 5, 20), prefill(1, 5, 12)]
    prompts = {0: prompt(20, is_known=True), 1: prompt(20)}
    assert shared(rows, prompts) == [(20, 20, 20, 20), (12, 12, 12, 12)]


def test_without_a_hit_every_prompt_was_computed_whole() -> None:
    rows = [prefill(0, 5, 40), prefill(1, 5, 30)]
    assert shared(rows, {0: prompt(40), 1: prompt(30)}) == [(40,) * 4, (30,) * 4]


def test_hits_that_go_round_are_everybodys() -> None:
    """Alone, a third request found 24 tokens: 48 are 24 for each of the two, almost certainly."""
    rows = [prefill(2, 1, 26), prefill(0, 5, 58), prefill(1, 5, 2)]
    found = shared(rows, {0: prompt(58), 1: prompt(50), 2: prompt(50)})
    # at the utmost one found all 48
    assert found == [(26, 26, 26, 26), (34, 34, 10, 58), (26, 26, 2, 50)]


def test_who_found_what_cannot_be_told_where_it_was_one_of_them() -> None:
    rows = [prefill(2, 1, 26), prefill(0, 5, 46), prefill(1, 5, 38)]
    found = shared(rows, {0: prompt(58), 1: prompt(50), 2: prompt(50)})
    # 24 of 108 tokens were cached: the first computed 58 and the second 26, or 34 and 50
    assert found == [(26, 26, 26, 26), (58, 34, 34, 58), (26, 50, 26, 50)]


def test_a_prompt_cut_by_the_budget_ties_iterations_together() -> None:
    """Request 1 ends in the next iteration, beside 2: of 150 tokens 48 were cached."""
    rows = [prefill(9, 1, 26), prefill(0, 5, 50), prefill(1, 5, 46), prefill(1, 6, 4),
            prefill(2, 6, 2)]  # fmt: skip
    prompts = {0: prompt(50), 1: prompt(50), 2: prompt(50), 9: prompt(50)}
    found = share_hits(rows, prompts)
    by_step = {s: sum(x.tokens or 0 for x in found if x.first == s) for s in (5, 6)}
    assert by_step == {5: 96, 6: 6}
    assert all(x.low is not None and x.high is not None and x.low < x.high for x in found[1:])


def test_what_is_beyond_the_usual_goes_to_all() -> None:
    assert likely_hits(60, [100, 100], usual=24) == [30, 30]
    assert likely_hits(60, [24, 100], usual=24) == [24, 36]
    assert likely_hits(30, [100, 100], usual=24) == [24, 6]
    assert likely_hits(31, [100, 100], usual=0) == [15, 16]


def test_a_prompt_of_unknown_length_leaves_all_open() -> None:
    rows = [prefill(0, 5, 30), prefill(1, 5, 20)]
    assert shared(rows, {0: prompt(40), 1: Prompt(None, 0, is_whole=True)}) == [
        (30, 30, 1, 49), (20, 20, 1, 49),
    ]  # fmt: skip


def test_other_rows_stay() -> None:
    decode = Presence(0, DECODE, 6, 9)
    stretch = Presence(1, PREFILL, 5, 7)
    assert figures(share_hits([decode, stretch], {0: prompt(9), 1: prompt(9)})) == [(None,) * 4] * 2


@st.composite
def iterations(draw: st.DrawFn) -> tuple[list[Presence], list[int], dict[int, Prompt]]:
    """Rows whose hits were moved among those of an iteration, and what was computed in truth."""
    rows, truth, prompts = [], [], {}
    for step in range(draw(st.integers(1, 4))):
        sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=4))
        jobs = range(len(prompts), len(prompts) + len(sizes))
        prompts.update({job: prompt(n) for job, n in zip(jobs, sizes, strict=True)})
        most = [prompts[job].most_cached // BLOCK for job in jobs]
        hits = [BLOCK * draw(st.integers(0, n)) for n in most]
        told = likely_hits(sum(hits), [BLOCK * n for n in most], usual=draw(st.integers(0, 30)))
        truth += [n - hit for n, hit in zip(sizes, hits, strict=True)]
        rows += [prefill(job, step, n - hit)
                 for job, n, hit in zip(jobs, sizes, told, strict=True)]  # fmt: skip
    return rows, truth, prompts


@given(iterations())
def test_sums_stay_and_bounds_hold_the_truth(
    case: tuple[list[Presence], list[int], dict[int, Prompt]],
) -> None:
    rows, truth, prompts = case
    found = share_hits(rows, prompts)
    for step in {x.first for x in rows}:
        here = [k for k, x in enumerate(rows) if x.first == step]
        whole = sum(truth[k] for k in here)
        assert sum(found[k].tokens or 0 for k in here) == whole
        assert sum(found[k].other or 0 for k in here) == whole
    for x, tokens in zip(found, truth, strict=True):
        assert x.tokens is not None
        assert x.other is not None
        assert x.low is not None
        assert x.high is not None
        assert 1 <= x.low <= min(tokens, x.tokens, x.other)
        assert max(tokens, x.tokens, x.other) <= x.high


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 7)), min_size=1, max_size=8))
def test_bounds_hold_the_truth_of_prompts_cut_by_the_budget(case: list[tuple[int, int]]) -> None:
    """Prompts one after the other, 64 tokens an iteration: many run over into the next."""
    budget = 64
    rows, prompts, step, left = [], {}, 0, budget
    for job, (size, blocks) in enumerate(case):
        prompts[job] = prompt(size)
        rest = size - min(BLOCK * blocks, prompts[job].most_cached)
        while rest:
            rows.append(prefill(job, step, min(rest, left)))
            rest, left = rest - min(rest, left), left - min(rest, left)
            if left == 0:
                step, left = step + 1, budget
    found = share_hits(rows, prompts)
    for step in {x.first for x in rows}:
        now = [(x.tokens, y.tokens) for x, y in zip(rows, found, strict=True) if x.first == step]
        assert sum(was or 0 for was, _ in now) == sum(tokens or 0 for _, tokens in now)
    for was, x in zip(rows, found, strict=True):
        assert was.tokens is not None
        assert x.low is not None
        assert x.high is not None
        assert x.low <= was.tokens <= x.high
