"""Writing into the request records of a part what attribution tied them to."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from trueput.arrow import arrow_schema
from trueput.ingest.read import parquet_writer


def tie_records(path: Path, links: pl.DataFrame, session: str | None) -> None:
    """Write into a part of `requests` the request and load session that each record belongs to.

    `links`: row_ix, session and request_id of this file's tied records. `session`: the file's own.
    What neither says stays as it is. Streams; a part that says it all already is not written.
    """
    names = ["session", "request_id"]
    records = pl.read_parquet(path, columns=["row_ix", *names])
    found = links.select("row_ix", *(pl.col(n).alias(f"tied_{n}") for n in names))
    tied = records.join(
        found.unique("row_ix", keep="first"), on="row_ix", how="left", maintain_order="left"
    ).select(
        pl.coalesce("tied_session", pl.lit(session, pl.String), "session").alias("session"),
        pl.coalesce("tied_request_id", "request_id").alias("request_id"),
    )
    if tied.equals(records.select(names)):
        return
    columns = tied.to_arrow(compat_level=pl.CompatLevel.oldest())
    schema = arrow_schema("requests")
    scratch = path.with_suffix(".tie")
    done = 0
    with pq.ParquetFile(path) as source, parquet_writer("requests", scratch) as writer:
        for index in range(source.num_row_groups):
            rows = source.read_row_group(index)
            for name in names:
                at = schema.get_field_index(name)
                mine = columns.column(name).slice(done, rows.num_rows).cast(pa.string())
                rows = rows.set_column(at, schema.field(at), mine)
            done += rows.num_rows
            writer.write_table(rows)
    scratch.replace(path)
