"""Printing data: grids as table, JSON, CSV or Markdown; byte-stable, no clock, no colour codes."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueput.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".txt": "table"}


@dataclass(frozen=True)
class Grid:
    """Columns and rows of plain values; `right` names columns that are set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    right: frozenset[str] = field(default_factory=frozenset)


Writers = Mapping[str, Callable[[], str]]
"""Format name -> function that gives the whole text in that format."""


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
    return json.dumps(plain(value, int64), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


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


def to_csv(grid: Grid) -> str:
    """Return a grid as CSV; unknown is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(grid.columns)
    for row in grid.rows:
        writer.writerow(["" if (v := plain(x)) is None else v for x in row])
    return out.getvalue()


def to_markdown(grid: Grid) -> str:
    """Return a grid as a Markdown table."""
    lines = [f"### {grid.title}", ""] if grid.title else []
    lines.append("| " + " | ".join(grid.columns) + " |")
    lines.append("|" + "|".join("--:" if c in grid.right else "---" for c in grid.columns) + "|")
    for row in grid.rows:
        cells = (cell(v).replace("|", "\\|").replace("\n", " ") for v in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def console() -> Console:
    """Return a console that writes to stdout: as wide as the terminal, colour only on one."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS") or 100)
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def as_table(grid: Grid, wide: bool = False) -> Any:
    """Return a rich table of a grid."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=grid.title or None, title_justify="left",
        header_style="bold", title_style="bold", expand=wide,
    )  # fmt: skip
    for name in grid.columns:
        right = name in grid.right
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(cell(v)) for v in row))
    return table


def rendered(draw: Callable[[Console], None]) -> str:
    """Return what `draw` prints, as text without colour."""
    from rich.console import Console

    out = io.StringIO()
    width = int(os.environ.get("COLUMNS") or 100)
    draw(Console(file=out, width=width, highlight=False, markup=False, emoji=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def grid_writers(grid: Grid, int64: str = "number") -> dict[str, Callable[[], str]]:
    """Return the four usual writers of one grid."""
    rows = [dict(zip(grid.columns, r, strict=True)) for r in grid.rows]
    return {
        "table": lambda: rendered(lambda c: c.print(as_table(grid))),
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
    """Write to each output file by its suffix, and to stdout in the named format.

    With output files and the default format, stdout stays silent. `draw` prints the table form
    straight to the terminal, in colour where it has any.
    """
    if format_name not in writers:
        raise UsageError(
            f"--format: `{format_name}` is not offered here",
            "choose one of " + ", ".join(writers),
        )
    files = list(outputs or ())
    for path in files:
        name = SUFFIXES.get(path.suffix.lower())
        if path.suffix.lower() == ".xml":
            name = "junit"
        if name not in writers:
            known = ", ".join(s for s, n in SUFFIXES.items() if n in writers)
            raise UsageError(f"-o: `{path}` has no suffix that names a format", f"use {known}")
    for path in files:
        name = SUFFIXES[path.suffix.lower()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(writers[name](), encoding="utf-8")
    if files and format_name == "table":
        return
    if format_name == "table" and draw is not None and sys.stdout.isatty():
        draw(console())
    else:
        sys.stdout.write(writers[format_name]())
