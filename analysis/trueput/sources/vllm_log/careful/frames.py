"""Frames of lines: from the bytes of a block, split by kind, cut in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

LINE_FEED: Final = 10


def line_frame(data: bytes, first_line: int) -> pl.DataFrame:
    """Return the lines of clean `data` (whole lines, the last perhaps without its newline)."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == LINE_FEED)
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    # Strings at even places are the lines, those at odd places the newlines between them.
    offsets = np.zeros(2 * len(ends) + 1, np.int64)
    offsets[1::2] = ends
    offsets[2::2] = np.minimum(ends + 1, len(data))
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.large_string(), 2 * len(ends), buffers)
    text = pl.Series("text", pieces).gather_every(2)
    line = pl.int_range(first_line, first_line + len(ends), dtype=pl.Int64, eager=True)
    return pl.DataFrame([line.alias("line"), text])


def split_off(frame: pl.DataFrame, wanted: pl.Expr) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows for which `wanted` holds, and the others."""
    if frame.is_empty():
        return frame, frame
    mask = frame.select(wanted.fill_null(value=False)).to_series()
    if not mask.any():
        return frame.clear(), frame
    return frame.filter(mask), frame.filter(~mask)


def batches_of(frame: pl.DataFrame, rows: int) -> Iterator[pl.DataFrame]:
    """Yield `frame` in slices of at most `rows` rows."""
    for start in range(0, frame.height, rows):
        yield frame.slice(start, rows)
