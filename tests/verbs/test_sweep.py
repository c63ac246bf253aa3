"""Sweeps: the output folder of `vllm bench sweep`, and many configurations against one baseline."""

from __future__ import annotations

import csv
import io
import json
import zlib
from pathlib import Path

import pytest
from cli.program import CHECKOUT, Program
from gate.bench_runs import bench, write

import trueput
from trueput.errors import UsageError
from trueput.gate.rule_api import Finding, Outcome
from trueput.gate.verdict import CandidateResult, Verdict
from trueput.ingest.folders import find_runs
from trueput.verbs.opening import Reading, configuration
from trueput.verbs.sql import sql
from trueput.verbs.sweep import _row

SLO = '[slo]\nttft = "1s"\n'


def combination(root: Path, name: str, late: int, repeats: int = 3, **settings: object) -> Path:
    """Write one swept combination of 40 requests, `late` of them late, as the sweep does."""
    folder = root / name
    folder.mkdir(parents=True)
    made = []
    for number in range(repeats):
        own = zlib.crc32(name.encode()) % 997 / 1e6
        ttfts = [2.0 + own + number / 100] * late + [0.3 + own + number / 100] * (40 - late)
        made.append({**bench(ttfts), "run_number": number, **settings})
        (folder / f"run={number}.json").write_text(json.dumps(made[-1]))
    (folder / "summary.json").write_text(json.dumps(made))
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over `max_num_seqs`, with what else the sweep leaves behind."""
    root = tmp_path_factory.mktemp("results") / "20261129_030000"
    for seqs, late in ((4, 0), (8, 0), (16, 20)):
        combination(root, f"SERVE--max_num_seqs={seqs}", late, **{"max-num-seqs": seqs})
    (root / "summary.csv").write_text(",run_number,max_num_seqs\n0,0,4\n")
    (root / "run.toml").write_text(f'engine = "vllm"\n{SLO}')
    last = root / "SERVE--max_num_seqs=16"
    (last / "warmup.json").write_text(json.dumps(bench([9.0] * 40)))
    (last / "run=3.failure.json").write_text(json.dumps(bench([9.0] * 40)))
    (last / "server.log").write_text("INFO 11-29 03:00:00 [core.py:1] of every repeat\n")
    return root


@pytest.fixture(scope="module")
def how(results: Path) -> Reading:
    """A reading of a store that holds that sweep."""
    trueput.ingest([results], store=results.parent / "store")
    return Reading(store=results.parent / "store")


def test_each_repeat_of_a_combination_is_a_run(results: Path) -> None:
    runs = find_runs(results)
    assert [r.run_id for r in runs] == [
        f"SERVE--max_num_seqs={seqs}/run={n}" for seqs in (16, 4, 8) for n in range(3)
    ]
    assert {tuple(r.files) for r in runs} == {("run.toml", f"run={n}.json") for n in range(3)}
    one = find_runs(results / "SERVE--max_num_seqs=4" / "run=1.json")
    assert [r.run_id for r in one] == ["SERVE--max_num_seqs=4/run=1"]


def test_repeats_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = combination(tmp_path, "BENCH--x=1", 0, repeats=11)
    assert [r.run_id.rpartition("=")[2] for r in find_runs(folder)] == [str(n) for n in range(11)]


def test_the_settings_of_a_combination_are_its_configuration(how: Reading) -> None:
    rows = sql("SELECT * FROM runs WHERE run_id LIKE 'SERVE%'", how).dicts()
    assert len(rows) == 9
    for row in rows:
        seqs = int(row["run_id"].partition("=")[2].partition("/")[0])
        assert json.loads(row["config_json"]) == {"max_num_seqs": seqs}
        assert row["engine"] == "vllm"


def test_settings_that_may_be_kept(tmp_path: Path) -> None:
    """Numbers, switches and known words; no text that a user gave, no list, no figure."""
    folder = combination(
        tmp_path, "SERVE--x", 0, 1, block_size=16, enforce_eager=True, dtype="bfloat16",
        gpu_memory_utilization=0.5, api_key="secret", compilation_config={"level": 3}, note="n",
        p95_ttft_ms=5.0, spec_decode_acceptance_rate=0.5, nothing=None, **{"a b": 1},
    )  # fmt: skip
    trueput.ingest([folder], store=tmp_path / "store")
    (row,) = sql("SELECT config_json FROM runs", Reading(store=tmp_path / "store")).dicts()
    assert json.loads(row["config_json"]) == {
        "block_size": 16, "enforce_eager": True, "dtype": "bfloat16",
        "gpu_memory_utilization": 0.5,
    }  # fmt: skip
    assert "secret" not in json.dumps(row)


def test_a_result_that_no_sweep_wrote_has_no_settings(tmp_path: Path) -> None:
    write(tmp_path / "run", bench([0.3] * 5, my_metadata=7))
    trueput.ingest([tmp_path / "run"], store=tmp_path / "store")
    (row,) = sql("SELECT config_json FROM runs", Reading(store=tmp_path / "store")).dicts()
    assert json.loads(row["config_json"]) == {}


def test_a_combination_is_one_configuration(results: Path, how: Reading) -> None:
    found = configuration(str(results / "SERVE--max_num_seqs=4"), how)
    assert found.name == "SERVE--max_num_seqs=4"
    assert len(found.runs) == 3


@pytest.mark.long
def test_a_sweep_folder_stands_for_its_combinations(results: Path, how: Reading) -> None:
    found = trueput.sweep(str(results / "SERVE--max_num_seqs=4"), [str(results)], None, how)
    assert found.baseline == "SERVE--max_num_seqs=4"
    assert [row.config for row in found.rows] == [
        "SERVE--max_num_seqs=16", "SERVE--max_num_seqs=8",
    ]  # fmt: skip
    worse, same = found.rows
    assert worse.verdict == "flagged"
    assert worse.goodput is not None
    assert worse.goodput.change == pytest.approx(-0.5, abs=0.05)
    assert same.goodput is not None
    assert same.goodput.value == pytest.approx(1.0, abs=1e-4)
    assert (worse.activity, worse.quadrant, found.rung) == (None, None, None), "no engine log"


def test_the_baseline_alone_is_no_sweep(results: Path, how: Reading) -> None:
    base = str(results / "SERVE--max_num_seqs=4")
    with pytest.raises(UsageError, match="the only configuration"):
        trueput.sweep(base, [base], None, how)
    with pytest.raises(UsageError, match="is no rung"):
        trueput.sweep(base, [str(results)], None, how, rung="gpu")


@pytest.mark.long
def test_an_error_in_a_candidate_is_a_row(results: Path, how: Reading) -> None:
    """An unusable or other load must not hide the rest of the table."""
    broken = results.parent / "broken"
    broken.mkdir(exist_ok=True)
    (broken / "bench.json").write_text(json.dumps(bench([0.3] * 20))[:200])
    base = str(results / "SERVE--max_num_seqs=4")
    found = trueput.sweep(base, [str(results), str(broken)], None, how)
    assert [row.verdict for row in found.rows][-1] == "unusable"
    assert len(found.rows) == 3


@pytest.mark.long
def test_a_configuration_of_the_baseline_has_no_row_and_a_note(results: Path, how: Reading) -> None:
    base = str(results / "SERVE--max_num_seqs=4")
    found = trueput.sweep(base, [str(results)], None, how)
    assert "SERVE--max_num_seqs=4" not in {row.config for row in found.rows}
    told = "SERVE--max_num_seqs=4 has runs of the baseline, and no row"
    assert [(note.level, note.text) for note in found.notes] == [("notice", told)]
    others = [str(results / f"SERVE--max_num_seqs={n}") for n in (4, 8)]
    program = Program(results.parent / "store", 160)
    table = program("sweep", base, *others)
    assert told in " ".join(table.stdout.split())
    assert "1 configuration  against" in table.stdout
    assert told in program("sweep", base, *others, "--format", "csv").stderr
    assert json.loads(program("sweep", base, *others, "--format", "json").stdout)["notes"] == [
        {"level": "notice", "text": told, "about": "runs"}
    ]
    assert told in program("sweep", base, *others, "--format", "markdown").stdout


def test_a_sweep_names_what_the_policy_sets(results: Path, how: Reading, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text("margin = 0.5\n")
    base, other = (str(results / f"SERVE--max_num_seqs={n}") for n in (4, 8))
    (note,) = trueput.sweep(base, [other], policy, how).notes
    assert "margin = 0.5 (default 0.05)" in note.text


# --- on the recorded runs, which have engine logs ---------------------------------------------

BASE = "regress_baseline,regress_baseline_r2"
PAIR = ("regress_candidate,regress_candidate_r2", "regress_candidate")


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds the sample runs."""
    from cases.recorded import shared_store

    return shared_store(tmp_path_factory, "samples", [CHECKOUT / "sample_data"])


def test_figures_are_those_of_the_gate(samples: Path) -> None:
    how = Reading(store=samples)
    found = trueput.sweep(BASE, PAIR, None, how, rung="scheduled_tokens")
    result = trueput.gate(BASE, PAIR, reading=how)
    for row, candidate in zip(found.rows, result.candidates, strict=True):
        by_metric = {(f.rule, f.metric): f for f in candidate.findings}
        activity = by_metric["activity-without-goodput", "scheduled_tokens"]
        goodput = by_metric["goodput-drop", "goodput_rps"]
        assert row.activity is not None
        assert row.goodput is not None
        assert (row.activity.value, row.activity.low) == (activity.ratio, activity.ratio_low)
        assert (row.goodput.value, row.goodput.high) == (goodput.ratio, goodput.ratio_high)
        assert row.verdict == candidate.verdict
        assert row.quadrant == "busier, not better"


@pytest.mark.long
def test_every_form(samples: Path, tmp_path: Path) -> None:
    names = ("s.json", "s.csv", "s.md", "s.txt", "s.html", "s.svg", "s.png")
    outputs = [x for name in names for x in ("-o", str(tmp_path / name))]
    done = Program(samples, 100)("sweep", BASE, *PAIR, *outputs)
    assert (done.code, done.stdout) == (0, "")
    assert {p.name for p in tmp_path.iterdir()} == set(names)
    table = (tmp_path / "s.txt").read_text()
    assert all(len(line) <= 100 for line in table.splitlines())
    assert "busier, not better: 2 of 2" in table
    rows = list(csv.DictReader(io.StringIO((tmp_path / "s.csv").read_text())))
    assert [row["verdict"] for row in rows] == ["flagged", "flagged"]
    assert float(rows[0]["goodput_ratio"]) == pytest.approx(0.715, abs=0.001)
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["rows"][0]["recomputed"] == pytest.approx(0.2827, abs=0.0001)
    assert "result" not in found
    assert "<svg" in (tmp_path / "s.html").read_text()
    assert (tmp_path / "s.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("form", ["png", "html", "yaml"])
def test_pictures_are_no_format_of_stdout(samples: Path, form: str) -> None:
    done = Program(samples)("sweep", BASE, *PAIR, "--format", form)
    assert (done.code, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("verdict", "activity", "goodput", "word"),
    [
        ("pass", 1.0, 0.989, "no settled change"),
        ("inconclusive", 1.04, 0.96, "no settled change"),  # both within the margin of 5 %
        ("pass", 1.2, 0.97, "no settled change"),  # the gate passed it: it accuses nobody
        ("inconclusive", 1.2, 0.97, "busier, not better"),
        ("flagged", 1.01, 0.80, "busier, not better"),
        ("pass", 1.2, 1.3, "busier, better"),
        ("pass", 0.8, 1.01, "not busier, better"),
        ("flagged", 0.8, 0.7, "not busier, not better"),
        ("not_comparable", 1.2, 0.7, None),
    ],
)
def test_the_word_for_a_row_accuses_only_where_the_gate_did_not_pass(
    verdict: str, activity: float, goodput: float, word: str | None
) -> None:
    made = (
        ("activity-without-goodput", "engine_step", activity),
        ("goodput-drop", "goodput_rps", goodput),
    )
    findings = tuple(
        Finding(
            rule, "blocking", Outcome.PASS, metric, "", 1.0, ratio, ratio, ratio, ratio,
            0.95, "made", "made", "made", "made",
        )
        for rule, metric, ratio in made
    )  # fmt: skip
    row = _row(CandidateResult("c", ("c",), Verdict(verdict), "", findings), "engine_step", 0.05)
    assert row.quadrant == word
