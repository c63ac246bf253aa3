"""What counters say of a run: how far each grew while it was scraped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

PREEMPTIONS: Final = "vllm:num_preemptions_total"
PROMPT_TOKENS: Final = "vllm:prompt_tokens_by_source_total"
GENERATION_TOKENS: Final = "vllm:generation_tokens_total"
FIRST_TOKENS: Final = "vllm:time_to_first_token_seconds"
PREFILLED: Final = "vllm:request_prefill_kv_computed_tokens"
WANTED: Final = frozenset({PREEMPTIONS, PROMPT_TOKENS, GENERATION_TOKENS, FIRST_TOKENS, PREFILLED})
COMPUTED: Final = "source=local_compute"
"""The label of prompt tokens that were computed and not taken from a cache."""
_KINDS: Final = ("counter", "histogram_count", "histogram_sum")
_SERIES: Final = ["source_id", "engine", "incarnation", "metric", "labels", "kind"]
_WORDS: Final = ["source_id", "engine", "metric", "labels", "kind"]
_BATCH_ROWS: Final = 65_536
_NEVER: Final = -(1 << 63)
"""A sample without a time counts as the first."""

_Ends = dict[tuple[Any, ...], tuple[tuple[int, float], tuple[int, float]]]


def summed(metric: str) -> str:
    """Return the name under which the growth of a histogram's sum stands."""
    return f"{metric}_sum"


def growth(parts: Mapping[str, Sequence[Path]]) -> dict[str, int]:
    """Return by metric the differences of the counters, summed over their series; of a life that
    began while it was scraped, the whole count. The sum of a histogram is `summed(metric)`."""
    ends: _Ends = {}
    for path in parts.get("engine_samples", ()):
        with pq.ParquetFile(path, read_dictionary=_WORDS, pre_buffer=False) as source:
            columns = [*_SERIES, "at_ns", "value"]
            for batch in source.iter_batches(_BATCH_ROWS, columns=columns):
                metric: Any = batch.column("metric")
                if not WANTED.isdisjoint(metric.dictionary.to_pylist()):
                    _note_ends(batch.to_pydict(), ends)
    grown: dict[str, float] = {}
    for (_, _, incarnation, metric, labels, kind), (first, last) in ends.items():
        if metric == PROMPT_TOKENS and COMPUTED not in labels:
            continue
        base = 0.0 if incarnation else first[1]
        name = summed(metric) if kind == "histogram_sum" else metric
        grown[name] = grown.get(name, 0.0) + last[1] - base
    return {name: round(value) for name, value in grown.items()}


def _note_ends(rows: dict[str, list[Any]], ends: _Ends) -> None:
    """Keep the first and the last sample of each wanted series."""
    keys = zip(*(rows[name] for name in _SERIES), strict=True)
    samples = zip(keys, rows["at_ns"], rows["value"], strict=True)
    for key, at_ns, value in samples:
        if key[3] not in WANTED or key[5] not in _KINDS:
            continue
        sample = (_NEVER if at_ns is None else at_ns, value)
        first, last = ends.get(key, (sample, sample))
        ends[key] = (min(first, sample, key=_time), max(sample, last, key=_time))


def _time(sample: tuple[int, float]) -> int:
    return sample[0]
