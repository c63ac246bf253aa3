"""trueput kv"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trueput.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.cli.output import Grid
    from trueput.kv_cache import KvFigures

ORDER = 115


def command(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A model's config.json.")],
    tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a sequence, prompt and output.")
    ] = None,
    sequences: Annotated[
        int | None, typer.Option(metavar="N", help="Sequences held at once.")
    ] = None,
    kv_dtype: Annotated[
        str,
        typer.Option(
            metavar="T", help="auto, float16, bfloat16, float32, fp8, int8, int4, nvfp4, ..."
        ),
    ] = "auto",
    tp: Annotated[
        int, typer.Option(metavar="N", help="Tensor-parallel ranks; figures are of one rank.")
    ] = 1,
    block_size: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a block of a paged cache.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of one device, e.g. 80GiB.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Taken from it by one rank's weights.")
    ] = None,
    reserve: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Taken from it by all else.")
    ] = None,
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Compute the size of a model's KV cache."""
    from dataclasses import asdict

    from trueput.cli.output import Grid, emit, grid_writers, rendered, to_json, to_markdown
    from trueput.verbs.kv import kv

    found = kv(
        config,
        tokens=tokens,
        sequences=sequences,
        kv_dtype=kv_dtype,
        tp=tp,
        block_size=block_size,
        memory=memory,
        weights=weights,
        reserve=reserve,
    )
    told = asdict(found)
    flat = [" ".join(v) if isinstance(v, tuple) else v for v in told.values()]
    writers = grid_writers(Grid(list(told), [flat]))
    people = Grid(["of one rank" if tp > 1 else "what", "exactly", "in words"], _rows(found),
                  right=frozenset({"exactly", "in words"}))  # fmt: skip
    notes = Grid(["assumptions"], [[note] for note in found.assumptions])
    writers["table"] = lambda: rendered(lambda c: _page(c, people, found))
    writers["json"] = lambda: to_json(told)
    writers["markdown"] = lambda: "\n".join(
        [to_markdown(people), to_markdown(Grid(["formula"], [[found.formula]])), to_markdown(notes)]
    )
    emit(writers, format_, output)


def _rows(found: KvFigures) -> list[list[str | None]]:
    from trueput.units import bytes_text

    rows: list[tuple[str, int | None]] = [("bytes per token", found.bytes_per_token)]
    if found.layers_of_a_window:
        rows.append(("per token beyond windows", found.bytes_per_token_beyond_windows))
    if found.layers_with_state:
        rows.append(("state per sequence", found.state_bytes_per_sequence))
    rows += [
        ("bytes per sequence", found.bytes_per_sequence),
        ("bytes in all", found.bytes_total),
        ("memory for the cache", found.cache_bytes),
    ]
    # a state of unknown size comes on top of what a sequence takes
    is_open = found.layers_with_state > 0 and found.state_bytes_per_sequence is None
    least = "at least " if is_open else ""
    shown: list[list[str | None]] = []
    for name, value in rows:
        if value is None:
            shown.append([name, None, bytes_text(None)])
            continue
        mark = least if name in {"bytes per sequence", "bytes in all"} else ""
        shown.append([name, f"{mark}{value:,}", f"{mark}{bytes_text(value)}"])
    fit = found.sequences_that_fit
    most = "at most " if is_open else ""
    return [*shown, ["sequences that fit", None if fit is None else f"{most}{fit:,}", None]]


def _page(target: Console, people: Grid, found: KvFigures) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from trueput.cli.output import print_grid, printable

    print_grid(target, people)
    target.print()
    target.print(Padding(Text(found.formula), (0, 0, 0, 1)))
    target.print()
    notes = Table.grid(padding=(0, 1, 0, 0))
    notes.add_column(width=1)
    notes.add_column(overflow="fold")
    for note in found.assumptions:
        notes.add_row(Text("-"), Text(printable(note)))
    target.print(Padding(notes, (0, 0, 0, 1)))
