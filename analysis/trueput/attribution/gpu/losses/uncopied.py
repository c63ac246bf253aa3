"""Iterations of a log that generated tokens, and no copy of a profile brought them to the host.

An engine learns of each iteration's tokens by a copy from the device; it may make more copies, and
an engine that makes fewer (every second iteration, or none at all) makes far fewer. So a process
that made one for most iterations, and not for all, shows that some of its steps are missing. Asked
where no annotation says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trueput.attribution.gpu.losses.holes import Reach
from trueput.attribution.gpu.profile.marks import numbers, row_groups, set_aside, words
from trueput.attribution.gpu.time.clock import SECOND_NS, SLACK_NS, logged
from trueput.attribution.records import Ints

FEW: Final = 3
"""Of fewer iterations nothing is concluded."""
MOST: Final = 0.6
"""A process with copies for fewer iterations learns of its tokens in another way."""
_TO_HOST: Final = re.compile(r"dtoh|device.?to.?host|d2h", re.IGNORECASE)
APART_NS: Final = 100_000_000
"""In such steps the difference of the clocks is tried."""
_NEVER: Final = 1 << 60
_COLUMNS: Final = ("process_key", "name", "quality", "start_at_ns", "end_at_ns")


@dataclass(frozen=True)
class Uncopied:
    """How many iterations a process of a file made no copy for, of how many."""

    lost: int
    steps: int
    time_ns: int
    """How long as many took at most."""
    span_ns: int


def uncopied(
    source: str, operations: Path, iterations: pa.Table, offsets: Mapping[str, int]
) -> Uncopied | None:
    """Return what the process with most of it lacks; None where nothing is, or can be told.

    `iterations` are of one engine; `offsets` (ns by file) take instants to UTC.
    """
    engines = [len(pc.unique(iterations.column(name))) for name in ("source_id", "engine")]
    if not iterations.num_rows or max(engines) > 1:
        return None
    reach, copies = Reach(), dict[str | None, list[Ints]]()
    for rows in row_groups([operations], _COLUMNS):
        for name in ("start_at_ns", "end_at_ns"):
            reach.add(numbers(rows.column(name)))
        _note(rows, copies)
    printed, known = logged(iterations, offsets)
    known &= numbers(iterations.column("generation_tokens")) > 0
    at, took = printed[known] - offsets.get(source, 0), _elapsed(iterations)[known]
    lost = steps = 0
    for instants in copies.values():
        missing, asked = _missing(np.sort(np.concatenate(instants)), at, int(took.max()), reach)
        if missing <= (1 - MOST) * asked and missing > lost:
            lost, steps = missing, asked
    if lost < FEW:
        return None
    longest = int(np.sort(took)[-lost:].sum())
    return Uncopied(lost, steps, longest, reach.last_ns - reach.first_ns)


def _missing(copied: Ints, printed: Ints, longest_ns: int, reach: Reach) -> tuple[int, int]:
    """Return how many iterations have no copy at least, and of how many.

    Asked of every stretch of whole seconds that the file covers: what is printed in it was copied
    in it, or by as much before as a line may be late and an iteration long. By how much the clocks
    differ is not known: the difference that leaves the fewest is taken.
    """
    if not printed.size:
        return 0, 0
    first = int(printed.min())
    second = np.arange((int(printed.max()) - first) // SECOND_NS + 2) * SECOND_NS + first
    until = np.searchsorted(np.sort(printed), second, "left")
    found: list[tuple[int, int]] = []
    for apart in range(-SLACK_NS, SLACK_NS + 1, APART_NS):
        low, high = second + apart - SLACK_NS - longest_ns, second + apart + APART_NS
        begins, ends = low >= reach.first_ns, high <= reach.last_ns
        begun = np.where(begins, until - np.searchsorted(copied, low, "left"), _NEVER)
        ended = np.where(ends, until - np.searchsorted(copied, high, "right"), -_NEVER)
        least = np.minimum.accumulate(begun)
        last = int(np.argmax(ended - least))
        from_ = int(np.argmin(begun[: last + 1]))
        missing, asked = int(ended[last] - least[last]), int(until[last] - until[from_])
        found.append((missing, asked) if 0 < missing <= asked else (0, asked))
    return min(found)


def _note(rows: Any, copies: dict[str | None, list[Ints]]) -> None:
    """Add when the copies to the host of a row group began, by process."""
    name, process = words(rows.column("name")), words(rows.column("process_key"))
    to_host = [_TO_HOST.search(text or "") is not None for text in name.dictionary.to_pylist()]
    if not any(to_host):
        return
    kept = np.array([*to_host, False])[_filled(name)] & ~set_aside(rows.column("quality"))
    names: list[str | None] = [*process.dictionary.to_pylist(), None]
    start, codes = numbers(rows.column("start_at_ns")), _filled(process)
    for code in np.unique(codes[kept]).tolist():
        copies.setdefault(names[code], []).append(start[kept & (codes == code)])


def _filled(column: Any) -> Any:
    """Return the positions of a dictionary column, the one behind the last for NULL."""
    return pc.fill_null(column.indices, len(column.dictionary)).to_numpy(zero_copy_only=False)


def _elapsed(iterations: pa.Table) -> Ints:
    if "elapsed_ns" not in iterations.column_names:
        return np.zeros(iterations.num_rows, np.int64)
    return numbers(iterations.column("elapsed_ns"))
