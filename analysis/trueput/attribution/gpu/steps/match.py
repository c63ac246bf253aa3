"""Which iteration of the engine's log each annotated step is: equal compositions in equal order."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.profile.marks import COMPOSITION, Bools, Marks, numbers
from trueput.attribution.gpu.steps.pieces import MOST_SHIFTS, in_pieces
from trueput.attribution.gpu.steps.scattered import between, scattered
from trueput.attribution.gpu.time.clock import logged
from trueput.attribution.iterations.log import PRINTED
from trueput.attribution.records import Ints

LEAST_AGREEING = 3
AGREEING_SHARE = 0.9
MOST_PLACES, MOST_PAIRS, MOST_VOTED = 50, 1_000_000, 200
ROOM = 0.7
"""Of the time that iterations took, so much at least passed while they ran."""
PRINTED_WITHIN_NS = 1_000_000_000
"""The time from the second that a line prints to the end of its step is that of most, but for
this: a constant, and up to a second."""


@dataclass(frozen=True)
class Log:
    """One life of an engine: the positions of its iterations and a code for each composition."""

    at: Ints
    codes: Ints


def _codes(columns: Sequence[Ints]) -> Ints:
    """One integer per step for its composition; equal compositions, equal codes."""
    out: Ints = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        out = out * 1_000_003 + column
    return out


def _logs(iterations: pa.Table) -> list[Log]:
    """The lives of engines, in order of first sight."""
    life: Ints = np.zeros(iterations.num_rows, np.int64)
    for name in ("engine", "incarnation"):
        column: Any = iterations.column(name).combine_chunks()
        coded = column.dictionary_encode(null_encoding="encode")
        life = life * len(coded.dictionary) + coded.indices.to_numpy(zero_copy_only=False)
    codes = _codes([numbers(iterations.column(c)) for c in COMPOSITION])
    different, first = np.unique(life, return_index=True)
    lives = (np.flatnonzero(life == number) for number in different[np.argsort(first)].tolist())
    return [Log(at, codes[at]) for at in lives]


def matched(
    marks: Marks,
    iterations: pa.Table,
    offsets: Mapping[str, int] | None = None,
    dated: Collection[str] = (),
) -> Ints:
    """Return the position in `iterations` of each step's iteration, -1 where none was matched.

    One shift for a process must make nearly all compositions agree. Or several, where iterations
    are missing from the profile: then the steps must also end when the log printed them. Where
    single ones are missing throughout, both clocks must be known: `offsets` (ns by file) take
    instants to UTC in the files of `dated`.
    """
    out: Ints = np.full(len(marks), -1, np.int64)
    logs = _logs(iterations) if iterations.num_rows else []
    for process in _processes(marks) if logs else ():
        mine = _codes([getattr(marks, name)[process] for name in COMPOSITION])
        found = _match_process(mine, logs)
        if (found < 0).any() and PRINTED in iterations.column_names:
            pieces = _match_pieces(mine, marks.end_ns[process], logs, iterations)
            found = _better(found, pieces)
            if marks.places[marks.place[process][0]][0] in dated:
                single = _match_scattered(mine, marks.of(process), logs, iterations, offsets)
                # of equal iterations, pieces take the last as missing, these the nearest in time
                found = _better(found, single) if found is not pieces else _better(single, found)
        out[process] = found
    return out


def _better(one: Ints, other: Ints) -> Ints:
    """Return the one that matches most steps, the first where both match as many."""
    return other if (other >= 0).sum() > (one >= 0).sum() else one


def _processes(marks: Marks) -> Iterator[slice]:
    """The stretches of one file and process each."""
    names = [place[:2] for place in marks.places]
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    of_place = np.array([number[name] for name in names], np.int64)[marks.place]
    edges = np.flatnonzero(np.diff(of_place)) + 1
    bounds = [0, *edges.tolist(), len(marks)]
    for first, last in itertools.pairwise(bounds):
        yield slice(first, last)


def _match_process(mine: Ints, logs: Sequence[Log]) -> Ints:
    best: tuple[int, Log | None, int] = (0, None, 0)
    for log in logs:
        shift, agree = _best_shift(mine, log.codes)
        least = max(LEAST_AGREEING, AGREEING_SHARE * min(mine.size, log.codes.size))
        if agree >= least and agree > best[0]:
            best = (agree, log, shift)
    _, found, shift = best
    out: Ints = np.full(mine.size, -1, np.int64)
    if found is None:
        return out
    at = np.arange(mine.size) + shift
    inside = np.flatnonzero((at >= 0) & (at < found.codes.size))
    same = inside[mine[inside] == found.codes[at[inside]]]
    out[same] = found.at[at[same]]
    return out


def _match_pieces(mine: Ints, end_ns: Ints, logs: Sequence[Log], iterations: pa.Table) -> Ints:
    """As `_match_process`, of a process whose profile lacks iterations of the log in between."""
    out: Ints = np.full(mine.size, -1, np.int64)
    most = max(2 * LEAST_AGREEING, AGREEING_SHARE * mine.size)
    for log in logs:
        at = in_pieces(mine, log.codes, _voted(mine, log.codes)[:MOST_SHIFTS])
        places = np.where(at >= 0, log.at[np.maximum(at, 0)], -1)
        places = _at_the_same_times(end_ns, places, iterations)
        if (agree := int((places >= 0).sum())) >= most:
            most, out = agree + 1, places
    return out


def _match_scattered(
    mine: Ints,
    marks: Marks,
    logs: Sequence[Log],
    iterations: pa.Table,
    offsets: Mapping[str, int] | None,
) -> Ints:
    """As `_match_process`, of a process whose profile lacks single iterations throughout.

    Some steps tell one log from another (`_telling`): nearly all of them must be in it, too. Only
    where there is one log none has to.
    """
    out: Ints = np.full(mine.size, -1, np.int64)
    printed, known = logged(iterations, offsets or {})
    shift = (offsets or {}).get(str(marks.places[marks.place[0]][0]), 0)
    prefills, telling = int((marks.context_tokens > 0).sum()), _telling(mine, marks)
    if not known.all() or (telling.sum() < LEAST_AGREEING and len(logs) > 1):
        return out
    most = max(2 * LEAST_AGREEING, AGREEING_SHARE * mine.size)
    took = "elapsed_ns" in iterations.column_names
    elapsed = numbers(iterations.column("elapsed_ns")) if took else np.ones_like(printed)
    for log in logs:
        at = scattered(mine, marks.start_ns + shift, log.codes, printed[log.at], elapsed[log.at])
        agree, told = int((at >= 0).sum()), int((at[telling] >= 0).sum())
        if prefills < LEAST_AGREEING and not _have_room(at, marks.start_ns, elapsed[log.at]):
            continue
        if agree >= most and told >= AGREEING_SHARE * telling.sum():
            most, out = agree + 1, np.where(at >= 0, log.at[np.maximum(at, 0)], -1)
    return out


def _have_room(at: Ints, start_ns: Ints, elapsed_ns: Ints) -> bool:
    """Whether the steps are as far apart as the iterations between them took, where some lack."""
    matched = np.flatnonzero(at >= 0)
    place = at[matched]
    if matched.size < LEAST_AGREEING or (np.diff(place) <= 0).any():
        return False
    each = elapsed_ns + between(place, start_ns[matched], elapsed_ns)
    passed = np.cumsum(each) - each
    jumps = np.flatnonzero(np.diff(place) > 1)
    room = np.diff(start_ns[matched])[jumps] >= ROOM * np.diff(passed[place])[jumps]
    return bool(room.sum() >= AGREEING_SHARE * jumps.size)


def _telling(mine: Ints, marks: Marks) -> Bools:
    """The steps that prefill: numbers of tokens that few iterations share.

    A profile may lack just those: then the steps whose composition is not that of the one before.
    """
    prefills: Bools = marks.context_tokens > 0
    if prefills.sum() >= LEAST_AGREEING:
        return prefills
    changes: Bools = np.concatenate(([False], mine[1:] != mine[:-1]))
    return prefills | changes


def _at_the_same_times(end_ns: Ints, places: Ints, iterations: pa.Table) -> Ints:
    """Return the places without those whose steps do not end when the log printed them."""
    matched = np.flatnonzero(places >= 0)
    where: Any = pa.array(places[matched])
    printed: Any = iterations.column("logged_at_ns").take(where)
    if not matched.size or printed.null_count:
        return np.full(places.size, -1, np.int64)
    late = end_ns[matched] - numbers(printed)
    found = places.copy()
    found[matched[np.abs(late - np.median(late)) > PRINTED_WITHIN_NS]] = -1
    return found


def _best_shift(mine: Ints, theirs: Ints) -> tuple[int, int]:
    """The shift (position in `theirs` of the first of `mine`) at which most codes agree."""
    best = (0, 0)
    for shift in _voted(mine, theirs)[:50]:
        at = np.arange(mine.size) + shift
        inside = (at >= 0) & (at < theirs.size)
        agree = int((mine[inside] == theirs[at[inside]]).sum())
        if agree > best[1]:
            best = (shift, agree)
    return best


def _voted(mine: Ints, theirs: Ints) -> list[int]:
    """The shifts for which equal compositions vote, most votes first.

    A composition that occurs often says little, and its votes count as much less: else those of
    many equal steps outvote the few that tell where a profile lies in a long log. So do changes
    from one composition to the next: of steps that only decode there may be nothing else.
    """
    found = [np.zeros(0, np.int64)]
    weights = [np.zeros(0, np.float64)]
    for here, there in (*_equal(mine, theirs), *_equal(_changes(mine), _changes(theirs))):
        shifts = (there[None, :] - here[:, None]).ravel()
        found.append(shifts)
        weights.append(np.full(shifts.size, 1 / there.size))
    shifts, which = np.unique(np.concatenate(found), return_inverse=True)
    votes = np.bincount(which, np.concatenate(weights), minlength=shifts.size)
    order = np.lexsort((shifts, -np.round(votes, 9)))
    listed: list[int] = shifts[order[:MOST_VOTED]].tolist()
    return listed


def _equal(mine: Ints, theirs: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield where codes are in both, those that are rarest in `theirs` first; 0 is none.

    Of a code's places in `mine` some, spread over all, and of both no more than can be paired.
    """
    order = np.argsort(theirs, kind="stable")
    values, begins, counts = np.unique(theirs[order], return_index=True, return_counts=True)
    ours = np.argsort(mine, kind="stable")
    own, firsts, sizes = np.unique(mine[ours], return_index=True, return_counts=True)
    common = np.flatnonzero(np.isin(values, own) & (values != 0))
    common = common[np.argsort(counts[common], kind="stable")]
    left = MOST_PAIRS
    for at, place in zip(
        common.tolist(), np.searchsorted(own, values[common]).tolist(), strict=True
    ):
        spread = np.linspace(0, sizes[place] - 1, min(int(sizes[place]), MOST_PLACES)).astype(int)
        left -= spread.size * int(counts[at])
        if left < 0:
            return
        yield ours[firsts[place] + spread], order[begins[at] : begins[at] + counts[at]]


def _changes(codes: Ints) -> Ints:
    """A code for each step whose composition is not that of the one before, with both; else 0."""
    out: Ints = np.zeros(codes.size, np.int64)
    other = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    out[other] = (codes[other - 1] * 1_000_003 + codes[other]) | 1
    return out
