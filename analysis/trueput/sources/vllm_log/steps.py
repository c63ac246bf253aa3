"""Iteration lines -> rows of `engine_steps`, and the lives of each engine in one file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from trueput.sources.vllm_log.lines import split_off
from trueput.sources.vllm_log.problems import Problems

WORDS: Final = {
    # position in an iteration line: the word that must stand there
    2: "context",
    3: "requests,",
    5: "context",
    6: "tokens,",
    8: "generation",
    9: "requests,",
    11: "generation",
    12: "tokens,",
    13: "iteration",
    14: "elapsed",
    15: "time:",
}
NUMBERS: Final = {
    1: "context_requests",
    4: "context_tokens",
    7: "generation_requests",
    10: "generation_tokens",
}
TAIL: Final = (
    r"^ms(?P<dummy> \(dummy\))?(?:, [^,:]{1,40} KV cache usage: (?P<kv>[0-9]+(?:\.[0-9]+)?)%)?"
    r"(?:, encoder inputs: [0-9]+, encoder output embeddings: [0-9]+)?(?P<late> \(dummy\))?$"
)
OWNED_START: Final = r"^Engine [0-9]{3,6}: Iteration\("
RANK: Final = re.compile(r"[A-Za-z_]+_(?:DP)?([0-9]+) pid=")
SCHEMA: Final = {
    "line": pl.Int64,
    "engine": pl.String,
    "step_ix": pl.Int64,
    "logged_at_ns": pl.Int64,
    "elapsed_ns": pl.Int64,
    **dict.fromkeys(NUMBERS.values(), pl.Int64),
    "kv_used_ratio": pl.Float64,
    "dummy": pl.Boolean,
    "covers_steps": pl.Int64,
}
MESSAGE: Final = pl.col("message")
RESTART_DROP: Final = 10_000
"""A number lower by more than this, or lower than half, is a new count and not a late line."""

Lines = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Numbered:
    """Rows of steps or samples: line, engine (a place in `engines`), and number of the step."""

    line: Lines
    engine: Lines
    engines: list[str]
    step_ix: Lines

    @classmethod
    def of_frame(cls, frame: pl.DataFrame) -> Numbered:
        """Return the rows of a frame with the columns line, engine and perhaps step_ix."""
        engine = frame.get_column("engine")
        engines = engine.unique().sort().to_list()
        codes = engine.rank("dense").cast(pl.Int64).to_numpy() - 1
        line = frame.get_column("line").to_numpy()
        numbers = frame.get_column("step_ix").to_numpy() if "step_ix" in frame.columns else line
        return cls(line, codes, engines, numbers)

    def of(self, engine: str) -> slice | npt.NDArray[np.bool_]:
        """Return which rows are of an engine."""
        if self.engines == [engine]:
            return slice(None)
        if engine not in self.engines:
            return slice(0)
        return self.engine == self.engines.index(engine)


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

    def number(self, steps: Numbered, samples: Numbered) -> tuple[Lines, Lines]:
        """Return the incarnation of each row of steps and of samples."""
        step_lives = np.zeros(len(steps.line), np.int64)
        sample_lives = np.zeros(len(samples.line), np.int64)
        for name in sorted({*steps.engines, *samples.engines, *self._engines}):
            of_steps, of_samples = steps.of(name), samples.of(name)
            life = self._engines.setdefault(name, Life())
            lines, numbers = steps.line[of_steps], steps.step_ix[of_steps]
            sampled = samples.line[of_samples]
            cuts = self._cuts(life, name, lines, numbers, sampled)
            base = life.incarnation
            step_lives[of_steps] = base + np.searchsorted(cuts, lines, side="right")
            sample_lives[of_samples] = base + np.searchsorted(cuts, sampled, side="right")
            life.incarnation += len(cuts)
            self._note_gaps(lines, numbers, life, cuts)
            if len(numbers):
                life.last_ix = int(numbers[-1])
            if cuts and (not len(lines) or cuts[-1] > lines[-1]):
                life.last_ix = None
        self._starts.clear()
        return step_lives, sample_lives

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


def take_steps(messages: pl.DataFrame, problems: Problems) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of `engine_steps` (without incarnation) and the remaining messages."""
    found, rest = split_off(messages, MESSAGE.str.starts_with("Iteration("))
    owned, rest = split_off(rest, MESSAGE.str.contains(OWNED_START))
    if found.is_empty() and owned.is_empty():
        return pl.DataFrame(schema=SCHEMA), rest
    found = found.with_columns(engine=_rank(found["process"]))
    if not owned.is_empty():
        colon = MESSAGE.str.find(":", literal=True)
        owned = owned.with_columns(
            engine=MESSAGE.str.slice(7, colon - 7).cast(pl.Int64).cast(pl.String),
            message=MESSAGE.str.slice(colon + 2),
        )
        found = pl.concat([found, owned]).sort("line")
    rows = _numbers(found)
    whole, broken = split_off(rows, pl.all_horizontal("is_whole", *_positive()))
    if not broken.is_empty():
        problems.add("VLOG004", broken["line"][0], count=broken.height)
    return whole.drop("is_whole"), rest


def _rank(processes: pl.Series) -> pl.Series:
    """Return the data-parallel rank in the name of each process, `0` where there is none."""
    ranks = {
        name: str(int(match[1])) if (match := RANK.match(name)) else "0"
        for name in processes.unique().drop_nulls()
    }
    return processes.replace_strict(ranks, default="0", return_dtype=pl.String)


def _positive() -> list[pl.Expr]:
    return [pl.col(name) >= 0 for name in ("step_ix", "elapsed_ns", *NUMBERS.values())]


def _numbers(found: pl.DataFrame) -> pl.DataFrame:
    """Split each line at its spaces; numbers and words have their fixed places up to the unit."""
    word = pl.col("word").struct
    rows = found.with_columns(word=MESSAGE.str.splitn(" ", 18))
    tails = rows.select(tail=word.field("field_17").unique())
    tails = tails.with_columns(pl.col("tail").str.extract_groups(TAIL).alias("_")).unnest("_")
    dummy = pl.col("dummy").is_not_null() | pl.col("late").is_not_null()
    tails = tails.with_columns(
        dummy=dummy,
        kv_used_ratio=pl.col("kv").cast(pl.Float64) / 100,
        known=pl.col("tail").str.contains(TAIL),
    )
    first = word.field("field_0").str
    elapsed = word.field("field_16").cast(pl.Decimal(24, 6), strict=False) * 1_000_000
    words = [word.field(f"field_{at}") == text for at, text in WORDS.items()]
    numbers = {
        name: word.field(f"field_{at}").cast(pl.Int64, strict=False) for at, name in NUMBERS.items()
    }
    rows = rows.select(
        "line",
        "engine",
        first.slice(10).str.strip_suffix("):").cast(pl.Int64, strict=False).alias("step_ix"),
        logged_at_ns="at_ns",
        elapsed_ns=elapsed.cast(pl.Int64, strict=False),
        **numbers,
        tail=word.field("field_17"),
        has_words=pl.all_horizontal(first.ends_with("):"), *words),
        covers_steps=pl.lit(1, dtype=pl.Int64),
    )
    rows = rows.join(tails, on="tail", how="left", maintain_order="left", nulls_equal=True)
    is_whole = pl.col("has_words") & pl.col("known")
    return rows.with_columns(is_whole=is_whole).drop("tail", "kv", "late", "known", "has_words")
