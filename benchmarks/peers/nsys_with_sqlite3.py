"""A careful script: tables of an nsys export -> Parquet. peers/nsys_with_sqlite3.py EXPORT OUT

`sqlite3` with fetchmany, columns built by pyarrow, the columns that analysis scripts ask for. No
string is looked up, no launch is told from another call, and nothing is checked.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 100_000
TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName",
        "shortName", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        "staticSharedMemory", "dynamicSharedMemory", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue",
    ),
}  # fmt: skip
SAME_AS_TRUEPUT = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
        "demangledName", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
}  # fmt: skip


def main() -> None:
    """Convert two tables and print the number of rows."""
    export, out = Path(sys.argv[1]), Path(sys.argv[2])
    tables = SAME_AS_TRUEPUT if "--few" in sys.argv else TABLES
    total = 0
    db = sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)
    for table, names in tables.items():
        asked = ", ".join(f'"{n}"' for n in names)
        cursor = db.execute(f"SELECT {asked} FROM {table}")
        schema = pa.schema([(name, pa.int64()) for name in names])
        with pq.ParquetWriter(out / f"{table}.parquet", schema, compression="zstd") as writer:
            while rows := cursor.fetchmany(ROWS):
                columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
                writer.write_table(pa.table(columns, schema=schema))
                total += len(rows)
    print("rows", total)


if __name__ == "__main__":
    main()
