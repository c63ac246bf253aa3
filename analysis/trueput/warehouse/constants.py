"""Columns of Parquet files that hold one value only, as the statistics in the files' footers say.

A record seldom fills all columns of its table: a client's file has no instants of the engine, and
each of its rows says `client`. Put into a query as literals, such columns need not be read, joined
or computed with, and branches that ask for other values fall away when the query is planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEAST_BYTES: Final = 1 << 20
"""Smaller files cost less to read than their footers to look through."""

_KINDS: Final = {"BYTE_ARRAY": "VARCHAR", "INT64": "BIGINT", "BOOLEAN": "BOOLEAN"}
"""Physical types whose least and greatest value are the column's only one where they are equal; a
floating column may hold NaN beside them, or both zeros."""

# What a column of a list is called has dots. A chunk without statistics makes sums of fewer.
_CHUNKS: Final = """
SELECT
  path_in_schema,
  any_value(type),
  sum(num_values),
  CASE WHEN count(stats_null_count) = count(*) THEN sum(stats_null_count) END,
  CASE WHEN count(stats_min_value) = count(*) AND count(stats_max_value) = count(*)
    AND min(stats_min_value) = max(stats_min_value) AND min(stats_max_value) = max(stats_max_value)
    AND min(stats_min_value) = min(stats_max_value) AND coalesce(bool_and(min_is_exact), true)
    AND coalesce(bool_and(max_is_exact), true) THEN min(stats_min_value) END
FROM parquet_metadata(?)
WHERE num_values > 0 AND NOT contains(path_in_schema, '.')
GROUP BY path_in_schema
"""


def constants(connection: DuckDBPyConnection, paths: Sequence[Path]) -> dict[str, str | None]:
    """Return the columns that hold one value in all rows of these files: name -> value as text.

    None stands for NULL. A column that is not named may hold one value all the same. All files are
    of one table and have the same columns. Files that cannot be read, or are small, name nothing.
    """
    import duckdb

    try:
        if sum(path.stat().st_size for path in paths) < LEAST_BYTES:
            return {}
        rows = connection.execute(_CHUNKS, [[str(path) for path in paths]]).fetchall()
    except (OSError, duckdb.Error):
        return {}  # whoever reads the rows will say what is wrong
    found: dict[str, str | None] = {}
    for name, kind, values, nulls, only in rows:
        if nulls == values and values:
            found[name] = None
        elif nulls == 0 and only is not None and kind in _KINDS and only.isprintable():
            found[name] = only
    return found
