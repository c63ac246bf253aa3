"""Simulated profiles that lost something: the true idle time lies within the bounds."""

from __future__ import annotations

import gzip
import json
import sqlite3
from bisect import bisect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from simulator import SCENARIOS, simulate, write_run
from simulator.truth import Ledger, ledger_of

import trueput

Event = dict[str, Any]
Events = list[Event]
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
ON_HOST = ("cuda_runtime", "user_annotation")
EVERYTHING = (*DEVICE, "cuda_runtime", "user_annotation")


def without_stretch(events: Events, categories: Collection[str]) -> Events:
    """Take the events of some categories out of the fifth tenth of a trace."""
    times = [float(e["ts"]) for e in events if "cat" in e]
    first, span = min(times), max(times) - min(times)
    low, high = first + 0.4 * span, first + 0.5 * span
    return [e for e in events if e.get("cat") not in categories or not low <= e["ts"] <= high]


def without_kernels(events: Events) -> Events:
    return [e for e in events if e.get("cat") != "kernel" and "Launch" not in str(e["name"])]


def computing_kernels(events: Events) -> Events:
    """Take every kernel that computes out of a trace, and all launches."""
    return [e for e in events if e.get("cat") != "cuda_runtime"
            and (e.get("cat") != "kernel" or "nccl" in e["name"].lower())]  # fmt: skip


def a_kernel_without_a_length(events: Events) -> Events:
    """One in the middle of a graph, whose launch has others."""
    graphs = {e["args"]["correlation"] for e in events if e["name"] == "cudaGraphLaunch"}
    of_graph = [e for e in events if e.get("cat") == "kernel"
                and e["args"]["correlation"] in graphs]  # fmt: skip
    of_graph[len(of_graph) // 2]["dur"] = float("nan")
    return events


def late_ends(events: Events) -> Events:
    """Let three kernels end 0.3 s late, more than a hundredth of which was idle."""
    kernels = [e for e in events if e.get("cat") == "kernel"]
    for kernel in kernels[20 :: len(kernels) // 3]:
        kernel["dur"] = float(kernel["dur"]) + 300_000
    return events


def without_steps(goes: Callable[[int, Event], bool]) -> Callable[[Events], Events]:
    """Take single steps out of a trace: operations, launches and annotation of each.

    `goes` is asked of the number of a step, from 1, and of its annotation.
    """

    def damage(events: Events) -> Events:
        notes = sorted(
            (e for e in events if e.get("cat") == "user_annotation"), key=lambda e: float(e["ts"])
        )
        begins = [float(e["ts"]) for e in notes]
        gone = {n for n, note in enumerate(notes, 1) if goes(n, note)}
        at = {id(e): bisect(begins, float(e["ts"])) for e in events if e.get("cat") in ON_HOST}
        steps = {e["args"]["correlation"]: at[id(e)] for e in events
                 if e.get("cat") == "cuda_runtime"}  # fmt: skip

        def step_of(event: Event) -> int:
            correlation = event.get("args", {}).get("correlation")
            return at.get(id(event), steps.get(correlation, 0))

        return [e for e in events if e.get("cat") == "gpu_user_annotation"
                or step_of(e) not in gone]  # fmt: skip

    return damage


def prefills(_: int, note: Event) -> bool:
    return "context_0(" not in note["name"]


TRACES: dict[str, Callable[[Events], Events]] = {
    "steps with their annotations": lambda e: without_stretch(e, (*DEVICE, "cuda_runtime")),
    "steps and their annotations": lambda e: without_stretch(e, EVERYTHING),
    "kernels and their launches": without_kernels,
    "every fifth step": without_steps(lambda n, _: n % 5 == 0),
    "every step that prefills": without_steps(prefills),
    "the ends of a few kernels": late_ends,
    "the length of a kernel": a_kernel_without_a_length,
}
ONLY_NCCL = "kernels that compute and all launches"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MIDDLE = (
    f"start BETWEEN (SELECT min(start) + (max(start) - min(start)) * 4 / 10 FROM {KERNEL})"
    f" AND (SELECT min(start) + (max(start) - min(start)) * 5 / 10 FROM {KERNEL})"
)
OPERATIONS = (KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
SPANS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
EXPORTS = {
    "steps in nsys": [
        # kernels last: where they were is asked of them
        *(f"DELETE FROM {table} WHERE {MIDDLE}" for table in (CALLS, *reversed(OPERATIONS)))
    ],
    "kernels and their launches in nsys": [
        f"DROP TABLE {KERNEL}",
        f"DELETE FROM {CALLS} WHERE nameId IN (SELECT id FROM StringIds "
        "WHERE value LIKE '%Launch%')",
    ],
    "every second span of a graph": [f"DELETE FROM {SPANS} WHERE correlationId % 2 = 0"],
    "the start of a kernel in nsys": [
        f"UPDATE {KERNEL} SET start = start - 300000000 WHERE rowid = (SELECT rowid FROM {KERNEL} "
        "ORDER BY start LIMIT 1 OFFSET 90)"
    ],
    "starts before the session in nsys": [
        f"UPDATE {KERNEL} SET start = -start WHERE rowid % 50 = 0"
    ],
    "devices of the spans of graphs": [f"UPDATE {SPANS} SET deviceId = 2147483647"],
    "a node of a graph in nsys": [
        f"DELETE FROM {KERNEL} WHERE rowid = (SELECT rowid FROM {KERNEL} "
        "WHERE graphNodeId IS NOT NULL ORDER BY start LIMIT 1 OFFSET 90)"
    ],
}


def damage_trace(path: Path, damage: Callable[[Events], Events]) -> None:
    content = json.loads(gzip.decompress(path.read_bytes()))
    content["traceEvents"] = damage(content["traceEvents"])
    path.write_bytes(gzip.compress(json.dumps(content).encode(), 1))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ledger, trueput.Reading]:
    """The true ledger of a run, and what is read of it with each damage."""
    folder = tmp_path_factory.mktemp("lost")
    run = simulate(SCENARIOS["tiny"], seed=3)
    damages = {**TRACES, ONLY_NCCL: computing_kernels}
    for name in (*damages, *EXPORTS):
        whole = folder / "runs" / name
        profile = "kineto" if name in damages else "nsys_graph" if "span" in name else "nsys_node"
        write_run(run, whole, profiles=[profile], with_telemetry=False, compresslevel=1)
        for path in whole.rglob("*.pt.trace.json.gz"):
            damage_trace(path, damages[name])
        for path in whole.glob("*.sqlite"):
            with sqlite3.connect(path) as export:
                for statement in EXPORTS[name]:
                    export.execute(statement)
            export.close()
    trueput.ingest([folder / "runs"], store=folder / "store")
    return ledger_of(run), trueput.Reading(store=folder / "store")


@pytest.mark.parametrize("name", [*TRACES, *EXPORTS, ONLY_NCCL])
def test_true_idle_time_is_within_the_bounds(
    found: tuple[Ledger, trueput.Reading], name: str
) -> None:
    ledger, reading = found
    truth = ledger.idle_empty + ledger.idle_waiting
    (idle,) = trueput.sql(
        f"SELECT * FROM gpu_ledger WHERE run_id = '{name}' AND work = 'idle'", reading
    ).dicts()
    assert idle["time_ns_low"] <= truth <= idle["time_ns_high"]
    assert (idle["basis"], idle["devices"]) == ("bounded", SCENARIOS["tiny"].devices)
    told = trueput.sql(
        f"SELECT code FROM problems WHERE run_id = '{name}' AND source_id IS NOT NULL", reading
    ).rows
    assert told
    bases = trueput.sql(
        f"SELECT DISTINCT basis FROM gpu_activity WHERE run_id = '{name}' AND metric LIKE '%union'",
        reading,
    ).rows
    assert bases == [("bounded",)]


@pytest.mark.parametrize("name", [*TRACES, *EXPORTS])
def test_what_is_lost_may_have_been_any_work(
    found: tuple[Ledger, trueput.Reading], name: str
) -> None:
    """No cell's high is below its truth, wherever the lost operations ran."""
    ledger, reading = found
    rows = trueput.sql(
        f"SELECT work, outcome, time_ns_high FROM gpu_ledger WHERE run_id = '{name}'"
        " AND time_ns > 0 AND outcome NOT IN ('none', 'unknown')",
        reading,
    ).rows
    assert rows
    for work, outcome, high in rows:
        assert ledger.cells.get((work, outcome), 0) <= high, (work, outcome)


def test_communication_that_a_lost_kernel_may_have_covered_is_no_floor(
    found: tuple[Ledger, trueput.Reading],
) -> None:
    """Exposed is what no computing kernel covers, and of those none is left."""
    ledger, reading = found
    (row,) = trueput.sql(
        f"SELECT * FROM gpu_ledger WHERE run_id = '{ONLY_NCCL}' AND work = 'communication'", reading
    ).dicts()
    truth = sum(ns for (work, _), ns in ledger.cells.items() if work == "communication")
    assert row["time_ns"] > 2 * truth > 0
    assert row["time_ns_low"] <= truth
    assert row["basis"] == "bounded"
