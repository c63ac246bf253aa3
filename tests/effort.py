"""How much is tried: the short suite that a newcomer runs, or all of it.

TRUEPUT_LONG_TESTS=1, which `bash .ci/run` sets, runs all. Without it what is marked `long` is left
out: whole programs that run for many seconds, and most of the cases of a family whose every case
makes and judges runs of its own. `@pytest.mark.long(besides=2)` keeps the first two cases of each
test function. Property tests then try fewer examples.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest

IS_LONG = os.environ.get("TRUEPUT_LONG_TESTS") == "1"
MARK = "long(besides=0): left out of the short suite, but for the first cases of a test function"


def examples(number: int) -> int:
    """Return how many examples a property test tries: the number, or a third of it."""
    return number if IS_LONG else max(number // 3, 2)


def short(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return tests that the short suite runs, and those that it leaves out, in their order."""
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("long")
        function = item.nodeid.split("[")[0]
        seen[function] += 1
        is_kept = mark is None or seen[function] <= mark.kwargs.get("besides", 0)
        (kept if is_kept else left).append(item)
    return kept, left
