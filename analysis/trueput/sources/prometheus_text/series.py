"""What one series of a Prometheus exposition is: its metric, kind, engine and other labels."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FAMILIES = re.compile(
    r"(?:ray_)?(?:vllm|sglang)[:_]|http_requests_total$|http_request_duration|"
    r"process_start_time_seconds$"
)
_PREFIX = re.compile(r"(?:ray_)?(vllm|sglang)[:_]")
_INSTANCE_LABELS = ("instance", "pod", "ReplicaId", "WorkerId")
_PARTS = (("_bucket", "histogram_bucket"), ("_sum", "histogram_sum"), ("_count", "histogram_count"))

MONOTONE_KINDS = frozenset({"counter", "histogram_bucket", "histogram_count"})
"""Kinds whose value never falls while the process lives."""


def is_kept(name: str) -> bool:
    """Whether the family of metric `name` is stored."""
    return _FAMILIES.match(name) is not None and not name.endswith("_created")


def engine_of(name: str) -> str | None:
    """Return the engine program that a canonical metric name belongs to."""
    found = _PREFIX.match(name)
    return found[1] if found else None


@dataclass(slots=True, eq=False)
class Series:
    """One kept series, and what was last seen of it."""

    ix: int
    metric: str
    labels: str
    kind: str
    le: float | None
    engine: str
    instance: str
    monotone: bool
    model: str | None
    config: dict[str, str] | None
    last: float = 0.0
    last_key: int | None = None
    rest: bytes | None = None

    @property
    def is_start_time(self) -> bool:
        """Whether the value is the instant at which the process began."""
        return self.metric == "process_start_time_seconds"


def make_series(
    ix: int, name: str, labels: dict[str, str], types: dict[str, str], first_model: str | None
) -> Series | None:
    """Return the series, or None where it is a bucket without a readable edge.

    `first_model` is the model already seen in the file: its label is folded, others are kept.
    """
    labels = dict(labels)
    base, kind = _kind(name, "le" in labels, types)
    le: float | None = None
    if kind == "histogram_bucket":
        try:
            le = float(labels.pop("le"))
        except ValueError:
            return None
        if le != le:
            return None
    metric = _canonical(base, kind)
    engine = labels.pop("engine", "")
    if not engine and metric.startswith("sglang:"):
        engine = labels.pop("dp_rank", "")
    model = labels.pop("model_name", None)
    if model is not None and first_model is not None and model != first_model:
        labels["model_name"] = model
    config = dict(labels) if metric == "vllm:cache_config_info" else None
    return Series(
        ix=ix,
        metric=metric,
        labels=",".join(f"{k}={v}" for k, v in sorted(labels.items())),
        kind=kind,
        le=le,
        engine=engine or "0",
        instance="|".join(labels.get(k, "") for k in _INSTANCE_LABELS),
        monotone=kind in MONOTONE_KINDS,
        model=model,
        config=config,
    )


def _kind(name: str, has_le: bool, types: dict[str, str]) -> tuple[str, str]:
    stated = types.get(name)
    if stated == "counter":
        return name, "counter"
    if stated in ("gauge", "info", "stateset", "summary"):
        return name, "gauge"
    for suffix, kind in _PARTS:
        if not name.endswith(suffix):
            continue
        base = name[: -len(suffix)]
        whole = types.get(base)
        if whole is None and stated is None:
            if kind != "histogram_bucket" or has_le:
                return base, kind
        elif (whole == "histogram" and (kind != "histogram_bucket" or has_le)) or (
            whole == "summary" and kind != "histogram_bucket"
        ):
            return base, kind
    if name.endswith("_total"):
        # OpenMetrics states the type for the name without `_total`.
        whole = types.get(name[:-6])
        if whole in ("counter", None, "unknown", "untyped"):
            return name, "counter"
    return name, "gauge"


def _canonical(name: str, kind: str) -> str:
    name = _PREFIX.sub(lambda m: m[1] + ":", name, count=1)
    return name + "_total" if kind == "counter" and not name.endswith("_total") else name
