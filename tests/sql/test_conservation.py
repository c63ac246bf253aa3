"""Conservation: whatever files say, parts sum, outcomes partition, cells fill the window."""

from __future__ import annotations

from typing import Any

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
def runs(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """The raw tables of one small run."""
    rows = {"requests": draw(requests()), **draw(engine_record())}
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


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
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
