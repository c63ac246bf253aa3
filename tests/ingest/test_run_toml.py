"""run.toml: what it may say, what is reported, what is not kept."""

from __future__ import annotations

import json
from pathlib import Path

from ingest.made import rows_of, write_log

from trueput.verbs.ingest import ingest

FULL = """
gpu_count = 2
price_per_gpu_hour = 3.5
planned_requests = 9
timezone = "UTC"
year = 2026
colour = "blue"
labels = { branch = "main", attempt = 3 }

[config]
max_num_seqs = 8

[slo]
ttft = "500ms"
tpot = "50ms"

[quality]
exact_match = 0.71

[server_env]
HF_TOKEN = "hf_secretsecret"

[environment]
API_KEY = "also-secret"
"""


def ingested(tmp_path: Path, text: str) -> Path:
    write_log(tmp_path / "run" / "server.log")
    (tmp_path / "run" / "run.toml").write_text(text, encoding="utf-8")
    ingest([tmp_path / "run"], store=tmp_path / "store")
    return tmp_path / "store"


def problems(store: Path) -> list[tuple[str, str]]:
    rows = rows_of(store, "run", "problems").to_pylist()
    return [(r["code"], r["text"]) for r in rows if r["code"].startswith("RUN")]


def test_what_it_says_is_in_the_run(tmp_path: Path) -> None:
    store = ingested(tmp_path, FULL)
    (run,) = rows_of(store, "run", "runs").to_pylist()
    assert (run["gpu_count"], run["price_per_gpu_hour"], run["planned_requests"]) == (2, 3.5, 9)
    assert json.loads(run["labels_json"]) == {"branch": "main", "attempt": 3}
    assert json.loads(run["quality_json"]) == {"exact_match": 0.71}
    assert json.loads(run["config_json"])["max_num_seqs"] == 8
    (slo,) = rows_of(store, "run", "slo_policy").to_pylist()
    assert (slo["ttft_limit_ns"], slo["tpot_limit_ns"]) == (500_000_000, 50_000_000)
    assert slo["origin"] == "run.toml"


def test_unknown_keys_are_reported_and_environments_are_not_kept(tmp_path: Path) -> None:
    store = ingested(tmp_path, FULL)
    assert problems(store) == [("RUN002", "unknown key `colour`")]
    for path in store.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"secretsecret" not in data
            assert b"also-secret" not in data
    for table in ("runs", "sources", "problems"):
        text = str(rows_of(store, "run", table).to_pylist())
        assert "secret" not in text
        assert "HF_TOKEN" not in text


def test_a_broken_run_toml_costs_only_itself(tmp_path: Path) -> None:
    store = ingested(tmp_path, "gpu_count = [")
    assert [code for code, _ in problems(store)] == ["RUN001"]
    assert rows_of(store, "run", "engine_steps").num_rows == 12


def test_values_of_the_wrong_kind_are_reported(tmp_path: Path) -> None:
    text = 'gpu_count = "two"\nprice_per_gpu_hour = nan\ntimezone = "Mars/Base"\nyear = 1\n'
    store = ingested(tmp_path, text)
    (run,) = rows_of(store, "run", "runs").to_pylist()
    assert run["gpu_count"] is None
    assert run["price_per_gpu_hour"] is None
    told = " ".join(text for code, text in problems(store) if code == "RUN003")
    assert "gpu_count" in told
    assert "timezone" in told


def test_numbers_beyond_their_range_do_not_stop_the_ingest(tmp_path: Path) -> None:
    text = "gpu_count = 1e300\nplanned_requests = 99999999999999999999\nyear = inf\n"
    store = ingested(tmp_path, text)
    (run,) = rows_of(store, "run", "runs").to_pylist()
    assert run["gpu_count"] is None
    assert run["planned_requests"] is None


def test_a_described_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    store = ingested(tmp_path, '[columns]\nfile = "missing.csv"\nvantage = "client"\n')
    told = [text for code, text in problems(store) if code == "RUN004"]
    assert told == ["`[columns]` describes `missing.csv`, which is not in the run"]
