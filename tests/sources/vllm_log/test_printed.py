"""Numbers read for many lines at once are those that an expression finds line by line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trueput.sources.vllm_log.printed import NUMBER, read_numbers

PIECES = st.sampled_from(
    [": ", ", ", "=", " ", ".", "%", "Running", "GPU KV cache usage", "é", "\0", "\n", "x1", "-",
     "0", "7", "12.5", "0.0", "3.", ".5", "1.2.3", "99999999.9999999", "123456789",
     "1.12345678", "1234567890123456"]
)  # fmt: skip
LINES = st.lists(st.lists(PIECES, max_size=14).map("".join), max_size=8)


@given(LINES)
def test_wordings_and_numbers_are_those_of_an_expression(lines: list[str]) -> None:
    printed = read_numbers(lines)
    assert len(printed.wording) == len(printed.odd) == len(printed.counts) == len(lines)
    ends = printed.counts.cumsum().tolist()
    for at, line in enumerate(lines):
        if printed.odd[at]:
            # only what could be read wrong is left to the slow way
            assert "\0" in line or "\n" in line or max(map(len, _runs(line))) > 7
            continue
        parts = NUMBER.split(line)
        numbers = printed.numbers[ends[at] - int(printed.counts[at]) : ends[at]]
        assert numbers.tolist() == [float(number) for number in parts[2::3]]
        wording = "".join(
            text + (parts[1::3][i] + "\0" if i < len(parts[1::3]) else "")
            for i, text in enumerate(parts[::3])
        )
        assert printed.wordings[printed.wording[at]].decode() == wording


def _runs(line: str) -> list[str]:
    return "".join(c if c.isdigit() else " " for c in line).split(" ")


def test_no_lines_give_nothing() -> None:
    printed = read_numbers([])
    assert (len(printed.wording), len(printed.numbers), printed.wordings) == (0, 0, [])
