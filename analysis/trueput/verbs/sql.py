"""sql, db and tables: the analyst's way in."""

from __future__ import annotations

from pathlib import Path

from trueput.errors import UsageError
from trueput.schema import Table, views
from trueput.schema import tables as ingested_tables
from trueput.verbs.opening import Reading, open_runs, selection
from trueput.warehouse.session import Answer, write_database


def sql(query: str, reading: Reading | None = None) -> Answer:
    """Run SQL on all runs of the store. Raises QueryError with the database's own message."""
    if not query.strip():
        raise UsageError("the query is empty", 'try `trueput sql "FROM goodput"`')
    with open_runs(None, reading or Reading()) as warehouse:
        return warehouse.query(query)


def db(output: Path, reading: Reading | None = None) -> Path:
    """Write a DuckDB file with every table and view over the store; return its path.

    The file holds views, not rows: it stays small and reads the store's Parquet files where they
    are. An existing file of that name is replaced.
    """
    how = reading or Reading()
    made, _ = selection(how.open_store(), None, how)
    if output.exists() and output.is_dir():
        raise UsageError(f"`{output}` is a folder")
    scratch = output.with_name(f".{output.name}.new")
    scratch.unlink(missing_ok=True)
    write_database(made, scratch)
    scratch.replace(output)
    return output


def tables(name: str | None = None) -> list[Table]:
    """Return the documented tables and views, or the one named."""
    known = {**ingested_tables(), **views()}
    if name is None:
        return list(known.values())
    if name not in known:
        import difflib

        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean `{near[0]}`?" if near else "`trueput tables` lists them all"
        raise UsageError(f"no table or view is called `{name}`", hint)
    return [known[name]]
