"""Cells of a described file as values of the table `requests`; what does not fit is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from trueput.clock import ClockKind
from trueput.source_api import Problem, Severity
from trueput.sources.generic_records.columns import Field, Plan
from trueput.units import MAX_TOKENS, to_ns

_ENDED_WELL: Final = ("ok", "finished")
_HTTP_ERROR: Final = 400
_YEAR_2000_NS: Final = 946_684_800 * 10**9
_YEAR_2100_NS: Final = 4_102_444_800 * 10**9
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?")
_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,18}))?\s?(Z|z|[+-]\d\d:?\d\d)"
)
_BOOLS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_MAX_TEXT: Final = 200
_IN_ORDER: Final = (
    "sent_at_ns", "arrived_at_ns", "first_token_at_ns", "last_token_at_ns", "ended_at_ns",
)  # fmt: skip
"""Instants of one record, in the order in which they happen."""

_NAME = re.compile(r"[\w.-]{1,40}")
_MAX_WORDS = 16
"""Words of a status that are named one by one; a column of free text has many."""


@dataclass
class _Tally:
    severity: Severity
    text: str
    line: int
    count: int = 0


class Reader:
    """Makes rows of records and keeps one tally per kind of problem and column."""

    def __init__(self, plan: Plan, file: str = "") -> None:
        self.plan = plan
        self._file = file
        names = {item.ours.name for item in plan.fields}
        self._ids = [name for name in ("request_id", "correlation_id") if name in names]
        self._ordered = sorted(
            (item for item in plan.fields if item.ours.name in _IN_ORDER),
            key=lambda item: _IN_ORDER.index(item.ours.name),
        )
        self._nameless: list[int] = []
        self._seen: set[str] = set()
        self._words: set[str] = set()
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._count = 0

    def row(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return one row of `requests`; `row_ix` is its place unless a column says otherwise."""
        plan = self.plan
        row: dict[str, Any] = {
            "row_ix": self._count,
            "vantage": plan.vantage,
            "traffic": self._traffic(record),
        }
        self._count += 1
        place = row["row_ix"]
        for item in plan.fields:
            cell = record.get(item.theirs)
            if item.theirs in record:
                self._seen.add(item.theirs)
            if cell is None or cell == "":
                if item.ours.name not in row:
                    row[item.ours.name] = None
                continue
            row[item.ours.name] = self._value(item, cell)
        if row.get("status") in _ENDED_WELL and (row.get("http_status") or 0) >= _HTTP_ERROR:
            (item,) = (item for item in plan.fields if item.ours.name == "http_status")
            text = f"`{item.theirs}` holds HTTP {row['http_status']} where the status is a good one"
            self._note("RECORDS010", item, text)
            row["status"] = "http_error"
        self._in_order(row)
        self._name(row, place)
        if row.get("output_tokens") is not None:
            row["output_tokens_source"] = plan.tokens_source
        return row

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of all rows so far, one per kind and column."""
        wanted = {item.theirs for item in self.plan.fields}
        if self.plan.traffic_column:
            wanted.add(self.plan.traffic_column)
        for name in sorted(wanted - self._seen):
            text = f"no record has the column `{name}`"
            yield Problem("RECORDS003", Severity.WARNING, text[:200])
        if self._nameless and len(self._nameless) < self._count:
            text = (
                f"{len(self._nameless)} of {self._count} records have no id; each counts as a "
                "request that is joined with no other"
            )
            count = len(self._nameless)
            yield Problem("RECORDS011", Severity.WARNING, text, self._nameless[0] + 1, count)
        for (code, _), tally in self._tallies.items():
            yield Problem(code, tally.severity, tally.text[:200], tally.line, tally.count)

    def _in_order(self, row: Mapping[str, Any]) -> None:
        """Count instants that cannot be: before the send, or before what they follow.

        They stay as they are: which of two is wrong, the record does not say. An instant without
        a fraction of a second was perhaps cut to its second.
        """
        last: tuple[Field, int] | None = None
        for item in self._ordered:
            at = row.get(item.ours.name)
            if at is None:
                continue
            if at < 0:
                self._note("RECORDS012", item, f"`{item.theirs}` is before the begin of its clock")
            elif last is not None and at + _resolution_ns(at) <= last[1]:
                before = last[0].theirs
                text = f"`{item.theirs}` lies {(last[1] - at) / 1e9:.6g} s before `{before}`"
                self._note("RECORDS012", item, text, before)
            if last is None or at > last[1]:
                last = item, at

    def _name(self, row: dict[str, Any], place: int) -> None:
        """Give an engine's record that has no id of its own the client's, else its place."""
        if (
            row["traffic"] == "load"
            and self._ids
            and all(row.get(name) is None for name in self._ids)
        ):
            self._nameless.append(place)
        if self.plan.vantage == "engine" and row.get("request_id") is None:
            row["request_id"] = row.get("correlation_id") or f"{self._file}#{place}"

    def _note(self, code: str, item: Field, text: str, about: str = "") -> None:
        tally = self._tallies.setdefault(
            (code, f"{item.theirs}>{item.ours.name}>{about}"),
            _Tally(Severity.WARNING, text, self._count),
        )
        tally.count += 1

    def _traffic(self, record: Mapping[str, Any]) -> str:
        column = self.plan.traffic_column
        if column is None:
            return "load"
        if column in record:
            self._seen.add(column)
        return self.plan.traffic.get(_word(record.get(column)), "load")

    def _value(self, item: Field, cell: Any) -> Any:
        kind = item.ours.type
        if item.ours.name == "status":
            return self._status(item, cell)
        if kind in {"string", "id"}:
            value: Any = _word(cell)[:_MAX_TEXT] if isinstance(cell, str | int | Decimal) else None
        elif kind == "time":
            return self._instant(item, cell)
        elif kind == "span":
            value = _ns(cell, item.unit)
            value = None if value is not None and value < 0 else value
        elif kind == "spans":
            value = [_ns(part, item.unit) for part in cell] if isinstance(cell, list) else None
            value = None if value is not None and None in value else value
        elif kind == "bool":
            value = _BOOLS.get(_word(cell).lower())
        else:
            value = _whole(cell)
            value = None if kind == "tokens" and (value or 0) > MAX_TOKENS else value
        if value is None:
            self._note("RECORDS006", item, f"`{item.theirs}` holds no {kind} for {item.ours.name}")
        return value

    def _status(self, item: Field, cell: Any) -> str | None:
        word = _word(cell)
        if word not in self.plan.status:
            shown = f"a word `{word}`" if _NAME.fullmatch(word) else "a word that is no short name"
            if shown not in self._words and len(self._words) >= _MAX_WORDS:
                shown = "further words"
            self._words.add(shown)
            self._note("RECORDS007", item, f"`{item.theirs}` holds {shown}", shown)
            return None
        return self.plan.status[word]

    def _instant(self, item: Field, cell: Any) -> int | None:
        ns = _iso_ns(cell) if item.unit == "iso" else _ns(cell, item.unit)
        if ns is None:
            text = f"`{item.theirs}` holds no instant in {item.unit} for {item.ours.name}"
            self._note("RECORDS006", item, text)
            return None
        wall = self.plan.clock in {ClockKind.UTC, ClockKind.LOCAL}
        if wall and not _YEAR_2000_NS <= ns < _YEAR_2100_NS:
            text = f"`{item.theirs}` in {item.unit} lies outside of the years 2000 to 2100"
        elif not wall and ns >= _YEAR_2000_NS:
            text = f"`{item.theirs}` in {item.unit} is too large for clock {self.plan.clock.value}"
        else:
            return ns
        self._note("RECORDS005", item, text + "; another unit or clock?")
        return None


def _resolution_ns(at_ns: int) -> int:
    """Return what an instant may have been cut by: a second where it is whole ones, else 1 ms."""
    return 10**9 if at_ns % 10**9 == 0 else 10**6


def _word(cell: Any) -> str:
    """Return a cell as the word that run.toml can name."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int) and cell.bit_length() > 128:
        return ""
    text = str(cell) if isinstance(cell, str | int | Decimal) else ""
    return text.encode("utf-8", "replace").decode()


def _ns(cell: Any, unit: str) -> int | None:
    if isinstance(cell, bool) or not isinstance(cell, str | int | Decimal):
        return None
    text = cell if isinstance(cell, Decimal) else _word(cell).strip()
    if isinstance(text, str) and not _NUMBER.fullmatch(text):
        return None
    return to_ns(text, unit)


def _whole(cell: Any) -> int | None:
    """Return a count: a whole number of at least 0, also written as `32.0`."""
    value = _ns(cell, "ns")
    if value is None or value < 0 or value > 2**62:
        return None
    try:
        return value if Decimal(str(cell).strip()) == value else None
    except ArithmeticError:
        return None


def _iso_ns(cell: Any) -> int | None:
    match = _ISO.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None:
        return None
    zone = match.group(3).upper().replace("Z", "+00:00")
    try:
        moment = datetime.fromisoformat(match.group(1).replace(" ", "T") + zone)
    except ValueError:
        return None
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    whole = (moment - epoch) // timedelta(seconds=1)
    return whole * 10**9 + int((match.group(2) or "0")[:9].ljust(9, "0"))
