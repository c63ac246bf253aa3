"""One run as the gate sees it: columns of the public views, nothing else.

Every duration is in integer nanoseconds, every rate per second, every share in 0..1.
``None`` means "not observed"; it is never replaced by 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from trueput.gate.requests import ClassCount, Request, Requests, none
from trueput.gate.rows import Row, flag, mapping, number, text, whole

__all__ = [
    "Request", "Requests", "Row", "RunFigures", "Series", "flag", "mapping", "number", "text",
    "whole",
]  # fmt: skip
T = TypeVar("T")

_END = ("end_at_ns", "ended_at_ns")


@dataclass(frozen=True)
class Series:
    """What a rung added over time: pairs of (offset in ns from the first send, amount)."""

    offset_ns: tuple[int, ...]
    amount: tuple[float, ...]


@dataclass(frozen=True)
class RunFigures:
    """One run: rows of its public views, its requests, and what is known of how it was made."""

    run_id: str
    goodput: Row | None = None
    gpu_activity: tuple[Row, ...] = ()
    recompute: Row | None = None
    gpu_ledger: tuple[Row, ...] = ()
    batching: Row | None = None
    prefix_cache: Row | None = None
    routing: tuple[Row, ...] = ()
    workload: Row | None = None
    gpu_state: tuple[Row, ...] = ()
    requests: Requests = field(default_factory=none)
    window: tuple[int, int] | None = None
    beyond: str | None = None
    classes: Mapping[str, ClassCount] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)
    asked_rate_rps: float | None = None
    asked_concurrency: int | None = None
    asked_burstiness: float | None = None
    planned_fixed: bool | None = None
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    quantisation: str | None = None
    hardware: str | None = None
    devices: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    asked: Mapping[str, object] = field(default_factory=dict)
    client: str | None = None
    vantage: str | None = None
    profiled: bool | None = None
    cache_state: str | None = None
    throttled: bool | None = None
    quality: Mapping[str, float] = field(default_factory=dict)
    content_hash: str | None = None
    measurement: str | None = None
    measured_files: frozenset[str] = frozenset()
    unusable: str | None = None
    uncovered: str | None = None

    @classmethod
    def from_views(
        cls,
        rows: Mapping[str, Sequence[Row]],
        *,
        requests: Requests | None = None,
        window: tuple[int, int] | None = None,
        beyond: str | None = None,
        classes: Mapping[str, ClassCount] | None = None,
        content_hash: str | None = None,
        measurement: str | None = None,
        measured_files: frozenset[str] = frozenset(),
        unusable: str | None = None,
        uncovered: str | None = None,
    ) -> RunFigures:
        """Build one run from rows keyed by view name; absent views and columns become ``None``.

        ``requests`` are its planned requests as columns; without them they are taken from the rows
        of ``request_outcomes``. ``classes`` counts them for each class of the objective, by whom it
        is for. Read beyond the public views, where given: ``activity_series`` with
        rows of ``metric, offset_ns, value``, used for the variation inside a single run.
        ``measurement`` is a digest of what was measured, ``measured_files`` the hashes of the files
        that gave rows: runs that share either are one measurement. ``uncovered`` says what the
        engine's record lacks of the load: what is summed over its iterations is then not known.
        ``window`` holds the offsets of a window that cuts the load, in ns from the first send;
        ``beyond`` says how far a window reaches beyond the load.
        """
        run = _only(rows.get("runs"))
        workload = _only(rows.get("workload"))
        loads = (_only(rows.get("load_sessions")), workload)
        load = {
            key: value for row in loads if row for key, value in row.items() if value is not None
        }
        goodput_rows = tuple(rows.get("goodput") or ())
        goodput = _only(goodput_rows)
        if len(goodput_rows) > 1 and unusable is None:
            unusable = f"holds {len(goodput_rows)} load sessions; a gate judges one load at a time"
        if unusable is None and flag(run, "usable") is False:
            unusable = "nothing, or too little, of its files could be read"
        return cls(
            run_id=text(run, "run_id") or text(goodput, "run_id") or "unknown",
            goodput=goodput,
            gpu_activity=tuple(rows.get("gpu_activity") or ()),
            recompute=_only(rows.get("recompute")),
            gpu_ledger=tuple(rows.get("gpu_ledger") or ()),
            batching=_only(rows.get("batching")),
            prefix_cache=_only(rows.get("prefix_cache")),
            routing=tuple(rows.get("routing") or ()),
            workload=workload,
            gpu_state=tuple(rows.get("gpu_state") or ()),
            requests=_requests(
                rows.get("request_outcomes") or (), whole(load, "asked_output_tokens")
            )
            if requests is None
            else requests,
            window=window,
            beyond=beyond,
            classes=classes or {},
            series=_series(rows.get("activity_series") or ()),
            asked_rate_rps=_first(load, run, read=_rate),
            asked_concurrency=_first(load, run, read=_concurrency),
            asked_burstiness=_first(load, read=lambda row: number(row, "burstiness")),
            planned_fixed=_first(load, run, read=_fixed),
            engine=text(run, "engine", "engine_name"),
            engine_version=text(run, "engine_version", "version"),
            model=text(run, "model"),
            quantisation=text(run, "quantisation", "quantization", "dtype"),
            hardware=text(run, "hardware", "gpu_name"),
            devices=whole(run if run and "gpu_count" in run else goodput, "gpu_count", "devices"),
            config=mapping(run, "config_json") or mapping(run, "config"),
            asked=mapping(run, "client_json"),
            client=_first(load, run, read=lambda row: text(row, "client", "writer")),
            vantage=_first(load, run, goodput, read=lambda row: text(row, "vantage")),
            profiled=flag(run, "profiled", "was_profiled"),
            cache_state=_first(load, run, read=lambda row: text(row, "cache_state"))
            or text(mapping(run, "labels_json"), "cache_state"),
            throttled=_throttled(run, rows.get("gpu_state") or ()),
            quality={
                name: float(score)
                for name, score in (mapping(run, "quality_json") or mapping(run, "quality")).items()
                if isinstance(score, (int, float)) and not isinstance(score, bool)
            },
            content_hash=content_hash or text(run, "content_sha256", "content_hash"),
            measurement=measurement,
            measured_files=measured_files,
            unusable=unusable,
            uncovered=uncovered,
        )

    @cached_property
    def sent_inside(self) -> Requests:
        """The planned requests whose send lies in the window: what latencies and shares are of.

        Offsets count from the window's begin; where the window is all of the load, the same as
        ``requests``, which are those of the whole load.
        """
        if self.window is None:
            return self.requests
        return self.requests.within("sent_ns", *self.window)

    @cached_property
    def ended_inside(self) -> Requests:
        """The planned requests whose end lies in the window: what its rates are of."""
        if self.window is None:
            return self.requests
        return self.requests.within("end_ns", *self.window)

    @property
    def load_planned(self) -> int | None:
        """Planned requests of the whole load, whatever the window; ``None`` where not known.

        Comparability is of the load: which of its requests a window's edge takes in is not asked.
        """
        inside = self.count("planned")
        if self.window is None or inside is None:
            return inside
        return len(self.requests)

    @property
    def window_ns(self) -> int | None:
        """Length of the run's window in ns."""
        return whole(self.goodput, "window_ns")

    def count(self, name: str) -> int | None:
        """Return the goodput view's ``<name>_requests``."""
        return whole(self.goodput, f"{name}_requests")

    @property
    def complete(self) -> int | None:
        """Planned requests that ended as asked; ``None`` where that is not known."""
        found, good, late = (self.count(name) for name in ("complete", "good", "late"))
        if found is not None or self.complete_bounds is not None:
            return found
        return good + late if good is not None and late is not None else None

    @property
    def complete_bounds(self) -> tuple[int, int] | None:
        """Least and most planned requests that ended as asked, where a file bounds them."""
        low, high = (whole(self.goodput, f"complete_requests_{end}") for end in ("low", "high"))
        return None if low is None or high is None else (low, high)

    @property
    def answered_none(self) -> bool:
        """True where none of the planned requests is known to have ended as asked."""
        bounds = self.complete_bounds
        fewest = self.complete if bounds is None else bounds[0]
        return bool(self.count("planned")) and fewest == 0

    def why_unusable(self) -> str | None:
        """Say why nothing can be judged from this run; ``None`` when something can."""
        if self.unusable is not None:
            return self.unusable
        planned = self.count("planned")
        if planned and self.count("unknown") == planned:
            what = "what its objective limits" if not self.answered_none else (
                "how it ended or how long it took")  # fmt: skip
            return f"tells of none of its {planned} requests {what}"
        counts = [planned, self.count("sent")]
        known = [count for count in counts if count is not None]
        if any(known) or (not known and len(self.requests)):
            return None
        where = " in its window" if self.window is not None else ""
        return f"holds no request{where}" if known else "no request was observed"


def _rate(row: Row) -> float | None:
    names = ("requested_rate_per_s", "request_rate_per_s")
    if any(row.get(name) in ("inf", "Infinity", math.inf) for name in names):
        return math.inf
    return number(row, *names)


def _fixed(row: Row) -> bool | None:
    """Return whether the client fixed the number of requests: it said so, or printed one asked."""
    stated = flag(row, "planned_fixed")
    return True if stated is None and whole(row, "planned_requests") is not None else stated


def _concurrency(row: Row) -> int | None:
    return whole(row, "max_concurrency")


#: Share of a device's samples in which it was slowed down, from which a run counts as throttled.
_THROTTLED_RATIO = 0.01


def _throttled(run: Row | None, states: Sequence[Row]) -> bool | None:
    """Return whether a device was slowed down: as stated, else as its telemetry shows."""
    stated = flag(run, "throttled", "was_throttled")
    shares = [v for row in states if (v := number(row, "throttled_ratio")) is not None]
    return stated if stated is not None or not shares else max(shares) > _THROTTLED_RATIO


def _only(rows: Sequence[Row] | None) -> Row | None:
    return rows[0] if rows and len(rows) == 1 else None


def _first(*rows: Row | None, read: Callable[[Row], T | None]) -> T | None:
    for row in rows:
        found = None if row is None else read(row)
        if found is not None:
            return found
    return None


def _requests(rows: Iterable[Row], asked_of_all: int | None) -> Requests:
    """Turn planned requests into columns; traffic that no client file planned is left out."""
    kept = [row for row in rows if text(row, "outcome") != "other_traffic"]
    offsets = any("sent_offset_ns" in row for row in kept)
    sends = [whole(row, "sent_offset_ns" if offsets else "sent_at_ns") for row in kept]
    ends = [whole(row, *(("end_offset_ns",) if offsets else _END)) for row in kept]
    known = [send for send in sends if send is not None]
    start = 0 if offsets or not known else min(known)
    found = []
    for row, send, end in zip(kept, sends, ends, strict=True):
        e2e = whole(row, "e2e_ns")
        asked = whole(row, "asked_output_tokens")
        known_end = send + e2e if end is None and send is not None and e2e is not None else end
        found.append(
            Request(
                outcome=text(row, "outcome"),
                complete=flag(row, "complete"),
                sent_ns=None if send is None else send - start,
                end_ns=None if known_end is None else known_end - start,
                ttft_ns=whole(row, "ttft_ns"),
                tpot_ns=number(row, "tpot_ns"),
                e2e_ns=e2e,
                prompt_tokens=whole(row, "prompt_tokens"),
                asked_output_tokens=asked_of_all if asked is None else asked,
                output_tokens=whole(row, "output_tokens"),
                cached_prompt_tokens=whole(row, "cached_prompt_tokens"),
                client_delay_ns=whole(row, "client_delay_ns"),
                client_queue_ns=whole(row, "client_queue_ns"),
                longest_gap_ns=whole(row, "longest_gap_ns"),
                client_prompt_tokens=whole(row, "client_prompt_tokens"),
            )
        )
    return Requests.of(found)


def _series(rows: Iterable[Row]) -> dict[str, Series]:
    pairs: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        metric, offset = text(row, "metric"), whole(row, "offset_ns")
        amount = number(row, "value")
        if metric is not None and offset is not None and amount is not None:
            pairs.setdefault(metric, []).append((offset, amount))
    return {
        metric: Series(tuple(o for o, _ in sorted(found)), tuple(a for _, a in sorted(found)))
        for metric, found in pairs.items()
    }
