"""The peer of log ingest: a careful script. Expressions per line behind literal guards -> Parquet.

usage: log_with_re.py LOG OUT
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

KINDS = (
    # kind, what must stand in the line, the expression
    ("iteration", "Iteration(", r"Iteration\((\d+)\): (\d+) context requests, (\d+) context "
     r"tokens, (\d+) generation requests, (\d+) generation tokens, iteration elapsed time: "
     r"([\d.]+) ms"),
    ("received", "Received request", r"Received request ([\w-]+): .*max_tokens=(\d+)"),
    ("life", " request chatcmpl-", r"(Added|Finished|Aborted) request ([\w-]+)"),
    ("access", "HTTP/1.1", r'([\d.]+):(\d+) - "(\w+) (\S+) HTTP/1.1" (\d+)'),
    ("stats", "Avg prompt throughput", r"Engine (\d+): Avg prompt throughput: ([\d.]+) tokens/s, "
     r"Avg generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, Waiting: (\d+) reqs, "
     r"GPU KV cache usage: ([\d.]+)%, Prefix cache hit rate: ([\d.]+)%"),
    ("spec", "SpecDecoding metrics", r"Mean acceptance length: ([\d.]+), Accepted throughput: "
     r"([\d.]+) tokens/s, Drafted throughput: ([\d.]+) tokens/s, Accepted: (\d+) tokens, Drafted: "
     r"(\d+) tokens, Per-position acceptance rate: ([\d., ]+), Avg Draft "
     r"acceptance rate: ([\d.]+)%"),
)  # fmt: skip
STAMP = re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d)")
WIDTH = 7
ROWS = 200_000
SCHEMA = pa.schema([(n, pa.string()) for n in ("kind", "at", *(f"f{i}" for i in range(WIDTH)))])


def convert(log: Path, out: Path) -> int:
    """Write the parsed lines and return how many there are."""
    known = [(kind, guard, re.compile(text).search) for kind, guard, text in KINDS]
    rows: list[tuple[str | None, ...]] = []
    total = 0
    with pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:

        def flush() -> None:
            if rows:
                columns = [pa.array(c, pa.string()) for c in zip(*rows, strict=True)]
                writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
                rows.clear()

        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                for kind, guard, search in known:
                    if guard not in line:
                        continue
                    found = search(line)
                    if found is None:
                        continue
                    at = STAMP.search(line)
                    fields = found.groups()
                    padding = (None,) * (WIDTH - len(fields))
                    rows.append((kind, at and at[1], *fields, *padding))
                    total += 1
                    if len(rows) == ROWS:
                        flush()
                    break
        flush()
    return total


if __name__ == "__main__":
    print(convert(Path(sys.argv[1]), Path(sys.argv[2])))
