"""Whether two sides were asked the same: what blocks a comparison, and what only informs.

What was *asked* blocks, over every planned request, failed ones included. What is usually under
test (engine version, configuration, model, hardware) informs. What came back never blocks: it is
for the rules. The policy's ``[must_match]`` and ``[under_test]`` override both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeAlias

from trueput.gate.figures import RunFigures, text

#: Largest relative difference of an arrival rate that still counts as the same load.
RATE_LIMIT = 0.02
#: Largest Kolmogorov distance of gaps, or of lengths, that still counts as the same load.
DISTANCE_LIMIT = 0.12
#: Tokens may drift by this share of a length (chat templates, another tokeniser's count).
LENGTH_DRIFT = 0.02
#: Largest relative difference of the mean length that still counts as the same load.
MEAN_LENGTH_LIMIT = 0.05

Read: TypeAlias = Callable[[RunFigures], object]


@dataclass(frozen=True)
class Difference:
    """One way in which two sides differ, with its size; ``blocks`` makes them not comparable."""

    aspect: str
    baseline: str
    candidate: str
    difference: str
    blocks: bool


#: Aspects of one value a run: how to read it, and whether a difference blocks.
_VALUES: dict[str, tuple[Read, bool]] = {
    "concurrency": (lambda run: run.asked_concurrency, True),
    "slo": (lambda run: text(run.goodput, "slo") or "none", True),
    "window_rule": (lambda run: text(run.goodput, "window_rule"), True),
    "client": (lambda run: run.client, True),
    "vantage": (lambda run: run.vantage, True),
    "profiled": (lambda run: run.profiled, True),
    "cache_state": (lambda run: run.cache_state, True),
    "throttled": (lambda run: run.throttled, True),
    "engine": (lambda run: run.engine, False),
    "engine_version": (lambda run: run.engine_version, False),
    "model": (lambda run: run.model, False),
    "quantisation": (lambda run: run.quantisation, False),
    "hardware": (lambda run: run.hardware, False),
    "devices": (lambda run: run.devices, False),
}
_SEQUENCES: dict[str, Callable[[RunFigures], list[float] | None]] = {
    "prompt_lengths": lambda run: _lengths(run, "prompt_tokens"),
    "asked_output_lengths": lambda run: _lengths(run, "asked_output_tokens"),
}
ASPECTS = ("planned_requests", *_SEQUENCES, "arrival_rate", "arrival_gaps", *_VALUES)


def compare_sides(
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    must_match: frozenset[str] = frozenset(),
    under_test: frozenset[str] = frozenset(),
) -> tuple[Difference, ...]:
    """Return every difference between two sides, then those among the repeats of one side."""
    settings = sorted({f"config.{name}" for run in (*baseline, *candidate) for name in run.config})
    found = []
    for aspect in (*ASPECTS, *settings):
        difference = _difference(aspect, baseline, candidate, aspect in must_match)
        if difference is not None:
            blocks = (difference.blocks or aspect in must_match) and aspect not in under_test
            found.append(
                Difference(
                    aspect,
                    difference.baseline,
                    difference.candidate,
                    difference.difference,
                    blocks,
                )
            )
    return (*found, *_among("baseline", baseline), *_among("candidate", candidate))


def _difference(
    aspect: str, baseline: Sequence[RunFigures], candidate: Sequence[RunFigures], strict: bool
) -> Difference | None:
    """Return the largest difference in one aspect; ``strict`` holds equal to the last digit."""
    if aspect == "planned_requests":
        return _planned(baseline, candidate)
    if aspect in _SEQUENCES:
        return _worst(aspect, baseline, candidate, lambda b, c: _length_gap(aspect, b, c, strict))
    if aspect == "arrival_rate":
        return _worst(aspect, baseline, candidate, _rate_gap)
    if aspect == "arrival_gaps":
        return _worst(aspect, baseline, candidate, _gaps_gap)
    if aspect in _VALUES:
        read, blocks = _VALUES[aspect]
        return _values(aspect, baseline, candidate, read, blocks)
    name = aspect.removeprefix("config.")
    return _values(aspect, baseline, candidate, lambda run: _setting(run, name), False)


def _setting(run: RunFigures, name: str) -> object:
    """Return one engine setting; ``None`` where the run's settings are not known at all."""
    if not run.config:
        return None
    return run.config.get(name, "not set")


def _values(
    aspect: str,
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    read: Read,
    blocks: bool,
) -> Difference | None:
    values_b = sorted({str(read(run)) for run in baseline if read(run) is not None})
    values_c = sorted({str(read(run)) for run in candidate if read(run) is not None})
    if values_b == values_c:
        return None
    if not values_b or not values_c:
        shown_b, shown_c = ", ".join(values_b) or "unknown", ", ".join(values_c) or "unknown"
        return Difference(aspect, shown_b, shown_c, "known on one side only", False)
    return Difference(aspect, ", ".join(values_b), ", ".join(values_c), "not the same", blocks)


def _planned(baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]) -> Difference | None:
    found = _values(
        "planned_requests", baseline, candidate, lambda run: run.count("planned"), False
    )
    if found is None or "unknown" in (found.baseline, found.candidate):
        return found
    counts_b = [run.count("planned") or 0 for run in baseline]
    counts_c = [run.count("planned") or 0 for run in candidate]
    size = sum(counts_c) / len(counts_c) - sum(counts_b) / len(counts_b)
    fixed = all(run.planned_fixed for run in (*baseline, *candidate))
    note = "" if fixed else "; not known to be fixed by the client"
    return Difference(
        found.aspect, found.baseline, found.candidate, f"{size:+g} requests{note}", fixed
    )


Gap: TypeAlias = tuple[float, Difference]


def _worst(
    aspect: str,
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    gap: Callable[[RunFigures, RunFigures], Gap | None],
) -> Difference | None:
    """Return the largest difference over all pairs of runs, one from each side."""
    found = [pair for b in baseline for c in candidate if (pair := gap(b, c)) is not None]
    if not found:
        return None
    return max(found, key=lambda pair: (pair[1].blocks, pair[0], pair[1].difference))[1]


def _lengths(run: RunFigures, column: str) -> list[float] | None:
    """Return the sorted lengths of all planned requests; ``None`` when most are unknown."""
    values = [getattr(request, column) for request in run.requests]
    known = sorted(float(value) for value in values if value is not None)
    return known if known and 2 * len(known) > len(values) else None


def _length_gap(aspect: str, b: RunFigures, c: RunFigures, strict: bool) -> Gap | None:
    lengths_b, lengths_c = _SEQUENCES[aspect](b), _SEQUENCES[aspect](c)
    if lengths_b is None and lengths_c is None:
        return None
    if lengths_b is None or lengths_c is None:
        shown = "unknown" if lengths_b is None else _mean_text(lengths_b)
        other = "unknown" if lengths_c is None else _mean_text(lengths_c)
        return 0.0, Difference(aspect, shown, other, "known on one side only", False)
    if lengths_b == lengths_c:
        return None
    drift = 0.0 if strict else LENGTH_DRIFT
    distance = kolmogorov(lengths_b, lengths_c, drift)
    mean_b, mean_c = _mean(lengths_b), _mean(lengths_c)
    change = mean_c / mean_b - 1 if mean_b else math.inf
    blocks = distance > DISTANCE_LIMIT or abs(change) > MEAN_LENGTH_LIMIT
    size = f"mean {change:+.1%}, Kolmogorov distance {distance:.3f}"
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


def _rate_gap(b: RunFigures, c: RunFigures) -> Gap | None:
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
        abs(change) > RATE_LIMIT,
    )


def _gaps_gap(b: RunFigures, c: RunFigures) -> Gap | None:
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
    return distance, Difference("arrival_gaps", before, after, size, True)


def _closed_loop(run: RunFigures) -> bool:
    return run.asked_concurrency is not None or run.asked_rate_rps == math.inf


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


def _among(side: str, runs: Sequence[RunFigures]) -> list[Difference]:
    """List what differs among the repeats of one side; it never blocks by itself."""
    if len(runs) < 2:
        return []
    settings = sorted({f"config.{name}" for run in runs for name in run.config})
    found = []
    for aspect in (*ASPECTS, *settings):
        for other in runs[1:]:
            difference = _difference(aspect, runs[:1], [other], False)
            if difference is None or difference.difference == "known on one side only":
                continue
            shown = f"{runs[0].run_id} {difference.baseline}, {other.run_id} {difference.candidate}"
            values = (shown, "") if side == "baseline" else ("", shown)
            found.append(
                Difference(f"{aspect} among {side} repeats", *values, difference.difference, False)
            )
            break
    return found
