"""Lines of a GPU exporter's exposition -> samples, scrape by scrape."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trueput.exposition import (
    Marker,
    bare_time,
    is_whole,
    marker,
    parse_labels,
    sample_ns,
    split_name,
)
from trueput.source_api import Fact, Item, Severity
from trueput.sources.gpu_prometheus.families import (
    INDEX_FAMILY,
    INFO_FAMILY,
    SUMMED,
    metric_of,
)
from trueput.tally import Codes, Tally
from trueput.telemetry import Devices, Samples, finite

CODES: Final[Codes] = {
    "GPUPROM001": (Severity.WARNING, "line is no sample, comment or marker"),
    "GPUPROM002": (Severity.WARNING, "sample has no usable value"),
    "GPUPROM003": (
        Severity.WARNING,
        "the last line has no end, its number may lack digits: not read",
    ),
    "GPUPROM004": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "GPUPROM005": (Severity.INFO, "no time in the file or its name: modification time taken"),
    "GPUPROM006": (Severity.WARNING, "a scrape follows without a time between: time unknown"),
    "GPUPROM007": (Severity.INFO, "a scrape failed, or its marker has no readable time"),
    "GPUPROM008": (Severity.INFO, "time without a zone read as UTC"),
    "GPUPROM009": (Severity.WARNING, "metrics of a serving engine are not read by this source"),
    "GPUPROM010": (Severity.INFO, "a GPU has no index of its own, numbered anew"),
    "GPUPROM011": (Severity.INFO, "no family of a known GPU exporter"),
    "GPUPROM012": (Severity.WARNING, "value cannot be (range or unit), missing"),
}
_MAX_SERIES: Final = 100_000
_ENGINE: Final = re.compile(rb"(?:ray_)?(?:vllm|sglang)[:_]")
_BARE_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True)
class _Series:
    """One series that is read: its metric, and which GPU it is of."""

    family: str
    metric: str
    factor: float
    divisor: float
    uuid: str | None
    index: int | None


@dataclass
class _Scrape:
    """The scrape at hand: its instant and its samples, by metric and GPU."""

    at_ns: int | None = None
    from_file: bool = False
    values: dict[tuple[str, str | None, int | None], tuple[float | None, int | None]] = field(
        default_factory=dict
    )


class Reader:
    """The state of reading one file."""

    def __init__(self, file_ns: int | None) -> None:
        self.tally = Tally(CODES)
        self.samples = Samples()
        self.devices = Devices()
        self.used_file_time = False
        self._file_ns = file_ns
        self._known: dict[bytes, _Series | None] = {}
        self._index_of: dict[str, int] = {}
        self._hardware: str | None = None
        self._scrape = _Scrape(file_ns, from_file=True)
        self._marked = False
        self._family = ""

    def block(self, data: bytes, first_line: int) -> Iterator[Item]:
        """Read whole lines."""
        lines = data.split(b"\n")
        cut = lines.pop()
        for number, line in enumerate(lines, first_line):
            self._line(line.strip(), number)
        if cut.strip():
            self._last(cut.strip(), first_line + len(lines))
        yield from self.samples.full()

    def _last(self, line: bytes, number: int) -> None:
        """Take a line without an end: a number at its end may lack digits."""
        if line.startswith(b"#") or is_whole(line):
            self._line(line, number)
        else:
            self.tally.add("GPUPROM003", number)

    def _line(self, line: bytes, number: int) -> None:
        if not line:
            return
        if line.startswith(b"#"):
            if (mark := marker(line)) is not None:
                self._mark(mark, number)
            return
        if (mark := bare_time(line)) is not None:
            self._mark(mark, number)
            return
        cut = line.rfind(b"}") + 1 or line.find(b" ")
        key = line[:cut] if cut > 0 else line
        if key not in self._known:
            series = self._series(key, line, number)
            if len(self._known) < _MAX_SERIES:
                self._known[key] = series
        else:
            series = self._known[key]
        if series is not None:
            self._sample(series, line[len(key) :].split(), number)

    def _mark(self, mark: Marker, number: int) -> None:
        self._marked = True
        if mark.zone_assumed:
            self.tally.add("GPUPROM008", number)
        if mark.failed or mark.at_ns is None:
            self.tally.add("GPUPROM007", number)
        if mark.failed:
            return
        self._close(known_time=not self._scrape.from_file, number=number)
        self._scrape = _Scrape(mark.at_ns)
        self._family = ""

    def _series(self, key: bytes, line: bytes, number: int) -> _Series | None:
        """Return what a series means; None where it is not read."""
        parts = split_name(key.rstrip())
        labels = None if parts is None else parse_labels(parts[1])
        if parts is None or labels is None:
            self.tally.add("GPUPROM001", number)
            return None
        family = parts[0]
        if _ENGINE.match(key) and not self.tally.count("GPUPROM009"):
            self.tally.add("GPUPROM009", number)
        uuid = _uuid(labels.get("UUID") or labels.get("uuid"))
        index = _index(labels.get("gpu") or labels.get("index"))
        if family == INFO_FAMILY:
            self._describe(uuid, index, labels.get("name"))
        if family == INDEX_FAMILY and uuid is not None:
            value = line[len(key) :].split()
            known = _index(value[0].decode("ascii", "replace") if value else None)
            if known is not None:
                self._index_of[uuid] = known
        meaning = metric_of(family)
        if meaning is None:
            return None
        self._describe(uuid, None, labels.get("modelName") or labels.get("model"))
        instance = _index(labels.get("GPU_I_ID"))
        metric = meaning[0] if instance is None else f"{meaning[0]}/gi{instance}"
        return _Series(family, metric, meaning[1], meaning[2], uuid, index)

    def _describe(self, uuid: str | None, index: int | None, name: str | None) -> None:
        name = name[:80] if name else None
        self._hardware = self._hardware or name
        self.devices.describe(uuid, name=name)
        if uuid is not None and index is not None:
            self._index_of[uuid] = index

    def _sample(self, series: _Series, fields: list[bytes], number: int) -> None:
        try:
            raw = finite(float(fields[0].decode("ascii")))
        except (IndexError, ValueError):
            self.tally.add("GPUPROM002", number)
            return
        value = None if raw is None else finite(raw * series.factor / series.divisor)
        at_ns = sample_ns(fields[1]) if len(fields) > 1 else None
        key = (series.metric, series.uuid, series.index)
        again = key in self._scrape.values
        if again and series.metric in SUMMED:
            before = self._scrape.values[key][0]
            value = None if before is None or value is None else before + value
        elif again and series.family == self._family:
            return
        elif again:
            self._close(known_time=not self._scrape.from_file, number=number)
            self._scrape = _Scrape(None if self._marked else self._file_ns, not self._marked)
            self.tally.add("GPUPROM006", number)
        self._family = series.family
        self._scrape.values[key] = (value, at_ns)

    def _close(self, *, known_time: bool, number: int | None) -> None:
        """Store the scrape at hand; without `known_time` only samples stamped themselves have one.

        The file's own time is that of the last scrape, so that one before it has none.
        """
        for (metric, uuid, index), (value, own_ns) in self._scrape.values.items():
            device = self.devices.number(
                self._index_of.get(uuid, index) if uuid is not None else index, uuid
            )
            at_ns = self._scrape.at_ns if known_time else None
            self.samples.add(device, own_ns if own_ns is not None else at_ns, metric, value)
        if self._scrape.from_file and self._scrape.values and number is not None and self._marked:
            self.tally.add("GPUPROM006", number)
        self._scrape = _Scrape()

    def finish(self) -> Iterator[Item]:
        """Yield what is left and the GPUs."""
        self.used_file_time = (
            self._scrape.from_file
            and self._scrape.at_ns is not None
            and any(own_ns is None for _, own_ns in self._scrape.values.values())
        )
        self._close(known_time=True, number=None)
        if not self.samples.rows:
            self.tally.add("GPUPROM011")
        if self.samples.refused:
            self.tally.add(
                "GPUPROM012", text=self.samples.first_refused, count=self.samples.refused
            )
        yield from self.samples.take()
        yield from self.devices.batch()
        if self._hardware:
            yield Fact("hardware", self._hardware)
        if self.devices.renumbered:
            self.tally.add("GPUPROM010", count=self.devices.renumbered)


def _index(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _uuid(text: str | None) -> str | None:
    """Return a GPU's UUID with its prefix, which nvidia_gpu_exporter leaves out."""
    if not text:
        return None
    return f"GPU-{text.lower()}" if _BARE_UUID.fullmatch(text) else text[:80]
