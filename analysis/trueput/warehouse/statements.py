"""The statements of a user's SQL: how many of them answer, and which views they can read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trueput.errors import UsageError
from trueput.warehouse.models import lists_names, models

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_QUESTIONS = {"SELECT", "EXPLAIN", "EXECUTE", "MULTI"}
"""Kinds of statements that are asked for their answer; MULTI is a PIVOT."""
_BY_NAME = _QUESTIONS | {
    "ATTACH", "COPY", "CREATE", "DELETE", "DETACH", "DROP", "INSERT", "LOAD", "PREPARE", "SET",
    "TRANSACTION", "UPDATE",
}  # fmt: skip
"""Kinds of statements that read a view only where its name stands in them."""
_CATALOGUE = re.compile(
    r"information_schema|duckdb_\w+|pg_\w+|pragma_\w+|sqlite_\w+|show|describe|query|query_table"
    r"|database"
)
"""Words of statements that may read views without naming them, or read the names of all."""


def expect_one_question(connection: DuckDBPyConnection, sql: str) -> None:
    """Raise UsageError where a statement that answers is not the last: nobody would see its answer.

    Also where there is no statement. Raises the database's error where the text is no SQL.
    """
    kinds = [statement.type.name for statement in connection.extract_statements(sql)]
    if not kinds:
        raise UsageError("the query holds no statement", 'try `trueput sql "FROM goodput"`')
    if _QUESTIONS.intersection(kinds[:-1]):
        raise UsageError(
            f"the query holds {len(kinds)} statements, and one before the last asks for an answer: "
            "only the last would be answered",
            "ask one question at a time; what sets up (`CREATE TEMP TABLE ...`, `SET ...`) may "
            "stand before it",
        )


def views_named(connection: DuckDBPyConnection, sql: str) -> set[str] | None:
    """Return the views whose names stand in statements that read no others; None: perhaps all."""
    words = set(re.findall(r"\w+", sql.lower()))
    statements = connection.extract_statements(sql)
    kinds = {statement.type.name for statement in statements}
    if kinds - _BY_NAME or any(_CATALOGUE.fullmatch(word) for word in words):
        return None
    selects = [statement.query for statement in statements if statement.type.name == "SELECT"]
    if any(lists_names(connection, text) for text in selects):
        return None
    return words & set(models())
