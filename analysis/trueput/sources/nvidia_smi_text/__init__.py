"""The text of `nvidia-smi dmon` and `nvidia-smi pmon`: one line per device (or process) and second.

Without `-o DT` there is no time, only the order of the lines: `at_ns` is NULL and the clock is
`none`. With it the instants are wall time without a zone (clock `local`); `-o T` alone prints no
date and counts as no time. `sm` is gpu_util (a kernel ran), not SM activity. Columns that are no
metric of `trueput.telemetry` are not read.

Of pmon only the number of processes and the sums of their shares are kept, per device and round;
no process id and no command. A round of a device ends where a later device, an earlier one or a
process that was already listed comes. A line of `-` says that no process was seen: 0 processes.

| code | meaning |
|---|---|
| SMITEXT001 | lines that are neither a header nor a row of it |
| SMITEXT002 | values that are neither a number nor `-` |
| SMITEXT003 | the last line is cut |
| SMITEXT004 | the file is damaged from here on |
| SMITEXT005 | no header in the file: nothing was read |
| SMITEXT006 | no time in the lines: only their order is known |
| SMITEXT007 | the lines have a time of day without a date: it is not used |
| SMITEXT008 | times that cannot be read |
| SMITEXT009 | values outside the range of their metric, or in another unit: missing |
| SMITEXT010 | the file ends in a number that may lack digits: not read |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from trueput.clock import ClockKind
from trueput.lines import lines_of
from trueput.scan import Block, Damage, text_blocks
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Severity, Sniff, Source
from trueput.tally import Codes, Tally, meanings
from trueput.telemetry import BadValueError, Samples, local_ns, parse_value

_CODES: Final[Codes] = {
    "SMITEXT001": (Severity.WARNING, "line is neither a header nor a row of it"),
    "SMITEXT002": (Severity.WARNING, "value is neither a number nor `-`"),
    "SMITEXT003": (Severity.WARNING, "the last line is cut"),
    "SMITEXT004": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "SMITEXT005": (Severity.ERROR, "no header of dmon or pmon, nothing was read"),
    "SMITEXT006": (Severity.INFO, "no time in the lines, only their order (`-o DT` prints it)"),
    "SMITEXT007": (Severity.INFO, "a time of day without a date is not used (`-o DT` prints both)"),
    "SMITEXT008": (Severity.WARNING, "time is not readable"),
    "SMITEXT009": (Severity.WARNING, "value cannot be (range or unit), missing"),
    "SMITEXT010": (Severity.INFO, "the file ends in a number that may lack digits: not read"),
}
_COLUMNS: Final = {
    "pwr": ("power", "W"),
    "gtemp": ("temperature", "C"),
    "temp": ("temperature", "C"),
    "mtemp": ("memory_temperature", "C"),
    "sm": ("gpu_util", "%"),
    "mem": ("mem_util", "%"),
    "enc": ("enc_util", "%"),
    "dec": ("dec_util", "%"),
    "jpg": ("jpg_util", "%"),
    "ofa": ("ofa_util", "%"),
    "mclk": ("mem_clock", "MHz"),
    "pclk": ("sm_clock", "MHz"),
    "fb": ("memory_used", "MiB"),
    "rxpci": ("pcie_rx", "MB/s"),
    "txpci": ("pcie_tx", "MB/s"),
}
_PROCESS_COLUMNS: Final = {"sm": "process_sm_util", "mem": "process_mem_util"}
_READ: Final = frozenset({"gpu", "date", "time", "pid", *_COLUMNS})
_SPLIT: Final = re.compile(r"[\s,]+")
_UNIT_WORDS: Final = frozenset({"idx", "w", "c", "%", "mhz", "mb", "mb/s", "#", "yyyymmdd"})
_BLOCK_BYTES: Final = 4 << 20


def _header(line: str) -> list[str] | None:
    """Return the column names of a header line; None for another line."""
    if not line.startswith("#"):
        return None
    names = _SPLIT.split(line[1:].strip().lower())
    return names if "gpu" in names[:3] and len(names) > 1 else None


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins the text of dmon or pmon."""
    lines = head.decode("utf-8", "replace").splitlines()
    for line, below in pairwise(lines[:21]):
        names = _header(line.strip())
        if names and below.startswith("#") and "idx" in below.lower():
            kind = "pmon" if "pid" in names else "dmon"
            return Sniff(0.95, f"header of nvidia-smi {kind}")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the samples of the file, and what was wrong."""
    reader = _Reader()
    for block in text_blocks(path, _BLOCK_BYTES):
        if isinstance(block, Damage):
            reader.tally.add("SMITEXT004", text=block.text)
        else:
            yield from reader.block(block)
    yield from reader.finish()
    timed = reader.samples.timed > 0
    yield Clock(ClockKind.LOCAL if timed else ClockKind.NONE, method="as printed, without a zone")


class _Reader:
    """The state of reading one file."""

    def __init__(self) -> None:
        self.tally = Tally(_CODES)
        self.samples = Samples()
        self._names: list[str] = []
        self._round: tuple[int, int | None] | None = None
        self._pids: set[str] = set()
        self._shares: dict[str, list[float | None]] = {}

    def block(self, block: Block) -> Iterator[Item]:
        """Read whole lines."""
        for number, line, ended, lacks_digits in lines_of(block):
            if line.startswith("#"):
                self._comment(line, number)
            elif not self._names or not self._row(line, number, lacks_digits=lacks_digits):
                cut = not ended and bool(self._names)
                self.tally.add("SMITEXT003" if cut else "SMITEXT001", number)
        yield from self.samples.full()

    def _comment(self, line: str, number: int) -> None:
        names = _header(line)
        if names is not None:
            self._names = names
        elif not {w.lower() for w in _SPLIT.split(line[1:].strip())} & _UNIT_WORDS:
            self.tally.add("SMITEXT001", number)

    def _row(self, line: str, number: int, *, lacks_digits: bool) -> bool:
        count = len(self._names)
        fields = _SPLIT.split(line, maxsplit=count - 1)
        if "pid" not in self._names:
            fields = _SPLIT.split(line)
        if len(fields) != count:
            return False
        row = dict(zip(self._names, fields, strict=True))
        if lacks_digits and self._names[-1] in _READ:
            self.tally.add("SMITEXT010", number)
            if self._names[-1] not in _COLUMNS:
                return True
            del row[self._names[-1]]
        index = row["gpu"]
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            return False
        at_ns = self._instant(row, number)
        if "pid" in row:
            self._process(int(index), at_ns, row, number)
            return True
        for name, (metric, unit) in _COLUMNS.items():
            if name in row:
                self.samples.add(int(index), at_ns, metric, self._value(row[name], unit, number))
        return True

    def _instant(self, row: dict[str, str], number: int) -> int | None:
        if "date" in row and "time" in row:
            at_ns = local_ns(f"{row['date']} {row['time']}")
            if at_ns is None:
                self.tally.add("SMITEXT008", number)
            return at_ns
        if "time" in row and not self.tally.count("SMITEXT007"):
            self.tally.add("SMITEXT007")
        return None

    def _value(self, text: str, unit: str, number: int) -> float | None:
        try:
            return parse_value(text, unit)
        except BadValueError:
            self.tally.add("SMITEXT002", number)
            return None

    def _process(self, index: int, at_ns: int | None, row: dict[str, str], number: int) -> None:
        pid = row["pid"]
        if self._round != (index, at_ns) or pid in self._pids:
            self._close_round()
            self._round = (index, at_ns)
        self._pids.add(pid)
        for name, metric in _PROCESS_COLUMNS.items():
            if name in row:
                value = self._value(row[name], "%", number)
                self._shares.setdefault(metric, []).append(value)

    def _close_round(self) -> None:
        if self._round is not None:
            index, at_ns = self._round
            self.samples.add(index, at_ns, "processes", float(len(self._pids - {"-"})))
            for metric, values in self._shares.items():
                known = [value for value in values if value is not None]
                self.samples.add(index, at_ns, metric, round(sum(known), 6) if known else None)
        self._round, self._pids, self._shares = None, set(), {}

    def finish(self) -> Iterator[Item]:
        """Yield what is left and the problems."""
        self._close_round()
        yield from self.samples.take()
        if not self._names:
            self.tally.add("SMITEXT005")
        elif self.samples.rows and not self.samples.timed:
            self.tally.add("SMITEXT006")
        if self.samples.refused:
            self.tally.add(
                "SMITEXT009", text=self.samples.first_refused, count=self.samples.refused
            )
        yield from self.tally.problems()


SOURCE = Source(
    name="nvidia_smi_text",
    title="nvidia-smi dmon and pmon (text)",
    versions="drivers 450 to 590",
    tables=("gpu_samples",),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="Utilisation, power and clocks each second, in order; instants only with `-o DT`.",
    turn_on="nvidia-smi dmon -s pucm -o DT -f dmon.txt",
)
