"""What the error text of a bench row says: a status and a short class, never the text itself.

The client writes the bare reason phrase of an HTTP error, one sentence of its own for a reply
without a chunk, or a whole traceback. A traceback is classified by its last line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

MAX_KIND: Final = 60

_STATUS_OF_PHRASE: Final = {
    **{status.phrase.lower(): int(status) for status in HTTPStatus if status >= 400},
    "content too large": 413,
    "payload too large": 413,
    "request entity too large": 413,
    "unprocessable entity": 422,
    "unprocessable content": 422,
}
"""The reason phrases that web servers derive from the status code, so that the code is known."""

_CODE: Final = re.compile(
    r"(?:HTTP(?:/\d(?:\.\d)?)?[ :]*)?(?:error|status)?(?: code)?[ :=]*([45]\d\d)\b",
    re.IGNORECASE,
)
_STATUS_KEYS: Final = ("code", "status", "status_code", "http_status")
_PHRASE: Final = re.compile(r"[A-Za-z][A-Za-z0-9'\-]*(?: [A-Za-z0-9'\-]+){0,5}")
_CLASS: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?=:|\(|$)")
_STREAM_CLASSES: Final = frozenset({"ClientPayloadError", "IncompleteRead", "RemoteProtocolError"})
_SENTENCES: Final = (
    # (start of the text, lower case; status; class)
    ("never received a valid chunk", "empty", "no valid chunk"),
    ("error sending request", "failed", "error sending request"),
    ("error decoding response body", "stream_error", "error decoding response body"),
    ("connection refused", "failed", "connection refused"),
    ("connection reset", "stream_error", "connection reset"),
    ("operation timed out", "timeout", "timed out"),
    ("request timed out", "timeout", "timed out"),
    ("timed out", "timeout", "timed out"),
    ("timeout", "timeout", "timed out"),
)


@dataclass(frozen=True)
class Failure:
    """Status of the table `requests`, class of the error, and the HTTP status where it follows."""

    status: str
    kind: str
    http_status: int | None = None


def classify(text: str, streamed: bool) -> Failure:
    """Return what a non-empty error text says; `streamed` = a token had arrived before it."""
    lines = [line.strip() for line in text[-4000:].splitlines() if line.strip()]
    if not lines:
        return Failure("stream_error" if streamed else "failed", "blank error text")
    if len(lines) > 1 or text.startswith("Traceback"):
        found = _exception(lines[-1])
    else:
        found = _sentence(lines[0])
    if streamed and found.status in {"failed", "http_error", "empty"}:
        return Failure("stream_error", found.kind, found.http_status)
    return found


def classify_value(value: Any, streamed: bool) -> Failure:
    """Return what an error that is no text says: a number or switch, an object, a list.

    The HTTP status is the number itself, or a `code` or `status` of the object or of its `error`.
    Of objects and lists nothing else is kept: they may hold a message.
    """
    code = _http_status(value)
    if code is not None:
        return Failure("stream_error" if streamed else "http_error", f"HTTP {code}", code)
    if isinstance(value, bool):
        kind = str(value).lower()
    elif isinstance(value, int | float):
        kind = str(value)
    else:
        kind = "unrecognised error object" if isinstance(value, dict) else "unrecognised error list"
    return Failure("stream_error" if streamed else "failed", kind[:MAX_KIND])


def _http_status(value: Any) -> int | None:
    """Return a status of 400 to 599; that of an object stands in it or in its `error`."""
    if isinstance(value, dict):
        inner = value.get("error")
        within = inner if isinstance(inner, dict) else {}
        named = [item.get(key) for item in (value, within) for key in _STATUS_KEYS]
        return next((code for got in named if (code := _status_number(got))), None)
    return _status_number(value)


def _status_number(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value, re.ASCII):
        return int(value)
    is_whole = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_whole and 400 <= value < 600 and value == int(value) else None


def _exception(line: str) -> Failure:
    match = _CLASS.match(line)
    if match is None:
        return Failure("failed", "unrecognised traceback")
    name = match.group(1)[:MAX_KIND]
    if "Timeout" in name:
        return Failure("timeout", name)
    if name in {"CancelledError", "KeyboardInterrupt"}:
        return Failure("cancelled", name)
    return Failure("stream_error" if name in _STREAM_CLASSES else "failed", name)


def _sentence(line: str) -> Failure:
    lower = line.lower()
    if code := _STATUS_OF_PHRASE.get(lower):
        return Failure("http_error", line[:MAX_KIND], code)
    for start, status, name in _SENTENCES:
        if lower.startswith(start):
            return Failure(status, name)
    if match := _CODE.match(line):
        return Failure("http_error", f"HTTP {match.group(1)}", int(match.group(1)))
    exception = _CLASS.match(line)
    if exception and re.search(r"(?:Error|Exception|Timeout)$", exception.group(1)):
        return _exception(line)
    if len(line) <= MAX_KIND and _PHRASE.fullmatch(line):
        return Failure("http_error", line)
    return Failure("failed", "unrecognised error text")
