"""Request lines and access lines -> rows of `request_events`.

Only ids, limits, token counts and reasons are taken. Prompt and output texts and token ids are
never kept: quoted strings are removed before anything is looked for in a line that has them.
"""

from __future__ import annotations

import re
from typing import Any, Final

import polars as pl

from trueput.sources.vllm_log.block import Events
from trueput.sources.vllm_log.careful.frames import split_off
from trueput.sources.vllm_log.requests import CHILD, REMEMBERED, SUFFIX, Requests

MESSAGE: Final = pl.col("message")
STARTS: Final = {
    # the first 8 bytes of the message: the event, where the line is `<Word> request <ids>.`
    b"Received": None,
    b"Added re": "added",
    b"Finished": "finished",
    b"Aborted ": "aborted",
    b"Request ": None,
    b"Generate": None,
    b"Sequence": None,
}
RECEIVED_ID: Final = re.compile(r"Received request (\S+): (?=prompt: |params: |prompt_)")
DETAILS: Final = re.compile(r"Request (\S+) details: prompt: ")
QUOTED: Final = re.compile(r"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\"", re.DOTALL)
TOKEN_IDS: Final = re.compile(r"prompt_token_ids: \[([^\]]*)\]")
MAX_TOKENS: Final = re.compile(r"[ (]max_tokens=(\d{1,18})[,)]")
ENDED: Final = re.compile(r"Request (\S+) (aborted\.|failed \(([a-z ]+)\)|failed due to)")
GENERATED: Final = re.compile(r"Generated response (\S+?)(?: \([a-z ]+\))?: output: ")
REASON: Final = re.compile(r", finish_reason: ([A-Za-z_]{1,40})$")
PREEMPTED: Final = re.compile(
    r"Sequence group (\S+) is preempted by PreemptionMode\.(RECOMPUTE|SWAP) mode .*"
    r"total_num_cumulative_preemption=(\d{1,18})"
)
ACCESS: Final = (
    r'^- "(?P<detail>[A-Z]+) (?P<route>[^ ?#"]*)[^ ]* HTTP/[0-9.]+" (?P<http_status>[0-9]{3})'
)
SCHEMA: Final = {
    "line": pl.Int64,
    "at_ns": pl.Int64,
    "event": pl.String,
    "request_id": pl.String,
    "engine_request_id": pl.String,
    "process": pl.String,
    "route": pl.String,
    "http_status": pl.Int64,
    "max_tokens": pl.Int64,
    "prompt_tokens": pl.Int64,
    "cumulative": pl.Int64,
    "detail": pl.String,
}


def take(
    known: Requests, messages: pl.DataFrame, events: Events | None
) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    """Return the rows of `request_events` of one block and the remaining messages."""
    limits = [events.received()] if events is not None else []
    lives = [events.life()] if events is not None else []
    rows: list[pl.DataFrame] = [events.access()] if events is not None else []
    first = MESSAGE.cast(pl.Binary).bin.slice(0, 8)
    wanted = pl.col("first").is_in(list(STARTS))
    found, rest = split_off(messages.with_columns(first=first), wanted)
    life, found = split_off(found, pl.col("first").is_in(list(STARTS)[1:4]))
    received, found = split_off(found, MESSAGE.str.starts_with("Received request "))
    plain, quoted = split_off(received, _is_plain())
    delta = MESSAGE.str.contains(r"^Generated response [^ ]+ \(streaming delta\): ")
    others = _others(known, pl.concat([quoted, found.filter(~delta)]))
    limits += [_received(plain), others.filter(pl.col("event") == "received")]
    lives.append(_life_rows(known, life))
    rows.append(others.filter(pl.col("event") != "received"))
    rest = pl.concat([rest, found.filter(pl.col("first") == b"Received")]).sort("line")
    rest = rest.drop("first")
    limits = [frame for frame in limits if frame.height]
    lives = [frame for frame in lives if frame.height]
    asked = pl.concat(limits, how="diagonal") if limits else pl.DataFrame(schema=SCHEMA)
    if limits:
        rows.append(_with_prompt_tokens(known, asked))
    if lives:
        rows.append(_life(known, pl.concat(lives, how="diagonal"), asked))
    elif limits:
        known.learn(_pairs(asked, "request_id"), [])
    return rows, rest


def _life_rows(known: Requests, life: pl.DataFrame) -> pl.DataFrame:
    word = MESSAGE.str.splitn(" ", 4).struct
    events = {start: event for start, event in STARTS.items() if event}
    rows = life.select(
        "line",
        "at_ns",
        "process",
        event=pl.col("first").replace_strict(events, return_dtype=pl.String),
        noun=word.field("field_1"),
        engine_request_id=word.field("field_2").str.strip_suffix("."),
        is_whole=word.field("field_3").is_null() & MESSAGE.str.ends_with("."),
    )
    rows, _ = split_off(rows, pl.col("noun").is_in(["request", "request(s)"]))
    rows, broken = split_off(rows, pl.col("is_whole"))
    if not broken.is_empty():
        known.problems.add("VLOG006", broken["line"][0], count=broken.height)
    if rows["engine_request_id"].str.contains(",", literal=True).any():
        rows = rows.with_columns(pl.col("engine_request_id").str.split(","))
        rows = rows.explode("engine_request_id", empty_as_null=True, keep_nulls=True)
    return rows.drop("is_whole")


def _life(known: Requests, rows: pl.DataFrame, received: pl.DataFrame) -> pl.DataFrame:
    told_at: int | None = 0
    if known.suffixed is None:
        added = rows.filter(pl.col("event") == "added")
        told_at = known.learn(_pairs(received, "request_id"), _pairs(added, "engine_request_id"))
    return rows.select(
        "line",
        "at_ns",
        "event",
        request_id=_external(known, told_at),
        engine_request_id="engine_request_id",
        process="process",
    )


def _external(known: Requests, told_at: int | None) -> pl.Expr:
    printed = pl.col("engine_request_id")
    parent = (
        pl.when(printed.str.contains("^[0-9]"))
        .then(printed.str.replace(CHILD, "$1"))
        .otherwise(printed)
    )
    one_id_only = (pl.col("noun") == "request") & (pl.col("event") != "added")
    unsure = pl.when(one_id_only).then(parent)
    if told_at is None:
        return unsure
    sure = parent.str.replace(SUFFIX, "") if known.suffixed else parent
    return pl.when(pl.col("line") >= told_at).then(sure).otherwise(unsure)


def _others(known: Requests, found: pl.DataFrame) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    found = found.sort("line").select("line", "at_ns", "process", "message")
    for line, at_ns, process, message in found.iter_rows():
        row = _slow(known, line, message)
        if row is not None:
            rows.append({"line": line, "at_ns": at_ns, "process": process, **row})
    return pl.DataFrame(rows, schema=SCHEMA)


def _slow(known: Requests, line: int, message: str) -> dict[str, Any] | None:
    """Return the row of one of the rarer lines, None where it has none."""
    if message.startswith("Received request"):
        return _received_slowly(known, line, message)
    if match := DETAILS.match(message):
        if (count := _token_count(message[match.end() :])) is not None:
            known.prompt_tokens.setdefault(match[1], []).append((line, count))
            if len(known.prompt_tokens) > REMEMBERED:
                known.prompt_tokens.popitem(last=False)
        return None
    if match := ENDED.match(message):
        if match[2] == "aborted.":
            return {"event": "aborted", "request_id": match[1]}
        return {"event": "failed", "request_id": match[1], "detail": match[3]}
    if match := PREEMPTED.match(message):
        mode, number = match[2].lower(), int(match[3])
        ids = {"request_id": match[1], "engine_request_id": match[1]}
        return {"event": "preempted", **ids, "detail": mode, "cumulative": number}
    if match := GENERATED.match(message):
        return _generated(match[1], message)
    return None


def _received_slowly(known: Requests, line: int, message: str) -> dict[str, Any] | None:
    match = RECEIVED_ID.match(message)
    if match is None:
        known.problems.add("VLOG006", line)
        return None
    told = QUOTED.sub("''", message[match.end() :])
    limit = MAX_TOKENS.search(told)
    tokens = _token_count(message[match.end() :])
    return {
        "event": "received",
        "request_id": match[1],
        "max_tokens": int(limit[1]) if limit else None,
        "prompt_tokens": tokens,
    }


def _with_prompt_tokens(known: Requests, received: pl.DataFrame) -> pl.DataFrame:
    if not known.prompt_tokens:
        return received
    counts: list[int | None] = []
    for line, name in received.select("line", "request_id").iter_rows():
        found = [n for at, n in known.prompt_tokens.get(name, ()) if at < line]
        counts.append(found[-1] if found else None)
    counted = pl.Series("prompt_tokens", counts, dtype=pl.Int64)
    if "prompt_tokens" in received.columns:
        return received.with_columns(pl.col("prompt_tokens").fill_null(counted))
    return received.with_columns(counted)


def _pairs(rows: pl.DataFrame, name: str) -> list[tuple[int, str]]:
    return list(rows.select("line", name).iter_rows())


def _is_plain() -> pl.Expr:
    """Whether no quoted text stands before the limit, or anywhere in a line without a limit."""
    quote = MESSAGE.str.find(r"['\"]").fill_null(1 << 31)
    limit = MESSAGE.str.find("max_tokens=", literal=True).fill_null(1 << 30)
    return (quote > limit) & MESSAGE.str.contains(r"^Received request [^ ]+: params: [^ ]")


def _received(plain: pl.DataFrame) -> pl.DataFrame:
    at = MESSAGE.str.find("max_tokens=", literal=True)
    limit = MESSAGE.cast(pl.Binary).bin.slice(at + 11, 20).cast(pl.String, strict=False)
    return plain.select(
        "line",
        "at_ns",
        event=pl.lit("received"),
        request_id=MESSAGE.str.slice(17).str.splitn(": ", 2).struct.field("field_0"),
        process="process",
        max_tokens=limit.str.splitn(",", 2)
        .struct.field("field_0")
        .str.strip_suffix(")")
        .cast(pl.Int64, strict=False),
    )


def _token_count(text: str) -> int | None:
    match = TOKEN_IDS.search(QUOTED.sub("''", text))
    if match is None:
        return None
    return match[1].count(",") + 1 if match[1].strip() else 0


def _generated(name: str, message: str) -> dict[str, Any] | None:
    match = REASON.search(message)
    if match is None or match[1] == "None":
        return None
    event = {"abort": "aborted", "error": "failed"}.get(match[1], "finished")
    return {"event": event, "request_id": name, "detail": match[1]}


def responses(access: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `request_events` of access lines. A query string is not kept."""
    if access.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    kinds = access.select(MESSAGE.unique())
    kinds = kinds.with_columns(MESSAGE.str.extract_groups(ACCESS).alias("_")).unnest("_")
    kinds = kinds.with_columns(pl.col("http_status").cast(pl.Int64))
    rows = access.join(kinds, on="message", how="left", maintain_order="left")
    return rows.select(
        "line", "at_ns", "process", "route", "http_status", "detail", event=pl.lit("responded")
    )
