"""One export, table by table: operations before the calls that launched them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trueput.clock import ClockKind
from trueput.nsys_rows.capture import Told, overheads, read_told
from trueput.nsys_rows.codes import CODES
from trueput.nsys_rows.devices import Devices
from trueput.nsys_rows.keys import KeySet
from trueput.nsys_rows.launches import LaunchCounts, Launches, sole_process
from trueput.nsys_rows.operations import Counts, Operations, long_from_span
from trueput.nsys_rows.ranges import Ranges
from trueput.nsys_rows.samples import read_samples
from trueput.nsys_rows.tables import Names, Tables
from trueput.source_api import Batch, Clock, Fact, Item, loses_much
from trueput.tally import Tally

TABLES: Final = (
    "gpu_captures",
    "gpu_devices",
    "gpu_launches",
    "gpu_ops",
    "gpu_overheads",
    "gpu_ranges",
    "gpu_samples",
)
"""The tables that an export can fill."""

_MARKS = ("CUPTI_ACTIVITY_KIND_", "META_DATA_", "NVTX_", "TARGET_INFO_", "GPU_METRICS")


def read_export(
    tables: Tables, table_names: frozenset[str], *, partial: bool, lost: bool = False
) -> Iterator[Item]:
    """Yield everything of an export.

    `partial` says that damage is known already, `lost` that a table of operations is among it.
    """
    tally = Tally(CODES)
    if not any(name.startswith(_MARKS) for name in table_names):
        tally.add("NSYS001", text="none of its tables is there")
        yield Clock(ClockKind.NONE)
        yield from tally.problems()
        return
    told = read_told(tables, tally)
    devices, names, keys = Devices(tables), Names(tables), KeySet()
    kernel = tables.columns("CUPTI_ACTIVITY_KIND_KERNEL")
    process = None if "globalPid" in kernel else sole_process(tables)
    window = told.window(None, None)
    long_ns = (window[1] - window[0]) // 2 if window else long_from_span(tables)
    yield told.clock(told.first_instant(tables), tally)
    nodes = told.graph_mode(0, 0) != "graph"
    operations = Operations(tables, names, devices, tally, keys, process, long_ns, nodes)
    yield from operations.read()
    calls = LaunchCounts()
    yield from Launches(tables, names, tally, keys, calls).read()
    ranges = Ranges(tables, names, tally)
    yield from ranges.read()
    yield from read_samples(tables, tally)
    yield from overheads(tables)
    counts = operations.counts
    damaged = partial or counts.damaged or calls.damaged or ranges.damaged
    damaged = damaged or counts.nameless > 0
    rows = list(devices.rows())
    if rows:
        yield Batch("gpu_devices", rows)
    captured = _capture(told, counts, calls, damaged=damaged)
    captured["operations_lost"] = lost or counts.damaged or _loses(told, counts, tally)
    yield Batch("gpu_captures", [captured])
    yield Fact("profiled", True)
    hardware = devices.hardware()
    if hardware:
        yield Fact("hardware", hardware)
    _judge(tally, told, counts, calls, devices)
    yield from tally.problems()


def _capture(told: Told, counts: Counts, calls: LaunchCounts, *, damaged: bool) -> dict[str, Any]:
    spans = counts.rows.get("graph_span", 0)
    window = told.window(counts.first_ns, counts.last_ns)
    start, end = window or (None, None)
    untold = _graphs_untold(told, counts, calls)
    return {
        "profiler": "nsys",
        "schema_version": told.version,
        "status": "partial" if damaged else "whole",
        "graph_mode": told.graph_mode(counts.graph_nodes, spans),
        "graph_launches": calls.graph_launches if calls.traced else None,
        "graphs_hidden": _graphs_hidden(counts, calls) if calls.traced else untold or None,
        "kernel_rows": counts.rows.get("kernel", 0),
        "graph_span_rows": spans,
        "dropped_rows": counts.dropped + told.lost,
        "dropped_operations": counts.dropped or None,
        "overhead_ns": told.overhead_ns,
        "started_at_ns": start,
        "ended_at_ns": counts.last_ns if damaged else end,
    }


def _loses(told: Told, counts: Counts, tally: Tally) -> bool:
    """Say whether operations are missing that the export, or the profiler, lost."""
    dropped = counts.dropped if loses_much(counts.dropped, counts.total) else 0
    if dropped:
        tally.add("NSYS024", text=f"{dropped} of {counts.total} dropped", count=dropped)
    if told.loses_operations:
        text = f"the profiler says so, {told.lost or 'how many it does not say'}"
        tally.add("NSYS024", text=text, count=max(1, told.lost))
    return bool(dropped) or told.loses_operations


def _graphs_hidden(counts: Counts, calls: LaunchCounts) -> bool:
    """Say whether graphs were launched and nothing but whole spans, or nothing, is seen of them."""
    if not calls.graph_launches or counts.graph_nodes:
        return False
    return counts.rows.get("graph_span", 0) > 0 or not calls.graphs_seen


def _graphs_untold(told: Told, counts: Counts, calls: LaunchCounts) -> bool:
    """Say whether kernels of graphs may be missing, of which nothing in the export tells.

    Graphs were traced as a whole, or how is not in an export of some tables alone, and neither
    calls nor spans were exported.
    """
    if calls.launches or not counts.rows.get("kernel") or counts.graph_nodes:
        return False
    asked = told.graph_mode(0, 0)
    some = told.settings.get("EXPORT_PARAM_TABLES_TO_EXPORT")
    is_whole = asked == "graph" or (asked is None and bool(some))
    return is_whole and not counts.rows.get("graph_span")


def _judge(tally: Tally, told: Told, counts: Counts, calls: LaunchCounts, devices: Devices) -> None:
    """Say what the capture cannot have seen."""
    spans = counts.rows.get("graph_span", 0)
    if counts.total == 0:
        asked = "Cuda" in told.events
        tally.add("NSYS010", text="CUDA was traced" if asked else "CUDA was perhaps not traced")
    if calls.launches and not counts.total:
        tally.add("NSYS016", count=calls.launches)
    elif _graphs_hidden(counts, calls) and not spans:
        tally.add("NSYS011", count=calls.graph_launches)
    elif _graphs_untold(told, counts, calls):
        tally.add("NSYS027")
    if calls.failed:
        tally.add("NSYS026", count=calls.failed)
    if spans:
        tally.add("NSYS022", count=spans)
    if devices.unknown():
        tally.add("NSYS017", count=devices.unknown())
    if counts.nameless:
        tally.add("NSYS025", count=counts.nameless)
    if counts.without_process:
        tally.add("NSYS018", count=counts.without_process)
