"""In which order a first-come-first-served engine took its requests in.

Of requests that arrive together the front end may hand on a later one first. Where the engine timed
its queue, arrival and queue say when a request was first scheduled, less what passed before it was
queued: the front end's work, and the iteration that was under way, as an engine takes new requests
between two. Requests that were scheduled farther apart than that come in the order in which they
were scheduled, all others in that of their arrival. A request whose queue nobody timed is taken to
have been scheduled with the earlier of its neighbours by arrival.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import accumulate

from trueput.attribution.replay.stories import Job

FRONT_END_NS = 5_000_000
"""What the front end may take to hand a request on."""


def admission_order(jobs: Sequence[Job], longest_step_ns: int) -> list[int]:
    """Return the indexes of the jobs whose arrival is known, in order of admission."""
    coming = sorted(_scheduled(jobs))
    slack = FRONT_END_NS + longest_step_ns
    order: list[int] = []
    open_jobs: list[tuple[int, int]] = []
    taken: set[int] = set()
    added = 0
    for scheduled, _, index in coming:
        while index not in taken:
            while added < len(coming) and coming[added][0] <= scheduled + slack:
                heapq.heappush(open_jobs, coming[added][1:])
                added += 1
            _, first = heapq.heappop(open_jobs)
            taken.add(first)
            order.append(first)
    return order


def _scheduled(jobs: Sequence[Job]) -> list[tuple[int, int, int]]:
    """When each was scheduled, less what passed before it was queued; its arrival and index."""
    rows = sorted(
        (job.arrived_at_ns, job.index, job.queue_ns)
        for job in jobs
        if job.arrived_at_ns is not None
    )
    known = [None if queue is None else at + queue for at, _, queue in rows]
    before = list(accumulate(known, _latter_known))
    after = list(accumulate(reversed(known), _latter_known))[::-1]
    found = []
    for (at, index, queue), *near in zip(rows, before, after, strict=True):
        if queue is None:
            neighbour = min((x for x in near if x is not None), default=at)
            found.append((max(at, neighbour), at, index))
        else:
            found.append((at + queue, at, index))
    return found


def _latter_known(one: int | None, other: int | None) -> int | None:
    return one if other is None else other
