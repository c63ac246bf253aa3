"""Reading a trace as a test sees it: rows conformed to the schema, problems as short texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trueput.arrow import conform
from trueput.source_api import Batch, Clock, Fact, Item, Problem, ReadOptions
from trueput.sources.kineto_json.reader import SEGMENT_BYTES, Reader

TABLES = ("gpu_ops", "gpu_launches", "gpu_ranges", "gpu_devices", "gpu_captures")


def items_of(path: Path, size: int = SEGMENT_BYTES, relative_path: str = "") -> list[Item]:
    """Everything that the source yields for a file, looked at `size` bytes at once."""
    return list(Reader(path, ReadOptions(relative_path=relative_path), size).items())


def rows_of(items: list[Item]) -> dict[str, list[dict[str, Any]]]:
    """All rows by table, conformed, without the columns that ingest fills."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    for item in items:
        if isinstance(item, Batch):
            found = conform(item.table, item.rows, {"run_id": "r", "source_id": "s"})
            rows.setdefault(item.table, []).extend(found.to_pylist())
    for row in (row for table in rows.values() for row in table):
        del row["run_id"], row["source_id"]
    return rows


def told(items: list[Item]) -> dict[str, Any]:
    """Rows without their NULLs, problems, facts and clock, as the expected.json of a case."""
    rows = {
        table: [{k: v for k, v in row.items() if v is not None} for row in found]
        for table, found in rows_of(items).items()
        if found
    }
    clocks = [i for i in items if isinstance(i, Clock)]
    return {
        **rows,
        "facts": {i.key: i.value for i in items if isinstance(i, Fact)},
        "clock": [[str(c.kind), c.offset_ns, c.method] for c in clocks],
        "problems": [
            f"{i.code} {i.line or '-'} {i.count}" for i in items if isinstance(i, Problem)
        ],
    }
