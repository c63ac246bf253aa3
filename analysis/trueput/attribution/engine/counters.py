"""What counters say of a run: how far each grew in each life of the process that counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

PREEMPTIONS: Final = "vllm:num_preemptions_total"
PROMPT_TOKENS: Final = "vllm:prompt_tokens_by_source_total"
GENERATION_TOKENS: Final = "vllm:generation_tokens_total"
FIRST_TOKENS: Final = "vllm:time_to_first_token_seconds"
PREFILLED: Final = "vllm:request_prefill_kv_computed_tokens"
WANTED: Final = frozenset({PREEMPTIONS, PROMPT_TOKENS, GENERATION_TOKENS, FIRST_TOKENS, PREFILLED})
STARTED: Final = "process_start_time_seconds"
_READ: Final = WANTED | {STARTED}
COMPUTED: Final = "source=local_compute"
"""The label of prompt tokens that were computed and not taken from a cache."""
_KINDS: Final = ("counter", "histogram_count", "histogram_sum")
_SERIES: Final = ["source_id", "engine", "incarnation", "metric", "labels", "kind"]
_WORDS: Final = ["source_id", "engine", "metric", "labels", "kind"]
_BATCH_ROWS: Final = 65_536
_NEVER: Final = -(1 << 63)
"""A sample without a time counts as the first."""

Sample = tuple[int, float]
Series = tuple[str, str, str]
"""Metric, labels, kind."""
_Ends = dict[tuple[Any, ...], tuple[Sample, Sample]]


def summed(metric: str) -> str:
    """Return the name under which the growth of a histogram's sum stands."""
    return f"{metric}_sum"


@dataclass(frozen=True)
class CounterLife:
    """One engine's counters from a start to a restart, over all files that hold them (ns, UTC)."""

    engine: str
    sources: frozenset[str]
    ends: Mapping[Series, tuple[Sample, Sample]]
    """The first and the last sample of each series."""
    started_ns: int | None
    """When the process began that counts; None where no file says."""
    restarted: bool
    """Whether it began while it was scraped: then it counts from 0."""

    @property
    def first_ns(self) -> int:
        """The instant from which all series are known."""
        return max(first[0] for first, _ in self.ends.values())

    @property
    def last_ns(self) -> int:
        """The instant until which all series are known."""
        return min(last[0] for _, last in self.ends.values())

    @property
    def began_at_zero(self) -> bool:
        """Whether nothing had been counted yet when it was first scraped."""
        return all(first[1] == 0 for first, _ in self.ends.values())

    @property
    def had_preempted_none(self) -> bool:
        """Whether no preemption had been counted yet when it was first scraped."""
        firsts = [first[1] for (name, *_), (first, _) in self.ends.items() if name == PREEMPTIONS]
        return bool(firsts) and not any(firsts)

    def growth(self, *, from_zero: bool) -> dict[str, float]:
        """Return by metric how far the counters grew, from 0 or from the first scrape; the sum of
        a histogram is `summed(metric)`."""
        grown: dict[str, float] = {}
        for (metric, labels, kind), (first, last) in self.ends.items():
            if metric == PROMPT_TOKENS and COMPUTED not in labels:
                continue
            name = summed(metric) if kind == "histogram_sum" else metric
            base = 0.0 if from_zero else first[1]
            grown[name] = grown.get(name, 0.0) + last[1] - base
        return grown


def counter_lives(
    parts: Mapping[str, Sequence[Path]], offset: Callable[[str], int]
) -> list[CounterLife]:
    """Return the lives of all engines by their first scrape; `offset` is from a file to UTC.

    Files that hold one process's counters are one life: those that name the same start of the
    process, or follow each other without a fall.
    """
    lives: list[CounterLife] = []
    for one in sorted(_of_files(parts, offset), key=lambda x: (x.engine, x.first_ns)):
        at = next((i for i, other in enumerate(lives) if _is_same(other, one)), None)
        if at is None:
            begun = one.started_ns is not None and any(
                x.engine == one.engine and x.last_ns < one.started_ns for x in lives
            )
            lives.append(replace(one, restarted=one.restarted or begun))
        else:
            lives[at] = _joined(lives[at], one)
    return sorted(lives, key=lambda x: x.first_ns)


def _of_files(
    parts: Mapping[str, Sequence[Path]], offset: Callable[[str], int]
) -> list[CounterLife]:
    held: dict[tuple[str, str, int], dict[Series, tuple[Sample, Sample]]] = {}
    starts: dict[tuple[str, int], set[float]] = {}
    for (source, engine, incarnation, *series), (first, last) in _read(parts).items():
        metric, labels, kind = series
        if metric == STARTED:
            starts.setdefault((source, incarnation), set()).add(last[1])
            continue
        ends = held.setdefault((source, engine, incarnation), {})
        ends[metric, labels, kind] = (_moved(first, offset(source)), _moved(last, offset(source)))
    found = []
    for (source, engine, incarnation), ends in held.items():
        # of several processes in one file none is told
        named = starts.get((source, incarnation), set())
        start = round(min(named) * 1e9) if len(named) == 1 else None
        found.append(CounterLife(engine, frozenset({source}), ends, start, incarnation > 0))
    return found


def _moved(sample: Sample, offset: int) -> Sample:
    return sample if sample[0] == _NEVER else (sample[0] + offset, sample[1])


def _is_same(one: CounterLife, other: CounterLife) -> bool:
    """Whether a life in another file, which begins no earlier, is the same one."""
    if one.engine != other.engine or one.sources & other.sources:
        return False
    if one.started_ns is not None and other.started_ns is not None:
        return one.started_ns == other.started_ns
    follows = one.last_ns != _NEVER and one.last_ns <= other.first_ns and not other.restarted
    shared = one.ends.keys() & other.ends.keys()
    return (
        follows and bool(shared) and all(one.ends[x][1][1] <= other.ends[x][0][1] for x in shared)
    )


def _joined(one: CounterLife, other: CounterLife) -> CounterLife:
    ends = dict(one.ends)
    for series, (first, last) in other.ends.items():
        early, late = ends.get(series, (first, last))
        ends[series] = (min(early, first, key=_time), max(late, last, key=_time))
    start = one.started_ns if one.started_ns is not None else other.started_ns
    return CounterLife(one.engine, one.sources | other.sources, ends, start, one.restarted)


def _read(parts: Mapping[str, Sequence[Path]]) -> _Ends:
    """Return the first and the last sample of each wanted series, in one pass."""
    ends: _Ends = {}
    for path in parts.get("engine_samples", ()):
        with pq.ParquetFile(path, read_dictionary=_WORDS, pre_buffer=False) as source:
            columns = [*_SERIES, "at_ns", "value"]
            for batch in source.iter_batches(_BATCH_ROWS, columns=columns):
                metric: Any = batch.column("metric")
                if not _READ.isdisjoint(metric.dictionary.to_pylist()):
                    _note_ends(batch.to_pydict(), ends)
    return ends


def _note_ends(rows: dict[str, list[Any]], ends: _Ends) -> None:
    """Keep the first and the last sample of each wanted series."""
    keys = zip(*(rows[name] for name in _SERIES), strict=True)
    samples = zip(keys, rows["at_ns"], rows["value"], strict=True)
    for key, at_ns, value in samples:
        if key[3] != STARTED and (key[3] not in WANTED or key[5] not in _KINDS):
            continue
        sample = (_NEVER if at_ns is None else at_ns, value)
        first, last = ends.get(key, (sample, sample))
        ends[key] = (min(first, sample, key=_time), max(sample, last, key=_time))


def _time(sample: Sample) -> int:
    return sample[0]
