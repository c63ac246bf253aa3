"""Text of events that is no JSON -> events, as far as their fields can be told.

Seen in the wild: quotes within names that nobody escaped, control characters, `N/A` and `NaN` as
values, log lines between the lines, bytes that are no UTF-8. What is recovered is written again as
JSON with the few fields that are read, numbers as the text that stood there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_FIELDS = ("ph", "name", "cat", "pid", "tid", "ts", "dur")
_ARGS = ("correlation", "device", "stream", "context", "bytes", "size", "graph node id")


def _nothing(_: str) -> None:
    return None


_STRICT = json.JSONDecoder(parse_float=str, parse_constant=_nothing)
_LENIENT = json.JSONDecoder(parse_float=str, parse_constant=_nothing, strict=False)
_GAP = re.compile(r"[\s,]*")
_NOT_AVAILABLE = re.compile(
    r"(:\s*)(?:N/A|[-+]?(?:nan|inf|infinity|none)|undefined)(?=\s*[,}\]])", re.I
)
_LOG_LINE = re.compile(
    r"^\s*(?:\[?(?:INFO|WARN|WARNING|ERROR|DEBUG)\b|[IWEF]\d{4} |STAGE:).*\n", re.M
)
_LIST_END = re.compile(r"\]\s*(?:,\s*\"[^\"]*\"\s*:|\}?\s*\Z)")

_CLOSED = re.compile(r"\}\s*,?\s*(\])\s*(?=,\s*\"|\}?\s*\Z)")

_NUMBER = r"\"?(-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\"?(?=\s*(?:[,}\]]|$))"
_PH = re.compile(r'"ph"\s*:\s*"(.)"')
_CAT = re.compile(r'"cat"\s*:\s*"([^"]*)"')
_NAME = re.compile(
    r'"name"\s*:\s*"(.*?)"\s*(?:,\s*"(?:pid|tid|ts|dur|ph|cat|args|id|s|bp)"\s*:|\}\s*\Z)', re.S
)
_ID = {key: re.compile(rf'"{key}"\s*:\s*(?:"([^"]*)"|(-?\d+))') for key in ("pid", "tid")}
_TIME = {key: re.compile(rf'"{key}"\s*:\s*{_NUMBER}') for key in ("ts", "dur")}
_ARG = re.compile(rf'"({"|".join(_ARGS)})"\s*:\s*"?(-?\d{{1,18}})\b')
_ARGS_START = re.compile(r'"args"\s*:\s*\{')
_CONTENT = re.compile(r"[{\[\"]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[\[\]{}]', re.S)
_BORDER = re.compile(r'\}\s*,?\s*(?=\{\s*"(?:ph|name)"\s*:)')


@dataclass
class Mended:
    """Events as JSON texts. `recovered` of them were no JSON; `lost` could not be read at all.

    `end` is where the list of events ends in the text (at its `]`), when it does there; `broken`
    is where reading stopped otherwise; `commas` stand before the end with no event behind them.
    """

    events: list[str] = field(default_factory=list)
    recovered: int = 0
    lost: int = 0
    end: int | None = None
    broken: int | None = None
    commas: int = 0


def whole_events(text: str) -> Mended:
    """Read events one after the other, up to the end of their list or the first broken one."""
    found = Mended()
    at = 0
    while True:
        gap = _GAP.match(text, at)
        at = gap.end() if gap else at
        if at >= len(text):
            return found
        if text[at] == "]" and _LIST_END.match(text, at):
            found.end = at
            found.commas = gap[0].count(",") if gap else 0
            return found
        event, end, clean = _one(text, at)
        if end is None:
            found.broken = at
            return found
        if isinstance(event, dict):
            found.events.append(_written(event))
            found.recovered += not clean
        at = end


def _one(text: str, at: int) -> tuple[Any, int | None, bool]:
    """Return the JSON value at `at`, where it ends, and whether it needed no leniency."""
    for decoder, clean in ((_STRICT, True), (_LENIENT, False)):
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        return value, end, clean
    return None, None, False


def mend(text: str, wanted: frozenset[str]) -> Mended:
    """Return what can be told of a text that should have been one event and is no JSON."""
    found = whole_events(text)
    if found.broken is None and (found.events or found.end is not None):
        return found
    tidy = _NOT_AVAILABLE.sub(r"\1null", _LOG_LINE.sub("", text))
    if tidy != text:
        tried = whole_events(tidy)
        if tried.broken is None and tried.events:
            tried.end = None
            tried.recovered = len(tried.events)
            return tried
    found = Mended(end=list_end(text, 0))
    for piece in _BORDER.split(text[: found.end]):
        _take_fields(piece, wanted, found)
    return found


def log_lines(text: str) -> int:
    """Return how many log lines stand in a text of JSON, which has none of its own."""
    return len(_LOG_LINE.findall(text))


def list_end(text: str, start: int) -> int | None:
    """Return where the list of events ends behind a broken event, None where it does not."""
    match = _CLOSED.search(text, start)
    return match.start(1) if match else None


def is_cut(text: str, depth: int) -> bool:
    """Return whether a text ends before all its brackets are closed; `depth` are open before it.

    Quotes that nobody escaped may hide brackets: a text that then ends in a bracket is none.
    """
    in_string = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        in_string = token == '"' or (token[0] == '"' and token[-1] != '"')
        if len(token) == 1 and token in "[]{}":
            depth += 1 if token in "[{" else -1
            if depth <= 0:
                return False
    return not (in_string and text.rstrip().endswith("}"))


def _take_fields(piece: str, wanted: frozenset[str], found: Mended) -> None:
    event, end, _ = _one(piece, len(piece) - len(piece.lstrip()))
    if end is not None and isinstance(event, dict):
        found.events.append(_written(event))
        if _CONTENT.search(piece, end):  # something that is no JSON stands before the next event
            _take_fields(piece[end:].lstrip(" \t\r\n,"), wanted, found)
        return
    category = _CAT.search(piece)
    if category is not None and category[1].lower() not in wanted:
        return
    phase, name = _PH.search(piece), _NAME.search(piece)
    times = {key: pattern.search(piece) for key, pattern in _TIME.items()}
    if category is None or phase is None or times["ts"] is None:
        # Without a category it is an event of another phase, or too broken to say.
        found.lost += phase is None or phase[1] == "X"
        return
    told: dict[str, Any] = {"ph": phase[1], "cat": category[1]}
    if name is not None:
        told["name"] = _unescaped(name[1])
    for key, match in times.items():
        if match is not None:
            told[key] = match[1]
    for key, pattern in _ID.items():
        match = pattern.search(piece)
        if match is not None:
            told[key] = match[1] if match[1] is not None else match[2]
    start = _ARGS_START.search(piece)
    told["args"] = dict(reversed(_ARG.findall(piece, start.end()))) if start else {}
    found.events.append(_written(told))
    found.recovered += 1


def _unescaped(name: str) -> str:
    try:
        value = json.loads(f'"{name}"', strict=False)
    except (ValueError, RecursionError):
        return name
    return value if isinstance(value, str) else name


def _written(event: dict[str, Any]) -> str:
    """Return an event as JSON of the fields that are read; lone surrogates become `?`."""
    args = event.get("args")
    told = {key: _plain(event[key]) for key in _FIELDS if key in event}
    if isinstance(args, dict):
        told["args"] = {key: _plain(args[key]) for key in _ARGS if key in args}
    text = json.dumps(told, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode("utf-8")


def _plain(value: Any) -> Any:
    """Return a scalar as it is; anything else is not read."""
    return value if isinstance(value, str | int | float) else None
