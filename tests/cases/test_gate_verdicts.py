"""Verdicts on the recorded pairs, as `trueput gate --format json` prints them.

Figures are the clients' printed ones and hand calculation: goodput per run from the requests of
bench.json, ratios of mean logs, bounds from Student's t with the pooled variance.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.program import Program

BASE = ("regress_baseline", "regress_baseline_r2")
CAND = ("regress_candidate", "regress_candidate_truth")
BLOCKING = {"activity-without-goodput", "goodput-drop", "hidden-failures"}


class Gate:
    """The gate's JSON on runs of the store, with its exit code."""

    def __init__(self, store: Path) -> None:
        self.program = Program(store)

    def __call__(self, base: tuple[str, ...], cand: tuple[str, ...], slo: str) -> Verdict:
        sides = ",".join(base), ",".join(cand)
        done = self.program("gate", *sides, "--slo", slo, "--format", "json")
        return Verdict(json.loads(done.stdout), done.code)


class Verdict:
    """One candidate's verdict."""

    def __init__(self, document: dict[str, Any], code: int) -> None:
        self.document = document
        self.code = code
        (self.candidate,) = document["candidates"]

    @property
    def verdict(self) -> str:
        assert self.candidate["verdict"] == self.document["verdict"]
        assert self.document["exit_code"] == self.code
        return str(self.candidate["verdict"])

    def finding(self, rule: str, metric: str = "") -> dict[str, Any]:
        """Return the finding of a rule, on a metric where it has several."""
        found = [
            f
            for f in self.candidate["findings"]
            if f["rule"] == rule and metric in {"", f["metric"]}
        ]
        assert len(found) == 1, f"{rule} {metric}: {len(found)} findings"
        return dict(found[0])

    def flagged(self) -> set[str]:
        """Return the blocking rules that flag."""
        return {
            f["rule"]
            for f in self.candidate["findings"]
            if f["severity"] == "blocking" and f["outcome"] == "flagged"
        }


@pytest.fixture(scope="module")
def gate(store: Path) -> Gate:
    return Gate(store)


@pytest.fixture(scope="module")
def pair(gate: Gate) -> Verdict:
    """The regression pair with its repeats, at the objective fixed before the runs."""
    return gate(BASE, CAND, "ttft=5000ms,tpot=20ms")


def test_the_regression_pair_is_flagged_and_exits_1(pair: Verdict) -> None:
    assert (pair.verdict, pair.code) == ("flagged", 1)
    assert pair.document["schema"] == "trueput.gate/1"
    assert pair.document["baseline"]["runs"] == list(BASE)
    assert pair.candidate["runs"] == list(CAND)
    assert pair.flagged() == {"activity-without-goodput", "goodput-drop", "recompute-growth"}
    assert not [d for d in pair.candidate["comparability"] if d["blocks"]]
    assert [d["aspect"] for d in pair.candidate["comparability"]] == ["config.max_num_seqs"]


def test_goodput_fell_by_the_pooled_t(pair: Verdict) -> None:
    found = pair.finding("goodput-drop", "goodput_rps")
    assert found["outcome"] == "flagged"
    # geometric means of 1.0700, 1.2434 and of 0.8517, 0.7989
    assert found["baseline"] == pytest.approx(1.1535, abs=5e-4)
    assert found["candidate"] == pytest.approx(0.8249, abs=5e-4)
    assert found["ratio"] == pytest.approx(0.715, abs=5e-4)
    assert found["ratio_high"] == pytest.approx(0.908, abs=1e-3)
    assert found["ratio_high"] < 0.95
    assert found["confidence"] == 0.95
    assert found["scope"]
    assert found["conclusion"]


def test_scheduled_tokens_rose_and_the_increase_is_recompute(pair: Verdict) -> None:
    found = pair.finding("activity-without-goodput", "scheduled_tokens")
    assert found["outcome"] == "flagged"
    assert found["ratio_low"] > 1.05
    # (59,687 + 58,548) / 2 - 42,399, all of it recomputed
    assert "recompute is 100% of the increase of 16,718 tokens a run" in found["conclusion"]


def test_recompute_growth_blocks_where_goodput_did_not_rise(pair: Verdict) -> None:
    found = pair.finding("recompute-growth")
    assert (found["severity"], found["outcome"]) == ("blocking", "flagged")
    assert found["baseline"] == 0
    # mean of 17,288 / 59,687 and 16,149 / 58,548
    assert found["candidate"] == pytest.approx(0.28273, abs=1e-4)


@pytest.mark.parametrize(
    ("rule", "metric"),
    [
        ("activity-without-goodput", "engine_step"),
        ("first-token-only", "ttft_ns_p50"),
        ("throughput-without-goodput", "output_tokens_per_s"),
    ],
)
def test_the_rest_shows_no_settled_difference(pair: Verdict, rule: str, metric: str) -> None:
    found = pair.finding(rule, metric)
    assert found["outcome"] == "inconclusive"
    assert found["ratio_low"] < 1 < found["ratio_high"]


def test_no_request_was_lost(pair: Verdict) -> None:
    found = pair.finding("hidden-failures", "lost_requests_ratio")
    assert (found["outcome"], found["baseline"], found["candidate"]) == ("pass", 0, 0)


def test_a_kinder_objective_leaves_it_open(gate: Gate) -> None:
    found = gate(BASE, CAND, "ttft=5000ms,tpot=25ms")
    assert (found.verdict, found.code) == ("inconclusive", 3)
    goodput = found.finding("goodput-drop", "goodput_rps")
    assert goodput["outcome"] == "inconclusive"
    assert goodput["ratio"] == pytest.approx(0.985, abs=1e-3)
    assert goodput["ratio_low"] == pytest.approx(0.88, abs=5e-3)
    assert goodput["ratio_high"] == pytest.approx(1.11, abs=5e-3)
    assert found.finding("recompute-growth")["severity"] == "informing"


# goodput of the first runs as computed from bench.json by hand
@pytest.mark.parametrize(
    ("slo", "base", "cand"),
    [
        ("ttft=5000ms,tpot=16ms", 0.93, 0.47),
        ("ttft=5000ms,tpot=18ms", 1.03, 0.65),
        ("ttft=5000ms,tpot=20ms", 1.07, 0.85),
        ("ttft=5000ms,tpot=22ms", 1.17, 1.07),
        ("ttft=5000ms,tpot=25ms", 1.17, 1.21),
        ("ttft=1000ms,tpot=25ms", 0.52, 0.71),
    ],
)
def test_one_run_a_side_says_what_it_assumed(
    gate: Gate, slo: str, base: float, cand: float
) -> None:
    found = gate(BASE[:1], CAND[:1], slo)
    goodput = found.finding("goodput-drop", "goodput_rps")
    assert goodput["baseline"] == pytest.approx(base, abs=0.01)
    assert goodput["candidate"] == pytest.approx(cand, abs=0.01)
    assert "Run-to-run variation was assumed, not measured" in goodput["scope"]
    if cand > base:
        assert found.verdict != "flagged"
    if slo.endswith("tpot=16ms"):
        assert found.verdict == "flagged"


def test_more_preemptions_alone_are_no_regression(gate: Gate) -> None:
    found = gate(("control_baseline",), ("control_candidate",), "ttft=3000ms,tpot=25ms")
    assert found.verdict != "flagged"
    assert found.flagged() == set()
    goodput = found.finding("goodput-drop", "goodput_rps")
    assert goodput["baseline"] == pytest.approx(0.70, abs=0.01)
    assert goodput["candidate"] == pytest.approx(1.02, abs=0.01)
    growth = found.finding("recompute-growth")
    assert (growth["severity"], growth["outcome"]) == ("informing", "flagged")
    # 2,952 of 30,378 scheduled tokens
    assert growth["candidate"] == pytest.approx(0.09718, abs=1e-4)


def test_the_weak_pair_says_how_many_repeats_would_settle_it(gate: Gate) -> None:
    found = gate(("baseline_high",), ("candidate_high",), "ttft=8000ms,tpot=13ms")
    assert (found.verdict, found.code) == ("inconclusive", 3)
    goodput = found.finding("goodput-drop", "goodput_rps")
    assert goodput["baseline"] == pytest.approx(0.54, abs=0.01)
    assert goodput["candidate"] == pytest.approx(0.44, abs=0.01)
    assert "runs on each side would settle it" in goodput["conclusion"]


@pytest.mark.parametrize("order", [BASE, BASE[::-1]])
def test_repeats_of_one_configuration_are_not_flagged(gate: Gate, order: tuple[str, ...]) -> None:
    found = gate(order[:1], order[1:], "ttft=5000ms,tpot=20ms")
    assert found.verdict != "flagged"
    assert found.flagged() == set()
    assert found.candidate["comparability"] == []


def test_equal_bytes_on_one_side_count_once(gate: Gate) -> None:
    twice = gate((BASE[0], BASE[0]), CAND[:1], "ttft=5000ms,tpot=20ms")
    assert twice.document["baseline"]["runs"] == [BASE[0]]


def test_the_commands_objective_stands_for_the_policys(store: Path, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    classes = '[[slo.class]]\nlabel = "chat"\nttft = "300ms"\n'
    policy.write_text(f'version = 1\n[slo]\nttft = "1s"\n{classes}', "utf-8")
    asked = ("--slo", "ttft=5000ms,tpot=20ms", "--policy", str(policy), "--format", "json")
    done = Program(store)("gate", ",".join(BASE), ",".join(CAND), *asked)
    document = json.loads(done.stdout)
    assert document["slo"] == document["candidates"][0]["slo"] == "ttft=5000ms,tpot=20ms"
    assert document["candidates"][0]["classes"] == []
    (note,) = (n for n in document["notes"] if "command's objective" in n["text"])
    assert "label chat: ttft=300ms" in note["text"]
