"""Whether the clock of a profile is that of the engine's log, by the steps that both show.

A step of a profile and the iteration of the log that it was matched to (by composition and order,
not by time) are the same event. The log prints an iteration after it ended, to the whole second:
the end of the step, less the second that is printed, lies between 0 and 1 s, less the little that
printing takes. Files whose steps are the same iterations must agree among themselves much better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.profile.marks import Bools, Marks, numbers
from trueput.attribution.records import Ints
from trueput.source_api import Problem, Severity
from trueput.units import ns_text

SECOND_NS: Final = 1_000_000_000
SLACK_NS: Final = 500_000_000
"""A step may be printed as long after its end, and clocks of machines may be off by as much."""
RANKS_APART_NS: Final = 200_000_000
"""Ranks begin a step together; a host that is behind launches it a few steps later."""
FEW: Final = 3
"""Of fewer steps nothing is concluded."""
SEVERAL: Final = -2
"""In place of the position of a step's iteration, where it may be one of several stretches."""
_NEARLY_ALL: Final = 0.98

OfFile = tuple[str, Problem]


def clock_problems(
    marks: Marks, at: Ints, iterations: pa.Table, offsets: Mapping[str, int]
) -> list[OfFile]:
    """Return a problem for each file whose steps the log does not show, or shows at other times.

    `at` is the position in `iterations` of each step's iteration, less than 0 without one. Instants
    become UTC by `offsets` (ns by file).
    """
    if not iterations.num_rows:
        return []
    printed, known = logged(iterations, offsets)
    files: dict[str, Bools] = {}
    for code, place in enumerate(marks.places):
        mine = marks.place == code
        files[str(place[0])] = files.get(str(place[0]), np.zeros_like(mine)) | mine
    found: list[OfFile] = []
    agreeing: tuple[str, Ints, Ints] | None = None
    for file, steps in sorted(files.items()):
        offset = offsets.get(file, 0)
        start, end = marks.start_ns[steps] + offset, marks.end_ns[steps] + offset
        of_log = at[steps] >= 0
        if not of_log.any():
            several = bool((at[steps] == SEVERAL).any())
            found += _unmatched(file, start, printed[known], several=several)
            continue
        where = at[steps][of_log]
        told = known[where]
        problem = _off_the_log(file, end[of_log][told] - printed[where][told])
        if problem is None and agreeing is not None:
            problem = _off_another(file, where, start[of_log], *agreeing)
        if problem is not None:
            found.append((file, problem))
        elif agreeing is None:
            agreeing = file, where, start[of_log]
    return found


def logged(iterations: pa.Table, offsets: Mapping[str, int]) -> tuple[Ints, Bools]:
    """Return when each iteration was printed (ns, UTC), and whether that is known."""
    printed: Any = iterations.column("logged_at_ns")
    source: Any = iterations.column("source_id").combine_chunks().dictionary_encode()
    offset = np.array([offsets.get(name, 0) for name in source.dictionary.to_pylist()], np.int64)
    known: Bools = printed.is_valid().to_numpy()
    return numbers(printed) + offset[source.indices.to_numpy()], known


def _off_the_log(file: str, late_ns: Ints) -> Problem | None:
    """Return what is wrong with steps that end so long after the second their line prints."""
    if late_ns.size < FEW:
        return None
    latest = int(np.quantile(late_ns, _NEARLY_ALL))
    if latest > SECOND_NS + SLACK_NS:
        return _apart(file, latest - SECOND_NS, "or more later", "the log")
    if latest < -SLACK_NS:
        return _apart(file, -latest, "or more earlier", "the log")
    return None


def _off_another(
    file: str, mine: Ints, mine_ns: Ints, other: str, theirs: Ints, theirs_ns: Ints
) -> Problem | None:
    """Return what is wrong where the same iterations begin at another time in another file."""
    same, here, there = np.intersect1d(mine, theirs, return_indices=True)
    if same.size < FEW:
        return None
    apart = int(np.median(mine_ns[here] - theirs_ns[there]))
    if abs(apart) <= RANKS_APART_NS:
        return None
    return _apart(file, abs(apart), "later" if apart > 0 else "earlier", f"`{other}`")


def _apart(file: str, by_ns: int, side: str, what: str) -> Problem:
    text = (
        f"the steps of `{file}` lie {ns_text(by_ns)} {side} than the same steps in {what}: the "
        "clocks differ, and what the profile shows in the window is not what ran in it"
    )
    return Problem("ATTR010", Severity.WARNING, text)


def _unmatched(file: str, start_ns: Ints, logged_ns: Ints, *, several: bool) -> list[OfFile]:
    if not logged_ns.size:
        return []
    early = int(start_ns.min() - logged_ns.min())
    side = "after" if early >= 0 else "before"
    what = "may be one of several stretches of" if several else "are no stretch of"
    if start_ns.size < FEW:
        what = "are too few to be found among"
    text = (
        f"the steps of `{file}` {what} the log's iterations: which requests they served "
        "is not known, and their work is shared over outcomes like the whole run's. Its first "
        f"step begins {ns_text(abs(early))} {side} the first printed iteration"
    )
    return [(file, Problem("ATTR011", Severity.INFO, text))]
