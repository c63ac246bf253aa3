"""GPU telemetry in one vocabulary: metric names with unit and kind, missing values, sample rows.

| metric | unit | kind | what it is |
|---|---|---|---|
| gpu_util | ratio | ratio | share of the sample period in which a kernel ran (NVML, gfx activity) |
| mem_util | ratio | ratio | share in which memory was read or written; not bandwidth, not fill |
| enc_util, dec_util, jpg_util, ofa_util | ratio | ratio | media engines |
| engine_active | ratio | ratio | DCGM GR_ENGINE_ACTIVE |
| sm_active, sm_occupancy | ratio | ratio | DCGM: an SM has a warp; resident warps of the most |
| tensor_active, fp64_active, fp32_active, fp16_active | ratio | ratio | DCGM: pipe in use |
| dram_active | ratio | ratio | DCGM: the memory interface moves data |
| power, power_average, power_instant | W | instant | as the tool calls it; `power` may be either |
| power_limit | W | instant | limit in force |
| energy | J | counter | since the driver was loaded |
| memory_used, memory_free, memory_reserved, memory_total | bytes | instant | device memory |
| sm_clock, mem_clock, graphics_clock, video_clock | MHz | instant | clocks |
| temperature, memory_temperature | C | instant | temperatures |
| pcie_tx, pcie_rx, nvlink_tx, nvlink_rx | bytes/s | instant | traffic as the tool averages it |
| pstate | level | instant | performance state, 0 is the fastest |
| throttle_reasons | bits | instant | NVML's mask of clock event reasons |
| throttle_<reason> | flag | instant | one of them, 1 is active |
| throttle_<reason>_time | ns | counter | time spent in it |
| mig_mode | flag | instant | 1: the GPU is cut into instances, its own utilisation is unknown |
| processes | count | instant | compute processes listed on the device |
| process_memory | bytes | instant | their memory, summed |
| process_sm_util, process_mem_util | ratio | ratio | their shares, summed |

Metrics of a MIG instance carry its name, `sm_active/gi1` or `sm_active/gi1/ci0`, so that no sum or
mean over a device takes an instance for a whole GPU. Percent become ratios. A value that the tool
does not give (`[N/A]`, `-`, a sentinel of DCGM) is a row with value NULL. So is a value that cannot
be: a ratio outside 0..1, a negative power, a heading in another unit. Those are counted.
"""

from __future__ import annotations

import math
import re
from calendar import timegm
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from trueput.source_api import BATCH_ROWS, Batch

_KINDS: Final = {
    "ratio": "ratio",
    "W": "instant",
    "J": "counter",
    "bytes": "instant",
    "bytes/s": "instant",
    "MHz": "instant",
    "C": "instant",
    "level": "instant",
    "bits": "instant",
    "flag": "instant",
    "ns": "counter",
    "count": "instant",
}
_UNITS: Final = {
    "ratio": (
        "gpu_util mem_util enc_util dec_util jpg_util ofa_util engine_active sm_active sm_occupancy"
        " tensor_active fp64_active fp32_active fp16_active dram_active process_sm_util"
        " process_mem_util"
    ),
    "W": "power power_average power_instant power_limit",
    "J": "energy",
    "bytes": "memory_used memory_free memory_reserved memory_total process_memory",
    "bytes/s": "pcie_tx pcie_rx nvlink_tx nvlink_rx",
    "MHz": "sm_clock mem_clock graphics_clock video_clock",
    "C": "temperature memory_temperature",
    "level": "pstate",
    "bits": "throttle_reasons",
    "flag": "mig_mode",
    "count": "processes",
}
UNIT_OF: Final[dict[str, str]] = {m: unit for unit, names in _UNITS.items() for m in names.split()}
"""Metric -> unit."""

THROTTLE_REASONS: Final = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown", "sync_boost",
)  # fmt: skip
for _reason in THROTTLE_REASONS:
    UNIT_OF[f"throttle_{_reason}"] = "flag"
    UNIT_OF[f"throttle_{_reason}_time"] = "ns"

SCALES: Final[dict[str, tuple[float, float]]] = {
    "%": (1, 100),
    "W": (1, 1),
    "mW": (1, 1_000),
    "mJ": (1, 1_000),
    "J": (1, 1),
    "B": (1, 1),
    "bytes": (1, 1),
    "KiB": (1 << 10, 1),
    "MiB": (1 << 20, 1),
    "MB": (1 << 20, 1),
    "GiB": (1 << 30, 1),
    "GB": (1 << 30, 1),
    "KB/s": (1_000, 1),
    "MB/s": (1_000_000, 1),
    "Hz": (1, 1_000_000),
    "kHz": (1, 1_000),
    "MHz": (1, 1),
    "GHz": (1_000, 1),
    "C": (1, 1),
    "us": (1_000, 1),
    "ms": (1_000_000, 1),
    "s": (1_000_000_000, 1),
    "": (1, 1),
}
"""A printed unit -> factor and divisor to the unit that is stored. NVML's MB are MiB."""

_STORED: Final = {
    "ratio": "%", "W": "W mW", "J": "J mJ", "bytes": "B bytes KiB MiB MB GiB GB",
    "bytes/s": "KB/s MB/s", "MHz": "Hz kHz MHz GHz", "C": "C", "ns": "us ms s",
}  # fmt: skip
_STORED_OF: Final = {unit: stored for stored, units in _STORED.items() for unit in units.split()}
"""A printed unit -> the unit that it can be stored in."""

RANGES: Final[dict[str, tuple[float, float]]] = {
    "ratio": (0, 1),
    "W": (0, 1e5),
    "J": (0, math.inf),
    "bytes": (0, 2.0**50),
    "bytes/s": (0, 1e14),
    "MHz": (0, 1e5),
    "C": (-100, 1_000),
    "level": (0, 99),
    "bits": (0, 2.0**64),
    "flag": (0, 1),
    "ns": (0, math.inf),
    "count": (0, math.inf),
}
"""Stored unit -> the least and the most that a value can be."""
_SUMS: Final = frozenset({"process_sm_util", "process_mem_util"})
"""Sums of rounded shares may pass 1."""

_MISSING: Final = frozenset(
    {"", "-", "n/a", "na", "nan", "none", "null", "err!", "err", "unknown", "unknown error"}
    | {"not supported", "insufficient permissions", "gpu requires reset", "not available"}
)
_NUMBER: Final = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?)\s*([A-Za-z%°/]*)")
_COMMA: Final = re.compile(r"[-+]?\d+,\d+(?!\d*,)")
_HEX: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_LEVEL: Final = re.compile(r"P(\d{1,2})")
_FLAGS: Final = {
    "active": 1.0,
    "not active": 0.0,
    "enabled": 1.0,
    "disabled": 0.0,
    "yes": 1.0,
    "no": 0.0,
}
_SENTINELS: Final = frozenset(
    float(n)
    for base in (9_223_372_036_854_775_792, 2_147_483_632, 140_737_488_355_328)
    for n in range(base, base + 4)
)


class BadValueError(ValueError):
    """A text that is neither a value nor one of the words for a missing one."""


class WrongUnitError(ValueError):
    """A value in a unit that its metric is not measured in."""


def is_missing(text: str) -> bool:
    """Whether a printed value says that there is none; every bracketed word does."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return True
    return text.lower() in _MISSING


def is_sentinel(value: float) -> bool:
    """Whether DCGM means "no value" by this number (blank, not found, not supported, no right)."""
    return value in _SENTINELS


@lru_cache(maxsize=65_536)
def parse_value(text: str, unit: str = "", metric: str | None = None) -> float | None:
    """Return a printed value in the unit that is stored; None where it is missing.

    A unit behind the number goes before `unit`, the one of the column. Raises BadValueError, and
    WrongUnitError where `metric` has another unit.
    """
    text = text.strip()
    if is_missing(text):
        return None
    if (flag := _FLAGS.get(text.lower())) is not None:
        return flag
    if _HEX.fullmatch(text):
        return float(int(text, 16))
    if level := _LEVEL.fullmatch(text):
        return float(level[1])
    if _COMMA.match(text):
        text = text.replace(",", ".", 1)
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise BadValueError(text[:40])
    unit = found[2].replace("°", "") or unit
    factor, divisor = scale(unit)
    if metric is not None and _STORED_OF.get(unit, UNIT_OF[metric]) != UNIT_OF[metric]:
        raise WrongUnitError(text[:40])
    number = finite(float(found[1]))
    return None if number is None else finite(number * factor / divisor)


def scale(unit: str) -> tuple[float, float]:
    """Return factor and divisor of a printed unit. Raises BadValueError for an unknown one."""
    try:
        return SCALES[unit]
    except KeyError:
        raise BadValueError(unit[:40]) from None


def is_possible(metric: str, value: float) -> bool:
    """Whether a value, in the unit that is stored, can be one of its metric."""
    low, high = RANGES[UNIT_OF[metric]]
    return low <= value <= (math.inf if metric in _SUMS else high)


def finite(value: float) -> float | None:
    """Return the value; None for infinities, NaN and the sentinels of DCGM."""
    return value if math.isfinite(value) and not is_sentinel(value) else None


class Devices:
    """The device numbers of one file: a tool's index, or an order of appearance for UUIDs.

    Two UUIDs that claim the same index (dumps of two hosts in one file) get different numbers.
    """

    def __init__(self) -> None:
        self._of_key: dict[str, int] = {}
        self._taken: dict[int, str] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self.renumbered = 0

    def number(self, index: int | None, uuid: str | None) -> int | None:
        """Return the device number for what one row says of its GPU; None where it says nothing."""
        key = uuid or (None if index is None else f"#{index}")
        if key is None:
            return None
        known = self._of_key.get(key)
        if known is not None:
            return known
        number = index
        if number is None or self._taken.get(number, key) != key:
            number = next(n for n in range(len(self._taken) + 1) if n not in self._taken)
            self.renumbered += 1
        self._of_key[key] = number
        self._taken[number] = key
        return number

    def describe(self, uuid: str | None, **facts: str | int | None) -> None:
        """Remember name or memory of the GPU with this UUID; only GPUs with a UUID become rows."""
        if uuid is None:
            return
        row = self._rows.setdefault(uuid, {"device_key": uuid, "uuid": uuid})
        row.update({k: v for k, v in facts.items() if v is not None})

    def batch(self) -> Iterator[Batch]:
        """Yield the rows of gpu_devices."""
        if self._rows:
            rows = [{**row, "device": self._of_key.get(key)} for key, row in self._rows.items()]
            yield Batch("gpu_devices", rows)


@dataclass
class _Columns:
    device: list[int | None]
    at_ns: list[int | None]
    metric: list[str]
    value: list[float | None]
    interval_ns: list[int | None]


class Samples:
    """Rows on their way into gpu_samples."""

    def __init__(self) -> None:
        self._held = _Columns([], [], [], [], [])
        self.timed = 0
        self.rows = 0
        self.refused = 0
        self.first_refused = ""

    def refuse(self, metric: str, value: str) -> None:
        """Count a value that cannot be; what is stored in its place is NULL."""
        self.refused += 1
        self.first_refused = self.first_refused or f"{metric} {value}"

    def add(
        self,
        device: int | None,
        at_ns: int | None,
        metric: str,
        value: float | None,
        interval_ns: int | None = None,
    ) -> None:
        """Take one value, already in the unit that `UNIT_OF` names; NULL where it cannot be."""
        if value is not None and not is_possible(name := metric.partition("/")[0], value):
            self.refuse(name, f"{value:g}")
            value = None
        held = self._held
        held.device.append(device)
        held.at_ns.append(at_ns)
        held.metric.append(metric)
        held.value.append(value)
        held.interval_ns.append(interval_ns)
        self.rows += 1
        self.timed += at_ns is not None

    def take(self, *, at_least: int = 1) -> Iterator[Batch]:
        """Yield what is held, once it is `at_least` rows."""
        if len(self._held.metric) < at_least:
            return
        held, self._held = self._held, _Columns([], [], [], [], [])
        units = [UNIT_OF[name.partition("/")[0]] for name in held.metric]
        table = pa.table(
            {
                "device": pa.array(held.device, pa.int64()),
                "at_ns": pa.array(held.at_ns, pa.int64()),
                "metric": pa.array(held.metric, pa.string()),
                "value": pa.array(held.value, pa.float64()),
                "unit": pa.array(units, pa.string()),
                "kind": pa.array([_KINDS[unit] for unit in units], pa.string()),
                "interval_ns": pa.array(held.interval_ns, pa.int64()),
            }
        )
        for start in range(0, table.num_rows, BATCH_ROWS):
            yield Batch("gpu_samples", table.slice(start, BATCH_ROWS))

    def full(self) -> Iterator[Batch]:
        """Yield a batch where one is full."""
        return self.take(at_least=BATCH_ROWS)


_LOCAL: Final = re.compile(
    r"(\d{4})([/-]?)(\d\d)\2(\d\d)[ T]+(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
)


def local_ns(text: str) -> int | None:
    """Return a printed wall time without a zone, read as if it were UTC; None where it is none."""
    found = _LOCAL.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[i]) for i in (1, 3, 4, 5, 6, 7))
    in_range = 1970 <= year < 2200 and 1 <= month <= 12 and 1 <= day <= 31
    if not in_range or hour > 23 or minute > 59 or second > 60:
        return None
    seconds = timegm((year, month, day, hour, minute, second))
    return seconds * 1_000_000_000 + int((found[8] or "").ljust(9, "0"))
