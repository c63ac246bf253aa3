"""Which columns of `nvidia-smi --query-*` become which metrics, and which tell the device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trueput.lines import Line
from trueput.scan import plain_name
from trueput.telemetry import SCALES, THROTTLE_REASONS

_METRICS: Final = {
    "utilization.gpu": ("gpu_util", "%"),
    "utilization.memory": ("mem_util", "%"),
    "utilization.encoder": ("enc_util", "%"),
    "utilization.decoder": ("dec_util", "%"),
    "utilization.jpeg": ("jpg_util", "%"),
    "utilization.ofa": ("ofa_util", "%"),
    "power.draw": ("power", "W"),
    "power.draw.average": ("power_average", "W"),
    "power.draw.instant": ("power_instant", "W"),
    "enforced.power.limit": ("power_limit", "W"),
    "total_energy_consumption": ("energy", "mJ"),
    "memory.used": ("memory_used", "MiB"),
    "memory.free": ("memory_free", "MiB"),
    "memory.reserved": ("memory_reserved", "MiB"),
    "memory.total": ("memory_total", "MiB"),
    "clocks.current.sm": ("sm_clock", "MHz"),
    "clocks.sm": ("sm_clock", "MHz"),
    "clocks.current.memory": ("mem_clock", "MHz"),
    "clocks.mem": ("mem_clock", "MHz"),
    "clocks.current.graphics": ("graphics_clock", "MHz"),
    "clocks.gr": ("graphics_clock", "MHz"),
    "clocks.current.video": ("video_clock", "MHz"),
    "clocks.video": ("video_clock", "MHz"),
    "temperature.gpu": ("temperature", "C"),
    "temperature.memory": ("memory_temperature", "C"),
    "pstate": ("pstate", ""),
    "mig.mode.current": ("mig_mode", ""),
}
_REASON: Final = re.compile(r"clocks_(?:event|throttle)_reasons(_counters)?\.(\w+)")
_IDENTITY: Final = {
    "timestamp": "timestamp",
    "index": "index",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "name": "name",
    "gpu_name": "name",
    "pid": "pid",
    "used_gpu_memory": "used",
    "used_memory": "used",
}
_PLAIN_WORDS: Final = frozenset({"timestamp", "index", "uuid", "name", "pid"})
"""Words that other tables use too."""
_HEADING: Final = re.compile(r"([a-zA-Z_][\w.]*)\s*(?:\[([^\]]*)\])?")


@dataclass(frozen=True)
class Column:
    """What a column means: a metric with the unit of its numbers, or a part of the identity."""

    metric: str | None = None
    unit: str = ""
    role: str | None = None


_WHOLE: Final = {
    "uuid": re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE),
    "timestamp": re.compile(r":\d\d\.\d{3}\Z"),
}
"""How a value of a role ends that is whole, as nvidia-smi prints it."""


def is_whole(column: Column | None, last: Line) -> bool:
    """Say whether the last value of a file's last line can be taken for whole.

    One of a column that is not read, or that tells nothing apart, always can.
    """
    if column is None or column.role in ("name", "pid"):
        return True
    pattern = _WHOLE.get(column.role or "")
    return not last.lacks_digits if pattern is None else bool(pattern.search(last.text))


def column_of(heading: str) -> Column | None:
    """Return what a column named `heading` means; None for one that is not read."""
    found = _HEADING.fullmatch(heading.strip())
    if found is None:
        return None
    name = found[1].lower()
    unit = found[2] if found[2] in SCALES else None
    if name in _METRICS:
        metric, usual = _METRICS[name]
        return Column(metric, unit or usual)
    if name in _IDENTITY:
        return Column(role=_IDENTITY[name], unit=unit or ("MiB" if "used" in name else ""))
    reason = _REASON.fullmatch(name)
    if reason is None:
        return None
    if reason[2] in THROTTLE_REASONS:
        if reason[1]:
            return Column(f"throttle_{reason[2]}_time", unit or "us")
        return Column(f"throttle_{reason[2]}")
    return Column("throttle_reasons") if reason[2] == "active" and not reason[1] else None


def is_header(fields: list[str]) -> bool:
    """Whether a line names columns: at least one of nvidia-smi's own words stands in it."""
    for field in fields:
        found = _HEADING.fullmatch(field.strip())
        name = found[1].lower() if found else ""
        if name not in _PLAIN_WORDS and column_of(field) is not None:
            return True
    return False


def split(line: str) -> list[str]:
    """Return the fields of a line; `, ` separates, so that a decimal comma does not."""
    separator = ", " if ", " in line else ","
    return [field.strip() for field in line.split(separator)]


def named_columns(run_toml: Mapping[str, Any], relative_path: str) -> list[str] | None:
    """Return the columns that `[columns]` of run.toml gives for this file in `telemetry`."""
    tables = run_toml.get("columns", [])
    for table in tables if isinstance(tables, list) else [tables]:
        if not isinstance(table, Mapping):
            continue
        file, names = table.get("file"), table.get("telemetry")
        if not isinstance(file, str) or not isinstance(names, list):
            continue
        if plain_name(file.removeprefix("./")) == plain_name(relative_path):
            return [str(name) for name in names]
    return None
