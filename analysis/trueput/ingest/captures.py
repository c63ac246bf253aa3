"""What a run's GPU captures lack: marked in the parts, and told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from trueput.attribution.gpu.time.axis import OTHER_CLOCK
from trueput.attribution.run_io import RunOutput
from trueput.clock import ClockKind
from trueput.ingest.losses import (
    Losses,
    copies_untraced,
    has_open_gaps,
    is_told,
    kernels_untraced,
    losses_of_steps,
)
from trueput.ingest.marks import mark_capture, mark_losses, mark_operations
from trueput.ingest.twice import drop_doubled_samples
from trueput.ingest.work import Work
from trueput.source_api import Problem, Severity


def mark_every_operation(work: Work) -> None:
    """Put the GPU operations of every file right, and tell what does not count."""
    for result in work.results:
        work.problems += [(result.source_id, p) for p in mark_operations(result)]
        work.problems += [(result.source_id, p) for p in drop_doubled_samples(result)]
    tell_losses(work, list(kernels_untraced(work.results).items()))


def tell_losses(work: Work, found: list[tuple[str, Losses]]) -> None:
    """Mark the captures that lack something, and tell it."""
    captures = {r.source_id: r.parts.get("gpu_captures") for r in work.results}
    for source, losses in found:
        if (captured := captures[source]) is not None:
            mark_losses(captured, losses)
        work.problems += [(source, p) for p in losses.problems()]


def mark_off_clock(work: Work, told: Sequence[tuple[str | None, Problem]]) -> None:
    """Mark the captures of files of which attribution `told` that their clock is another.

    Or that they lie outside of the run: what ran in the window they do not show.
    """
    off = {source for source, problem in told if problem.code in ("ATTR009", "ATTR010")}
    for result in work.results:
        if (captured := result.parts.get("gpu_captures")) and result.source_id in off:
            mark_capture(captured, "off_clock", value=True)


def mark_bare(work: Work, aside: Mapping[str, str]) -> None:
    """Mark the captures of kernels without those of their copies, but for files set `aside`."""
    counted = [r for r in work.results if aside.get(r.source_id) != OTHER_CLOCK]
    for result in copies_untraced(counted):
        if result.source_id not in aside:
            mark_capture(result.parts["gpu_captures"], "copies_missing", value=True)
            text = "kernels without a trace of the process's copies: gaps may be copies, not idle"
            work.problems.append((result.source_id, Problem("INGEST018", Severity.INFO, text)))


def mark_waits(work: Work, parts: Mapping[str, list[Path]], aside: Mapping[str, str]) -> None:
    """Mark the captures in which operations waited though their device did nothing."""
    if not parts.get("gpu_busy") or not parts.get("gpu_launches"):
        return
    from trueput.attribution.gpu.losses.waits import waited

    busy, operations, launches = (parts[t] for t in ("gpu_busy", "gpu_ops", "gpu_launches"))
    told = [r for r in work.results if r.parts.get("gpu_captures") and has_open_gaps(r)]
    known = {r.source_id for r in told} | aside.keys()
    found = [one for path in busy for one in waited(path, operations, launches, known)]
    tell_losses(work, losses_of_steps(work.results, found))


def mark_unmade(
    work: Work, parts: Mapping[str, list[Path]], output: RunOutput, facts: Mapping[str, Any]
) -> None:
    """Mark the captures whose steps cannot have made the tokens that requests got."""
    needed = {"gpu_ops", "gpu_launches", "gpu_ranges"}
    if not all(parts.get(table) for table in (*needed, "requests")):
        return
    from trueput.attribution.gpu.losses.served import served
    from trueput.attribution.gpu.losses.unmade_tokens import unmade_tokens
    from trueput.attribution.gpu.steps.division import speculated_tokens

    uncertain = _uncertain(work, output)
    told = {r.source_id for r in work.results if (c := r.parts.get("gpu_captures")) and is_told(c)}
    files = {
        r.source_id: r.parts
        for r in work.results
        if needed | {"gpu_captures"} <= r.parts.keys()
        and r.source_id in uncertain
        and r.source_id not in told | output.aside.keys()
    }
    if files:
        records = served(parts["requests"], uncertain)
        found = unmade_tokens(files, records, speculated_tokens(facts))
        tell_losses(work, losses_of_steps(work.results, found))


def _uncertain(work: Work, output: RunOutput) -> dict[str, int]:
    """Return the files whose instants are in UTC, and how uncertain that is (ns)."""
    found: dict[str, int] = {}
    for result in work.results:
        fit = output.clock_fits.get(result.source_id)
        if fit is not None and fit.offset_ns is not None:
            found[result.source_id] = fit.uncertainty_ns or 0
        elif result.moved_ns or result.clock.kind is ClockKind.UTC:
            found[result.source_id] = result.clock.uncertainty_ns or 0
    return found


def gpus_unseen(
    work: Work, totals: list[Path], facts: Mapping[str, Any]
) -> list[tuple[str | None, Problem]]:
    """Tell of GPUs that run.toml, or else the only engine, has and no profile shows, where some are
    shown; and of more devices than it has."""
    count = work.toml.numbers.get("gpu_count")
    keys = [pq.read_table(part, columns=["device_key"]).column(0).to_pylist() for part in totals]
    shown = len({key for some in keys for key in some})
    whose = "gpu_count"
    if count is None:
        count, whose = engine_devices(work, facts), "the engine's parallel sizes"
    if count is None or not shown or shown == count:
        return []
    if shown > count:
        text = (
            f"profiles show {shown} devices, and the run has {int(count)} ({whose}): all are "
            "counted; a profile may be a copy, or of another run"
        )
        found = Problem("INGEST016", Severity.WARNING, text, count=shown - int(count))
        return [(None, found)]
    text = (
        f"profiles show {shown} of {int(count)} GPUs ({whose}): the time of the others is "
        "unattributed; a file of a rank may be missing"
    )
    return [(None, Problem("INGEST015", Severity.INFO, text, count=int(count) - shown))]


def engine_devices(work: Work, facts: Mapping[str, Any]) -> int | None:
    """Return how many devices the only engine of a run works on, None where that is not told."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    told = [facts.get(f"config.{name}") for name in sizes]
    tellers = [r for r in work.results if any(f.key == f"config.{sizes[0]}" for f in r.facts)]
    if len(tellers) != 1 or not all(isinstance(n, int) and n > 0 for n in told):
        return None
    return math.prod(n for n in told if isinstance(n, int))


def overheads(work: Work, parts: Mapping[str, list[Path]]) -> dict[str, int]:
    """Give the work of profilers the devices that it held up; return how many rows there are."""
    with_some = [r for r in work.results if "gpu_overheads" in r.parts]
    if not with_some:
        return {}
    from trueput.ingest.overheads import TABLE, place_overheads

    totals, busy = (parts.get(table, []) for table in ("gpu_op_totals", "gpu_busy"))
    return {TABLE: sum(place_overheads(r, work.run_id, totals, busy) for r in with_some)}
