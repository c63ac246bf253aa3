"""Load sessions: which files speak of the same load, and what was asked for in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from trueput.load_command import fixed_length
from trueput.scan import plain_name

Row = dict[str, Any]
_FOLD_DURATION_SHARE = 0.02


@dataclass(frozen=True)
class Load:
    """A client command that run.toml records, as flags (names with dashes)."""

    name: str
    flags: Mapping[str, Any]
    slo: str | None


@dataclass
class Sessions:
    """Merged rows of `load_sessions`, and the session name of each client file."""

    rows: list[Row] = field(default_factory=list)
    of_source: dict[str, str | None] = field(default_factory=dict)


def _stem(source_id: str) -> str:
    name = plain_name(PurePosixPath(source_id).name)
    for suffix in (".json", ".jsonl", ".txt", ".csv", ".log"):
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def merge_sessions(
    rows: Sequence[Row],
    client_sources: Sequence[str],
    loads: Sequence[Load],
    facts: Mapping[str, Mapping[str, Any]],
) -> Sessions:
    """Return one row per load session.

    `rows` are the load_sessions rows as the files gave them, `client_sources` the files that gave
    client request rows, `facts` the `client.*` and `slo.text` facts by file. A console output is
    folded into the result whose counts and duration it repeats.
    """
    keepers = [dict(r) for r in rows if r["detailed"]]
    for source in client_sources:
        if not any(k["source_id"] == source for k in keepers):
            keepers.append(_bare_row(source, rows))
    folded: dict[str, str] = {}
    summaries = [dict(r) for r in rows if not r["detailed"]]
    # a result file knows more than a console: let it be the one that others are folded into
    summaries.sort(key=lambda r: (r.get("ended_local_at_ns") is None, r["source_id"]))
    for summary in summaries:
        partner = next((k for k in keepers if _same_load(k, summary)), None)
        if partner is None and len(keepers) == 1 and len(summaries) == 1:
            partner = keepers[0] if _compatible(keepers[0], summary) else None
        if partner is None:
            keepers.append(summary)
        else:
            _fill(partner, summary)
            folded[summary["source_id"]] = partner["source_id"]
    for source in facts:
        known = source in folded or any(k["source_id"] == source for k in keepers)
        if not known and len(keepers) == 1:
            folded[source] = keepers[0]["source_id"]
    for row in keepers:
        _apply_facts(row, facts.get(row["source_id"], {}))
        for console_source, partner_source in folded.items():
            if partner_source == row["source_id"]:
                _apply_facts(row, facts.get(console_source, {}))
    _apply_loads(keepers, loads)
    return _name(keepers, folded)


def _bare_row(source: str, rows: Sequence[Row]) -> Row:
    names = rows[0].keys() if rows else ()
    bare: Row = dict.fromkeys(names)
    bare.update(source_id=source, detailed=True, claims_json="{}", session=None)
    return bare


def _same_load(row: Row, console: Row) -> bool:
    if row.get("claimed_complete_requests") != console.get("claimed_complete_requests"):
        return False
    mine, other = row.get("duration_ns"), console.get("duration_ns")
    if mine is None or other is None:
        return False
    return bool(abs(mine - other) <= max(20_000_000, _FOLD_DURATION_SHARE * mine))


def _compatible(row: Row, console: Row) -> bool:
    mine, other = row.get("claimed_complete_requests"), console.get("claimed_complete_requests")
    return mine is None or other is None or mine == other


def _fill(row: Row, other: Row) -> None:
    for key, value in other.items():
        if row.get(key) is None and key not in {"session", "source_id"}:
            row[key] = value


_FACT_COLUMNS = {
    "client.num_prompts": "planned_requests",
    "client.request_rate": "request_rate_per_s",
    "client.burstiness": "burstiness",
    "client.max_concurrency": "max_concurrency",
    "client.ignore_eos": "ignore_eos",
    "client.request_id_prefix": "request_id_prefix",
    "client.backend": "backend",
    "client.model": "model",
    "slo.text": "slo",
}
_FLAG_COLUMNS = {
    "num-prompts": "planned_requests",
    "request-rate": "request_rate_per_s",
    "burstiness": "burstiness",
    "max-concurrency": "max_concurrency",
    "ignore-eos": "ignore_eos",
    "request-id-prefix": "request_id_prefix",
    "backend": "backend",
}


def _put(row: Row, column: str, value: Any) -> None:
    if row.get(column) is not None or value is None:
        return
    if column in {"request_rate_per_s", "burstiness"}:
        try:
            value = float(value)
        except (TypeError, ValueError):
            return
    if column in {"planned_requests", "max_concurrency"} and not isinstance(value, int):
        return
    if column == "ignore_eos" and not isinstance(value, bool):
        return
    if column in {"request_id_prefix", "backend", "model", "slo"}:
        value = str(value)
    row[column] = value


def _apply_facts(row: Row, facts: Mapping[str, Any]) -> None:
    for key, column in _FACT_COLUMNS.items():
        if key in facts:
            _put(row, column, facts[key])


def _apply_loads(rows: list[Row], loads: Sequence[Load]) -> None:
    for load in loads:
        target = _target(rows, load, only=len(loads) == 1)
        if target is None:
            continue
        for flag, column in _FLAG_COLUMNS.items():
            if flag in load.flags:
                _put(target, column, load.flags[flag])
        _put(target, "asked_output_tokens", fixed_length(load.flags))
        _put(target, "slo", load.slo)


def _target(rows: list[Row], load: Load, only: bool) -> Row | None:
    wanted = str(load.flags.get("result-filename") or "")
    for row in rows:
        if wanted and plain_name(PurePosixPath(row["source_id"]).name) == wanted:
            return row
    planned = load.flags.get("num-prompts")
    if only and len(rows) == 1 and rows[0].get("planned_requests") in (None, planned):
        return rows[0]
    return None


def _name(rows: list[Row], folded: Mapping[str, str]) -> Sessions:
    result = Sessions(rows=rows)
    several = len(rows) > 1
    for row in rows:
        inner = row.get("session")
        stem = _stem(row["source_id"])
        row["session"] = (f"{stem}#{inner}" if inner is not None else stem) if several else None
        single = sum(r["source_id"] == row["source_id"] for r in rows) == 1
        result.of_source[row["source_id"]] = row["session"] if single else None
    for console, partner in folded.items():
        result.of_source[console] = result.of_source.get(partner)
    return result
