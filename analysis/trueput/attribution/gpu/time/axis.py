"""Which profiles of a run can be laid on one axis of time; what cannot is set aside and told.

Figures of several files need one clock: UTC, or a counter that the machine shares. A file on any
other clock is alone. So the files fall into groups, and one group is counted: in a run with
requests the one on UTC, which alone can be laid beside them; else the one that saw most devices,
then most operations. A group also ends where nothing ran for a day (an hour, on a counter that may
be that of another machine): that is another recording.

Before that, a recording that stands in the run twice, or nearly, is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from trueput.attribution.gpu.time.copies import Profile, copies_among, read_profile
from trueput.attribution.gpu.time.near_copies import Sampled, alike
from trueput.clock import ClockFit, ClockKind
from trueput.source_api import Clock, Problem, Severity

APART_NS: Final = {"utc": 86_400 * 10**9, "machine": 3_600 * 10**9}
"""So long without any operation, and what lies on both sides is not one recording."""
GPU_TABLES: Final = ("gpu_ops", "gpu_launches", "gpu_ranges")
MOST_NAMED: Final = 5
ALL_BUT_FEW: Final = 0.9995
"""A share that would be printed as 100 %."""

COPY, OTHER_CLOCK = "copy", "other_clock"
"""Words of gpu_ops.quality for the operations of files that are set aside."""


@dataclass
class Axis:
    """What is set aside: file -> word of gpu_ops.quality, with the problems that tell it."""

    aside: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[str, Problem]] = field(default_factory=list)

    def counted(self, parts: Mapping[str, Sequence[Path]]) -> dict[str, list[Path]]:
        """Return the parts without those of GPU tables of files that are set aside."""
        return {
            table: [
                path
                for path in paths
                if not (self.aside and table in GPU_TABLES and source_of(path) in self.aside)
            ]
            for table, paths in parts.items()
        }


def source_of(part: Path) -> str | None:
    """Return the file that a part was read from."""
    with pq.ParquetFile(part) as file:
        rows: Any = next(file.iter_batches(batch_size=1, columns=["source_id"]), None)
    return None if rows is None else rows.column(0)[0].as_py()


def choose_axis(
    parts: Mapping[str, Sequence[Path]],
    clocks: Mapping[str, Clock],
    fits: Mapping[str, ClockFit],
    formats: Mapping[str, str],
    *,
    has_requests: bool,
) -> Axis:
    """Return what of the gpu_ops of a run is set aside.

    `parts` by table, on the files' own clocks, which `clocks` and `fits` describe.
    """
    axis = Axis()
    operations = parts.get("gpu_ops", ())
    if len(operations) < 2:
        return axis
    named = ((source_of(part), part) for part in operations)
    offsets = {source: fit.offset_ns or 0 for source, fit in fits.items()}
    profiles = [
        read_profile(s, formats.get(s, ""), p, offsets.get(s, 0)) for s, p in named if s is not None
    ]
    profiles = [p for p in profiles if p.operations]
    dated = {p.source: is_dated(p.source, clocks, fits) for p in profiles}
    besides = _told_besides(parts)
    profiles.sort(
        key=lambda p: (not dated[p.source], -p.operations, -besides.get(p.source, 0), p.source)
    )
    for source, other in sorted(copies_among(profiles).items()):
        axis.aside[source] = COPY
        text = f"`{source}` and `{other}` hold the same operations; those of `{other}` are counted"
        axis.problems.append((source, Problem("ATTR007", Severity.WARNING, text)))
    _near_copies(axis, [p for p in profiles if p.source not in axis.aside and dated[p.source]])
    left = [p for p in profiles if p.source not in axis.aside]
    groups = list(_groups(left, clocks, fits))
    if len(groups) < 2:
        return axis
    groups.sort(key=lambda g: _rank(g, dated, has_requests=has_requests))
    kept = _names(groups[0])
    for group in groups[1:]:
        for profile in group:
            axis.aside[profile.source] = OTHER_CLOCK
            text = (
                f"nothing ties the times of `{profile.source}` to those of {kept}; only the latter "
                "are counted; [[clock_anchors]] in run.toml, or runs of their own, would count both"
            )
            axis.problems.append((profile.source, Problem("ATTR008", Severity.WARNING, text)))
    return axis


def _near_copies(axis: Axis, profiles: Sequence[Profile]) -> None:
    """Set aside the files that hold nearly nothing of their own, and tell what several hold."""
    for one in alike([Sampled(p.source, p.format, p.samples) for p in profiles]):
        others = ", ".join(f"`{name}`" for name in one.others[:MOST_NAMED])
        share = f"{one.share:.1%}" if one.share < ALL_BUT_FEW else "nearly all"
        text = f"{share} of the operations of `{one.source}` are in {others} as well, "
        text += "at the same instants: "
        if one.is_copy:
            axis.aside[one.source] = COPY
            text += "they are counted once"
        else:
            text += "devices of both are counted, and each of these operations twice"
        code = "ATTR007" if one.is_copy else "ATTR016"
        axis.problems.append((one.source, Problem(code, Severity.WARNING, text)))


def _told_besides(parts: Mapping[str, Sequence[Path]]) -> dict[str, int]:
    """Return how many launches, ranges and named devices each file has: what a copy may lack."""
    found: dict[str, int] = {}
    for part in (p for table in GPU_TABLES[1:] for p in parts.get(table, ())):
        if (source := source_of(part)) is not None:
            found[source] = found.get(source, 0) + pq.read_metadata(part).num_rows
    for part in parts.get("gpu_devices", ()):
        for row in pq.read_table(part, columns=["source_id", "name"]).to_pylist():
            found[row["source_id"]] = found.get(row["source_id"], 0) + (row["name"] is not None)
    return found


def is_dated(source: str, clocks: Mapping[str, Clock], fits: Mapping[str, ClockFit]) -> bool:
    """Return whether the instants of a file can be told in UTC."""
    fit = fits.get(source)
    clock = clocks.get(source)
    known = clock is not None and clock.kind is ClockKind.UTC
    return known or (fit is not None and fit.offset_ns is not None)


def _rank(group: Sequence[Profile], dated: Mapping[str, bool], *, has_requests: bool) -> Any:
    is_dated = dated[group[0].source]
    devices = len({device for p in group for device in p.devices})
    operations = sum(p.operations for p in group)
    return (
        has_requests and not is_dated,
        -devices,
        -operations,
        not is_dated,
        min(p.source for p in group),
    )


def _names(group: Sequence[Profile]) -> str:
    names = sorted(p.source for p in group)
    told = ", ".join(f"`{name}`" for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{told} and {more} more" if more > 0 else told


def _groups(
    profiles: Iterable[Profile], clocks: Mapping[str, Clock], fits: Mapping[str, ClockFit]
) -> Iterable[list[Profile]]:
    """Yield the profiles that share a clock and a stretch of time."""
    by_clock: dict[str, list[tuple[int, int, Profile]]] = {}
    for profile in profiles:
        clock = clocks.get(profile.source, Clock(ClockKind.NONE))
        fit = fits.get(profile.source)
        offset = (fit.offset_ns if fit is not None else None) or 0
        if is_dated(profile.source, clocks, fits):
            key = "utc"
        elif clock.kind is ClockKind.MONOTONIC:
            key = "machine"
        else:
            key = f"file {profile.source}"
        first, last = profile.span_ns
        by_clock.setdefault(key, []).append((first + offset, last + offset, profile))
    for key, found in by_clock.items():
        found.sort(key=lambda f: (f[0], f[1], f[2].source))
        group = [found[0][2]]
        reached = found[0][1]
        for first, last, profile in found[1:]:
            if first - reached > APART_NS.get(key, 0):
                yield group
                group = []
            group.append(profile)
            reached = max(reached, last)
        yield group
