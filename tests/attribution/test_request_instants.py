"""Events grouped by request: against a plain walk over them, and against the query that does it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trueput.arrow import conform
from trueput.attribution.requests import instants as module
from trueput.attribution.requests.instants import request_instants
from trueput.ingest.derived import write_derived
from trueput.ingest.read import parquet_writer
from trueput.warehouse.models import macros, models

EVENTS = ["received", "added", "queued", "scheduled", "preempted", "resumed", "first_token",
          "finished", "aborted", "failed", "responded"]  # fmt: skip
BASE_NS = 1_750_000_000_000_000_000
"""Far beyond what floating point holds to the nanosecond."""
# printed ids -> the id a client can know
OUTER = {
    "cmpl-a-0": "cmpl-a-0",
    "0_cmpl-a-0": "cmpl-a-0",
    "12_chatcmpl-b": "chatcmpl-b",
    "chatcmpl-b": "chatcmpl-b",
    "7": "7",
    "0_x": "0_x",
    "tokenize-1": None,
    None: None,
}
INNER = {
    "cmpl-a-0-0123abcd": "cmpl-a-0",
    "1_cmpl-a-0-89abcdef": "cmpl-a-0",
    "y-0123ABCD": "y-0123ABCD",
    "z": "z",
    "tokenize-1-00000000": None,
    None: None,
}
NAMES = ["event", "at_ns", "request_id", "engine_request_id", "max_tokens", "prompt_tokens",
         "detail"]  # fmt: skip

events = st.fixed_dictionaries(
    {
        "event": st.sampled_from(EVENTS),
        "at_ns": st.one_of(st.none(), st.integers(-50, 50).map(lambda n: BASE_NS + n)),
        "request_id": st.sampled_from(list(OUTER)),
        "engine_request_id": st.sampled_from(list(INNER)),
        "max_tokens": st.sampled_from([None, 0, 5, 16]),
        "prompt_tokens": st.sampled_from([None, 0, 3, 900]),
        "detail": st.sampled_from([None, "stop", "length", "recompute"]),
    }
)
Rows = list[dict[str, Any]]


def write(rows: Rows, path: Path, group: int) -> None:
    """Write a part of request_events in row groups of `group` rows."""
    whole = conform("request_events", rows, {"run_id": "r", "source_id": "log"})
    with parquet_writer("request_events", path) as writer:
        for at in range(0, len(rows), group):
            writer.write_table(whole.slice(at, group))


def grouped(parts: list[Path]) -> Rows:
    """What ingest keeps of parts of request_events."""
    path = parts[0].with_name("instants.parquet")
    written = write_derived("request_instants", request_instants("r", parts), "r", path)
    found = pq.read_table(path).to_pylist() if path.exists() else []
    assert written == len(found)
    return sorted(found, key=lambda row: row["request_id"])


def walked(rows: Rows) -> Rows:
    """The same, from the definition of each column, a request at a time."""
    named: dict[str, Rows] = {}
    for row in rows:
        name = (
            OUTER[row["request_id"]]
            if row["request_id"] is not None
            else INNER[row["engine_request_id"]]
        )
        if name is not None and row["event"] != "responded":
            named.setdefault(name, []).append(row)

    def only(mine: Rows, column: str, *kinds: str) -> list[Any]:
        return [r[column] for r in mine if r["event"] in kinds and r[column] is not None]

    def every(mine: Rows, column: str) -> list[Any]:
        return [r[column] for r in mine if r[column] is not None]

    return [
        {
            "run_id": "r",
            "request_id": name,
            "engine_request_id": max(every(mine, "engine_request_id"), default=None),
            "arrived_at_ns": min(only(mine, "at_ns", "received", "added", "queued"), default=None),
            "queued_at_ns": min(only(mine, "at_ns", "queued"), default=None),
            "scheduled_at_ns": min(only(mine, "at_ns", "scheduled"), default=None),
            "first_token_at_ns": min(only(mine, "at_ns", "first_token"), default=None),
            "ended_at_ns": max(only(mine, "at_ns", "finished", "aborted", "failed"), default=None),
            "finished_at_ns": max(only(mine, "at_ns", "finished"), default=None),
            "was_received": any(r["event"] == "received" for r in mine),
            "was_admitted": any(r["event"] in {"added", "queued", "scheduled"} for r in mine),
            "was_aborted": any(r["event"] == "aborted" for r in mine),
            "was_failed": any(r["event"] == "failed" for r in mine),
            "was_finished": any(r["event"] == "finished" for r in mine),
            "preempted_events": sum(r["event"] == "preempted" for r in mine) or None,
            "asked_output_tokens": max(every(mine, "max_tokens"), default=None),
            "prompt_tokens": max(every(mine, "prompt_tokens"), default=None),
            "finish_reason": max(only(mine, "detail", "finished"), default=None),
        }
        for name, mine in sorted(named.items())
    ]


@given(
    st.lists(events, max_size=40),
    st.lists(events, max_size=20),
    st.sampled_from([100, 9, 1]),
    st.sampled_from([1, 1, 10**6]),
)
@settings(max_examples=examples(80), deadline=None)
@example([dict.fromkeys(NAMES) | {"event": "added"}] * 3, [], 1, 1)
def test_a_request_is_what_its_events_say(first: Rows, second: Rows, group: int, once: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = [Path(folder) / "a.parquet", Path(folder) / "b.parquet"]
        write(first, parts[0], group)
        write(second, parts[1], group)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "AT_ONCE", once)
            assert grouped(parts) == walked(first + second)


def test_the_query_over_events_says_the_same(tmp_path: Path) -> None:
    rnd = Random(5)
    rows = [
        {
            "event": rnd.choice(EVENTS),
            "at_ns": rnd.choice([None, BASE_NS + rnd.randrange(10**6)]),
            "request_id": rnd.choice([*OUTER, *(f"cmpl-{n}-0" for n in range(150))]),
            "engine_request_id": rnd.choice(list(INNER)),
            "max_tokens": rnd.choice([None, 5, 16]),
            "prompt_tokens": rnd.choice([None, 3, 900]),
            "detail": rnd.choice([None, "stop", "length"]),
        }
        for _ in range(2000)
    ]
    path = tmp_path / "events.parquet"
    write(rows, path, 500)
    kept = grouped([path])
    assert len(kept) > 150
    with duckdb.connect() as connection:
        connection.execute(macros()["external_id"])
        connection.execute("CREATE SCHEMA raw")
        connection.execute("CREATE TABLE raw.runs AS SELECT 'r' AS run_id")
        connection.execute(f"CREATE TABLE raw.request_events AS FROM '{path}'")
        connection.execute(
            f"CREATE TABLE raw.request_instants AS FROM '{tmp_path / 'instants.parquet'}' LIMIT 0"
        )
        for name in ("stg_engine_facts", "int_engine_logged"):
            connection.execute(f"CREATE VIEW {name} AS {models()[name].sql}")
        asked = connection.execute("FROM int_engine_logged ORDER BY request_id")
        names = [column[0] for column in asked.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in asked.fetchall()]
    assert found == kept
