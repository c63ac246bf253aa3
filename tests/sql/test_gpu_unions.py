"""Unions of GPU time in a window, with and without kept stretches, against counted nanoseconds."""

from __future__ import annotations

from typing import Any

import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql.case_store import open_store

Op = tuple[str, str, int, int]
"""Device, kind, start and end (ns)."""
FROM, TO = 20, 60
WINDOWS = {"all": (0, 80), f"fixed:{FROM}ns..{TO}ns": (FROM, TO)}
UNIONS = "SELECT run_id, device, metric, value, window_ns, basis FROM gpu_activity ORDER BY ALL"

ops = st.tuples(
    st.sampled_from(["G0", "G1"]),
    st.sampled_from(["kernel", "kernel", "memcpy", "graph_span"]),
    st.integers(-10, 90),
    st.integers(0, 30),
).map(lambda op: (*op[:3], op[2] + op[3]))
runs = st.tuples(st.lists(ops, min_size=1, max_size=12), st.booleans(), st.booleans())


def cells(found: list[Op], device: str, kinds: set[str]) -> set[int]:
    """The nanoseconds in which one of these kinds ran."""
    return {ns for d, kind, a, b in found if d == device and kind in kinds for ns in range(a, b)}


def stretches(found: list[Op]) -> list[dict[str, Any]]:
    """Rows of gpu_busy, by counting."""
    rows = []
    for device in {op[0] for op in found}:
        kernels = cells(found, device, {"kernel"})
        for kind, ran in (
            ("kernel", kernels),
            ("copy", cells(found, device, {"memcpy"}) - kernels),
        ):
            starts = sorted(ns for ns in ran if ns - 1 not in ran)
            ends = sorted(ns + 1 for ns in ran if ns + 1 not in ran)
            rows += [
                {"device_key": device, "kind": kind, "start_at_ns": a, "end_at_ns": b}
                for a, b in zip(starts, ends, strict=True)
            ]
    return rows


def totals(found: list[Op]) -> list[dict[str, Any]]:
    """Rows of gpu_op_totals, by counting."""
    rows = []
    for device in {op[0] for op in found}:
        own = [op for op in found if op[0] == device]
        rows.append({
            "device_key": device, "operations": len(own),
            "graph_spans": sum(op[1] == "graph_span" for op in own),
            "first_at_ns": min(op[2] for op in own), "last_at_ns": max(op[3] for op in own),
        })  # fmt: skip
    return rows


def expected(run_id: str, found: list[Op], window: tuple[int, int]) -> list[tuple[Any, ...]]:
    """The rungs of one run: devices are numbered by their keys.

    A union of nothing is 0 where such operations were seen at other times, the device's own
    operations enclose the window and no graph hides any; else it has no row.
    """
    rows: list[tuple[Any, ...]] = []
    inside = set(range(*window))
    for number, device in enumerate(sorted({op[0] for op in found})):
        for metric, kinds in (
            ("gpu_op_union", {"kernel", "memcpy"}),
            ("kernel_union", {"kernel"}),
        ):
            ran = cells(found, device, kinds)
            own = [op for op in found if op[0] == device]
            is_blind = any(op[1] == "graph_span" for op in own)
            encloses = min(op[2] for op in own) <= window[0] and window[1] <= max(
                op[3] for op in own
            )
            busy, basis = len(ran & inside), "bounded" if is_blind else "measured"
            if busy or (ran and encloses and not is_blind and inside):
                rows.append((run_id, number, metric, float(busy), window[1] - window[0], basis))
    return rows


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("window", list(WINDOWS))
@settings(
    max_examples=examples(6),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(drawn=st.lists(runs, min_size=4, max_size=10))
def test_unions_count_nanoseconds(window: str, drawn: list[tuple[list[Op], bool, bool]]) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"runs": [], "gpu_busy": [], "gpu_op_totals": []}
    answers: list[tuple[Any, ...]] = []
    for number, (found, is_kept, has_load) in enumerate(drawn):
        run_id = f"r{number}"
        made: dict[str, list[dict[str, Any]]] = {
            "runs": [{}],
            "sources": [{"clock_kind": "utc"}],
            "gpu_ops": [
                {"device_key": d, "kind": k, "start_at_ns": a, "end_at_ns": b}
                for d, k, a, b in found
            ],
        }
        first = min(op[2] for op in found)
        chosen = first, max(op[3] for op in found)
        if window != "all":
            # without requests offsets count from the first operation
            chosen = first + FROM, first + TO
        if has_load:
            made["requests"] = [
                {"request_id": "a", "status": "ok", "sent_at_ns": 0, "ended_at_ns": 80}
            ]
            chosen = WINDOWS[window]
        if is_kept:
            made |= {"gpu_busy": stretches(found), "gpu_op_totals": totals(found)}
        for table, some in made.items():
            rows.setdefault(table, []).extend({**row, "run_id": run_id} for row in some)
        answers += expected(run_id, found, chosen)
    with open_store(
        rows, ["gpu_activity", "check_gpu_busy", "check_gpu_op_totals"], window=window
    ) as store:
        assert sorted(store.execute(UNIONS).fetchall()) == sorted(answers)
        for check in ("check_gpu_busy", "check_gpu_op_totals"):
            assert store.execute(f"FROM {check}").fetchall() == []


OPERATIONS = [
    {"device_key": "G0", "kind": "kernel", "start_at_ns": 0, "end_at_ns": 10},
    {"device_key": "G0", "kind": "memcpy", "start_at_ns": 5, "end_at_ns": 15},
]
KEPT = [("kernel", 0, 10), ("copy", 10, 15)]
TOTAL = {"device_key": "G0", "operations": 2, "first_at_ns": 0, "last_at_ns": 15}


def checked(kept: list[tuple[str, int, int]], check: str, **total: Any) -> list[tuple[Any, ...]]:
    """What a check says of the operations above when this is kept."""
    rows = {
        "gpu_ops": OPERATIONS,
        "gpu_op_totals": [TOTAL | total],
        "gpu_busy": [
            {"device_key": "G0", "kind": kind, "start_at_ns": a, "end_at_ns": b}
            for kind, a, b in kept
        ],
    }
    with open_store(rows, [check]) as store:
        return store.execute(f"FROM {check} ORDER BY ALL").fetchall()


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        (KEPT, []),
        ([("kernel", 0, 10)], [("gpu_op_union", 10, 15, 0)]),
        ([], [("gpu_op_union", 0, 15, 0), ("kernel_union", 0, 10, 0)]),
        # the sums hold, but a stretch is in two parts
        ([("kernel", 0, 4), ("kernel", 4, 10), ("copy", 10, 15)],
         [("gpu_op_union", 15, 15, 1), ("kernel_union", 10, 10, 1)]),
        ([("kernel", 0, 10), ("copy", 9, 14)], [("gpu_op_union", 15, 15, 1)]),
        ([*KEPT, ("copy", 20, 20)], [("gpu_op_union", 15, 15, 1)]),
    ],
)  # fmt: skip
def test_the_check_finds_wrong_stretches(
    kept: list[tuple[str, int, int]], found: list[tuple[Any, ...]]
) -> None:
    assert [row[2:] for row in checked(kept, "check_gpu_busy")] == found


@pytest.mark.parametrize(
    "wrong",
    [{"operations": 3}, {"first_at_ns": 1}, {"last_at_ns": 14}, {"device": 1}, {"graph_spans": 1}],
)
def test_the_check_finds_wrong_totals(wrong: dict[str, int]) -> None:
    assert checked(KEPT, "check_gpu_op_totals") == []
    (row,) = checked(KEPT, "check_gpu_op_totals", **wrong)
    assert row == ("r", "f", "G0", wrong.get("operations", 2), 2)
