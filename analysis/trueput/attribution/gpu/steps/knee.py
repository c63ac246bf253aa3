"""Where the cost of a step bends: a model of GPU time with a knee, if the steps show one.

Matrix kernels read the weights whatever they compute. As long as that takes longer than computing
does, another token costs next to nothing; beyond, each costs its computing. A straight line through
both calls all computing of a mixed step the tokens' of its prompt: decoding seems to cost the
little that it does alone, though beside a prompt it costs as much a token.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from trueput.attribution.iterations.cost import MIN_FIT_STEPS, StepCost, StepWork, fit_step_cost

KNEES: Final = 16
"""Knees that are tried, each the same factor above the last."""
LEAST_STEPS: Final = MIN_FIT_STEPS // 5
"""So many steps lie on either side of a knee at least."""
LEAST_NATS: Final = 15.0
"""A knee is so much likelier than the straight line (e^15, 3 million times), or the line is kept:
there is always a knee that fits somewhat better than none."""
MOST_LEFT: Final = 0.75
"""A knee that leaves less than this share of what the straight line does not explain is clear."""


def fit_line_or_knee(work: StepWork) -> tuple[StepCost, ...]:
    """The model of some steps, and the other reading of them unless a knee is clear.

    The model has the best knee where it leaves clearly less than the straight line, or where chance
    does not: kernel times scatter, and a knee that is there may be little of what they differ by.
    Both are readings of the same steps, which may differ in what a step costs without any token.
    """
    line = fit_step_cost(work)
    if line.n < MIN_FIT_STEPS:
        return (line,)
    tokens = np.sort(work.all_tokens)
    low, high = int(tokens[LEAST_STEPS - 1]), int(tokens[-LEAST_STEPS]) - 1
    if not 0 < low <= high:
        return (line,)
    tried = np.unique(np.round(np.geomspace(low, high, KNEES)).astype(np.int64))
    # which of them is as well seen before outliers have lost all their weight
    rough = (fit_step_cost(work, knee_tokens=knee, rounds=1) for knee in tried.tolist())
    bent = fit_step_cost(work, knee_tokens=max(rough, key=lambda fit: fit.trimmed_r2).knee_tokens)
    if not bent.usable or bent.trimmed_r2 <= line.trimmed_r2:
        return (line,)
    left = (1 - bent.trimmed_r2) / (1 - line.trimmed_r2)
    if left < MOST_LEFT:
        return (bent,)
    # of normal errors of equal scatter, steps of which each tells the same
    nats = -line.n / 2 * math.log(left)
    return (bent, line) if nats >= LEAST_NATS else (line, bent)
