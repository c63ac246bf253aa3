"""In which iterations each request computed what, as the replay's best story tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trueput.attribution.replay import Event

PREFILL, DECODE, RECOMPUTE = "prefill", "decode", "recompute"


@dataclass(frozen=True)
class Presence:
    """One request at one kind of work from position `first` to `last` (inclusive) of its engine.

    `tokens` are the recomputed tokens of a recompute row, None for the others.
    """

    job: int
    work: str
    first: int
    last: int
    tokens: int | None = None


def presences(events: Sequence[Event], steps: int) -> list[Presence]:
    """Return the presences that a story's events (in order) amount to over `steps` iterations.

    A request prefills from its admission to the iteration of its first token, then decodes; a
    preemption interrupts either. What it computes again is a row for each such iteration.
    """
    found: list[Presence] = []
    open_at: dict[int, tuple[str, int]] = {}
    started: set[int] = set()

    def close(job: int, last: int) -> None:
        work, first = open_at.pop(job, (PREFILL, last + 1))
        if first <= last:
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
        elif event.kind == "recompute" and event.tokens > 0:
            found.append(Presence(job, RECOMPUTE, step, step, event.tokens))
    for job in sorted(open_at):
        close(job, steps - 1)
    return found
