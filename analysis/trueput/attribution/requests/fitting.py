"""Loads and families of the engine's requests -> which is of which, by the times between them.

A load's sends and its own family's arrivals lie as far apart as the two clocks; what is as near for
another load, or another family, is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trueput.attribution.reused.likely_offset import QUARTER_NS

Ints = NDArray[np.int64]
Pair = tuple[Hashable, Hashable]

EXACT_NS: Final = 50_000_000
"""What differs by less is as near, where arrivals are recorded."""
PRINTED_NS: Final = 2_000_000_000
"""The same, where a log prints them to the second."""
_NEAR_NS: Final = 5_000_000_000
"""A clock that is known lies no further off; the first tenth of a load's sends arrive sooner."""
_DATED_NS: Final = 30_000_000_000
"""The same of a date that a client prints some time after its last request."""
_DATE_NS: Final = 10_000_000_000
"""By so much dates of two clients may be off in unlike ways."""
_LEAST_PAIRS: Final = 10
_CLEARLY: Final = 0.5
"""Arrivals scatter so much less about the sends of their own load than about another's."""


@dataclass(frozen=True)
class Loads:
    """The families that each load may be of; of those in `shared` several loads may be."""

    wanted: Mapping[Any, Sequence[Any]]
    shared: set[str]


@dataclass(frozen=True)
class Arrivals:
    """The clock of the engine's arrivals."""

    is_utc: bool
    resolution_ns: int


@dataclass(frozen=True)
class Offsets:
    """How far arrivals lie behind sends, and what brings each load's instants to a known clock."""

    ahead: Mapping[Pair, Sequence[Ints]]
    """Load and family -> the differences, ns, once for each time that the ids were used."""
    arrivals: Arrivals
    to_utc: Mapping[Hashable, int] | None = None
    by_date: Mapping[Hashable, int] | None = None
    """To local time, by the end that each client printed."""
    one_clock: bool = False
    """Whether the loads' instants are on one clock, whatever it is."""


@dataclass
class Choice:
    """The family of each load that was told one, or told that it has none; and the others."""

    untold: list[Any]
    told: dict[Any, Any] = field(default_factory=dict)

    def tell(self, load: Any, family: Any) -> None:
        """Say of which family a load is."""
        self.told[load] = family
        self.untold.remove(load)


@dataclass(frozen=True)
class _Frame:
    """One way to date the loads: what their clocks add, and what the rest may be."""

    added: Mapping[Any, int]
    off: Callable[[int], int]
    """How far a common rest is from what it can be."""
    near_ns: int
    margin_ns: int
    is_absolute: bool


def choose(loads: Loads, offsets: Offsets) -> Choice:
    """Return the family of each load: by clocks that are known, printed dates, or one clock.

    Where none of these tells, by the shape: how evenly arrivals follow the sends.
    """
    choice = Choice(list(loads.wanted))
    for frame in _frames(loads, offsets):
        _by_frame(choice, loads, offsets, frame)
    _by_shape(choice, loads, offsets)
    return choice


def _frames(loads: Loads, offsets: Offsets) -> list[_Frame]:
    found = []
    step = offsets.arrivals.resolution_ns
    off = abs if offsets.arrivals.is_utc else _from_quarter
    if offsets.to_utc is not None:
        found.append(_Frame(offsets.to_utc, off, _NEAR_NS + step, step, is_absolute=True))
    elif offsets.by_date is not None:
        margin = max(step, _DATE_NS)
        dated = _Frame(offsets.by_date, _from_quarter, _DATED_NS, margin, is_absolute=True)
        found.append(dated)
    if offsets.one_clock:
        zero = dict.fromkeys(loads.wanted, 0)
        found.append(_Frame(zero, lambda _: 0, _NEAR_NS + step, step, is_absolute=False))
    return found


def _behind(ahead: Ints, is_shared: bool) -> int:
    """Return by how much the first arrivals lie behind their sends, and others wait.

    Of ids that were used again some are of another load, and half of them tell.
    """
    return int(np.quantile(ahead, 0.5 if is_shared else 0.1, method="lower"))


def _from_quarter(rest: int) -> int:
    return abs(rest - round(rest / QUARTER_NS) * QUARTER_NS)


@dataclass(frozen=True)
class _Fit:
    """Loads with their families under one common rest."""

    of: dict[Any, Any]
    cost: int
    rest: int


def _by_frame(choice: Choice, loads: Loads, offsets: Offsets, frame: _Frame) -> None:
    """Tell the families that fit under the one common rest under which most do."""
    open_ = {
        load: [f for f in loads.wanted[load] if f in loads.shared or f not in choice.told.values()]
        for load in choice.untold
    }
    rests = {
        (load, family): [
            _behind(ahead, family in loads.shared) - frame.added[load]
            for ahead in offsets.ahead.get((load, family), ())
            if ahead.size
        ]
        for load, families in open_.items()
        for family in families
    }
    fits: dict[tuple[Any, ...], _Fit] = {}
    for rest in {r for every in rests.values() for r in every}:
        if frame.off(rest) > frame.near_ns:
            continue
        fit = _under(rest, open_, rests, loads, frame)
        key = tuple(fit.of.get(load) for load in open_)
        if key not in fits or fit.cost < fits[key].cost:
            fits[key] = fit
    ranks = sorted(fits.values(), key=lambda fit: (-len(fit.of), fit.cost))
    if not ranks:
        return
    best = ranks[0]
    as_good = [
        fit
        for fit in ranks[1:]
        if len(fit.of) == len(best.of) and fit.cost < best.cost + frame.margin_ns
    ]
    if not as_good:
        _tell(choice, best, open_, rests, loads, frame)


def _under(
    rest: int,
    open_: Mapping[Any, Sequence[Any]],
    rests: Mapping[Pair, Sequence[int]],
    loads: Loads,
    frame: _Frame,
) -> _Fit:
    """Give each load the nearest family under this rest, the nearest pairs first."""
    near = sorted(
        (off, str(load), str(family), load, family)
        for load, families in open_.items()
        for family in families
        if (off := _off(rests[load, family], rest)) is not None and off <= frame.near_ns
    )
    found: dict[Any, Any] = {}
    cost = 0
    for off, _, _, load, family in near:
        if load not in found and (family in loads.shared or family not in found.values()):
            found[load] = family
            cost = max(cost, off)
    return _Fit(found, cost + frame.off(rest), rest)


def _off(every: Sequence[int], rest: int) -> int | None:
    return min((abs(one - rest) for one in every), default=None)


def _tell(
    choice: Choice,
    fit: _Fit,
    open_: Mapping[Any, Sequence[Any]],
    rests: Mapping[Pair, Sequence[int]],
    loads: Loads,
    frame: _Frame,
) -> None:
    for load, family in fit.of.items():
        mine = _off(rests[load, family], fit.rest) or 0
        others = [(load, f) for f in open_[load] if f != family]
        if family not in loads.shared:
            others += [(one, family) for one in open_ if one != load and family in open_[one]]
        offs = [_off(rests[pair], fit.rest) for pair in others]
        if all(off is None or off >= mine + frame.margin_ns for off in offs):
            choice.tell(load, family)
    if frame.is_absolute and fit.of:
        for load in [one for one in choice.untold if one not in fit.of]:
            # on a clock that is known for all, what fits the others does not fit this one
            if all(rests[load, family] for family in open_[load]):
                choice.tell(load, None)


def _by_shape(choice: Choice, loads: Loads, offsets: Offsets) -> None:
    """Tell the pairs whose arrivals follow the sends clearly more evenly than any other pair's."""
    if offsets.arrivals.resolution_ns > EXACT_NS:
        return
    taken = set(choice.told.values())
    scatter = {
        (load, family): _scatter(offsets.ahead.get((load, family), ()))
        for load in choice.untold
        for family in loads.wanted[load]
        if family in loads.shared or family not in taken
    }
    for (load, family), mine in scatter.items():
        rivals = [
            other
            for (one, another), other in scatter.items()
            if (one == load) != (another == family)
            and not (another == family and family in loads.shared)
        ]
        if mine is not None and rivals and all(
            other is not None and mine < other and mine <= _CLEARLY * other for other in rivals
        ):  # fmt: skip
            choice.tell(load, family)


def _scatter(every: Sequence[Ints]) -> float | None:
    """Return the median distance of the differences from their median, of the best use of ids."""
    found = [
        float(np.median(np.abs(ahead - np.median(ahead))))
        for ahead in every
        if ahead.size >= _LEAST_PAIRS
    ]
    return min(found, default=None)
