"""Every key of the policy counts: set otherwise, it changes a verdict, an exit code or the text.

The keys come from the policy's own declaration, so that a new one without a case here fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from gate.bench_runs import bench, write, write_scheduled
from gate.made_up import SECOND, repeats, run

from trueput.errors import UsageError
from trueput.gate.figures import RunFigures
from trueput.gate.policy import Policy, parse_policy
from trueput.gate.policy.keys import KEYS, names, tables
from trueput.gate.policy.metrics import METRICS, RUNGS
from trueput.gate.policy.template import template
from trueput.gate.render import to_json, to_markdown
from trueput.gate.requests import Requests
from trueput.gate.statistics import Effect, Noise, Sample, share_effect
from trueput.gate.verdict import GateResult, gate
from trueput.verbs.gate import gate as gate_verb
from trueput.verbs.opening import Reading

Sides = tuple[list[RunFigures], list[RunFigures]]
Judge = Callable[[str], GateResult]
DAY = date(2026, 6, 1)
OVERRIDE = 'owner = "team"\nreason = "known"\nexpires = 2026-12-31\n'


def fewer(lost: int, of: int = 50) -> Sides:
    return repeats("a", 3), repeats("b", 3, "g" * (of - lost) + "l" * lost)


def rung(metric: str, value: float, unit: str = "ratio") -> list[RunFigures]:
    row = {"metric": metric, "value": value, "unit": unit, "basis": "reported"}
    return [replace(r, gpu_activity=(row,)) for r in repeats(f"{value}", 3)]


def hardware(one: str, other: str) -> Sides:
    return repeats("a", 3, hardware=one), repeats("b", 3, hardware=other)


DROP = "\n[[overrides]]\nrule = 'goodput-drop'\nseverity = 'informing'\n"
HARDWARE = "\n[[overrides]]\naspect = 'hardware'\nblocks = true\n"
#: Key -> the sides, and two policies that differ in that key.
CASES: dict[str, tuple[Sides, str, str]] = {
    "min_effect": (fewer(6), "min_effect = 0.05", "min_effect = 0.3"),
    "margin": (fewer(0), "margin = 0.05", "margin = 0.01"),
    "floor_log_sd": (fewer(6), "floor_log_sd = 0.02", "floor_log_sd = 0.2"),
    "run_log_sd": (
        ([run("a")], [run("b", "g" * 15 + "l" * 35)]), "run_log_sd = 0.1", "run_log_sd = 0.9",
    ),
    "repeats": (fewer(0), "repeats = 3", "repeats = 4"),
    "[exit] inconclusive": (
        (repeats("a", 2), repeats("b", 2)), "", "[exit]\ninconclusive = 0",
    ),
    "[exit] not_comparable": (
        (repeats("a", 3), repeats("b", 3, prompt=200)), "", "[exit]\nnot_comparable = 7",
    ),
    "[metrics.METRIC] min_effect": (fewer(6), "", "[metrics.goodput_rps]\nmin_effect = 0.3"),
    "[metrics.METRIC] floor": (fewer(6), "", "[metrics.goodput_rps]\nfloor = 0.2"),
    "[must_match] ASPECT": (hardware("A", "B"), "", "[must_match]\nhardware = true"),
    "[under_test] ASPECT": (
        (repeats("a", 3), repeats("b", 3, prompt=200)), "", "[under_test]\nprompt_lengths = true",
    ),
    "[rules] RULE": (fewer(25), "", "[rules]\ngoodput-drop = 'informing'"),
    "[[overrides]] rule": (
        fewer(25), DROP + OVERRIDE, DROP.replace("goodput-drop", "hidden-failures") + OVERRIDE,
    ),
    "[[overrides]] severity": (
        fewer(25), DROP + OVERRIDE, DROP.replace("informing", "blocking") + OVERRIDE,
    ),
    "[[overrides]] aspect": (
        hardware("A", "B"), HARDWARE + OVERRIDE, HARDWARE.replace("hardware", "engine") + OVERRIDE,
    ),
    "[[overrides]] blocks": (
        hardware("A", "B"), HARDWARE + OVERRIDE, HARDWARE.replace("true", "false") + OVERRIDE,
    ),
    "[[overrides]] owner": (fewer(0), DROP + OVERRIDE, DROP + OVERRIDE.replace("team", "other")),
    "[[overrides]] reason": (fewer(0), DROP + OVERRIDE, DROP + OVERRIDE.replace("known", "new")),
    "[[overrides]] expires": (
        fewer(25), DROP + OVERRIDE, DROP + OVERRIDE.replace("2026-12", "2026-05"),
    ),
}  # fmt: skip
#: Keys of [slo] -> two policies under which the runs that are ingested below differ.
SLO_CASES = {
    "[slo] ttft": ("[slo]\nttft = '1s'", "[slo]\nttft = '100ms'"),
    "[slo] tpot": ("[slo]\ntpot = '1s'", "[slo]\ntpot = '10ms'"),
    "[slo] itl_p99": ("[slo]\nitl_p99 = '1s'", "[slo]\nitl_p99 = '100ms'"),
    "[slo] e2e": ("[slo]\ne2e = '9s'", "[slo]\ne2e = '200ms'"),
    "[slo] min_output_tokens": (
        "[slo]\nttft = '1s'\nmin_output_tokens = 1", "[slo]\nttft = '1s'\nmin_output_tokens = 9",
    ),
    "[slo] from": (
        "[slo]\ne2e = '600ms'\nfrom = 'sent'", "[slo]\ne2e = '600ms'\nfrom = 'scheduled'",
    ),
    "[[slo.class]] label": (
        "[slo]\nttft = '1s'\n[[slo.class]]\nlabel = 'other'\nttft = '100ms'",
        "[slo]\nttft = '1s'\n[[slo.class]]\nlabel = 'chat'\nttft = '100ms'",
    ),
    "[[slo.class]] prompt_tokens": (
        "[slo]\nttft = '1s'\n[[slo.class]]\nprompt_tokens = '101..'\nttft = '100ms'",
        "[slo]\nttft = '1s'\n[[slo.class]]\nprompt_tokens = '100..101'\nttft = '100ms'",
    ),
    **{
        f"[[slo.class]] {name}": (
            f"[slo]\nttft = '2s'\n[[slo.class]]\nprompt_tokens = '..500'\n{name} = '9s'",
            f"[slo]\nttft = '2s'\n[[slo.class]]\nprompt_tokens = '..500'\n{name} = '{limit}'",
        )
        for name, limit in (
            ("ttft", "100ms"), ("tpot", "10ms"), ("itl_p99", "100ms"), ("e2e", "200ms"),
        )
    },
    "[slo] undefined": (
        "[slo]\ntpot = '1s'\nundefined = 'pass'", "[slo]\ntpot = '1s'\nundefined = 'fail'",
    ),
}  # fmt: skip


def told(result: GateResult) -> tuple[object, ...]:
    """Return what a reader or a script can tell apart; the echo of the objective is left out."""
    same = replace(result, slo=None)
    return result.verdict, result.exit_code, to_json(same), to_markdown(same)


@pytest.mark.parametrize(
    "key", [k for k in KEYS if not k.table.startswith("slo")], ids=lambda k: k.shown
)
def test_every_key_counts(key: object) -> None:
    shown = key.shown  # type: ignore[attr-defined]  # a Key
    if shown == "version":
        with pytest.raises(UsageError, match="version 2 is not known"):
            parse_policy("version = 2")
        return
    (base, cand), one, other = CASES[shown]
    results = [gate(base, [("c", cand)], parse_policy(p), today=DAY) for p in (one, other)]
    assert told(results[0]) != told(results[1])
    printed_only = {"[[overrides]] owner", "[[overrides]] reason"}
    decided = [
        (r.exit_code, r.verdict, [(f.severity, f.outcome) for f in r.candidates[0].findings])
        for r in results
    ]
    assert (decided[0] == decided[1]) == (shown in printed_only)


@pytest.fixture(scope="module")
def judge_ingested(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Gate a run of 20 requests against one like it; one token each in the second pair."""
    root = tmp_path_factory.mktemp("policy")
    for name, tokens in (("five", 5), ("one", 1)):
        for side in "ab":
            ttft_s = 0.3 if side == "a" else 0.301
            write_scheduled(root / f"due_{side}", 0.2, ttft_s, side)
            ttfts = [ttft_s] * 20
            made = bench(ttfts, tokens=tokens, label=side, slow_gap_s=0.5) if (
                tokens > 1) else bench(ttfts, tokens=1, label=side)  # fmt: skip
            write(root / f"{name}_{side}", made)

    def judge(policy: str) -> GateResult:
        path = root / "gate.toml"
        path.write_text(policy, encoding="utf-8")
        name = (
            "one"
            if "undefined" in policy
            else "due"
            if "from" in policy or "label" in policy
            else "five"
        )
        sides = [str(root / f"{name}_{side}") for side in "ab"]
        return gate_verb(sides[0], sides[1:], path, Reading(store=root / "store"))

    return judge


@pytest.mark.long(besides=2)
@pytest.mark.parametrize(
    "key", [k for k in KEYS if k.table.startswith("slo")], ids=lambda k: k.shown
)
def test_every_key_of_the_objective_counts(key: object, judge_ingested: Judge) -> None:
    one, other = SLO_CASES[key.shown]  # type: ignore[attr-defined]  # a Key
    kept, missed = (judge_ingested(policy) for policy in (one, other))
    assert told(kept) != told(missed)
    if key.name == "min_output_tokens":  # type: ignore[attr-defined]
        # too short an answer did not end as asked: not one of a run is left to be judged
        assert "ended as asked" in missed.candidates[0].reason
        assert kept.candidates[0].findings
        return
    attainment = [
        next(f.baseline for f in r.candidates[0].findings if f.metric == "slo_attainment_ratio")
        for r in (kept, missed)
    ]
    assert attainment == [1.0, 0.0]


def sooner(whole: bool) -> Sides:
    """Halve the time to the first token; the time to the last one too where `whole`."""
    quick = repeats("b", 3, latency_ns=SECOND // 2)
    if not whole:
        sooner = [replace(r, ttft_ns=SECOND // 20) for r in run("b").requests]
        quick = [replace(r, requests=Requests.of(sooner)) for r in repeats("b", 3)]
    return repeats("a", 3), quick


def slower(name: str, times: float, slo: str = "ttft=1000ms") -> Sides:
    """Give one latency of every request of the candidate another length."""
    return (
        [replace(r, requests=Requests.of(replace(x, **{name: 10**9}) for x in r.requests))
         for r in repeats("a", 3, slo=slo)],
        [replace(r, requests=Requests.of(replace(x, **{name: int(times * 10**9)})  # type: ignore[arg-type]
                                         for x in r.requests))
         for r in repeats("b", 3, slo=slo)],
    )  # fmt: skip


def shown(name: str, one: object, other: object) -> Sides:
    """Give the runs of each side one row of a view."""
    return (
        [replace(r, **{name: one}) for r in repeats("a", 3)],
        [replace(r, **{name: other}) for r in repeats("b", 3)],
    )


def routed(later: int) -> tuple[dict[str, object], ...]:
    return ({"compared_requests": 100, "warm_but_later_requests": later},)


#: Metric -> sides whose figures differ enough to be told, and a floor above that difference.
METRIC_CASES: dict[str, tuple[Sides, str]] = {
    "goodput_rps": (fewer(10), "0.2"),
    "slo_attainment_ratio": (fewer(10), "0.5"),
    "lost_requests_ratio": ((repeats("a", 3), repeats("b", 3, "g" * 35 + "f" * 15)), "0.9"),
    "answer_tokens_per_request": (
        (repeats("a", 3), [
            replace(r, requests=Requests.of(replace(x, output_tokens=10) for x in r.requests))
            for r in repeats("b", 3)
        ]), "99",
    ),
    "recomputed_ratio": ((repeats("a", 3), repeats("b", 3, recomputed=0.3)), "0.9"),
    "output_tokens_per_s": (
        (repeats("a", 3, "g" * 30 + "f" * 20), repeats("b", 3, "g" * 30 + "l" * 20)), "99",
    ),
    "ttft_ns_p50": (sooner(whole=False), "'1s'"),
    "e2e_ns_p50": (sooner(whole=True), "'10s'"),
    "ttft_ns_mean": (slower("ttft_ns", 1.5, "tpot=1s"), "'9s'"),
    "tpot_ns_mean": (slower("tpot_ns", 1.5), "'9s'"),
    "longest_gap_ns_mean": (slower("longest_gap_ns", 1.5), "'9s'"),
    "e2e_ns_mean": (slower("e2e_ns", 1.5), "'9s'"),
    "hit_ratio": (shown("prefix_cache", {"hit_ratio": 0.1}, {"hit_ratio": 0.6}), "0.9"),
    "kv_used_ratio_p99": (
        shown("batching", {"kv_used_ratio_p99": 0.9}, {"kv_used_ratio_p99": 0.4}), "0.9",
    ),
    "preemptions_per_request": (
        shown("recompute", {"preemptions": 40}, {"preemptions": 5}), "0.9",
    ),
    "warm_but_later_ratio": (shown("routing", routed(0), routed(30)), "0.9"),
    "quality": (shown("quality", {"accuracy": 0.8}, {"accuracy": 0.6}), "0.9"),
    **{
        name: ((rung(name, 0.5, _unit), rung(name, 0.7, _unit)), "0.9")
        for name, _unit in ((r, "W" if u == "W" else "ratio") for r, u in RUNGS.items())
    },
}  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("key", ["min_effect", "floor"])
def test_every_metric_has_its_own_limits(metric: str, key: str) -> None:
    (base, cand), floor = METRIC_CASES[metric]
    value = "0.95" if key == "min_effect" else floor
    own = parse_policy(f"[metrics.{metric}]\n{key} = {value}")
    results = [gate(base, [("c", cand)], policy) for policy in (Policy(), own)]
    outcomes = [[(f.metric, f.outcome) for f in r.candidates[0].findings] for r in results]
    assert outcomes[0] != outcomes[1]


def test_a_floor_is_a_change_in_the_unit_of_the_metric() -> None:
    """Goodput falls from 0.50 to 0.40 a second: 0.09 is less than that, 0.11 is more."""
    base, cand = fewer(10)
    policies = [f"floor_log_sd = 0.0\n[metrics.goodput_rps]\nfloor = {f}" for f in (0.09, 0.11)]
    found = [
        next(f.outcome for f in gate(base, [("c", cand)], parse_policy(p)).candidates[0].findings
             if f.metric == "goodput_rps")
        for p in policies
    ]  # fmt: skip
    assert found == ["flagged", "pass"]


def test_goodput_judged_in_points_takes_the_floor_of_attainment() -> None:
    """A run without a good request: a floor in requests a second says nothing of points."""
    base, cand = repeats("a", 3, "l" * 50), repeats("b", 3, "l" * 50, tokens=14_000)
    outcomes = []
    for metric, floor in (("goodput_rps", 50), ("slo_attainment_ratio", 0.5)):
        policy = parse_policy(f"[metrics.{metric}]\nfloor = {floor}")
        found = gate(base, [("c", cand)], policy).candidates[0].findings[0]
        outcomes.append(policy.slack("goodput_rps", _points()))
        assert found.rule == "activity-without-goodput"
        assert found.outcome == "flagged"
    assert outcomes == [0.05, 0.5]


def _points() -> Effect:
    made = share_effect([Sample.exact(0.0, trials=50)], [Sample.exact(0.0, trials=50)], Noise())
    assert made is not None
    return made


def test_a_floor_above_the_whole_baseline_is_no_error() -> None:
    base, cand = fewer(10)
    policy = parse_policy("floor_log_sd = 0.3\n[metrics.goodput_rps]\nfloor = 3.0")
    finding = next(
        f for f in gate(base, [("c", cand)], policy).candidates[0].findings
        if f.metric == "goodput_rps"
    )  # fmt: skip
    assert finding.outcome == "pass"


def test_fewer_repeats_than_asked_for_are_inconclusive_and_say_so() -> None:
    busier = gate(repeats("a", 3), [("c", repeats("b", 2, tokens=20_000))], Policy(repeats=3))
    assert (busier.verdict, busier.exit_code) == ("inconclusive", 3)
    reason = "the policy asks for 3 runs on each side, the candidate has 2"
    assert busier.candidates[0].reason == reason
    assert any(f.outcome == "flagged" for f in busier.candidates[0].findings), "still shown"


def test_a_run_given_twice_is_no_repeat() -> None:
    twice = [run("b", content_sha256="x"), run("b2", content_sha256="x")]
    found = gate(repeats("a", 2), [("c", twice)], Policy(repeats=2))
    assert "the candidate has 1" in found.candidates[0].reason


def test_exit_code_zero_for_one_verdict_does_not_hide_another() -> None:
    """Not comparable comes before inconclusive, and exits with 0 by the policy."""
    policy = parse_policy("[exit]\nnot_comparable = 0")
    candidates = [("other", repeats("b", 2, prompt=200)), ("open", repeats("c", 2))]
    both = gate(repeats("a", 2), candidates, policy)
    assert (both.verdict, both.exit_code) == ("not_comparable", 3)
    assert gate(repeats("a", 2), candidates[:1], policy).exit_code == 0


def test_an_override_holds_through_its_last_day_and_is_always_said() -> None:
    base, cand = fewer(25)
    policy = parse_policy(DROP + OVERRIDE)
    last = gate(base, [("c", cand)], policy, today=date(2026, 12, 31))
    after = gate(base, [("c", cand)], policy, today=date(2027, 1, 1))
    drop = [[f.severity for f in r.candidates[0].findings if f.rule == "goodput-drop"]
            for r in (last, after)]  # fmt: skip
    assert drop == [["informing"] * 2, ["blocking"] * 2]
    assert [n.level for n in (*last.notes, *after.notes)] == ["notice", "warning"]
    assert after.notes[0].text == (
        "override expired on 2026-12-31, and is not applied: rule goodput-drop is informing "
        "(team: known); renew it or remove it"
    )
    assert after.verdict == "flagged"
    for text in (to_json(after), to_markdown(after)):
        assert "override expired on 2026-12-31" in text


def test_an_override_comes_before_the_tables() -> None:
    policy = parse_policy("[must_match]\nhardware = true\n" + HARDWARE.replace("true", "false")
                          + OVERRIDE)  # fmt: skip
    base, cand = hardware("A", "B")
    assert gate(base, [("c", cand)], policy, today=DAY).verdict == "pass"
    assert gate(base, [("c", cand)], policy, today=date(2030, 1, 1)).verdict == "not_comparable"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("repeats = 0", "expected a whole number from 1", "repeats = 3"),
        ("repeats = 2.5", "expected a whole number", "repeats = 3"),
        ("[exit]\ninconclusive = 100", "from 0 to 99", "inconclusive = 3"),
        ("[exit]\nflagged = 0", "unknown key `flagged`", "known are inconclusive"),
        ("[[slo.class]]\nttft = '1s'", "neither label nor prompt_tokens", "label"),
        ("[[slo.class]]\nlabel = 'a'", "no limit", "ttft"),
        ("[[slo.class]]\nlabel = 'a'\ntfft = '1s'", "unknown key `tfft`", "`ttft`"),
        ("[[slo.class]]\nprompt_tokens = '9..9'\nttft = '1s'", "expected FROM..TO", "0..1000"),
        ("[slo]\nclass = 'a'", "no list of tables", "[[slo.class]]"),
        (
            "[[slo.class]]\nlabel = 'a'\nttft = '1s'\n"
            "[[slo.class]]\nprompt_tokens = '5..'\nttft = '1s'",
            "a request can be of this class and of number 1",
            "do not overlap",
        ),
        ("[metrics.goodput]\nfloor = 1", "unknown key `goodput`", "`goodput_rps`"),
        ("[metrics.goodput_rps]\nflor = 1", "unknown key `flor`", "`floor`"),
        ("[metrics]\ngoodput_rps = 0.1", "expected a table", "[metrics.goodput_rps]"),
        ("[metrics.goodput_rps]\nfloor = -1", "expected a number in 1/s", "0.1"),
        ("[metrics.goodput_rps]\nmin_effect = 1", "expected a number from 0", "0.05"),
        ("[metrics.lost_requests_ratio]\nfloor = 5", "expected a share from 0 to 1", "0.1"),
        ("[metrics.ttft_ns_p50]\nfloor = 20", "expected text with a unit", "20ms"),
        ("[metrics.ttft_ns_p50]\nfloor = '20'", "has no unit", "ms"),
        ("overrides = 3", "no list of tables", "[[overrides]]"),
        ("[[overrides]]\nowner = 'x'", "either `rule` or `aspect`", "severity"),
        (DROP, "`owner` is missing", "owner, reason, expires"),
        (DROP + OVERRIDE.replace("owner", "owners"), "unknown key `owners`", "`owner`"),
        (DROP + OVERRIDE.replace("team", " "), "expected text", "owner"),
        (DROP + OVERRIDE.replace("2026-12-31", "'soon'"), "expected a date", "2027-01-31"),
        (DROP + "blocks = true\n" + OVERRIDE, "`blocks` does not go with `rule`", "severity"),
        (DROP.replace("drop", "dorp") + OVERRIDE, "unknown key `goodput-dorp`", "`goodput-drop`"),
        (HARDWARE.replace("ware", "") + OVERRIDE, "unknown key `hard`", "hardware"),
        ((DROP + OVERRIDE) * 2, "overridden twice", "keep the one"),
    ],
)
def test_a_wrong_policy_says_where_and_what_to_do(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_policy(text, where="gate.toml")
    assert "gate.toml" in caught.value.message
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_the_template_is_a_policy_that_sets_nothing() -> None:
    assert parse_policy(template()) == Policy()


def test_the_template_taken_up_sets_every_key() -> None:
    """Without the `#` of its settings it is a valid policy in which each key stands."""
    text = re.sub(r"^#(?=[^ ])", "", template(), flags=re.MULTILINE)
    policy = parse_policy(text)
    assert policy.repeats == 3
    assert policy.overrides
    assert policy.metrics
    for key in KEYS:
        assert key.name == "*" or re.search(rf"^{key.name} = |\b{key.name} = ", text, re.M), key


def test_declared_tables_are_the_ones_that_are_read(tmp_path: Path) -> None:
    assert set(tables()) == {
        "exit", "slo", "metrics", "must_match", "under_test", "rules", "overrides",
    }  # fmt: skip
    assert "repeats" in names("")
    with pytest.raises(UsageError, match="did you mean `overrides`"):
        parse_policy("[[override]]\nrule = 'x'")
