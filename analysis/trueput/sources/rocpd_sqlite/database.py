"""A rocpd database: which of its tables are there, and the queries that its generation needs.

Tables are named `rocpd_<name>_<uuid>`, one set for each merged run, with views `rocpd_<name>` over
them; where a view is missing the tables are put together here. In generation 3 an operation holds
its instants, process, agent and queue; in generation 4 it refers to `rocpd_timestamp` and
`rocpd_track` for them. Which one it is, is told by the columns.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

_FETCH: Final = 16_384
_SUFFIX: Final = r"_?[0-9a-fA-F][0-9a-fA-F_-]{7,}"


def open_database(path: Path) -> sqlite3.Connection:
    """Open a database for reading only; nothing is written beside it. Raises sqlite3.Error."""
    wal = path.with_name(path.name + "-wal")
    frozen = "" if wal.exists() else "&immutable=1"
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro{frozen}", uri=True)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


class Database:
    """The tables of one rocpd database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self._names = sorted(str(name) for (name,) in names)

    def columns(self, base: str) -> tuple[str, ...]:
        """Return the columns of a table of that name; () where there is none."""
        common: list[str] | None = None
        for name in self._members(base):
            rows = self._connection.execute(f"PRAGMA table_info({_quoted(name)})")
            own = [str(row[1]) for row in rows]
            common = own if common is None else [c for c in common if c in own]
        return tuple(common or ())

    def _members(self, base: str) -> list[str]:
        if base in self._names:
            return [base]
        pattern = re.compile(re.escape(base) + _SUFFIX)
        return [name for name in self._names if pattern.fullmatch(name)]

    def relation(self, base: str) -> str:
        """Return what stands after FROM for a table of that name."""
        members = self._members(base)
        if len(members) == 1:
            return _quoted(members[0])
        columns = ", ".join(_quoted(c) for c in self.columns(base))
        return (
            "(" + " UNION ALL ".join(f"SELECT {columns} FROM {_quoted(m)}" for m in members) + ")"
        )

    def rows(self, base: str, wanted: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield the wanted columns of a table, None for one that it does not have."""
        have = self.columns(base)
        if not have:
            return
        columns = ", ".join(f"T.{_quoted(c)}" if c in have else "NULL" for c in wanted)
        yield from self._all(f"SELECT {columns} FROM {self.relation(base)} T")

    def operations(self, base: str, wanted: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield guid, start, end, correlation, category and extdata, then the wanted columns.

        Works on either generation. A column that neither the table nor its track has is None.
        """
        query = self._operations_query(base, wanted)
        if query is not None:
            yield from self._all(query)

    def _operations_query(self, base: str, wanted: tuple[str, ...]) -> str | None:
        have = self.columns(base)
        if not have:
            return None
        joins: list[str] = []
        track = self.columns("rocpd_track") if "track_id" in have else ()
        if track:
            joins.append(self._join("rocpd_track", "T", "O.track_id", have))
        start, end = 'O."start"', 'O."end"'
        if "start" not in have and self.columns("rocpd_timestamp"):
            joins.append(self._join("rocpd_timestamp", "TS", "O.start_id", have))
            joins.append(self._join("rocpd_timestamp", "TE", "O.end_id", have))
            start, end = 'TS."value"', 'TE."value"'
        elif "start" not in have:
            return None
        event = self.columns("rocpd_event") if "event_id" in have else ()
        if event:
            joins.append(self._join("rocpd_event", "E", "O.event_id", have))
        strings = self.columns("rocpd_string")
        category = "NULL"
        if strings and "category_id" in event:
            joins.append(self._join("rocpd_string", "C", "E.category_id", have))
            category = 'C."string"'
        name = "NULL"
        if strings and "name_id" in have:
            joins.append(self._join("rocpd_string", "N", "O.name_id", have))
            name = 'N."string"'
        ids = [f"E.{c}" for c in ("stack_id", "correlation_id") if c in event]
        extra = "E.extdata" if "extdata" in event else "NULL"
        parts = [_pick("guid", have, ()), start, end, _first_id(ids), category, extra, name]
        parts += [_pick(c, have, track) for c in wanted]
        return f"SELECT {', '.join(parts)} FROM {self.relation(base)} O {' '.join(joins)}"

    def _join(self, base: str, alias: str, key: str, have: tuple[str, ...]) -> str:
        same = f" AND {alias}.guid = O.guid" if {"guid"} <= {*have} & {*self.columns(base)} else ""
        return f"LEFT JOIN {self.relation(base)} {alias} ON {alias}.id = {key}{same}"

    def _all(self, query: str) -> Iterator[tuple[Any, ...]]:
        cursor = self._connection.execute(query)
        while rows := cursor.fetchmany(_FETCH):
            yield from rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _pick(column: str, own: tuple[str, ...], track: tuple[str, ...]) -> str:
    if column in own:
        return f"O.{_quoted(column)}"
    return f"T.{_quoted(column)}" if column in track else "NULL"


def _first_id(columns: list[str]) -> str:
    """The first id that is not 0."""
    parts = [f"NULLIF({c}, 0)" for c in columns]
    return f"COALESCE({', '.join(parts)})" if len(parts) > 1 else (*parts, "NULL")[0]
