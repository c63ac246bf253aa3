"""GPU operations of a run -> when each device was busy, and what each file saw of each device.

A union of intervals needs its operations in order of start, and a question about it would sort ten
million rows each time. Here it is worked out once: row groups are read in order of their earliest
start, so that at any moment all that is still to come begins at the earliest start of the next one.
What ended before it is final and leaves the memory. Files, kinds and streams may interleave in any
way; the further an operation lies from its place in time, the more stretches are held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.profile.op_groups import COPY, KERNEL, SPAN, Place, groups_by_start
from trueput.attribution.gpu.profile.stretches import NONE, SLICE, Cover, Stretches, united
from trueput.attribution.run_io import Row

_WORDS: Final = {KERNEL: "kernel", COPY: "copy"}
_BOUNDS: Final = np.iinfo(np.int64)


@dataclass
class _Seen:
    """What one file holds of one device."""

    first_ns: int = _BOUNDS.max
    last_ns: int = _BOUNDS.min
    operations: int = 0
    graph_spans: int = 0
    device: int | None = None
    process_key: str | None = None

    def add(self, some: Place) -> None:
        """Add operations of the file on the device."""
        self.first_ns = min(self.first_ns, int(some.start_ns.min()))
        self.last_ns = max(self.last_ns, int(some.end_ns.max()))
        self.operations += some.start_ns.size
        if some.kind == SPAN:
            self.graph_spans += some.start_ns.size
        if some.ordinals.size:
            least = int(some.ordinals.min())
            self.device = least if self.device is None else min(self.device, least)
        process = some.least_process()
        if process is not None:
            self.process_key = (
                process if self.process_key is None else min(self.process_key, process)
            )


class GpuUnion:
    """The operations of one run's parts, united device by device over all its files.

    The parts must be on one clock. `stretches` makes the rows of `gpu_busy` while it reads, and
    `totals` then gives the rows of `gpu_op_totals`.
    """

    def __init__(self, run_id: str, parts: Sequence[Path]) -> None:
        self._run_id = run_id
        self._parts = tuple(parts)
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._is_whole = False

    def stretches(self) -> Iterator[pa.Table]:
        """Yield the rows of `gpu_busy`; those of a device and kind in order of time."""
        self._seen, self._is_whole = {}, False
        covers: dict[str, Cover] = {}
        for places, next_ns in groups_by_start(self._parts):
            for place in places:
                self._take(place, covers)
            pieces = _Pieces(self._run_id)
            for device, cover in covers.items():
                for kernels, copies in cover.settled(next_ns):
                    pieces.add(device, kernels, copies)
                    if pieces.rows >= SLICE:
                        yield pieces.table()
                        pieces = _Pieces(self._run_id)
            if pieces.rows:
                yield pieces.table()
        self._is_whole = True

    def totals(self) -> list[Row]:
        """Return the rows of `gpu_op_totals`; none unless `stretches` came to its end."""
        if not self._is_whole:
            return []
        return [
            {
                "source_id": source,
                "device_key": device,
                "process_key": seen.process_key,
                "device": seen.device,
                "operations": seen.operations,
                "graph_spans": seen.graph_spans,
                "first_at_ns": seen.first_ns,
                "last_at_ns": seen.last_ns,
            }
            for (source, device), seen in sorted(self._seen.items())
        ]

    def _take(self, some: Place, covers: dict[str, Cover]) -> None:
        """Add operations to what was seen and to the cover of their device."""
        self._seen.setdefault((some.source, some.device), _Seen()).add(some)
        cover = covers.setdefault(some.device, Cover())
        if some.kind == KERNEL:
            cover.add(_stretches(some), NONE)
        elif some.kind == COPY:
            cover.add(NONE, _stretches(some))


def _stretches(some: Place) -> Stretches:
    lasts = some.end_ns > some.start_ns
    if lasts.all():
        return united(some.start_ns, some.end_ns)
    return united(some.start_ns[lasts], some.end_ns[lasts])


def _array(values: Any, kind: pa.DataType) -> Any:
    """Return numbers as an Arrow array of the same bytes."""
    whole: Any = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(whole)])


@lru_cache(maxsize=16)
def _texts(words: tuple[str, ...]) -> Any:
    """Return the words of a dictionary, which are the same from piece to piece."""
    return pa.array(words, pa.string())


@dataclass
class _Pieces:
    """Stretches that are final, of several devices, as rows of `gpu_busy`."""

    run_id: str
    devices: list[str] = field(default_factory=list)
    kept: list[tuple[int, Stretches, Any]] = field(default_factory=list)

    def add(self, device: str, kernels: Stretches, copies: Stretches) -> None:
        """Take the stretches of one device."""
        if not kernels.size and not copies.size:
            return
        if not self.devices or self.devices[-1] != device:
            self.devices.append(device)
        start = np.concatenate((kernels.start_ns, copies.start_ns))
        end = np.concatenate((kernels.end_ns, copies.end_ns))
        kind = np.repeat(np.array([KERNEL, COPY], np.int32), (kernels.size, copies.size))
        if kernels.size and copies.size:
            order = np.argsort(start, kind="stable")
            start, end, kind = start[order], end[order], kind[order]
        self.kept.append((len(self.devices) - 1, Stretches(start, end), kind))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(found.size for _, found, _ in self.kept)

    def table(self) -> pa.Table:
        """Return the rows; those of a device by start."""
        sizes = [found.size for _, found, _ in self.kept]
        device = np.repeat(np.array([at for at, _, _ in self.kept], np.int32), sizes)
        coded = {
            "run_id": (np.zeros(device.size, np.int32), (self.run_id,)),
            "device_key": (device, tuple(self.devices)),
            "kind": (np.concatenate([kind for _, _, kind in self.kept]), tuple(_WORDS.values())),
        }
        columns: dict[str, Any] = {
            name: pa.DictionaryArray.from_arrays(_array(codes, pa.int32()), _texts(texts))
            for name, (codes, texts) in coded.items()
        }
        for name in ("start_ns", "end_ns"):
            values = np.concatenate([getattr(found, name) for _, found, _ in self.kept])
            columns[f"{name[:-3]}_at_ns"] = _array(values, pa.int64())
        return pa.table(columns)
