"""One run on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueput.cli.output import Grid
from trueput.cli.output import to_csv as grid_csv
from trueput.cli.output import to_markdown as grid_markdown
from trueput.cli.pages.layout import (
    bar,
    bounds,
    count,
    fits,
    heading,
    percent,
    rate,
    say,
    span,
    table,
)

if TYPE_CHECKING:
    from rich.console import Console

Found = dict[str, list[dict[str, Any]]]

_OUTCOMES = (
    "good", "late", "rejected", "failed", "aborted", "unfinished", "not_sent", "unknown",
)  # fmt: skip


def draw(console: Console, found: Found, asked: str | None = None) -> None:
    """Print the page of one run; `asked` is its window as it was asked for."""
    has_requests = any(map(_tells, found["goodput"]))
    _head(console, found, has_requests=has_requests)
    if has_requests:
        for row in found["goodput"]:
            _outcomes(console, row, asked)
        _phases(console, found)
    _recompute(console, found)
    _ledger(console, found)
    _activity(console, found)
    _paid(console, found)
    _evidence(console, found)


def _tells(row: dict[str, Any]) -> bool:
    """Return whether a row of goodput holds any figure."""
    ends = ("_requests", "_rps", "_per_s", "_tokens", "_rps_low", "_ratio_low")
    return any(value is not None for name, value in row.items() if name.endswith(ends))


def _head(console: Console, found: Found, *, has_requests: bool) -> None:
    run = found["runs"][0]
    parts = [run["engine"], run["engine_version"], run["model"], run["hardware"]]
    heading(console, run["run_id"], "  ".join(str(p) for p in parts if p))
    if not run["usable"]:
        say(console, "too little of this run could be read: see `trueput doctor`", "bold red")
    if run["simulated"]:
        say(console, "simulated: no real engine ran")
    slo = found["slo_policy"][0]
    if slo["slo"]:
        say(console, f"objective {slo['slo']} (from {slo['origin']})")
    elif has_requests:
        say(console, "no objective is known, so no request is good or late: give --slo")


def _outcomes(console: Console, row: dict[str, Any], asked: str | None = None) -> None:
    session = f"session {row['session']}" if row["session"] else ""
    window = f"window `{asked or row['window_rule']}`, {span(row['window_ns'])}"
    heading(console, "Requests", "  ".join(p for p in (session, window, row["basis"]) if p))
    chain = ("planned", "sent", "answered", "complete", "good")
    table(console, chain, [[_counted(row, name) for name in chain]], right=chain)
    ended = [(name, row[f"{name}_requests"]) for name in _OUTCOMES if row[f"{name}_requests"]]
    if ended:
        text = ", ".join(f"{count(n)} {name.replace('_', ' ')}" for name, n in ended)
        say(console, f"ended: {text}")
    _claim(console, row)
    if row["other_traffic_requests"]:
        say(
            console,
            f"other traffic in the files, not counted: {count(row['other_traffic_requests'])}",
        )
    if row["slo_not_applicable_requests"]:
        n = count(row["slo_not_applicable_requests"])
        say(console, f"{n} have a limit that does not apply to them (one-token replies)")
    good = _goodput(row)
    share = percent(row["slo_attainment_ratio"])
    if row["slo_attainment_ratio"] is None and row["slo_attainment_ratio_high"] is not None:
        low, high = row["slo_attainment_ratio_low"], row["slo_attainment_ratio_high"]
        share = f"{percent(low)} to {percent(high)}"
    cells = [good, share, rate(row["request_throughput_rps"]), rate(row["output_tokens_per_s"])]
    cells += [count(row["wasted_output_tokens"])]
    names = ("goodput", "attainment", "complete", "output tokens", "wasted tokens")
    table(console, names, [cells], right=names)


def _goodput(row: dict[str, Any]) -> str:
    """Return goodput as a rate; what it lies between where the row is bounded."""
    value, low, high = (row[f"goodput_rps{end}"] for end in ("", "_low", "_high"))
    if row["basis"] != "bounded" or low is None or value == low == high:
        return rate(value)
    return f"at least {rate(low)}" if high is None else f"{rate(low)} to {rate(high)}"


def _counted(row: dict[str, Any], name: str) -> str:
    """Return how many requests got so far; a range where no file tells it of some."""
    low, high = row.get(f"{name}_requests_low"), row.get(f"{name}_requests_high")
    if row[f"{name}_requests"] is None and low is not None and high is not None:
        return f"{count(low)} to {count(high)}"
    return count(row[f"{name}_requests"])


def _claim(console: Console, row: dict[str, Any]) -> None:
    claimed = row["client_claimed_complete_requests"]
    low, high = row["complete_requests_low"], row["complete_requests_high"]
    if claimed is None:
        return
    if row["window_rule"] != "all":
        say(console, f"of its whole load the client claims {count(claimed)} complete")
        return
    unchecked = low is None or row["basis"] == "reported"
    if low is not None and not low <= claimed <= high:
        word = "NOT the same as its own records" if unchecked else "NOT the same"
    elif unchecked:
        word = "no other record here checks it"
    else:
        word = "the same" if low == high else "the other records leave it open"
    say(console, f"the client claims {count(claimed)} complete: {word}")


def _phases(console: Console, found: Found) -> None:
    rows = sorted(found["run_phases"], key=lambda r: -(r["time_ns"] or -1))
    known = [r for r in rows if r["time_ns"] is not None]
    whose = "sum over the run's own requests"
    if any(row["window_rule"] != "all" for row in found["goodput"]):
        whose += " that were sent in the window"
    heading(console, "Where the requests' time went", whose)
    if not known:
        say(console, "no request has a known wall time")
        return
    shown = [r for r in known if r["time_ns"] or r["phase"] in {"requeue", "recompute"}]
    table(
        console,
        ("phase", "time", "share", "", "basis", "known for"),
        [
            [r["phase"], span(r["time_ns"]), percent(r["share_ratio"]), bar(r["share_ratio"]),
             r["basis"], percent(r["covered_requests_ratio"])]
            for r in shown
        ],
        right=("time", "share", "known for"),
    )  # fmt: skip
    unknown = [r["phase"] for r in rows if r["time_ns"] is None and r["phase"] != "kv_transfer"]
    if unknown:
        say(console, "unknown, not 0: " + ", ".join(unknown), "dim")


def _recompute(console: Console, found: Found) -> None:
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
    loads = found.get("goodput") or ()
    others = any(load["other_traffic_requests"] for load in loads)
    whole = all(load["window_rule"] == "all" for load in loads)
    if others and whole and row["recomputed_tokens_high"] != 0:
        text = "of the engine's whole lives, other traffic included; the ledger is of the load"
        say(console, text, "dim")


def _bounded_span(row: dict[str, Any], name: str) -> str:
    """Return a span, or what it lies between where only that is known."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if row[name] is not None or low is None:
        return span(row[name])
    return f"{span(low)} to {'unknown' if high is None else span(high)}"


def _ledger(console: Console, found: Found) -> None:
    rows = found["gpu_ledger"]
    if not rows:
        return
    devices = rows[0]["devices"]
    idle = [r for r in rows if r["work"] == "idle"]
    # on engine ranks idle is what printed step times leave over: reported, never seen
    on_gpu = any(r["basis"] != "reported" for r in idle)
    what = "GPU" if on_gpu else "engine rank"
    note = f"{span(rows[0]['window_ns'])} x {devices} {what}{'s' if devices != 1 else ''}"
    if on_gpu:
        heading(
            console, "Where the GPUs' time went", note + ", busy union; exposed comm. and copies"
        )
    else:
        heading(console, "Where the engine's time went", note + ", printed step time, not GPU time")
    works = list(dict.fromkeys(r["work"] for r in rows))
    order = [
        "prefill", "decode", "recompute", "communication", "copy", "other", "unattributed", "idle",
    ]  # fmt: skip
    works.sort(key=lambda w: order.index(w) if w in order else 99)
    outcomes = [o for o in (*_OUTCOMES, "other_traffic", "none") if any(
        r["outcome"] == o and r["time_ns"] for r in rows
    )]  # fmt: skip
    lines = []
    for work in works:
        cells = {r["outcome"]: r["time_ns"] for r in rows if r["work"] == work}
        known = [t for t in cells.values() if t is not None]
        total = sum(known) if known else None
        whole = rows[0]["window_ns"] * devices
        share = total / whole if total is not None and whole else None
        line = [work, span(total), percent(share), bar(share, 12)]
        line += [span(cells[o]) if cells.get(o) else "" for o in outcomes]
        lines.append(line)
    names = ["work", "time", "share", "", *(o.replace("_", " ") for o in outcomes)]
    # spans are not broken over lines: the bar goes first, then what the rows' own times say already
    for spare in ("", "none"):
        if spare in names and not fits(console, names, lines):
            at = names.index(spare)
            names, lines = (
                [*names[:at], *names[at + 1 :]],
                [[*line[:at], *line[at + 1 :]] for line in lines],
            )
    table(console, names, lines, right=("time", "share", *filter(None, names[3:])))
    _division(console, found, on_gpu=on_gpu)
    again = [r for r in rows if r["work"] == "recompute" and r["time_ns"]]
    if again and not on_gpu and all(r["recompute_ns"] is None for r in found["recompute"]):
        low, high = (sum(r[f"time_ns_{end}"] for r in again) for end in ("low", "high"))
        say(
            console,
            f"recompute: {span(low)} to {span(high)}; what single iterations show is taken from "
            "prefill and decode, which may hold more",
        )
    if on_gpu and any(r["basis"] == "bounded" for r in idle):
        low, at, most = (sum(r[f"time_ns{end}"] for r in idle) for end in ("_low", "", "_high"))
        if at == most:
            why = "in the rest a few operations are missing, or the profiler worked"
            say(console, f"idle: {span(low)} to {span(most)}; {why}")
        else:
            say(
                console,
                f"idle: at most {span(most)}; the profile hides operations (graph launches without "
                "their kernels) or lost them (damage), which may have run there",
            )
    for row in found["gpu_idle"]:
        if row["queue_empty_ns"] is not None and row["idle_ns"]:
            empty, waiting = span(row["queue_empty_ns"]), span(row["work_waiting_ns"])
            say(console, f"idle: {empty} with no request in the engine, {waiting} while one was")
        elif row["queue_empty_ns_high"] is not None and row["idle_ns"]:
            ends = [span(row[f"queue_empty_ns_{end}"]) for end in ("low", "high")]
            say(
                console,
                f"idle: {ends[0]} to {ends[1]} with no request in the engine; the end of a "
                "request is not known",
            )


def _division(console: Console, found: Found, *, on_gpu: bool) -> None:
    """Say where steps of several kinds of work are divided by their tokens, for want of a fit."""
    fits_of = found.get("gpu_step_cost" if on_gpu else "engine_step_cost") or []
    works = {r["work"] for r in found["gpu_ledger"] if r["time_ns"]}
    for row in fits_of:
        if row["method"] == "token_share" and len(works & {"prefill", "decode", "recompute"}) > 1:
            r2, n = row["trimmed_r2"], count(row["steps_fitted"])
            why = "too few for a cost model" if r2 is None else f"no cost model fits (R2 {r2:.2f})"
            say(console, f"mixed steps are divided by their tokens: {n} steps, {why}")


def _amount(value: float | None, unit: str) -> tuple[Any, str]:
    """Return a value and its unit for people: time as a span, whole tokens without a fraction."""
    if unit == "ns":
        return span(value), ""
    return (int(value) if value is not None and value == int(value) else value), unit


def _rate(value: float | None, unit: str) -> str:
    """Return a rung's rate: a share of the window for time, nothing for power, else per second."""
    if unit in {"ns", "ratio"}:
        return percent(value)
    return "" if unit == "W" else rate(value)


def _activity(console: Console, found: Found) -> None:
    rows = found["gpu_activity"]
    batch = found["batching"][0] if found["batching"] else None
    if rows:
        heading(console, "Activity", "each rung compares only with itself")
        table(
            console,
            ("rung", "device", "value", "unit", "rate", "basis"),
            [
                [r["metric"], r["device"], *_amount(r["value"], r["unit"]),
                 _rate(r["rate"], r["unit"]), r["basis"]]
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


def _paid(console: Console, found: Found) -> None:
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


def _evidence(console: Console, found: Found) -> None:
    missing = [r for r in found["evidence"] if r["what_would_improve_it"]]
    if missing:
        heading(console, "What would let these files say more")
        for row in missing:
            say(console, f"{row['question']}: {row['what_would_improve_it']}")
    problems = [p for p in found["problems"] if p["severity"] != "info"]
    if problems:
        heading(console, "Problems in the input")
        for problem in problems[:10]:
            where = problem["source_id"] or "run"
            where += f":{problem['line']}" if problem["line"] else ""
            say(console, f"{where}: {problem['code']} {problem['text']}")
        if len(problems) > 10:
            say(console, f'and {len(problems) - 10} more: `trueput sql "FROM problems"`')


def _grid(name: str, rows: list[dict[str, Any]]) -> Grid:
    columns = list(rows[0]) if rows else []
    return Grid(columns, [list(r.values()) for r in rows], title=name)


def to_markdown(found: Found) -> str:
    """Return every non-empty view as a Markdown table."""
    skip = {"request_outcomes", "request_phases", "timeline"}
    grids = [_grid(n, rows) for n, rows in found.items() if rows and n not in skip]
    return "\n".join(grid_markdown(g) for g in grids)


def to_csv(found: Found) -> str:
    """Return the run's requests as CSV: outcome and phases of each."""
    phases = {r["request_id"]: r for r in found["request_phases"]}
    names = [n for n in (found["request_phases"] or [{}])[0] if n.endswith("_ns") and n != "e2e_ns"]
    rows = [
        {**r, **{n: phases.get(r["request_id"], {}).get(n) for n in names}}
        for r in found["request_outcomes"]
    ]
    return grid_csv(_grid("", rows))
