"""Which load is of which family of requests: by hand, in whole seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from trueput.attribution.requests.fitting import (
    EXACT_NS,
    PRINTED_NS,
    Arrivals,
    Loads,
    Offsets,
    choose,
)

SECOND = 1_000_000_000
Ahead = Mapping[str, float | Sequence[float]]
"""Load and family, as "1A" -> by how many seconds arrivals lie behind sends: all, or each."""


def told(
    ahead: Ahead,
    *,
    utc: Mapping[str, float] | None = None,
    dates: Mapping[str, float] | None = None,
    one_clock: bool = False,
    log_only: bool = False,
    shared: str = "",
) -> dict[str, str | None]:
    """Return the family of each load that is told."""
    differences = {
        (pair[0], pair[1]): [
            (np.array([value] * 20 if isinstance(value, float | int) else value) * SECOND).astype(
                np.int64
            )
        ]
        for pair, value in ahead.items()
    }
    names = sorted({pair[0] for pair in ahead})
    wanted = {name: sorted(pair[1] for pair in ahead if pair[0] == name) for name in names}
    offsets = Offsets(
        differences,
        Arrivals(is_utc=not log_only, resolution_ns=PRINTED_NS if log_only else EXACT_NS),
        to_utc=None if utc is None else {k: round(v * SECOND) for k, v in utc.items()},
        by_date=None if dates is None else {k: round(v * SECOND) for k, v in dates.items()},
        one_clock=one_clock,
    )
    return choose(Loads(wanted, set(shared)), offsets).told


# two clients whose counter began 1000 s after the epoch; B arrived 90 s after A
TWO = {"1A": 1000.1, "1B": 1090.1, "2A": 910.1, "2B": 1000.1}
BOTH = {"1": "A", "2": "B"}
# started 0.3 s apart, at once
AT_ONCE = {"1A": 1000.01, "1B": 1000.31, "2A": 999.71, "2B": 1000.01}
# the engine's record of the first load is lost
ONE = {"1B": 1090.1, "2B": 1000.1}
# every 90 s a load: the engine lacks that of the first, the clients that of the third
REGULAR = {"1B": 1090.1, "1C": 1180.1, "2B": 1000.1, "2C": 1090.1}


@pytest.mark.parametrize(
    ("ahead", "known", "expected"),
    [
        (TWO, {"utc": {"1": 1000, "2": 1000}}, BOTH),
        (TWO, {"dates": {"1": 1003, "2": 1005}}, BOTH),
        # a date in a zone two hours away
        (TWO, {"dates": {"1": 8203, "2": 8205}}, BOTH),
        (TWO, {"one_clock": True}, BOTH),
        # a log in a zone five and a half hours away
        (TWO, {"utc": {"1": -18800, "2": -18800}, "log_only": True}, BOTH),
        # of two machines, and no date
        (TWO, {}, {}),
        (AT_ONCE, {"utc": {"1": 1000, "2": 1000}}, BOTH),
        # a date is not that exact, the counter is
        (AT_ONCE, {"dates": {"1": 1003, "2": 1005}}, {}),
        (AT_ONCE, {"dates": {"1": 1003, "2": 1005}, "one_clock": True}, BOTH),
        # nor is a log
        (AT_ONCE, {"utc": {"1": 1000, "2": 1000}, "log_only": True}, {}),
        (ONE, {"utc": {"1": 1000, "2": 1000}}, {"1": None, "2": "B"}),
        (ONE, {"one_clock": True}, {}),
        (REGULAR, {"utc": {"1": 1000, "2": 1000}}, {"1": None, "2": "B"}),
        (REGULAR, {"dates": {"1": 1003, "2": 1005}, "one_clock": True}, {"1": None, "2": "B"}),
        # ids that were used twice may be of both
        (ONE, {"utc": {"1": 1000, "2": 1000}, "shared": "B"}, {"1": None, "2": "B"}),
        # clocks that are wrong tell nothing, and the shape does not either
        (TWO, {"utc": {"1": 5000, "2": 5000}}, {}),
    ],
)
def test_by_clock(ahead: Ahead, known: dict[str, object], expected: dict[str, str | None]) -> None:
    assert told(ahead, **known) == expected  # type: ignore[arg-type]  # as told names them


def scattered(by: float) -> list[float]:
    """Return differences of which half lie within this of the median."""
    return [7 + by * step for step in range(-10, 11)]


@pytest.mark.parametrize(("others", "expected"), [(0.3, BOTH), (0.018, {}), (0.015, {})])
def test_by_shape(others: float, expected: dict[str, str]) -> None:
    """Arrivals follow sends to 10 ms, those of the other load to that much."""
    ahead = {"1A": scattered(0.01), "2B": scattered(0.01)}
    ahead |= {"1B": scattered(others), "2A": scattered(others)}
    assert told(ahead) == expected
