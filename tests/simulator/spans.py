"""OpenTelemetry spans: one `llm_request` per request that ended by itself, in export batches."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from simulator.clocks import seconds, unix_ns
from simulator.config import NS_PER_S
from simulator.engine import Run
from simulator.workload import Request

EXPORT_NS = 5 * NS_PER_S


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _attributes(one: Request, name: str) -> list[dict[str, Any]]:
    assert one.queued_at is not None
    assert one.first_scheduled_at is not None
    first, last = one.token_at[0], one.token_at[-1]
    values: list[tuple[str, float | int | str]] = [
        ("gen_ai.latency.time_to_first_token", seconds(first - one.arrived_at + 180_000)),
        ("gen_ai.latency.e2e", seconds(last - one.arrived_at + 200_000)),
        ("gen_ai.latency.time_in_queue", seconds(one.first_scheduled_at - one.queued_at)),
        ("gen_ai.usage.prompt_tokens", one.prompt),
        ("gen_ai.usage.completion_tokens", one.produced),
        ("gen_ai.latency.time_in_model_prefill", seconds(first - one.first_scheduled_at)),
        ("gen_ai.latency.time_in_model_decode", seconds(last - first)),
        ("gen_ai.latency.time_in_model_inference", seconds(last - one.first_scheduled_at)),
        ("gen_ai.request.id", name),
        ("gen_ai.request.top_p", 1.0),
        ("gen_ai.request.max_tokens", one.asked),
        ("gen_ai.request.n", 1),
    ]
    found = []
    for key, value in values:
        kind = {float: "doubleValue", int: "intValue", str: "stringValue"}[type(value)]
        found.append({"key": key, "value": {kind: str(value) if kind == "intValue" else value}})
    return found


def _span(one: Request, name: str) -> dict[str, Any]:
    return {
        "traceId": _hex(f"trace {name}", 32),
        "spanId": _hex(f"span {name}", 16),
        "name": "llm_request",
        "kind": "SPAN_KIND_SERVER",
        "startTimeUnixNano": str(unix_ns(one.arrived_at)),
        "endTimeUnixNano": str(unix_ns(one.token_at[-1] + 220_000)),
        "attributes": _attributes(one, name),
        "status": {},
        "flags": 256,
    }


def write(run: Run, prefix: str) -> str:
    """One export request per line."""
    resource = {
        "attributes": [
            {"key": key, "value": {"stringValue": value}}
            for key, value in (
                ("telemetry.sdk.language", "python"),
                ("telemetry.sdk.name", "opentelemetry"),
                ("telemetry.sdk.version", "1.45.2"),
                ("service.name", "vllm-server"),
                ("vllm.instrumenting_module_name", "vllm.llm_engine"),
                ("vllm.process_id", "4100"),
            )
        ]
    }
    batches: dict[int, list[dict[str, Any]]] = {}
    for one in sorted(run.requests, key=lambda one: one.finished_at or 0):
        if one.produced and one.aborted_at is None and one.finished_at is not None:
            batch = one.finished_at // EXPORT_NS
            batches.setdefault(batch, []).append(_span(one, one.name(prefix)))
    lines = []
    for _, found in sorted(batches.items()):
        scope = {"scope": {"name": "vllm.tracing.otel"}, "spans": found}
        body = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
        lines.append(json.dumps(body))
    return "\n".join(lines) + "\n"
