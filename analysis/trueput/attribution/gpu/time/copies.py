"""Profiles of one run that hold the same recording, such as a report and its export as CSV.

Formats print other names and other devices for the same operations, so they are compared by what no
format changes: how many there are of a kind, how long each lasted, and how far each lies from the
first. All of them must agree to within the rounding of formats that print microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.profile.marks import (
    Bools,
    has_word,
    numbers,
    row_groups,
    set_aside,
    words,
)
from trueput.attribution.gpu.time.near_copies import Sample
from trueput.attribution.records import Ints

ROUNDING_NS: Final = 2_000
"""Two instants, each printed to the microsecond."""
FEWEST: Final = 3
"""Fewer operations agree by chance."""

_COLUMNS: Final = ("kind", "device_key", "start_at_ns", "end_at_ns")
_EXACT: Final = ("start_at_ns", "end_at_ns", "device", "stream", "correlation_id")
_CALL: Final = ("device", "stream", "correlation_id")
_KINDS: Final = ("kernel", "copy", "graph_span")
Key = tuple[str, str | None]
"""Kind (`kernel`, `copy` or `graph_span`) and device; None for all devices together."""


@dataclass
class Count:
    """Operations of one kind: how many, from when to when, and how long in all (ns)."""

    operations: int = 0
    first_ns: int = np.iinfo(np.int64).max
    last_ns: int = np.iinfo(np.int64).min
    total_ns: int = 0

    def add(self, start_ns: Ints, end_ns: Ints) -> None:
        """Add operations."""
        self.operations += start_ns.size
        self.first_ns = min(self.first_ns, int(start_ns.min()))
        self.last_ns = max(self.last_ns, int(start_ns.max()))
        self.total_ns += int((end_ns.astype(np.float64) - start_ns).sum())

    def may_equal(self, other: Count) -> bool:
        """Return whether the same operations may be behind both."""
        room = ROUNDING_NS * max(1, self.operations)
        return (
            self.operations == other.operations
            and abs(self.total_ns - other.total_ns) <= room
            and abs((self.last_ns - self.first_ns) - (other.last_ns - other.first_ns))
            <= ROUNDING_NS
        )


@dataclass(frozen=True)
class Profile:
    """What one file holds of GPU operations; instants on the file's own clock."""

    source: str
    format: str
    part: Path
    offset_ns: int = 0
    """What takes its instants to the clock that files share."""
    counts: dict[Key, Count] = field(default_factory=dict)
    samples: dict[str, Sample] = field(default_factory=dict)
    """Some operations of each device, on the clock that files share."""

    @property
    def devices(self) -> set[str]:
        """The devices that it names."""
        return {device for _, device in self.counts if device is not None}

    @property
    def operations(self) -> int:
        """How many operations it holds."""
        return sum(c.operations for (_, device), c in self.counts.items() if device is None)

    @property
    def span_ns(self) -> tuple[int, int]:
        """The first and the last start."""
        counts = self.counts.values()
        return min(c.first_ns for c in counts), max(c.last_ns for c in counts)


def _of_kind(rows: Any, kind: str) -> Bools:
    """Return for each operation whether it is of a kind."""
    if kind != "copy":
        return has_word(rows.column("kind"), kind)
    return ~(has_word(rows.column("kind"), "kernel") | has_word(rows.column("kind"), "graph_span"))


def read_profile(source: str, format_: str, part: Path, offset_ns: int = 0) -> Profile:
    """Return what a part of gpu_ops holds, without the operations that count nowhere."""
    profile = Profile(source, format_, part, offset_ns)
    for group in row_groups([part], (*_COLUMNS, "quality", *_CALL)):
        sound = ~set_aside(group.column("quality"))
        device = words(group.column("device_key"))
        call = _called(group)
        start, end = (numbers(group.column(c)) for c in _COLUMNS[2:])
        codes = device.indices.to_numpy()
        for kind in _KINDS:
            here = _of_kind(group, kind) & sound
            if not here.any():
                continue
            profile.counts.setdefault((kind, None), Count()).add(start[here], end[here])
            for code in np.unique(codes[here]).tolist():
                mine = here & (codes == code)
                name = device.dictionary[code].as_py()
                profile.counts.setdefault((kind, name), Count()).add(start[mine], end[mine])
                sample = profile.samples.setdefault(name, Sample())
                sample.add(start[mine] + offset_ns, end[mine] - start[mine], call[mine])
    return profile


def _called(group: Any) -> Ints:
    """Return a number for ordinal, stream and call of each operation."""
    device, stream, correlation = (numbers(group.column(name)) for name in _CALL)
    found: Ints = ((device << 16) + stream << 40) + correlation
    return found


def is_copy(this: Profile, other: Profile) -> bool:
    """Return whether all operations of one profile stand in another.

    Two files of one format are copies only where they name the same devices at the same times, or
    agree in every operation to the nanosecond, its ordinal, stream and correlation id: the ranks of
    a load that runs in step look alike.
    """
    if not this.operations or this.operations > other.operations:
        return False
    same_format = this.format == other.format
    pooled = [key for key in this.counts if key[1] is None]
    single = [key for key in this.counts if key[1] is not None]
    if same_format:
        named = all(_agrees(this, key, other, key, moved=False) for key in single)
        return named or _is_rewritten(this, other, pooled)
    if all(_agrees(this, key, other, key) for key in pooled):
        return True
    return all(
        any(_agrees(this, key, other, theirs) for theirs in other.counts if theirs[0] == key[0])
        for key in single
    )


def _is_rewritten(this: Profile, other: Profile, pooled: Sequence[Key]) -> bool:
    """Return whether two files of one format hold the same operations in other words."""
    theirs = [key for key in other.counts if key[1] is None]
    firsts = this.span_ns[0], other.span_ns[0]
    if set(pooled) != set(theirs) or this.operations < FEWEST:
        return False
    if firsts[0] + this.offset_ns != firsts[1] + other.offset_ns:
        return False
    alike = all(this.counts[key].may_equal(other.counts[key]) for key in pooled)
    return alike and _print_of(this.part, firsts[0]) == _print_of(other.part, firsts[1])


def _print_of(part: Path, zero_ns: int) -> int:
    """Return a number that all operations give together, in whatever order, from `zero_ns` on."""
    total = 0
    for group in row_groups([part], (*_EXACT, "quality")):
        sound = ~set_aside(group.column("quality"))
        mixed = np.zeros(int(sound.sum()), np.uint64)
        for name in _EXACT:
            values = numbers(group.column(name))[sound]
            values = values - zero_ns if name.endswith("_at_ns") else values
            mixed = _mixed(mixed ^ values.astype(np.uint64))
        total += int(mixed.sum(dtype=np.uint64))
    return total % 2**64


def _mixed(values: Any) -> Any:
    """Return 64-bit numbers in which every bit depends on every bit of those given."""
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(factor)
        values = values + np.uint64(0x9E3779B97F4A7C15)
    return values ^ (values >> np.uint64(31))


def _agrees(this: Profile, key: Key, other: Profile, theirs: Key, *, moved: bool = True) -> bool:
    """Return whether two groups of operations are the same; with `moved` on clocks that differ."""
    a, b = this.counts[key], other.counts.get(theirs)
    if b is None or a.operations < FEWEST or not a.may_equal(b):
        return False
    if not moved and abs(a.first_ns - b.first_ns) > ROUNDING_NS:
        return False
    mine, others = _times(this.part, key), _times(other.part, theirs)
    return all(
        bool((np.abs(x - y) <= ROUNDING_NS).all()) for x, y in zip(mine, others, strict=True)
    )


def _times(part: Path, key: Key) -> tuple[Ints, Ints]:
    """Return the starts of a group from its first on, and its lengths; each in order."""
    kind, device = key
    starts: list[Ints] = []
    lengths: list[Ints] = []
    for group in row_groups([part], (*_COLUMNS, "quality")):
        here = _of_kind(group, kind) & ~set_aside(group.column("quality"))
        if device is not None:
            here &= has_word(group.column("device_key"), device)
        start, end = (numbers(group.column(c))[here] for c in _COLUMNS[2:])
        starts.append(start)
        lengths.append(end - start)
    start = np.sort(np.concatenate(starts))
    return start - start[0], np.sort(np.concatenate(lengths))


def copies_among(profiles: Sequence[Profile]) -> dict[str, str]:
    """Return the files that hold nothing of their own, each with the file that holds it.

    The profiles come in order of preference: of two with the same operations the first is kept.
    """
    found: dict[str, str] = {}
    for at, this in enumerate(profiles):
        for place, other in enumerate(profiles):
            if place == at or other.source in found:
                continue
            if place > at and this.operations >= other.operations:
                continue  # the same content: the earlier stays
            if is_copy(this, other):
                found[this.source] = other.source
                break
    return found
