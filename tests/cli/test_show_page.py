"""The page of one run: its figures keep their order."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from typing import Any

import pytest
from rich.console import Console

from trueput.cli.pages.show_page import _outcomes


@pytest.mark.parametrize(
    ("answered", "complete", "good", "unknown", "shown"),
    [
        # every open request may have been counted as answered already
        (120, 0, 0, 120, ["120", "120", "120", "0 to 120", "0 to 120"]),
        (50, 40, 30, 20, ["120", "120", "50 to 70", "40 to 60", "30 to 50"]),
        (120, 120, 120, 0, ["120", "120", "120", "120", "120"]),
    ],
)
def test_no_count_exceeds_the_one_before(
    answered: int, complete: int, good: int, unknown: int, shown: list[str]
) -> None:
    row: dict[str, Any] = defaultdict(lambda: None)
    row |= {"window_rule": "all", "basis": "bounded", "planned_requests": 120,
            "sent_requests": 120, "answered_requests": answered, "complete_requests": complete,
            "good_requests": good, "late_requests": complete - good,
            "unknown_requests": unknown}  # fmt: skip
    out = io.StringIO()
    _outcomes(Console(file=out, width=160), row)
    (counts,) = [line for line in out.getvalue().splitlines() if line.strip().startswith("120")]
    assert re.split(r"\s{2,}", counts.strip()) == shown
