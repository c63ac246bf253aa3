"""RUNTIME -> gpu_launches: the calls that have an operation, and those whose name says launch.

RUNTIME holds every runtime and driver call. Kept is what launched work: each call whose process and
correlation id some operation has, by an exact test, whatever the call is named, and each call named
as a launch, copy or memset, so that launches whose operations are missing can be seen. A call that
returned an error and has no operation launched nothing: it is counted, and not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from trueput.nsys_rows.keys import KeySet
from trueput.nsys_rows.tables import (
    Coded,
    Flags,
    Names,
    Query,
    Tables,
    coded,
    filtered,
    numbers_of,
    sound_times,
    without_zero,
)
from trueput.scan import Damage
from trueput.source_api import Batch, Item
from trueput.tally import Tally

TABLE: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_NUMBERS = ("start", "end", "globalTid", "correlationId", "nameId", "returnValue")
_VERSION = re.compile(r"_v\d{4,}$")
_LAUNCH = re.compile(r"(?:cuda|cu|hip)(?:Launch|GraphLaunch|Memcpy|Memset|MemPrefetch|GraphUpload)")
_GRAPH = re.compile(r"(?:cuda|cu|hip)GraphLaunch")
THREAD_MASK: Final = 0xFFFFFF


@dataclass
class LaunchCounts:
    """What was met in the table of calls."""

    traced: bool = False
    launches: int = 0
    graph_launches: int = 0
    graphs_seen: bool = False
    """Whether an operation has the id of a graph launch."""
    failed: int = 0
    """Launches that returned an error, and launched nothing."""
    damaged: bool = False


@lru_cache(maxsize=8192)
def plain_api(name: str | None) -> str | None:
    """Return the name of a call without its version: `cudaLaunchKernel` for `..._v7000`."""
    return None if name is None else _VERSION.sub("", name)


@dataclass
class Launches:
    """Reads the calls of one export, after its operations."""

    tables: Tables
    names: Names
    tally: Tally
    keys: KeySet
    counts: LaunchCounts

    def read(self) -> Iterator[Item]:
        """Yield the rows of gpu_launches."""
        self.counts.traced = bool(self.tables.columns(TABLE))
        for batch in self.tables.batches(Query(TABLE, _NUMBERS)):
            if isinstance(batch, Damage):
                self.tally.add("NSYS002", text=f"{TABLE}: {batch.text}")
                self.counts.damaged = True
                return
            rows = self._rows(batch)
            if rows is not None:
                yield Batch("gpu_launches", rows)

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        api = coded(batch.column("nameId"))
        texts = [plain_api(t) for t in self.names.of(api.values)]
        launch = [t is not None and _LAUNCH.match(t) is not None for t in texts]
        graph = [t is not None and _GRAPH.match(t) is not None for t in texts]
        thread = coded(batch.column("globalTid"))
        processes = [None if t is None else t & ~THREAD_MASK for t in thread.values]
        joined = self._joined(batch, thread, processes)
        keep = api.flags(launch) | joined
        failed = keep & ~joined & (numbers_of(batch, "returnValue") != 0)
        self.counts.failed += int(failed.sum())
        keep &= ~failed
        if any(graph):
            self.counts.graph_launches += int((api.flags(graph) & ~failed).sum())
            self.counts.graphs_seen |= bool((api.flags(graph) & joined).any())
        keep &= self._sound(batch, keep)
        if not keep.any():
            return None
        kept = filtered(batch, keep)
        self.counts.launches += len(kept)
        if len(kept) < len(batch):
            api = Coded(api.codes[keep], api.values)
            thread = Coded(thread.codes[keep], thread.values)
        return pa.RecordBatch.from_pydict(
            {
                "process_key": thread.text([None if p is None else str(p) for p in processes]),
                "thread_key": thread.text([None if t is None else str(t) for t in thread.values]),
                "correlation_id": without_zero(kept, "correlationId"),
                "api": api.text(texts),
                "start_at_ns": kept.column("start"),
                "end_at_ns": kept.column("end"),
            }
        )

    def _joined(self, batch: pa.RecordBatch, thread: Coded, processes: list[int | None]) -> Flags:
        ids = numbers_of(batch, "correlationId")
        different = sorted(set(processes), key=str)
        if len(different) == 1:
            return self.keys.holds(different[0], ids)
        found = np.zeros(len(ids), np.bool_)
        for process in different:
            here = thread.flags([p == process for p in processes]).nonzero()[0]
            found[here] = self.keys.holds(process, ids[here])
        return found

    def _sound(self, batch: pa.RecordBatch, keep: Flags) -> Flags:
        good = sound_times(batch)
        wrong = int((keep & ~good).sum())
        if wrong:
            self.tally.add("NSYS009", text="calls", count=wrong)
        return good


def sole_process(tables: Tables) -> int | None:
    """Return the process of all calls where there is one only, else None."""
    found: set[int] = set()
    for batch in tables.batches(Query(TABLE, ("globalTid",))):
        if isinstance(batch, Damage):
            return None
        found |= {
            t & ~THREAD_MASK for t in coded(batch.column("globalTid")).values if t is not None
        }
        if len(found) > 1:
            return None
    return found.pop() if found else None
