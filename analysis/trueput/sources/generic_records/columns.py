"""The table `[columns]` of run.toml, checked: which of its columns feeds which of ours, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trueput.clock import ClockKind
from trueput.scan import plain_name
from trueput.schema import Column, tables
from trueput.source_api import Problem, Severity
from trueput.units import NS_PER

_KEYS: Final = frozenset(
    {
        "file", "vantage", "format", "clock", "delimiter", "names", "units", "status", "traffic",
        "output_tokens_source",
    }
)  # fmt: skip
_RESERVED: Final = frozenset(
    {"run_id", "source_id", "vantage", "traffic", "output_tokens_source", "session"}
)
_CLOCKS: Final = {kind.value: kind for kind in ClockKind if kind is not ClockKind.NONE}
OUTCOMES: Final[dict[str, str | None]] = {
    "good": "ok",
    "late": "ok",
    "rejected": "refused",
    "failed": "failed",
    "aborted": "aborted",
    "unfinished": "running",
    "not_sent": "not_sent",
    "unknown": None,
}
"""Words for outcomes (DESIGN.md section 2) and the status that each becomes."""


@dataclass(frozen=True)
class Field:
    """One of our columns: where it comes from and, for times, the unit."""

    ours: Column
    theirs: str
    unit: str = ""

    @property
    def instant(self) -> bool:
        """Whether it is a point in time."""
        return self.ours.type == "time"


@dataclass
class Plan:
    """How to read one file."""

    vantage: str
    format: str
    delimiter: str
    clock: ClockKind
    tokens_source: str
    fields: list[Field] = field(default_factory=list)
    status: dict[str, str | None] = field(default_factory=dict)
    traffic_column: str | None = None
    traffic: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def has_instants(self) -> bool:
        """Whether some column is a point in time."""
        return any(item.instant for item in self.fields)

    def ignore(self, text: str) -> None:
        """Note a key or word that is not understood."""
        self.problems.append(Problem("RECORDS002", Severity.WARNING, text[:200]))


def plan_of(table: Mapping[str, Any]) -> Plan:
    """Return the plan that one table `[columns]` describes; what is wrong in it are problems."""
    name = plain_name(str(table.get("file", "")))
    vantages = tables()["requests"].column("vantage").enum
    sources = tables()["requests"].column("output_tokens_source").enum
    plan = Plan(
        vantage="server",
        format="csv" if name.endswith((".csv", ".tsv")) else "jsonl",
        delimiter="\t" if name.endswith(".tsv") else ",",
        clock=ClockKind.UTC,
        tokens_source="",
    )
    for key in sorted(set(table) - _KEYS):
        plan.ignore(f"unknown key `columns.{key}`")
    plan.vantage = _word(plan, table, "vantage", vantages, "server")
    plan.format = _word(plan, table, "format", ("csv", "jsonl"), plan.format)
    plan.clock = _CLOCKS[_word(plan, table, "clock", _CLOCKS, "utc")]
    usual = "client_usage" if plan.vantage == "client" else "engine_usage"
    plan.tokens_source = _word(plan, table, "output_tokens_source", sources, usual)
    delimiter = table.get("delimiter", plan.delimiter)
    if isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '"\r\n':
        plan.delimiter = delimiter
    else:
        plan.ignore("`columns.delimiter` is not one character")
    _fields(plan, _table(plan, table, "names"), _table(plan, table, "units"))
    _status(plan, _table(plan, table, "status"))
    _traffic(plan, _table(plan, table, "traffic"))
    return plan


def _word(
    plan: Plan, table: Mapping[str, Any], key: str, known: Mapping[str, Any] | tuple[str, ...],
    default: str,
) -> str:  # fmt: skip
    value = table.get(key, default)
    if isinstance(value, str) and value in known:
        return value
    plan.ignore(f"`columns.{key}` is none of {', '.join(known)}; taken as `{default}`")
    return default


def _table(plan: Plan, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if isinstance(value, Mapping):
        return value
    plan.ignore(f"`columns.{key}` is not a table")
    return {}


def _ours(name: str) -> Column | None:
    columns = {column.name: column for column in tables()["requests"].columns}
    for candidate in (name, f"{name}_ns"):
        if candidate in columns and candidate not in _RESERVED:
            return columns[candidate]
    return None


def _fields(plan: Plan, names: Mapping[str, Any], units: Mapping[str, Any]) -> None:
    for name, theirs in names.items():
        ours = _ours(name)
        if ours is None or not isinstance(theirs, str):
            plan.ignore(f"`columns.names.{name}` is no column of `requests`, or its value no text")
            continue
        if ours.shown_unit != "ns":
            plan.fields.append(Field(ours, theirs))
            continue
        unit = units.get(theirs, "ns" if name.endswith("_ns") else None)
        if unit in NS_PER or (unit == "iso" and ours.type == "time"):
            plan.fields.append(Field(ours, theirs, str(unit)))
            continue
        wanted = ", ".join(NS_PER) + (" or iso" if ours.type == "time" else "")
        said = "no unit" if unit is None else f"unit `{unit}`"[:40]
        text = f"`{theirs}` has {said} in `[columns.units]`; expected {wanted}"
        plan.problems.append(Problem("RECORDS004", Severity.ERROR, text))
    used = {item.theirs for item in plan.fields}
    for theirs in sorted(set(units) - used - {v for v in names.values() if isinstance(v, str)}):
        plan.ignore(f"`columns.units.{theirs}` is a column that `[columns.names]` does not use")


def _status(plan: Plan, words: Mapping[str, Any]) -> None:
    known = tables()["requests"].column("status").enum
    plan.status = {**OUTCOMES, **{word: word for word in known}}
    for word, meaning in words.items():
        if isinstance(meaning, str) and meaning in known:
            plan.status[word] = meaning
        elif isinstance(meaning, str) and meaning in OUTCOMES:
            plan.status[word] = OUTCOMES[meaning]
        else:
            plan.ignore(f"`columns.status.{word}` is neither an outcome nor a status")


def _traffic(plan: Plan, table: Mapping[str, Any]) -> None:
    if not table:
        return
    column = table.get("column")
    if not isinstance(column, str):
        plan.ignore("`columns.traffic.column` is missing or no text")
        return
    plan.traffic_column = column
    for kind, words in table.items():
        if kind == "column":
            continue
        if kind not in {"probe", "warmup", "other", "load"} or not isinstance(words, list):
            plan.ignore(f"`columns.traffic.{kind}` is no list for probe, warmup, other or load")
            continue
        plan.traffic.update({str(word): kind for word in words})
