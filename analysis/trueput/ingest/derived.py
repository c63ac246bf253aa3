"""Rows that attribution derived -> one Parquet part, written while they are made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trueput.arrow import conform
from trueput.ingest import read as reading


def write_derived(table: str, rows: Any, run_id: str, path: Path) -> int:
    """Write derived rows and return how many; without any no file is written.

    `rows`: dicts, a DataFrame, an iterator of frames or tables (bounded memory), or a function that
    gives one of these.
    """
    if callable(rows):
        rows = rows()
    if isinstance(rows, list):
        pieces: Iterable[Any] = [[{"run_id": run_id, **r} for r in rows]]
    else:
        pieces = [rows] if hasattr(rows, "to_arrow") else rows
    writer = reading.PartWriter(table, path)
    for piece in pieces:
        built = piece.to_arrow() if hasattr(piece, "to_arrow") else piece
        if len(built):
            writer.add(conform(table, built, {}, coded=True))
    writer.close()
    return writer.rows
