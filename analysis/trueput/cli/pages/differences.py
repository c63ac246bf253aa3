"""What differs between two sides: a table where it fits, else one difference under the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trueput.cli.output import printable
from trueput.cli.pages.layout import heading, table
from trueput.cli.tables import columns_of

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.gate.loads import Difference

_COLUMNS = ("aspect", "baseline", "candidate", "by", "")
#: Between columns, and before the first.
_GAP, _INDENT = 2, 2


def draw_differences(console: Console, differences: Sequence[Difference]) -> None:
    """Print the differences; what blocks comes first, then what holds back a pass."""
    from rich.cells import cell_len

    if not differences:
        return
    ordered = sorted(differences, key=lambda d: (not d.blocks, not d.holds_back))
    rows = [[printable(text) for text in _row(difference)] for difference in ordered]
    heading(console, "What differs between the sides")
    widest = [max(map(cell_len, texts)) for texts in columns_of(_COLUMNS, rows)]
    if _INDENT + sum(widest) + _GAP * (len(widest) - 1) <= console.width:
        table(console, _COLUMNS, rows)
        return
    marks = max(cell_len(row[-1]) for row in rows)
    for row in rows:
        _record(console, row, marks)


def _row(d: Difference) -> list[str]:
    """Return one row; an objective can wrap after each limit."""
    sides = (v.replace(",", ", ") if d.aspect == "slo" else v for v in (d.baseline, d.candidate))
    mark = "blocks" if d.blocks else "holds back" if d.holds_back else ""
    return [d.aspect, *sides, d.difference, mark]


def _record(console: Console, row: Sequence[str], marks: int) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    aspect, baseline, candidate, size, mark = row
    told = Text(aspect, "bold")
    told.append(f"  {size}\n", "not bold")
    # of the repeats of one side there is no other side
    told.append(" -> ".join(side for side in (baseline, candidate) if side), "not bold dim")
    grid = Table.grid(padding=(0, 1, 0, 0))
    cells = [told]
    if marks:
        grid.add_column(width=marks)
        cells.insert(0, Text(mark, "red" if mark == "blocks" else "yellow"))
    grid.add_column(overflow="fold")
    grid.add_row(*cells)
    console.print(Padding(grid, (0, 0, 0, _INDENT)))
