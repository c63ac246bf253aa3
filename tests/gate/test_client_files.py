"""Which damaged files are a load client's: by format, by what they told, or for want of another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gate.bench_runs import bench, write, write_scheduled

from trueput.verbs.client_files import is_client
from trueput.verbs.figures import figures
from trueput.verbs.opening import Reading, runs_of

CLIENT, ENGINE = {"client"}, {"engine"}


@pytest.mark.parametrize(
    ("form", "code", "vantages", "expected"),
    [
        ("vllm_bench", "BENCH001", {}, True),
        ("vllm_bench", "INGEST001", {"f": CLIENT}, True),
        ("vllm_bench_console", "CONSOLE004", {"other": CLIENT}, True),
        ("vllm_log", "VLOG001", {"f": ENGINE}, False),
        ("otlp_spans", "OTLP004", {}, False),
        ("prometheus_text", "PROM008", {"other": CLIENT}, False),
        ("generic_records", "RECORDS001", {}, True),
        ("generic_records", "RECORDS009", {"f": CLIENT}, True),
        ("generic_records", "RECORDS009", {"f": {"router"}}, False),
        (None, "INGEST006", {}, True),
        (None, "INGEST006", {"other": ENGINE}, True),
        (None, "INGEST006", {"other": CLIENT}, False),
        (None, "RUN001", {}, False),
    ],
)
def test_whose_a_damaged_file_is(
    form: str | None, code: str, vantages: dict[str, set[str]], expected: bool
) -> None:
    row = {"source_id": "f", "format": form, "code": code}
    assert is_client(row, vantages) is expected


def test_what_a_run_says_of_its_damaged_file(tmp_path: Path) -> None:
    """A result cut in two, beside a whole one and whole JSON lines."""
    text = json.dumps(bench([0.3] * 20))
    cut = write(tmp_path / "cut", {})
    (cut / "bench.json").write_text(text[: len(text) // 2])
    write(tmp_path / "whole", bench([0.3] * 20))
    write_scheduled(tmp_path / "lines", 0.0, 0.3, "x")
    how = Reading(store=tmp_path / "store", slo="ttft=1s")
    (cut_id, whole, lines) = (runs_of(str(tmp_path / n), how)[0] for n in ("cut", "whole", "lines"))
    found = figures([cut_id, whole, lines], how)
    assert "`bench.json`, which is its load client's (BENCH00" in (found[cut_id].unusable or "")
    assert (found[whole].unusable, found[lines].unusable) == (None, None)
    assert {found[whole].vantage, found[lines].vantage} == {"client"}
    assert found[whole].measurement is not None
    assert found[whole].measurement != found[lines].measurement
