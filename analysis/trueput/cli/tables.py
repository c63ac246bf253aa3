"""Tables laid out for a page: how wide each column is, and which of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_GAPS = (3, 2)


def widths(
    texts: Sequence[Sequence[str]], room: int, longest_word: int, unbroken: Sequence[int] = ()
) -> list[int] | None:
    """Return a width for each column of texts so that no word of up to `longest_word` is cut.

    None where the columns do not fit. What room is left goes to the columns that would wrap;
    those at the places `unbroken` never do.
    """
    whole = [widest(column) for column in texts]
    if sum(whole) <= room:
        return whole
    words = [
        whole[place] if place in unbroken else _least(column, longest_word)
        for place, column in enumerate(texts)
    ]
    if sum(words) > room:
        return None
    made = words
    for level in range(1, room + 1):
        wider = [min(w, max(n, level)) for w, n in zip(whole, words, strict=True)]
        if sum(wider) > room:
            break
        made = wider
    return made


def columns_of(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the texts of each column, its name first."""
    return [[name, *(row[i] for row in rows)] for i, name in enumerate(names)]


def fitted(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    room: int,
    longest_word: int,
    unbroken: Sequence[str] | frozenset[str] = (),
) -> tuple[int, list[int]] | None:
    """Return the gap between columns and their widths, None where they do not fit into `room`.

    Cells of the columns named in `unbroken` are not wrapped.
    """
    texts = columns_of(names, rows)
    places = [place for place, name in enumerate(names) if name in unbroken]
    for gap in _GAPS:
        made = widths(texts, room - gap * (len(names) - 1), longest_word, places)
        if made is not None and (gap == _GAPS[-1] or sum(made) == sum(map(widest, texts))):
            return gap, made
    return None


def least_room(names: Sequence[str], rows: Sequence[Sequence[str]], longest_word: int) -> int:
    """Return the least width into which all columns fit."""
    texts = columns_of(names, rows)
    return sum(_least(column, longest_word) for column in texts) + _GAPS[-1] * (len(names) - 1)


def _least(column: Sequence[str], longest_word: int) -> int:
    from rich.cells import cell_len

    return min(longest_word, max([1, *(cell_len(w) for t in column for w in t.split())]))


def widest(texts: Sequence[str]) -> int:
    """Return the cells of the longest text, 1 at least."""
    from rich.cells import cell_len

    return max([1, *(cell_len(t) for t in texts)])


def ruled_table(
    names: Sequence[str],
    rows: Sequence[Sequence[Text]],
    layout: tuple[int, list[int]],
    right: Sequence[str] | frozenset[str] = (),
    header_style: str = "bold",
) -> Table:
    """Return a rich table with a rule under its head, its columns as wide as `layout` says."""
    from rich import box
    from rich.table import Table

    gap, sizes = layout
    made = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style=header_style,
        padding=(0, 1) if gap > 2 else (0, 1, 0, 0),
    )  # fmt: skip
    for name, size in zip(names, sizes, strict=True):
        side: Any = "right" if name in right else "left"
        made.add_column(name, justify=side, overflow="fold", width=size)
    for row in rows:
        made.add_row(*row)
    return made
