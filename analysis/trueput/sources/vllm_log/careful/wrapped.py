"""What collectors and JSON formatters put around a line: outer time stamps, docker and CRI, JSON.

Three shapes are known: `2026-11-29T13:02:11.123456789Z stdout F text` (CRI, docker logs -t),
`{"log": "text\\n", "time": "..."}` (docker's json-file and collectors), and a JSON formatter's own
object with the message in it (0.32+, or a user's logging configuration).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import polars as pl

from trueput.sources.vllm_log.problems import Problems
from trueput.units import to_ns

STAMP: Final = (
    r"^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2}) "
)
STREAM: Final = r"^(stdout|stderr) ([FP])(?: |$)"
JSON_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s*(Z|[+-]\d\d:?\d\d)?"
)
ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MESSAGE_KEYS: Final = ("message", "msg")
TIME_KEYS: Final = ("asctime", "timestamp", "time", "ts", "@timestamp")
STRUCTURED_SCHEMA: Final = {
    "line": pl.Int64,
    "utc_ns": pl.Int64,
    "local_ns": pl.Int64,
    "process": pl.String,
    "message": pl.String,
}
TEXT: Final = pl.col("text")


@dataclass(frozen=True)
class Unwrapped:
    """`frame`: line, text, utc_ns (the outer stamp). `structured`: messages of a JSON formatter."""

    frame: pl.DataFrame
    structured: pl.DataFrame

    def first_lines(self) -> tuple[list[int], list[int]]:
        """Return the first line with a UTC time and the first with a local one, if any."""
        utc, local = [], []
        for rows in (self.frame, self.structured):
            utc += rows.filter(pl.col("utc_ns").is_not_null())["line"].head(1).to_list()
        known = self.structured.filter(pl.col("local_ns").is_not_null())
        local += known["line"].head(1).to_list()
        return utc, local


def unwrap(frame: pl.DataFrame, unfinished: set[str], problems: Problems) -> Unwrapped:
    """Take the wrapping off. `unfinished` holds the streams whose last line goes on in the next
    line of that stream: such pieces are blanked, for a piece of a prompt is no line."""
    none = pl.lit(None, dtype=pl.Int64)
    structured = pl.DataFrame(schema=STRUCTURED_SCHEMA)
    frame = frame.with_columns(utc_ns=none)
    wrapped = frame.select(TEXT.str.contains(STAMP[:-1] + r"|^\{")).to_series()
    if not wrapped.any():
        return Unwrapped(frame, structured)
    stamped = frame.select(TEXT.str.contains(STAMP)).to_series()
    if stamped.any():
        outer = _cri(frame.filter(stamped), unfinished)
        frame = pl.concat([frame.filter(~stamped), outer]).sort("line")
    is_json = frame.select(TEXT.str.starts_with("{")).to_series()
    if is_json.any():
        objects = frame.filter(is_json)
        texts, structured = _json_lines(objects, unfinished, problems)
        frame = pl.concat([frame.filter(~is_json), texts]).sort("line")
    return Unwrapped(frame, structured)


def _cri(rows: pl.DataFrame, unfinished: set[str]) -> pl.DataFrame:
    parts = TEXT.str.splitn(" ", 2).struct
    rows = rows.select("line", stamp=parts.field("field_0"), text=parts.field("field_1"))
    stamp = pl.col("stamp")
    seconds = stamp.str.head(19).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False, time_unit="us")
    fraction = stamp.str.extract(r"\.([0-9]+)", 1).fill_null("").str.pad_end(9, "0")
    zone = stamp.str.extract_groups(r"(?<sign>[+-])(?<h>[0-9]{2}):(?<m>[0-9]{2})$").struct
    minutes = zone.field("h").cast(pl.Int64) * 60 + zone.field("m").cast(pl.Int64)
    sign = pl.when(zone.field("sign") == "-").then(-1).otherwise(1)
    utc_ns = (
        seconds.dt.epoch("us") * 1000
        + fraction.cast(pl.Int64)
        - (minutes * sign).fill_null(0) * 60_000_000_000
    )
    stream = TEXT.str.extract_groups(STREAM).struct
    rows = rows.select(
        "line",
        text=TEXT.str.replace(STREAM, ""),
        utc_ns=utc_ns,
        stream=stream.field("1").fill_null(""),
        partial=stream.field("2") == "P",
    )
    return _without_pieces(rows, unfinished)


def _without_pieces(rows: pl.DataFrame, unfinished: set[str]) -> pl.DataFrame:
    kept = rows.select("line", "text", "utc_ns")
    if not unfinished and not rows["partial"].any():
        return kept
    later = []
    for line, stream, partial in rows.select("line", "stream", "partial").iter_rows():
        if stream in unfinished:
            later.append(line)
        if partial:
            unfinished.add(stream)
        else:
            unfinished.discard(stream)
    piece = pl.col("line").is_in(later)
    return kept.with_columns(pl.when(piece).then(pl.lit("")).otherwise(TEXT).alias("text"))


def _json_lines(
    rows: pl.DataFrame, unfinished: set[str], problems: Problems
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the docker lines as plain rows and the formatter's messages."""
    inner: list[tuple[int, str, int | None, str, bool]] = []
    structured: list[tuple[int, int | None, int | None, str | None, str]] = []
    for line, text, outer in rows.select("line", "text", "utc_ns").iter_rows():
        found = _object(text)
        if found is None:
            problems.add("VLOG007", line)
            continue
        utc, local = _time(found)
        utc = utc if outer is None else outer
        if isinstance(log := found.get("log"), str):
            stream = f"docker {_clean(str(found.get('stream')))[:40]}"
            whole = log.endswith("\n") or "time" not in found
            inner.append((line, _clean(log.partition("\n")[0]), utc, stream, not whole))
            continue
        message = next((found[k] for k in MESSAGE_KEYS if isinstance(found.get(k), str)), None)
        if message is not None:
            structured.append((line, utc, local, _process(found), _clean(message)))
    schema = {"line": pl.Int64, "text": pl.String, "utc_ns": pl.Int64}
    more = {"stream": pl.String, "partial": pl.Boolean}
    texts = pl.DataFrame(inner, schema={**schema, **more}, orient="row")
    frame = pl.DataFrame(structured, schema=STRUCTURED_SCHEMA, orient="row")
    return _without_pieces(texts, unfinished), frame


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _clean(text: str) -> str:
    """Return `text` without colour codes and without what is no Unicode text."""
    return ANSI.sub("", text).encode(errors="replace").decode()


def _process(found: dict[str, Any]) -> str | None:
    name, number = found.get("processName"), found.get("process")
    if not isinstance(name, str):
        return None
    name = _clean(name)
    return f"{name} pid={number}" if isinstance(number, int) else name


def _time(found: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the object's time as (UTC, local); at most one is known."""
    for key in TIME_KEYS:
        value = found.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return to_ns(value, "s"), None
        if isinstance(value, str) and (match := JSON_TIME.match(value)):
            return _instant(match)
    return None, None


def _instant(match: re.Match[str]) -> tuple[int | None, int | None]:
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC)
    except ValueError:
        return None, None
    if not 1971 <= moment.year <= 2200:
        return None, None
    ns = int(moment.timestamp()) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    if zone is None:
        return None, ns
    if zone == "Z":
        return ns, None
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return ns - (minutes if zone[0] == "+" else -minutes) * 60_000_000_000, None
