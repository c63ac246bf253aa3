"""The step of an operation against a plain search: overlaps, threads, missing launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput.warehouse.models import macros, models

OPERATIONS = (
    "run_id, source_id, device_key, process_key, kind, class, correlation_id, start_at_ns,"
    " end_at_ns, quality"
)
TABLES = {
    "gpu_steps": "run_id, source_id, process_key, thread_key, start_at_ns, end_at_ns, gpu_step_ix",
    "gpu_launches": "run_id, source_id, process_key, thread_key, start_at_ns, correlation_id",
    "gpu_ops": OPERATIONS,
}
Step = tuple[str, str, str, int, int]

names = st.sampled_from(["a", "b"])
times = st.integers(-30, 60)
steps = st.lists(
    st.tuples(names, names, names, times, st.integers(0, 40)).map(
        lambda s: (s[0], s[1], s[2], s[3], s[3] + s[4])
    ),
    max_size=12,
    unique_by=lambda s: s[:4],
)
calls = st.lists(st.tuples(names, st.one_of(st.none(), names), names, times), max_size=12)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with empty tables and the macros."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA raw")
    for text in macros().values():
        connection.execute(text)
    for table, columns in TABLES.items():
        typed = [
            f"{c} {'BIGINT' if c.endswith(('_ns', '_ix', 'correlation_id')) else 'VARCHAR'}"
            for c in columns.split(", ")
        ]
        connection.execute(f"CREATE TABLE raw.{table} ({', '.join(typed)})")
    yield connection
    connection.close()


def expected(found_steps: Sequence[Step], call: Any) -> int:
    """The last step of the thread that began before the call, if the call lies in it."""
    source, process, thread, at = call
    if process is None or not any(s[:2] == (source, process) for s in found_steps):
        return -1
    before = [
        (s[3], ix)
        for ix, s in enumerate(found_steps)
        if s[:3] == (source, process, thread) and s[3] <= at
    ]
    if not before:
        return -2
    last = max(before)[1]
    return last if at <= found_steps[last][4] else -2


@settings(max_examples=examples(60), deadline=None)
@given(steps, calls)
def test_each_operation_has_the_step_of_its_launch(
    database: duckdb.DuckDBPyConnection, found_steps: list[Step], found_calls: list[Any]
) -> None:
    for table in TABLES:
        database.execute(f"DELETE FROM raw.{table}")
    put(database, "gpu_steps", [("r", *s, ix) for ix, s in enumerate(found_steps)])
    # the ids of two processes and files are the same numbers
    ids = {(c[0], c[1]): 0 for c in found_calls}
    launched, ran, wanted = [], [], []
    for at, call in enumerate(found_calls):
        ids[call[0], call[1]] += 1
        number = ids[call[0], call[1]]
        launched.append(("r", *call, number))
        ran.append(
            ("r", call[0], "G", call[1], "kernel", "compute", number, 100 + at, 100 + at, None)
        )
        wanted.append((100 + at, expected(found_steps, call)))
    ran += [("r", "a", "G", "a", "kernel", "compute", n, 999, 999, None) for n in (None, 5000)]
    # what does not count has no step
    ran += [("r", "a", "G", "a", "kernel", "compute", 1, 7, 8, "copy")]
    put(database, "gpu_launches", launched)
    put(database, "gpu_ops", ran)
    sql = models()["int_gpu_op_steps"].sql
    rows = database.execute(f"SELECT start_at_ns, gpu_step_ix FROM ({sql}) ORDER BY ALL").fetchall()
    assert rows == sorted([*wanted, (999, -1), (999, -1)])


def put(database: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows to a table."""
    if rows:
        database.executemany(
            f"INSERT INTO raw.{table} VALUES ({', '.join('?' * len(rows[0]))})", list(rows)
        )
