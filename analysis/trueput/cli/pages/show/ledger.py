"""Where the devices' time went."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Any

from trueput.cli.pages.layout import bar, count, fits, heading, percent, say, span, table
from trueput.cli.pages.show.recompute import is_of_whole_lives
from trueput.cli.pages.show.requests import ENDS

if TYPE_CHECKING:
    from rich.console import Console

Row = dict[str, Any]
Found = dict[str, list[Row]]


def draw_ledger(console: Console, found: Found) -> None:
    """Print time by work and outcome, and what limits it; nothing for a run without a ledger."""
    rows = found["gpu_ledger"]
    if not rows:
        return
    devices = rows[0]["devices"]
    idle = [r for r in rows if r["work"] == "idle"]
    on_gpu = any(row["are_gpus"] for row in found["ledger_devices"])
    what = "GPU" if on_gpu else "engine rank"
    note = f"{span(rows[0]['window_ns'])} x {devices} {what}{'s' if devices != 1 else ''}"
    if on_gpu:
        heading(
            console, "Where the GPUs' time went", note + ", busy union; exposed comm. and copies"
        )
    else:
        heading(console, "Where the engine's time went", note + ", printed step time, not GPU time")
    for place, (names, lines) in enumerate(_parts(console, *_cells(rows))):
        if place:
            console.print()
        table(console, names, lines, right=[n for n in names[1:] if n])
    _division(console, found, on_gpu=on_gpu)
    if not on_gpu:
        _recompute_beyond_cells(console, found)
    if any(r["basis"] == "bounded" for r in idle):
        _idle_that_is_bounded(console, idle, _why_the_log_tells_less(found), on_gpu=on_gpu)
    _waiting(console, found, overlaps=not on_gpu and _overlap(found))


def _cells(rows: list[Row]) -> tuple[list[str], list[list[Any]]]:
    """Return the table: one line for each work, one column for each outcome that has time."""
    works = list(dict.fromkeys(r["work"] for r in rows))
    order = [
        "prefill", "decode", "recompute", "communication", "copy", "other", "unattributed", "idle",
    ]  # fmt: skip
    works.sort(key=lambda w: order.index(w) if w in order else 99)
    outcomes = [o for o in (*ENDS, "other_traffic", "none") if any(
        r["outcome"] == o and r["time_ns"] for r in rows
    )]  # fmt: skip
    lines = []
    for work in works:
        mine = [r for r in rows if r["work"] == work]
        cells = {r["outcome"]: r["time_ns"] for r in mine}
        known = [t for t in cells.values() if t is not None]
        # what may be some and is not seen is not printed as none
        open_ = not sum(known) and any(r["time_ns_high"] for r in mine)
        total = sum(known) if known and not open_ else None
        whole = rows[0]["window_ns"] * rows[0]["devices"]
        share = total / whole if total is not None and whole else None
        line = [work, span(total), percent(share), bar(share, 12)]
        line += [span(cells[o]) if cells.get(o) else "" for o in outcomes]
        lines.append(line)
    names = ["work", "time", "share", "", *(o.replace("_", " ") for o in outcomes)]
    return names, lines


def _parts(
    console: Console, names: list[str], lines: list[list[Any]], lead: int = 3
) -> list[tuple[list[str], list[list[Any]]]]:
    """Return the table as it fits on the page, spans unbroken: what does not is a table below.

    The bar goes first, for its share stands beside it. `lead` columns begin the table, then the
    outcomes.
    """
    if "" in names and not fits(console, names, lines):
        at = names.index("")
        names = [*names[:at], *names[at + 1 :]]
        lines = [[*line[:at], *line[at + 1 :]] for line in lines]
    kept = len(names)
    while kept > lead + 1 and not fits(console, names[:kept], [line[:kept] for line in lines]):
        kept -= 1
    parts = [(names[:kept], [line[:kept] for line in lines])]
    if kept < len(names):
        rest = [[line[0], *line[kept:]] for line in lines if any(line[kept:])]
        parts += _parts(console, [names[0], *names[kept:]], rest, lead=1)
    return parts


def _division(console: Console, found: Found, *, on_gpu: bool) -> None:
    """Say how steps of several kinds of work are divided: by the run's own fit, or by tokens."""
    fits_of = found.get("gpu_step_cost" if on_gpu else "engine_step_cost") or []
    works = {r["work"] for r in found["gpu_ledger"] if r["time_ns"]}
    if len(works & {"prefill", "decode", "recompute"}) < 2:
        return
    for row in fits_of:
        r2, steps = row["trimmed_r2"], count(row["steps_fitted"])
        if row["method"] == "token_share":
            why = "too few for a cost model" if r2 is None else f"no cost model fits (R2 {r2:.2f})"
            say(console, f"mixed steps are divided by their tokens: {steps} steps, {why}")
        elif r2 is not None:
            fit = f"{steps} steps, R2 {floor(r2 * 1000) / 1000:.3f}"  # never 1.000 for less
            say(console, f"mixed steps are divided by the run's own cost model: {fit}")


def _recompute_beyond_cells(console: Console, found: Found) -> None:
    """Say where single iterations alone showed recompute, that there may have been more.

    The cells' own bounds do not add up: what one may hold at most, another lacks then.
    """
    again = [r for r in found["gpu_ledger"] if r["work"] == "recompute" and r["time_ns"]]
    if not again or any(r["recompute_ns"] is not None for r in found["recompute"]):
        return
    low, high = (sum(r[f"time_ns_{end}"] for r in again) for end in ("low", "high"))
    if not is_of_whole_lives(found):
        # it is the run's: the cells only leave open whose
        low = max([low, *(r["recompute_ns_low"] or 0 for r in found["recompute"])])
    most = [r["recompute_ns_high"] for r in found["recompute"]]
    known = [ns for ns in most if ns is not None]
    between = f"at least {span(low)}"
    if known and len(known) == len(most):
        window = again[0]["window_ns"] * again[0]["devices"]
        between = f"{span(low)} to {span(min(high, window, *known))}"
    say(
        console,
        f"recompute: {between}; what single iterations show is taken from prefill and decode, "
        "which may hold more",
    )


def _overlap(found: Found) -> bool:
    return any(row.get("overlaps") for row in found["ledger_devices"])


def _why_the_log_tells_less(found: Found) -> str:
    why = []
    if _overlap(found):
        why.append("iterations overlap, and print more time than the engine was busy")
    if not why or any(row.get("is_in_part") for row in found["ledger_devices"]):
        why.append("the log tells of a part of the window")
    return "; ".join(why)


def _idle_that_is_bounded(console: Console, idle: list[Row], why: str, *, on_gpu: bool) -> None:
    """Say between what idle time lies, and why that is not known better."""
    low, at, most = (sum(r[f"time_ns{end}"] for r in idle) for end in ("_low", "", "_high"))
    if not on_gpu:
        say(console, f"idle: {span(low)} to {span(most)}; {why}")
    elif at == most:
        why = "in the rest a few operations are missing, the profiler worked, or the load had ended"
        say(console, f"idle: {span(low)} to {span(most)}; {why}")
    else:
        say(
            console,
            f"idle: at most {span(most)}; the profile hides operations (graph launches without "
            "their kernels) or lost them (damage), which may have run there",
        )


def _waiting(console: Console, found: Found, *, overlaps: bool) -> None:
    """Say how much of idle time no request was in the engine."""
    for row in found["gpu_idle"]:
        if overlaps and row["queue_empty_ns_high"] is not None:
            empty, waiting = (_between(row, part) for part in ("queue_empty", "work_waiting"))
            say(console, f"idle: {empty} with no request in the engine, {waiting} while one was")
        elif row["queue_empty_ns"] is not None and row["idle_ns"]:
            empty, waiting = (_with_bounds(row, part) for part in ("queue_empty", "work_waiting"))
            say(console, f"idle: {empty} with no request in the engine, {waiting} while one was")
        elif row["queue_empty_ns_high"] is not None and row["idle_ns"]:
            say(
                console,
                f"idle: {_between(row, 'queue_empty')} with no request in the engine; the end of "
                "a request is not known",
            )


def _between(row: Row, part: str) -> str:
    """Return what a part of idle time lies between."""
    return " to ".join(span(row[f"{part}_ns_{end}"]) for end in ("low", "high"))


def _with_bounds(row: Row, part: str) -> str:
    """Return a part of idle time, with its bounds where they read otherwise than itself."""
    shown = span(row[f"{part}_ns"])
    ends = [row[f"{part}_ns_{end}"] for end in ("low", "high")]
    if None in ends or all(span(end) == shown for end in ends):
        return shown
    return f"{shown} ({_between(row, part)})"
