"""Iteration lines -> rows of `engine_steps`."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from trueput.sources.vllm_log.careful.frames import split_off
from trueput.sources.vllm_log.problems import Problems
from trueput.units import MAX_TOKENS

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
    counts = [pl.col(name).is_between(0, MAX_TOKENS) for name in NUMBERS.values()]
    return [*counts, pl.col("step_ix") >= 0, pl.col("elapsed_ns") >= 0]


def _numbers(found: pl.DataFrame) -> pl.DataFrame:
    """Split each line at its spaces; numbers and words have their fixed places up to the unit."""
    word = pl.col("word").struct
    rows = found.with_columns(word=MESSAGE.str.splitn(" ", 18))
    tails = rows.select(tail=word.field("field_17").unique())
    tails = tails.with_columns(pl.col("tail").str.extract_groups(TAIL).alias("_")).unnest("_")
    dummy = pl.col("dummy").is_not_null() | pl.col("late").is_not_null()
    tails = tails.with_columns(
        dummy=dummy,
        kv_used_ratio=pl.Series([_percent(text) for text in tails["kv"]], dtype=pl.Float64),
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


def _percent(text: str | None) -> float | None:
    """Return a printed percentage as a ratio: one division, as everywhere else."""
    return None if text is None else float(text) / 100
