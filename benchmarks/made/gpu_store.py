"""Write a store of one profiled run: N kernels on 8 GPUs, their launches, and a step per 50.

usage: gpu_store.py N STORE

The files are what ingest would have written for a profile of one process with 8 devices: kernels in
order of their start, overlapping on four streams of each device, one launching call for each, and
step annotations of the launching thread side by side with gaps between them. What ingest derives
from the operations is made by its own code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from gpu_unions import TABLES, put_unions

from trueput.arrow import conform
from trueput.ingest.read import PartWriter
from trueput.ingest.store import READER_VERSION, Manifest, Store, encode

RUN, SOURCE = "profile", "profile.sqlite"
START_NS = 1_750_000_000_000_000_000
DEVICES, STREAMS, PIECE, PER_STEP = 8, 4, 65_536, 50
LAUNCH_NS, STEP_GAP_NS = 9_000, 200
PROCESS, THREAD = "281479271682050", "281479271686292"


def coded(codes: Any, texts: list[str]) -> Any:
    """Return a text column by position."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts))


def same(text: str, size: int) -> Any:
    """Return a column of one text."""
    return coded(np.zeros(size, np.int32), [text])


def profile(count: int, rnd: np.random.Generator) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of the three tables in pieces, in order of time."""
    keys = [f"GPU-{number:032x}" for number in range(DEVICES)]
    names = [f"void kernel_{i}<float, {i}>(float const*)" for i in range(400)]
    now, steps = START_NS, []
    for at in range(0, count, PIECE):
        size = min(PIECE, count - at)
        start = now + np.cumsum(rnd.integers(0, 700, size))
        now = int(start[-1])
        length = rnd.lognormal(7.6, 0.9, size).astype(np.int64)
        device = rnd.integers(0, DEVICES, size).astype(np.int32)
        number = np.arange(at + 1, at + size + 1)
        called = start - LAUNCH_NS
        steps += called[number % PER_STEP == 1].tolist()
        yield "gpu_ops", {
            "kind": same("kernel", size), "class": same("compute", size),
            "name": coded(rnd.integers(0, len(names), size), names),
            "device": device.astype(np.int64), "device_key": coded(device, keys),
            "process_key": same(PROCESS, size), "context_id": np.ones(size, np.int64),
            "stream": rnd.integers(7, 7 + STREAMS, size), "correlation_id": number,
            "start_at_ns": start, "end_at_ns": start + length,
        }  # fmt: skip
        yield "gpu_launches", {
            "process_key": same(PROCESS, size), "thread_key": same(THREAD, size),
            "correlation_id": number, "api": same("cudaLaunchKernel", size),
            "start_at_ns": called, "end_at_ns": called + 1,
        }  # fmt: skip
    begins = np.array(steps)
    ends = np.append(begins[1:], begins[-1] + LAUNCH_NS) - STEP_GAP_NS
    for at in range(0, begins.size, PIECE):
        some = slice(at, at + PIECE)
        size = begins[some].size
        shares = {f"{work}_ratio{end}": np.full(size, 1.0 if work == "decode" else 0.0)
                  for work in ("prefill", "decode", "recompute")
                  for end in ("", "_low", "_high")}  # fmt: skip
        yield "gpu_steps", {
            "process_key": same(PROCESS, size), "thread_key": same(THREAD, size),
            "gpu_step_ix": np.arange(at, at + size), "start_at_ns": begins[some],
            "end_at_ns": np.maximum(ends[some], begins[some]),
            "method": same("token_share", size), "steps_fitted": np.zeros(size, np.int64), **shares,
        }  # fmt: skip


def main() -> None:
    """Write the store."""
    count, store = int(sys.argv[1]), Store(Path(sys.argv[2]))
    own = {"run_id": RUN, "source_id": SOURCE}
    writers: dict[str, PartWriter] = {}
    paths: dict[str, Path] = {}

    def target(table: str) -> Path:
        return store.table_folder(table, RUN) / f"{encode(SOURCE)}-00000000-0.parquet"

    def put(table: str, rows: Any, constants: dict[str, str]) -> None:
        if table not in writers:
            paths[table] = target(table)
            writers[table] = PartWriter(table, paths[table])
        writers[table].add(conform(table, rows, constants, coded=True))

    for table, rows in profile(count, np.random.default_rng(5)):
        put(table, pa.table(rows), own)
    source = {"sha256": "0" * 64, "size_bytes": 1, "clock_kind": "utc", "clock_offset_ns": 0,
              "record_rows": count, "problem_rows": 0}  # fmt: skip
    put("sources", [source], own)
    put("runs", [{"content_sha256": "0" * 64, "simulated": True, "config_json": "{}",
                  "client_json": "{}", "labels_json": "{}", "quality_json": "{}", "files": 1,
                  "unclaimed_files": 0, "problem_rows": 0, "usable": True}],
        {"run_id": RUN})  # fmt: skip
    put("slo_policy", [{"measured_from": "sent", "undefined_passes": True, "origin": "none"}],
        {"run_id": RUN})  # fmt: skip
    for writer in writers.values():
        writer.close()
    counts = {t: w.rows for t, w in writers.items()}
    unions = {t: target(t) for t in TABLES}
    counts |= put_unions(RUN, [paths["gpu_ops"]], unions)
    paths |= unions
    files = {t: [p.relative_to(store.root).as_posix()] for t, p in paths.items()}
    sizes = store.sizes_of(files)
    store.commit(Manifest(RUN, "0" * 64, READER_VERSION, None, files, counts, sizes))


if __name__ == "__main__":
    main()
