"""Operations that seem to begin before the call that launched them: their starts cannot be.

In every recorded profile each operation begins after its call. Clocks of devices are fitted to the
host's, to within milliseconds: what begins earlier than that was given a wrong start. Only what is
longer than that, and no speck of its file, is looked at, since a wrong start with a sound end makes
it so; and where many of a file begin early, it is the clock of the device, and none is said to be
wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from trueput.attribution.gpu.operations.plausible import span_of
from trueput.attribution.gpu.profile.marks import Bools, numbers, row_groups, set_aside, words
from trueput.attribution.records import Ints

SLACK_NS: Final = 10_000_000
"""Clocks may be off by as much."""
SHARE: Final = 1_000
"""One so much shorter than its file is not looked at: few are longer, and only those matter ..."""
ALWAYS_NS: Final = 1_000_000_000
"""... but for what is longer than this, should a wrong instant have stretched the file."""
MOST_HELD: Final = 100_000
"""More operations of such a length are no exception, and none is looked at."""
MOST_EARLY: Final = 0.1
"""Of a larger share of a file the starts are of another clock."""
SAMPLE: Final = 1_000_000
"""About so many launches tell that share."""
BEFORE_NS: Final = 1_000_000_000
"""What was launched before a capture began, and is in it, has not ended so long before."""
_LAST: Final = np.iinfo(np.int64).max
_OPERATION: Final = ("process_key", "correlation_id", "quality", "start_at_ns", "end_at_ns")
_LAUNCH: Final = ("process_key", "correlation_id", "start_at_ns")


def before_every_call(part: Path, launches: Path) -> int | None:
    """Return the instant before which no operation of a part of gpu_ops can have ended; None where
    all are sound, or too many would not be.

    It is BEFORE_NS before the first launch of the file: until then nobody watched. Most files are
    told by their statistics alone.
    """
    first_ns, _, rows = span_of(part)
    called_ns, _, _ = span_of(launches)
    if first_ns is None or called_ns is None or first_ns >= called_ns - BEFORE_NS:
        return None
    until_ns = called_ns - BEFORE_NS
    ends = (numbers(g.column("end_at_ns")) for g in row_groups([part], ("end_at_ns",)))
    early = sum(int((end < until_ns).sum()) for end in ends)
    return until_ns if 0 < early <= MOST_EARLY * rows else None


@dataclass
class Long:
    """The operations of a part that are long enough to be looked at, by row group."""

    least_ns: int = SLACK_NS
    rows: dict[int, Ints] = field(default_factory=dict)
    count: int = 0

    @classmethod
    def of(cls, part: Path) -> Long:
        """Return those of a part of gpu_ops, none yet; its statistics tell how long is long."""
        first, last, _ = span_of(part)
        span = ALWAYS_NS if first is None or last is None else (last - first) // SHARE
        return cls(max(SLACK_NS, min(span, ALWAYS_NS)))

    def look(self, group: int, start_ns: Ints, end_ns: Ints) -> None:
        """Take a row group's instants, all rows in their order."""
        found = np.flatnonzero(end_ns - start_ns > self.least_ns)
        self.count += found.size
        if found.size and self.count <= MOST_HELD:
            self.rows[group] = found


@dataclass
class Early:
    """The operations of a part that begin before their launch; arrays with an entry for each."""

    group: Ints
    row: Ints
    launched_ns: Ints
    """When the call began."""
    end_ns: Ints
    by_ns: int
    """How much earlier than its call the earliest begins."""
    processes: list[str | None]

    def of_group(self, number: int, rows: int) -> Bools:
        """Return for each row of a row group whether it is one of them."""
        found: Bools = np.zeros(rows, np.bool_)
        found[self.row[self.group == number]] = True
        return found


def early_operations(part: Path, launches: Path, long: Long) -> Early | None:
    """Return the long operations of a part of gpu_ops that begin before their launch; None without
    any.

    Of `launches` only the row groups are read that may hold theirs.
    """
    if not 0 < long.count <= MOST_HELD:
        return None
    names: dict[str, int] = {}
    held: list[Any] = []
    texts = ["process_key", "quality"]
    with pq.ParquetFile(part, read_dictionary=texts, pre_buffer=False) as file:
        for group, which in long.rows.items():
            rows = file.read_row_group(group, list(_OPERATION), use_threads=False).take(which)
            code = _codes(rows, names)
            ids, start, end = (numbers(rows.column(name)) for name in
                               ("correlation_id", "start_at_ns", "end_at_ns"))  # fmt: skip
            known = (ids > 0) & (code >= 0)
            known &= ~set_aside(rows.column("quality"))
            at = np.full(which.size, group, np.int64)
            held.append(np.stack((code, ids, at, which, start, end))[:, known])
    code, ids, group_of, row, start, end = np.concatenate(held, axis=1)
    if not ids.size:
        return None
    called = _called(launches, names, code, ids)
    early = (called != _LAST) & (called - SLACK_NS > start)
    if not early.any() or _share_early(part, launches, names) > MOST_EARLY:
        return None
    by_ns = int((called[early] - start[early]).max())
    texts = list(names)
    processes: list[str | None] = [texts[at] for at in code[early].tolist()]
    return Early(group_of[early], row[early], called[early], end[early], by_ns, processes)


def _called(launches: Path, names: dict[str, int], code: Ints, ids: Ints) -> Ints:
    """Return when the first call of each process and id began, the last instant without one."""
    called: Ints = np.full(ids.size, _LAST, np.int64)
    near = {"correlation_id": [(int(ids.min()), int(ids.max()))]}
    for rows in row_groups([launches], _LAUNCH, near):
        own, begun = numbers(rows.column("correlation_id")), numbers(rows.column("start_at_ns"))
        process = _codes(rows, names)
        for one in np.unique(code).tolist():
            mine = np.flatnonzero(code == one)
            theirs = np.flatnonzero((process == one) & np.isin(own, ids[mine]))
            order = theirs[np.lexsort((begun[theirs], own[theirs]))]
            first = np.searchsorted(own[order], ids[mine])
            some = first < order.size
            mine, first = mine[some], first[some]
            same = own[order][first] == ids[mine]
            mine, first = mine[same], first[same]
            called[mine] = np.minimum(called[mine], begun[order][first])
    return called


def _share_early(part: Path, launches: Path, names: dict[str, int]) -> float:
    """Return the share of a file's operations that begin before their launch, by a sample."""
    every = pq.read_metadata(launches).num_rows // SAMPLE + 1
    early = whole = 0
    held = []
    for rows in row_groups([part], _OPERATION):
        ids = numbers(rows.column("correlation_id"))
        known = (ids > 0) & (ids % every == 0) & ~set_aside(rows.column("quality"))
        held.append(
            np.stack((_codes(rows, names), ids, numbers(rows.column("start_at_ns"))))[:, known]
        )
    code, ids, start = np.concatenate(held, axis=1)
    if ids.size:
        called = _called(launches, names, code, ids)
        whole = int((called != _LAST).sum())
        early = int(((called != _LAST) & (called - SLACK_NS > start)).sum())
    return early / max(1, whole)


def _codes(rows: Any, names: dict[str, int]) -> Ints:
    """Return a number for the process of each row, -1 without one; `names` learns new ones."""
    column = words(rows.column("process_key"))
    told = [names.setdefault(name, len(names)) for name in column.dictionary.to_pylist()]
    codes = np.array([*told, -1], np.int64)
    found: Ints = codes[column.indices.fill_null(len(told)).to_numpy(zero_copy_only=False)]
    return found
