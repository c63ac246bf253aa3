"""How two runs differ in the load that was asked for: lengths, rate, gaps between sends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeAlias

from trueput.gate.figures import RunFigures

#: Largest relative difference of an arrival rate that still counts as the same load.
RATE_LIMIT = 0.02
#: Largest Kolmogorov distance of gaps, or of lengths, that still counts as the same load.
DISTANCE_LIMIT = 0.12
#: Tokens may drift by this share of a length (chat templates, another tokeniser's count).
LENGTH_DRIFT = 0.02
#: Largest relative difference of the mean length that still counts as the same load.
MEAN_LENGTH_LIMIT = 0.05


@dataclass(frozen=True)
class Difference:
    """One way in which two sides differ, with its size; ``blocks`` makes them not comparable."""

    aspect: str
    baseline: str
    candidate: str
    difference: str
    blocks: bool


#: Aspects that are lengths of every planned request: how to read them.
LENGTHS: dict[str, Callable[[RunFigures], list[float] | None]] = {
    "prompt_lengths": lambda run: _lengths(run, "prompt_tokens"),
    "asked_output_lengths": lambda run: _lengths(run, "asked_output_tokens"),
}
Gap: TypeAlias = tuple[float, Difference]


def _lengths(run: RunFigures, column: str) -> list[float] | None:
    """Return the sorted known lengths of planned requests; ``None`` when none is known."""
    values = [getattr(request, column) for request in run.requests]
    return sorted(float(value) for value in values if value is not None) or None


def _whole(run: RunFigures, known: int) -> bool:
    """Tell whether something is known of every planned request, lost ones included."""
    return known >= max(len(run.requests), run.count("planned") or 0)


def length_gap(aspect: str, b: RunFigures, c: RunFigures, strict: bool) -> Gap | None:
    """Compare lengths regardless of order; ``strict`` allows no drift of the tokeniser's count."""
    lengths_b, lengths_c = LENGTHS[aspect](b), LENGTHS[aspect](c)
    if lengths_b is None and lengths_c is None:
        return None
    if lengths_b is None or lengths_c is None:
        shown = "unknown" if lengths_b is None else _mean_text(lengths_b)
        other = "unknown" if lengths_c is None else _mean_text(lengths_c)
        return 0.0, Difference(aspect, shown, other, "known on one side only", False)
    if lengths_b == lengths_c:
        return None
    distance = kolmogorov(lengths_b, lengths_c, 0.0 if strict else LENGTH_DRIFT)
    mean_b, mean_c = _mean(lengths_b), _mean(lengths_c)
    change = mean_c / mean_b - 1 if mean_b else math.inf
    size = f"mean {change:+.1%}, Kolmogorov distance {distance:.3f}"
    blocks = distance > DISTANCE_LIMIT or abs(change) > MEAN_LENGTH_LIMIT
    if not (_whole(b, len(lengths_b)) and _whole(c, len(lengths_c))):
        # Lost requests without a length would pass for a lighter load: a finding, not this.
        size, blocks = f"{size}; not known for every planned request", False
    return max(distance, abs(change)), Difference(
        aspect, _mean_text(lengths_b), _mean_text(lengths_c), size, blocks
    )


def kolmogorov(one: Sequence[float], other: Sequence[float], drift: float = 0.0) -> float:
    """Return the Kolmogorov distance of two samples that may differ by a relative ``drift``."""
    import numpy as np

    a, b = np.sort(np.asarray(one, dtype=float)), np.sort(np.asarray(other, dtype=float))
    points = np.unique(np.concatenate([a, b]))

    def above(below: np.ndarray, within: np.ndarray) -> float:
        share = np.searchsorted(below, points, side="right") / len(below)
        reached = np.searchsorted(within, points * (1 + drift), side="right") / len(within)
        return float((share - reached).max())

    return max(0.0, above(a, b), above(b, a))


def rate_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare the rates asked for; where none is known, the rates at which requests were sent."""
    rate_b, rate_c = b.asked_rate_rps, c.asked_rate_rps
    kind = "asked"
    if rate_b is None and rate_c is None:
        if b.asked_concurrency is not None or c.asked_concurrency is not None:
            return None  # a closed loop: how fast it sent is what came back, not what was asked
        rate_b, rate_c, kind = _sent_rate(b), _sent_rate(c), "sent"
    if rate_b == rate_c:
        return None
    if rate_b is None or rate_c is None:
        before, after = ("unknown" if rate is None else f"{rate:g}/s" for rate in (rate_b, rate_c))
        return 0.0, Difference("arrival_rate", before, after, "known on one side only", False)
    change = math.inf if math.inf in (rate_b, rate_c) or rate_b == 0 else rate_c / rate_b - 1
    if kind == "sent" and abs(change) <= RATE_LIMIT:
        return None
    return abs(change), Difference(
        "arrival_rate",
        f"{rate_b:.4g}/s",
        f"{rate_c:.4g}/s",
        f"{change:+.1%} ({kind})",
        abs(change) > RATE_LIMIT and (kind == "asked" or all(_all_sent(run) for run in (b, c))),
    )


def gaps_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare the gaps between sends, where the client did not wait for answers to send."""
    if any(_closed_loop(run) for run in (b, c)):
        return None
    gaps_b, gaps_c = _gaps(b), _gaps(c)
    if gaps_b is None or gaps_c is None:
        return None
    distance = kolmogorov(gaps_b, gaps_c)
    if distance <= DISTANCE_LIMIT:
        return None
    before, after = (f"median gap {median(gaps) / 1e6:.1f} ms" for gaps in (gaps_b, gaps_c))
    size = f"Kolmogorov distance {distance:.3f}"
    return distance, Difference("arrival_gaps", before, after, size, _all_sent(b) and _all_sent(c))


def _closed_loop(run: RunFigures) -> bool:
    return run.asked_concurrency is not None or run.asked_rate_rps == math.inf


def _all_sent(run: RunFigures) -> bool:
    return _whole(run, len(_sends(run)))


def _sends(run: RunFigures) -> list[int]:
    return sorted(request.sent_ns for request in run.requests if request.sent_ns is not None)


def _gaps(run: RunFigures) -> list[float] | None:
    gaps = [float(after - before) for before, after in pairwise(_sends(run))]
    return gaps or None


def _sent_rate(run: RunFigures) -> float | None:
    sends = _sends(run)
    if len(sends) < 2 or sends[-1] == sends[0]:
        return None
    return (len(sends) - 1) * 1e9 / (sends[-1] - sends[0])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _mean_text(values: Sequence[float]) -> str:
    return f"{len(values)} requests, mean {_mean(values):.1f} tokens"
