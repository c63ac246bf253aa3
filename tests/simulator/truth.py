"""The exact truth of a run: outcomes, phases per request, and the cells of the GPU-second ledger.

The ledger's convention, as implemented here (all in integer ns; cells sum to window x devices):

- window: first client send to the last end of a sent request, refused ones included;
- busy: union per device of kernels, copies and memsets, cut at the window;
- computing kernels of a step go to its works (prefill, decode, recompute) by `cost.shares`:
  each work's variable cost (its mean marginal cost, see cost.py), the constant in proportion to
  the variable parts; a step that only decodes is all decode's. low: its variable part alone; high:
  the whole constant on top;
- communication: collectives where no computing kernel runs; copy: copies and memsets where neither
  runs; both belong to the step that launched them;
- outcome: a work's time in a step is shared over the requests whose tokens of that work the step
  carried, by those tokens; communication and copies by all their tokens in it;
- unattributed: free of operations before the first launch of a device and after its last
  operation; idle: the rest. Idle is told apart by whether an unfinished request was in the engine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from simulator.clocks import unix_ns
from simulator.config import NS_PER_MS
from simulator.cost import WORKS, owed
from simulator.devices import COMMUNICATION, Op
from simulator.engine import Run, Step
from simulator.workload import Request

Span = tuple[int, int]
Cells = dict[tuple[str, str], int]

PHASES = (
    "queue_ns", "prefill_ns", "decode_ns", "requeue_ns", "recompute_ns", "outside_ns",
)  # fmt: skip


def outcome_of(run: Run, one: Request) -> str:
    """How a request ended, by the run's own objective."""
    if one.refused:
        return "rejected"
    if one.leave_kind is not None:
        return "aborted" if one.leave_kind == "abort" else "failed"
    first, last = one.received_at[0], one.received_at[-1]
    config = run.config
    slow = last - first > config.tpot_ms * NS_PER_MS * (len(one.received_at) - 1)
    late = first - one.sent_at > config.ttft_ms * NS_PER_MS or slow
    return "late" if late else "good"


def window_of(run: Run) -> Span:
    """First send to last end."""
    sent = min(one.sent_at for one in run.requests)
    return sent, max(one.ended_at or 0 for one in run.requests)


# -- phases ---------------------------------------------------------------------------------


def _step_recompute(run: Run) -> dict[int, list[tuple[int, int]]]:
    """Per request: (end of the step, ns that its recomputed tokens cost there)."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for step in run.steps:
        parts = [(item, item.recomputed) for item in step.items if item.recomputed]
        if not parts:
            continue
        cost = round(step.own_ns * step.share["recompute"])
        for (item, _), part in zip(parts, share_out(cost, [n for _, n in parts]), strict=True):
            found[item.request.index].append((step.done_at, part))
    return found


def _phases(one: Request, recompute: list[tuple[int, int]]) -> dict[str, int]:
    end = one.ended_at
    assert end is not None
    found = dict.fromkeys(PHASES, 0)
    cuts: list[tuple[int, str]] = [(one.sent_at, "outside_ns")]
    if one.queued_at is not None:
        cuts.append((one.queued_at, "queue_ns"))
    if one.first_scheduled_at is not None:
        cuts.append((one.first_scheduled_at, "active"))
    for at in one.preemptions:
        cuts.append((at, "requeue_ns"))
    for at in one.resumes:
        cuts.append((at, "active"))
    if one.leave_kind is None and one.token_at:
        cuts.append((one.token_at[-1], "outside_ns"))
    first = one.token_at[0] if one.token_at else end
    cuts.sort(key=lambda cut: cut[0])  # stable: an empty phase stays before the next
    for (at, name), (until, _) in zip(cuts, [*cuts[1:], (end, "")], strict=True):
        low, high = min(at, end), min(until, end)
        if name == "active":
            found["prefill_ns"] += max(0, min(high, first) - low)
            found["decode_ns"] += max(0, high - max(low, first))
        else:
            found[name] += high - low
    for at, cost in recompute:
        if at > end:
            continue
        home = "prefill_ns" if at <= first else "decode_ns"
        moved = min(cost, found[home])
        found[home] -= moved
        found["recompute_ns"] += moved
    return found


def request_truth(run: Run, prefix: str) -> list[dict[str, object]]:
    """One record per request; the phases sum exactly to `e2e_ns`."""
    recompute = _step_recompute(run)
    rows = []
    for one in run.requests:
        phases = _phases(one, recompute[one.index])
        end = one.ended_at
        assert end is not None
        assert sum(phases.values()) == end - one.sent_at
        rows.append(
            {
                "request_id": one.name(prefix),
                "outcome": outcome_of(run, one),
                "prompt_tokens": one.prompt,
                "cached_prompt_tokens": one.cached,
                "output_tokens": len(one.received_at),
                "preemptions": len(one.preemptions),
                "recomputed_tokens": one.recomputed,
                "lost_computed_tokens": one.lost_computed,
                "e2e_ns": end - one.sent_at,
                **phases,
            }
        )
    return rows


# -- intervals ------------------------------------------------------------------------------


def union(spans: Iterable[Span]) -> list[Span]:
    """Disjoint spans that cover the same instants."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        elif high > low:
            found.append((low, high))
    return found


def without(span: Span, covers: Sequence[Span]) -> int:
    """Length of `span` outside disjoint, sorted `covers`."""
    place = max(0, bisect_right(covers, (span[0], 1 << 62)) - 1)
    left = span[1] - span[0]
    for low, high in covers[place:]:
        if low >= span[1]:
            break
        left -= max(0, min(high, span[1]) - max(low, span[0]))
    return left


def share_out(total: int, weights: Sequence[float]) -> list[int]:
    """Integers that sum to `total`, each within 1 of its share."""
    whole = sum(weights)
    shares = [total * weight / whole for weight in weights]
    parts = [int(share) for share in shares]
    by_rest = sorted(range(len(parts)), key=lambda k: (parts[k] - shares[k], k))
    for k in by_rest[: total - sum(parts)]:
        parts[k] += 1
    parts[-1] += total - sum(parts)
    return parts


# -- the ledger -----------------------------------------------------------------------------


@dataclass
class Ledger:
    """Cells and what they rest on."""

    window: Span
    devices: int
    cells: Cells = field(default_factory=Counter)
    low: Counter[str] = field(default_factory=Counter)
    high: Counter[str] = field(default_factory=Counter)
    busy: list[int] = field(default_factory=list)
    kernel_busy: list[int] = field(default_factory=list)
    idle_empty: int = 0
    idle_waiting: int = 0


def _spend(cells: Cells, work: str, cost: int, items: list[tuple[str, int]]) -> None:
    for (outcome, _), part in zip(items, share_out(cost, [n for _, n in items]), strict=True):
        cells[work, outcome] += part


def _carried(
    step: Step, outcomes: dict[int, str], work: str | None = None
) -> list[tuple[str, int]]:
    by_outcome: Counter[str] = Counter()
    for item in step.items:
        by_outcome[outcomes[item.request.index]] += (
            item.tokens if work is None else item.tokens_of(work)
        )
    return sorted((outcome, n) for outcome, n in by_outcome.items() if n)


def _step_cells(
    run: Run, step: Step, outcomes: dict[int, str], spent: dict[str, int], ledger: Ledger
) -> None:
    """Adds one step on one device: `spent` is its computing, communication and copy time."""
    constant, parts = owed(run.config, step.amounts)
    whole = constant + sum(parts.values())
    present = [work for work in WORKS if step.amounts[work].tokens]
    costs = share_out(spent["compute"], [step.share[work] for work in present])
    for work, cost in zip(present, costs, strict=True):
        _spend(ledger.cells, work, cost, _carried(step, outcomes, work))
        if len(present) == 1:
            ledger.low[work] += cost
            ledger.high[work] += cost
        else:
            ledger.low[work] += round(spent["compute"] * parts[work] / whole)
            ledger.high[work] += round(spent["compute"] * (parts[work] + constant) / whole)
    everyone = _carried(step, outcomes)
    for work in ("communication", "copy"):
        _spend(ledger.cells, work, spent[work], everyone)


class _DeviceTime:
    """One device's busy time, and each step's part of it: every instant belongs to one step."""

    def __init__(self, run: Run, device: int, window: Span) -> None:
        found: dict[str, list[tuple[int, int, int]]] = {
            "compute": [], "communication": [], "copy": [],
        }  # fmt: skip
        for place, step in enumerate(run.steps):
            for op in step.device.ops:
                if op.device != device:
                    continue
                low, high = max(op.start, window[0]), min(op.end, window[1])
                if high > low:
                    found[_kind_of(op)].append((low, high, place))
        spans = {kind: union(row[:2] for row in rows) for kind, rows in found.items()}
        self.kernels = union([*spans["compute"], *spans["communication"]])
        self.busy = union([*self.kernels, *spans["copy"]])
        self.spent = [dict.fromkeys(found, 0) for _ in run.steps]
        covers = {"compute": [], "communication": spans["compute"], "copy": self.kernels}
        for kind, rows in found.items():
            until = window[0]  # where two of a kind overlap, the time is the earlier one's
            for low, high, place in sorted(rows):
                left = (max(low, until), high)
                until = max(until, high)
                if left[1] > left[0]:
                    self.spent[place][kind] += without(left, covers[kind])


def _kind_of(op: Op) -> str:
    if op.kind != "kernel":
        return "copy"
    return "communication" if op.stream == COMMUNICATION else "compute"


def ledger_of(run: Run) -> Ledger:
    """Every GPU-second of the window."""
    window = window_of(run)
    ledger = Ledger(window, run.config.devices)
    outcomes = {one.index: outcome_of(run, one) for one in run.requests}
    present = union((one.queued_at, one.finished_at) for one in run.requests
                    if one.queued_at is not None and one.finished_at is not None)  # fmt: skip
    for device in range(run.config.devices):
        own = _DeviceTime(run, device, window)
        for step, spent in zip(run.steps, own.spent, strict=True):
            _step_cells(run, step, outcomes, spent, ledger)
        ledger.busy.append(sum(high - low for low, high in own.busy))
        ledger.kernel_busy.append(sum(high - low for low, high in own.kernels))
        _gaps(run, device, own.busy, present, ledger)
    assert sum(ledger.cells.values()) == (window[1] - window[0]) * ledger.devices
    return ledger


def _gaps(run: Run, device: int, busy: list[Span], present: list[Span], ledger: Ledger) -> None:
    window = ledger.window
    opened = min(max(run.steps[0].device.launch_at[device], window[0]), busy[0][0])
    edges = [(window[0], opened), (busy[-1][1], window[1])]
    ledger.cells["unattributed", "none"] += sum(high - low for low, high in edges)
    inner = [(opened, busy[0][0])]
    inner += [(a[1], b[0]) for a, b in pairwise(busy)]
    for gap in inner:
        length = gap[1] - gap[0]
        empty = without(gap, present) if length else 0
        ledger.idle_empty += empty
        ledger.idle_waiting += length - empty
        ledger.cells["idle", "none"] += length


def ledger_truth(run: Run) -> dict[str, object]:
    """The ledger as it is written."""
    ledger = ledger_of(run)
    window = ledger.window[1] - ledger.window[0]
    works: Counter[str] = Counter()
    for (work, _), cost in ledger.cells.items():
        works[work] += cost
    return {
        "window_ns": window,
        "devices": ledger.devices,
        "busy_ns_by_device": ledger.busy,
        "kernel_busy_ns_by_device": ledger.kernel_busy,
        "idle_queue_empty_ns": ledger.idle_empty,
        "idle_work_waiting_ns": ledger.idle_waiting,
        "works": {
            work: {
                "time_ns": cost,
                "time_ns_low": min(cost, ledger.low.get(work, cost)),
                "time_ns_high": max(cost, ledger.high.get(work, cost)),
            }
            for work, cost in sorted(works.items())
        },
        "cells": [
            {"work": work, "outcome": outcome, "time_ns": cost}
            for (work, outcome), cost in sorted(ledger.cells.items())
            if cost
        ],
    }


def run_truth(run: Run) -> dict[str, object]:
    """The run's totals."""
    outcomes = Counter(outcome_of(run, one) for one in run.requests)
    window = window_of(run)
    seconds = (window[1] - window[0]) / 1e9
    items = [item for step in run.steps for item in step.items]
    return {
        "scenario": run.config.name,
        "seed": run.seed,
        "workload_seed": run.config.workload_seed,
        "steps": len(run.steps),
        "outcomes": dict(sorted(outcomes.items())),
        "goodput_rps": outcomes["good"] / seconds,
        "window_ns": window[1] - window[0],
        "window_started_at_ns": unix_ns(window[0]),
        "preemptions": sum(len(one.preemptions) for one in run.requests),
        "preempted_requests": sum(bool(one.preemptions) for one in run.requests),
        "scheduled_tokens": sum(item.tokens for item in items),
        "prefilled_tokens": sum(item.prefilled for item in items),
        "decoded_tokens": sum(item.decoded for item in items),
        "recomputed_tokens": sum(item.recomputed for item in items),
        "recompute_ns": sum(round(step.own_ns * step.share["recompute"]) for step in run.steps),
    }


def preemption_truth(run: Run, prefix: str) -> list[dict[str, object]]:
    """One record per preemption, in order: what the replay has to find."""
    found = []
    for one in run.requests:
        for k, at in enumerate(one.preemptions):
            resumed = one.resumes[k] if k < len(one.resumes) else None
            found.append(
                {
                    "request_id": one.name(prefix),
                    "at_ns": unix_ns(at),
                    "output_tokens": sum(token <= at for token in one.token_at),
                    "requeue_ns": None if resumed is None else resumed - at,
                    "step": sum(step.scheduled_at < at for step in run.steps),
                }
            )
    return sorted(found, key=lambda row: (row["at_ns"], row["request_id"]))
