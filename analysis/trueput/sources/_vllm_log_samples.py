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
from trueput.sources._vllm_log_steps import engine_name

OWNER: Final = r"^(?:Engine ([0-9]{3,6})|([0-9]+) Engines Aggregated): "
STATS: Final = (
    r"^(?:(?:Engine [0-9]{3,6}|[0-9]+ Engines Aggregated): )?"
    r"(?:Avg prompt throughput: |Prefix cache hit rate: GPU: |Speculative metrics: |"
    r"SpecDecoding metrics: |KV Transfer metrics: |MFU: )"
)
HEADING: Final = (
    r"^(?:(?:Engine [0-9]{3,6}|[0-9]+ Engines Aggregated): )?"
    r"(?:(?:Speculative|SpecDecoding|KV Transfer) metrics: )?"
)
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
    "Prefix cache hit rate: GPU": ("prefix_cache_hit_ratio", "gauge"),
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
        keep = []
        for at, message in found.select("at_ns", "message").iter_rows():
            key = (at, message)
            keep.append(at is None or not message.startswith("Engine ") or key not in self._seen)
            if at is not None:
                self._seen[key] = None
                if len(self._seen) > REMEMBERED:
                    self._seen.popitem(last=False)
        return found.filter(pl.Series(keep, dtype=pl.Boolean))


def take_samples(
    messages: pl.DataFrame, repeats: Repeats, problems: Problems
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of `engine_samples` (without incarnation) and the remaining messages."""
    found, rest = split_off(messages, MESSAGE.str.contains(STATS))
    parts = _parts(repeats.first_only(found))
    rows = _named(parts)
    bad = rows.filter(pl.col("value").is_null())
    if not bad.is_empty():
        problems.add("VLOG005", bad["line"][0], count=bad.height)
    return rows.filter(pl.col("value").is_not_null()), rest


def _parts(found: pl.DataFrame) -> pl.DataFrame:
    owner = MESSAGE.str.extract_groups(OWNER).struct
    engine = pl.when(owner.field("2").is_not_null()).then(pl.lit("all"))
    body = MESSAGE.str.replace(HEADING, "").str.strip_suffix(".")
    # `MFU: 1.0 TF/s/device 2.0 GB/s/device` has two numbers without a comma.
    body = body.str.replace(
        r"^MFU: (\S+) TF/s/device (\S+) GB/s/device",
        "mfu tflops per s per device: $1, mfu gb per s per device: $2",
    )
    return (
        found.select(
            "line",
            "at_ns",
            engine=engine.otherwise(engine_name(owner.field("1").fill_null("0"))),
            transfer=MESSAGE.str.contains("KV Transfer metrics: ", literal=True),
            swap=MESSAGE.str.contains("GPU KV cache usage", literal=True),
            part=body.str.split(", "),
        )
        .explode("part", empty_as_null=True, keep_nulls=True)
        .with_columns(part=pl.col("part").str.strip_chars())
    )


def _named(parts: pl.DataFrame) -> pl.DataFrame:
    split = pl.col("part").str.extract_groups(r"^(?:(.*)(?:: |=))?([^=:]*)$").struct
    value = pl.col("printed").str.extract_groups(r"^(-?[0-9][0-9,]*(?:\.[0-9]+)?)(%?) ?(.*)$").struct
    rows = parts.with_columns(own_key=split.field("1"), printed=split.field("2"))
    rows = rows.with_columns(
        key=pl.col("own_key").forward_fill().over("line"),
        position=pl.int_range(pl.len()).over("line", pl.col("own_key").is_not_null().cum_sum()),
        number=value.field("1").str.replace_all(",", "").cast(pl.Float64, strict=False),
        percent=value.field("2") == "%",
        words=value.field("3"),
    )
    names = rows.select("key", "words", "own_key", "swap", "transfer").unique()
    named = [
        _metric(key, words, own_key, swap, transfer)
        for key, words, own_key, swap, transfer in names.iter_rows()
    ]
    found = pl.DataFrame(named, schema={"metric": pl.String, "kind": pl.String}, orient="row")
    rows = rows.join(
        names.hstack(found),
        on=names.columns,
        how="left",
        maintain_order="left",
        nulls_equal=True,
    )
    listed = pl.col("metric") == "log:per_position_acceptance_ratio"
    position = pl.format("position={}", pl.col("position"))
    return rows.select(
        "line",
        "at_ns",
        "engine",
        "metric",
        labels=pl.when(listed).then(position).otherwise(pl.lit("")),
        kind="kind",
        value=pl.when(pl.col("percent")).then(pl.col("number") / 100).otherwise("number"),
    )


def _metric(
    key: str | None, words: str | None, own_key: str | None, swap: bool, transfer: bool
) -> tuple[str, str]:
    if key is None:
        return "log:unnamed", "interval"
    named_by_words = own_key is None or key in GAUGES
    is_swap = swap and key == "CPU KV cache usage"
    name, kind = metric_of(key, (words or "") if named_by_words else "", is_swap)
    return (name.replace("log:", "log:kv_transfer_", 1) if transfer else name), kind
