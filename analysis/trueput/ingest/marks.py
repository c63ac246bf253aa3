"""What is put right in the operations of one profile once all of them are read, and told.

Operations that stay in the store and count nowhere are marked in `quality`; vague devices are
named; kernels of AMD devices that run into their successors are cut; and a capture that cannot have
seen all that ran is marked in `operations_lost`, so that its gaps are not taken for idle time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trueput.arrow import arrow_schema
from trueput.attribution.gpu.losses.unseen import watched_ns
from trueput.attribution.gpu.operations.crowded import crowded_places, of_places
from trueput.attribution.gpu.operations.early import Long
from trueput.attribution.gpu.operations.overflow import overflows
from trueput.attribution.gpu.operations.places import misplaced, places_of
from trueput.attribution.gpu.operations.plausible import bounds_of
from trueput.attribution.gpu.operations.processes import launchers
from trueput.attribution.gpu.profile.marks import numbers, words
from trueput.ingest.early import mark_before, mark_early
from trueput.ingest.late import lose_late_ends
from trueput.ingest.losses import Losses, losses_of
from trueput.ingest.read import FileResult, rewrite
from trueput.ingest.twice import mark_doubled_operations
from trueput.ingest.words import CLIPPED, IMPLAUSIBLE, NO_DEVICE, with_quality
from trueput.rocm_rows import OVERFLOW_NS
from trueput.source_api import Problem, Severity
from trueput.units import ns_text

_ASIDE = ("INGEST007", "INGEST010")
_KINETO = "kineto_json"
_MOST_ROCM_GROUPS = 4


def mark_operations(result: FileResult) -> list[Problem]:
    """Put the operations of one file right, mark what does not count, and return what is told."""
    part = result.parts.get("gpu_ops")
    if part is None:
        return []
    broken = mark_implausible(part)
    problems = [*([broken] if broken else []), *place_operations(part)]
    if (called := result.parts.get("gpu_launches")) is not None:
        problems += mark_before(part, called)
    if result.source_name == _KINETO and (launches := result.parts.get("gpu_launches")):
        name_processes(part, launches)
    long = Long.of(part)
    problems += mark_doubled_operations(result, long.look)
    launches = result.parts.get("gpu_launches")
    begun = mark_early(part, launches, long) if launches is not None else None
    problems += [begun.problem] if begun else []
    if result.source_name == _KINETO and _is_rocm(result):
        problems += clip_overflows(part)
    problems += lose_late_ends(part, long)
    problems += mark_crowded(part)
    aside = sum(p.count for p in problems if p.code in _ASIDE)
    captured = result.parts.get("gpu_captures")
    if captured is None:
        return problems
    losses = losses_of(result, captured, aside)
    if begun is not None and begun.idle_ns:
        losses.add(begun.count, result.rows["gpu_ops"], "operations begin before their launch")
        losses.beside(begun.idle_ns, watched_ns(part, launches))
    mark_losses(captured, losses)
    return problems + losses.problems()


def mark_implausible(part: Path) -> Problem | None:
    """Mark the operations of a part of gpu_ops whose times cannot be, and tell them.

    A part without any is not written.
    """
    bounds = bounds_of(part)
    if bounds is None:
        return None
    found: list[tuple[int, int]] = []
    count = 0

    def marked(rows: pa.Table) -> pa.Table:
        nonlocal count
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        broken = bounds.broken_by(start, end)
        count += int(broken.sum())
        if broken.any() and not found:
            at = int(np.flatnonzero(broken)[0])
            found.append((int(start[at]), int(end[at])))
        return with_quality(rows, broken, IMPLAUSIBLE)

    if not bounds.is_broken_in(part):
        return None
    rewrite(part, "gpu_ops", marked)
    start, end = found[0]
    text = (
        f"operations with times that cannot be, the first {ns_text(end - start)} long from "
        f"{start} ns on; they stay in gpu_ops with quality {IMPLAUSIBLE} and count nowhere"
    )
    return Problem("INGEST007", Severity.WARNING, text, count=count)


def mark_crowded(part: Path) -> list[Problem]:
    """Mark what overlaps so much on a stream that its lengths cannot be, and tell it.

    A part without any is not written.
    """
    places = crowded_places(part)
    if not places:
        return []
    count = 0

    def marked(rows: pa.Table) -> pa.Table:
        nonlocal count
        which = of_places(rows, places)
        count += int(which.sum())
        return with_quality(rows, which, IMPLAUSIBLE)

    rewrite(part, "gpu_ops", marked)
    text = (
        f"operations of lengths that cannot be: {max(places.values())} of them at once on a stream,"
        f" which runs them in turn; they stay in gpu_ops with quality {IMPLAUSIBLE} and count "
        "nowhere"
    )
    return [Problem("INGEST007", Severity.WARNING, text, count=count)]


def place_operations(part: Path) -> list[Problem]:
    """Put operations that name no device of their own on the one they can only have run on.

    Those of which several come into question are marked.
    """
    found = misplaced(part)
    if found is None:
        return []
    meant = list(found.of.values())
    placed = unknown = 0

    def changed(rows: pa.Table) -> pa.Table:
        nonlocal placed, unknown
        at = places_of(rows, found)
        lost = np.isin(at, [i for i, told in enumerate(meant) if told is None])
        unknown += int(lost.sum())
        placed += int((at >= 0).sum() - lost.sum())
        for column, which in (("device_key", 0), ("device", 2)):
            index = rows.schema.get_field_index(column)
            values = [
                now if here < 0 or (told := meant[here]) is None else told[which]
                for now, here in zip(rows.column(index).to_pylist(), at.tolist(), strict=True)
            ]
            field = rows.schema.field(index)
            rows = rows.set_column(index, field, pa.array(values, field.type))
        return with_quality(rows, lost, NO_DEVICE)

    rewrite(part, "gpu_ops", changed)
    problems: list[Problem] = []
    if unknown:
        text = (
            "operations that do not say which of several devices they ran on; they stay in "
            f"gpu_ops with quality {NO_DEVICE} and count nowhere"
        )
        problems.append(Problem("INGEST010", Severity.WARNING, text, count=unknown))
    if placed:
        text = (
            "operations that do not say on which device they ran: taken to be the only possible one"
        )
        problems.append(Problem("INGEST011", Severity.INFO, text, count=placed))
    return problems


def name_processes(part: Path, launches: Path) -> None:
    """Give the operations of a trace of several processes the process that launched them."""
    found = launchers(part, launches)
    if found is None:
        return

    def changed(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("process_key")
        names = pa.array(found.names(rows), pa.string())
        return rows.set_column(at, rows.schema.field(at), names)

    rewrite(part, "gpu_ops", changed)


def clip_overflows(part: Path) -> list[Problem]:
    """Cut kernels that run far into their successors on the same queue, and tell them."""
    cuts = overflows(part)
    if cuts is None:
        return []
    count = 0

    def cut(rows: pa.Table) -> pa.Table:
        nonlocal count
        ends, which = cuts.ends_of(rows)
        count += int(which.sum())
        at = rows.schema.get_field_index("end_at_ns")
        rows = rows.set_column(at, rows.schema.field(at), pa.array(ends, pa.int64()))
        return with_quality(rows, which, CLIPPED)

    rewrite(part, "gpu_ops", cut)
    if not count:
        return []
    text = (
        f"kernels of an AMD device that ran over {ns_text(OVERFLOW_NS)} into their successors on "
        f"the same queue; they end where the next one begins, with quality {CLIPPED}"
    )
    return [Problem("INGEST012", Severity.WARNING, text, count=count)]


def mark_losses(captured: Path, losses: Losses) -> None:
    """Mark a capture that lacks something; idle time that it may have taken adds up."""
    if losses.is_much:
        mark_capture(captured, "operations_lost", value=True)
    elif losses.idle_ns:
        before = pq.read_table(captured, columns=["unseen_ns"]).column(0).to_pylist()
        mark_capture(captured, "unseen_ns", losses.idle_ns + sum(n or 0 for n in before))


def mark_capture(captured: Path, name: str, value: bool | int) -> None:
    """Write a value into a column of a capture: `operations_lost`, `unseen_ns` or `off_clock`."""
    at = arrow_schema("gpu_captures").get_field_index(name)

    def marked(rows: pa.Table) -> pa.Table:
        field = rows.schema.field(at)
        return rows.set_column(at, field, pa.array([value] * len(rows), field.type))

    rewrite(captured, "gpu_captures", marked)


def _is_rocm(result: FileResult) -> bool:
    """Return whether a trace is of AMD devices, by their names or by the calls that launched."""
    if part := result.parts.get("gpu_devices"):
        names = pq.read_table(part, columns=["name"]).column(0).to_pylist()
        if any(name is not None and name.upper().startswith("AMD") for name in names):
            return True
    if part := result.parts.get("gpu_launches"):
        with pq.ParquetFile(part, read_dictionary=["api"], pre_buffer=False) as file:
            for group in range(min(file.num_row_groups, _MOST_ROCM_GROUPS)):
                column = words(file.read_row_group(group, ["api"]).column(0))
                if any((api or "").startswith("hip") for api in column.dictionary.to_pylist()):
                    return True
    return False


def mark_all(part: Path, word: str) -> None:
    """Write a word into `quality` of every operation of a part of gpu_ops."""
    rewrite(part, "gpu_ops", lambda rows: with_quality(rows, np.ones(len(rows), np.bool_), word))
