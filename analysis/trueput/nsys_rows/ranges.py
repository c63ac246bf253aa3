"""NVTX_EVENTS -> gpu_ranges: push/pop and start/end ranges, with the step that a name tells of.

The name is the text, else the string that the text id names; the domain is a column of its own.
A range that ends on another thread than it began on has no thread: no call can be proven to lie in
it, and it is not projected on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trueput.nsys_rows.launches import THREAD_MASK
from trueput.nsys_rows.operations import text_of
from trueput.nsys_rows.tables import (
    Coded,
    Column,
    Flags,
    Names,
    Query,
    Tables,
    coded,
    filtered,
    numbers_of,
    paired,
    sound_times,
    without,
)
from trueput.scan import Damage
from trueput.source_api import Batch, Item
from trueput.step_annotation import STEP_NUMBERS, StepComposition, parse_step
from trueput.tally import Tally

TABLE: Final = "NVTX_EVENTS"
_START_END = (60, 71)
_RANGES = (59, 60, 70, 71)
_DOMAIN_CREATED = 75
_NUMBERS = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId", "domainId")
_LONGEST_NAME: Final = 1024
_LONGEST_STEP: Final = 4096

_step = lru_cache(maxsize=16_384)(parse_step)


@dataclass
class Ranges:
    """Reads the annotation ranges of one export."""

    tables: Tables
    names: Names
    tally: Tally
    damaged: bool = False

    def read(self) -> Iterator[Item]:
        """Yield the rows of gpu_ranges."""
        if not self.tables.columns(TABLE):
            return
        domains = self._domains()
        query = Query(TABLE, _NUMBERS, ("text",), ("eventType", _RANGES))
        for batch in self.tables.batches(query):
            if isinstance(batch, Damage):
                self.tally.add("NSYS002", text=f"{TABLE}: {batch.text}")
                self.damaged = True
                return
            sound = self._sound(batch)
            if len(sound):
                yield Batch("gpu_ranges", self._rows(sound, domains))

    def _domains(self) -> dict[tuple[int | None, int | None], str]:
        """Return domain names by process and id."""
        query = Query(
            TABLE, ("domainId", "textId", "globalTid"), ("text",), ("eventType", (_DOMAIN_CREATED,))
        )
        found: dict[tuple[int | None, int | None], str] = {}
        for batch in self.tables.batches(query):
            if isinstance(batch, Damage):
                break
            for row in batch.to_pylist():
                name = row["text"] or self.names.of([row["textId"]])[0]
                process = None if row["globalTid"] is None else row["globalTid"] & ~THREAD_MASK
                if name and len(found) < 65_536:
                    found[process, row["domainId"]] = name[:_LONGEST_NAME]
        return found

    def _sound(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        closed: Flags = np.ones(len(batch), np.bool_)
        if batch.column("end").null_count:
            closed = batch.column("end").is_valid().to_numpy(zero_copy_only=False)
            self.tally.add("NSYS007", count=int((~closed).sum()))
        wrong = closed & ~sound_times(batch)
        if wrong.any():
            self.tally.add("NSYS009", text="ranges", count=int(wrong.sum()))
        return filtered(batch, closed & ~wrong)

    def _rows(
        self, batch: pa.RecordBatch, domains: dict[tuple[int | None, int | None], str]
    ) -> pa.RecordBatch:
        thread = coded(batch.column("globalTid"))
        processes = [None if t is None else t & ~THREAD_MASK for t in thread.values]
        style = np.isin(numbers_of(batch, "eventType"), _START_END)
        out: dict[str, Any] = {
            "process_key": thread.text([None if p is None else str(p) for p in processes]),
            "thread_key": self._threads(batch, thread),
            "start_at_ns": batch.column("start"),
            "end_at_ns": batch.column("end"),
            "style": text_of(len(batch), "push_pop")
            if not style.any()
            else Coded(style.astype(np.int32), []).text(["push_pop", "start_end"]),
        }
        if domains:
            of_process = Coded(thread.codes, processes)
            pairs = paired(of_process, coded(batch.column("domainId")))
            out["domain"] = pairs.text([domains.get((p, d)) for p, d in pairs.values])
        names = coded(self._texts(batch))
        out["name"] = names.text([t and t[:_LONGEST_NAME] for t in names.values])
        out |= _composition(names)
        return pa.RecordBatch.from_pydict(out)

    def _threads(self, batch: pa.RecordBatch, thread: Coded) -> Column:
        keys = thread.text([None if t is None else str(t) for t in thread.values])
        ends = batch.column("endGlobalTid")
        if ends.null_count == len(ends):
            return keys
        last = numbers_of(batch, "endGlobalTid")
        crossing = (last != 0) & (last != numbers_of(batch, "globalTid"))
        if not crossing.any():
            return keys
        self.tally.add("NSYS008", count=int(crossing.sum()))
        return without(keys.cast(pa.string()), pa.array(crossing))

    def _texts(self, batch: pa.RecordBatch) -> Column:
        """Return the text of each range, else the string of its text id, else NULL."""
        texts: Column = batch.column("text")
        empty = pc.equal(texts, pa.scalar(""))
        if not pc.any(empty).as_py():
            return texts
        ids = coded(batch.column("textId"))
        named = ids.text(self.names.of(ids.values)).cast(pa.string())
        compute: Any = pc
        found: Column = compute.if_else(empty, named, texts)
        return found


def _composition(names: Coded) -> dict[str, Column]:
    steps = [_step(text) if text and len(text) <= _LONGEST_STEP else None for text in names.values]
    if not any(steps):
        return {}
    out: dict[str, Column] = {"dialect": names.text([s.dialect if s else None for s in steps])}
    for column in STEP_NUMBERS:
        out[column] = names.numbers(_told(steps, column))
    return out


def _told(steps: Sequence[StepComposition | None], column: str) -> list[int | None]:
    values = [None if s is None else getattr(s, column) for s in steps]
    return [v if v is None or v < 2**63 else None for v in values]
