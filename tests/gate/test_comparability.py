"""What makes two sides not comparable, what only informs, and what must do neither."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate.made_up import run

from trueput.gate.comparability import compare_sides
from trueput.gate.figures import RunFigures
from trueput.gate.loads import Difference, kolmogorov
from trueput.gate.policy import parse_policy
from trueput.gate.requests import Requests
from trueput.gate.verdict import Verdict, gate


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
    lengths = list(range(100, 150))
    lost = run("b", "g" * 30 + "f" * 10 + "n" * 10, prompt=lengths)
    unknown = replace(
        lost,
        requests=Requests.of(
            request if request.outcome == "good" else replace(request, prompt_tokens=None)
            for request in lost.requests
        ),
    )
    assert blocking(run("a", prompt=lengths), lost) == []
    assert blocking(run("a", prompt=lengths), unknown) == []


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


# --- order, reuse, burstiness, settings of the load ----------------------------------------------


def aspects(base: RunFigures, cand: RunFigures) -> dict[str, Difference]:
    return {item.aspect: item for item in differences(base, cand)}


def columns(base: RunFigures, **change: object) -> RunFigures:
    """Return a run of which each request has other values: a number, or one from its place."""
    rows = [
        replace(r, **{name: v(i) if callable(v) else v for name, v in change.items()})  # type: ignore[arg-type]
        for i, r in enumerate(base.requests)
    ]
    return replace(base, requests=Requests.of(rows))


def test_an_equal_fingerprint_proves_equal_lengths() -> None:
    lengths = list(range(100, 150))
    base, cand = (
        replace(run(name, prompt=prompts), workload={"fingerprint": "f"})
        for name, prompts in (("a", lengths), ("b", lengths[::-1]))
    )
    assert "fingerprint" not in aspects(base, cand)


def test_like_gaps_in_another_order_inform() -> None:
    """25 short gaps, then 25 long ones, and the other way round: one distribution, two orders."""
    second = 10**9
    sides = []
    for gaps in ([1] * 25 + [3] * 25, [3] * 25 + [1] * 25):
        sends = [sum(gaps[:place]) * second for place in range(50)]
        sides.append(columns(run("a"), sent_ns=lambda i, sends=sends: sends[i]))
    found = aspects(*sides)["arrival_gaps"]
    assert not found.blocks
    assert "like gaps in another order" in found.difference


def test_prefix_reuse_informs_with_its_size() -> None:
    base, cand = (replace(run(n), workload={"reuse_ratio": r}) for n, r in (("a", 0.1), ("b", 0.5)))
    found = aspects(base, cand)["prefix_reuse"]
    assert (found.baseline, found.candidate, found.blocks) == ("10.0%", "50.0%", False)
    assert found.difference == "+40.0 points"


@pytest.mark.parametrize(
    ("setting", "one", "other", "blocks"),
    [
        ("dataset_name", "random", "sharegpt", True),
        ("ignore_eos", True, False, True),
        ("ramp_up_strategy", "linear", "exponential", True),
        ("seed", 1, 2, False),
        ("temperature", 0, 0.7, True),
        ("top_p", 0.9, 1.0, True),
        ("random_output_len", 128, 64, True),
        ("sharegpt_output_len", 128, 64, True),
        ("custom_output_len", 256, 255, True),
        ("max_tokens", 128, 64, True),
    ],
)
def test_settings_of_the_load(setting: str, one: object, other: object, blocks: bool) -> None:
    base, cand = (replace(run("a"), asked={setting: value}) for value in (one, other))
    assert [(i.aspect, i.blocks) for i in differences(base, cand)] == [(f"asked.{setting}", blocks)]


def test_a_number_is_the_same_from_a_command_and_from_a_printed_line() -> None:
    base = replace(run("a"), asked={"temperature": 0, "random_range_ratio": "0.25"})
    cand = replace(run("b"), asked={"temperature": 0.0, "random_range_ratio": 0.25})
    assert differences(base, cand) == []


def test_a_setting_that_one_command_does_not_have() -> None:
    known = {"dataset_name": "random"}
    base = replace(run("a"), asked={**known, "top_p": 0.9, "temperature": 0.7})
    found = differences(base, replace(run("b"), asked=known))
    assert [(d.aspect, d.candidate, d.blocks) for d in found] == [
        ("asked.temperature", "unknown", False), ("asked.top_p", "not set", True),
    ]  # fmt: skip
    plain = replace(run("a"), client="vllm bench serve", asked=known)
    said = replace(plain, asked={**known, "seed": 0, "ignore_eos": False})
    assert differences(plain, said) == []


def test_burstiness_blocks() -> None:
    base, cand = (replace(run("a"), asked_burstiness=value) for value in (1.0, 0.4))
    assert blocking(base, cand) == ["burstiness"]


def test_asked_lengths_that_the_engines_context_set_are_not_asked() -> None:
    """Limits that fill the context: 1000 - 100 on one side, 800 - 100 on the other."""
    sides = [
        replace(columns(run(name), asked_output_tokens=context - 100),
                config={"max_model_len": context})
        for name, context in (("a", 1000), ("b", 800))
    ]  # fmt: skip
    assert blocking(*sides) == []
    plain = [replace(side, config={}) for side in sides]
    assert blocking(*plain) == ["asked_output_lengths"]


def test_partly_unknown_lengths_block_only_where_nothing_can_make_it_up() -> None:
    base = run("a", prompt=[100] * 25 + [800] * 25)
    easy = run("b", prompt=[100] * 50)
    few = columns(easy, prompt_tokens=lambda i: None if i < 3 else 100)
    many = columns(easy, prompt_tokens=lambda i: None if i < 25 else 100)
    assert blocking(base, few) == ["prompt_lengths"]
    assert blocking(base, many) == [], "the unknown half may be the long one"


# --- what came back, and the state of client and machine -----------------------------------------


def test_lost_requests_are_listed_and_never_block() -> None:
    found = aspects(run("a"), run("b", "g" * 40 + "f" * 10))["lost_requests"]
    assert (found.baseline, found.candidate, found.blocks) == ("0.0%", "20.0%", False)


def test_a_closed_loop_says_that_better_service_makes_more_requests() -> None:
    base, cand = (
        replace(run(n, "g" * c), planned_fixed=None, asked_concurrency=8)
        for n, c in (("a", 50), ("b", 60))
    )
    found = aspects(base, cand)["planned_requests"]
    assert not found.blocks
    assert "a closed loop: better service makes more requests" in found.difference


@pytest.mark.parametrize(
    ("limit", "cause"), [(None, "the client fell short"), (4, "its own limit")]
)
def test_a_client_that_could_not_keep_up(limit: int | None, cause: str) -> None:
    """Sent at 0.51 a second of 1.02 asked; drawn gaps explain 98 % - 1.645 / 7 = 74 % of it."""
    base = replace(run("a"), asked_rate_rps=1.02, asked_concurrency=limit)
    found = aspects(base, replace(base, run_id="b"))["client_saturation"]
    assert not found.blocks
    assert found.baseline == "50.0% of the asked rate"
    assert cause in found.difference


def test_a_wait_in_the_client_is_coordinated_omission() -> None:
    base = run("a")
    slow = columns(run("b"), client_delay_ns=200_000_000)
    found = aspects(base, slow)["client_delay"]
    assert (found.candidate, found.blocks) == ("p99 200.0 ms", False)
    assert "20% of the median end-to-end time" in found.difference
    assert "coordinated omission" in found.difference


def test_a_cache_that_was_warm_before_blocks_unless_caching_is_under_test() -> None:
    cold = columns(run("a"), cached_prompt_tokens=lambda i: 0 if i < 10 else 90)
    warm = columns(run("b"), cached_prompt_tokens=90)
    found = aspects(cold, warm)["cache_warmth"]
    assert found.blocks
    assert found.candidate == "90% of the first prompts cached"
    switched = replace(warm, config={"enable_prefix_caching": True})
    assert not aspects(cold, switched)["cache_warmth"].blocks
    assert "cache_warmth" not in aspects(cold, replace(cold, run_id="c"))


def test_the_first_prompt_alone_shows_nothing() -> None:
    """A readiness probe sends the first prompt before the load does."""
    cold = columns(run("a"), cached_prompt_tokens=0)
    probed = columns(run("b"), cached_prompt_tokens=lambda i: 90 if i == 0 else 0)
    assert "cache_warmth" not in aspects(cold, probed)


def test_a_label_states_the_cache() -> None:
    rows = [{"runs": [{"run_id": n, "labels_json": f'{{"cache_state": "{n}"}}'}]} for n in "ab"]
    sides = [RunFigures.from_views(row) for row in rows]
    assert aspects(*sides)["cache_state"].blocks


def test_clocks_inform_and_throttling_blocks() -> None:
    def state(name: str, clock: float, throttled: float) -> RunFigures:
        row = {"sm_clock_mhz_mean": clock, "power_limit_w_mean": 700.0,
               "throttled_ratio": throttled}  # fmt: skip
        return RunFigures.from_views({"runs": [{"run_id": name}], "gpu_state": [row]})

    found = aspects(state("a", 1800, 0.0), state("b", 1500, 0.2))
    assert (found["gpu_clock"].difference, found["gpu_clock"].blocks) == ("-16.7%", False)
    assert found["throttled"].blocks
    assert "power_limit" not in found
    assert aspects(state("a", 1800, 0.0), state("b", 1790, 0.005)) == {}


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("0.10.2", "0.12.0", "resumed"),
        ("0.7.3", "0.9.1", "prompt_tokens_total"),
        ("0.31", "0.33", ""),
    ],
)
def test_versions_between_which_figures_change_their_meaning(
    one: str, other: str, words: str
) -> None:
    sides = [replace(run(v), engine="vllm", engine_version=v) for v in (one, other)]
    for pair in (sides, sides[::-1]):
        found = aspects(*pair)
        assert not found["engine_version"].blocks
        assert ("metric_meaning" in found) is bool(words)
        assert not words or words in found["metric_meaning"].difference


def test_quality_is_listed_and_left_to_its_rule() -> None:
    sides = [replace(run(n), quality={"f1": s}) for n, s in (("a", 0.8), ("b", 0.5))]
    found = aspects(*sides)["quality"]
    assert (found.baseline, found.candidate, found.blocks) == ("f1 0.8", "f1 0.5", False)


def test_a_policy_names_settings_of_the_load() -> None:
    policy = parse_policy("[under_test]\nasked.dataset_name = true\nconfig.n = true")
    assert policy.under_test == {"asked.dataset_name", "config.n"}
    base, cand = (replace(run("a"), asked={"dataset_name": name}) for name in ("x", "y"))
    assert blocking(base, cand, under_test=policy.under_test) == []


# --- known on one side only ----------------------------------------------------------------------


def held_back(base: RunFigures, cand: RunFigures) -> list[str]:
    return [d.aspect for d in differences(base, cand) if d.holds_back and not d.blocks]


UNKNOWN = {
    "prompt_lengths": {"prompt_tokens": None},
    "asked_output_lengths": {"asked_output_tokens": None},
    "arrival_gaps": {"sent_ns": None},
    "half the prompt_lengths": {"prompt_tokens": lambda i: None if i % 2 else 100},
}


@pytest.mark.parametrize(("named", "change"), UNKNOWN.items(), ids=UNKNOWN)
def test_a_load_known_on_one_side_only_does_not_pass(named: str, change: dict[str, object]) -> None:
    whole, hidden = run("a"), columns(run("b"), **change)
    for base, cand in ((whole, hidden), (hidden, whole)):
        assert held_back(base, cand) == [named.rpartition(" ")[2]]
        found = gate([replace(base, run_id=f"b{i}") for i in range(3)],
                     [("c", [replace(cand, run_id=f"c{i}") for i in range(3)])])  # fmt: skip
        assert found.verdict is Verdict.INCONCLUSIVE
        assert found.candidates[0].reason.startswith("not known to be the same load: ")
    assert held_back(hidden, replace(hidden, run_id="c")) == []


@pytest.mark.parametrize(
    ("aspect", "change"),
    [
        ("arrival_rate", {"asked_rate_rps": None, "asked_concurrency": 4}),
        ("concurrency", {"asked_rate_rps": 1.0}),
        ("model", {"model": "m"}),
        ("planned_requests", {"planned_fixed": None}),
    ],
)
def test_a_value_known_on_one_side_only(aspect: str, change: dict[str, object]) -> None:
    known = {"planned_fixed": True, "asked_rate_rps": None} | (
        {"asked_rate_rps": 1.0, "asked_concurrency": 4} if aspect == "arrival_rate" else {}
    )
    one = replace(run("a"), **known)  # type: ignore[arg-type]
    other = replace(run("b"), **{**known, **change})  # type: ignore[arg-type]
    assert aspect in held_back(one, other)
    assert aspect in held_back(other, one)
    lifted = compare_sides([one], [other], under_test=frozenset({aspect}))
    assert aspect not in [d.aspect for d in lifted if d.holds_back]


def test_requests_left_out_without_a_planned_count() -> None:
    """An open loop that is not known to have asked for fewer; a closed one may make more."""
    whole = run("a")
    fewer = replace(run("b", "g" * 45), planned_fixed=None)
    assert held_back(whole, fewer) == ["planned_requests"]
    assert held_back(replace(whole, planned_fixed=None), fewer) == ["planned_requests"]
    sides = [replace(r, planned_fixed=None, asked_concurrency=8) for r in (whole, fewer)]
    assert held_back(*sides) == []


def test_a_regression_is_flagged_whatever_is_not_known() -> None:
    base = [run(f"a{i}") for i in range(3)]
    bad = [columns(run(f"b{i}", "g" * 25 + "l" * 25), prompt_tokens=None) for i in range(3)]
    assert gate(base, [("c", bad)]).verdict is Verdict.FLAGGED


def test_repeats_of_different_loads_are_named_as_such() -> None:
    """Rates 3, 4 and 5 on each side, and on one side only; a side against itself."""

    def rates(name: str, *values: float) -> list[RunFigures]:
        return [
            replace(run(f"{name}{place}"), asked_rate_rps=rate) for place, rate in enumerate(values)
        ]

    both = rates("a", 3.0, 4.0, 5.0)
    words = "the repeats of the baseline and of the candidate are different loads"
    for cand in (rates("b", 3.0, 4.0, 5.0), both):
        (found,) = gate(both, [("c", cand)]).candidates
        assert (found.verdict, found.reason) == (Verdict.NOT_COMPARABLE, f"{words}: arrival_rate")
        (told,) = (d for d in found.comparability if d.blocks)
        assert (told.baseline, told.candidate) == ("3/s, 4/s, 5/s", "3/s, 4/s, 5/s")
    (found,) = gate(rates("d", 3.0, 3.0, 3.0), [("c", both)]).candidates
    assert found.reason == "the repeats of the candidate are different loads: arrival_rate"
    (told,) = (d for d in found.comparability if d.blocks)
    assert told.candidate == "3/s, 4/s, 5/s"
    (found,) = gate(rates("d", 3.0, 3.0), [("c", rates("e", 5.0, 5.0))]).candidates
    assert found.reason == "the sides differ in arrival_rate"


def lengths_gap(one: list[int], other: list[int]) -> Difference:
    sides = [run(name, "g" * len(ls), prompt=ls) for name, ls in (("a", one), ("b", other))]
    return aspects(*sides)["prompt_lengths"]


def test_a_distance_that_chance_explains_holds_back() -> None:
    """Of 80 requests each chance gives 1.628 * sqrt(2 / 80) = 0.257; of 800 it gives 0.081."""
    short, wide = [460] * 14 + [540] * 66, [460] * 30 + [540] * 50  # 16 of 80: distance 0.2
    few = lengths_gap(short, wide)
    assert "distance 0.200, by chance up to 0.257" in few.difference
    assert not few.blocks
    # means 526 and 510, -3.0 %; their error is 5.5, so that 1.645 of it more is 25 of 26 tokens
    assert not few.holds_back
    many = lengths_gap(short * 10, wide * 10)
    assert many.blocks
    # 100 and 900: the means' error is far over 5 %, though they differ by less than that
    spread = lengths_gap([100] * 20 + [500] * 40 + [900] * 20, [100] * 36 + [500] * 8 + [900] * 36)
    assert "mean +0.0%, Kolmogorov distance 0.200" in spread.difference
    assert (spread.blocks, spread.holds_back) == (False, True)


def test_gaps_that_chance_explains_hold_back() -> None:
    """Gaps of 1 s or 3 s, 30 or 40 of 79 short: distance 10 / 79, by chance up to 0.259."""
    sides = []
    for name, short in (("a", 30), ("b", 40)):
        gaps = [1] * short + [3] * (79 - short)
        sends = [sum(gaps[:place]) * 10**9 for place in range(80)]
        sides.append(columns(run(name, "g" * 80), sent_ns=lambda i, sends=sends: sends[i]))
    found = aspects(*sides)["arrival_gaps"]
    assert (found.blocks, found.holds_back) == (False, True)
    assert "by chance up to 0.259" in found.difference


def test_no_distance_is_expected_beyond_1() -> None:
    """Of 3 requests each chance would give 1.628 * sqrt(2 / 3) = 1.329, of 2 gaps each 1.628."""
    few = lengths_gap([100, 100, 103], [100, 103, 103])
    assert few.difference.endswith("distance 0.333, too few to tell it from chance")
    assert not few.blocks
    sides = [
        columns(run(name, "ggg"), sent_ns=lambda i, sends=sends: sends[i] * 10**9)
        for name, sends in (("a", (0, 1, 2)), ("b", (0, 1, 4)))
    ]
    found = aspects(*sides)["arrival_gaps"]
    assert found.difference == "Kolmogorov distance 0.500, too few to tell it from chance"
    assert (found.blocks, found.holds_back) == (False, True)
