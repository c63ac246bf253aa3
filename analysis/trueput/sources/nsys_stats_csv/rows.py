"""Lines of cuda_gpu_trace -> rows of gpu_ops."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pacsv

from trueput.source_api import BATCH_ROWS, Batch, Item, loses_much
from trueput.tally import Tally
from trueput.units import to_ns

COMMUNICATION: Final = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
_UNIT = re.compile(r"^(.*?) ?\(([^()]+)\)$")
_TIMES: Final = {"nsec": "ns", "usec": "us", "msec": "ms", "sec": "s", "μs": "us"}
_BYTES: Final = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
_DEVICE = re.compile(r"^(.*) \((\d{1,9})\)$")
_COPY = re.compile(r"^\[CUDA (Unified Memory )?memcpy ([\w-]+)\]$", re.IGNORECASE)
_SIDES = re.compile(r"(Host|Device|Peer|Array)-to-(Host|Device|Peer|Array)")
_LONGEST_NAME: Final = 2048
_FAR_NS: Final = 2**61


@dataclass(frozen=True)
class Header:
    """The columns of one report: name -> position, and the unit of each."""

    names: dict[str, int]
    units: dict[str, str]
    width: int

    @property
    def is_trace(self) -> bool:
        """Whether this is cuda_gpu_trace."""
        return {"Start", "Duration", "CorrId", "Strm", "Name"} <= self.names.keys()


def header_of(line: bytes) -> Header | None:
    """Return the columns that a line names; None where it is a notice."""
    text = line.decode("utf-8", "replace").strip().removeprefix("\ufeff")
    if text.count(",") < 2 or len(text) > 4096:
        return None
    fields = [f.strip() for f in _fields(text)]
    if "Name" not in fields:
        return None
    names: dict[str, int] = {}
    units: dict[str, str] = {}
    for at, name in enumerate(fields):
        found = _UNIT.match(name)
        plain = found[1] if found else name
        names.setdefault(plain, at)
        units.setdefault(plain, found[2] if found else "")
    return Header(names, units, len(fields))


class Operations:
    """Rows of the reports of one file, and what is odd about them."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._devices: dict[str, tuple[int | None, str | None]] = {}
        self.kernels = 0
        self.others = 0
        self.spans = 0
        self.traces = 0
        self.dropped = 0
        self._latest_ns = 0
        self._in_order = True

    def header(self, header: Header) -> None:
        """Note the report that begins here."""
        if not header.is_trace:
            self._tally.add("NSTAT006")
            return
        self.traces += 1
        unit = header.units["Start"]
        if _TIMES.get(unit, unit) != "ns":
            self._tally.add("NSTAT008", text=unit[:8])

    def rows(self, data: bytes, header: Header, line: int) -> Iterator[Item]:
        """Yield the operations of a run of data lines, the first of which is number `line`."""
        for at, columns in self._parsed(data, header, line):
            rows = [r for r in self._operations(columns, header, line + at) if r is not None]
            if rows:
                yield Batch("gpu_ops", rows)

    def _parsed(
        self, data: bytes, header: Header, line: int
    ) -> Iterator[tuple[int, dict[str, list[str]]]]:
        """Yield pieces of columns as texts, by name, with the first line of each from `line` on."""
        text = data.decode("utf-8", "replace")
        table = _at_once(text.encode(), header)
        if table is None:
            table = self._line_by_line(text, header, line)
        for at in range(0, table.num_rows, BATCH_ROWS):
            piece = table.slice(at, BATCH_ROWS)
            texts: dict[str, Any] = {
                n: piece.column(c).to_pylist() for n, c in header.names.items()
            }
            yield at, texts

    def _line_by_line(self, text: str, header: Header, line: int) -> pa.Table:
        rows: list[list[str]] = []
        for at, one in enumerate(text.split("\n")):
            fields = _fields(one)
            if len(fields) == header.width:
                rows.append(fields)
            elif one.strip():
                self._tally.add("NSTAT002", line + at)
                self.dropped += len(fields) * 2 > header.width
        columns = list(zip(*rows, strict=True)) if rows else [()] * header.width
        arrays = [pa.array(list(c), pa.string()) for c in columns]
        return pa.table(arrays, names=[str(at) for at in range(header.width)])

    def _operations(
        self, columns: dict[str, list[str]], header: Header, line: int
    ) -> Iterator[dict[str, Any] | None]:
        unit = header.units["Start"]
        time = _TIMES.get(unit, unit)
        size = _BYTES.get(header.units.get("Bytes", ""), 0)
        empty = [""] * len(columns["Start"])
        fields = [columns.get(n, empty) for n in ("Start", "Duration", "Device", "Ctx", "Strm",
                                                  "Bytes", "Name")]  # fmt: skip
        for at, (start, length, device, context, stream, moved, name) in enumerate(
            zip(*fields, strict=True)
        ):
            begin, took = _ns(start, time), _ns(length, time)
            if begin is None or took is None or took < 0:
                self._tally.add("NSTAT003", line + at)
                self.dropped += 1
                continue
            self._in_order = self._in_order and begin >= self._latest_ns
            self._latest_ns = begin
            ordinal, key = self._device(device)
            row: dict[str, Any] = {
                "start_at_ns": begin,
                "end_at_ns": begin + took,
                "device": ordinal,
                "device_key": key,
                "context_id": _count(context),
                "stream": _count(stream),
                "quality": None if took else "zero_duration",
                **_kind(name, _moved(moved, size)),
            }
            if not took:
                self._tally.add("NSTAT009", line + at)
            self.kernels += row["kind"] == "kernel"
            self.others += row["kind"] != "kernel"
            self.spans += row["kind"] == "graph_span"
            yield row

    def _device(self, text: str) -> tuple[int | None, str]:
        found = _DEVICE.match(text)
        ordinal = int(found[2]) if found else None
        key = "p?:?" if ordinal is None else f"p?:{ordinal}"
        if key not in self._devices:
            self._devices[key] = (ordinal, found[1][:200] if found else None)
        return ordinal, key

    def last_line(self, tail: bytes) -> None:
        """Judge the end of a file without a last newline: data that stops short is cut."""
        last = tail.rsplit(b"\n", 1)[-1]
        if last[:1].isdigit() or last[:1] == b'"':
            self._tally.add("NSTAT005")

    def devices(self) -> list[dict[str, Any]]:
        """Return the rows of gpu_devices."""
        return [
            {"device_key": key, "device": ordinal, "name": name}
            for key, (ordinal, name) in sorted(self._devices.items())
        ]

    def capture(self, *, partial: bool) -> dict[str, Any]:
        """Return the row of gpu_captures.

        The report is in order of start: what follows a cut began after all that is read.
        """
        return {
            "profiler": "nsys",
            "status": "partial" if partial else "whole",
            "operations_lost": (partial and not (self._in_order and self.traces == 1))
            or loses_much(self.dropped, self.kernels + self.others + self.dropped),
            "kernel_rows": self.kernels,
            "graph_span_rows": self.spans,
            "dropped_rows": self.dropped,
            "dropped_operations": self.dropped or None,
        }


def _at_once(data: bytes, header: Header) -> pa.Table | None:
    """Return the columns where every line is a row; None where one is not, or swallows others."""
    names = [str(at) for at in range(header.width)]
    try:
        table = pacsv.read_csv(
            io.BytesIO(data),
            read_options=pacsv.ReadOptions(
                column_names=names, use_threads=False, block_size=len(data) + 1
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException:
        return None
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return table if table.num_rows == lines else None


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _ns(text: str, unit: str) -> int | None:
    try:
        found = int(text) if unit == "ns" else to_ns(text, unit)
    except (ValueError, KeyError):
        found = to_ns(text, "ns") if unit == "ns" else None
    return found if found is not None and abs(found) < _FAR_NS else None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def _moved(text: str, size: int) -> int | None:
    """Return bytes; what the report rounded to 0 is unknown, not nothing."""
    try:
        number = float(text) * size
    except ValueError:
        return None
    return round(number) if 0 < number < 2**62 else None


def _kind(name: str, moved: int | None) -> dict[str, Any]:
    found = _COPY.match(name)
    if found:
        sides = _SIDES.search(found[2])
        short = f"{sides[1][0]}to{sides[2][0]}" if sides else found[2]
        return {"kind": "memcpy", "name": f"{'unified ' * bool(found[1])}{short}", "bytes": moved}
    if name.lower().startswith("[cuda memset"):
        return {"kind": "memset", "name": "memset", "bytes": moved}
    if name.lower().startswith("[cuda graph"):
        return {"kind": "graph_span"}
    kind = "communication" if COMMUNICATION.search(name) else "compute"
    return {"kind": "kernel", "class": kind, "name": name[:_LONGEST_NAME] or None}
