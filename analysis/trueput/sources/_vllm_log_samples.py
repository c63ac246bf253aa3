"""Periodic statistics lines -> rows of `engine_samples`.

A line is split at `, ` and then into `key: value unit`, never matched as a whole, for its parts
differ between versions. A part without a key belongs to the key before it: a further position of
a list, or a further number whose words then name it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import polars as pl

from trueput.sources._vllm_log_lines import split_off
from trueput.sources._vllm_log_problems import Problems

STATS: Final = (
    r"^(?:(?:Engine [0-9]{3,6}|[0-9]+ Engines Aggregated): )?"
    r"(?:Avg prompt throughput: |Prefix cache hit rate: GPU: |Speculative metrics: |"
    r"SpecDecoding metrics: |KV Transfer metrics: |MFU: )"
)
HEADING: Final = (
    r"^(?:(?:Engine [0-9]{3,6}|[0-9]+ Engines Aggregated): )?"
    r"(?:(?:Speculative|SpecDecoding|KV Transfer) metrics: )?"
)
SCHEMA: Final = {
    "line": pl.Int64,
    "at_ns": pl.Int64,
    "engine": pl.String,
    "metric": pl.String,
    "labels": pl.String,
    "kind": pl.String,
    "value": pl.Float64,
}
MESSAGE: Final = pl.col("message")
REMEMBERED: Final = 4096

KNOWN: Final = {
    # printed key: (name, kind)
    "Avg prompt throughput": ("prompt_tokens_per_s", "interval"),
    "Avg generation throughput": ("generation_tokens_per_s", "interval"),
    "Running": ("running_requests", "gauge"),
    "Waiting": ("waiting_requests", "gauge"),
    "Pending": ("waiting_requests", "gauge"),
    "Swapped": ("swapped_requests", "gauge"),
    "Deferred": ("deferred_requests", "gauge"),
    "Preemptions": ("preemptions", "interval"),
    "Corrupted": ("corrupted_requests", "interval"),
    "Prefix cache hit rate": ("prefix_cache_hit_ratio", "gauge"),
    "Prefix cache hit rate GPU": ("prefix_cache_hit_ratio", "gauge"),
    "CPU": ("swap_prefix_cache_hit_ratio", "gauge"),
    "External prefix cache hit rate": ("external_prefix_cache_hit_ratio", "gauge"),
    "MM cache hit rate": ("mm_cache_hit_ratio", "gauge"),
    "Mean acceptance length": ("mean_acceptance_length", "interval"),
    "Accepted throughput": ("accepted_tokens_per_s", "interval"),
    "Drafted throughput": ("drafted_tokens_per_s", "interval"),
    "Accepted": ("accepted_tokens", "interval"),
    "Drafted": ("drafted_tokens", "interval"),
    "Per-position acceptance rate": ("per_position_acceptance_ratio", "interval"),
    "Avg Draft acceptance rate": ("draft_acceptance_ratio", "interval"),
    "Draft acceptance rate": ("draft_acceptance_ratio", "interval"),
    "System efficiency": ("system_efficiency", "interval"),
    "Number of speculative tokens": ("number_of_speculative_tokens", "gauge"),
}
GAUGES: Final = ("KV fetch",)
"""Keys whose parts name a state each."""


@lru_cache(maxsize=4096)
def metric_of(key: str, words: str, swap: bool) -> tuple[str, str]:
    """Return name and kind of a printed key; `words` follow a number that has no key itself."""
    if key.endswith("KV cache usage"):
        return ("log:swap_kv_used_ratio" if swap else "log:kv_used_ratio"), "gauge"
    if key in KNOWN:
        name, kind = KNOWN[key]
        return f"log:{name}", kind
    name = re.sub(r"[^a-z0-9]+", "_", f"{key} {words}".lower()).strip("_")
    return f"log:{name}"[:120], "gauge" if key in GAUGES else "interval"


@dataclass
class Repeats:
    """Finds statistics lines that several API servers printed for the same engine and second."""

    _seen: OrderedDict[tuple[int, str], None] = field(default_factory=OrderedDict)

    def first_only(self, found: pl.DataFrame) -> pl.DataFrame:
        """Return the lines of `found` that were not printed before."""
        owned = found.filter(MESSAGE.str.starts_with("Engine ") & pl.col("at_ns").is_not_null())
        repeated = []
        for line, at, message in owned.select("line", "at_ns", "message").iter_rows():
            if (at, message) in self._seen:
                repeated.append(line)
                continue
            self._seen[at, message] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        return found.filter(~pl.col("line").is_in(repeated)) if repeated else found


def take_samples(
    messages: pl.DataFrame, repeats: Repeats, problems: Problems
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of `engine_samples` (without incarnation) and the remaining messages."""
    found, rest = split_off(messages, MESSAGE.str.contains(STATS))
    if found.is_empty():
        return pl.DataFrame(schema=SCHEMA), rest
    parts = _parts(repeats.first_only(found))
    rows = _named(parts)
    bad = rows.filter(pl.col("value").is_null())
    if not bad.is_empty():
        problems.add("VLOG005", bad["line"][0], count=bad.height)
    return rows.filter(pl.col("value").is_not_null()), rest


def _parts(found: pl.DataFrame) -> pl.DataFrame:
    engine = MESSAGE.str.extract(r"^Engine 0*([0-9]+): ", 1).fill_null("0")
    aggregated = MESSAGE.str.contains(r"^[0-9]+ Engines Aggregated: ")
    body = MESSAGE.str.replace(HEADING, "").str.strip_suffix(".")
    # The only key with a colon in it, and two numbers without a comma between them.
    body = body.str.replace("Prefix cache hit rate: GPU: ", "Prefix cache hit rate GPU: ", literal=True)
    body = body.str.replace(
        r"^MFU: (\S+) TF/s/device (\S+) GB/s/device",
        "mfu tflops per s per device: $1, mfu gb per s per device: $2",
    )
    transfer = MESSAGE.str.contains("KV Transfer metrics: ", literal=True)
    return found.select(
        "line",
        "at_ns",
        engine=pl.when(aggregated).then(pl.lit("all")).otherwise(engine),
        transfer=transfer,
        swap=MESSAGE.str.contains("GPU KV cache usage", literal=True),
        part=pl.when(transfer).then(body.str.replace_all("=", ": ")).otherwise(body).str.split(", "),
    ).explode("part", empty_as_null=True, keep_nulls=True)


def _named(parts: pl.DataFrame) -> pl.DataFrame:
    pair = pl.col("part").str.splitn(": ", 2)
    rows = parts.with_columns(pair.struct.rename_fields(["left", "right"])).unnest("part")
    has_key = pl.col("right").is_not_null()
    begins = pl.col("line") != pl.col("line").shift(1)
    printed = pl.when(has_key).then("right").otherwise("left").str.splitn(" ", 2)
    rows = rows.with_columns(
        printed=printed.struct.rename_fields(["number", "words"]),
        own_key=has_key,
        key=pl.when(has_key).then("left").when(begins).then(pl.lit("")),
        place=pl.int_range(pl.len(), dtype=pl.Int64),
    ).unnest("printed")
    number = pl.col("number").str.replace_all(",", "", literal=True).str.strip_suffix("%")
    key_place = pl.when(pl.col("key").is_not_null()).then("place").forward_fill()
    rows = rows.with_columns(
        pl.col("key").forward_fill(),
        pl.col("words").fill_null(""),
        position=pl.col("place") - key_place,
        number=number.cast(pl.Float64, strict=False),
        percent=pl.col("number").str.ends_with("%"),
    )
    rows = rows.join(
        _names(rows), on=["key", "words", "own_key", "swap", "transfer"], how="left",
        maintain_order="left",
    )
    listed = pl.col("metric") == "log:per_position_acceptance_ratio"
    position = pl.format("position={}", pl.col("position"))
    value = pl.when(pl.col("percent")).then(pl.col("number") / 100).otherwise("number")
    return rows.select(
        "line",
        "at_ns",
        "engine",
        "metric",
        labels=pl.when(listed).then(position).otherwise(pl.lit("")),
        kind="kind",
        value=pl.when(value.is_finite() & (pl.col("metric") != "log:")).then(value),
    )


def _names(rows: pl.DataFrame) -> pl.DataFrame:
    names = rows.select("key", "words", "own_key", "swap", "transfer").unique()
    named = [_metric(*row) for row in names.iter_rows()]
    found = pl.DataFrame(named, schema={"metric": pl.String, "kind": pl.String}, orient="row")
    return names.hstack(found)


def _metric(key: str, words: str, own_key: bool, swap: bool, transfer: bool) -> tuple[str, str]:
    if not key:
        return "log:", "interval"
    named_by_words = not own_key or key in GAUGES
    is_swap = swap and key == "CPU KV cache usage"
    name, kind = metric_of(key, words if named_by_words else "", is_swap)
    return (name.replace("log:", "log:kv_transfer_", 1) if transfer else name), kind
