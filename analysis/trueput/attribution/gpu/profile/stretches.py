"""Sorted disjoint stretches of time: the union of intervals, in order and in bounded memory.

A stretch is where at least one interval lies; stretches that touch are one. All in whole ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from trueput.attribution.records import Ints

SLICE: Final = 262_144
"""About as many held stretches are united at once."""


class Stretches(NamedTuple):
    """Starts and ends (ns), one of each per stretch, by start; every end lies after its start."""

    start_ns: Ints
    end_ns: Ints

    def part(self, which: slice) -> Stretches:
        """Return some of the stretches, without a copy."""
        return Stretches(self.start_ns[which], self.end_ns[which])

    @property
    def size(self) -> int:
        """How many stretches there are."""
        return self.start_ns.size


NONE: Final = Stretches(np.zeros(0, np.int64), np.zeros(0, np.int64))


def united(start_ns: Ints, end_ns: Ints) -> Stretches:
    """Return the union of intervals given in any order; every end must lie after its start."""
    if start_ns.size < 2:
        return Stretches(start_ns, end_ns)
    if (start_ns[1:] < start_ns[:-1]).any():
        order = np.argsort(start_ns, kind="stable")
        start_ns, end_ns = start_ns[order], end_ns[order]
    reached = np.maximum.accumulate(end_ns)
    begins = np.flatnonzero(start_ns[1:] > reached[:-1])
    return Stretches(
        np.concatenate((start_ns[:1], start_ns[begins + 1])),
        np.concatenate((reached[begins], reached[-1:])),
    )


def all_united(pieces: Iterable[Stretches]) -> Stretches:
    """Return the union of several lists of stretches."""
    some = [piece for piece in pieces if piece.size]
    if len(some) < 2:
        return some[0] if some else NONE
    return united(
        np.concatenate([piece.start_ns for piece in some]),
        np.concatenate([piece.end_ns for piece in some]),
    )


def without(these: Stretches, others: Stretches) -> Stretches:
    """Return what is left of `these` where none of the others lies."""
    if not these.size or not others.size:
        return these
    whole = all_united((these, others))
    # each of the others lies inside one stretch of the whole: the pieces between begin where the
    # whole or one of the others lets go, in the same order as they end
    start = np.sort(np.concatenate((whole.start_ns, others.end_ns)))
    end = np.sort(np.concatenate((others.start_ns, whole.end_ns)))
    there = end > start
    return Stretches(start[there], end[there])


class Pile:
    """Stretches that may still grow, as sorted lists laid on each other; they may overlap."""

    def __init__(self) -> None:
        self._held: list[Stretches] = []

    def add(self, found: Stretches) -> None:
        """Lay sorted disjoint stretches on the pile."""
        if found.size:
            self._held.append(found)

    def count(self, before_ns: int | None) -> int:
        """Return how many stretches begin before an instant; all without one."""
        return sum(_begun(held, before_ns) for held in self._held)

    def span(self) -> tuple[int, int] | None:
        """Return the first and the last start; None where nothing is held."""
        if not self._held:
            return None
        return (
            min(int(held.start_ns[0]) for held in self._held),
            max(int(held.start_ns[-1]) for held in self._held),
        )

    def take(self, before_ns: int | None) -> Stretches:
        """Take off what begins before an instant, united; everything without one."""
        taken, left = [], []
        for held in self._held:
            begun = _begun(held, before_ns)
            taken.append(held.part(slice(begun)))
            if begun < held.size:
                left.append(held.part(slice(begun, None)))
        self._held = left
        return all_united(taken)


def _begun(held: Stretches, before_ns: int | None) -> int:
    if before_ns is None:
        return held.size
    return int(np.searchsorted(held.start_ns, before_ns, side="left"))


class Cover:
    """Two unions that grow together: where something ran, and where only something lesser ran.

    Intervals may come in any order. What was said to be settled is never given out twice.
    """

    def __init__(self) -> None:
        self._first, self._second = Pile(), Pile()

    @property
    def held(self) -> int:
        """How many stretches are not given out yet."""
        return self._first.count(None) + self._second.count(None)

    def add(self, first: Stretches, second: Stretches) -> None:
        """Take sorted disjoint stretches of both."""
        self._first.add(first)
        self._second.add(second)

    def settled(self, before_ns: int | None) -> Iterator[tuple[Stretches, Stretches]]:
        """Take off what ended before an instant, when all to come begins there or later.

        Gives maximal stretches of the first, and those of the second in which none of the first
        lies; pieces in order. Everything without an instant.
        """
        last: int | None = None
        while (cut := self._cut(before_ns)) is not None and cut != last:
            yield self._settle(cut)
            last = cut
        yield self._settle(before_ns)

    def _settle(self, before_ns: int | None) -> tuple[Stretches, Stretches]:
        first = self._first.take(before_ns)
        second = without(self._second.take(before_ns), first)
        if before_ns is None:
            return first, second
        done = []
        for pile, found in ((self._first, first), (self._second, second)):
            ended = int(np.searchsorted(found.end_ns, before_ns, side="left"))
            pile.add(found.part(slice(ended, None)))
            done.append(found.part(slice(ended)))
        return done[0], done[1]

    def _cut(self, before_ns: int | None) -> int | None:
        """Return an earlier instant that leaves no more than SLICE to unite, where one does."""
        piles = (self._first, self._second)
        if sum(pile.count(before_ns) for pile in piles) <= SLICE:
            return None
        spans = [span for span in (pile.span() for pile in piles) if span is not None]
        low = min(span[0] for span in spans) + 1
        high = max(span[1] for span in spans) if before_ns is None else before_ns
        if low >= high:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if sum(pile.count(middle) for pile in piles) <= SLICE:
                low = middle
            else:
                high = middle
        return low
