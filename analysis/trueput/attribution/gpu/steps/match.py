"""Which iteration of the engine's log each annotated step is: equal compositions in equal order."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.profile.marks import COMPOSITION, Bools, Marks, numbers
from trueput.attribution.gpu.steps.pieces import MOST_SHIFTS, in_pieces
from trueput.attribution.gpu.steps.scattered import between, scattered
from trueput.attribution.gpu.steps.stretch import (
    AGREEING_SHARE,
    LEAST_AGREEING,
    Log,
    one_stretch,
    voted,
)
from trueput.attribution.gpu.time.clock import SEVERAL, logged
from trueput.attribution.iterations.log import ELAPSED, PRINTED
from trueput.attribution.records import Ints

ROOM = 0.7
"""Of the time that iterations took, so much at least passed while they ran."""
PRINTED_WITHIN_NS = 1_000_000_000
"""The time from the second that a line prints to the end of its step is that of most, but for
this: a constant, and up to a second."""


def _codes(columns: Sequence[Ints]) -> Ints:
    """One integer per step for its composition; equal compositions, equal codes."""
    out: Ints = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        out = out * 1_000_003 + column
    return out


def _logs(iterations: pa.Table, offsets: Mapping[str, int]) -> list[Log]:
    """The lives of engines, in order of first sight; instants by `offsets` in UTC."""
    life: Ints = np.zeros(iterations.num_rows, np.int64)
    for name in ("engine", "incarnation"):
        column: Any = iterations.column(name).combine_chunks()
        coded = column.dictionary_encode(null_encoding="encode")
        life = life * len(coded.dictionary) + coded.indices.to_numpy(zero_copy_only=False)
    codes = _codes([numbers(iterations.column(c)) for c in COMPOSITION])
    different, first = np.unique(life, return_index=True)
    lives = (np.flatnonzero(life == number) for number in different[np.argsort(first)].tolist())
    elapsed = printed = None
    if PRINTED in iterations.column_names:
        told, known = logged(iterations, offsets)
        printed = told if known.all() else None
    if ELAPSED in iterations.column_names and not iterations.column(ELAPSED).null_count:
        elapsed = numbers(iterations.column(ELAPSED))
    return [
        Log(at, codes[at], *(None if x is None else x[at] for x in (printed, elapsed)))
        for at in lives
    ]


def matched(
    marks: Marks,
    iterations: pa.Table,
    offsets: Mapping[str, int] | None = None,
    dated: Collection[str] = (),
) -> Ints:
    """Return the position in `iterations` of each step's iteration, -1 where none was matched, and
    SEVERAL for all steps of a process that may be one of several stretches of the log.

    One shift for a process must make nearly all compositions agree. Or several, where iterations
    are missing from the profile: then the steps must also end when the log printed them, and as
    much time must have passed as these took. Where single ones are missing throughout, both clocks
    must be known: `offsets` (ns by file) take instants to UTC in the files of `dated`.
    """
    out: Ints = np.full(len(marks), -1, np.int64)
    logs = _logs(iterations, offsets or {}) if iterations.num_rows else []
    for process in _processes(marks) if logs else ():
        mine = _codes([getattr(marks, name)[process] for name in COMPOSITION])
        source = str(marks.places[marks.place[process][0]][0])
        start_ns = marks.start_ns[process] + (offsets or {}).get(source, 0)
        found = one_stretch(mine, start_ns, logs, is_dated=source in dated)
        if (found == SEVERAL).any():
            if source in dated:
                single = _match_scattered(mine, marks.of(process), logs, iterations, offsets)
                # time that passes where iterations would be missing is no chance
                found = single if _jumps(single) >= LEAST_AGREEING else found
        elif (found < 0).any() and PRINTED in iterations.column_names:
            pieces = _match_pieces(mine, marks.of(process), logs, iterations)
            found = _better(found, pieces)
            if source in dated:
                single = _match_scattered(mine, marks.of(process), logs, iterations, offsets)
                # of equal iterations, pieces take the last as missing, these the nearest in time
                found = _better(found, single) if found is not pieces else _better(single, found)
        out[process] = found
    return out


def _jumps(at: Ints) -> int:
    """Return how often iterations lie between two steps that follow each other."""
    return int((np.diff(at[at >= 0]) > 1).sum())


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


def _match_pieces(mine: Ints, marks: Marks, logs: Sequence[Log], iterations: pa.Table) -> Ints:
    """As `one_stretch`, of a process whose profile lacks iterations of the log in between."""
    out: Ints = np.full(mine.size, -1, np.int64)
    most = max(2 * LEAST_AGREEING, AGREEING_SHARE * mine.size)
    for log in logs:
        at = in_pieces(mine, log.codes, voted(mine, log.codes)[:MOST_SHIFTS])
        places = np.where(at >= 0, log.at[np.maximum(at, 0)], -1)
        places = _at_the_same_times(marks.end_ns, places, iterations)
        if log.elapsed_ns is not None and not _have_room(at, marks.start_ns, log.elapsed_ns):
            continue
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
    """As `one_stretch`, of a process whose profile lacks single iterations throughout.

    Some steps tell one log from another (`_telling`): nearly all of them must be in it, too. Only
    where there is one log none has to.
    """
    out: Ints = np.full(mine.size, -1, np.int64)
    printed, known = logged(iterations, offsets or {})
    shift = (offsets or {}).get(str(marks.places[marks.place[0]][0]), 0)
    telling = _telling(mine, marks)
    if not known.all() or (telling.sum() < LEAST_AGREEING and len(logs) > 1):
        return out
    most = max(2 * LEAST_AGREEING, AGREEING_SHARE * mine.size)
    took = "elapsed_ns" in iterations.column_names
    elapsed = numbers(iterations.column("elapsed_ns")) if took else np.ones_like(printed)
    for log in logs:
        at = scattered(mine, marks.start_ns + shift, log.codes, printed[log.at], elapsed[log.at])
        agree, told = int((at >= 0).sum()), int((at[telling] >= 0).sum())
        if took and not _have_room(at, marks.start_ns, elapsed[log.at]):
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
