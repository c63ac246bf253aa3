"""Results of `vllm bench serve` (JSON): one load session per object, one request per array entry.

Versions: `benchmarks/benchmark_serving.py` of 0.4 up to `vllm bench serve` of 0.33, and the Rust
`vllm-bench`, which writes the same schema. With `--append-result` the file holds several objects.

What the file says and what becomes of it:

- Arrays are in the client's order of sending; `row_ix` is the index, which is also the last
  number of the request id that the client sent. No request id is stored.
- `start_times` are seconds of the client's monotonic clock. Older files have none: no instants.
  Those of the Rust writer count from a zero of its own (clock `relative`).
- `ttft` 0.0 is a mark of failure (or of a reply that was not streamed): NULL here.
- An HTTP error keeps only its reason phrase. Where the phrase is the standard one, the status
  code follows from it and is filled; a phrase of the server's own leaves it NULL.
- A stream that broke keeps its ttft and gaps and has latency 0.0: `stream_error`, with the
  chunks that had arrived as its tokens (source `chunks`).
- An entry of `errors` that is neither text nor null is of no known writer: a failure, since only
  the empty text says success. Where the entry is missing, how the request ended is unknown.
- The client's success stays a claim: an error inside a 200 stream is `ok` here.
- Output counts are those that the server sent as usage; a server that sends none makes the client
  count with its own tokeniser, and the file does not say which.
- `generated_texts` are never decoded.

- `vllm bench sweep` adds the settings of a combination and `run_number` to the result: they become
  the run's configuration (`swept`).

Problem codes: see `PROBLEM_CODES`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trueput.clock import ClockKind
from trueput.scan import Damage, byte_chunks, plain_name
from trueput.source_api import (
    BATCH_ROWS,
    NOT_MINE,
    Batch,
    Clock,
    Fact,
    Item,
    Problem,
    ReadOptions,
    Severity,
    Sniff,
    Source,
)
from trueput.sources.vllm_bench import bench_json
from trueput.sources.vllm_bench.rows import END_KEYS, Details, details_of
from trueput.sources.vllm_bench.swept import swept_settings
from trueput.units import to_ns

MAX_FILE_BYTES: Final = 2 << 30
"""A result file is one JSON object and is held whole; larger ones are not read."""

MAX_PROMPTS: Final = 10_000_000
"""Planned requests that no row tells of are rows of their own; more than these are not believed."""

PROBLEM_CODES: Final = {
    "BENCH001": "the file ends inside a result; whole values before it were kept",
    "BENCH002": "the compressed file breaks; what came before was read",
    "BENCH003": "something inside a result is no JSON; what came before was kept",
    "BENCH004": "bytes between results belong to none",
    "BENCH005": "an object lacks the keys of a result and was left out",
    "BENCH006": "the file is larger than 2 GiB and was not read",
    "BENCH007": "a known key holds a value of another type; it was taken as unknown; "
    "an error where it tells how requests ended",
    "BENCH008": "the arrays of one result differ in length; missing is unknown; "
    "an error where it tells how requests ended",
    "BENCH009": "totals and arrays disagree on how many completed or failed: which is not known",
    "BENCH010": "written without --save-detailed; it holds no record per request",
    "BENCH011": "a result of the multi-turn mode; only its totals were read",
    "BENCH012": "entries of `errors` are neither text nor null; those requests failed",
}

_MARKS: Final = ("date", "backend", "model_id", "tokenizer_id", "num_prompts")
_TOTALS: Final = ("duration", "completed", "total_input_tokens", "request_throughput")
_RUST_KEYS: Final = frozenset({"steady_state", "input_throughput", "failed_requests"})
_YEAR_2000_NS: Final = 946_684_800 * 10**9
_CLAIM: Final = re.compile(
    r"(?:mean|median|std|p\d{1,2}(?:[._]\d{1,3})?|p100)_"
    r"(?:ttft|tpot|itl|e2el|client_queue_time|e2el_including_client_queue)_ms"
    r"|total_token_throughput|input_throughput|max_output_tokens_per_s|max_concurrent_requests"
    r"|rtfx|failed_requests|ramp_up_(?:start|end)_rps"
    r"|(?:spec_decode|diffusion|probe)_[a-z0-9_]{1,40}"
)


def sniff(name: str, head: bytes) -> Sniff:
    """Look for the header keys of a result in the first object."""
    if plain_name(name).endswith(".pytorch.json") or head.lstrip()[:1] != b"{":
        return NOT_MINE
    first = next(bench_json.objects(head), None)
    if not isinstance(first, bench_json.Found):
        return NOT_MINE
    marks = sum(key in first.fields for key in _MARKS)
    totals = sum(key in first.fields for key in _TOTALS)
    if marks >= 4 and totals >= 2:
        return Sniff(0.97, "header and totals of a `vllm bench serve` result")
    if marks >= 4 or (marks >= 2 and totals >= 3 and "model_id" in first.fields):
        return Sniff(0.8, "keys of a `vllm bench serve` result")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield clock, sessions, requests and problems of one result file."""
    chunks: list[bytes] = []
    size = 0
    for chunk in byte_chunks(path):
        if isinstance(chunk, Damage):
            yield Problem("BENCH002", Severity.ERROR, f"the file breaks: {chunk.text}")
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            text = f"larger than {MAX_FILE_BYTES >> 20} MiB decompressed"
            yield Problem("BENCH006", Severity.ERROR, text)
            return
    data = b"".join(chunks)
    chunks.clear()
    yield from _read_bytes(data)


def _read_bytes(data: bytes) -> Iterator[Item]:
    results: list[bench_json.Found] = []
    for found in bench_json.objects(data):
        if isinstance(found, bench_json.Junk):
            text = f"{found.size} bytes that belong to no result"
            yield Problem("BENCH004", Severity.WARNING, text, found.line)
            continue
        if found.truncated:
            text = "the file ends inside this result"
            yield Problem("BENCH001", Severity.ERROR, text, found.line)
        if found.broken:
            text = "no JSON from some point of this result on"
            yield Problem("BENCH003", Severity.ERROR, text, found.line)
        if sum(key in found.fields for key in (*_MARKS, *_TOTALS)) < 3:
            text = "an object without the keys of a result"
            yield Problem("BENCH005", Severity.WARNING, text, found.line)
            continue
        results.append(found)
    if not results and not data.strip():
        yield Problem("BENCH005", Severity.ERROR, "the file is empty")
    clock = Clock(ClockKind.NONE)
    before = 0  # requests of the results above: a row's place is unique in its file
    for index, found in enumerate(results):
        result = _Result(found, str(index) if len(results) > 1 else None)
        details = details_of(found.fields)
        if details is not None and details.timed:
            clock = _clock(found.fields, details)
        yield from _session(result, details, alone=len(results) == 1, before=before)
        before += details.size if details is not None else 0
    yield clock


def _clock(fields: Mapping[str, bench_json.Buffer], details: Details) -> Clock:
    """Say what `start_times` are counted from; the Rust writer's zero is not the machine's."""
    if not _RUST_KEYS & fields.keys():
        return Clock(ClockKind.MONOTONIC, method="client perf_counter")
    first = details.first_instant() or 0
    return Clock(ClockKind.UTC if first >= _YEAR_2000_NS else ClockKind.RELATIVE)


@dataclass
class _Result:
    """Typed access to the scalars of one result; what does not fit is noted and NULL."""

    found: bench_json.Found
    session: str | None
    bad: list[str] = field(default_factory=list)

    def _get(self, key: str) -> Any:
        raw = self.found.fields.get(key)
        if raw is None or bench_json.kind(raw) in "[{":
            if raw is not None:
                self.bad.append(key)
            return None
        got = bench_json.value(raw)
        if got is None and bytes(raw) != b"null":
            self.bad.append(key)
        return got

    def number(self, key: str) -> float | None:
        """Return a number; the texts `inf` and `nan` count as numbers, NaN as unknown."""
        got = self._get(key)
        if isinstance(got, str) and re.fullmatch(r"-?(?:inf|infinity|nan|[\d.eE+-]{1,40})", got):
            got = _float(got)
        if got is None:
            return None
        number = None if isinstance(got, bool | str) else _float(got)
        if number is None:
            self.bad.append(key)
        return None if number is None or math.isnan(number) else number

    def count(self, key: str, most: int = 2**53) -> int | None:
        """Return a whole number from 0 to `most`."""
        got = self.number(key)
        if got is None:
            return None
        if not math.isfinite(got) or not 0 <= got <= most or got != int(got):
            self.bad.append(key)
            return None
        return int(got)

    def span(self, key: str) -> int | None:
        """Return seconds as nanoseconds."""
        got = self.number(key)
        ns = None if got is None else to_ns(got, "s")
        if got is not None and (ns is None or ns < 0):
            self.bad.append(key)
            return None
        return ns

    def text(self, key: str) -> str | None:
        """Return a short text."""
        got = self._get(key)
        return got[:200].encode("utf-8", "replace").decode() if isinstance(got, str) else None


def _float(value: str | float) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _session(result: _Result, details: Details | None, alone: bool, before: int) -> Iterator[Item]:
    row = _session_row(result)
    row["detailed"] = details is not None
    yield Batch("load_sessions", [row])
    line = result.found.line
    if details is None:
        if "conversations_completed" in result.found.fields or result.text("mode") == "multi_turn":
            yield Problem("BENCH011", Severity.WARNING, "totals only", line)
        text = "no arrays per request (the client needs --save-detailed)"
        yield Problem("BENCH010", Severity.INFO, text, line)
    else:
        for start in range(0, details.size, BATCH_ROWS // 4):
            stop = min(details.size, start + BATCH_ROWS // 4)
            rows = details.table(start, stop, result.session, before)
            yield Batch("requests", rows)
        yield from _differences(row, details, line)
    bad = sorted({*result.bad, *(details.bad if details else ())})
    bad.sort(key=lambda key: key not in END_KEYS)
    if bad:
        text = f"unusable value at `{bad[0]}`" + (f" and {len(bad) - 1} more" if bad[1:] else "")
        severity = Severity.ERROR if bad[0] in END_KEYS else Severity.WARNING
        yield Problem("BENCH007", severity, text, line, len(bad))
    if alone:
        yield from _facts(row)
        for name, value in swept_settings(result.found.fields).items():
            yield Fact(f"config.{name}", value)


def _session_row(result: _Result) -> dict[str, Any]:
    fields = result.found.fields
    failed = result.count("failed")
    goodput = result.number("request_goodput")
    return {
        "session": result.session,
        "writer": "vllm-bench (rust)" if _RUST_KEYS & fields.keys() else "vllm bench serve",
        "backend": result.text("backend") or result.text("endpoint_type"),
        "model": result.text("model_id"),
        "ended_local_at_ns": _local_ns(result),
        "duration_ns": result.span("duration"),
        "planned_requests": result.count("num_prompts", MAX_PROMPTS),
        "claimed_complete_requests": result.count("completed"),
        "claimed_failed_requests": result.count("failed_requests") if failed is None else failed,
        "claimed_goodput_rps": result.number("request_goodput:") if goodput is None else goodput,
        "claimed_request_throughput_rps": result.number("request_throughput"),
        "claimed_output_tokens_per_s": result.number("output_throughput"),
        "claimed_prompt_tokens": result.count("total_input_tokens"),
        "claimed_output_tokens": result.count("total_output_tokens"),
        "request_rate_per_s": result.number("request_rate"),
        "burstiness": result.number("burstiness"),
        "max_concurrency": result.count("max_concurrency"),
        "claims_json": _claims(fields),
    }


def _local_ns(result: _Result) -> int | None:
    text = result.text("date")
    if text is None:
        return None
    try:
        moment = datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        result.bad.append("date")
        return None
    return int(moment.timestamp()) * 1_000_000_000


def _claims(fields: Mapping[str, bench_json.Buffer]) -> str:
    claims: dict[str, float | str] = {}
    for key, raw in fields.items():
        if not _CLAIM.fullmatch(key) or bench_json.kind(raw) not in "-0123456789NI":
            continue
        got = bench_json.value(raw)
        if isinstance(got, int | float):
            claims[key] = got if math.isfinite(got) else str(got)
    return json.dumps(claims, sort_keys=True)


def _differences(row: dict[str, Any], details: Details, line: int) -> Iterator[Problem]:
    if details.lengths_differ:
        text = f"array lengths differ: {details.lengths_text}"
        severity = Severity.ERROR if details.ends_untold else Severity.WARNING
        yield Problem("BENCH008", severity, text, line)
    if details.odd_errors:
        text = f"{details.odd_errors} entries of `errors` are of an unexpected type"
        yield Problem("BENCH012", Severity.WARNING, text, line, details.odd_errors)
    for key, counted in (
        ("claimed_complete_requests", details.complete),
        ("claimed_failed_requests", details.size - details.complete),
    ):
        said = row[key]
        if said is not None and said != counted:
            word = "completed" if "complete" in key else "failed"
            text = f"the totals say {said} {word}, the arrays hold {counted}"
            yield Problem("BENCH009", Severity.ERROR, text, line)


def _facts(row: dict[str, Any]) -> Iterator[Fact]:
    for name, column in (
        ("client.num_prompts", "planned_requests"),
        ("client.request_rate", "request_rate_per_s"),
        ("client.burstiness", "burstiness"),
        ("client.max_concurrency", "max_concurrency"),
        ("client.backend", "backend"),
        ("client.model", "model"),
        ("clock.date_end_ns", "ended_local_at_ns"),
    ):
        value = row[column]
        if value is not None:
            infinite = isinstance(value, float) and not math.isfinite(value)
            yield Fact(name, str(value) if infinite else value)


SOURCE = Source(
    name="vllm_bench",
    title="vLLM bench serve result",
    versions="0.4-0.33 (Python), vllm-bench (Rust)",
    tables=("load_sessions", "requests"),
    sniff=sniff,
    read=read,
    problem_codes=PROBLEM_CODES,
    proves="what the client sent, when, and what it saw come back; its success counts are claims",
    turn_on="vllm bench serve --save-result --save-detailed",
)
