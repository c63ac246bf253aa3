"""What makes two sides not comparable, what only informs, and what must do neither."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate.made_up import run

from trueput.gate.comparability import compare_sides
from trueput.gate.figures import RunFigures
from trueput.gate.loads import Difference, kolmogorov
from trueput.gate.requests import Requests


def differences(base: RunFigures, cand: RunFigures, **kwargs: frozenset[str]) -> list[Difference]:
    return list(compare_sides([base], [cand], **kwargs))


def blocking(base: RunFigures, cand: RunFigures, **kwargs: frozenset[str]) -> list[str]:
    return [item.aspect for item in differences(base, cand, **kwargs) if item.blocks]


def test_the_same_load_in_another_order_is_the_same() -> None:
    lengths = list(range(100, 150))
    assert differences(run("a", prompt=lengths), run("b", prompt=lengths)) == []
    (found,) = differences(run("a", prompt=lengths), run("b", prompt=lengths[::-1]))
    assert (found.aspect, found.blocks) == ("fingerprint", False)
    assert "the same lengths in another order, 100% of the places" in found.difference


def test_shorter_prompts_block_and_give_their_size() -> None:
    found = differences(run("a", prompt=100), run("b", prompt=90))
    assert [(item.aspect, item.blocks) for item in found] == [("prompt_lengths", True)]
    assert "-10.0%" in found[0].difference


def test_leaving_out_the_hardest_tenth_blocks() -> None:
    hard = [100] * 45 + [1000] * 5
    assert blocking(run("a", prompt=hard), run("b", prompt=[100] * 50)) == ["prompt_lengths"]


def test_a_few_tokens_of_template_inform_only() -> None:
    found = differences(run("a", prompt=576), run("b", prompt=585))
    assert [(item.aspect, item.blocks) for item in found] == [("prompt_lengths", False)]


def test_what_came_back_never_blocks() -> None:
    lost = run("b", "g" * 30 + "f" * 10 + "n" * 10)
    unknown = replace(
        lost,
        requests=Requests.of(
            request if request.outcome == "good" else replace(request, prompt_tokens=None)
            for request in lost.requests
        ),
    )
    assert blocking(run("a"), lost) == []
    assert blocking(run("a", prompt=list(range(100, 150))), unknown) == []


def test_a_fixed_count_blocks_and_an_open_one_informs() -> None:
    base, fewer = run("a"), run("b", "g" * 40)
    assert "planned_requests" in blocking(base, fewer)
    free = replace(fewer, planned_fixed=None)
    assert "planned_requests" not in blocking(base, free)
    assert "planned_requests" in [item.aspect for item in differences(base, free)]


@pytest.mark.parametrize(("rate", "blocks"), [(1.0, False), (1.019, False), (1.021, True)])
def test_the_asked_rate_may_differ_by_two_percent(rate: float, blocks: bool) -> None:
    base, cand = (replace(run("a"), asked_rate_rps=r) for r in (1.0, rate))
    assert ("arrival_rate" in blocking(base, cand)) is blocks


def test_bunched_sends_block_by_their_gaps() -> None:
    base = run("a")
    bunched = Requests.of(
        replace(request, sent_ns=(i // 2) * 4 * 10**9 + (i % 2))
        for i, request in enumerate(base.requests)
    )
    cand = replace(base, run_id="b", requests=bunched)
    assert blocking(base, cand) == ["arrival_gaps"]
    closed = replace(cand, asked_concurrency=8)
    assert blocking(replace(base, asked_concurrency=8), closed) == []


@pytest.mark.parametrize(
    ("field", "one", "other", "blocks"),
    [
        ("vantage", "client", "engine", True),
        ("client", "aiperf", "guidellm", True),
        ("profiled", False, True, True),
        ("cache_state", "cold", "warm", True),
        ("throttled", False, True, True),
        ("asked_concurrency", None, 8, True),
        ("engine_version", "0.31", "0.32", False),
        ("model", "a", "b", False),
        ("hardware", "H100", "H200", False),
        ("config", {"n": 1}, {"n": 2}, False),
    ],
)
def test_one_value_a_run(field: str, one: object, other: object, blocks: bool) -> None:
    base = replace(run("a"), **{field: one})  # type: ignore[arg-type]
    cand = replace(run("b"), **{field: other})  # type: ignore[arg-type]
    found = differences(base, cand)
    assert [item.blocks for item in found] == [blocks]
    aspect = frozenset({found[0].aspect})
    assert blocking(base, cand, must_match=aspect) == [found[0].aspect]
    assert blocking(base, cand, under_test=aspect) == []


def test_the_objective_and_the_window_block() -> None:
    other = run("b", slo="ttft=2000ms")
    assert blocking(run("a"), other) == ["slo"]


def test_what_must_match_must_be_known() -> None:
    assert blocking(run("a"), run("b"), must_match=frozenset({"model"})) == ["model"]


def test_repeats_of_one_side_are_compared_among_themselves() -> None:
    odd = replace(run("c"), model="other")
    found = compare_sides([run("a")], [replace(run("b"), model="m"), odd])
    assert "model among candidate repeats" in [item.aspect for item in found]


def test_kolmogorov_distance_by_hand() -> None:
    # shares at or below 1, 2, 3, 4: one 0.25 0.5 0.75 1; other 0, 0, 0.5, 1: largest gap 0.5
    assert kolmogorov([1, 2, 3, 4], [3, 3, 4, 4]) == 0.5
    assert kolmogorov([100], [101], drift=0.02) == 0.0
