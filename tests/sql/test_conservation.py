"""Conservation: whatever files say, parts sum, outcomes partition, cells fill the window."""

from __future__ import annotations

from typing import Any

from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql.case_store import open_store

from trueput import schema
from trueput.warehouse.models import models

CHECKS = sorted(m.name for m in models().values() if m.layer == "checks")
SECOND = 1_000_000_000
IDS = ("a", "b", "c", "d", "e")

spans = st.one_of(st.none(), st.integers(0, 3 * SECOND))
counts = st.one_of(st.none(), st.integers(0, 40))
moments = st.one_of(st.none(), st.integers(0, 5 * SECOND))
statuses = st.sampled_from([None, *schema.tables()["requests"].column("status").enum])


@st.composite
def requests(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records of some requests, each seen by any of the vantages, with figures or without."""
    rows = []
    for place, name in enumerate(draw(st.lists(st.sampled_from(IDS), unique=True))):
        for vantage in ("client", "server", "engine"):
            if not draw(st.booleans()):
                continue
            start = draw(moments)
            end = None if start is None else start + (draw(spans) or 0)
            rows.append({
                "vantage": vantage,
                "row_ix": place if vantage == "client" else None,
                "request_id": name,
                "status": draw(statuses),
                "http_status": draw(st.sampled_from([None, 200, 400, 429, 500, 503])),
                "traffic": draw(st.sampled_from(["load", "load", "warmup"])),
                "sent_at_ns" if vantage == "client" else "arrived_at_ns": start,
                "ended_at_ns": draw(st.sampled_from([None, end])),
                "replica": draw(st.sampled_from([None, "A", "B"])),
                **{f: draw(spans) for f in ("ttft_ns", "e2e_ns", "queue_ns", "prefill_ns")},
                **{f: draw(spans) for f in ("decode_ns", "kv_transfer_ns")},
                **{f: draw(counts) for f in ("prompt_tokens", "cached_prompt_tokens")},
                **{f: draw(counts) for f in ("output_tokens", "asked_output_tokens")},
                "gaps_ns": draw(st.none() | st.lists(st.integers(0, SECOND), max_size=3)),
            })  # fmt: skip
    return rows


@st.composite
def engine_record(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Iterations with their split by work, as attribution would leave them."""
    steps, work = [], []
    for ix in sorted(draw(st.sets(st.integers(0, 8), max_size=6))):
        engine = draw(st.sampled_from(["0", "1"]))
        elapsed = draw(st.integers(0, 4 * SECOND))
        step = {
            "engine": engine,
            "step_ix": ix,
            "logged_at_ns": draw(st.none() | st.integers(0, 6)),
            "elapsed_ns": elapsed,
            **{f: draw(counts) for f in ("context_requests", "context_tokens")},
            **{f: draw(counts) for f in ("generation_requests", "generation_tokens")},
        }
        if step["logged_at_ns"] is not None:
            step["logged_at_ns"] *= SECOND
        steps.append(step)
        if draw(st.booleans()):
            first, second = sorted(draw(st.integers(0, elapsed)) for _ in range(2))
            parts = {"prefill": first, "decode": second - first, "recompute": elapsed - second}
            work.append({
                "engine": engine,
                "step_ix": ix,
                "recomputed_tokens": draw(st.integers(0, 30)),
                **{f"{k}_ns": v for k, v in parts.items()},
                **{f"{k}_ns_low": v // 2 for k, v in parts.items()},
                **{f"{k}_ns_high": min(elapsed, v * 2) for k, v in parts.items()},
            })  # fmt: skip
    return {"engine_steps": steps, "step_work": work}


@st.composite
def gpu_record(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """A profile of two devices: operations of any kind, calls, steps and captures, whole or not."""
    rows: dict[str, list[dict[str, Any]]] = {"gpu_ops": [], "gpu_launches": [], "gpu_steps": []}
    for number in range(draw(st.integers(0, 10))):
        start = draw(st.integers(-SECOND, 4 * SECOND))
        rows["gpu_ops"].append({
            "source_id": draw(st.sampled_from(["f", "g"])),
            "device_key": draw(st.sampled_from(["G0", "G1"])),
            "kind": draw(st.sampled_from(["kernel", "kernel", "memcpy", "memset", "graph_span"])),
            "class": draw(st.sampled_from([None, "compute", "communication"])),
            "process_key": draw(st.sampled_from([None, "p", "p"])),
            "correlation_id": draw(st.sampled_from([None, number])),
            "start_at_ns": start,
            "end_at_ns": start + draw(st.integers(0, SECOND)),
        })  # fmt: skip
        if draw(st.booleans()):
            called = draw(st.integers(-SECOND, 4 * SECOND))
            rows["gpu_launches"].append({
                "process_key": "p", "thread_key": draw(st.sampled_from(["t", "u"])),
                "correlation_id": number, "start_at_ns": called, "end_at_ns": called + 5,
            })  # fmt: skip
    for ix in range(draw(st.integers(0, 4))):
        parts = [draw(st.integers(0, 4)) / 12 for _ in range(3)]  # their sum is at most 1
        works = dict(zip(("prefill", "decode", "recompute"), parts, strict=True))
        rows["gpu_steps"].append({
            "process_key": "p", "thread_key": "t", "gpu_step_ix": ix, "start_at_ns": ix * SECOND,
            "end_at_ns": ix * SECOND + draw(st.integers(0, 2 * SECOND)),
            **{f"{work}_ratio{end}": part for work, part in works.items()
               for end in ("", "_low", "_high")},
            **draw(st.sampled_from([{}, {"engine": "0", "incarnation": 0, "step_ix": ix}])),
        })  # fmt: skip
    told = st.sampled_from([None, False, True])
    rows["gpu_captures"] = [
        {"source_id": source, "status": draw(st.sampled_from(["whole", "partial"])),
         "graph_mode": draw(st.sampled_from([None, "graph", "node"])),
         "graph_launches": draw(counts), "graphs_hidden": draw(told),
         "operations_lost": draw(told)}
        for source in ("f", "g")
    ]  # fmt: skip
    clock = draw(st.sampled_from(["utc", "utc", "relative"]))
    rows["sources"] = [{"source_id": source, "clock_kind": clock} for source in ("f", "g")]
    return rows if rows["gpu_ops"] else {}


@st.composite
def runs(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """The raw tables of one small run."""
    rows = {"requests": draw(requests()), **draw(engine_record()), **draw(gpu_record())}
    known = sorted({r["request_id"] for r in rows["requests"]})
    total = draw(st.none() | st.integers(0, 50))
    if draw(st.booleans()):
        rows["run_recompute"] = [
            {
                "recomputed_tokens": total,
                "recomputed_tokens_low": 0 if total is None else total // 2,
                "recomputed_tokens_high": None if total is None else total * 2,
                "scheduled_tokens": 200,
            }
        ]
    rows["request_recompute"] = [
        {
            "request_id": name,
            "preemptions": 1,
            "requeue_ns": 30,
            "recompute_ns": 20,
            "requeue_before_first_token_ns": draw(st.integers(0, 30)),
            "recompute_before_first_token_ns": draw(st.integers(0, 20)),
            "recomputed_tokens": draw(counts),
        }
        for name in known
        if draw(st.booleans())
    ]
    if draw(st.booleans()):
        planned = draw(st.none() | st.integers(0, 8))
        rows["load_sessions"] = [{"planned_requests": planned, "ignore_eos": draw(st.booleans())}]
    rows["request_events"] = [
        {
            "request_id": draw(st.sampled_from(IDS)),
            "event": draw(st.sampled_from(["added", "scheduled", "first_token", "finished"])),
            "at_ns": draw(st.integers(0, 5 * SECOND)),
        }
        for _ in range(draw(st.integers(0, 4)))
    ] + [
        {"event": "responded", "at_ns": 5, "route": "/v1/completions", "http_status": 429}
        for _ in range(draw(st.integers(0, 1)))
    ]
    rows["runs"] = [{"gpu_count": draw(st.sampled_from([None, 1, 2]))}]
    return rows


def together(stores: list[dict[str, list[dict[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of several runs as one store: building views costs more than filling them."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, store in enumerate(stores):
        for table, found in store.items():
            rows.setdefault(table, []).extend({**row, "run_id": f"r{number}"} for row in found)
    return rows


@settings(
    max_examples=examples(8),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    rows=st.lists(runs(), min_size=4, max_size=8).map(together),
    slo=st.sampled_from([None, "ttft=1s,tpot=10ms", "e2e=2s,itl_p99=1ms,min_output_tokens=2"]),
    window=st.sampled_from(["all", "all", "steady", "fixed:1s..3s"]),
)
def test_every_check_stays_empty(
    rows: dict[str, list[dict[str, Any]]], slo: str | None, window: str
) -> None:
    with open_store(rows, CHECKS, slo=slo, window=window) as connection:
        for check in CHECKS:
            found = connection.execute(f'SELECT * FROM "{check}"').fetchall()
            assert found == [], f"{check}: {found}"
