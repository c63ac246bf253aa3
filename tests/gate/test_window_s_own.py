"""Latencies and answers that are judged are of the requests sent in the window, not of the load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate.made_up import SECOND, run

from trueput.gate import samples
from trueput.gate.figures import RunFigures
from trueput.gate.percentiles import percentile
from trueput.gate.requests import Request, Requests

SLOW_FROM = 10


def load(window: tuple[int, int] | None) -> RunFigures:
    """One request a second for 20 s: 100 ms each in the first ten seconds, then 900 ms, all ok."""
    rows = [
        Request(
            outcome="good", complete=True, sent_ns=i * SECOND, end_ns=i * SECOND + ms * 10**6,
            ttft_ns=ms * 10**6, e2e_ns=ms * 10**6, output_tokens=10 if ms == 100 else 2,
        )
        for i in range(20)
        for ms in [100 if i < SLOW_FROM else 900]
    ]  # fmt: skip
    made = replace(run("a", "g" * 20), requests=Requests.of(rows), window=window)
    cut = window is not None
    row = dict(made.goodput or {}) | {"window_rule": "fixed" if cut else "all"}
    return replace(made, goodput=row | ({"window_ns": window[1] - window[0]} if window else {}))


@pytest.mark.parametrize(
    ("window", "middle_ms", "mean_ms", "requests"),
    [
        (None, 500, 500, 20),
        ((0, 5 * SECOND), 100, 100, 6),  # sent at 0..5 s, both ends inclusive
        ((9 * SECOND, 11 * SECOND), 900, (100 + 900 + 900) / 3, 3),
        ((12 * SECOND, 19 * SECOND), 900, 900, 8),
    ],
)
def test_latencies_are_of_the_requests_sent_in_the_window(
    window: tuple[int, int] | None, middle_ms: float, mean_ms: float, requests: int
) -> None:
    made = load(window)
    found = samples.median(made, "ttft_ns", single=False, with_failures=False)
    assert found is not None
    assert found.value == middle_ms * 10**6
    mean = samples.mean(made, "e2e_ns", single=False)
    assert mean is not None
    assert mean.value == pytest.approx(mean_ms * 10**6)
    assert len(made.sent_inside) == requests
    assert len(made.requests) == 20, "comparability asks of the whole load"


def test_rates_are_of_what_ended_in_the_window_and_offsets_begin_with_it() -> None:
    """The request sent at 9 s ended at 9.1 s, before 9.5 s; that of 10 s ended at 10.9 s."""
    made = load((int(9.5 * SECOND), 11 * SECOND))
    ends = made.ended_inside.column("end_ns")
    assert ends.tolist() == [1.4 * SECOND]
    assert samples.span_ns(made) == int(1.5 * SECOND)


def test_a_tail_is_the_window_s() -> None:
    assert percentile(load((0, 5 * SECOND)), "e2e_ns", 0.99, with_failures=False) == 100 * 10**6
    assert percentile(load(None), "e2e_ns", 0.99, with_failures=False) == 900 * 10**6
