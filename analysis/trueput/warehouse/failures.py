"""What to tell when the database cannot compute a view or read a file of the store."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from trueput.errors import StoreError, TrueputError, ViewError
from trueput.schema import tables
from trueput.warehouse.sql_types import SQL_TYPES

_FILE: Final = re.compile(r"[^\"'\n]*?(/[^\"'\n]+?\.parquet)")
_AGAIN: Final = (
    "ingest its run again: `trueput ingest --replace PATH`; `trueput sql --run NAME` asks others"
)


def damaged_file(error: Exception, of: Collection[str] | None = None) -> StoreError | None:
    """Return what to tell where a Parquet file of the store cannot be read; None for the rest.

    `of`: the files of the store, where the error may be about a file of the user's own.
    """
    found = _FILE.search(str(error))
    if found is None or (of is not None and found[1] not in of):
        return None
    return StoreError(f"`{found[1]}`: damaged, cannot be read ({_first_line(error)})", _AGAIN)


def damaged_inside(error: Exception, of: Collection[str]) -> StoreError | None:
    """Return what to tell where a query failed on bytes inside a file of `of`; None for the rest.

    The database names a file whose ends are damaged, and not one whose middle is: each is read.
    """
    import duckdb

    of_the_text = (duckdb.ProgrammingError, duckdb.DataError)
    of_the_moment = (duckdb.OutOfMemoryException, duckdb.InterruptException)
    if isinstance(error, of_the_moment) or (
        isinstance(error, of_the_text) and not isinstance(error, duckdb.InvalidInputException)
    ):
        return None
    for path in sorted(of):
        # a connection of its own: the failed one may be past use
        with duckdb.connect() as connection:
            try:
                connection.execute("SELECT bit_xor(hash(t)) FROM read_parquet(?) AS t", [path])
            except (duckdb.Error, UnicodeDecodeError) as reason:
                text = f"`{path}`: damaged, cannot be read ({_first_line(reason)})"
                return StoreError(text, _AGAIN)
    return None


def damaged_columns(of: Collection[str]) -> StoreError | None:
    """Return what to tell where a file of `of` has other columns than its table; None without one.

    A bit that tips over in a name or a type leaves a file that can be read, and not understood.
    Columns may be missing only from files of an older version, which are read as such.
    """
    import duckdb

    for path in sorted(of):
        table = tables().get(Path(path).parent.parent.name)
        if table is None:
            continue
        wanted = {column.name: SQL_TYPES[column.storage] for column in table.columns}
        with duckdb.connect() as connection:
            try:
                found = connection.execute("DESCRIBE FROM read_parquet(?)", [path]).fetchall()
            except (duckdb.Error, UnicodeDecodeError) as reason:
                return StoreError(
                    f"`{path}`: damaged, cannot be read ({_first_line(reason)})", _AGAIN
                )
        for name, kind, *_ in found:
            if wanted.get(name) != kind:
                what = f"its column `{name}` of type {kind} is none of `{table.name}`"
                return StoreError(f"`{path}`: damaged, {what}", _AGAIN)
    return None


def view_failure(name: str, error: Exception, of: Collection[str] = ()) -> TrueputError:
    """Return what to tell of a view that cannot be computed: which, and the database's reason.

    `of`: the files of the store that it may have read.
    """
    damaged = damaged_file(error) or damaged_inside(error, of) or damaged_columns(of)
    if damaged is not None:
        return damaged
    return ViewError(
        f"the view `{name}` cannot be computed: {_first_line(error)}",
        "this is a bug of trueput; other views, and `sql --run NAME` for other runs, still answer",
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
