"""Collected samples -> batches of `engine_samples`, with the life of the engine they belong to."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from trueput.source_api import BATCH_ROWS, Batch
from trueput.sources.prometheus_text.series import Series


@dataclass
class Lives:
    """When each engine's counters began again, on an ordering key (instant, or line number)."""

    resets: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def know(self, series: Series) -> None:
        """Remember that the engine of `series` exists."""
        self.resets.setdefault((series.instance, series.engine), [])

    def counter_fell(self, series: Series, key: int) -> bool:
        """Begin a new life unless one began since the last sample of `series`; True if so."""
        return self._begin((series.instance, series.engine), series.last_key, key)

    def process_restarted(self, series: Series, key: int) -> bool:
        """Begin a new life of every engine of the process; True if it is new for any."""
        new = False
        for engine in self.resets:
            if engine[0] == series.instance:
                new |= self._begin(engine, series.last_key, key)
        return new

    def _begin(self, engine: tuple[str, str], before: int | None, now: int) -> bool:
        instants = self.resets.setdefault(engine, [])
        at = bisect_right(instants, now)
        if at and (before is None or instants[at - 1] > before or instants[at - 1] == now):
            return False
        insort(instants, now)
        return True


@dataclass
class Rows:
    """Samples not yet handed out, by column; `taken` counts those that were."""

    ixs: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    ats: list[int | None] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    taken: int = 0

    def __len__(self) -> int:
        return len(self.ixs)

    def forget_times(self, count: int) -> None:
        """Set the instants of the last `count` samples to NULL."""
        count = min(count, len(self.ats))
        self.ats[len(self.ats) - count :] = [None] * count

    def take(self, count: int, series: list[Series], lives: Lives) -> Iterator[Batch]:
        """Yield and drop the first `count` samples."""
        for start in range(0, count, BATCH_ROWS):
            part = slice(start, min(start + BATCH_ROWS, count))
            yield self._batch(part, series, lives)
        self.taken += count
        for column in (self.ixs, self.values, self.ats, self.keys, self.lines):
            del column[:count]

    def _batch(self, part: slice, series: list[Series], lives: Lives) -> Batch:
        ixs = np.array(self.ixs[part], dtype=np.int64)
        used, where = np.unique(ixs, return_inverse=True)
        chosen = [series[ix] for ix in used.tolist()]
        keys = np.array(self.keys[part], dtype=np.int64)
        take = pa.array(where, pa.int64())
        columns: dict[str, Any] = {
            "line": pa.array(self.lines[part], pa.int64()),
            "at_ns": pa.array(self.ats[part], pa.int64()),
            "incarnation": pa.array(_incarnations(where, keys, chosen, lives), pa.int64()),
            "le": pa.array([s.le for s in chosen], pa.float64()).take(take),
            "value": pa.array(self.values[part], pa.float64()),
        }
        for name in ("engine", "metric", "labels", "kind"):
            words = pa.array([getattr(s, name) for s in chosen], pa.string())
            columns[name] = words.take(take)
        return Batch("engine_samples", pa.RecordBatch.from_pydict(columns))


def _incarnations(
    where: np.ndarray[tuple[int], np.dtype[np.int64]],
    keys: np.ndarray[tuple[int], np.dtype[np.int64]],
    chosen: list[Series],
    lives: Lives,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    result = np.zeros(len(where), dtype=np.int64)
    for engine, resets in lives.resets.items():
        if not resets:
            continue
        mine = np.array([(s.instance, s.engine) == engine for s in chosen])[where]
        result[mine] = np.searchsorted(np.array(resets), keys[mine], side="right")
    return result
