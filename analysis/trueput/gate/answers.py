"""How long complete answers are on two sides: the mean output tokens of a request, as a ratio.

The run is the unit, as everywhere: a t interval on the mean log ratio. Its floor is not that of
goodput, because counts of tokens do not scatter with the machine: the same requests get answers of
much the same length. The floor is what the requests themselves show. Where both sides asked the
same lengths, answers are compared request by request, so that how long they are does not matter,
only how unevenly they changed. Else lengths count as drawn anew on each side, apart from what the
asked length explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from trueput.gate.figures import RunFigures
from trueput.gate.statistics import Effect, Noise, Sample, ratio_effect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trueput.gate.requests import Mask, Numbers, Requests

    Keys = NDArray[np.float64]

#: Fewer requests than this show no scatter of their own.
_FEWEST = 2


@dataclass(frozen=True)
class _Answers:
    """One run's requests, sorted by prompt length, asked length and send; `asked` has both lengths.

    So the same requests have the same places even where two were sent in the other order. Tokens
    are NaN where unknown; done are those that ended as asked.
    """

    asked: Keys
    tokens: Numbers
    done: Mask


def answers_effect(
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    noise: Noise,
    *,
    lost_as_shortest: bool = False,
) -> Effect | None:
    """Compare the mean output tokens of requests that ended as asked.

    Lost ones are left out; with ``lost_as_shortest`` those of the candidate count, with as few
    tokens as any request got (of those it asked for, where that is known). ``None`` where a run
    tells no length. Lengths that are unknown in part widen the bounds, from no token to the longest
    known.
    """
    sides = [[_of(run.sent_inside) for run in side] for side in (baseline, candidate)]
    if lost_as_shortest:
        sides = [sides[0], _filled(sides[1], [*sides[0], *sides[1]])]
    runs = [run for side in sides for run in side]
    paired = _alike(runs)
    if paired:
        common = runs[0].done.copy()
        for run in runs[1:]:
            common &= run.done
        if common.any():
            sides = [[replace(run, done=common) for run in side] for side in sides]
        else:
            paired = False
    longest = max((float(known.max()) for run in runs if len(known := _known(run))), default=0.0)
    drawn = [[_sample(run, longest) for run in side] for side in sides]
    one, other = ([sample for sample in side if sample is not None] for side in drawn)
    if len(one) < len(baseline) or len(other) < len(candidate):
        return None
    single = min(len(one), len(other)) < 2
    effect = ratio_effect(one, other, replace(noise, floor_log_sd=0.0))
    if effect is None:
        return None
    own = _paired_se(*sides) if paired else _unpaired_se(*sides)
    if single and paired and _identical(*sides):
        # Every request got as many tokens on both sides: nothing is left to be assumed.
        return replace(effect, se=0.0, run_sd=0.0, method=f"{_METHOD}, each request the same",
                       assumed_noise=False)  # fmt: skip
    if single:
        se = math.hypot(effect.se, own)
        return replace(effect, se=se, method=f"{_METHOD}, {effect.method}")
    between = math.sqrt(1 / len(one) + 1 / len(other))
    se = max(effect.se, own)
    kind = "paired by request" if paired else "each side a draw of requests"
    return replace(
        effect, se=se, run_sd=max(effect.run_sd, se / between),
        method=f"{effect.method}, at least the scatter over requests, {kind}",
    )  # fmt: skip


_METHOD = "ratio of mean output tokens"


@lru_cache(maxsize=16)
def _of(requests: Requests) -> _Answers:
    """Return the answers of a run; those of a baseline are asked for with every candidate."""
    import numpy as np

    names = ("asked_output_tokens", "prompt_tokens")
    asked = np.stack([requests.column(name) for name in names])
    order = np.lexsort((requests.column("sent_ns"), *asked))
    return _Answers(
        asked[:, order], requests.column("output_tokens")[order], requests.survived[order]
    )


def _filled(side: Sequence[_Answers], runs: Sequence[_Answers]) -> list[_Answers]:
    """Return a side as if its lost requests had ended, as short as any answer of the runs."""
    import numpy as np

    asks = all(bool((run.asked[0] > 0).all()) for run in runs)
    units = [run.asked[0] if asks else np.ones(run.done.size) for run in runs]
    of_unit = [run.tokens[run.done] / unit[run.done] for run, unit in zip(runs, units, strict=True)]
    least = min((float(np.nanmin(x)) for x in of_unit if not np.isnan(x).all()), default=0.0)
    filled = []
    for run in side:
        short = least * (run.asked[0] if asks else 1.0)
        ended = np.ones(run.done.size, np.bool_)
        filled.append(replace(run, tokens=np.where(run.done, run.tokens, short), done=ended))
    return filled


def _known(run: _Answers) -> Numbers:
    import numpy as np

    tokens = run.tokens[run.done]
    found: Numbers = tokens[~np.isnan(tokens)]
    return found


def _sample(run: _Answers, longest: float) -> Sample | None:
    """Return a run's mean; ``None`` without a known length."""
    known = _known(run)
    if not len(known):
        return None
    total, count = math.fsum(known.tolist()), int(run.done.sum())
    missing = count - len(known)
    return Sample(total / count, (total + missing * longest) / count, total / len(known))


def _alike(runs: Sequence[_Answers]) -> bool:
    """Tell whether runs asked for the same pairs of lengths; unknown ones are alike."""
    import numpy as np

    first = runs[0].asked
    return bool(first.size) and all(
        np.array_equal(first, run.asked, equal_nan=True) for run in runs[1:]
    )


def _places(side: Sequence[_Answers]) -> Numbers:
    """Return the mean tokens at each place over the runs of a side; NaN where one is unknown."""
    import numpy as np

    table = np.stack([np.where(run.done, run.tokens, math.nan) for run in side])
    found: Numbers = table.mean(axis=0)
    return found


def _paired_se(baseline: Sequence[_Answers], candidate: Sequence[_Answers]) -> float:
    """Return the standard error of the log ratio of two means over the same requests."""
    import numpy as np

    one, other = _places(baseline), _places(candidate)
    both = ~np.isnan(one) & ~np.isnan(other)
    count = int(both.sum())
    if count < _FEWEST or not one[both].sum() or not other[both].sum():
        return 0.0
    ratio = other[both].mean() / one[both].mean()
    left = other[both] - ratio * one[both]
    return float(left.std(ddof=1) / math.sqrt(count) / other[both].mean())


def _identical(baseline: Sequence[_Answers], candidate: Sequence[_Answers]) -> bool:
    import numpy as np

    runs = (*baseline, *candidate)
    first = runs[0].tokens[runs[0].done]
    return all(np.array_equal(first, run.tokens[run.done]) for run in runs)


def _unpaired_se(baseline: Sequence[_Answers], candidate: Sequence[_Answers]) -> float:
    explained = _same_lengths_asked((*baseline, *candidate))
    return math.hypot(*(_side_se(side, explained) for side in (baseline, candidate)))


def _same_lengths_asked(runs: Sequence[_Answers]) -> bool:
    """Tell whether every run asked the same output lengths, each known, in whatever order."""
    import numpy as np

    first = np.sort(runs[0].asked[0])
    return not np.isnan(first).any() and all(
        np.array_equal(first, np.sort(run.asked[0])) for run in runs[1:]
    )


def _side_se(side: Sequence[_Answers], explained: bool) -> float:
    """Return the standard error of the log of a side's mean over requests drawn anew.

    Repeats that asked the same count as one draw, as far as their answers are alike. What the asked
    length explains is left out where both sides asked the same lengths.
    """
    import numpy as np

    if _alike(side):
        tokens, asked = _places(side), side[0].asked[0]
    else:
        tokens = np.concatenate([np.where(run.done, run.tokens, math.nan) for run in side])
        asked = np.concatenate([run.asked[0] for run in side])
    known = ~np.isnan(tokens)
    tokens, asked = tokens[known], asked[known]
    if len(tokens) < _FEWEST or not tokens.sum():
        return 0.0
    left = tokens - tokens.sum() / asked.sum() * asked if explained and asked.sum() else tokens
    return float(left.std(ddof=1) / math.sqrt(len(tokens)) / tokens.mean())
