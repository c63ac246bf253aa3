"""What must not pass: a cut result, a side without its client, and one measurement sold as three.

A recorded run is copied and edited: the server's files stay as they are.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fixture_folder import fixture_folder
from gate.made_up import repeats, run
from gate.served import SLO, kept, usual

from trueput.gate.measurements import digest, distinct, reused
from trueput.gate.requests import Request, Requests
from trueput.gate.verdict import GateResult, Verdict, gate
from trueput.verbs.compare import compare
from trueput.verbs.gate import gate as gate_verb
from trueput.verbs.opening import Reading

RUN = "regress_baseline"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recorded run, and a copy whose latencies are 1 us longer."""
    root = tmp_path_factory.mktemp("measured")
    for name, longer_s in (("base", 0.0), ("cand", 1e-6)):
        result = json.loads((fixture_folder("vllm_cpu") / RUN / "bench.json").read_text())
        result["ttfts"] = [ttft + longer_s for ttft in result["ttfts"]]
        copied(root, name, json.dumps(result))
    return root


def copied(root: Path, name: str, bench: str | None) -> str:
    """Write a copy of the recorded run with another client result, or without one."""
    folder = root / name
    folder.mkdir()
    source = fixture_folder("vllm_cpu") / RUN
    for part in ("server.log.gz", "metrics.prom.gz", "otlp.jsonl.gz", "run.toml"):
        if (source / part).exists():
            shutil.copy(source / part, folder)
    if bench is not None:
        (folder / "bench.json").write_text(bench, encoding="utf-8")
    return str(folder)


def judged(root: Path, base: str, cand: str) -> GateResult:
    return gate_verb(base, [cand], reading=Reading(store=root / "store", slo="ttft=5s,tpot=20ms"))


def test_a_cut_client_result_is_unusable(root: Path) -> None:
    whole = (root / "cand" / "bench.json").read_text()
    found = judged(root, str(root / "base"), copied(root, "cut", whole[: len(whole) // 2]))
    assert (found.verdict, found.exit_code) == (Verdict.UNUSABLE, 2)
    for told in ("cut is not whole", "`bench.json`", "BENCH001"):
        assert told in found.candidates[0].reason


def test_a_side_without_its_client_is_not_comparable(root: Path) -> None:
    found = judged(root, str(root / "base"), copied(root, "unseen", None))
    assert found.verdict is Verdict.NOT_COMPARABLE
    (vantage,) = (d for d in found.candidates[0].comparability if d.aspect == "vantage")
    assert (vantage.baseline, vantage.candidate, vantage.blocks) == ("client", "engine", True)


def test_a_whole_result_with_its_client_is_judged(root: Path) -> None:
    found = judged(root, str(root / "base"), str(root / "cand"))
    assert found.candidates[0].findings
    assert not [d for d in found.candidates[0].comparability if d.blocks]
    assert found.notes == ()


def test_a_result_kept_three_times_is_one_repeat(tmp_path: Path) -> None:
    """Other labels in run.toml and another packing: still what was measured once."""
    base = kept(tmp_path, "base", usual())
    cand = kept(tmp_path, "cand", usual(), 1)
    for place in (1, 2):
        shutil.copytree(tmp_path / "cand0", tmp_path / f"cand{place}")
        cand += f",{tmp_path / f'cand{place}'}"
    (tmp_path / "cand1" / "run.toml").write_text('[labels]\nnight = "other"\n')
    plain = tmp_path / "cand2" / "bench.json"
    (plain.parent / "bench.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    found = gate_verb(base, [cand], reading=Reading(store=tmp_path / "store", slo=SLO))
    assert found.candidates[0].runs == ("cand0",)
    assert found.verdict is not Verdict.PASS
    assert [n.text.split(",")[0] for n in found.notes] == [
        f"cand{place} is the same measurement as cand0" for place in (1, 2)
    ]


def test_the_baselines_own_measurement_under_another_name_is_unusable(tmp_path: Path) -> None:
    base = kept(tmp_path, "base", usual())
    shutil.copytree(tmp_path / "base1", tmp_path / "cand")
    (tmp_path / "cand" / "run.toml").write_text('[labels]\nbuild = "new"\n')
    cand = f"{kept(tmp_path, 'new', usual(), 2)},{tmp_path / 'cand'}"
    reading = Reading(store=tmp_path / "store", slo=SLO)
    found = gate_verb(base, [cand], reading=reading)
    assert found.verdict is Verdict.UNUSABLE
    assert found.candidates[0].reason == (
        "the candidate's measurement cand is the baseline's run base1"
    )
    itself = gate_verb(base, [base], reading=reading)
    assert itself.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}
    assert "both sides are the same runs" in itself.notes[0].text


def test_one_run_of_the_baseline_among_the_candidates_is_unusable() -> None:
    base, cand = repeats("a", 3), repeats("b", 2)
    found = gate(base, [("c", [*cand, base[0]])])
    assert found.verdict is Verdict.UNUSABLE
    assert gate(base, [("c", [*cand, run("b2")])]).verdict is Verdict.PASS


def test_runs_whose_digests_are_not_known_are_not_one_measurement() -> None:
    runs = repeats("a", 3)
    assert distinct(runs) == (tuple(runs), ())
    assert reused(runs, repeats("b", 3)) is None


def test_what_the_digest_is_of() -> None:
    """Sends and latencies count to the nanosecond; lengths, outcomes and order do not."""
    rows = [Request("good", True, place * 10, ttft_ns=5, e2e_ns=20 + place) for place in range(9)]
    one = digest(Requests.of(rows), {})
    assert one is not None
    assert digest(Requests.of(rows[::-1]), {}) == one
    judged_late = [Request("late", True, r.sent_ns, ttft_ns=5, e2e_ns=r.e2e_ns) for r in rows]
    assert digest(Requests.of(judged_late), {}) == one
    later = [*rows[:-1], Request("good", True, 80, ttft_ns=5, e2e_ns=29)]
    assert digest(Requests.of(later), {}) != one
    assert digest(Requests.of(rows[:-1]), {}) != one
    untimed = Requests.of_columns(np.zeros(3, np.int8), np.ones(3, bool), {})
    assert digest(untimed, {}) is None


def test_a_run_without_requests_has_the_digest_of_its_activity() -> None:
    def of(value: float, window: int = 10) -> str | None:
        activity = [{"metric": "scheduled_tokens", "value": value}]
        return digest(Requests.of(()), {"goodput": [{"window_ns": window}],
                                        "gpu_activity": activity})  # fmt: skip

    assert of(7.0) == of(7.0)
    assert len({of(7.0), of(8.0), of(7.0, 11)}) == 3
    assert digest(Requests.of(()), {"goodput": [{"window_ns": 10}]}) is None


def test_compare_counts_a_copy_once_and_says_so(tmp_path: Path) -> None:
    base = kept(tmp_path, "base", usual(), 2)
    cand = kept(tmp_path, "cand", usual(), 1)
    shutil.copytree(tmp_path / "cand0", tmp_path / "cand1")
    shutil.copytree(tmp_path / "base0", tmp_path / "old")
    reading = Reading(store=tmp_path / "store", slo=SLO)
    copied_side = f"{cand},{tmp_path / 'cand1'}"
    (found,) = compare(base, [copied_side], reading)
    assert found.candidate.runs == ("cand0",)
    assert found.method.startswith("one run on a side")
    assert [n.text.split(",")[0] for n in found.notes] == ["cand1 is the same measurement as cand0"]
    (both,) = compare(base, [f"{cand},{tmp_path / 'old'}"], reading)
    assert [n.text for n in both.notes] == [
        "the candidate's measurement old is the baseline's run base0"
    ]
    (itself,) = compare(base, [base], reading)
    assert "both sides are the same runs" in itself.notes[0].text
