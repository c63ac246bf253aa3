"""Writing into parts what tells requests of one id apart, and leaving out what stands twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from trueput.arrow import arrow_schema
from trueput.ingest.read import rewrite


def rename(part: Path, table: str, ids: Mapping[int, str], left_out: Sequence[int]) -> int:
    """Give rows of a part, by their place in it, other request ids; leave rows out. Streams.

    Return how many rows were left out.
    """
    at = arrow_schema(table).get_field_index("request_id") if ids else -1
    places = np.fromiter(ids, np.int64, len(ids))
    out = np.asarray(left_out, np.int64)
    done = 0

    def changed(rows: pa.Table) -> pa.Table:
        nonlocal done
        first, done = done, done + rows.num_rows
        mine = places[(places >= first) & (places < done)]
        if mine.size:
            names = rows.column(at).to_pylist()
            for place in mine.tolist():
                names[place - first] = ids[place]
            rows = rows.set_column(at, rows.schema.field(at), pa.array(names, pa.string()))
        gone = out[(out >= first) & (out < done)] - first
        if gone.size:
            kept = np.ones(rows.num_rows, np.bool_)
            kept[gone] = False
            rows = rows.filter(pa.array(kept))
        return rows

    rewrite(part, table, changed)
    return len(left_out)
