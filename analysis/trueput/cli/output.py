"""Printing data: grids as table, JSON, CSV or Markdown; byte-stable, no clock, no colour codes."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueput.cli.tables import fitted, least_room, ruled_table, widest
from trueput.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".txt": "table", ".xml": "junit",
            ".html": "html", ".svg": "svg", ".png": "png"}  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Columns and rows of plain values; `right` names columns that are set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    right: frozenset[str] = field(default_factory=frozenset)
    spare: Sequence[str] = ()
    """Columns that a table leaves out, one by one, where the page is too narrow for all."""


Writers = Mapping[str, Callable[[], str | bytes]]
"""Format name -> function that gives the whole text (of a picture, the bytes) in that format."""

_LONGEST_WORD = 32
_RECORD_VALUE = 24
_UNSEEN = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
_COMMANDS = ("::", "##[")
"""How a line begins that a CI runner takes for a command, on either stream."""
_FORMULA = ("=", "+", "-", "@", *_COMMANDS)


def plain(value: Any, int64: str = "number") -> Any:
    """Return a value as JSON can hold it: exact integers, NaN as null, infinities as text."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            value = int(value)
        else:
            return float(value)
    if isinstance(value, int):
        return str(value) if int64 == "string" and abs(value) > 2**53 else value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v, int64) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, int64) for v in value]
    return str(value)


def to_json(value: Any, int64: str = "number") -> str:
    """Return a document as indented JSON with a newline at its end."""
    text = json.dumps(plain(value, int64), indent=2, ensure_ascii=False, allow_nan=False)
    return escaped_json(text) + "\n"


def escaped_json(text: str) -> str:
    """Return JSON text with escapes for what a terminal obeys and JSON itself lets through."""
    return _UNSEEN.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def cell(value: Any) -> str:
    """Return a value for people: floats with four significant digits, `-` for unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        if value == 0:
            return "0"
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if isinstance(value, Decimal):
        return cell(int(value) if value == value.to_integral_value() else float(value))
    return printable(str(value))


def printable(text: str) -> str:
    """Return text without control characters, so that a name cannot drive the terminal."""
    return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in text)


def inert(line: str) -> str:
    """Return a line that no CI runner obeys, whatever it begins with."""
    return f"| {line}" if line.lstrip().startswith(_COMMANDS) else line


def printable_lines(text: str) -> str:
    """Return a text of several lines without control characters."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _csv_field(value: Any) -> Any:
    """Return a CSV field; text that a spreadsheet or a CI runner would run gets an apostrophe."""
    kept = plain(value)
    if kept is None:
        return ""
    if isinstance(kept, bool):
        return "true" if kept else "false"
    if not isinstance(kept, str):
        return kept
    text = printable(kept)
    is_number = isinstance(value, float)
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text


def to_csv(grid: Grid) -> str:
    """Return a grid as CSV, a row a line; unknown is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_csv_field(c) for c in grid.columns])
    writer.writerows([_csv_field(v) for v in row] for row in grid.rows)
    return out.getvalue()


def markdown_text(value: Any) -> str:
    """Return a value as Markdown text that ends no cell, starts no tag or link, pings nobody."""
    text = cell(value)
    marks = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("](", "]&#40;"),
             ("*", "&#42;"), ("`", "&#96;"), ("@", "@&#8203;"))  # fmt: skip
    for mark, safe in marks:
        text = text.replace(mark, safe)
    return text


def to_markdown(grid: Grid) -> str:
    """Return a grid as a Markdown table."""
    lines = [f"### {markdown_text(grid.title)}", ""] if grid.title else []
    lines.append("| " + " | ".join(markdown_text(c) for c in grid.columns) + " |")
    lines.append("|" + "|".join("--:" if c in grid.right else "---" for c in grid.columns) + "|")
    lines += ["| " + " | ".join(markdown_text(v) for v in row) + " |" for row in grid.rows]
    return "\n".join(lines) + "\n"


def page_width() -> int:
    """Return the width of the page: $COLUMNS, else the terminal's, else 100."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def console() -> Console:
    """Return a console that writes to stdout, in colour where stdout is a terminal."""
    from rich.console import Console

    return Console(file=sys.stdout, width=page_width(), highlight=False, markup=False, emoji=False)


def print_grid(target: Console, grid: Grid) -> None:
    """Print a grid as a table; where its columns do not fit, one record under the other."""
    from rich.padding import Padding
    from rich.text import Text

    if grid.title:
        target.print(Text(printable(grid.title) + "\n", "bold"))
    names = list(grid.columns)
    spare = list(grid.spare)
    left: list[str] = []
    while True:
        kept = [i for i, name in enumerate(grid.columns) if name in names]
        rows = [[cell(row[i]) for i in kept] for row in grid.rows]
        layout = fitted(names, rows, target.width - 2, _LONGEST_WORD)
        if layout is not None or not spare:
            break
        left.append(spare.pop(0))
        names.remove(left[-1])
    if layout is None:
        _print_records(target, names, rows)
    else:
        table = ruled_table(names, [[Text(t) for t in row] for row in rows], layout, grid.right)
        target.print(Padding(table, (0, 0, 0, 1)))
    if left:
        texts = [[cell(value) for value in row] for row in grid.rows]
        need = least_room(grid.columns, texts, _LONGEST_WORD) + 2
        told = f"not shown, for the page is too narrow: {', '.join(left)}; COLUMNS={need} shows all"
        target.print(Padding(Text(told, "dim"), (0, 0, 0, 1)))


def _print_records(target: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    size = min(widest(names), max(8, target.width - 2 - _RECORD_VALUE))
    for number, row in enumerate(rows):
        record = Table.grid(padding=(0, 2, 0, 0))
        record.add_column(width=size, overflow="fold")
        record.add_column(overflow="fold")
        for name, text in zip(names, row, strict=True):
            record.add_row(Text(name, "bold"), Text(text))
        target.print(Padding(record, (1 if number else 0, 0, 0, 1)))


def rendered(draw: Callable[[Console], None]) -> str:
    """Return what `draw` prints, as text without colour."""
    from rich.console import Console

    out = io.StringIO()
    draw(Console(file=out, width=page_width(), highlight=False, markup=False, emoji=False))
    return "\n".join(inert(line.rstrip()) for line in out.getvalue().split("\n")[:-1]) + "\n"


def grid_writers(grid: Grid, int64: str = "number") -> dict[str, Callable[[], str]]:
    """Return the four usual writers of one grid."""
    rows = [dict(zip(grid.columns, r, strict=True)) for r in grid.rows]
    return {
        "table": lambda: rendered(lambda c: print_grid(c, grid)),
        "json": lambda: to_json(rows, int64),
        "csv": lambda: to_csv(grid),
        "markdown": lambda: to_markdown(grid),
    }


def emit(
    writers: Writers,
    format_name: str,
    outputs: Iterable[Path] | None = None,
    draw: Callable[[Console], None] | None = None,
) -> None:
    """Write to each output file, and to stdout in the named format.

    A file's suffix names its format; `NAME=FILE` names it outright.

    Folders of such a file that do not exist are made, and that is said. With output files and the
    default format, stdout stays silent. `draw` prints the table form
    straight to the terminal, in colour where it has any.
    """
    if format_name not in writers:
        raise UsageError(
            f"--format: `{format_name}` is not offered here",
            "choose one of " + ", ".join(writers),
        )
    files = [_named_output(path, writers) for path in outputs or ()]
    for path, name in files:
        made = writers[name]()
        text = made.encode("utf-8", "backslashreplace") if isinstance(made, str) else made
        try:
            if not path.parent.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                sys.stderr.write(f"made the folder `{inert(printable(os.fspath(path.parent)))}`\n")
            path.write_bytes(text)
        except OSError as error:
            raise UsageError(f"-o: `{path}` cannot be written ({error.strerror})") from error
    if files and format_name == "table":
        return
    if format_name == "table" and draw is not None and sys.stdout.isatty():
        draw(console())
    else:
        made = writers[format_name]()
        if isinstance(made, bytes):
            raise UsageError(f"--format: `{format_name}` goes into a file", "give it with -o")
        out(made)


def _named_output(path: Path, writers: Writers) -> tuple[Path, str]:
    """Return where to write and in which format: `junit=build/report`, or by the suffix."""
    prefix, sign, rest = os.fspath(path).partition("=")
    if sign and rest and prefix in writers:
        return Path(rest), prefix
    name = SUFFIXES.get(path.suffix.lower())
    if name is None or name not in writers:
        known = ", ".join(s for s, n in SUFFIXES.items() if n in writers)
        raise UsageError(f"-o: `{path}` has no suffix that names a format", f"use {known}")
    return path, name


def out(text: str) -> None:
    """Write data to stdout; a reader that has left changes neither the rest nor the exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
