"""Macros on chosen values."""

from __future__ import annotations

import duckdb
import pytest

from trueput.warehouse.models import macros


@pytest.mark.parametrize(
    ("call", "whole"),
    [
        ("whole_below((0.1::DOUBLE + 0.2 + 0.7) * 10)", 10),
        ("whole_below(594328135 - 1e-6)", 594_328_135),
        ("whole_below(594328135 + 1e-6)", 594_328_135),
        ("whole_below(2.9)", 2),
        ("whole_above(594328135 + 1e-6)", 594_328_135),
        ("whole_above(594328135 - 1e-6)", 594_328_135),
        ("whole_above(2.1)", 3),
        ("whole_nearest(81322469.5 - 1e-6)", 81_322_470),
        ("whole_nearest(81322469.5 + 1e-6)", 81_322_470),
        ("whole_nearest(2.4)", 2),
    ],
)
def test_the_last_digits_of_a_sum_do_not_move_a_whole_number(call: str, whole: int) -> None:
    with duckdb.connect() as connection:
        for text in macros().values():
            connection.execute(text)
        assert connection.execute(f"SELECT {call}").fetchone() == (whole,)


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("exact_count(9007199254740992.0)", 2.0**53),
        ("exact_count(9007199254740994.0)", None),
        ("exact_count(1e19)", None),
        ("exact_count('nan'::DOUBLE)", None),
        ("exact_count(NULL)", None),
    ],
)
def test_a_count_that_floats_cannot_hold_is_unknown(call: str, count: float | None) -> None:
    with duckdb.connect() as connection:
        for text in macros().values():
            connection.execute(text)
        assert connection.execute(f"SELECT {call}").fetchone() == (count,)
