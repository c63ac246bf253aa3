"""What a run's GPU captures lack: marked in the parts, and told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from trueput.ingest.losses import Losses, has_open_gaps, kernels_untraced, losses_of_steps
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
    """Mark the captures of files of which attribution `told` that their clock is another."""
    off = {source for source, problem in told if problem.code == "ATTR010"}
    for result in work.results:
        if (captured := result.parts.get("gpu_captures")) and result.source_id in off:
            mark_capture(captured, "off_clock", value=True)


def mark_waits(work: Work, parts: Mapping[str, list[Path]], aside: Mapping[str, str]) -> None:
    """Mark the captures in which operations waited though their device did nothing."""
    if not parts.get("gpu_busy") or not parts.get("gpu_launches"):
        return
    from trueput.attribution.gpu_waits import waited

    busy, operations, launches = (parts[t] for t in ("gpu_busy", "gpu_ops", "gpu_launches"))
    told = [r for r in work.results if r.parts.get("gpu_captures") and has_open_gaps(r)]
    known = {r.source_id for r in told} | aside.keys()
    found = [one for path in busy for one in waited(path, operations, launches, known)]
    tell_losses(work, losses_of_steps(work.results, found))


def gpus_unseen(work: Work, totals: list[Path]) -> list[tuple[str | None, Problem]]:
    """Tell of GPUs that run.toml counts and no profile shows, where some are shown."""
    count = work.toml.numbers.get("gpu_count")
    keys = [pq.read_table(part, columns=["device_key"]).column(0).to_pylist() for part in totals]
    shown = len({key for some in keys for key in some})
    if count is None or not 0 < shown < count:
        return []
    text = (
        f"profiles show {shown} of {int(count)} GPUs (gpu_count): the time of the others is "
        "unattributed; a file of a rank may be missing"
    )
    return [(None, Problem("INGEST015", Severity.INFO, text, count=int(count) - shown))]
