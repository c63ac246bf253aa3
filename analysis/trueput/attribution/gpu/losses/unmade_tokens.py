"""Tokens that requests got, and that the annotated steps of a profile cannot have made.

A step gives each sequence that it decodes, and each prompt that it ends, a token at most (several
where it verifies drafts). So the steps that a profile annotates while some requests were in the
engine must have made the tokens of these requests: where they are too few, steps are missing with
all that they ran, and what looks idle there is not known to be. Nothing is asked of how long a
device did nothing: an engine that leaves it idle makes no tokens meanwhile.

The requests are those of one record (spans, or a client's result), each from when it was in the
engine until its last token; the account closes where none was, so that it is made for each stretch
of time in between, and where there is none, for each stretch without a step. Tokens of a request
count where all its time lies in that of the steps. A profile of one replica of several shows fewer
sequences in its steps than requests were decoding: of such nothing is said. Steps that lost their
annotation alone may have made tokens, too: what was launched outside of the others tells of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from trueput.attribution.gpu.losses.empty_steps import computing
from trueput.attribution.gpu.losses.lost_steps import LostSteps
from trueput.attribution.gpu.losses.unseen import is_compute_launch
from trueput.attribution.gpu.profile.idle_within import idle_within, of_process
from trueput.attribution.gpu.profile.marks import Bools, Marks, numbers, read_marks, row_groups
from trueput.attribution.gpu.profile.stretches import Stretches, united
from trueput.attribution.records import Ints

FEW: Final = 3
"""Of fewer steps or requests nothing is concluded."""
LEAST_TOKENS: Final = 2
LEAST_MISSING: Final = 0.002
"""Nor of fewer tokens, or a smaller share of them: a record may count one that no step made."""
SAME_HOST_NS: Final = 20_000_000
"""Clocks of one machine, and the way of a token to who dates it, differ by no more."""
ALL_SERVED: Final = 0.8
"""A process whose steps hold a smaller share of the requests that decoded is one of several."""
MOST_RESUMED: Final = 0.01
"""Where more steps than these, and not a few, were given more tokens than sequences, drafts may be
among them; fewer may only have computed tokens again."""
SOME: Final = 5
LONG_GAPS: Final = 10
"""A stretch without a step is looked at where it is as many times as long as steps are apart."""

_LAUNCH: Final = ("process_key", "api", "start_at_ns")


@dataclass(frozen=True)
class Served:
    """Requests of one record; arrays of one length, instants in UTC.

    `tokens` are those that a step each must have made, 0 where nothing tells.
    """

    begin_ns: Ints
    first_ns: Ints
    """The first token."""
    last_ns: Ints
    tokens: Ints
    slack_ns: int
    """By so much their clock may be off that of a profile, on one machine."""
    apart_ns: int
    """By so much where it may be that of another machine."""

    @property
    def margin_ns(self) -> int:
        """How far what is told may lie from what the profile tells of the same instant."""
        return max(self.slack_ns, self.apart_ns)


def unmade_tokens(
    files: Mapping[str, Mapping[str, Path]],
    records: Sequence[Served],
    drafts: int | None = None,
) -> list[LostSteps]:
    """Return what each file lacks: of its process with most of it, where that can be told.

    `files` gives the parts of each, in UTC: gpu_ops, gpu_launches and gpu_ranges. `drafts`: how
    many tokens the engine speculates for a sequence, None where nothing tells.
    """
    found: list[LostSteps] = []
    for source, parts in files.items() if records else ():
        marks = read_marks([parts["gpu_ranges"]])
        if marks is not None and (lost := _of_file(source, parts, marks, records, drafts)):
            found.append(lost)
    return found


def _of_file(
    source: str,
    parts: Mapping[str, Path],
    marks: Marks,
    records: Sequence[Served],
    drafts: int | None,
) -> LostSteps | None:
    worst: LostSteps | None = None
    for process in dict.fromkeys(place[1] for place in marks.places):
        codes = [code for code, place in enumerate(marks.places) if place[1] == process]
        mine = marks.of(np.isin(marks.place, codes) & computing(marks))
        if len(mine) < FEW or mine.untold.any():
            continue
        mine = mine.of(np.argsort(mine.start_ns, kind="stable"))
        for served in records:
            found = _of_process(source, parts, process, mine, served, drafts)
            if found is not None and (worst is None or found.lost > worst.lost):
                worst = found
    return worst


def _of_process(
    source: str,
    parts: Mapping[str, Path],
    process: str | None,
    marks: Marks,
    served: Served,
    drafts: int | None,
) -> LostSteps | None:
    inside = _inside(marks, served)
    if inside.sum() < LEAST_TOKENS or not _serves_all(marks, served):
        return None
    most = _most_tokens(marks, drafts)
    missing, where = _missing(marks, served, inside, most)
    whole = int(served.tokens[inside].sum())
    if missing >= LEAST_TOKENS:
        unnamed = _unannotated(parts["gpu_launches"], process, marks)
        missing -= unnamed * int(most.max())
    if missing < max(LEAST_TOKENS, LEAST_MISSING * whole):
        return None
    what = "tokens that requests got were made by no step of it: steps and their annotations"
    idle = idle_within(parts["gpu_ops"], process, where.start_ns, where.end_ns)
    span = int(marks.end_ns.max() - marks.start_ns[0])
    return LostSteps(source, missing, whole, what, idle, span)


def _inside(marks: Marks, served: Served) -> Bools:
    """Return which requests were in the engine while the steps were watched, and got tokens."""
    first, last = int(marks.start_ns[0]), int(marks.end_ns.max())
    near, got = served.slack_ns, served.tokens > 0
    found: Bools = (served.begin_ns >= first - near) & (served.last_ns <= last + near)
    if not found[got].all():
        # others reach out of the profile: which of them do not depends on the clocks
        near = -served.margin_ns
        found = (served.begin_ns >= first - near) & (served.last_ns <= last + near)
    return found & got


def _serves_all(marks: Marks, served: Served) -> bool:
    """Return whether the steps hold the requests that were decoding when they began."""
    near = served.slack_ns
    begun = np.searchsorted(np.sort(served.first_ns), marks.start_ns - near, "left")
    ended = np.searchsorted(np.sort(served.last_ns), marks.end_ns + near, "right")
    there = np.maximum(begun - ended, 0)
    held = marks.generation_requests + marks.context_requests
    whole = int(there.sum())
    return whole > 0 and int(np.minimum(held, there).sum()) >= ALL_SERVED * whole


def _missing(
    marks: Marks, served: Served, inside: Bools, most_tokens: Ints
) -> tuple[int, Stretches]:
    """Return how many tokens no step made, at least, and the stretches in which they came."""
    begin, end = served.begin_ns, served.last_ns
    stays = united(begin - served.margin_ns, end + served.margin_ns + 1)
    firsts = marks.context_requests, np.ones_like(begin)
    every = most_tokens, served.tokens
    best = 0, Stretches(begin[:0], begin[:0])
    for stretches in (stays, _without_steps(marks, served.margin_ns)):
        if not stretches.size:
            continue
        at = np.searchsorted(stretches.start_ns, begin, "right") - 1
        held = inside & (at >= 0) & (end <= stretches.end_ns[at])
        low, high = (np.searchsorted(marks.start_ns, x, "left") for x in stretches)
        short: Ints = np.zeros(stretches.size, np.int64)
        for most, got in (firsts, every):
            made = np.concatenate(([0], np.cumsum(most)))
            came = np.bincount(at[held], got[held], stretches.size).astype(np.int64)
            short = np.maximum(short, came - (made[high] - made[low]))
        if (count := int(short.sum())) > best[0]:
            gone = short > 0
            best = count, Stretches(stretches.start_ns[gone], stretches.end_ns[gone])
    return best


def _without_steps(marks: Marks, near_ns: int) -> Stretches:
    """Return the long stretches in which no step began, without the step before each."""
    apart = np.diff(marks.start_ns)
    long = apart > LONG_GAPS * max(int(np.median(apart)), 1)
    low = np.maximum(marks.start_ns[:-1], marks.end_ns[:-1])[long] + near_ns
    high = marks.start_ns[1:][long] - near_ns
    return Stretches(low[low < high], high[low < high])


def _unannotated(launches: Path, process: str | None, marks: Marks) -> int:
    """Return how many steps without an annotation can have launched what lies behind the others.

    Engines launch some work between their annotated steps, about as much behind each.
    """
    ends = np.maximum.accumulate(marks.end_ns)
    inside, behind = (np.zeros(len(marks), np.int64) for _ in range(2))
    for rows in row_groups([launches], _LAUNCH):
        at = numbers(rows.column("start_at_ns"))
        at = at[is_compute_launch(rows) & of_process(rows, process)]
        step = np.searchsorted(marks.start_ns, at, "right") - 1
        within = at <= ends[step]
        inside += np.bincount(step[(step >= 0) & within], minlength=len(marks))
        behind += np.bincount(step[(step >= 0) & ~within], minlength=len(marks))
    more = int(np.maximum(behind - int(np.median(behind)), 0).sum())
    least = int(inside[inside > 0].min()) if inside.any() else 1
    return -(-more // least)


def _most_tokens(marks: Marks, drafts: int | None) -> Ints:
    """Return how many tokens each step can have made, where so many are drafted for a sequence."""
    sequences, tokens = marks.generation_requests, marks.generation_tokens
    drafted = (tokens > sequences)[marks.context_requests == 0]
    if drafts is None and drafted.sum() >= max(SOME, MOST_RESUMED * drafted.size):
        drafts = int(tokens.max())
    found: Ints = np.maximum(sequences, np.minimum(tokens, sequences * (1 + (drafts or 0))))
    return found + marks.context_requests
