"""Latency percentiles, over survivors or with failures as +inf, and when to trust them.

Between two ranks a percentile is interpolated, as numpy and `vllm bench serve` do: the median of an
even number is the mean of the middle two, here and in the gate.

A percentile of few requests is one of their largest values: it is shown, and nothing is judged from
it, below ``requests_needed``. A request that was sent and did not end as asked has no latency; with
failures it counts as +inf, so that losing the slowest requests cannot improve a tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trueput.gate.figures import RunFigures

#: Requests beyond a percentile from which on it may be judged: 1,000 requests for a p99.
_BEYOND = 10


def requests_needed(share: float) -> int:
    """Return the least number of requests from which a percentile is judged: 10 lie beyond it."""
    return math.ceil(round(_BEYOND / (1 - share), 6)) if share < 1 else 0


def percentile(run: RunFigures, name: str, share: float, with_failures: bool) -> float | None:
    """Return a latency percentile in ns; ``inf`` where a failure takes part in it."""
    import numpy as np

    values = np.sort(run.sent_inside.known(name, run.sent_inside.survived))
    count = len(values) + (run.sent_inside.lost() if with_failures else 0)
    if not count:
        return None
    below, part = divmod(round(share * (count - 1), 9), 1)
    place = int(below)
    if place + (part > 0) >= len(values):
        return math.inf
    return float(values[place] + (part * (values[place + 1] - values[place]) if part else 0))


def too_few(runs: Sequence[RunFigures], name: str, share: float, with_failures: bool) -> bool:
    """Tell whether a run has too few requests for a verdict on this percentile."""
    counts = [
        len(run.sent_inside.known(name, run.sent_inside.survived))
        + (run.sent_inside.lost() if with_failures else 0)
        for run in runs
    ]
    return share > 0.5 and min(counts, default=0) < requests_needed(share)
