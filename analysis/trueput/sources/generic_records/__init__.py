"""Request records of any program (CSV or JSON lines), described by `[columns]` in run.toml.

No file of this kind can be recognised by itself: `sniff` always says "not mine". Ingest gives this
source the files that run.toml names (`files_named`), with score 1. A `truth_*` file is never read.

A full example, for the log of a server that injects faults:

    [columns]
    file = "vllm_truth.jsonl"        # relative to the run folder; .gz and .zst are understood
    vantage = "server"               # client, engine, router or server
    format = "jsonl"                 # jsonl or csv; default: by the name (.csv and .tsv are CSV)
    clock = "utc"                    # utc (default), local, monotonic or relative

    [columns.names]                  # our column = its column
    correlation_id = "x_request_id"
    arrived_at = "t_recv"
    ended_at = "t_end"
    output_tokens = "sent"
    asked_output_tokens = "max_tokens"
    status = "kind"

    [columns.units]                  # its column = ns, us, ms, s, min, h or iso
    t_recv = "s"
    t_end = "s"

    [columns.status]                 # its word = an outcome or a status; unlisted words that are
    http_503 = "rejected"            # one themselves are taken as they are, others are unknown
    http_429 = "rejected"
    http_200_empty = "empty"
    disconnect_midstream = "stream_error"
    sse_error_event = "stream_error"
    graceful_abort_3tok = "aborted"
    slow_ttft_1500ms = "ok"
    stall_midstream_1500ms = "ok"
    stall_2s_first = "ok"

    [columns.traffic]                # rows that are not the measured load, by the words of a column
    column = "n"
    probe = ["0"]                    # also: warmup, other

Several files are several tables `[[columns]]`, each followed by its own `[columns.names]` etc.

- `names` takes the columns of the table `requests`; the ending `_ns` may be left out
  (`arrived_at`, `ended_at`, `ttft`, `queue`). One of its columns may serve several of ours.
- Every instant and span needs a unit, unless our column was named with `_ns` (then it is ns).
  `iso` is a date and time with zone, for instants only. Numbers are converted exactly, never as
  floats. `gaps` takes a list (JSON only).
- An instant that lands before 2000 or after 2100 on clock `utc` or `local`, or after 2000 on the
  others, is in another unit or on another clock: reported, and NULL.
- Instants that are in no possible order (an end or a token before the send) are reported, and
  kept: which of them is wrong the record does not say (RECORDS012).
- Outcome words become a status: good and late are `ok`, rejected `refused`, unfinished `running`;
  failed, aborted and not_sent keep their name; unknown is NULL.
- `output_tokens_source` may stand in `[columns]` as a fixed word; without it the count is the
  engine's (vantage client: usage that the client got).
- A record without an id is a request of its own: `FILE#ROW` (RECORDS011).
- `row_ix` is the position in the file. `correlation_id` is the key by which a client joins: in
  `bench-<hex>-<i>` the last number is the row of the client's file.
- A column that no record has, a unit that fits not, an unknown key: each one problem, never a stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trueput.clock import ClockKind
from trueput.scan import Damage, plain_name
from trueput.source_api import (
    BATCH_ROWS,
    Batch,
    Clock,
    Item,
    Problem,
    ReadOptions,
    Severity,
    Sniff,
    Source,
)
from trueput.sources.generic_records.columns import Plan, plan_of
from trueput.sources.generic_records.records import Malformed, csv_records, json_records
from trueput.sources.generic_records.values import Reader

PROBLEM_CODES: Final = {
    "RECORDS001": "`[columns]` of run.toml does not describe this file; nothing was read",
    "RECORDS002": "`[columns]` has a key or word that trueput does not know; it was ignored",
    "RECORDS003": "a column named in `[columns.names]` is in no record; it is unknown everywhere",
    "RECORDS004": "an instant or span has no unit, or one that fits not; the column was not read",
    "RECORDS005": "instants are outside of what their clock can show (wrong unit?); made unknown",
    "RECORDS006": "a value is not of its column's type; it was taken as unknown",
    "RECORDS007": "a status word is neither listed nor known; the status is unknown",
    "RECORDS008": "a line is no record of this format and was left out",
    "RECORDS009": "the compressed file breaks; what came before was read",
    "RECORDS010": "a record says that it ended well and holds an HTTP status of 400 or more; "
    "it counts as failed",
    "RECORDS011": "records have no id; each counts as a request that is joined with no other",
    "RECORDS012": "instants of a record contradict each other, or are before their clock's begin",
}


def sniff(name: str, head: bytes) -> Sniff:
    """Decline: only run.toml can say that a file is one."""
    return Sniff(0.0, "read only where `[columns]` of run.toml names the file")


def files_named(run_toml: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files that `[columns]` names, relative to the run folder, in order."""
    found = [table.get("file") for table in _tables(run_toml)]
    return tuple(name.removeprefix("./") for name in found if isinstance(name, str) and name)


def _tables(run_toml: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    columns = run_toml.get("columns", [])
    tables = columns if isinstance(columns, list) else [columns]
    return [table for table in tables if isinstance(table, Mapping)]


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the clock, the rows and the problems of one described file."""
    table = _table_of(path, options)
    if table is None:
        text = "no table `[columns]` of run.toml names this file"
        yield Problem("RECORDS001", Severity.ERROR, text)
        return
    plan = plan_of(table)
    yield from plan.problems
    if not plan.fields:
        text = "`[columns.names]` names no usable column"
        yield Problem("RECORDS001", Severity.ERROR, text)
        return
    yield Clock(plan.clock if plan.has_instants else ClockKind.NONE, method="run.toml [columns]")
    yield from _rows(path, plan, options.relative_path or path.name)


def _table_of(path: Path, options: ReadOptions) -> Mapping[str, Any] | None:
    tables = _tables(options.run_toml)
    own = {plain_name(options.relative_path or path.name), plain_name(path.name)}
    if options.relative_path:
        own = {plain_name(options.relative_path)}
    for table in tables:
        name = table.get("file")
        if isinstance(name, str) and plain_name(name.removeprefix("./")) in own:
            return table
    return None


def _rows(path: Path, plan: Plan, name: str) -> Iterator[Item]:
    reader = Reader(plan, name)
    comma = plan.format == "csv"
    records = csv_records(path, plan.delimiter) if comma else json_records(path)
    rows: list[dict[str, Any]] = []
    malformed: list[Malformed] = []
    lost = 0
    for record in records:
        if isinstance(record, Damage):
            yield Problem("RECORDS009", Severity.ERROR, f"the file breaks: {record.text}")
        elif isinstance(record, Malformed):
            lost += 1
            malformed = malformed or [record]
        else:
            rows.append(reader.row(record))
            if len(rows) == BATCH_ROWS:
                yield Batch("requests", rows)
                rows = []
    if rows:
        yield Batch("requests", rows)
    if malformed:
        first = malformed[0]
        yield Problem("RECORDS008", Severity.WARNING, first.text, first.line, lost)
    yield from reader.problems()


SOURCE = Source(
    name="generic_records",
    title="request records described by run.toml",
    versions="any",
    tables=("requests",),
    sniff=sniff,
    read=read,
    problem_codes=PROBLEM_CODES,
    proves="what its columns hold, as far as run.toml describes them rightly",
    turn_on="a table `[columns]` in run.toml",
)
