"""OpenTelemetry spans of vLLM as OTLP JSON: one `llm_request` span per finished request.

An aborted request has no span, and no span says anything of preemptions: the wait and the
recompute lie inside the reported decode (or prefill) time. Other spans are counted and left out.

| code | meaning |
|---|---|
| OTLP001 | text that is not JSON, or JSON that is no export request |
| OTLP002 | the file ends inside a document |
| OTLP003 | a document is longer than the limit and not read |
| OTLP004 | the file is damaged from here on |
| OTLP005 | the same span again (an exporter's retry); kept once |
| OTLP006 | a negative duration; not stored |
| OTLP007 | a span without a usable start or end |
| OTLP008 | a span without a request id |
| OTLP009 | a count or duration that is no number in range; not stored |
| OTLP010 | no llm_request span in the file |
| OTLP011 | a second engine process appears late; the rows before have no replica |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trueput.clock import ClockKind
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
from trueput.sources.otlp_spans.framing import Broken, documents
from trueput.sources.otlp_spans.values import Plain, Span, holds_spans, seconds_ns, spans, whole

HELD_ROWS = 2 * BATCH_ROWS
"""Rows kept back until it is known whether several engine processes wrote the file."""
REMEMBERED_SPANS = 262_144

_SPANS = re.compile(rb'"resource_?[sS]pans"\s*:')
_REQUEST = re.compile(rb'"name"\s*:\s*"llm_request"')

_TEXTS = {
    "OTLP001": (Severity.WARNING, "not an OTLP export request in JSON"),
    "OTLP002": (Severity.WARNING, "the file ends inside a document"),
    "OTLP003": (Severity.ERROR, "document is longer than the limit, not read"),
    "OTLP004": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "OTLP005": (Severity.INFO, "span seen before (exporter retry), kept once"),
    "OTLP006": (Severity.WARNING, "negative duration, not stored"),
    "OTLP007": (Severity.WARNING, "span has no usable start or end"),
    "OTLP008": (
        Severity.WARNING,
        "llm_request span has no request id; it counts as a request of its own",
    ),
    "OTLP009": (Severity.WARNING, "attribute is no number in range, not stored"),
    "OTLP010": (Severity.INFO, "no llm_request span in this file"),
    "OTLP011": (Severity.INFO, "a second engine process appears late: no replica before it"),
}
_BROKEN = {"broken": "OTLP001", "cut": "OTLP002", "long": "OTLP003", "damaged": "OTLP004"}

_COUNTS = {
    "prompt_tokens": ("gen_ai_usage_prompt_tokens", "gen_ai_usage_input_tokens"),
    "output_tokens": ("gen_ai_usage_completion_tokens", "gen_ai_usage_output_tokens"),
    "asked_output_tokens": ("gen_ai_request_max_tokens",),
}
_DURATIONS = {
    "queue_ns": "gen_ai_latency_time_in_queue",
    "prefill_ns": "gen_ai_latency_time_in_model_prefill",
    "decode_ns": "gen_ai_latency_time_in_model_decode",
    "ttft_ns": "gen_ai_latency_time_to_first_token",
    "e2e_ns": "gen_ai_latency_e2e",
}


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins an OTLP JSON file of spans."""
    if head.lstrip()[:1] not in (b"{", b"[") or not _SPANS.search(head):
        return NOT_MINE
    if _REQUEST.search(head):
        return Sniff(0.98, "OTLP resourceSpans with llm_request spans")
    return Sniff(0.9, "OTLP resourceSpans")


@dataclass
class _Reader:
    """What has been seen: problems, facts, span ids, engine processes, rows kept back."""

    problems: dict[str, tuple[int | None, int, str]] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)
    seen_before: set[tuple[str, str]] = field(default_factory=set)
    replicas: set[str] = field(default_factory=set)
    rows: list[dict[str, Any]] = field(default_factory=list)
    released: bool = False
    requests: int = 0

    def problem(self, code: str, line: int | None, text: str = "") -> None:
        first, count, old = self.problems.get(code, (line, 0, text))
        self.problems[code] = (first, count + 1, old)

    def take(self, document: Any, line: int) -> None:
        """Read the spans of one document."""
        if not holds_spans(document):
            self.problem("OTLP001", line)
            return
        for span in spans(document):
            if span is None:
                self.problem("OTLP001", line)
            elif span.name == "llm_request":
                if span.identity is not None and self._is_repeat(span.identity):
                    self.problem("OTLP005", line)
                    continue
                self._learn(span, line)
                self.rows.append(self._row(span, line))
                self.requests += 1

    def _is_repeat(self, identity: tuple[str, str]) -> bool:
        if identity in self.seen or identity in self.seen_before:
            return True
        if len(self.seen) >= REMEMBERED_SPANS:
            self.seen_before, self.seen = self.seen, set()
        self.seen.add(identity)
        return False

    def _learn(self, span: Span, line: int) -> None:
        resource = span.resource
        told: dict[str, Plain] = {
            "model": span.attributes.get("gen_ai_response_model")
            or span.attributes.get("gen_ai_request_model"),
            "engine_version": resource.get("vllm_version"),
        }
        service = str(resource.get("service_name", ""))
        if span.scope.startswith("vllm") or service.startswith("vllm"):
            told["engine"] = "vllm"
            told["engine_version"] = told["engine_version"] or span.scope_version
            if service.startswith("vllm") and not told["engine_version"]:
                told["engine_version"] = resource.get("service_version")
        for key, value in told.items():
            if isinstance(value, str) and value and key not in self.facts:
                self.facts[key] = Fact(key, value[:200], line)

    def _row(self, span: Span, line: int) -> dict[str, Any]:
        given = span.attributes
        row: dict[str, Any] = {
            "vantage": "engine",
            "traffic": "load",
            "status": "failed" if span.failed else "finished",
            "arrived_at_ns": span.start_ns,
            "ended_at_ns": span.end_ns,
            "replica": self._replica(span, line),
        }
        request_id = given.get("gen_ai_request_id")
        row["request_id"] = str(request_id)[:500] if request_id is not None else None
        if request_id is None:
            self.problem("OTLP008", line)
            if span.identity is not None:
                row["request_id"] = f"span-{span.identity[1]}"[:500]
        if span.start_ns is None or span.end_ns is None:
            self.problem("OTLP007", line)
        elif span.end_ns < span.start_ns:
            self.problem("OTLP007", line, ": its end lies before its start")
            row["ended_at_ns"] = None
        for column, names in _COUNTS.items():
            name = next((n for n in names if n in given), names[0])
            row[column] = self._number(name, whole(given.get(name)), given, line)
        for column, name in _DURATIONS.items():
            row[column] = self._number(name, seconds_ns(given.get(name)), given, line)
        if row["output_tokens"] is not None:
            row["output_tokens_source"] = "engine_usage"
        if span.start_ns is not None and row["ttft_ns"] is not None:
            row["first_token_at_ns"] = span.start_ns + row["ttft_ns"]
        return row

    def _number(
        self, name: str, value: int | None, given: dict[str, Plain], line: int
    ) -> int | None:
        if value is None and name in given:
            self.problem("OTLP009", line, f": {name}")
        if value is not None and value < 0:
            self.problem("OTLP006", line, f": {name}")
            return None
        return value

    def _replica(self, span: Span, line: int) -> str | None:
        for key in ("service_instance_id", "vllm_process_id", "process_pid"):
            if (found := span.resource.get(key)) is not None:
                replica = str(found)[:200]
                break
        else:
            return None
        if replica not in self.replicas and len(self.replicas) < 1000:
            self.replicas.add(replica)
            if len(self.replicas) == 2 and self.released:
                self.problem("OTLP011", line)
        return replica

    def batches(self, *, all_of_them: bool) -> Iterator[Batch]:
        """Hand out rows: at the end, once there are many, or when it is plain who wrote them."""
        several = len(self.replicas) > 1
        if not all_of_them and len(self.rows) < (BATCH_ROWS if several else HELD_ROWS):
            return
        if not several:
            for row in self.rows:
                row["replica"] = None
        for start in range(0, len(self.rows), BATCH_ROWS):
            yield Batch("requests", self.rows[start : start + BATCH_ROWS])
        self.released = self.released or bool(self.rows)
        self.rows = []


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield one `requests` row per llm_request span, what the file says of the run, problems."""
    reader = _Reader()
    for piece in documents(path):
        if isinstance(piece, Broken):
            reader.problem(_BROKEN[piece.kind], piece.line, f": {piece.text}" if piece.text else "")
            continue
        reader.take(piece.value, piece.line)
        yield from reader.batches(all_of_them=False)
    yield from reader.batches(all_of_them=True)
    if not reader.requests:
        reader.problem("OTLP010", None)
    yield from reader.facts.values()
    for code, (line, count, text) in sorted(reader.problems.items()):
        severity, words = _TEXTS[code]
        yield Problem(code, severity, words + text, line, count)
    yield Clock(ClockKind.UTC, offset_ns=0, uncertainty_ns=0, method="unix nanoseconds")


SOURCE = Source(
    name="otlp_spans",
    title="OpenTelemetry spans of vLLM (OTLP JSON)",
    versions="vLLM 0.5.4 to 0.7 (V0), 0.10.2 to 0.33 (V1)",
    tables=("requests",),
    sniff=sniff,
    read=read,
    problem_codes={code: text for code, (_, text) in _TEXTS.items()},
    proves=(
        "Arrival, queue, prefill, decode and end of every request that finished; nothing of"
        " aborted requests and nothing of preemptions."
    ),
    turn_on="--otlp-traces-endpoint to a collector with a file exporter (OTLP JSON)",
)
