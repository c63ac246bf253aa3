"""When a request may have gone: what its records say, and what a departure there costs a story."""

from __future__ import annotations

import math
from bisect import bisect_left

from trueput.attribution.replay.nats import DOUBT, LEFT, LEFT_UNKNOWN, UNENDED
from trueput.attribution.replay.printed import Printed
from trueput.attribution.replay.stories import Job, Live

SLACK_NS = 50_000_000
"""What the instants of records and those of iterations may differ by."""
LEAVE_SCALE_NS = 500_000_000
"""So far from when it may have left, a departure costs one nat more."""
ANY_NUMBER = 1 << 60
"""Steps, where nothing limits them."""


class Departures:
    """Who may have left by which of the printed iterations."""

    def __init__(self, printed: Printed) -> None:
        self._start_low, self._start_high = printed.start_low, printed.start_high

    def cost(self, live: Live, i: int) -> float:
        """Nats for a request's having left just before step `i`; infinite where it cannot."""
        return math.inf if live.out < live.job.received else self._cost(live.job, i)

    def cost_unserved(self, job: Job, i: int) -> float:
        """Nats for a request's having left just before step `i` without ever having run."""
        return math.inf if job.received else self._cost(job, i)

    def _cost(self, job: Job, i: int) -> float:
        if not job.may_leave:
            return math.inf
        if job.left_after_ns is None or job.left_before_ns is None:
            return LEFT_UNKNOWN
        # clients misstate when they gave up (a cancellation delay counted twice was seen)
        early = job.left_after_ns - SLACK_NS - self._start_high[i]
        late = self._start_low[i] - SLACK_NS - job.left_before_ns
        return LEFT + max(0, early, late) / LEAVE_SCALE_NS

    def cost_of_staying(self, live: Live, n: int) -> float:
        """Nats for a request's being there after all `n` iterations although it is known to end.

        Staying must not be cheaper than leaving. Where the log was cut all stories pay alike.
        """
        job = live.job
        if not job.may_leave:
            return UNENDED
        return 0.0 if job.left_before_ns is None else min(self.cost(live, n - 1), UNENDED)

    def has_gone(self, job: Job, i: int) -> bool:
        """Whether a request that is not running had gone for certain before step `i`."""
        return (
            job.may_leave
            and job.left_before_ns is not None
            and job.left_before_ns + SLACK_NS < self._start_low[i]
        )

    def steps_before(self, live: Live, i: int) -> int:
        """Steps from `i` on before which a request cannot well have gone."""
        job = live.job
        if job.left_after_ns is None or job.left_before_ns is None:
            return ANY_NUMBER
        late = self._start_low[i] - SLACK_NS - job.left_before_ns
        if late > DOUBT * LEAVE_SCALE_NS:
            return ANY_NUMBER
        since = bisect_left(self._start_high, job.left_after_ns - SLACK_NS, i)
        return max(0, job.received - live.out, since - i)
