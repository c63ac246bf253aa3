"""One file alone gives what it can prove, and doctor names the switch that would prove more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from trueput.verbs.doctor import doctor
from trueput.verbs.opening import Reading
from trueput.verbs.show import show

RUN = "regress_candidate"
SLO = "ttft=5000ms,tpot=20ms"
ENGINE_PHASES = ("queue", "prefill", "decode", "requeue", "recompute", "outside")
UNDER_ITERATIONS = "--enable-logging-iteration-details"


def alone(fixtures: Path, made: Path, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what `show` and `doctor` say of one file of the run."""
    made.mkdir()
    shutil.copyfile(fixtures / name, made / Path(name).name)
    reading = Reading(store=made.parent / "store", slo=SLO)
    (diagnosis,) = doctor(str(made), reading)
    assert diagnosis.usable
    assert diagnosis.failed_checks == []
    advice = {e["question"]: e["what_would_improve_it"] or "" for e in diagnosis.evidence}
    return show(str(made), reading), advice


def test_a_client_file_alone(fixtures: Path, tmp_path: Path) -> None:
    found, advice = alone(fixtures, tmp_path / "client", f"vllm_cpu/{RUN}/bench.json")
    (goodput,) = found["goodput"]
    assert goodput["planned_requests"] == goodput["complete_requests"] == 60
    assert goodput["good_requests"] == 42
    assert goodput["goodput_rps"] == pytest.approx(0.85, abs=0.01)
    assert goodput["basis"] == "reported"
    for row in found["request_phases"]:
        assert all(row[f"{phase}_ns"] is None for phase in ENGINE_PHASES), "unknown is not 0"
        assert row["unattributed_ns"] == row["e2e_ns"]
    (recompute,) = found["recompute"]
    assert recompute["basis"] == "unknown"
    assert recompute["recomputed_tokens"] is None
    assert found["gpu_activity"] == []
    assert UNDER_ITERATIONS in advice["GPU activity"]
    assert UNDER_ITERATIONS in advice["recomputed tokens"]
    assert "--otlp-traces-endpoint" in advice["queueing, prefill and decode of each request"]
    assert "/metrics" in advice["preemptions"]


def test_a_client_summary_alone(fixtures: Path, tmp_path: Path) -> None:
    name = "clients/generated_faults/vllm_0.33.0/vllm_0.33.0_not_detailed.json"
    found, advice = alone(fixtures, tmp_path / "summary", name)
    (goodput,) = found["goodput"]
    assert goodput["client_claimed_complete_requests"] == 32
    assert goodput["goodput_rps"] is None
    assert goodput["good_requests"] is None
    assert "--save-detailed" in advice["how requests ended"]
    assert "--save-detailed" in advice["goodput"]


def test_an_engine_log_alone(fixtures: Path, tmp_path: Path) -> None:
    found, advice = alone(fixtures, tmp_path / "log", f"vllm_cpu/{RUN}/server.log.gz")
    (recompute,) = found["recompute"]
    assert recompute["scheduled_tokens"] == 59_687
    assert recompute["basis"] == "bounded"
    low, high = recompute["recomputed_tokens_low"], recompute["recomputed_tokens_high"]
    assert 0 < low <= 17_288
    assert high is None or high >= 17_288
    (goodput,) = found["goodput"]
    assert goodput["sent_requests"] == 60
    assert goodput["good_requests"] in {None, 0}
    assert goodput["goodput_rps"] is None, "a log has no latencies"
    assert goodput["basis"] == "bounded"
    rungs = {r["metric"]: r["value"] for r in found["gpu_activity"]}
    assert rungs["scheduled_tokens"] == 59_687
    assert "--otlp-traces-endpoint" in advice["queueing, prefill and decode of each request"]
    assert "--save-detailed" in advice["how requests ended"]
    assert "/metrics" in advice["recomputed tokens"]


def test_bounded_recompute_is_called_bounded_in_the_ledger(fixtures: Path, tmp_path: Path) -> None:
    # the steps show some recompute for certain; how much more there was the log cannot tell
    found, _ = alone(fixtures, tmp_path / "log", f"vllm_cpu/{RUN}/server.log.gz")
    (recompute,) = found["recompute"]
    assert recompute["recompute_ns"] is None
    assert recompute["basis"] == "bounded"
    worked = [r for r in found["gpu_ledger"] if r["work"] in {"prefill", "decode", "recompute"}]
    assert {r["basis"] for r in worked} == {"bounded"}
    assert all(r["time_ns_low"] == 0 for r in worked if r["work"] != "recompute")


def test_a_scrape_alone(fixtures: Path, tmp_path: Path) -> None:
    found, advice = alone(fixtures, tmp_path / "scrape", f"vllm_cpu/{RUN}/metrics.prom.gz")
    (recompute,) = found["recompute"]
    assert recompute["preemptions"] == 30
    assert recompute["recomputed_tokens"] is None
    assert recompute["basis"] == "bounded"
    (goodput,) = found["goodput"]
    assert goodput["basis"] == "bounded"
    assert goodput["good_requests"] is None
    # 60 of 60 within 5 s to the first token; 3 within 10 ms and 60 within 25 ms a token
    assert goodput["slo_attainment_ratio_low"] == pytest.approx(3 / 60)
    assert goodput["slo_attainment_ratio_high"] == pytest.approx(1)
    assert goodput["goodput_rps_low"] <= 0.85 <= goodput["goodput_rps_high"]
    assert UNDER_ITERATIONS in advice["recomputed tokens"]
    assert UNDER_ITERATIONS in advice["GPU activity"]
    assert "--otlp-traces-endpoint" in advice["queueing, prefill and decode of each request"]


def test_a_log_alone_bounds_what_it_does_not_tell(fixtures: Path, tmp_path: Path) -> None:
    """60 requests and 60 lines `"POST /v1/completions HTTP/1.1" 200`, and of no request an end."""
    found, _ = alone(fixtures, tmp_path / "log", f"vllm_cpu/{RUN}/server.log.gz")
    (row,) = found["goodput"]
    assert row["answered_requests"] == 60
    assert (row["complete_requests"], row["unknown_requests"]) == (None, 60)
    assert (row["complete_requests_low"], row["complete_requests_high"]) == (0, 60)


def test_spans_alone(fixtures: Path, tmp_path: Path) -> None:
    found, advice = alone(fixtures, tmp_path / "spans", f"vllm_cpu/{RUN}/otlp.jsonl.gz")
    rows = found["request_phases"]
    assert len(rows) == 60
    for row in rows:
        assert row["queue_ns"] is not None
        assert row["prefill_basis"] == "reported"
        assert row["recompute_ns"] is None
    assert UNDER_ITERATIONS in advice["recomputed tokens"]
    assert found["goodput"][0]["complete_requests"] == 60
