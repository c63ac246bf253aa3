"""Write a store of N requests in RUNS runs: a client row and four engine events for each.

usage: store.py N RUNS STORE

The files are what ingest would have written for client records, an engine's scheduler events, what
it groups of them and the links between them; ids are `cmpl-<32 hex>-0` as vLLM makes them. Events
lie in order of time, so that the four of one request are far apart.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from trueput.arrow import conform
from trueput.attribution.requests.instants import request_instants
from trueput.ingest.derived import write_derived
from trueput.ingest.read import PartWriter
from trueput.ingest.run import READER_VERSION
from trueput.ingest.store import Manifest, Store, encode

START_NS = 1_750_000_000_000_000_000
SPAN_NS = 3_600_000_000_000
PIECE = 65_536
EVENTS = ("queued", "scheduled", "first_token", "finished")


def ids(count: int, rnd: np.random.Generator) -> pl.Series:
    """Return ids as vLLM prints them."""
    halves = rnd.integers(0, 1 << 63, (2, count), dtype=np.int64)
    frame = pl.DataFrame({"a": halves[0], "b": halves[1]})
    as_hex = [pl.col(c).map_batches(_hex, return_dtype=pl.String) for c in ("a", "b")]
    return frame.select(pl.concat_str(pl.lit("cmpl-"), *as_hex, pl.lit("-0"))).to_series()


def _hex(column: pl.Series) -> pl.Series:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    values = column.to_numpy().astype(np.uint64)
    shifts = np.arange(60, -1, -4, dtype=np.uint64)
    text = digits[((values[:, None] >> shifts) & np.uint64(15)).astype(np.int64)]
    return pl.Series(np.ascontiguousarray(text).view("S16").ravel().astype("U16"))


def pieces(rows: pl.DataFrame) -> Iterator[pa.Table]:
    """Yield the rows in pieces of a bounded size."""
    for at in range(0, rows.height, PIECE):
        yield rows.slice(at, PIECE).to_arrow(compat_level=pl.CompatLevel.oldest())


def put(store: Store, table: str, run_id: str, source: str, rows: Any) -> Path:
    """Write one part and return its path."""
    path = store.table_folder(table, run_id) / f"{encode(source)}-00000000-0.parquet"
    writer = PartWriter(table, path)
    for piece in pieces(rows) if isinstance(rows, pl.DataFrame) else [rows]:
        writer.add(conform(table, piece, {"run_id": run_id}))
    writer.close()
    return path


def one_run(store: Store, run_id: str, count: int, rnd: np.random.Generator) -> None:
    """Write one run of `count` requests."""
    name = ids(count, rnd)
    sent = np.sort(START_NS + rnd.integers(0, SPAN_NS, count))
    on_the_way = rnd.integers(200_000, 4_000_000, count)
    queue = rnd.lognormal(17.2, 1.1, count).astype(np.int64)
    prefill = rnd.lognormal(18.1, 0.5, count).astype(np.int64)
    decode = rnd.lognormal(21.2, 0.7, count).astype(np.int64)
    back = rnd.integers(100_000, 3_000_000, count)
    queued = sent + on_the_way
    instants = np.stack([queued, queued + queue, queued + queue + prefill,
                         queued + queue + prefill + decode])  # fmt: skip
    first = instants[2] + back
    ended = instants[3] + back
    tokens = rnd.integers(2, 1500, count)
    clients = pl.DataFrame(
        {
            "row_ix": np.arange(count),
            "request_id": name,
            "sent_at_ns": sent,
            "first_token_at_ns": first,
            "ended_at_ns": ended,
            "prompt_tokens": rnd.integers(8, 6000, count),
            "output_tokens": tokens,
            "ttft_ns": first - sent,
            "e2e_ns": ended - sent,
        }
    ).with_columns(
        source_id=pl.lit("client.jsonl"), vantage=pl.lit("client"), traffic=pl.lit("load"),
        status=pl.lit("ok"), output_tokens_source=pl.lit("client_usage"),
    )  # fmt: skip
    links = clients.select("row_ix", "request_id", "source_id").with_columns(
        method=pl.lit("id"), confidence=pl.lit(1.0)
    )
    events = pl.concat(
        [
            pl.DataFrame({"at_ns": at, "request_id": name}).with_columns(event=pl.lit(event))
            for event, at in zip(EVENTS, instants, strict=True)
        ]
    ).sort("at_ns")
    events = events.with_columns(
        source_id=pl.lit("events.jsonl"), line=pl.int_range(1, events.height + 1, dtype=pl.Int64)
    )
    digest = hashlib.sha256(run_id.encode()).hexdigest()
    source = {"sha256": "0" * 64, "size_bytes": 1, "clock_kind": "utc", "clock_offset_ns": 0,
              "record_rows": count, "problem_rows": 0}  # fmt: skip
    written = {
        "requests": [put(store, "requests", run_id, "client", clients)],
        "request_links": [put(store, "request_links", run_id, "run", links)],
        "request_events": [put(store, "request_events", run_id, "events", events)],
        "sources": [put(store, "sources", run_id, "run",
                        [{**source, "source_id": s} for s in ("client.jsonl", "events.jsonl")])],
        "runs": [put(store, "runs", run_id, "run",
                     [{"content_sha256": digest, "simulated": True, "config_json": "{}",
                       "client_json": "{}", "labels_json": "{}", "quality_json": "{}", "files": 2,
                       "unclaimed_files": 0, "problem_rows": 0, "usable": True}])],
        "slo_policy": [put(store, "slo_policy", run_id, "run",
                           [{"measured_from": "sent", "undefined_passes": True,
                             "origin": "none"}])],
        "load_sessions": [put(store, "load_sessions", run_id, "run",
                              [{"source_id": "client.jsonl", "planned_requests": count,
                                "detailed": True, "claims_json": "{}"}])],
    }  # fmt: skip
    path = store.table_folder("request_instants", run_id) / "run-00000000-0.parquet"
    write_derived(
        "request_instants", request_instants(run_id, written["request_events"]), run_id, path
    )
    written["request_instants"] = [path]
    files = {t: [p.relative_to(store.root).as_posix() for p in ps] for t, ps in written.items()}
    rows = {"requests": count, "request_events": 4 * count, "request_links": count,
            "request_instants": count}  # fmt: skip
    sizes = store.sizes_of(files)
    store.commit(Manifest(run_id, digest, READER_VERSION, None, files, rows, sizes))


def main() -> None:
    """Write the store."""
    count, runs = int(sys.argv[1]), int(sys.argv[2])
    store = Store(Path(sys.argv[3]))
    rnd = np.random.default_rng(7)
    for index in range(runs):
        one_run(store, f"night-{index:02}", count // runs, rnd)
    print(json.dumps({"requests": count // runs * runs, "runs": runs}))


if __name__ == "__main__":
    main()
