"""Proto3 JSON of OTLP, read tolerantly: key styles, integers as text, attribute values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from trueput.units import MAX_NS, to_ns

Plain: TypeAlias = "str | int | Decimal | bool | None"


@dataclass(frozen=True)
class Span:
    """One span, with the attributes of its resource; names have underscores for dots."""

    name: str
    identity: tuple[str, str] | None
    start_ns: int | None
    end_ns: int | None
    failed: bool
    attributes: dict[str, Plain]
    resource: dict[str, Plain]
    scope: str
    scope_version: str


def spans(document: Any) -> Iterator[Span | None]:
    """Yield the spans of a document, or of each document in a list; None for one that is none."""
    for request in document if isinstance(document, list) else [document]:
        for resource_spans in _items(request, "resourceSpans", "resource_spans"):
            resource = attributes(_get(_get(resource_spans, "resource"), "attributes"))
            for scope_spans in _items(
                resource_spans,
                "scopeSpans",
                "scope_spans",
                "instrumentationLibrarySpans",
                "instrumentation_library_spans",
            ):
                scope = _get(scope_spans, "scope", "instrumentationLibrary")
                for raw in _items(scope_spans, "spans"):
                    yield _span(raw, resource, scope) if isinstance(raw, dict) else None


def holds_spans(document: Any) -> bool:
    """Whether the document is an export request (or a list of them), perhaps an empty one."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and ("resourceSpans" in first or "resource_spans" in first)


def attributes(raw: Any) -> dict[str, Plain]:
    """Return scalar attributes by name, dots as underscores; lists and maps are left out."""
    result: dict[str, Plain] = {}
    pairs: list[tuple[Any, Any]] = []
    if isinstance(raw, list):
        pairs = [(_get(item, "key"), _get(item, "value")) for item in raw]
    elif isinstance(raw, dict):
        pairs = list(raw.items())
    for key, value in pairs:
        if isinstance(key, str):
            plain = _plain(value)
            if plain is not None:
                result[key.replace(".", "_")] = plain
    return result


def whole(value: Plain) -> int | None:
    """Return a count: an int, its text, or a float that is whole; None for others."""
    if value is None or isinstance(value, bool):
        return None
    number = to_ns(value, "ns")
    if number is None:
        return None
    return number if Decimal(str(value)) == number else None


def seconds_ns(value: Plain) -> int | None:
    """Return seconds as nanoseconds, exactly."""
    return None if value is None or isinstance(value, bool) else to_ns(value, "s")


def _span(raw: dict[str, Any], resource: dict[str, Plain], scope: Any) -> Span:
    name = raw.get("name")
    trace, span = _get(raw, "traceId", "trace_id"), _get(raw, "spanId", "span_id")
    identity = (str(trace or "")[:64], span[:64]) if isinstance(span, str) and span else None
    code = _get(_get(raw, "status"), "code")
    return Span(
        name=name if isinstance(name, str) else "",
        identity=identity,
        start_ns=_instant(_get(raw, "startTimeUnixNano", "start_time_unix_nano")),
        end_ns=_instant(_get(raw, "endTimeUnixNano", "end_time_unix_nano")),
        failed=code in (2, "2", "STATUS_CODE_ERROR"),
        attributes=attributes(raw.get("attributes")),
        resource=resource,
        scope=_text(_get(scope, "name")),
        scope_version=_text(_get(scope, "version")),
    )


def _instant(value: Any) -> int | None:
    if not isinstance(value, str | int | Decimal) or isinstance(value, bool):
        return None
    at_ns = to_ns(value, "ns")
    return at_ns if at_ns is not None and 0 < at_ns < MAX_NS else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _get(raw: Any, *keys: str) -> Any:
    if isinstance(raw, dict):
        for key in keys:
            if key in raw:
                return raw[key]
    return None


def _items(raw: Any, *keys: str) -> list[Any]:
    found = _get(raw, *keys)
    return found if isinstance(found, list) else []


def _plain(value: Any) -> Plain:
    if isinstance(value, dict):
        for key in ("stringValue", "string_value", "boolValue", "bool_value"):
            if isinstance(value.get(key), str | bool):
                found: str | bool = value[key]
                return found
        for key in ("intValue", "int_value", "doubleValue", "double_value"):
            number = value.get(key)
            if isinstance(number, str | int | Decimal) and not isinstance(number, bool):
                return number
        return None
    return value if isinstance(value, str | int | Decimal | bool) else None
