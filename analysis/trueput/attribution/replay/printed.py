"""What one engine process printed of its iterations, and when each began, for the replay to read.

Lists, because the replay reads single values, which arrays give slowly.
"""

from __future__ import annotations

import math

import numpy as np

from trueput.attribution.iterations.timeline import Window
from trueput.attribution.records import SHAPE_NUMBERS, UNTOLD, EngineLimits, Steps
from trueput.attribution.replay.shapes import Shape

_GENERATION_LENGTHS = SHAPE_NUMBERS.index("generation_kv_tokens")


class Printed:
    """The iterations of one engine process; every list has one entry per iteration."""

    def __init__(self, steps: Steps, window: Window, limits: EngineLimits) -> None:
        self.context: list[int] = steps.context_requests.tolist()
        self.context_tokens: list[int] = steps.context_tokens.tolist()
        self.generation: list[int] = steps.generation_requests.tolist()
        self.generation_tokens: list[int] = steps.generation_tokens.tolist()
        self.kv_used: list[float] = steps.kv_used_ratio.tolist()
        self.start_low: list[int] = (window.end_low_ns - steps.elapsed_ns).tolist()
        """Earliest begin, UTC ns."""
        self.start_high: list[int] = (window.end_high_ns - steps.elapsed_ns).tolist()
        """Latest begin, UTC ns."""
        self.context_shape, self.generation_shape = (_shapes(steps, at) for at in (0, 3))
        """What step annotations tell of the shares; None where none tells."""
        self.elapsed_sum: list[int] = np.concatenate([[0], np.cumsum(steps.elapsed_ns)]).tolist()
        """ns of all iterations before; one entry more, for all."""
        self.lost: list[int] = np.diff(steps.step_ix, prepend=steps.step_ix[:1] - 1).tolist()
        """Iterations since the one before: 1, and more where lines are lost."""
        self.plain_run = _plain_runs(steps)
        """How many iterations from this one on print the same pure decode line."""
        total = steps.context_tokens + steps.generation_tokens
        # without a stated budget the fullest iteration shows it, if any was ever full
        self.budget = limits.max_num_batched_tokens or int(total.max(initial=0))
        """Tokens that an iteration may compute."""

    def __len__(self) -> int:
        return len(self.context)

    def served(self, i: int) -> int:
        """Requests that iteration `i` computed tokens of."""
        return self.context[i] + self.generation[i]

    def is_full(self, i: int) -> bool:
        """Whether iteration `i` used its token budget up."""
        return self.context_tokens[i] + self.generation_tokens[i] >= self.budget

    def used_before(self, i: int) -> float:
        """Share of KV blocks in use just before iteration `i`; NaN where not printed."""
        return self.kv_used[i - 1] if i > 0 else math.nan


def _shapes(steps: Steps, at: int) -> list[Shape | None]:
    if steps.shapes is None:
        return [None] * len(steps.step_ix)
    rows = steps.shapes[:, at : at + 3].tolist()
    return [
        None
        if squares == UNTOLD
        else Shape(squares, *(None if x == UNTOLD else x for x in (lengths, products)))
        for squares, lengths, products in rows
    ]


def _plain_runs(steps: Steps) -> list[int]:
    n = len(steps.step_ix)
    plain = (steps.context_requests == 0) & (steps.generation_tokens == steps.generation_requests)
    same = np.zeros(n, dtype=bool)
    same[:-1] = (
        plain[:-1]
        & plain[1:]
        & (np.diff(steps.generation_requests) == 0)
        & (np.diff(steps.step_ix) == 1)
    )
    if steps.shapes is not None:
        # where lengths begin to be told, and where all did not grow by a token, one must look
        lengths = steps.shapes[:, _GENERATION_LENGTHS]
        grown = np.diff(lengths) == steps.generation_requests[1:]
        same[:-1] &= (lengths[1:] == UNTOLD) | ((lengths[:-1] != UNTOLD) & grown)
    runs = [1] * n
    for i in range(n - 2, -1, -1):
        if same[i]:
            runs[i] = runs[i + 1] + 1
    return runs
