"""`amd-smi metric --csv` and `amd-smi monitor --csv`: one row per GPU and round.

Lists in brackets (`[0, 0]`) stand unquoted in it and are put together before the line is split.
Column names changed between ROCm releases; all known ones are read. `gfx` activity is gpu_util. A
column `timestamp` in seconds of the epoch gives the instants (clock `utc`); without it there are
none. Headers that come again (`--watch`) are nothing odd. MB are MiB, as amd-smi computes them.
Columns that are no metric of `trueput.telemetry` are not read.

| code | meaning |
|---|---|
| AMDSMI001 | lines with another number of fields than the header, or without a GPU number |
| AMDSMI002 | values that are neither a number nor a word for a missing one |
| AMDSMI003 | the last line is cut |
| AMDSMI004 | the file is damaged from here on |
| AMDSMI005 | no header in the file: nothing was read |
| AMDSMI006 | no timestamp column: only the order of the lines is known |
| AMDSMI007 | values outside the range of their metric, or in another unit: missing |
| AMDSMI008 | the file ends in a number that may lack digits: not read |
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueput.clock import ClockKind
from trueput.lines import lines_of
from trueput.scan import Block, Damage, text_blocks
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Severity, Sniff, Source
from trueput.tally import Codes, Tally, meanings
from trueput.telemetry import BadValueError, Samples, WrongUnitError, parse_value
from trueput.units import to_ns

_CODES: Final[Codes] = {
    "AMDSMI001": (Severity.WARNING, "line is no row of the header"),
    "AMDSMI002": (Severity.WARNING, "value is no number and no word for a missing one"),
    "AMDSMI003": (Severity.WARNING, "the last line is cut"),
    "AMDSMI004": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "AMDSMI005": (Severity.ERROR, "no header of amd-smi, nothing was read"),
    "AMDSMI006": (Severity.INFO, "no timestamp column, only the order of the lines is known"),
    "AMDSMI007": (Severity.WARNING, "value cannot be (range or unit), missing"),
    "AMDSMI008": (Severity.INFO, "the file ends in a number that may lack digits: not read"),
}
_METRICS: Final = {
    "gpu_util": ("%", "gfx_usage gfx gfx_activity gfx_util"),
    "mem_util": ("%", "mem_usage mem umc_activity mem_util"),
    "power": ("W", "power_usage socket_power current_socket_power average_socket_power power"),
    "power_limit": ("W", "power_cap max_power_limit"),
    "energy": ("J", "total_energy_consumption"),
    "temperature": ("C", "hotspot_temperature hotspot gpu_t gpu_temperature temperature_hotspot"),
    "memory_temperature": ("C", "mem_temperature memory_temperature mem_t temperature_mem"),
    "memory_used": ("MiB", "fb_used vram_used used_vram"),
    "memory_free": ("MiB", "vram_free free_vram"),
    "memory_total": ("MiB", "fb_total vram_total total_vram"),
    "sm_clock": ("MHz", "gfx_cur_clk gfx_clk gfx_clock gfx_0_clk"),
    "mem_clock": ("MHz", "mem_cur_clk mem_clk mem_clock mem_0_clk"),
    "enc_util": ("%", "encoder enc_util"),
    "dec_util": ("%", "decoder dec_util"),
}
_OF_COLUMN: Final = {
    column: (metric, unit) for metric, (unit, names) in _METRICS.items() for column in names.split()
}
_LIST: Final = re.compile(r"\[[^\[\]\n]*\]")
_BLOCK_BYTES: Final = 4 << 20


def _fields(line: str) -> list[str]:
    """Return the fields of a line; a list in brackets is one field."""
    repaired = line if '"' in line else _LIST.sub(lambda m: '"' + m[0] + '"', line)
    try:
        row = next(csv.reader([repaired], skipinitialspace=True), [])
    except csv.Error:
        return []
    return [field.strip() for field in row]


def _is_header(fields: list[str]) -> bool:
    names = [field.lower() for field in fields]
    return "gpu" in names[:3] and any(name in _OF_COLUMN for name in names)


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a CSV of amd-smi."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    for line in text.splitlines()[:20]:
        if "," in line and _is_header(_fields(line)):
            return Sniff(0.9, "columns of amd-smi --csv")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the samples of the file, and what was wrong."""
    reader = _Reader()
    for block in text_blocks(path, _BLOCK_BYTES):
        if isinstance(block, Damage):
            reader.tally.add("AMDSMI004", text=block.text)
        else:
            yield from reader.block(block)
    yield from reader.finish()
    timed = reader.samples.timed > 0
    yield Clock(ClockKind.UTC if timed else ClockKind.NONE, method="seconds of the epoch")


class _Reader:
    """The state of reading one file."""

    def __init__(self) -> None:
        self.tally = Tally(_CODES)
        self.samples = Samples()
        self._names: list[str] = []

    def block(self, block: Block) -> Iterator[Item]:
        """Read whole lines."""
        for number, line, ended, lacks_digits in lines_of(block):
            fields = _fields(line)
            if _is_header(fields):
                self._names = [field.lower() for field in fields]
            elif self._names and not self._row(fields, number, lacks_digits=lacks_digits):
                self.tally.add("AMDSMI001" if ended else "AMDSMI003", number)
        yield from self.samples.full()

    def _row(self, fields: list[str], number: int, *, lacks_digits: bool) -> bool:
        if len(fields) != len(self._names):
            return False
        row = dict(zip(self._names, fields, strict=True))
        last = self._names[-1]
        if lacks_digits and last in ("gpu", "timestamp", *_OF_COLUMN):
            self.tally.add("AMDSMI008", number)
            if last not in _OF_COLUMN:
                return True
            del row[last]
        index = row["gpu"]
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            return False
        at_ns = _epoch_ns(row.get("timestamp", ""))
        for name, text in row.items():
            if name not in _OF_COLUMN:
                continue
            metric, unit = _OF_COLUMN[name]
            try:
                value = parse_value(text, unit, metric)
            except BadValueError:
                self.tally.add("AMDSMI002", number)
                value = None
            except WrongUnitError:
                self.samples.refuse(metric, text[:40])
                value = None
            self.samples.add(int(index), at_ns, metric, value)
        return True

    def finish(self) -> Iterator[Item]:
        """Yield what is left and the problems."""
        yield from self.samples.take()
        if not self._names:
            self.tally.add("AMDSMI005")
        elif self.samples.rows and not self.samples.timed:
            self.tally.add("AMDSMI006")
        if self.samples.refused:
            self.tally.add("AMDSMI007", text=self.samples.first_refused, count=self.samples.refused)
        yield from self.tally.problems()


def _epoch_ns(text: str) -> int | None:
    """Return an instant of this century given in seconds of the epoch."""
    at_ns = to_ns(text, "s") if re.fullmatch(r"\d{9,10}(\.\d{1,9})?", text) else None
    return at_ns if at_ns and at_ns > 946_684_800_000_000_000 else None


SOURCE = Source(
    name="amd_smi_csv",
    title="amd-smi metric and monitor CSV",
    versions="ROCm 6 and 7",
    tables=("gpu_samples",),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="Activity, power, clocks and memory of AMD GPUs over time.",
    turn_on="amd-smi monitor --csv --watch 1 --file amd.csv",
)
