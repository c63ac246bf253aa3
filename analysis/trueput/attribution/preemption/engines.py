"""Each engine process of a run replayed: its best story, and what that says of its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from trueput.attribution.iterations.recompute import ReplayTokens, lost_lines
from trueput.attribution.iterations.timeline import Window, dated_ends, nothing_seen, printed_window
from trueput.attribution.preemption.claims import Claim, claims_of
from trueput.attribution.preemption.confidence import weigh
from trueput.attribution.preemption.presence import Presence
from trueput.attribution.preemption.processes import requests_by_process, why_no_replay
from trueput.attribution.preemption.replay_tokens import tokens_of_stories
from trueput.attribution.preemption.served import is_near, presences_with_tokens
from trueput.attribution.preemption.sightings import sightings
from trueput.attribution.records import UNTOLD, EngineLimits, Ints, Steps, Stream, Totals
from trueput.attribution.replay.beam import Allowance
from trueput.attribution.replay.search import Replay
from trueput.attribution.replay.stories import Story

MOST_DENIED = 0.5
"""Of iterations with annotations the best story may fail so many; else none of them is used."""


@dataclass
class ReplayedEngine:
    """One engine process, replayed; arrays are as long as `steps`."""

    steps: Steps
    window: Window
    claims: dict[int, Claim]
    """Victims, by their position among the run's requests."""
    ends: Ints
    """When each iteration ended, UTC ns, as near as is known."""
    assigned: Ints
    """Recomputed tokens of victims in each iteration."""
    story: Story | None
    """The best; None where nothing was replayed, or only who was served."""
    replay_tokens: ReplayTokens | None
    preemptions: int
    """As the best story tells them."""
    presences: tuple[Presence, ...] = ()
    doubts: Mapping[int, float] = field(default_factory=dict)
    """How likely requests that are no victims of the story were preempted all the same, 0..1."""
    unsearched: int = 0
    """Iterations with more ways to go on than were looked at, and those after a giving up."""
    denied_shapes: bool = False
    """What annotations tell of its iterations fits no account of its requests."""

    @property
    def holds(self) -> bool:
        """Whether the story is right enough to say whom the iterations served."""
        return self.story is None or not self.story.wrong_steps or bool(self.presences)


def replay_all(
    steps: Sequence[Steps],
    streams: Sequence[Stream],
    limits: EngineLimits,
    totals: Totals,
    notes: list[str],
) -> list[ReplayedEngine]:
    """Return the engine processes of `steps` in their order, replayed where that can be done.

    `totals` are the run's own. What limits the replays is added to `notes`, in words.
    """
    why = why_no_replay(steps, streams, limits)
    if why is not None:
        notes.append(why)
    if lost_lines(steps):
        notes.append(f"{lost_lines(steps)} iteration lines are missing")
    engines = []
    allowance = Allowance()
    for one, own in zip(steps, requests_by_process(steps, streams), strict=True):
        window = printed_window(one, ahead=bool(limits.async_scheduling))
        if window.overlapping:
            notes.append(f"engine {one.engine}: iterations overlap")
        if len(one.step_ix) == 0 or why is not None:
            engines.append(_unreplayed(one, window))
            continue
        mine = [stream for _, stream in own]
        is_calm = totals.preemptions == 0
        begin = partial(Replay, window=window, streams=mine, limits=limits, allowance=allowance,
                        may_preempt=not is_calm)  # fmt: skip
        replay, stories, is_denied = _replayed(one, begin)
        whole = totals if len(steps) == 1 else None
        if is_calm:
            found = _only_presences(replay, stories[0], one, window, own, limits, whole)
        else:
            found = _replay_one(replay, stories, one, window, own, limits, whole, notes)
        engines.append(replace(found, denied_shapes=is_denied))
    return engines


def _replayed(steps: Steps, begin: Callable[[Steps], Replay]) -> tuple[Replay, list[Story], bool]:
    """Return a replay of the iterations, its stories, and whether annotations were left out of it.

    Where what annotations tell of iterations fits no story, those are left out; and all of them
    where they fit none at most. Either only where a story then fits better: they are of other
    requests, or mean something else.
    """
    replay = begin(steps)
    stories = replay.run()
    if steps.shapes is None:
        return replay, stories, False
    told = np.intersect1d(replay.looked_at, np.flatnonzero((steps.shapes != UNTOLD).any(axis=1)))
    wrong = np.intersect1d(told, stories[0].wrong_steps)
    if not wrong.size:
        return replay, stories, False
    fewer = steps.shapes.copy()
    fewer[wrong] = UNTOLD
    least = len(set(stories[0].wrong_steps))
    for shapes in (fewer, None) if wrong.size <= MOST_DENIED * told.size else (None,):
        other = begin(replace(steps, shapes=shapes))
        found = other.run()
        if len(set(found[0].wrong_steps)) < least or other.reached > replay.reached:
            return other, found, True
    return replay, stories, False


def _unreplayed(steps: Steps, window: Window) -> ReplayedEngine:
    nothing = np.zeros(len(steps.step_ix), dtype=np.int64)
    ends = dated_ends(steps, window, nothing_seen(steps))
    return ReplayedEngine(steps, window, {}, ends, nothing, None, None, 0)


def _only_presences(
    replay: Replay,
    best: Story,
    steps: Steps,
    window: Window,
    own: list[tuple[int, Stream]],
    limits: EngineLimits,
    totals: Totals | None,
) -> ReplayedEngine:
    """Where nothing was preempted the replay only says which requests an iteration served."""
    found = _unreplayed(steps, window)
    n = len(steps.step_ix)
    streams = [stream for _, stream in own]
    if not is_near(best, n, streams) or replay.cut_short or replay.reached < n:
        return found
    here = presences_with_tokens(best.events(), n, streams, limits, totals)
    return replace(found, presences=_of_run(here, own))


def _replay_one(
    replay: Replay,
    stories: list[Story],
    steps: Steps,
    window: Window,
    own: list[tuple[int, Stream]],
    limits: EngineLimits,
    totals: Totals | None,
    notes: list[str],
) -> ReplayedEngine:
    streams = [stream for _, stream in own]
    n = len(steps.step_ix)
    if replay.reached < n:
        notes.append(
            f"engine {steps.engine}: the scheduling replay does not fit and was given up at "
            f"iteration {int(steps.step_ix[replay.reached])}"
        )
    accounts = [claims_of(story.events(), n) for story in stories]
    weigh(stories, accounts, totals)
    best, (claims, preemptions) = stories[0], accounts[0]
    assigned = np.zeros(n, dtype=np.int64)
    for claim in claims.values():
        for step, tokens in claim.tokens.items():
            assigned[step] += tokens
    here: list[Presence] = []
    if is_near(best, n, streams):
        here = presences_with_tokens(best.events(), n, streams, limits, totals)
    return ReplayedEngine(
        steps=steps,
        window=window,
        claims={own[job][0]: claim for job, claim in claims.items() if job >= 0},
        ends=dated_ends(steps, window, sightings(best.events(), streams, steps)),
        assigned=assigned,
        story=best,
        replay_tokens=tokens_of_stories(stories),
        preemptions=preemptions,
        presences=_of_run(here, own),
        doubts={own[k][0]: p for k, p in best.doubts.items() if k >= 0 and k not in claims},
        unsearched=replay.cut_short + n - replay.reached,
    )


def _of_run(here: Sequence[Presence], own: Sequence[tuple[int, Stream]]) -> tuple[Presence, ...]:
    """The presences of an engine's requests, each with its position among those of the run."""
    return tuple(replace(x, job=own[x.job][0]) for x in here)
