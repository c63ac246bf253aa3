"""The recorder of sample_data: its scheduler, its thinning, and a run it recorded on a CPU."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import trueput
from trueput.step_annotation import parse_step

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "sample_data" / "recorder"
CPU = Path(__file__).parent / "cpu"
RUNS = ("loop_base", "loop_more")


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import scheduler

    yield scheduler
    sys.modules.pop("scheduler")


@pytest.fixture
def records(scheduler: ModuleType) -> Iterator[ModuleType]:
    import records

    yield records
    sys.modules.pop("records")


def served(scheduler: ModuleType, most: int, blocks: int, budget: int) -> tuple[int, list]:
    """Run requests without a model; return the tokens scheduled, and the requests."""
    planner = scheduler.Scheduler(scheduler.Limits(most, budget, blocks))
    requests = [scheduler.Request(f"r{i}", [1] * (40 + 7 * i), 30 + i, 0) for i in range(9)]
    planner.waiting.extend(requests)
    scheduled = 0
    while planner.waiting or planner.running:
        pieces = planner.plan()
        assert pieces
        assert sum(p.count for p in pieces) <= budget
        for piece in pieces:
            request = piece.request
            scheduled += piece.count
            assert piece.is_decode == (piece.had_output and piece.count == 1 and
                                       piece.start + 1 == len(request.all_tokens))  # fmt: skip
            request.computed = piece.start + piece.count
            request.ever_computed = max(request.ever_computed, request.computed)
            request.recomputed_tokens += piece.again
        assert planner.blocks_in_use <= blocks
        assert len({r.slot for r in planner.running}) == len(planner.running) <= most
        for piece in pieces:
            if piece.request.computed == len(piece.request.all_tokens):
                piece.request.tokens.append(1)
                if piece.request.done:
                    planner.finish(piece.request, 1)
    return scheduled, requests


@pytest.mark.parametrize(("most", "blocks"), [(1, 10), (3, 40), (9, 20), (9, 12), (9, 200)])
@pytest.mark.parametrize("budget", [7, 128])
def test_every_scheduled_token_is_due_or_recomputed(
    scheduler: ModuleType, most: int, blocks: int, budget: int
) -> None:
    scheduled, requests = served(scheduler, most, blocks, budget)
    assert all(r.done for r in requests)
    again = sum(r.recomputed_tokens for r in requests)
    assert scheduled == sum(len(r.prompt) + len(r.tokens) - 1 for r in requests) + again
    assert (again > 0) == (sum(r.preemptions for r in requests) > 0) == (blocks in (12, 20))


def test_thinning_keeps_what_is_read(records: ModuleType, tmp_path: Path) -> None:
    def event(category: str, **args: object) -> dict[str, object]:
        return {"ph": "X", "cat": category, "name": "n", "ts": 5115373823752.453, "dur": 1.5,
                "args": args}  # fmt: skip

    path = tmp_path / "t.json"
    events = [
        event("cpu_op", Shapes=[1]),
        event("kernel", correlation=7, device=0, grid=[1, 2, 3]),
        {"ph": "s", "cat": "ac2g", "id": 7},
        event("user_annotation"),
    ]
    told = {"schemaVersion": 1, "host_name": "here", "traceName": "/a", "traceEvents": events}
    path.write_text(json.dumps(told), encoding="utf-8")
    thin = json.loads(records.thinned(path, keep_operators=False))
    assert [e["cat"] for e in thin["traceEvents"]] == ["kernel", "user_annotation"]
    assert thin["traceEvents"][0]["args"] == {"correlation": 7, "device": 0}
    assert thin["traceEvents"][0]["ts"] == 5115373823752.453
    assert set(thin) == {"schemaVersion", "traceEvents"}
    whole = json.loads(records.thinned(path, keep_operators=True))
    assert whole["traceEvents"] == events


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorder") / "store"
    trueput.ingest([CPU / run for run in RUNS], store=folder)
    return folder


def truth(run: str) -> dict[str, int]:
    return json.loads((CPU / run / "truth_run.json").read_text(encoding="utf-8"))


def test_the_cpu_run_is_small_and_names_no_host() -> None:
    files = [p for run in RUNS for p in (CPU / run).iterdir()]
    assert sum(p.stat().st_size for p in files) < 100_000
    with gzip.open(CPU / "loop_base" / "loop.pt.trace.json.gz", "rt") as stream:
        head = stream.readline()
    assert "host" not in head


@pytest.mark.parametrize("run", RUNS)
def test_the_cpu_run_is_read(store: Path, run: str) -> None:
    told = truth(run)
    query = "SELECT * FROM {} WHERE run_id = '" + run + "'"
    reading = trueput.Reading(store=store)
    (row,) = trueput.sql(query.format("goodput"), reading).dicts()
    assert row["planned_requests"] == row["complete_requests"] == told["finished"] == 24
    codes = {p["code"] for p in trueput.sql(query.format("problems"), reading).dicts()}
    assert codes == {"KINETO011", "INGEST002"}  # no kernels; the step log is nobody's
    names = trueput.sql(query.format("gpu_ranges"), reading).dicts()
    steps = [s for s in (parse_step(n["name"]) for n in names) if s is not None]
    assert len(steps) == told["steps"]
    scheduled = sum((s.context_tokens or 0) + (s.generation_tokens or 0) for s in steps)
    assert scheduled == told["scheduled_tokens"]
    outcomes = trueput.sql(query.format("request_outcomes"), reading).dicts()
    assert sum(r["preemption_count"] for r in outcomes) == told["preemptions"]


def test_only_the_run_with_more_admitted_computed_again() -> None:
    base, more = map(truth, RUNS)
    assert base["recomputed_tokens"] == 0 < more["recomputed_tokens"]
    assert base["prompt_tokens"] == more["prompt_tokens"]
    assert base["output_tokens"] == more["output_tokens"]
