"""What a trace says beside its events: time base, devices, rank, versions, records left out.

Only the named keys are looked at, wherever they stand (before or after the events), so that
environment, host, user and command lines are never read, and a broken value costs only itself.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_DECODER = json.JSONDecoder(strict=False)
_KEYS = re.compile(
    r'"(schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|vllm_version'
    r'|cuda_runtime_version|hip_runtime_version)"\s*:\s*'
)
_OUTSIDE = re.compile(r"Out-of-range = ([1-9]\d{0,15})\b")
_STOPPED = re.compile(r"CUPTI stopped early\? = 1")
_NOT_AVAILABLE = re.compile(r"(:\s*)N/A(?=\s*[,}\]])")
_MAX_INT = 1 << 62


@dataclass
class Device:
    """A device of `deviceProperties`."""

    device: int
    name: str | None
    memory_bytes: int | None


@dataclass
class Metadata:
    """What was found so far; None where nothing was said."""

    schema_version: str | None = None
    base_ns: int | None = None
    rank: int | None = None
    world_size: int | None = None
    engine_version: str | None = None
    devices: list[Device] = field(default_factory=list)
    outside_records: int = 0
    """Records that the profiler left out because they lie outside its window."""
    stopped_early: bool = False
    unreadable: list[str] = field(default_factory=list)

    def take(self, raw: bytes) -> None:
        """Add what the text before or after the events says."""
        text = raw.decode("utf-8", "replace")
        for match in _KEYS.finditer(text):
            value, good = _value(text, match.end())
            if good:
                self._set(match[1], value)
            elif match[1] not in self.unreadable:
                self.unreadable.append(match[1])
        self.outside_records += sum(int(n) for n in _OUTSIDE.findall(text))
        self.stopped_early = self.stopped_early or _STOPPED.search(text) is not None

    def _set(self, key: str, value: Any) -> None:
        if key == "schemaVersion" and isinstance(value, int | str):
            self.schema_version = str(value)[:40]
        elif key == "baseTimeNanoseconds" and self.base_ns is None:
            base = _whole(value)
            self.base_ns = base if base else None
        elif key == "vllm_version" and isinstance(value, str):
            self.engine_version = value[:80]
        elif key == "distributedInfo" and isinstance(value, dict):
            self.rank = self.rank if self.rank is not None else _whole(value.get("rank"))
            self.world_size = self.world_size or _whole(value.get("world_size"))
        elif key == "deviceProperties" and isinstance(value, list) and not self.devices:
            self.devices = [d for d in map(_device, value[:1024]) if d is not None]


def _value(text: str, at: int) -> tuple[Any, bool]:
    try:
        return _DECODER.raw_decode(text, at)[0], True
    except (ValueError, RecursionError):
        pass
    try:
        return _DECODER.raw_decode(_NOT_AVAILABLE.sub(r"\1null", text[at : at + (1 << 20)]))[
            0
        ], True
    except (ValueError, RecursionError):
        return None, False


def _whole(value: Any) -> int | None:
    """Return a whole number that may be told as text, None for what is none."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_INT
    return value if good else None


def _device(told: Any) -> Device | None:
    if not isinstance(told, dict):
        return None
    number = _whole(told.get("id"))
    name = told.get("name")
    if number is None:
        return None
    name = name.strip()[:200] if isinstance(name, str) else None
    return Device(number, name or None, _whole(told.get("totalGlobalMem")))
