"""Pieces that the pages share: headings, small tables, bars, spans of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from trueput.cli.output import cell, printable
from trueput.cli.tables import fitted, ruled_table
from trueput.units import ns_text

if TYPE_CHECKING:
    from rich.console import Console

BAR_WIDTH = 20
_LONGEST_WORD = 64


def heading(console: Console, text: str, note: str = "") -> None:
    """Print a section heading, with a short note behind it."""
    from rich.text import Text

    line = Text("\n" + printable(text), style="bold")
    if note:
        line.append("  " + printable(note), style="not bold dim")
    console.print(line)


def say(console: Console, text: str, style: str = "", indent: int = 2) -> None:
    """Print wrapped text, indented."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(printable(text), style=style), (0, 0, 0, indent)))


def table(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    right: Sequence[str] = (),
    styles: Sequence[str] | None = None,
) -> None:
    """Print a small table without a frame; columns without any value are left out.

    Only where the words of all columns do not fit is a word cut, the longest first; figures, which
    are to the right, are wrapped last of all.
    """
    from rich.padding import Padding
    from rich.text import Text

    names, texts = _filled(columns, rows)
    layout = None
    for unbroken in (right, ()):
        for longest_word in range(_LONGEST_WORD, 0, -1):
            layout = layout or fitted(names, texts, console.width - 2, longest_word, unbroken)
    if layout is None:
        layout = 2, [1 for _ in names]
    made = ruled_table(
        names,
        [
            [Text(t, style=styles[number] if styles else "") for t in line]
            for number, line in enumerate(texts)
        ],
        layout,
        right,
        header_style="dim",
    )
    console.print(Padding(made, (0, 0, 0, 2)))


def listed(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    entry: Callable[[Sequence[str]], tuple[str, str]],
    right: Sequence[str] = (),
) -> None:
    """Print a table where it fits without cutting a word or wrapping a figure, else a list.

    `entry` makes the head of an item and the text under it out of a row's cells.
    """
    names, texts = _filled(columns, rows)
    if fitted(names, texts, console.width - 2, console.width, right) is not None:
        table(console, columns, rows, right)
        return
    for row in rows:
        head, text = entry(["" if value is None else cell(value) for value in row])
        say(console, _broken_at_folder(head, console.width - 2), "bold")
        if text:
            say(console, text, indent=4)


def _broken_at_folder(path: str, room: int) -> str:
    """Return a path that does not fit on a line with its file's name on the next."""
    from rich.cells import cell_len

    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash} {name}" if slash and cell_len(path) > room else path


def _filled(
    columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> tuple[list[str], list[list[str]]]:
    """Return the names and texts of the columns that have any value."""
    kept = [i for i, _ in enumerate(columns) if any(r[i] not in (None, "") for r in rows)]
    return [columns[i] for i in kept], [[cell(row[i]) for i in kept] for row in rows]


def fits(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether a table fits into the console without breaking any cell."""
    texts = [[cell(value) for value in row] for row in rows]
    wide = sum(max(len(name), *(len(row[i]) for row in texts)) for i, name in enumerate(columns))
    return wide + 2 * (len(columns) - 1) <= console.width - 2


def bar(share: float | None, width: int = BAR_WIDTH) -> str:
    """Return a bar for a share of 0..1; empty for unknown."""
    if share is None:
        return ""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def percent(share: float | None) -> str:
    """Return a share as text: one decimal, `-` for unknown."""
    return "-" if share is None else f"{100 * share:.1f} %"


def rate(value: float | None, unit: str = "/s") -> str:
    """Return a rate with three significant digits, whole from a thousand on."""
    if value is None:
        return "-"
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{shown} {unit}".replace(" /s", "/s")


def count(value: Any) -> str:
    """Return a count with thousands commas, `-` for unknown."""
    return "-" if value is None else f"{int(value):,}"


def span(value: Any) -> str:
    """Return a span of ns for people."""
    return ns_text(None if value is None else int(value))


def bounds(low: Any, high: Any, shown: str) -> str:
    """Return a figure, with its bounds where they differ from it."""
    if low is None and high is None:
        return shown
    if shown == "-":
        return f"{count(low)} to {count(high) if high is not None else 'unknown'}"
    return shown if low == high else f"{shown} ({count(low)} to {count(high)})"
