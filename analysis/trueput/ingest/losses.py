"""What the captures of a run lack: operations of launches, kernels of graphs, or every kernel.

Every loss is told. Where it may be more than a small part of the operations, or of the time, the
gaps of the capture are not taken for idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trueput.attribution.gpu.losses.lost_steps import LostSteps
from trueput.attribution.gpu.losses.only_communication import has_compute
from trueput.attribution.gpu.losses.replay_gaps import idle_beside_replays
from trueput.attribution.gpu.losses.replays import replayed
from trueput.attribution.gpu.losses.unseen import longest_ns, unseen_launches, watched_ns
from trueput.attribution.gpu.operations.no_length import without_length
from trueput.attribution.gpu.profile.marks import row_groups, words
from trueput.ingest.read import FileResult
from trueput.source_api import MOST_LOST, Problem, Severity, loses_much
from trueput.units import ns_text

_COPIES_APART = ("rocprofv3_csv",)
"""Sources of which a file shows kernels or copies, never both."""


@dataclass
class Losses:
    """What one capture lacks, in words, and whether its gaps may be no idle time."""

    told: list[str] = field(default_factory=list)
    count: int = 0
    is_much: bool = False
    idle_ns: int = 0
    """Idle time in which the lost ones may have run, where they are not much."""

    def add(self, lost: int, whole: int, what: str) -> None:
        """Note that so many of all are lost."""
        if lost:
            self.told.append(f"{lost} of {whole} {what}")
            self.count += lost
            self.is_much |= loses_much(lost, whole)

    def beside(self, idle_ns: int, span_ns: int) -> None:
        """Note the idle time in which what is lost may have run, of all that was watched."""
        idle, span = ns_text(idle_ns), ns_text(span_ns)
        self.told.append(f"they may have run in {idle} of idle time, of {span} in all")
        self.is_much |= idle_ns > MOST_LOST * span_ns
        self.idle_ns += idle_ns

    def problems(self) -> list[Problem]:
        """Return what is to be told of it."""
        if not self.told:
            return []
        text = "; ".join(self.told)
        if self.is_much:
            text += ": the devices ran unseen, and gaps are not known to be idle"
            return [Problem("INGEST009", Severity.WARNING, text, count=self.count)]
        text += ": so little that other gaps are taken for idle"
        return [Problem("INGEST013", Severity.INFO, text, count=self.count)]


def losses_of(result: FileResult, captured: Path, aside: int) -> Losses:
    """Return what the capture of one file lacks; `aside` of its operations count nowhere."""
    operations, launches = result.parts["gpu_ops"], result.parts.get("gpu_launches")
    found = Losses()
    if loses_much(aside, result.rows["gpu_ops"]):
        found.add(aside, result.rows["gpu_ops"], "operations count nowhere")
    idle = located = 0
    if launches is not None:
        unseen = unseen_launches(operations, launches)
        # spans stand for graphs whose kernels are hidden; where none is there, nothing does
        spans = any(_column(captured, "graph_span_rows"))
        hidden = any(_column(captured, "graphs_hidden")) and not spans
        for word, kind in unseen.kinds.items():
            if not (hidden and word == "graph"):
                found.add(kind.unseen, kind.launches, f"{word} launches have no operation")
        idle = unseen.idle_ns if found.told else 0
        located = sum(kind.unseen for kind in unseen.kinds.values())
    graphs = replayed(operations)
    missing = graphs.launched
    found.add(missing.unseen, missing.launches, "operations are missing from replays of graphs")
    if not found.is_much and graphs.partial:
        idle += idle_beside_replays(operations, graphs.partial)
    if idle:
        found.beside(idle, watched_ns(operations, launches))
    # a damaged file that lacks some may lack more, of which nothing tells
    found.is_much |= bool(found.told) and "partial" in _column(captured, "status")
    dropped = sum(n or 0 for n in _column(captured, "dropped_operations"))
    if (rest := dropped - located - missing.unseen) > 0:
        # nothing tells where they ran: none was longer than the longest that is known
        found.idle_ns += rest * longest_ns(operations)
    _note_no_length(operations, found)
    return found


def _note_no_length(operations: Path, found: Losses) -> None:
    short = without_length(operations)
    if short is None:
        return
    for word, (lost, whole) in short.kinds.items():
        found.add(lost, whole, f"{word} have no length")
    if not short.idle_ns:
        return
    if short.copies:
        found.told.append(f"{short.copies} copies have no length")
        found.count += short.copies
    idle, span = ns_text(short.idle_ns), ns_text(short.span_ns)
    found.told.append(f"these may have run in {idle} of idle time of a device, of {span} in all")
    found.is_much |= short.idle_ns > MOST_LOST * short.span_ns
    found.idle_ns += short.idle_ns


def kernels_untraced(results: Sequence[FileResult]) -> dict[str, Losses]:
    """Return the files that show copies alone, where no file of the run shows kernels of the same
    process, and no launch is there that would tell that none ran."""
    bare = [r for r in results if "gpu_ops" in r.parts and not _has_kernels(r)]
    bare = [r for r in bare if "gpu_launches" not in r.parts and "gpu_captures" in r.parts]
    if not bare:
        return {}
    others = [r for r in results if "gpu_ops" in r.parts and _has_kernels(r)]
    shown = {owner for r in others for owner in _owners(r.parts["gpu_ops"])}
    return {
        r.source_id: Losses(
            ["no kernel and no launch was recorded, copies alone"], r.rows["gpu_ops"], is_much=True
        )
        for r in bare
        if not _owners(r.parts["gpu_ops"]) <= shown
    }


def copies_untraced(results: Sequence[FileResult]) -> list[FileResult]:
    """Return the files that show kernels alone, as such files do, where no file of the run is that
    of their process's copies. One that holds none says that there was none."""
    apart = [r for r in results if r.source_name in _COPIES_APART and "gpu_captures" in r.parts]
    copies = [r for r in apart if not _has_kernels(r) and "gpu_launches" not in r.parts]
    shown = {owner for r in copies if "gpu_ops" in r.parts for owner in _owners(r.parts["gpu_ops"])}
    beside = {r.source_id.replace("memory_copy_trace", "kernel_trace") for r in copies}
    return [
        r
        for r in apart
        if "gpu_ops" in r.parts
        and _has_kernels(r)
        and r.source_id not in beside
        and not _owners(r.parts["gpu_ops"]) <= shown
    ]


def losses_of_steps(
    results: Sequence[FileResult], lost: Sequence[LostSteps]
) -> list[tuple[str, Losses]]:
    """Return what captures lack of the steps that ran while they watched, by file.

    A file without any kernel lacks none where another file of the run shows those of its process.
    """
    shown = {
        owner
        for r in results
        if "gpu_ops" in r.parts and _has_kernels(r)
        for owner in _owners(r.parts["gpu_ops"])
    }
    part_of = {r.source_id: r.parts["gpu_ops"] for r in results if "gpu_ops" in r.parts}
    found: list[tuple[str, Losses]] = []
    for one in lost:
        if one.shows_no_kernel and _owners(part_of[one.source]) <= shown:
            continue
        if one.shows_no_compute and _is_computed_elsewhere(one, part_of):
            continue
        losses = Losses()
        losses.add(one.lost, one.steps, one.what)
        losses.is_much &= not one.by_time  # what is counted is where it shows, not how much
        if one.shows_no_kernel or one.shows_no_compute:
            losses.is_much = True
        else:
            losses.beside(one.idle_ns, one.span_ns)
        found.append((one.source, losses))
    return found


def _is_computed_elsewhere(one: LostSteps, part_of: Mapping[str, Path]) -> bool:
    """Return whether another file shows kernels that compute, of the process if it is known."""
    parts = [p for source, p in part_of.items() if source != one.source and has_compute(p)]
    if one.in_any_file:
        return bool(parts)
    return _owners(part_of[one.source]) <= {owner for p in parts for owner in _owners(p)}


def has_open_gaps(result: FileResult) -> bool:
    """Return whether the gaps of a file that has a capture are known not to be idle."""
    captured = result.parts["gpu_captures"]
    names = ("graphs_hidden", "operations_lost", "graph_span_rows")
    return any(any(_column(captured, name)) for name in names)


def is_told(captured: Path) -> bool:
    """Return whether the gaps of a capture are known to say nothing: so much is lost, or its clock
    is another."""
    return any(any(_column(captured, name)) for name in ("operations_lost", "off_clock"))


def _has_kernels(result: FileResult) -> bool:
    part = result.parts.get("gpu_captures")
    if part is None:
        return True
    return any((*_column(part, "kernel_rows"), *_column(part, "graph_span_rows")))


def _column(part: Path, name: str) -> list[Any]:
    found: list[Any] = pq.read_table(part, columns=[name]).column(0).to_pylist()
    return found


def _owners(part: Path) -> set[str]:
    """Return what the keys of devices begin with, which is their process; whole where none is."""
    found: set[str] = set()
    for rows in row_groups([part], ("device_key",)):
        keys = words(rows.column("device_key")).dictionary.to_pylist()
        found.update(key.rpartition(":")[0] or key for key in keys)
    return found
