"""Small made-up inputs: a log that is read in no time, and what a store holds of a run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trueput.ingest.store import Store


def log_text(requests: int = 4, *, first: int = 0, version: str = "0.32.0") -> str:
    """Return a vLLM log: for each request its life, and three iterations."""
    lines = [f"INFO 11-29 12:00:00 [api_server.py:1351] vLLM API server version {version}"]
    for k in range(first, first + requests):
        at = f"11-29 12:{k // 60 % 60:02}:{k % 60:02}"
        name = f"cmpl-{k:032x}-0"
        lines += [
            f"INFO {at} [logger.py:65] Received request {name}: params: SamplingParams(n=1, "
            "max_tokens=16, min_tokens=0), lora_request: None.",
            f"INFO {at} [async_llm.py:402] Added request {name}.",
        ]
        lines += [
            f"(EngineCore pid=9) INFO {at} [core.py:338] Iteration({3 * k + i}): {int(i == 0)} "
            f"context requests, {32 * int(i == 0)} context tokens, {int(i > 0)} generation "
            f"requests, {int(i > 0)} generation tokens, iteration elapsed time: {4 + i}.25 ms"
            for i in range(3)
        ]
        lines.append(f"INFO {at} [async_llm.py:588] Finished request {name}.")
    return "\n".join(lines) + "\n"


def write_log(path: Path, requests: int = 4, *, first: int = 0) -> Path:
    """Write a log, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log_text(requests, first=first), encoding="utf-8")
    return path


def rows_of(store: Path, run_id: str, table: str) -> pa.Table:
    """Return the current rows of one table of a run, read by pyarrow from what is named."""
    manifest = Store(store).manifest(run_id)
    assert manifest is not None
    parts = [pq.read_table(store / name) for name in manifest.files.get(table, [])]
    return pa.concat_tables(parts) if parts else pa.table({})


def content(store: Path, run_id: str) -> dict[str, pa.Table]:
    """Return everything that a run holds, by table, in file order. Comparable with `==`."""
    manifest = Store(store).manifest(run_id)
    assert manifest is not None
    return {table: rows_of(store, run_id, table) for table in manifest.files}
