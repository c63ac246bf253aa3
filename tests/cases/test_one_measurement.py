"""What must not pass: a cut result, a side without its client, and one measurement sold as three.

A recorded run is copied and edited: the server's files stay as they are.
"""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases.recorded import RUNS
from fixture_folder import fixture_folder
from gate.made_up import repeats, run
from gate.served import SLO, kept, usual

from trueput.gate.figures import RunFigures
from trueput.gate.measurements import digest, distinct, reused, same
from trueput.gate.requests import Request, Requests
from trueput.gate.verdict import GateResult, Verdict, gate
from trueput.verbs.base_side import base_side
from trueput.verbs.baseline import accept
from trueput.verbs.compare import compare
from trueput.verbs.figures import figures
from trueput.verbs.gate import gate as gate_verb
from trueput.verbs.opening import Reading, configuration

RUN = "regress_baseline"
REPEAT = "regress_baseline_r2"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recorded run and its recorded repeat."""
    root = tmp_path_factory.mktemp("measured")
    for name, source in (("base", RUN), ("cand", REPEAT)):
        result = fixture_folder("vllm_cpu") / source / "bench.json"
        copied(root, name, result.read_text(), source)
    return root


def copied(root: Path, name: str, bench: str | None, recorded: str) -> str:
    """Write a copy of a recorded run with another client result, or without one."""
    folder = root / name
    folder.mkdir()
    source = fixture_folder("vllm_cpu") / recorded
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
    found = judged(root, str(root / "base"), copied(root, "cut", whole[: len(whole) // 2], REPEAT))
    assert (found.verdict, found.exit_code) == (Verdict.UNUSABLE, 2)
    for told in ("cut is not whole", "`bench.json`", "BENCH001"):
        assert told in found.candidates[0].reason


def test_a_side_without_its_client_is_not_comparable(root: Path) -> None:
    found = judged(root, str(root / "base"), copied(root, "unseen", None, REPEAT))
    assert found.verdict is Verdict.NOT_COMPARABLE
    (vantage,) = (d for d in found.candidates[0].comparability if d.aspect == "vantage")
    assert (vantage.baseline, vantage.candidate, vantage.blocks) == ("client", "engine", True)


def test_a_whole_result_with_its_client_is_judged(root: Path) -> None:
    found = judged(root, str(root / "base"), str(root / "cand"))
    assert found.candidates[0].findings
    assert not [d for d in found.candidates[0].comparability if d.blocks]
    assert found.notes == ()


@pytest.mark.long
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


@pytest.mark.long
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


# --- copies that were edited ---------------------------------------------------------------------


def edited(folder: Path, name: str, factor: float = 1.0, more_ns: float = 0.0, of: int = 0) -> str:
    """Copy a run; its times are multiplied, and longer by some ns (of the first `of` requests)."""
    made = Path(shutil.copytree(folder, folder.parent / name))
    result = json.loads((made / "bench.json").read_text())
    count = of or len(result["ttfts"])
    for key in ("ttfts", "latencies"):
        changed = [factor * span + more_ns / 1e9 for span in result[key][:count]]
        result[key] = [*changed, *result[key][count:]]
    chunks = [[factor * gap for gap in gaps] for gaps in result["itls"][:count]]
    result["itls"] = [*chunks, *result["itls"][count:]]
    (made / "bench.json").write_text(json.dumps(result))
    return str(made)


EDITS = {
    "1 ns in one request": {"more_ns": 1.0, "of": 1},
    "1 us in one request": {"more_ns": 1e3, "of": 1},
    "1 us in every request": {"more_ns": 1e3},
    "another scale": {"factor": 1.0001},
    "a tenth of the requests twice as slow": {"factor": 2.0, "of": 6},
}


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_copy_is_no_other_measurement(tmp_path: Path, edit: dict[str, float]) -> None:
    base = kept(tmp_path, "base", usual(), 2)
    cand = kept(tmp_path, "cand", usual(), 1)
    again = edited(tmp_path / "cand0", "again", **edit)  # type: ignore[arg-type]
    reused_run = edited(tmp_path / "base1", "old", **edit)  # type: ignore[arg-type]
    reading = Reading(store=tmp_path / "store", slo=SLO)
    found = gate_verb(base, [f"{cand},{again}", f"{cand},{reused_run}"], reading=reading)
    counted, sold = found.candidates
    assert counted.runs == ("again",)
    assert [n.text for n in found.notes] == [
        "cand0 is the same measurement as again, and counts once with it: their requests take the "
        "same times to a part in a thousand"
    ]
    assert sold.verdict is Verdict.UNUSABLE
    assert sold.reason.startswith(
        "the candidate's measurement old is the baseline's run base1: their requests take"
    )


def test_runs_that_share_one_measured_file_are_one(tmp_path: Path) -> None:
    """Another client result beside the first run's log; run.toml is no measurement."""
    result = (fixture_folder("vllm_cpu") / REPEAT / "bench.json").read_text()
    paths = copied(tmp_path, "base", None, RUN), copied(tmp_path, "cand", result, RUN)
    reading = Reading(store=tmp_path / "store")
    names = [configuration(path, reading).runs[0] for path in paths]
    known = figures(names, reading)
    assert reused([known["base"]], [known["cand"]]) == (
        "the candidate's measurement cand is the baseline's run base: they share a measured file"
    )
    alone = [kept(tmp_path, name, usual(), 1, run_toml="gpu_count = 1\n") for name in "ab"]
    assert judged(tmp_path, *alone).verdict is not Verdict.UNUSABLE


def test_recorded_repeats_are_far_from_alike(store: Path) -> None:
    """Less than one request in twenty takes the same times in two recorded runs."""
    known = figures(RUNS, Reading(store=store))
    for one, other in itertools.combinations(list(known.values()), 2):
        assert not same(one, other), (one.run_id, other.run_id)
        spans = [
            np.stack([run.requests.column(name) for name in ("ttft_ns", "e2e_ns")])
            for run in (one, other)
        ]
        count = min(span.shape[1] for span in spans)
        a, b = (span[:, :count] for span in spans)
        assert (np.abs(a - b) <= 1e-3 * b).all(axis=0).sum() <= 0.05 * count


def test_requests_left_out_of_a_copy() -> None:
    """A stretch left out at the beginning, in the middle or at the end; or another order."""
    rng = np.random.default_rng(3)
    spans = np.sort(rng.lognormal(18, 0.5, (100, 2)), axis=1)
    rows = [Request("good", True, place, ttft_ns=int(a), e2e_ns=int(b))
            for place, (a, b) in enumerate(spans)]  # fmt: skip
    other = [replace(r, e2e_ns=int(1.01 * (r.e2e_ns or 0))) for r in rows]

    def of(name: str, kept_rows: list[Request]) -> RunFigures:
        return RunFigures(name, requests=Requests.of(kept_rows), measurement=name)

    whole = of("whole", rows)
    for place in (0, 40, 90):
        assert same(whole, of("less", rows[:place] + rows[place + 10 :]))
    assert same(whole, of("turned", rows[::-1]))
    assert not same(whole, of("other", other))
    assert not same(of("few", rows[:4]), of("one more ns", [*rows[:3], other[3]]))


@pytest.mark.long
def test_the_last_accepted_runs_are_measurements(tmp_path: Path) -> None:
    runs = kept(tmp_path, "night", usual(), 3).split(",")
    copy = edited(tmp_path / "night1", "copy", factor=1.0001)
    cand = edited(tmp_path / "night2", "cand", more_ns=1.0, of=1)
    notes: list[str] = []
    how = Reading(store=tmp_path / "store", note=notes.append)
    for night in (*runs, copy):
        accept(night, how)
    side = [configuration(cand, how)]
    assert base_side("@last:2", side, how).runs == ("night0", "copy")
    assert "accepted run night2 is the same measurement as cand" in notes
    assert "accepted run night1 is the same measurement as copy" in notes
