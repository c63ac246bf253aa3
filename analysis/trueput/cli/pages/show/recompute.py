"""What was computed again, and who paid for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueput.cli.pages.layout import bounds, count, heading, percent, say, span, table

if TYPE_CHECKING:
    from rich.console import Console

Found = dict[str, list[dict[str, Any]]]


def draw_recompute(console: Console, found: Found) -> None:
    """Print preemptions and recomputed tokens; nothing where no file could tell."""
    if not found["recompute"]:
        return
    row = found["recompute"][0]
    figures = ("preemptions", "preempted_requests", "recomputed_tokens", "recomputed_tokens_low",
               "scheduled_tokens", "recompute_ns")  # fmt: skip
    if row["method"] == "none" and all(row[name] is None for name in figures):
        return
    told = f"{row['method']}, {row['basis']}"
    heading(console, "Recompute", "these files cannot tell" if row["method"] == "none" else told)
    tokens = bounds(
        row["recomputed_tokens_low"], row["recomputed_tokens_high"], count(row["recomputed_tokens"])
    )
    names = ("preemptions", "requests hit", "tokens again", "of scheduled", "engine time")
    cells = [
        count(row["preemptions"]),
        count(row["preempted_requests"]),
        tokens,
        percent(row["recomputed_ratio"]),
        _bounded_span(row, "recompute_ns"),
    ]
    table(console, names, [cells], right=names)
    if row["method"] == "annotations":
        text = "from the step annotations of a profile; the GPU time of it is in the ledger"
        say(console, text, "dim")
    if is_of_whole_lives(found) and row["recomputed_tokens_high"] != 0:
        text = "of the engine's whole lives, other traffic included; the ledger is of the load"
        say(console, text, "dim")


def is_of_whole_lives(found: Found) -> bool:
    """Tell whether recompute is of whole lives of the engine, and not of the load alone."""
    loads = found.get("goodput") or ()
    others = any(load["other_traffic_requests"] for load in loads)
    return others and all(load["window_rule"] == "all" for load in loads)


def _bounded_span(row: dict[str, Any], name: str) -> str:
    """Return a span, or what it lies between where only that is known."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if row[name] is not None or low is None:
        return span(row[name])
    return f"{span(low)} to {'unknown' if high is None else span(high)}"


def draw_paid(console: Console, found: Found) -> None:
    """Print the requests that lost most time to preemption."""
    rows = found["paid_most"]
    if not rows:
        return
    heading(
        console, "Requests that paid most for preemption", "inferred; sure: confidence in [0, 1]"
    )
    table(
        console,
        ("request", "outcome", "end to end", "waited", "recompute", "times", "sure"),
        [
            [r["request_id"], r["outcome"], span(r["e2e_ns"]), span(r["requeue_ns"]),
             span(r["recompute_ns"]), r["preemptions"], f"{r['confidence']:.2f}"]
            for r in rows
        ],
        right=("end to end", "waited", "recompute", "times", "sure"),
    )  # fmt: skip
