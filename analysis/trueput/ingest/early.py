"""Operations that cannot have begun when a profile says: marked, and told."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.operations.early import (
    Early,
    Long,
    before_every_call,
    early_operations,
)
from trueput.attribution.gpu.profile.idle_within import idle_within
from trueput.attribution.gpu.profile.marks import numbers
from trueput.ingest.read import rewrite
from trueput.ingest.words import IMPLAUSIBLE, with_quality
from trueput.source_api import Problem, Severity
from trueput.units import ns_text


@dataclass(frozen=True)
class Begun:
    """What came of it: a problem, and in how much idle time these may have run (ns)."""

    problem: Problem
    count: int
    idle_ns: int


def mark_early(part: Path, launches: Path, long: Long) -> Begun | None:
    """Mark the operations of a part of gpu_ops that begin before their launch, and tell them.

    A part without any is not written.
    """
    early = early_operations(part, launches, long)
    if early is None:
        return None
    number = count()

    def marked(rows: pa.Table) -> pa.Table:
        which = early.of_group(next(number), rows.num_rows)
        return with_quality(rows, which, IMPLAUSIBLE) if which.any() else rows

    rewrite(part, "gpu_ops", marked)
    text = (
        f"operations that begin before the call that launched them, by up to {ns_text(early.by_ns)}"
        f"; they stay in gpu_ops with quality {IMPLAUSIBLE} and count nowhere"
    )
    problem = Problem("INGEST007", Severity.WARNING, text, count=early.row.size)
    return Begun(problem, early.row.size, _idle_ns(part, early))


def mark_before(part: Path, launches: Path) -> list[Problem]:
    """Mark the operations of a part of gpu_ops that ended before the capture began, and tell them.

    A clock that was read as zero gives such; they would let the capture begin with them. A part
    without any is not written.
    """
    until_ns = before_every_call(part, launches)
    if until_ns is None:
        return []
    marks: list[int] = []

    def marked(rows: pa.Table) -> pa.Table:
        which = numbers(rows.column("end_at_ns")) < until_ns
        marks.append(int(which.sum()))
        return with_quality(rows, which, IMPLAUSIBLE) if which.any() else rows

    rewrite(part, "gpu_ops", marked)
    text = (
        f"operations that end long before the first launch of the file; they stay in gpu_ops with "
        f"quality {IMPLAUSIBLE} and count nowhere"
    )
    return [Problem("INGEST007", Severity.WARNING, text, count=sum(marks))]


def _idle_ns(part: Path, early: Early) -> int:
    """Return the idle time from their calls to their ends, of the process with most of it."""
    most = 0
    for process in dict.fromkeys(early.processes):
        mine = np.array([name == process for name in early.processes])
        mine &= early.end_ns > early.launched_ns
        if mine.any():
            found = idle_within(part, process, early.launched_ns[mine], early.end_ns[mine])
            most = max(most, found)
    return most
