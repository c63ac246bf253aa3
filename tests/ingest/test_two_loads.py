"""Two loads of one workload in one folder: each is joined to what the engine did in its time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from simulator import SCENARIOS, bench, clocks, metrics, server_log, simulate, spans
from simulator.run_toml import run_toml

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

LATER_NS = 75_000_000_000
CONFIG = SCENARIOS["tiny"]
# enough blocks and no cache: the cost of recompute is fitted over all that an engine did
CALM = CONFIG.replace(num_blocks=200, prefix_caching=False, refused_ratio=0.0, abort_ratio=0.0)
Files = dict[str, str]
Ask = Callable[[str], list[dict[str, Any]]]

REQUESTS = """
    SELECT run_id AS run, coalesce(q.session, run_id) AS of,
        q.* EXCLUDE (run_id, session, replica), p.queue_ns, p.prefill_ns, p.decode_ns, p.requeue_ns,
        p.recompute_ns, p.outside_ns
    FROM request_outcomes AS q JOIN request_phases AS p USING (run_id, request_id)
    WHERE q.outcome IS DISTINCT FROM 'other_traffic' ORDER BY q.row_ix
"""
GOODPUT = """
    SELECT run_id AS run, coalesce(session, run_id) AS of,
        * EXCLUDE (run_id, session, other_traffic_requests)
    FROM goodput
"""
RECOMPUTE = "SELECT DISTINCT preemptions, recomputed_tokens FROM recompute"
CODES = "SELECT code FROM problems WHERE code LIKE 'ATTR%' OR code LIKE 'TIME%' ORDER BY 1"
LINKED = "SELECT session, split_part(request_id, '-', 2) AS of FROM request_links GROUP BY ALL"


def written(seed: int, prefix: str, at_ns: int) -> Files:
    """Return the files of a simulated server that starts at this time; seeds move the noise."""
    with pytest.MonkeyPatch.context() as later:
        later.setattr(clocks, "EPOCH_NS", clocks.EPOCH_NS + at_ns)
        for module in (bench, run_toml.__globals__):
            names = module if isinstance(module, dict) else vars(module)
            later.setitem(names, "MONOTONIC_NS", clocks.MONOTONIC_NS + at_ns)
        run = simulate(CALM, seed)
        return {
            "bench.json": bench.write(run, prefix),
            "server.log": server_log.write(run, prefix),
            "otlp.jsonl": spans.write(run, prefix),
            "metrics.prom": metrics.write(run),
            "run.toml": run_toml(run, prefix, profiled=False),
        }


def read(folder: Path, **runs: Files) -> Ask:
    """Ingest runs of these files; return what asks them."""
    for run, files in runs.items():
        (folder / run).mkdir(parents=True)
        for name, text in files.items():
            (folder / run / name).write_text(text)
    ingest([folder / run for run in runs], store=folder / "store")
    reading = Reading(store=folder / "store", slo="ttft=200ms,tpot=20ms")
    return lambda query: sql(query, reading).dicts()


FIRST, SECOND = written(1, "b-", 0), written(2, "a-", LATER_NS)


def without(text: str, *keys: str) -> str:
    """Return a client's result without what stands under these keys."""
    return json.dumps({k: v for k, v in json.loads(text).items() if k not in keys})


def both(*keys: str, anchors: bool = False, only: Sequence[str] = ()) -> Files:
    """Return the files of both loads as one folder's, the clients' without some keys."""
    engine = ("server.log", "otlp.jsonl", "metrics.prom")
    found = {name: FIRST[name] + SECOND[name] for name in engine if not only or name in only}
    found |= {"x.json": without(FIRST["bench.json"], *keys)}
    found |= {"y.json": without(SECOND["bench.json"], *keys)}
    if anchors:
        marks = "[[clock_anchors]]" + SECOND["run.toml"].partition("[[clock_anchors]]")[2]
        found["run.toml"] = marks.partition("[[steps]]")[0]
    return found


def test_each_load_reads_as_it_does_alone(tmp_path: Path) -> None:
    first, second = (
        {name: text for name, text in files.items() if name != "run.toml"}
        for files in (FIRST, SECOND)
    )
    ask = read(tmp_path, both=both(), x=first, y=second)
    for query in (REQUESTS, GOODPUT):
        rows = ask(query)
        for name in ("x", "y"):
            mine = [row for row in rows if row["of"] == name]
            alone = [{**row, "run": "both"} for row in mine if row["run"] == name]
            assert len(alone) >= 1
            assert [row for row in mine if row["run"] == "both"] == alone
    assert ask(RECOMPUTE) == [{"preemptions": 0, "recomputed_tokens": 0}]
    assert ask(CODES) == []


@pytest.mark.parametrize(
    ("keys", "anchors", "only"),
    [
        (("date",), False, ()),
        (("start_times",), False, ()),
        (("date",), True, ()),
        (("date",), False, ("server.log",)),
        ((), True, ("otlp.jsonl",)),
    ],
)
def test_what_else_tells(
    keys: Sequence[str], anchors: bool, only: Sequence[str], tmp_path: Path
) -> None:
    """One clock of both clients, anchors of it, printed ends, a log that prints seconds."""
    links = read(tmp_path, run=both(*keys, anchors=anchors, only=only))(LINKED)
    assert {(row["session"], row["of"]) for row in links} == {("x", "b"), ("y", "a")}


def test_without_times_neither_is_joined(tmp_path: Path) -> None:
    ask = read(tmp_path, run=both("start_times", "date"))
    assert {row["of"] for row in ask(LINKED)} == {"row"}
    assert [row["code"] for row in ask(CODES)] == ["ATTR001", "ATTR018"]
