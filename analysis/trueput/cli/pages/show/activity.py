"""The rungs of activity, and the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueput.cli.pages.layout import heading, percent, rate, say, span, table

if TYPE_CHECKING:
    from rich.console import Console

Found = dict[str, list[dict[str, Any]]]


def draw_activity(console: Console, found: Found) -> None:
    """Print every rung of activity, and the mean batch."""
    rows = found["gpu_activity"]
    batch = found["batching"][0] if found["batching"] else None
    if rows:
        heading(console, "Activity", "each rung compares only with itself")
        table(
            console,
            ("rung", "device", "value", "unit", "rate", "basis"),
            [
                [r["metric"], r["device"], *_amount(r["value"], r["unit"]),
                 _rate(r["rate"], r["unit"]), r["basis"] + _between(r)]
                for r in rows
            ],
            right=("device", "value", "rate"),
        )  # fmt: skip
    if batch and any(batch[k] is not None for k in batch if k != "run_id"):
        text = (
            f"batch of {batch['decode_batch_mean']:.2f} decoding sequences on average, "
            if batch["decode_batch_mean"] is not None
            else ""
        )
        means = [
            f"{label} {batch[key]:.2f}"
            for label, key in (("running", "running_mean"), ("waiting", "waiting_mean"))
            if batch[key] is not None
        ]
        used = batch["kv_used_ratio_p99"]
        means += [f"KV cache p99 {percent(used)}"] if used is not None else []
        say(console, text + ", ".join(means))


def _amount(value: float | None, unit: str) -> tuple[Any, str]:
    """Return a value and its unit for people: time as a span, whole tokens without a fraction."""
    if unit == "ns":
        return span(value), ""
    return (int(value) if value is not None and value == int(value) else value), unit


def _between(row: dict[str, Any]) -> str:
    """Return what a rung of telemetry lies between, where its readings leave that open."""
    low, unit = row["value_low"], row["unit"]
    if row["basis"] != "bounded" or unit not in {"ratio", "W", "J"} or low is None:
        return ""
    return f": {_end(low, unit)} to {_end(row['value_high'], unit)}"


def _end(bound: float | None, unit: str) -> str:
    """Return a bound of telemetry for people."""
    if bound is None:
        return "unknown"
    return percent(bound) if unit == "ratio" else f"{bound:,.0f} {unit}"


def _rate(value: float | None, unit: str) -> str:
    """Return a rung's rate: a share of the window for time, nothing for power, else per second."""
    if unit in {"ns", "ratio"}:
        return percent(value)
    return "" if unit == "W" else rate(value)
