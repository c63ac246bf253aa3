"""The projection of ranges against a plain search: nested, overlapping, of other threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput.warehouse.models import macros, models

TABLES = {
    "gpu_ranges": "run_id, source_id, name, process_key, thread_key, start_at_ns, end_at_ns",
    "gpu_launches": (
        "run_id, source_id, process_key, thread_key, correlation_id, start_at_ns, end_at_ns"
    ),
    "gpu_ops": (
        "run_id, source_id, process_key, correlation_id, device, start_at_ns, end_at_ns, quality"
    ),
}
WHOLE = ("_ns", "device", "correlation_id")

threads = st.sampled_from(["a", "b", None])
# most ranges are short, some hold everything: the cells are far longer than most of them
ranges = st.lists(
    st.tuples(threads, st.integers(-50, 500), st.sampled_from([0, 1, 5, 20, 2000])),
    max_size=15, unique=True,
)  # fmt: skip
calls = st.lists(st.tuples(threads, st.integers(-50, 600), st.integers(0, 30)), max_size=15)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with empty tables and the macros."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA raw")
    for text in macros().values():
        connection.execute(text)
    for table, columns in TABLES.items():
        typed = [f"{c} {'BIGINT' if c.endswith(WHOLE) else 'VARCHAR'}" for c in columns.split(", ")]
        connection.execute(f"CREATE TABLE raw.{table} ({', '.join(typed)})")
    yield connection
    connection.close()


@settings(max_examples=examples(60), deadline=None)
@given(ranges, calls)
def test_each_range_has_the_operations_of_the_calls_that_it_holds(
    database: duckdb.DuckDBPyConnection, made_ranges: list[Any], made_calls: list[Any]
) -> None:
    for table in TABLES:
        database.execute(f"DELETE FROM raw.{table}")
    for thread, start, length in made_ranges:
        row = ["r", "f", f"{start}+{length}", "p", thread, start, start + length]
        database.execute("INSERT INTO raw.gpu_ranges VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    wanted: dict[tuple[str | None, int, int], list[int]] = {}
    for number, (thread, at, length) in enumerate(made_calls, 1):
        call = ["r", "f", "p", thread, number, at, at + length]
        database.execute("INSERT INTO raw.gpu_launches VALUES (?, ?, ?, ?, ?, ?, ?)", call)
        # the same id in another process is another operation
        for process, ran_at in (("p", 1000 + number), ("q", 5)):
            operation = ["r", "f", process, number, 0, ran_at, ran_at + 1]
            database.execute(
                "INSERT INTO raw.gpu_ops VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", operation
            )
        for of, start, long in made_ranges:
            if thread is not None and of == thread and start <= at and at + length <= start + long:
                wanted.setdefault((of, start, start + long), []).append(1000 + number)
    sql = models()["gpu_range_projection"].sql
    rows = database.execute(
        f"SELECT host_start_at_ns, host_end_at_ns, operations, start_at_ns, end_at_ns FROM ({sql})"
    ).fetchall()
    expected = [(s, e, len(at), min(at), max(at) + 1) for (_, s, e), at in wanted.items()]
    assert sorted(rows) == sorted(expected)
