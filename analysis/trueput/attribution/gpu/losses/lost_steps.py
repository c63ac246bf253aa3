"""Steps that an engine ran while a profile shows nothing of them: annotated ones, or of the log.

A step is annotated and shows no kernel (`gpu.losses.empty_steps`). Or iterations of
the log lie between two that the annotations match, and fewer kernels began there than such steps
run at least. Or, where no annotation can be matched, the log prints iterations while no kernel ran
or was launched for so long that the second they print cannot be meant otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trueput.attribution.gpu.losses.between_steps import Steps, gone_between, is_kernel
from trueput.attribution.gpu.losses.empty_steps import empty_steps, first_after
from trueput.attribution.gpu.losses.holes import Reach
from trueput.attribution.gpu.losses.only_communication import uncomputed
from trueput.attribution.gpu.losses.uncopied import uncopied
from trueput.attribution.gpu.losses.ungraphed_steps import ungraphed_steps
from trueput.attribution.gpu.losses.unseen import is_compute_launch
from trueput.attribution.gpu.profile.idle_within import idle_within
from trueput.attribution.gpu.profile.marks import (
    Marks,
    Place,
    numbers,
    row_groups,
)
from trueput.attribution.gpu.time.axis import source_of
from trueput.attribution.gpu.time.clock import SECOND_NS, SLACK_NS, logged
from trueput.attribution.records import Ints

FEW: Final = 3
"""Of fewer iterations nothing is concluded."""
BIN_NS: Final = 100_000_000
MOST_BINS: Final = 1_000_000
_OPERATION: Final = ("process_key", "kind", "quality", "start_at_ns", "end_at_ns")


@dataclass(frozen=True)
class LostSteps:
    """What one file lacks of the steps that ran while it watched."""

    source: str
    lost: int
    steps: int
    what: str
    """What is lost, for people: `lost` of `steps` ..."""
    idle_ns: int
    """The idle time in which it may have run, of the device or process with most of it."""
    span_ns: int
    """How long the file watched."""
    shows_no_kernel: bool = False
    """The file shows no kernel at all: those may be in another file."""
    shows_no_compute: bool = False
    """All its kernels communicate: those of its process that compute may be in another file."""
    in_any_file: bool = False
    """Any file of the run that shows such kernels accounts for the steps: they name no process."""
    by_time: bool = False
    """The idle time alone says how much is lost: what is counted is where it shows."""


def lost_steps(
    parts: Mapping[str, Sequence[Path]],
    marks: Marks | None,
    at: Ints,
    iterations: pa.Table,
    offsets: Mapping[str, int],
    dated: Collection[str],
) -> list[LostSteps]:
    """Return what files lack of the steps that annotations or the log tell.

    `at` is the position in `iterations` of each step's iteration, -1 without one. Instants become
    UTC by `offsets` (ns by file) in the files of `dated`.
    """
    launches = {source_of(part): part for part in parts.get("gpu_launches", ())}
    found: list[LostSteps] = []
    for operations in parts.get("gpu_ops", ()):
        source = source_of(operations)
        if source is None:
            continue
        calls = launches.get(source)
        mine, where = _of_file(marks, at, source)
        bare = uncomputed(
            source, operations, mine, iterations, offsets, is_dated=source in dated
        )  # fmt: skip
        if bare is not None:
            what = "steps show no kernel but communication"
            found.append(
                LostSteps(
                    source, bare.steps, bare.steps, what, 0, bare.span_ns,
                    shows_no_compute=True, in_any_file=not bare.is_annotated,
                )
            )  # fmt: skip
            continue
        matched = bool((where >= 0).any())
        if mine is not None:
            found += _annotated(source, operations, calls, mine)
            if calls is not None and not any(f.source == source for f in found):
                found += _ungraphed(source, operations, calls, mine)
        if matched and mine is not None:
            found += _between(source, operations, calls, mine, where, iterations)
        elif source in dated and not any(f.source == source for f in found):
            found += _while_printed(source, operations, calls, iterations, offsets)
            if mine is None and not any(f.source == source for f in found):
                found += _without_copy(source, operations, iterations, offsets)
    return found


def _of_file(marks: Marks | None, at: Ints, source: str) -> tuple[Marks | None, Ints]:
    """Return the steps of a file, None without any, and where their iterations are."""
    none: Ints = np.zeros(0, np.int64)
    if marks is None:
        return None, none
    codes = [code for code, place in enumerate(marks.places) if place[0] == source]
    if len(codes) == len(marks.places):
        return marks, at  # of a run's only profile: a copy would be as large as its steps
    which = np.isin(marks.place, codes)
    return (marks.of(which), at[which]) if which.any() else (None, none)


def _annotated(
    source: str, operations: Path, launches: Path | None, marks: Marks
) -> list[LostSteps]:
    seen = empty_steps(operations, launches, marks)
    if seen.without_any >= FEW:
        what = "annotated steps show no kernel: the file shows copies alone"
        return [LostSteps(source, seen.without_any, seen.without_any, what, 0, seen.span_ns, True)]
    if not seen.empty:
        return []
    what = "annotated steps show neither a kernel nor its launch"
    return [LostSteps(source, seen.empty, seen.steps, what, seen.idle_ns, seen.span_ns)]


def _ungraphed(source: str, operations: Path, launches: Path, marks: Marks) -> list[LostSteps]:
    seen = ungraphed_steps(operations, launches, marks)
    if not seen.empty:
        return []
    what = "annotated steps that decode show neither a graph nor a model's kernels"
    return [LostSteps(source, seen.empty, seen.steps, what, seen.idle_ns, seen.span_ns)]


def _between(
    source: str,
    operations: Path,
    launches: Path | None,
    marks: Marks,
    at: Ints,
    iterations: pa.Table,
) -> list[LostSteps]:
    """Return the iterations between matched steps of which the file shows nothing."""
    lost = steps = idle = 0
    span = Reach()
    for process, which in _processes(marks.places, marks.place):
        start, end = (x[which].astype(np.int64) for x in (marks.start_ns, marks.end_ns))
        mine = Steps(process, start, np.maximum.accumulate(end), at[which])
        gone = gone_between(operations, launches, mine, iterations)
        if gone is None:
            continue
        matched = mine.at >= 0
        span.add(start[matched])
        span.add(end[matched])
        steps += gone.iterations
        if gone.lost:
            lost += gone.lost
            until = first_after(operations, process, gone.high_ns, span.last_ns)
            idle = max(idle, idle_within(operations, process, gone.low_ns, until))
    if not lost:
        return []
    what = "iterations of the log are not in it, though those before and after are"
    return [LostSteps(source, lost, steps, what, idle, span.last_ns - span.first_ns)]


def _while_printed(
    source: str,
    operations: Path,
    launches: Path | None,
    iterations: pa.Table,
    offsets: Mapping[str, int],
) -> list[LostSteps]:
    """Return the iterations that one engine printed while a file shows no kernel for long."""
    engines = [len(pc.unique(iterations.column(name))) for name in ("source_id", "engine")]
    if not iterations.num_rows or max(engines) > 1:
        return []
    printed, known = logged(iterations, offsets)
    computes = _computing(iterations) > 0
    printed = printed[known & computes] - offsets.get(source, 0)
    reach = Reach()
    for rows in row_groups([operations], _OPERATION):
        reach.add(numbers(rows.column("start_at_ns")))
        reach.add(numbers(rows.column("end_at_ns")))
    bins = (reach.last_ns - reach.first_ns) // BIN_NS + 1
    low, high = printed - SLACK_NS, printed + SECOND_NS + SLACK_NS
    inside = (low >= reach.first_ns) & (high <= reach.last_ns)
    if not 0 < bins <= MOST_BINS or not inside.any():
        return []
    touched = _touched(operations, launches, reach.first_ns, bins)
    before = np.concatenate(([0], np.cumsum(touched > 0)))
    low, high = low[inside], high[inside]
    first, last = (low - reach.first_ns) // BIN_NS, (high - reach.first_ns) // BIN_NS
    gone = before[last + 1] == before[first]
    if gone.sum() < FEW:
        return []
    idle = idle_within(operations, None, low[gone], high[gone])
    what = "iterations of the log are printed where it shows no kernel"
    span = reach.last_ns - reach.first_ns
    bare = not touched.any()
    return [LostSteps(source, int(gone.sum()), int(inside.sum()), what, idle, span, bare)]


def _without_copy(
    source: str, operations: Path, iterations: pa.Table, offsets: Mapping[str, int]
) -> list[LostSteps]:
    """Return the iterations that generated tokens which no copy of a file brought to the host."""
    seen = uncopied(source, operations, iterations, offsets)
    if seen is None:
        return []
    what = "iterations of the log that generated tokens have no copy of them to the host in it"
    return [LostSteps(source, seen.lost, seen.steps, what, seen.time_ns, seen.span_ns)]


def _touched(operations: Path, launches: Path | None, first_ns: int, bins: int) -> Ints:
    """Return for each stretch of BIN_NS how many kernels ran or were launched in it."""
    change: Ints = np.zeros(bins + 1, np.int64)
    for rows in row_groups([operations], _OPERATION):
        kernel = is_kernel(rows, None)
        begin = (numbers(rows.column("start_at_ns"))[kernel] - first_ns) // BIN_NS
        end = (numbers(rows.column("end_at_ns"))[kernel] - first_ns) // BIN_NS
        change += np.bincount(begin, minlength=bins + 1)
        change -= np.bincount(end + 1, minlength=bins + 1)
    found = np.cumsum(change)[:-1]
    for rows in row_groups([launches], ("api", "start_at_ns")) if launches is not None else ():
        at = (numbers(rows.column("start_at_ns"))[is_compute_launch(rows)] - first_ns) // BIN_NS
        found += np.bincount(at[(at >= 0) & (at < bins)], minlength=bins)
    return found


def _computing(iterations: pa.Table) -> Ints:
    """Return 1 for each iteration that computes tokens, else 0."""
    tokens = numbers(iterations.column("context_tokens"))
    tokens = tokens + numbers(iterations.column("generation_tokens"))
    found: Ints = (tokens > 0).astype(np.int64)
    return found


def _processes(places: Sequence[Place], place: Ints) -> list[tuple[str | None, Ints]]:
    """Return the steps of each process of one file, by number; they are in order of start."""
    names = dict.fromkeys(p[1] for p in places)
    found = []
    for name in names:
        codes = [code for code, p in enumerate(places) if p[1] == name]
        which = np.flatnonzero(np.isin(place, codes))
        if which.size:
            found.append((name, which))
    return found
