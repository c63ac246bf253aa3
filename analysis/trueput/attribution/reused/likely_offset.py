"""How a client's clock lies to UTC where each of its requests may be one of several arrivals."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

WIDTH_NS: Final = 2_000_000_000
"""Sends and arrivals of one load lie so evenly apart, but for those that waited."""
QUARTER_NS: Final = 900_000_000_000
"""Time zones are whole quarters of an hour apart."""
NEARLY: Final = 0.7


def likely_offset(ahead: NDArray[np.int64], about_ns: int | None) -> int | None:
    """Return what brings sends to UTC, from the times by which all candidates lie behind them.

    `about_ns`: the offset by a printed date in an unknown zone. The right offset fits most sends at
    once; of several such it is the one that the date allows. None where nothing tells.
    """
    if not ahead.size:
        return about_ns
    sorted_ = np.sort(ahead)
    fits = np.searchsorted(sorted_, sorted_ + WIDTH_NS, side="right") - np.arange(sorted_.size)
    chosen: list[tuple[int, int]] = []
    for at in np.argsort(-fits, kind="stable").tolist():
        if all(abs(int(sorted_[at]) - other) > WIDTH_NS for other, _ in chosen):
            chosen.append((int(sorted_[at]), int(fits[at])))
        if len(chosen) > 1 and fits[at] < NEARLY * chosen[0][1]:
            break
    best = [offset for offset, count in chosen if count >= NEARLY * chosen[0][1]]
    if len(best) == 1:
        return best[0]
    if about_ns is None:
        return None

    def off(offset: int) -> int:
        behind = offset - about_ns
        return abs(behind - round(behind / QUARTER_NS) * QUARTER_NS)

    near = [offset for offset in best if off(offset) < WIDTH_NS]
    return near[0] if len(near) == 1 else None
