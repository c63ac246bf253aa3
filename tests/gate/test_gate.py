"""Verdicts: rules, the defects seen in other gates, properties, and both forms of output."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gate.made_up import SECOND, repeats, run

from trueput.errors import UsageError
from trueput.gate.figures import RunFigures
from trueput.gate.policy import Policy
from trueput.gate.render import to_json, to_markdown
from trueput.gate.rule_api import Finding
from trueput.gate.rules import discover
from trueput.gate.statistics import Noise
from trueput.gate.verdict import CandidateResult, GateResult, Verdict, gate


def judge(
    base: list[RunFigures], cand: list[RunFigures], policy: Policy | None = None
) -> CandidateResult:
    return gate(base, [("candidate", cand)], policy).candidates[0]


def worst(result: CandidateResult, rule: str) -> Finding:
    return next(finding for finding in result.findings if finding.rule == rule)


def test_rules_are_found_by_listing_the_folder() -> None:
    assert [rule.name for rule in discover()] == [
        "activity-without-goodput",
        "goodput-drop",
        "hidden-failures",
        "quality-drop",
        "recompute-growth",
        "first-token-only",
        "throughput-without-goodput",
        "cache-hit-without-benefit",
        "warm-but-later",
        "memory-freed-without-capacity",
    ]


def test_three_equal_repeats_pass_and_two_cannot() -> None:
    assert judge(repeats("a", 3), repeats("b", 3)).verdict is Verdict.PASS
    two = judge(repeats("a", 2), repeats("b", 2))
    assert two.verdict is Verdict.INCONCLUSIVE
    assert two.settle_runs == 3


def test_busier_not_better_is_the_headline() -> None:
    found = judge(repeats("a", 3), repeats("b", 3, tokens=14_000))
    assert found.verdict is Verdict.FLAGGED
    headline = worst(found, "activity-without-goodput")
    assert headline.outcome == "flagged"
    assert headline.metric == "scheduled_tokens"
    assert headline.ratio == pytest.approx(1.4)
    assert "GPU time" not in headline.conclusion
    assert worst(found, "goodput-drop").outcome == "pass"


def test_busier_and_better_passes() -> None:
    found = judge(repeats("a", 3, "l" * 20 + "g" * 30), repeats("b", 3, tokens=14_000))
    assert found.verdict is Verdict.PASS


def test_late_requests_are_a_drop() -> None:
    found = judge(repeats("a", 2), repeats("b", 2, "g" * 35 + "l" * 15))
    assert found.verdict is Verdict.FLAGGED
    assert {f.metric for f in found.findings if f.rule == "goodput-drop"} == {
        "goodput_rps",
        "slo_attainment_ratio",
    }


def test_one_run_a_side_may_flag_and_says_what_was_assumed() -> None:
    found = judge([run("a")], [run("b", "g" * 15 + "l" * 35)])
    drop = worst(found, "goodput-drop")
    assert drop.outcome == "flagged"
    assert "assumed, not measured" in drop.scope


def test_refusing_fast_is_flagged_although_survivors_are_faster() -> None:
    refusing = repeats("b", 3, "gr" * 25, latency_ns=SECOND // 4)
    hidden = worst(judge(repeats("a", 3), refusing), "hidden-failures")
    assert hidden.outcome == "flagged"
    assert hidden.candidate == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("complete", "outcome"),
    [
        ((40, 50), "flagged"),  # half are lost, whatever became of the other ten
        ((50, 100), "inconclusive"),  # nobody says what became of half of them
        ((99, 100), "pass"),
    ],
)
def test_requests_of_unknown_end_bound_the_share_of_lost_ones(
    complete: tuple[int, int], outcome: str
) -> None:
    bounds = {
        f"complete_requests_{end}": n for end, n in zip(("low", "high"), complete, strict=True)
    }
    cand = [
        replace(one, goodput={**(one.goodput or {}), "complete_requests": None, **bounds})
        for one in repeats("b", 3, "g" * 100)
    ]
    found = worst(judge(repeats("a", 3, "g" * 100), cand), "hidden-failures")
    assert found.outcome == outcome


def test_recompute_blocks_only_where_goodput_did_not_rise() -> None:
    stalled = judge(repeats("a", 3), repeats("b", 3, recomputed=0.3))
    assert stalled.verdict is Verdict.FLAGGED
    assert worst(stalled, "recompute-growth").severity == "blocking"
    worse = repeats("a", 3, "l" * 25 + "g" * 25)
    better = judge(worse, repeats("b", 3, recomputed=0.3))
    assert better.verdict is Verdict.PASS
    assert worst(better, "recompute-growth").severity == "informing"
    assert worst(better, "recompute-growth").outcome == "flagged"


def test_only_a_time_rung_is_called_gpu_time() -> None:
    def timed(name: str, busy_s: int) -> RunFigures:
        row = {"metric": "kernel_union", "value": busy_s * SECOND, "unit": "ns", "device": "0"}
        return replace(run(name), gpu_activity=(row,))

    found = judge([timed(f"a{i}", 40) for i in range(3)], [timed(f"b{i}", 60) for i in range(3)])
    headline = worst(found, "activity-without-goodput")
    assert "GPU time (kernel union) rose" in headline.conclusion
    assert headline.baseline == pytest.approx(0.4)


def test_another_number_of_devices_is_judged_per_device() -> None:
    one = [replace(r, devices=1) for r in repeats("a", 3)]
    two = [replace(r, devices=2) for r in repeats("b", 3)]
    found = judge(one, two)
    drop = next(f for f in found.findings if f.metric == "goodput_rps")
    assert drop.unit == "1/s per device"
    assert drop.ratio == pytest.approx(0.5)


# --- defects seen in other gates: missing data is never a pass -----------------------------------


def test_all_failed_is_flagged_not_a_latency_of_zero() -> None:
    found = judge(repeats("a", 3), repeats("b", 3, "f" * 50))
    assert found.verdict is Verdict.FLAGGED
    assert worst(found, "goodput-drop").outcome == "flagged"
    assert worst(found, "hidden-failures").outcome == "flagged"


def test_nothing_good_on_either_side_shows_nothing_but_burnt_work() -> None:
    found = judge(repeats("a", 3, "l" * 200), repeats("b", 3, "l" * 200, tokens=20_000))
    assert found.verdict is Verdict.FLAGGED
    assert worst(found, "activity-without-goodput").outcome == "flagged"
    assert worst(found, "goodput-drop").outcome == "inconclusive"
    idle = judge(repeats("a", 3, "l" * 200), repeats("b", 3, "l" * 200))
    assert (idle.verdict, idle.reason) == (Verdict.INCONCLUSIVE, "goodput-drop")
    assert "check its limits and their units" in worst(idle, "goodput-drop").conclusion


def some_good(good: int, planned: int = 200) -> str:
    """Return a run of which the first requests are good, and all others late."""
    return "g" * good + "l" * (planned - good)


@pytest.mark.parametrize(
    ("base", "cand", "verdict"),
    [
        # counting alone: sd of the log of k good ones of many is 1 / sqrt(k), half for four
        (some_good(4), some_good(4), Verdict.INCONCLUSIVE),
        (some_good(4), some_good(5), Verdict.INCONCLUSIVE),
        (some_good(0), some_good(1), Verdict.INCONCLUSIVE),
        (some_good(9), some_good(9), Verdict.INCONCLUSIVE),  # 9 < 10 x (1 - 9/200) = 9.55
        (some_good(10), some_good(10), Verdict.PASS),  # 10 >= 9.5
        # nothing before, and half or all of it now: no fall, by any count
        (some_good(0), some_good(100), Verdict.PASS),
        (some_good(4), some_good(200), Verdict.PASS),
        (some_good(200), some_good(0), Verdict.FLAGGED),
        (some_good(40), some_good(9), Verdict.FLAGGED),
        # kept by every request: no error of counting, however few they are
        (some_good(200), some_good(200), Verdict.PASS),
    ],
)
def test_a_handful_of_good_requests_shows_no_equality(
    base: str, cand: str, verdict: Verdict
) -> None:
    found = judge(repeats("a", 3, base), repeats("b", 3, cand))
    assert found.verdict is verdict, found.reason
    if verdict is Verdict.INCONCLUSIVE:
        assert found.reason == "goodput-drop"


def test_eight_of_eight_good_are_not_too_few() -> None:
    found = judge(repeats("a", 3, "g" * 8), repeats("b", 3, "g" * 8))
    assert worst(found, "goodput-drop").outcome == "pass"


@pytest.mark.parametrize("end", ["f", "r", "n"])
def test_a_baseline_that_answered_nothing_is_unusable(end: str) -> None:
    dead = repeats("a", 3, end * 50)
    for cand in (repeats("b", 3, end * 50), repeats("b", 3)):
        found = judge(dead, cand)
        assert found.verdict is Verdict.UNUSABLE
        assert "none of the 50 requests of a1 ended as asked" in found.reason
    # one such repeat among the others is not averaged away
    found = judge([*repeats("c", 2), run("a2", end * 50)], repeats("b", 3))
    assert found.verdict is Verdict.UNUSABLE


def test_a_candidate_that_answered_nothing_never_passes() -> None:
    """Also where the baseline lost nearly all, and where the rule on losses only informs."""
    for base in ("l" + "f" * 49, "g" + "f" * 199):
        for policy in (Policy(), Policy(rules={"hidden-failures": "informing"})):
            dead = judge(repeats("a", 3, base), repeats("b", 3, "f" * len(base)), policy)
            assert dead.verdict is Verdict.INCONCLUSIVE
            assert dead.reason == "no request ended as asked in b0, b1, b2"
            assert worst(dead, "hidden-failures").outcome == "inconclusive"
    # one dead repeat of three, the others better than the baseline
    some = [*repeats("b", 2, "g" * 3 + "f" * 197), run("b2", "f" * 200)]
    assert judge(repeats("a", 3, "gg" + "f" * 198), some).verdict is Verdict.INCONCLUSIVE


def test_the_last_good_requests_vanishing_is_never_a_pass() -> None:
    found = judge(repeats("a", 3, "g" + "l" * 199), repeats("b", 3, "l" * 200))
    assert found.verdict is not Verdict.PASS


@pytest.mark.parametrize("column", ["goodput_rps", "slo_attainment_ratio", "planned_requests",
                                    "complete_requests"])  # fmt: skip
def test_an_absent_figure_in_one_repeat_is_never_a_pass(column: str) -> None:
    cand = repeats("b", 3)
    row = {key: value for key, value in (cand[1].goodput or {}).items() if key != column}
    row |= {"good_requests": None} if column == "complete_requests" else {}
    cand[1] = replace(cand[1], goodput=row)
    assert judge(repeats("a", 3), cand).verdict is not Verdict.PASS


def test_activity_on_one_side_only_is_inconclusive() -> None:
    found = judge(repeats("a", 3), repeats("b", 3, activity=False))
    assert found.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("floor", ["baseline", "candidate"])
def test_a_lower_bound_of_gpu_time_shows_neither_a_rise_nor_its_absence(floor: str) -> None:
    """A damaged or blind profile: the union may be anything above what was seen."""

    def side(name: str, share: float) -> list[RunFigures]:
        basis = "bounded" if name == floor else "measured"
        rung = {"device": 0, "metric": "kernel_union", "value": share * 1e11, "unit": "ns",
                "rate": share, "window_ns": 10**11, "basis": basis}  # fmt: skip
        return [replace(one, gpu_activity=(rung,)) for one in repeats(name, 3)]

    for shares in ((0.4, 0.8), (0.8, 0.8), (0.8, 0.4)):
        found = judge(side("baseline", shares[0]), side("candidate", shares[1]))
        headline = worst(found, "activity-without-goodput")
        assert headline.outcome == "inconclusive"
        assert f"only bounded in a run of the {floor}" in headline.conclusion
        assert found.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("room", "outcome"), [(0.004, "flagged"), (0.008, "inconclusive")])
def test_gpu_time_that_may_be_short_by_a_little_is_compared(room: float, outcome: str) -> None:
    """A union of 0.6 of the window is short by no more than where the device is not known to be
    idle: 0.004 is less than a hundredth of it, 0.008 more."""

    def side(name: str, share: float) -> list[RunFigures]:
        rung = {"device": 0, "metric": "kernel_union", "value": share * 1e11, "unit": "ns",
                "rate": share, "window_ns": 10**11, "basis": "bounded"}  # fmt: skip
        idle = {"work": "idle", "outcome": "none", "time_ns": 1, "basis": "bounded",
                "time_ns_low": 0, "time_ns_high": round(room * 1e11),
                "window_ns": 10**11, "devices": 1}  # fmt: skip
        return [replace(one, gpu_activity=(rung,), gpu_ledger=(idle,)) for one in repeats(name, 3)]

    found = judge(side("baseline", 0.6), side("candidate", 0.9))
    assert worst(found, "activity-without-goodput").outcome == outcome


@pytest.mark.parametrize(("unseen", "devices", "outcome"), [
    pytest.param(0.002, 1, "flagged", id="hardly any of the window was not watched"),
    pytest.param(0.3, 1, "inconclusive", id="a third of it was not"),
    pytest.param(1.002, 2, "flagged", id="nor was another device, on either side"),
])  # fmt: skip
def test_a_profile_of_a_part_of_the_window_is_not_compared(
    unseen: float, devices: int, outcome: str
) -> None:
    """What ran before a profile began, or after it ended, is in no union."""

    def side(name: str, share: float) -> list[RunFigures]:
        rung = {"device": 0, "metric": "kernel_union", "value": share * 1e11, "unit": "ns",
                "rate": share, "window_ns": 10**11, "basis": "bounded"}  # fmt: skip
        cell = {"outcome": "none", "window_ns": 10**11, "devices": devices}
        idle = {**cell, "work": "idle", "time_ns": 1, "basis": "measured",
                "time_ns_low": 1, "time_ns_high": 1}  # fmt: skip
        rest = {**cell, "work": "unattributed", "time_ns": round(unseen * 1e11)}
        return [
            replace(one, gpu_activity=(rung,), gpu_ledger=(idle, rest)) for one in repeats(name, 3)
        ]

    found = judge(side("baseline", 0.6), side("candidate", 0.9))
    assert worst(found, "activity-without-goodput").outcome == outcome


@pytest.mark.parametrize(("ends", "outcome"), [
    pytest.param((0.59, 0.61), "flagged", id="readings leave a little open: it rose all the same"),
    pytest.param((0.45, 0.9), "inconclusive", id="it may have been as busy before"),
    pytest.param((0.45, None), "inconclusive", id="and as busy as can be"),
])  # fmt: skip
def test_what_telemetry_leaves_open_is_in_the_comparison(
    ends: tuple[float, float | None], outcome: str
) -> None:
    def side(name: str, share: float, basis: str) -> list[RunFigures]:
        rung = {"device": 0, "metric": "engine_active", "value": share, "unit": "ratio",
                "rate": share, "window_ns": 10**11, "basis": basis,
                "value_low": ends[0], "value_high": ends[1]}  # fmt: skip
        return [replace(one, gpu_activity=(rung,)) for one in repeats(name, 3)]

    found = judge(side("baseline", 0.6, "bounded"), side("candidate", 0.8, "reported"))
    assert worst(found, "activity-without-goodput").outcome == outcome


def test_activity_on_neither_side_does_not_apply() -> None:
    found = judge(repeats("a", 3, activity=False), repeats("b", 3, activity=False))
    assert worst(found, "activity-without-goodput").outcome == "not_applicable"
    assert found.verdict is Verdict.PASS


def test_no_objective_is_inconclusive_with_a_hint() -> None:
    found = judge(repeats("a", 3, slo=None), repeats("b", 3, slo=None))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "--slo" in worst(found, "goodput-drop").conclusion


def test_an_empty_run_is_unusable() -> None:
    empty = RunFigures.from_views({"goodput": [{"run_id": "e", "planned_requests": 0}]})
    result = gate(repeats("a", 3), [("empty", [empty])])
    assert (result.verdict, result.exit_code) == (Verdict.UNUSABLE, 2)
    assert gate([RunFigures.from_views({})], [("x", repeats("b", 3))]).exit_code == 2
    assert gate([], [("x", repeats("b", 3))]).exit_code == 2


def test_one_broken_repeat_is_not_left_out_silently() -> None:
    cand = [*repeats("b", 3), replace(run("broken"), unusable="is half written")]
    assert judge(repeats("a", 3), cand).verdict is Verdict.UNUSABLE


def test_several_load_sessions_are_not_one_load() -> None:
    rows = [{"run_id": "s", "session": "1"}, {"run_id": "s", "session": "2"}]
    assert "2 load sessions" in (RunFigures.from_views({"goodput": rows}).why_unusable() or "")


def test_another_workload_is_a_verdict() -> None:
    result = gate(repeats("a", 3), [("x", repeats("b", 3, prompt=50))])
    assert (result.verdict, result.exit_code) == (Verdict.NOT_COMPARABLE, 3)


def test_equal_content_counts_once() -> None:
    copies = [replace(run(f"b{i}"), content_hash="same") for i in range(3)]
    found = judge(repeats("a", 3), copies)
    assert found.runs == ("b0",)
    assert found.verdict is not Verdict.PASS


def test_the_worst_candidate_decides() -> None:
    broken = [replace(run("x"), unusable="is half written")]
    other = repeats("p", 3, prompt=50)
    bad = repeats("c", 3, tokens=20_000)
    good = repeats("b", 3)
    base = repeats("a", 3)
    order = [("bad", bad), ("broken", broken), ("other", other), ("one", good[:1]), ("good", good)]
    expected = list(Verdict)
    for start in range(len(order)):
        assert gate(base, order[start:]).verdict is expected[start]
    assert [c.verdict for c in gate(base, order).candidates] == expected


def test_no_candidate_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no candidate"):
        gate(repeats("a", 3), [])


def test_many_candidates_share_the_error_rate() -> None:
    # one candidate alone is flagged; among forty that moved nowhere its p no longer suffices
    noisy = [run(f"b{i}", tokens=10_000 * factor) for i, factor in enumerate((1.07, 1.16, 1.25))]
    base = repeats("a", 3)
    assert worst(judge(base, noisy), "activity-without-goodput").outcome == "flagged"
    many = [("noisy", noisy), *((f"c{i}", repeats(f"c{i}-", 3)) for i in range(40))]
    crowd = gate(base, many).candidates[0]
    assert worst(crowd, "activity-without-goodput").outcome != "flagged"


def test_every_number_of_the_policy_is_used() -> None:
    base, cand = repeats("a", 3), repeats("b", 3, "g" * 46 + "l" * 4, tokens=10_700)
    plain = to_json(gate(base, [("c", cand)]))
    assert to_json(gate(base, [("c", cand)], Policy(min_effect=0.01))) != plain
    assert to_json(gate(base, [("c", cand)], Policy(margin=0.2))) != plain
    assert to_json(gate(base, [("c", cand)], Policy(noise=Noise(0.2, 0.1)))) != plain
    single = to_json(gate(base[:1], [("c", cand)]))
    assert to_json(gate(base[:1], [("c", cand)], Policy(noise=Noise(0.02, 0.3)))) != single
    quiet = {rule.name: "informing" for rule in discover()}
    assert gate(base, [("c", repeats("d", 3, tokens=20_000))], Policy(rules=quiet)).exit_code == 3


def test_bounded_goodput_is_judged_by_its_bounds() -> None:
    def bounded(name: str, low: float, high: float) -> RunFigures:
        row = dict(run(name).goodput or {}) | {"goodput_rps": None, "slo_attainment_ratio": None}
        row |= {"goodput_rps_low": low / 2, "goodput_rps_high": high / 2}
        row |= {"slo_attainment_ratio_low": low, "slo_attainment_ratio_high": high}
        return replace(run(name), goodput=row)

    base = [bounded(f"a{i}", 0.9, 1.0) for i in range(3)]
    drop = worst(judge(base, [bounded(f"b{i}", 0.3, 0.5) for i in range(3)]), "goodput-drop")
    assert drop.outcome == "flagged"
    same = worst(judge(base, [bounded(f"b{i}", 0.9, 1.0) for i in range(3)]), "goodput-drop")
    assert same.outcome == "inconclusive"
    open_end = worst(judge(base, [bounded(f"b{i}", 0.0, 1.0) for i in range(3)]), "goodput-drop")
    assert open_end.outcome == "inconclusive"


# --- lengths of answers ----------------------------------------------------------------------


@pytest.mark.parametrize("refused", [1, 3, 4, 5])
def test_refused_requests_are_no_shorter_answers(refused: int) -> None:
    cand = repeats("b", 3, "g" * (50 - refused) + "r" * refused)
    found = gate(repeats("a", 3), [("c", cand)]).candidates[0].findings
    answers = [f for f in found if f.metric == "answer_tokens_per_request"]
    assert all((f.outcome, f.ratio) == ("pass", 1.0) for f in answers)


def test_shorter_answers_beside_refused_requests_are_found() -> None:
    """20 tokens against 10, the same five of fifty refused on both sides."""
    served = "g" * 45 + "r" * 5
    cand = repeats("b", 3, served, answers=(10,))
    result = gate(repeats("a", 3, served), [("c", cand)])
    assert result.verdict is Verdict.FLAGGED
    (found,) = (f for f in result.candidates[0].findings if f.metric == "answer_tokens_per_request")
    assert (found.baseline, found.candidate) == (pytest.approx(20), pytest.approx(10))
    assert found.outcome == "flagged"


# --- output ----------------------------------------------------------------------------------


def result_of(name: str = "candidate") -> GateResult:
    cand = repeats("b", 2, "g" * 30 + "f" * 20, recomputed=0.2, prompt=101)
    return gate(repeats("a", 2), [(name, cand)], baseline_config="base")


def test_json_has_exactly_the_schema() -> None:
    document = json.loads(to_json(result_of()), parse_constant=pytest.fail)
    assert list(document) == [
        "schema", "schema_version", "verdict", "exit_code", "slo", "window_rule", "notes",
        "policy", "baseline", "candidates",
    ]  # fmt: skip
    assert document["schema"] == "trueput.gate/1"
    assert document["slo"] == "ttft=1000ms"
    assert document["baseline"] == {"config": "base", "runs": ["a0", "a1"]}
    candidate = document["candidates"][0]
    assert list(candidate) == [
        "config", "runs", "verdict", "reason", "slo", "settle_runs", "findings", "comparability",
        "classes",
    ]  # fmt: skip
    assert list(candidate["findings"][0]) == [
        "rule", "severity", "outcome", "metric", "unit", "baseline", "candidate", "ratio",
        "ratio_low", "ratio_high", "confidence", "method", "basis", "conclusion", "scope",
    ]  # fmt: skip
    assert list(candidate["comparability"][0]) == [
        "aspect", "baseline", "candidate", "difference", "blocks", "holds_back",
    ]  # fmt: skip
    growth = next(f for f in candidate["findings"] if f["rule"] == "recompute-growth")
    assert growth["ratio"] == "inf"
    nothing = json.loads(to_json(gate(repeats("a", 3), [("c", repeats("b", 3))])))
    same = next(f for f in nothing["candidates"][0]["findings"] if f["rule"] == "recompute-growth")
    assert same["ratio"] is None


def test_output_is_the_same_byte_for_byte() -> None:
    assert to_json(result_of()) == to_json(result_of())
    assert to_markdown(result_of()) == to_markdown(result_of())


def test_markdown_starts_with_the_verdict_and_cannot_be_broken_by_a_name() -> None:
    comment = to_markdown(result_of("a|b <script>\n# x"))
    assert comment.startswith("## trueput gate: flagged\n")
    assert "<script>" not in comment
    assert "a&#124;b &lt;script&gt; # x: flagged" in comment
    assert "| prompt_lengths |" in comment
    assert "What this covers:" in comment


def test_candidates_with_objectives_of_their_own_tell_them() -> None:
    sides = [("same", repeats("b", 2)), ("other", repeats("c", 2, slo="ttft=9ms")),
             ("without", repeats("d", 2, slo=None))]  # fmt: skip
    result = gate(repeats("a", 2), sides)
    assert (result.slo, result.objective) == (None, "several")
    assert [c.slo for c in result.candidates] == ["ttft=1000ms", "ttft=9ms", None]
    document = json.loads(to_json(result))
    assert [c["slo"] for c in document["candidates"]] == ["ttft=1000ms", "ttft=9ms", None]
    text = to_markdown(result)
    assert "- objective: several\n" in text
    for shown in ("Objective `ttft=1000ms`.", "Objective `ttft=9ms`.", "Objective none."):
        assert text.count(shown) == 1
    assert "Objective" not in to_markdown(gate(repeats("a", 2), sides[:1]))
    none = gate(repeats("a", 2, slo=None), sides[2:])
    assert (none.slo, none.objective) == (None, "none")


@pytest.mark.parametrize(
    ("scheduled", "uncovered", "hint"),
    [
        (1000, None, "hint: scrape /metrics during the run."),
        (None, None, "hint: run the engine with `--enable-logging-iteration-details`."),
        (1000, "half", "hint: keep the engine's whole record."),
    ],
)
def test_unknown_recompute_says_what_would_tell_it(
    scheduled: int | None, uncovered: str | None, hint: str
) -> None:
    """Iterations alone bound recomputed tokens from below: counters would balance them."""
    row = {"recomputed_tokens_low": 0, "scheduled_tokens": scheduled, "preemptions": 1}

    def bounded(name: str) -> list[RunFigures]:
        return [replace(r, recompute=row, uncovered=uncovered) for r in repeats(name, 3)]

    base, cand = bounded("a"), bounded("b")
    found = worst(judge(base, cand), "recompute-growth")
    assert (found.outcome, found.conclusion.endswith(hint)) == ("inconclusive", True)
    assert "not known in any run" in found.conclusion
    found = worst(judge(base, [*cand[:2], *repeats("c", 1)]), "recompute-growth")
    assert "not known in every run (missing: a0, a1, a2, b0, b1)" in found.conclusion
