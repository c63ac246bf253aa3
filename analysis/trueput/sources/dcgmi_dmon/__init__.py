"""The text of `dcgmi dmon`: fields of DCGM for each entity, once per interval.

There is no time in it, only the order of the lines: `at_ns` is NULL. The interval is that of the
command (`-d`, 1,000 ms unless said), which the text does not repeat. Profiling fields are averages
over the interval, 0..1; the first samples are often 0 or `N/A`. MIG instances (`GPU-I 1`,
`GPU-CI 2`) are no GPUs: their metrics carry their name (`sm_active/gi1`, `sm_active/ci2`) and have
no device. Fields that are no metric of `trueput.telemetry` are not read.

| code | meaning |
|---|---|
| DCGMI001 | lines that are neither a header nor a row of it |
| DCGMI002 | values that are neither a number nor `N/A` |
| DCGMI003 | the last line is cut |
| DCGMI004 | the file is damaged from here on |
| DCGMI005 | no header in the file: nothing was read |
| DCGMI006 | no time in the lines: only their order is known |
| DCGMI007 | rows of other entities than GPUs and their instances |
| DCGMI008 | values outside the range of their metric, or in another unit: missing |
| DCGMI009 | the file ends in a number that may lack digits: not read |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueput.clock import ClockKind
from trueput.lines import lines_of
from trueput.scan import Block, Damage, text_blocks
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Severity, Sniff, Source
from trueput.tally import Codes, Tally, meanings
from trueput.telemetry import BadValueError, Samples, parse_value

_CODES: Final[Codes] = {
    "DCGMI001": (Severity.WARNING, "line is neither a header nor a row of it"),
    "DCGMI002": (Severity.WARNING, "value is neither a number nor `N/A`"),
    "DCGMI003": (Severity.WARNING, "the last line is cut"),
    "DCGMI004": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "DCGMI005": (Severity.ERROR, "no header of dcgmi dmon, nothing was read"),
    "DCGMI006": (Severity.INFO, "no time in the lines, only their order"),
    "DCGMI007": (Severity.INFO, "rows of entities that are no GPU and no instance of one"),
    "DCGMI008": (Severity.WARNING, "value cannot be (range or unit), missing"),
    "DCGMI009": (Severity.INFO, "the file ends in a number that may lack digits: not read"),
}
_FIELDS: Final = {
    "GRACT": ("engine_active", ""),
    "SMACT": ("sm_active", ""),
    "SMOCC": ("sm_occupancy", ""),
    "TENSO": ("tensor_active", ""),
    "DRAMA": ("dram_active", ""),
    "FP64A": ("fp64_active", ""),
    "FP32A": ("fp32_active", ""),
    "FP16A": ("fp16_active", ""),
    "PCITX": ("pcie_tx", ""),
    "PCIRX": ("pcie_rx", ""),
    "NVLTX": ("nvlink_tx", ""),
    "NVLRX": ("nvlink_rx", ""),
    "GPUTL": ("gpu_util", "%"),
    "MCUTL": ("mem_util", "%"),
    "POWER": ("power", "W"),
    "TOTEC": ("energy", "mJ"),
    "TMPTR": ("temperature", "C"),
    "MMTMP": ("memory_temperature", "C"),
    "SMCLK": ("sm_clock", "MHz"),
    "MMCLK": ("mem_clock", "MHz"),
    "FBUSD": ("memory_used", "MiB"),
    "FBFRE": ("memory_free", "MiB"),
    "FBTTL": ("memory_total", "MiB"),
}
_HEADER: Final = re.compile(r"#\s*Entity\s+(\S.*)")
_ROW: Final = re.compile(r"([A-Za-z][A-Za-z-]*)[ \t]+(\d{1,9})(?:[ \t]+(\S.*))?")
_SUFFIX: Final = {"GPU": "", "GPU-I": "/gi", "GPU-CI": "/ci"}
_TAIL: Final = ("dmon was stopped", "ID", "Id")
_BLOCK_BYTES: Final = 4 << 20


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins the text of dcgmi dmon."""
    for line in head.decode("utf-8", "replace").splitlines()[:20]:
        if _HEADER.match(line.strip()):
            return Sniff(0.95, "header of dcgmi dmon")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the samples of the file, and what was wrong."""
    reader = _Reader()
    for block in text_blocks(path, _BLOCK_BYTES):
        if isinstance(block, Damage):
            reader.tally.add("DCGMI004", text=block.text)
        else:
            yield from reader.block(block)
    yield from reader.finish()
    yield Clock(ClockKind.NONE, method="the text has no time")


class _Reader:
    """The state of reading one file."""

    def __init__(self) -> None:
        self.tally = Tally(_CODES)
        self.samples = Samples()
        self._names: list[str] = []

    def block(self, block: Block) -> Iterator[Item]:
        """Read whole lines."""
        for number, line, ended, lacks_digits in lines_of(block):
            if line.startswith(_TAIL):
                continue
            if found := _HEADER.match(line):
                self._names = found[1].split()
            elif not self._names or not self._row(line, number, lacks_digits=lacks_digits):
                cut = not ended and bool(self._names)
                self.tally.add("DCGMI003" if cut else "DCGMI001", number)
        yield from self.samples.full()

    def _row(self, line: str, number: int, *, lacks_digits: bool) -> bool:
        found = _ROW.fullmatch(line)
        fields = (found[3] or "").split() if found else []
        if found is None or len(fields) != len(self._names):
            return False
        suffix = _SUFFIX.get(found[1].upper())
        if suffix is None:
            self.tally.add("DCGMI007", number)
            return True
        device = int(found[2]) if suffix == "" else None
        name_end = f"{suffix}{found[2]}" if suffix else ""
        for at, (name, text) in enumerate(zip(self._names, fields, strict=True), 1):
            if name not in _FIELDS:
                continue
            if lacks_digits and at == len(fields):
                self.tally.add("DCGMI009", number)
                continue
            metric, unit = _FIELDS[name]
            try:
                value = parse_value(text, unit)
            except BadValueError:
                self.tally.add("DCGMI002", number)
                value = None
            self.samples.add(device, None, metric + name_end, value)
        return True

    def finish(self) -> Iterator[Item]:
        """Yield what is left and the problems."""
        yield from self.samples.take()
        if not self._names:
            self.tally.add("DCGMI005")
        elif self.samples.rows:
            self.tally.add("DCGMI006")
        if self.samples.refused:
            self.tally.add("DCGMI008", text=self.samples.first_refused, count=self.samples.refused)
        yield from self.tally.problems()


SOURCE = Source(
    name="dcgmi_dmon",
    title="dcgmi dmon (text)",
    versions="DCGM 2 to 4",
    tables=("gpu_samples",),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="How much of the GPU worked (SM, tensor, DRAM activity), in order; no instants.",
    turn_on="dcgmi dmon -e 1001,1002,1003,1004,1005,155,156 -d 1000 > dcgmi.txt",
)
