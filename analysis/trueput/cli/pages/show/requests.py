"""How the requests ended, and where their time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueput.cli.pages.layout import bar, count, heading, percent, rate, say, span, table

if TYPE_CHECKING:
    from rich.console import Console

Found = dict[str, list[dict[str, Any]]]
ENDS = (
    "good", "late", "rejected", "failed", "aborted", "unfinished", "not_sent", "unknown",
)  # fmt: skip
"""How requests end, in the order of the page."""


def draw_outcomes(console: Console, row: dict[str, Any], asked: str | None = None) -> None:
    """Print how many requests got how far, and the rates; `asked` is the window as asked for."""
    session = f"session {row['session']}" if row["session"] else ""
    window = f"window `{asked or row['window_rule']}`, {span(row['window_ns'])}"
    heading(console, "Requests", "  ".join(p for p in (session, window, row["basis"]) if p))
    chain = ("planned", "sent", "answered", "complete", "good")
    table(console, chain, [[_counted(row, name) for name in chain]], right=chain)
    ended = [(name, row[f"{name}_requests"]) for name in ENDS if row[f"{name}_requests"]]
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


def draw_phases(console: Console, found: Found) -> None:
    """Print the phases of the requests, summed."""
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
