"""In which iterations each request computed what, as the replay's best story tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trueput.attribution.replay.stories import Event

PREFILL, DECODE, RECOMPUTE = "prefill", "decode", "recompute"


@dataclass(frozen=True)
class Presence:
    """One request at one kind of work from position `first` to `last` (inclusive) of its engine.

    `tokens` are those of one iteration: computed of the prompt for the first time, or again. None
    for decode, and for a prefill whose iterations are known only as a stretch.
    """

    job: int
    work: str
    first: int
    last: int
    tokens: int | None = None
    other: int | None = None
    """What `tokens` are just as likely."""
    low: int | None = None
    """What `tokens` lie between."""
    high: int | None = None


def presences(events: Sequence[Event], steps: int) -> list[Presence]:
    """Return the presences that a story's events (in order) amount to over `steps` iterations.

    A request prefills from its admission to the iteration of its first token, then decodes; a
    preemption interrupts either. What it computes of its prompt and what it computes again is a row
    for each such iteration. Where lines are lost, a prefill is one row from its begin to its end.
    An engine that schedules ahead of outputs may have one decode that has ended already.
    """
    found: list[Presence] = []
    prefilled = {event.job for event in events if event.kind == PREFILL}
    open_at: dict[int, tuple[str, int]] = {}
    started: set[int] = set()

    def close(job: int, last: int) -> None:
        work, first = open_at.pop(job, (PREFILL, last + 1))
        if first <= last and not (work == PREFILL and job in prefilled):
            found.append(Presence(job, work, first, last))

    for event in events:
        job, step = event.job, event.step
        if job < 0:
            continue
        if event.kind == "admit":
            open_at[job] = (PREFILL, step)
        elif event.kind == "start" and job not in started:
            started.add(job)
            close(job, step)
            open_at[job] = (DECODE, step + 1)
        elif event.kind in {"preempt", "stop", "left"}:
            close(job, step - 1)
        elif event.kind == "resume":
            open_at[job] = (DECODE if job in started else PREFILL, step)
        elif event.kind == "ghost":
            found.append(Presence(job, DECODE, _taken_back(found, job, step), step))
        elif event.kind in {PREFILL, RECOMPUTE} and event.tokens > 0:
            found.append(Presence(job, event.kind, step, step, event.tokens))
    for job in sorted(open_at):
        close(job, steps - 1)
    return found


def _taken_back(found: list[Presence], job: int, step: int) -> int:
    """Return where the job's decode began that lasted until `step`, having removed it."""
    for at in range(len(found) - 1, -1, -1):
        if found[at].job == job:
            if found[at].work == DECODE and found[at].last == step - 1:
                return found.pop(at).first
            break
    return step
