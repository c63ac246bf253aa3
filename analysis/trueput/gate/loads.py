"""How two runs differ in the load that was asked for: lengths, their order, rate, gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from trueput.gate.figures import RunFigures, text, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trueput.gate.requests import Numbers

#: Largest relative difference of an arrival rate that still counts as the same load.
RATE_LIMIT = 0.02
#: Largest Kolmogorov distance of gaps, or of lengths, that still counts as the same load.
DISTANCE_LIMIT = 0.12
#: Kolmogorov distance of two samples of one load that chance exceeds once in a hundred, times
#: sqrt(n m / (n + m)); and the normal quantile of a one-sided 95 %.
_BY_CHANCE = 1.628
_ONE_SIDED = 1.645
#: Tokens may drift by this share of a length (chat templates, another tokeniser's count).
LENGTH_DRIFT = 0.02
#: Largest relative difference of the mean length that still counts as the same load.
MEAN_LENGTH_LIMIT = 0.05
#: Gaps may jitter by half a mean gap, and by this much, before their place counts as another.
_GAP_JITTER_NS = 10_000_000
#: Share of the places from which on an order counts as another one.
_OTHER_PLACES = 0.1


@dataclass(frozen=True)
class Difference:
    """One way in which two sides differ, with its size; ``blocks`` makes them not comparable.

    ``holds_back`` lets nothing pass: what was asked is not known to be the same.
    """

    aspect: str
    baseline: str
    candidate: str
    difference: str
    blocks: bool
    holds_back: bool = False


#: Aspects that are lengths of every planned request, and the columns that hold them.
LENGTHS = {"prompt_lengths": "prompt_tokens", "asked_output_lengths": "asked_output_tokens"}
ONE_SIDE = "known on one side only"
Gap: TypeAlias = tuple[float, Difference]


def lengths(run: RunFigures, aspect: str) -> Numbers:
    """Return the known lengths of planned requests, in their order.

    A limit that the engine set itself (prompt and limit fill its context) was not asked for.
    """
    import numpy as np

    column = run.requests.column(LENGTHS[aspect])
    context = whole(run.config, "max_model_len")
    if aspect == "asked_output_lengths" and context is not None:
        full = column + run.requests.column("prompt_tokens") >= context
        column = np.where(full, math.nan, column)
    known: Numbers = column[~np.isnan(column)]
    return known


def _by_chance(one: int, other: int) -> float:
    """Return the distance that two samples of one load exceed once in a hundred."""
    return _BY_CHANCE * math.sqrt(1 / one + 1 / other)


def chance_text(chance: float, shown: str) -> str:
    """Say up to where chance alone explains a difference of shares, none of which exceeds 1."""
    return f"by chance up to {shown}" if chance < 1 else "too few to tell it from chance"


def _mean_settled(one: Numbers, other: Numbers) -> bool:
    """Tell whether the means differ by no more than the limit, as far as chance lets it be told."""
    mean = float(one.mean())
    error = math.sqrt(float(one.var()) / len(one) + float(other.var()) / len(other))
    shift = abs(float(other.mean()) - mean) + _ONE_SIDED * error
    return shift <= MEAN_LENGTH_LIMIT * mean


def _told_of_answered(run: RunFigures, aspect: str) -> bool:
    """Tell whether a length is known of every request that ended as asked."""
    import numpy as np

    return not np.isnan(run.requests.column(LENGTHS[aspect])[run.requests.survived]).any()


def of_all(run: RunFigures, known: int) -> bool:
    """Tell whether something is known of every planned request, lost ones included."""
    return known >= max(len(run.requests), run.count("planned") or 0)


def length_gap(aspect: str, b: RunFigures, c: RunFigures, strict: bool) -> Gap | None:
    """Compare lengths regardless of order; ``strict`` allows no drift of the tokeniser's count."""
    import numpy as np

    lengths_b, lengths_c = np.sort(lengths(b, aspect)), np.sort(lengths(c, aspect))
    if not len(lengths_b) and not len(lengths_c):
        return None
    if not len(lengths_b) or not len(lengths_c):
        shown, other = (_mean_text(side) if len(side) else "unknown" for side in (
            lengths_b, lengths_c))  # fmt: skip
        return 0.0, Difference(aspect, shown, other, ONE_SIDE, False, holds_back=True)
    if np.array_equal(lengths_b, lengths_c):
        return None
    distance = kolmogorov(lengths_b, lengths_c, 0.0 if strict else LENGTH_DRIFT)
    mean_b, mean_c = float(lengths_b.mean()), float(lengths_c.mean())
    change = mean_c / mean_b - 1 if mean_b else math.inf
    size = f"mean {change:+.1%}, Kolmogorov distance {distance:.3f}"
    chance = _by_chance(len(lengths_b), len(lengths_c))
    blocks = distance > max(DISTANCE_LIMIT, chance) or abs(change) > MEAN_LENGTH_LIMIT
    unsettled = distance > DISTANCE_LIMIT and not blocks and not _mean_settled(lengths_b, lengths_c)
    if DISTANCE_LIMIT < distance <= chance:
        size = f"{size}, {chance_text(chance, f'{chance:.3f}')}"
    if not (of_all(b, len(lengths_b)) and of_all(c, len(lengths_c))):
        # Lost requests without a length would pass for a lighter load: a finding, not this.
        size = f"{size}; not known for every planned request"
        blocks = _surely((b, lengths_b), (c, lengths_c), distance)
    hidden = _told_of_answered(b, aspect) != _told_of_answered(c, aspect)
    holds_back = (hidden or unsettled) and not blocks
    return max(distance, abs(change)), Difference(
        aspect, _mean_text(lengths_b), _mean_text(lengths_c), size, blocks, holds_back
    )


def _surely(
    base: tuple[RunFigures, Numbers], cand: tuple[RunFigures, Numbers], distance: float
) -> bool:
    """Tell whether the loads differ whatever the unknown lengths are, within those that are known.

    With a share s of the lengths known the distance is at least distance x s - (1 - s).
    """
    low = min(float(known[0]) for _, known in (base, cand))
    high = max(float(known[-1]) for _, known in (base, cand))
    share, means = 1.0, []
    for run, known in (base, cand):
        planned = max(len(run.requests), run.count("planned") or 0, len(known))
        missing = planned - len(known)
        share *= len(known) / planned
        total = float(known.sum())
        means.append(((total + missing * low) / planned, (total + missing * high) / planned))
    if distance * share - (1 - share) > DISTANCE_LIMIT:
        return True
    (low_b, high_b), (low_c, high_c) = means
    return low_c > high_b * (1 + MEAN_LENGTH_LIMIT) or high_c < low_b * (1 - MEAN_LENGTH_LIMIT)


def kolmogorov(
    one: NDArray[np.float64] | list[float], other: NDArray[np.float64] | list[float],
    drift: float = 0.0,
) -> float:  # fmt: skip
    """Return the Kolmogorov distance of two samples that may differ by a relative ``drift``."""
    import numpy as np

    a, b = np.sort(np.asarray(one, dtype=float)), np.sort(np.asarray(other, dtype=float))
    points = np.concatenate([a, b])

    def below(values: Numbers, at: Numbers) -> Numbers:
        found: Numbers = np.searchsorted(values, at, side="right") / len(values)
        return found

    share_a, share_b = below(a, points), below(b, points)
    if not drift:
        return float(np.abs(share_a - share_b).max())
    drifted = points * (1 + drift)
    above = (share_a - below(b, drifted)).max(), (share_b - below(a, drifted)).max()
    return max(0.0, float(max(above)))


def fingerprint_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare the pairs of prompt and asked length; equal fingerprints prove the same lengths."""
    import numpy as np

    if _same(b, c, "fingerprint"):
        return None
    one, other = (_pairs_as_sent(run) for run in (b, c))
    if not one.size or not other.size or np.isnan(one).any() or np.isnan(other).any():
        return None
    if not np.array_equal(one[:, np.lexsort(one)], other[:, np.lexsort(other)]):
        return None  # the lengths themselves differ, and their own aspects say by how much
    moved = float((one != other).any(axis=0).mean())
    if moved <= _OTHER_PLACES:
        return None
    before, after = ((text(run.workload, "fingerprint") or "in order")[:12] for run in (b, c))
    size = f"the same lengths in another order, {moved:.0%} of the places"
    return moved, Difference("fingerprint", before, after, size, False)


def _pairs_as_sent(run: RunFigures) -> Numbers:
    """Return prompt and asked lengths, a column each request, in order of sending."""
    import numpy as np

    pairs = np.stack([run.requests.column(name) for name in LENGTHS.values()])
    found: Numbers = pairs[:, np.argsort(run.requests.column("sent_ns"), kind="stable")]
    return found


def _same(b: RunFigures, c: RunFigures, column: str) -> bool:
    found = text(b.workload, column)
    return found is not None and found == text(c.workload, column)


def rate_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare the rates asked for; where none is known, the rates at which requests were sent."""
    rate_b, rate_c = b.asked_rate_rps, c.asked_rate_rps
    kind = "asked"
    if rate_b is None and rate_c is None:
        if b.asked_concurrency is not None or c.asked_concurrency is not None:
            return None  # a closed loop: how fast it sent is what came back, not what was asked
        rate_b, rate_c, kind = sent_rate(b), sent_rate(c), "sent"
    if rate_b == rate_c:
        return None
    if rate_b is None or rate_c is None:
        before, after = ("unknown" if rate is None else f"{rate:g}/s" for rate in (rate_b, rate_c))
        return 0.0, Difference("arrival_rate", before, after, ONE_SIDE, False, holds_back=True)
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
    import numpy as np

    if any(closed_loop(run) for run in (b, c)):
        return None
    gaps_b, gaps_c = _gaps(b), _gaps(c)
    before, after = (
        f"median gap {np.median(gaps) / 1e6:.1f} ms, variation {_variation(gaps):.2f}"
        if len(gaps)
        else "unknown"
        for gaps in (gaps_b, gaps_c)
    )
    if _sends_told(b) != _sends_told(c):
        return 0.0, Difference("arrival_gaps", before, after, ONE_SIDE, False, holds_back=True)
    if not len(gaps_b) or not len(gaps_c):
        return None
    distance = kolmogorov(gaps_b, gaps_c)
    if distance > DISTANCE_LIMIT:
        size = f"Kolmogorov distance {distance:.3f}"
        chance, blocks = _by_chance(len(gaps_b), len(gaps_c)), _all_sent(b) and _all_sent(c)
        if distance > chance or not blocks:
            return distance, Difference("arrival_gaps", before, after, size, blocks)
        size = f"{size}, {chance_text(chance, f'{chance:.3f}')}"
        return distance, Difference("arrival_gaps", before, after, size, False, holds_back=True)
    if len(gaps_b) != len(gaps_c):
        return None
    jitter = max(float(gaps_b.mean()) / 2, _GAP_JITTER_NS)
    moved = float((np.abs(gaps_b - gaps_c) > jitter).mean())
    if moved <= _OTHER_PLACES:
        return None
    size = f"like gaps in another order, {moved:.0%} of the places"
    return moved / 1e6, Difference("arrival_gaps", before, after, size, False)


def closed_loop(run: RunFigures) -> bool:
    """Tell whether the client waited for answers before it sent more."""
    return run.asked_concurrency is not None or run.asked_rate_rps == math.inf


def sent_rate(run: RunFigures) -> float | None:
    """Return the rate at which requests were sent; ``None`` below two sends."""
    sends = sends_of(run)
    if len(sends) < 2 or sends[-1] == sends[0]:
        return None
    return float((len(sends) - 1) * 1e9 / (sends[-1] - sends[0]))


def sends_of(run: RunFigures) -> Numbers:
    """Return the known sends, in order of time."""
    import numpy as np

    found: Numbers = np.sort(run.requests.known("sent_ns"))
    return found


def _all_sent(run: RunFigures) -> bool:
    return of_all(run, len(run.requests.known("sent_ns")))


def _sends_told(run: RunFigures) -> bool:
    """Tell whether the send is known of every request that ended as asked, and of any at all."""
    import numpy as np

    sends = run.requests.column("sent_ns")
    answered = not np.isnan(sends[run.requests.survived]).any()
    return answered and not np.isnan(sends).all()


def _gaps(run: RunFigures) -> Numbers:
    import numpy as np

    found: Numbers = np.diff(sends_of(run))
    return found


def _variation(gaps: Numbers) -> float:
    """Return sd / mean of the gaps: 1 for Poisson arrivals, 0 for even ones."""
    mean = float(gaps.mean())
    return float(gaps.std()) / mean if mean else 0.0


def _mean_text(values: Numbers) -> str:
    return f"{len(values)} requests, mean {float(values.mean()):.1f} tokens"
