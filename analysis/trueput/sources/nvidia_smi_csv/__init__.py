"""`nvidia-smi --query-gpu=... --format=csv` and `--query-compute-apps=...`, as logged to a file.

Units come from the value, the heading, or what nvidia-smi is known to print. The timestamps are
wall time without a zone (clock `local`; `timezone` in run.toml says which). Rows are told apart by
`index` or `uuid`; with neither the device is unknown. A header that comes again is nothing odd.

A file written with `noheader` has no names; run.toml gives them, in the order of the query:

    [columns]
    file = "gpu.csv"
    telemetry = ["timestamp", "utilization.gpu", "memory.used", "power.draw"]

Of compute applications only their number and memory per device and instant are kept, never their
names or process ids; an instant without a row is no sample, not 0. Columns that are no metric of
`trueput.telemetry` are not read.

| code | meaning |
|---|---|
| SMICSV001 | no header, and run.toml names no columns: nothing was read |
| SMICSV002 | lines before the header that are no data |
| SMICSV003 | lines with another number of fields than the header |
| SMICSV004 | values that are neither a number nor a word for a missing one |
| SMICSV005 | the last line is cut |
| SMICSV006 | the file is damaged from here on |
| SMICSV007 | no index and no uuid in the columns: the device is unknown |
| SMICSV008 | GPUs are numbered in order of appearance |
| SMICSV009 | timestamps that cannot be read |
| SMICSV010 | values outside the range of their metric, or in another unit: missing |
| SMICSV011 | the file ends in a number that may lack digits: not read |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueput.clock import ClockKind
from trueput.lines import Line, lines_of
from trueput.scan import Block, Damage, text_blocks
from trueput.source_api import NOT_MINE, Clock, Fact, Item, ReadOptions, Severity, Sniff, Source
from trueput.sources.nvidia_smi_csv.columns import (
    Column,
    column_of,
    is_header,
    is_whole,
    named_columns,
    split,
)
from trueput.tally import Codes, Tally, meanings
from trueput.telemetry import (
    BadValueError,
    Devices,
    Samples,
    WrongUnitError,
    is_missing,
    local_ns,
    parse_value,
)

_CODES: Final[Codes] = {
    "SMICSV001": (Severity.ERROR, "no header, and run.toml names no columns (`telemetry`)"),
    "SMICSV002": (Severity.WARNING, "line before the header is no data"),
    "SMICSV003": (Severity.WARNING, "line has another number of fields than the header"),
    "SMICSV004": (Severity.WARNING, "value is no number and no word for a missing one"),
    "SMICSV005": (Severity.WARNING, "the last line is cut"),
    "SMICSV006": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "SMICSV007": (Severity.INFO, "no index and no uuid: the device is unknown"),
    "SMICSV008": (Severity.INFO, "a GPU has no index of its own, numbered by appearance"),
    "SMICSV009": (Severity.WARNING, "timestamp is not readable"),
    "SMICSV010": (Severity.WARNING, "value cannot be (range or unit), missing"),
    "SMICSV011": (Severity.INFO, "the file ends in a number that may lack digits: not read"),
}
_BLOCK_BYTES: Final = 4 << 20
_SNIFF_LINES: Final = 20
_HEADERLESS: Final = re.compile(
    r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, (?:.*, )?[-\d.]+ (?:%|MiB|W|MHz)(?:,|$)"
)


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a CSV log of nvidia-smi."""
    lines = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").splitlines()
    for line in lines[:_SNIFF_LINES]:
        if is_header(split(line)):
            return Sniff(0.95, "columns of nvidia-smi --query")
        if _HEADERLESS.match(line):
            return Sniff(0.7, "lines of nvidia-smi --query without a header")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the samples of the file, and what was wrong."""
    reader = _Reader(named_columns(options.run_toml, options.relative_path or path.name))
    for block in text_blocks(path, _BLOCK_BYTES):
        if isinstance(block, Damage):
            reader.tally.add("SMICSV006", text=block.text)
        else:
            yield from reader.block(block)
    yield from reader.finish()
    timed = reader.samples.timed > 0
    yield Clock(ClockKind.LOCAL if timed else ClockKind.NONE, method="as printed, without a zone")


class _Reader:
    """The state of reading one file."""

    def __init__(self, given: list[str] | None) -> None:
        self.tally = Tally(_CODES)
        self.samples = Samples()
        self.devices = Devices()
        self._given = given
        self._columns: list[Column | None] = []
        self._names: list[str] = []
        self._before: list[int] = []
        self._hardware: str | None = None
        self._apps: tuple[int | None, int | None] | None = None
        self._app_bytes: list[float | None] = []

    def block(self, block: Block) -> Iterator[Item]:
        """Read whole lines."""
        for line in lines_of(block):
            self._line(line)
        yield from self.samples.full()

    def _line(self, line: Line) -> None:
        fields = split(line.text)
        if is_header(fields):
            self._begin(fields)
            return
        if not self._names and self._given is not None:
            self._begin(self._given)
        if not self._names:
            self._before.append(line.number)
        elif len(fields) != len(self._names):
            self.tally.add("SMICSV003" if line.ended else "SMICSV005", line.number)
        elif not line.ended and not is_whole(last := self._columns[-1], line):
            self.tally.add("SMICSV011", line.number)
            if last is None or last.role in (None, "used"):
                self._row(fields, line.number, self._columns[:-1])
        else:
            self._row(fields, line.number, self._columns)

    def _begin(self, names: list[str]) -> None:
        self._close_apps()
        self._names = names
        self._columns = [column_of(name) for name in names]
        roles = {c.role for c in self._columns if c}
        if not roles & {"index", "uuid"} and not self.tally.count("SMICSV007"):
            self.tally.add("SMICSV007")

    def _row(self, fields: list[str], number: int, columns: list[Column | None]) -> None:
        """Take a row; fields beyond the columns are not read."""
        roles: dict[str, str] = {}
        values: list[tuple[str, float | None]] = []
        for column, text in zip(columns, fields, strict=False):
            if column is None:
                continue
            if column.role is not None:
                roles[column.role] = text
            if column.metric is None and column.role != "used":
                continue
            try:
                value = parse_value(text, column.unit, column.metric)
            except BadValueError:
                self.tally.add("SMICSV004", number)
                value = None
            except WrongUnitError:
                self.samples.refuse(column.metric or "used", text[:40])
                value = None
            values.append((column.metric or "used", value))
        at_ns = self._instant(roles, number)
        device = self._device(roles, dict(values))
        if "pid" in roles:
            self._app(at_ns, device, dict(values).get("used"))
            return
        for metric, value in values:
            if metric != "used":
                self.samples.add(device, at_ns, metric, value)

    def _instant(self, roles: dict[str, str], number: int) -> int | None:
        text = roles.get("timestamp")
        if text is None:
            return None
        at_ns = local_ns(text)
        if at_ns is None:
            self.tally.add("SMICSV009", number)
        return at_ns

    def _device(self, roles: dict[str, str], values: dict[str, float | None]) -> int | None:
        text = roles.get("index", "")
        index = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
        uuid = roles.get("uuid")
        uuid = None if uuid is None or is_missing(uuid) else uuid[:80]
        name = roles.get("name")
        name = None if name is None or is_missing(name) else name[:80]
        self._hardware = self._hardware or name
        total = values.get("memory_total")
        memory = None if total is None or total > 2**60 else int(total)
        self.devices.describe(uuid, name=name, memory_bytes=memory)
        return self.devices.number(index, uuid)

    def _app(self, at_ns: int | None, device: int | None, used: float | None) -> None:
        if self._apps != (at_ns, device):
            self._close_apps()
            self._apps = (at_ns, device)
        self._app_bytes.append(used)

    def _close_apps(self) -> None:
        if self._apps is not None:
            at_ns, device = self._apps
            known = [used for used in self._app_bytes if used is not None]
            total = sum(known) if len(known) == len(self._app_bytes) else None
            self.samples.add(device, at_ns, "processes", float(len(self._app_bytes)))
            self.samples.add(device, at_ns, "process_memory", total)
        self._apps, self._app_bytes = None, []

    def finish(self) -> Iterator[Item]:
        """Yield what is left, the devices and the problems."""
        self._close_apps()
        yield from self.samples.take()
        yield from self.devices.batch()
        if self._hardware:
            yield Fact("hardware", self._hardware)
        if self._before:
            code = "SMICSV002" if self._names else "SMICSV001"
            self.tally.add(code, self._before[0], count=len(self._before))
        if self.devices.renumbered:
            self.tally.add("SMICSV008", count=self.devices.renumbered)
        if self.samples.refused:
            self.tally.add("SMICSV010", text=self.samples.first_refused, count=self.samples.refused)
        yield from self.tally.problems()


SOURCE = Source(
    name="nvidia_smi_csv",
    title="nvidia-smi --query-gpu and --query-compute-apps CSV",
    versions="drivers 450 to 590",
    tables=("gpu_samples", "gpu_devices"),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves=(
        "Utilisation, power, clocks and throttling over time as NVML samples them; utilisation says"
        " that some kernel ran, not that the GPU was full."
    ),
    turn_on=(
        "nvidia-smi --query-gpu=timestamp,index,uuid,utilization.gpu,power.draw,memory.used,"
        "clocks.current.sm,clocks_event_reasons.active --format=csv -lms 500 -f gpu.csv"
    ),
)
