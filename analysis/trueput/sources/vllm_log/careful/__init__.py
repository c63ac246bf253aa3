"""Blocks that are not plain: every prefix style, collectors' prefixes, JSON, messages of several
lines, quoted prompts.

Works on frames of lines with expressions. Loaded only where a log has such a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import polars as pl

from trueput.source_api import BATCH_ROWS, Batch, Item
from trueput.sources.vllm_log import slices
from trueput.sources.vllm_log.block import NO_TIME
from trueput.sources.vllm_log.careful import requests
from trueput.sources.vllm_log.careful.frames import batches_of, split_off
from trueput.sources.vllm_log.careful.last_line import is_whole
from trueput.sources.vllm_log.careful.lines import Lines, read
from trueput.sources.vllm_log.careful.steps import take_steps
from trueput.sources.vllm_log.facts import DATELESS, INTERESTING, LATER, REST
from trueput.sources.vllm_log.lives import Numbered
from trueput.sources.vllm_log.samples import STATS

if TYPE_CHECKING:
    from trueput.sources.vllm_log import Reading

__all__ = ["Lines", "is_whole", "items", "read"]

MESSAGE: Final = pl.col("message")


def items(reading: Reading, lines: Lines, carried: int | None) -> list[Item]:
    """Return what the lines of one block hold."""
    block, messages = lines.block, lines.messages
    found, messages = take_steps(messages, reading.problems)
    steps = [found] if block is None else [found, block.steps.frame()]
    events, messages = requests.take(
        reading.requests, messages, None if block is None else block.events
    )
    stats, messages = split_off(messages, MESSAGE.str.contains(STATS))
    times = stats["at_ns"].fill_null(NO_TIME).to_numpy()
    samples = reading.samples.read(stats["line"].to_numpy(), times, stats["message"].to_list())
    if block is None:
        events.append(requests.responses(lines.access))
    step_rows = _together(steps)
    event_rows = _together(events)
    told = list(messages.filter(MESSAGE.str.contains(INTERESTING)).iter_rows())
    if lines.later.height:
        told += lines.later.filter(MESSAGE.str.contains(LATER)).iter_rows()
    dateless = lines.rest.filter(pl.col("text").str.contains(DATELESS))
    reading.note_dateless(dateless["line"].to_list())
    bare = lines.rest.filter(pl.col("text").str.contains(REST)).rows()
    items: list[Item] = [*reading.facts.read(told, bare, lambda n: lines.time_before(n, carried))]
    step_lives, sample_lives = reading.lives.number(_numbered(step_rows), samples.numbered())
    items += _batches("engine_steps", step_rows.with_columns(incarnation=step_lives))
    items += slices("engine_samples", {**samples.columns(), "incarnation": sample_lives})
    items += _batches("request_events", event_rows)
    return items


def _numbered(frame: pl.DataFrame) -> Numbered:
    engine = frame.get_column("engine")
    engines = engine.unique().sort().to_list()
    codes = engine.rank("dense").cast(pl.Int64).to_numpy() - 1
    line = frame.get_column("line").to_numpy()
    return Numbered(line, codes, engines, frame.get_column("step_ix").to_numpy())


def _together(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of all frames in the order of their lines."""
    filled = [frame for frame in frames if frame.height]
    if not filled:
        return frames[0] if frames else pl.DataFrame()
    return pl.concat(filled, how="diagonal").sort("line", maintain_order=True)


def _batches(table: str, frame: pl.DataFrame) -> Iterator[Batch]:
    for rows in batches_of(frame, BATCH_ROWS):
        yield Batch(table, rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
