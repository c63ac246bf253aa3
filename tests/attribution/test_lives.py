"""Records of one id: which of them tell of the same request. Instants in seconds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from trueput.attribution.reused.likely_offset import likely_offset
from trueput.attribution.reused.lives import Record, lives
from trueput.attribution.reused.log_lives import Line, log_lives

S = 1_000_000_000


def of(
    vantage: str,
    start: float | None,
    end: float | None = None,
    place: str = "",
    name: str = "x",
    *,
    slack: float = 0.05,
    failed: bool = False,
    one_token: bool = False,
    prompt: int | None = None,
    answers: int = 1,
) -> Record:
    """Return a record of id `x`."""
    begins, ends = (None if t is None else round(t * S) for t in (start, end))
    where = place or vantage
    kinds = (failed, one_token, prompt, answers)
    return Record(vantage, where, name, begins, ends, round(slack * S), *kinds)


LOG = 1.05
"""A log's whole seconds are off by up to one, and its clock by a little."""
CASES = {
    "a warm-up of the same id, then the client's own request": (
        [of("client", 10, 12), of("engine", 1, 2), of("engine", 10.1, 11.9)],
        [[1], [0, 2]],
    ),
    "the warm-up ended just before the client sent": (
        [of("client", 2.1, 4), of("engine", 1, 2), of("engine", 2.2, 3.9)],
        [[1], [0, 2]],
    ),
    "printed times do not give the client the warm-up": (
        [of("client", 2.1, 4), of("engine", 1, 2), of("engine", 2.2, 3.9),
         of("log", 1, 1, slack=LOG), of("log", 2, 2, slack=LOG)],
        [[1, 3], [0, 2, 4]],
    ),
    "one request, seen by all": (
        [of("client", 1, 5), of("router", 1.1, 4.9), of("engine", 1.2, 4.8),
         of("log", 1, 1, slack=LOG)],
        [[0, 1, 2, 3]],
    ),
    "replies to one request (n > 1) have ids of their own": (
        [of("engine", 1, 5, name="0_x"), of("engine", 1, 4, name="1_x")],
        [[0, 1]],
    ),
    "those of two requests": (
        [of("engine", t, t + 4, name=n) for t in (1, 100) for n in ("0_x", "1_x")],
        [[0, 1], [2, 3]],
    ),
    "replies under the id of the request, which came at once": (
        [of("engine", 1, 5, prompt=9), of("engine", 1, 4, prompt=9), of("engine", 8, 9, prompt=9)],
        [[0, 1], [2]],
    ),
    "other prompts are of other requests": (
        [of("engine", 1, 5, prompt=9), of("engine", 1, 4, prompt=8)],
        [[0], [1]],
    ),
    "replies that a log numbers": (
        [of("log", 1, 1, slack=LOG, answers=2), of("engine", 1.2, 5), of("engine", 1.3, 4),
         of("engine", 1.4, 6)],
        [[0, 1, 2], [3]],
    ),
    "an id that two requests had at once": (
        [of("client", 1, 5, "a"), of("client", 2, 6, "b"), of("engine", 1.1, 5),
         of("engine", 2.1, 6)],
        [[0, 2], [1, 3]],
    ),
    "prefill in one engine, decode in another": (
        [of("engine", 1, 2, "p", prompt=9), of("engine", 2.5, 9, "d", prompt=9)],
        [[0, 1]],
    ),
    "the same in one file that names no engine": (
        [of("engine", 1, 2, one_token=True, prompt=9), of("engine", 2.1, 9, prompt=9)],
        [[0, 1]],
    ),
    "another prompt is another request": (
        [of("engine", 1, 2, "p", prompt=9), of("engine", 2.5, 9, "d", prompt=8)],
        [[0], [1]],
    ),
    "one engine has a free id again only for another request": (
        [of("engine", 1, 2, prompt=9), of("engine", 2.1, 9, prompt=9)],
        [[0], [1]],
    ),
    "a proxy tries again what failed": (
        [of("router", 1, 2, failed=True), of("router", 2.5, 4)],
        [[0, 1]],
    ),
    "nobody tries again what went well": (
        [of("router", 1, 2), of("router", 2.5, 4)],
        [[0], [1]],
    ),
    "an hour later it is no retry": (
        [of("router", 1, 2, failed=True), of("router", 3600, 3601)],
        [[0], [1]],
    ),
    "all attempts while the client waits are its own": (
        [of("client", 1, 200), of("router", 1, 100), of("router", 100, 199),
         of("engine", 101, 199)],
        [[0, 1, 2, 3]],
    ),
    "without instants: by order, where the counts agree": (
        [of("client", None), of("client", None), of("engine", 1, 2), of("engine", 5, 6)],
        [[2, 0], [3, 1]],
    ),
    "without instants and with other counts nothing is tied": (
        [of("client", None), of("engine", 1, 2), of("engine", 5, 6)],
        [[1], [2], [0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_which_records_are_of_one_request(case: str) -> None:
    records, expected = CASES[case]
    found = [sorted(group) for group in lives(records)]
    assert found == [sorted(group) for group in expected]


def printed(*events: tuple[str, str, str | None, int]) -> list[Line]:
    """Return lines of id `x`, which stands for an id as the engine's API makes them."""
    made = [
        (e, n.replace("x", "cmpl-x-0"), i and i.replace("x", "cmpl-x-0"), t)
        for e, n, i, t in events
    ]
    return [Line("log", *line) for line in made]


LINES = {
    "the engine's own id tells": (
        printed(
            ("received", "x", None, 1), ("added", "x", "x-0000000a", 1),
            ("received", "x", None, 2), ("added", "x", "x-0000000b", 2),
            ("aborted", "x", "x-0000000a", 3), ("aborted", "x", None, 3),
        ),
        [[0, 1, 4, 5], [2, 3]],
    ),
    "both were received before either was added": (
        printed(
            ("received", "x", None, 1), ("received", "x", None, 2),
            ("added", "x", "x-0000000a", 2), ("added", "x", "x-0000000b", 2),
        ),
        [[0, 2], [1, 3]],
    ),
    "an engine that adds nothing": (
        printed(
            ("received", "x", None, 1), ("added", "x", "x", 1), ("aborted", "x", "x", 2),
            ("received", "x", None, 3), ("added", "x", "x", 3), ("finished", "x", "x", 4),
        ),
        [[0, 1, 2], [3, 4, 5]],
    ),
    "replies to one request": (
        printed(
            ("received", "x", None, 1), ("added", "0_x", "0_x-0000000a", 1),
            ("added", "1_x", "1_x-0000000a", 1),
        ),
        [[0, 1, 2]],
    ),
    "replies that were added a second later, and the next request's": (
        printed(
            ("received", "cmpl-x", None, 1), ("added", "cmpl-x", "0_cmpl-x", 1),
            ("added", "cmpl-x", "1_cmpl-x", 2),
            ("received", "cmpl-x", None, 5), ("added", "cmpl-x", "0_cmpl-x", 5),
            ("added", "cmpl-x", "1_cmpl-x", 6),
        ),
        [[0, 1, 2], [3, 4, 5]],
    ),
    "replies with eight digits of their own": (
        printed(
            ("received", "cmpl-x", None, 1), ("added", "cmpl-x", "0_cmpl-x-0000000a", 1),
            ("added", "cmpl-x", "1_cmpl-x-0000000b", 1),
        ),
        [[0, 1, 2]],
    ),
    "the same lines once more": (
        printed(
            ("received", "x", None, 1), ("added", "x", "x-0000000a", 1),
            ("received", "x", None, 1), ("added", "x", "x-0000000a", 1),
        ),
        [[0, 1, 2, 3]],
    ),
    "the same lines of an engine that adds nothing": (
        printed(
            ("received", "x", None, 1), ("added", "x", "x", 1),
            ("received", "x", None, 1), ("added", "x", "x", 1),
        ),
        [[0, 1, 2, 3]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_which_lines_are_of_one_request(case: str) -> None:
    lines, expected = LINES[case]
    assert [sorted(life.lines) for life in log_lives(lines)] == expected


def test_the_offset_that_fits_most_sends() -> None:
    """A load of 60 after a warm-up of 12 with the same ids: 60 sends lie evenly before arrivals."""
    sends = np.arange(60, dtype=np.int64) * 800_000_000
    warm = np.arange(12, dtype=np.int64) * 500_000_000 + 1_000 * S
    lags = np.array([Random(n).randrange(S // 10) for n in range(60)], np.int64)
    ahead = np.concatenate([sends + 2_000 * S + lags - sends, warm - sends[:12]])
    assert likely_offset(ahead, None) == 2_000 * S + int(lags.min())


def test_two_loads_alike_are_told_by_the_printed_date() -> None:
    """Equal loads 300 s apart fit equally well; a zone moves a date by whole quarters."""
    ahead = np.array([1_000 * S] * 20 + [1_300 * S] * 20, np.int64)
    assert likely_offset(ahead, None) is None
    assert likely_offset(ahead, 1_000 * S + 7 * 900 * S) == 1_000 * S
    assert likely_offset(ahead, 1_300 * S - 4 * 900 * S) == 1_300 * S
    assert likely_offset(ahead, 1_100 * S) is None
