"""A client that takes errors for success, with and without the records of the server."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trueput.verbs.opening import Reading
from trueput.verbs.show import show
from trueput.verbs.sql import sql

SLO = "ttft=500ms,tpot=20ms,e2e=1200ms"
RUN_TOML = """
[columns]
file = "vllm_truth.jsonl"
vantage = "server"

[columns.names]
correlation_id = "x_request_id"
arrived_at = "t_recv"
ended_at = "t_end"
output_tokens = "sent"
asked_output_tokens = "max_tokens"
status = "kind"

[columns.units]
t_recv = "s"
t_end = "s"

[columns.status]
http_503 = "rejected"
http_429 = "rejected"
http_200_empty = "empty"
disconnect_midstream = "stream_error"
sse_error_event = "stream_error"
graceful_abort_3tok = "aborted"
slow_ttft_1500ms = "ok"
stall_midstream_1500ms = "ok"
stall_2s_first = "ok"

[columns.traffic]
column = "n"
probe = ["0"]
"""


def folder(fixtures: Path, made: Path, with_server: bool) -> Path:
    source = fixtures / "clients" / "generated_faults" / "vllm_0.33.0"
    made.mkdir()
    shutil.copyfile(source / "vllm_0.33.0_faulty.json", made / "vllm_0.33.0_faulty.json")
    if with_server:
        shutil.copyfile(source / "vllm_truth.jsonl", made / "vllm_truth.jsonl")
        (made / "run.toml").write_text(RUN_TOML)
    return made


def seen(made: Path, slo: str | None = SLO) -> tuple[dict[str, Any], Reading]:
    reading = Reading(store=made.parent / "store", slo=slo)
    (row,) = show(str(made), reading)["goodput"]
    return row, reading


def true_outcomes(fixtures: Path) -> Counter[str]:
    """Join the client's rows with the server's by hand, and judge each."""
    source = fixtures / "clients" / "generated_faults" / "vllm_0.33.0"
    bench = json.loads((source / "vllm_0.33.0_faulty.json").read_text())
    server = {}
    for line in (source / "vllm_truth.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["x_request_id"]:
            server[int(record["x_request_id"].rsplit("-", 1)[1])] = record
    found: Counter[str] = Counter()
    for row, ttft in enumerate(bench["ttfts"]):
        record, e2e, tokens = server[row], bench["latencies"][row], bench["output_lens"][row]
        if record["kind"].startswith(("http_503", "http_429")):
            found["rejected"] += 1
        elif record["kind"] == "graceful_abort_3tok":
            found["aborted"] += 1
        elif record["sent"] < record["max_tokens"] or "error" in record["kind"]:
            found["failed"] += 1
        else:
            tpot = (e2e - ttft) / (tokens - 1)
            found["good" if ttft <= 0.5 and tpot <= 0.02 and e2e <= 1.2 else "late"] += 1
    return found


def test_with_the_servers_record_claims_are_not_taken_on_trust(
    fixtures: Path, tmp_path: Path
) -> None:
    row, reading = seen(folder(fixtures, tmp_path / "faulty", with_server=True))
    assert row["planned_requests"] == row["sent_requests"] == 100
    assert row["client_claimed_complete_requests"] == 80
    assert row["complete_requests"] == 70
    assert row["good_requests"] == 53
    assert row["other_traffic_requests"] == 1, "the readiness probe"
    assert row["goodput_rps"] == pytest.approx(53 / row["window_s"])
    expected = true_outcomes(fixtures)
    assert expected == {"good": 53, "late": 17, "rejected": 10, "aborted": 5, "failed": 15}
    assert {name: row[f"{name}_requests"] for name in expected} == expected
    kinds = sql(
        "SELECT failure_kind, count(*) AS n FROM request_outcomes WHERE outcome = 'failed' "
        "GROUP BY failure_kind",
        reading,
    ).dicts()
    assert {r["failure_kind"]: r["n"] for r in kinds} == {"stream_error": 10, "empty": 5}
    probes = sql("FROM requests WHERE traffic <> 'load'", reading).dicts()
    assert [p["traffic"] for p in probes] == ["probe"]


def test_alone_its_figures_are_claims(fixtures: Path, tmp_path: Path) -> None:
    row, reading = seen(folder(fixtures, tmp_path / "faulty", with_server=False))
    assert row["client_claimed_complete_requests"] == row["complete_requests"] == 80
    assert row["good_requests"] == 63
    assert row["goodput_rps"] == pytest.approx(6.676, rel=0.005)
    assert row["basis"] == "reported", "a claim is not a measurement"
    (evidence,) = sql("FROM evidence WHERE question = 'how requests ended'", reading).dicts()
    assert "claims" in evidence["source"]
    assert "--enable-log-requests" in evidence["what_would_improve_it"]


def test_without_an_objective_nothing_is_good_or_late(fixtures: Path, tmp_path: Path) -> None:
    row, _ = seen(folder(fixtures, tmp_path / "faulty", with_server=True), slo=None)
    assert (row["good_requests"], row["late_requests"], row["goodput_rps"]) == (None, None, None)
    assert row["complete_requests"] == 70


def test_repeats_of_a_client_alone_are_not_flagged(fixtures: Path, tmp_path: Path) -> None:
    from trueput.verbs.gate import gate

    source = fixtures / "clients" / "generated_faults" / "vllm_0.33.0"
    runs = [str(source / f"vllm_0.33.0_clean_A{n}.json") for n in range(1, 5)]
    reading = Reading(store=tmp_path / "store", slo="ttft=500ms,tpot=20ms,e2e=1200ms")
    result = gate(",".join(runs[:2]), [",".join(runs[2:])], reading=reading)
    (found,) = result.candidates
    assert found.verdict.value in {"pass", "inconclusive"}
    assert not [d for d in found.comparability if d.blocks]
