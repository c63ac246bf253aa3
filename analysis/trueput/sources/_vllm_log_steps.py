"""Iteration lines -> rows of `engine_steps`, and the lives of each engine in one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from trueput.sources._vllm_log_lines import split_off
from trueput.sources._vllm_log_problems import Problems

_N: Final = "[0-9]{1,18}"
ITERATION: Final = (
    rf"^(?:Engine [0-9]{{3,6}}: )?Iteration\({_N}\): {_N} context requests, {_N} context tokens, "
    rf"{_N} generation requests, {_N} generation tokens, "
    r"iteration elapsed time: [0-9]{1,12}(?:\.[0-9]{1,9})? ms(?: \(dummy\))?"
    r"(?:, [^,:]{1,40} KV cache usage: [0-9]{1,3}(?:\.[0-9]{1,6})?%)?"
    r"(?:, encoder inputs: [0-9]+, encoder output embeddings: [0-9]+)?(?: \(dummy\))?$"
)
ITERATION_START: Final = r"^(?:Engine [0-9]{3,6}: )?Iteration\("
RANK: Final = r"^[A-Za-z_]+_(?:DP)?([0-9]+) pid="
MESSAGE: Final = pl.col("message")
RESTART_DROP: Final = 10_000
"""A number lower by more than this, or lower than half, is a new count and not a late line."""

Lines = npt.NDArray[np.int64]


def engine_name(printed: pl.Expr) -> pl.Expr:
    """Return the rank without leading zeros, the way metrics label it."""
    return printed.cast(pl.Int64).cast(pl.String)


@dataclass
class Life:
    """One engine: how many lives it had, and whether it did something in the present one."""

    incarnation: int = 0
    active: bool = False
    last_ix: int | None = None


@dataclass
class Lives:
    """Counts the restarts of each engine. A start line is one when the engine had been active."""

    problems: Problems
    _engines: dict[str, Life] = field(default_factory=dict)
    _starts: list[tuple[int, str | None]] = field(default_factory=list)

    def add_start(self, line: int, engine: str | None) -> None:
        """Note a line in which an engine starts; None stands for all engines."""
        self._starts.append((line, engine))

    def number(self, steps: pl.DataFrame, samples: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """Return the incarnation of each row of both frames (columns line, engine, step_ix)."""
        step_lives = np.zeros(steps.height, np.int64)
        sample_lives = np.zeros(samples.height, np.int64)
        names = steps["engine"].unique().to_list() + samples["engine"].unique().to_list()
        for name in sorted({*names, *self._engines}):
            of_steps = (steps["engine"] == name).to_numpy()
            of_samples = (samples["engine"] == name).to_numpy()
            life = self._engines.setdefault(name, Life())
            lines = steps["line"].to_numpy()[of_steps]
            numbers = steps["step_ix"].to_numpy()[of_steps]
            sampled = samples["line"].to_numpy()[of_samples]
            cuts = self._cuts(life, name, lines, numbers, sampled)
            base = life.incarnation
            step_lives[of_steps] = base + np.searchsorted(cuts, lines, side="right")
            sample_lives[of_samples] = base + np.searchsorted(cuts, sampled, side="right")
            life.incarnation += len(cuts)
            self._note_gaps(lines, numbers, life, cuts)
            if len(numbers):
                life.last_ix = int(numbers[-1])
        self._starts.clear()
        return pl.Series(step_lives), pl.Series(sample_lives)

    def _cuts(
        self, life: Life, name: str, lines: Lines, numbers: Lines, sampled: Lines
    ) -> list[int]:
        """Return the lines at which a new life begins, in order."""
        starts = [n for n, engine in self._starts if engine is None or engine == name]
        busy = np.sort(np.concatenate([lines, sampled]))
        cuts = []
        since = 0
        for start in starts:
            until = int(np.searchsorted(busy, start))
            if life.active or until > since:
                cuts.append(start)
            life.active, since = False, until
        life.active = life.active or len(busy) > since
        before = np.concatenate([[-1 if life.last_ix is None else life.last_ix], numbers[:-1]])
        fell = (numbers * 2 < before) | (numbers < before - RESTART_DROP)
        for at in np.flatnonzero(fell):
            previous = int(lines[at - 1]) if at else 0
            if not any(previous < cut <= lines[at] for cut in cuts):
                cuts.append(int(lines[at]))
        return sorted(cuts)

    def _note_gaps(self, lines: Lines, numbers: Lines, life: Life, cuts: list[int]) -> None:
        if not len(numbers):
            return
        first = numbers[0] if life.last_ix is None else life.last_ix + 1
        expected = np.concatenate([[first], numbers[:-1] + 1])
        same_life = np.diff(np.searchsorted(cuts, lines, side="right"), prepend=0) == 0
        missing = np.where(same_life, numbers - expected, 0)
        gaps = np.flatnonzero(missing > 0)
        if len(gaps):
            at = int(lines[gaps[0]])
            self.problems.add("VLOG008", at, count=int(missing[gaps].sum()))


def take_steps(
    messages: pl.DataFrame, problems: Problems
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of `engine_steps` (without incarnation) and the remaining messages."""
    found, rest = split_off(messages, MESSAGE.str.contains(ITERATION))
    if found.is_empty():
        found = messages.clear()
    broken, rest = split_off(rest, MESSAGE.str.contains(ITERATION_START))
    if not broken.is_empty():
        problems.add("VLOG004", broken["line"][0], count=broken.height)
    has_engine = MESSAGE.str.starts_with("Engine ")
    bare = MESSAGE.str.slice(MESSAGE.str.find("Iteration(", literal=True))
    rows = found.with_columns(
        engine=pl.when(has_engine)
        .then(MESSAGE.str.extract(r"^Engine ([0-9]+)", 1))
        .otherwise(pl.col("process").str.extract(RANK, 1))
        .fill_null("0"),
        word=bare.str.split_exact(" ", 17),
        kv=MESSAGE.str.extract(r"KV cache usage: ([0-9.]+)%", 1),
    )
    word = pl.col("word").struct
    number = pl.Int64
    return (
        rows.select(
            "line",
            engine=engine_name(pl.col("engine")),
            step_ix=word.field("field_0").str.slice(10).str.strip_suffix("):").cast(number),
            logged_at_ns="at_ns",
            elapsed_ns=(word.field("field_16").cast(pl.Decimal(24, 6)) * 1_000_000).cast(number),
            context_requests=word.field("field_1").cast(number),
            context_tokens=word.field("field_4").cast(number),
            generation_requests=word.field("field_7").cast(number),
            generation_tokens=word.field("field_10").cast(number),
            kv_used_ratio=pl.col("kv").cast(pl.Float64) / 100,
            covers_steps=pl.lit(1, dtype=number),
            dummy=MESSAGE.str.contains("(dummy)", literal=True),
        ),
        rest,
    )
