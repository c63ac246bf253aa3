"""Victims of preemption, what they computed again and where they waited, against the simulator.

What counts as certain (confidence of 0.9 and more) must be right. The tokens of a victim are not
certain where the log leaves open whose they were, nor anything where no counter checks the replay.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

SURE = 0.9
E2E_SHARE = 0.05
PHASES = ("queue", "prefill", "decode", "requeue", "recompute", "outside")
TINY = SCENARIOS["tiny"].replace(requests=30, async_scheduling=True, prefix_caching=True)
OVERLAPPED, TROUBLED = SCENARIOS["overlapped"], SCENARIOS["troubled"]
CROWDED = TROUBLED.replace(async_scheduling=True, requests=60, request_rate=5.5, abort_ratio=0.1)
HASTY = OVERLAPPED.replace(prefix_caching=True, requests=60, abort_ratio=0.1)
STALLED = TROUBLED.replace(stall_ratio=0.05, stall_ns=200_000_000)
PLAIN = OVERLAPPED.replace(prefix_caching=False, abort_ratio=0.2, early_stop_ratio=0.15)
RUNS: Mapping[str, tuple[Config, int]] = {
    # two victims are resumed in one iteration: which of them found what blocks is not printed
    "resumed_together": (
        CROWDED.replace(prefix_caching=True, shared_prefixes=3, prefix_tokens=32),
        3217,
    ),
    # among requests that leave, printed usage alone tells who has gone
    "hasty": (
        HASTY.replace(
            async_scheduling=True, request_rate=6.5, refused_ratio=0.05, early_stop_ratio=0.1
        ),
        3085,
    ),
    "in_turn": (HASTY.replace(async_scheduling=False, request_rate=5.5, burstiness=0.3), 3417),
    # a request is preempted while its first token is on its way
    "first_token": (CROWDED.replace(prefix_caching=False), 3317),
    # iterations overlap, and pauses in the load hide it
    "with_pauses": (TINY.replace(request_rate=20.0, abort_ratio=0.1), 3151),
    "plain": (PLAIN.replace(async_scheduling=True), 177),
    # four clients give up in one stall of the engine; the second time ten in four iterations
    "given_up_at_once": (STALLED, 208),
    # with them go a victim that waits, and two that were never served
    "given_up_waiting": (STALLED, 206),
}
Rows = dict[str, dict[str, Any]]


class Store:
    """Runs of a store, made when they are asked for, and their truth."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reading = trueput.Reading(store=folder / "store")

    def run(self, name: str, *, log: str | None = None, without: Sequence[str] = ()) -> str:
        """Ingest a run: of its log only lines that match `log`, and `without` some of its files."""
        config, seed = RUNS[name]
        own = re.sub(r"\W+", "_", "_".join([name, log or "", *without]))
        folder = self.folder / "runs" / own
        if not folder.exists():
            write_run(
                simulate(config.replace(workload_seed=seed), seed),
                folder,
                profiles=[],
                with_telemetry=False,
                compresslevel=1,
            )
            for file in without:
                (folder / file).unlink()
            if log is not None:
                path = folder / "server.log.gz"
                lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
                kept = [line for line in lines if re.search(log, line)]
                path.write_bytes(gzip.compress("".join(kept).encode()))
            trueput.ingest([folder], store=self.reading.store)
        return own

    def truth(self, run: str) -> Rows:
        """What happened to each request."""
        rows = json.loads((self.folder / "runs" / run / "truth_requests.json").read_text())
        return {row["request_id"]: row for row in rows}

    def rows(self, view: str, run: str) -> Rows:
        """The rows of a view by request."""
        found = trueput.sql(f"SELECT * FROM {view} WHERE run_id = '{run}'", self.reading).dicts()
        return {row["request_id"]: row for row in found}

    def total(self, run: str) -> dict[str, Any]:
        """The run's row of `recompute`."""
        return trueput.sql(
            f"SELECT * FROM recompute WHERE run_id = '{run}'", self.reading
        ).dicts()[0]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("victims"))


def wrong(found: Rows, truth: Rows) -> set[str]:
    """Requests of which something is said that is not so."""
    return {
        name for name, row in found.items()
        if (row["preemptions"], row["recomputed_tokens"])
        != (truth[name]["preemptions"], truth[name]["recomputed_tokens"])
    }  # fmt: skip


def sure(found: Rows) -> set[str]:
    return {name for name, row in found.items() if row["confidence"] >= SURE}


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("name", RUNS)
def test_what_is_certain_is_so(store: Store, name: str) -> None:
    run = store.run(name)
    found, truth = store.rows("request_recompute", run), store.truth(run)
    assert found
    assert not wrong(found, truth) & sure(found)
    assert all((row["basis"] == "inferred") == (n in sure(found)) for n, row in found.items())


def test_only_those_are_doubted_whose_tokens_may_be_each_others(store: Store) -> None:
    run = store.run("resumed_together")
    found, truth = store.rows("request_recompute", run), store.truth(run)
    doubted = found.keys() - sure(found)
    assert doubted == wrong(found, truth) == {"cmpl-t-55-0", "cmpl-t-56-0"}
    victims = {name for name, row in truth.items() if row["preemptions"]}
    assert len(victims) == 3
    # the third victim, and all that were not preempted, are as certain as before
    assert len(sure(found)) == 54
    phases = store.rows("request_phases", run)
    for name in victims:
        basis = {phases[name][f"{phase}_basis"] for phase in ("requeue", "recompute", "decode")}
        assert basis == {"bounded" if name in doubted else "inferred"}


@pytest.mark.parametrize(
    ("name", "open_ones"),
    [
        ("given_up_at_once", set()),
        # it waited when its client gave up, and may as well have left while it ran
        pytest.param("given_up_waiting", {"cmpl-t-6-0"}, marks=pytest.mark.long),
    ],
)
def test_clients_that_give_up_at_once_hide_no_victim(
    store: Store, name: str, open_ones: set[str]
) -> None:
    run = store.run(name)
    found, truth = store.rows("request_recompute", run), store.truth(run)
    victims = {request for request, row in truth.items() if row["preemptions"]}
    assert len(victims) > 8
    assert victims - found.keys() == open_ones
    assert not wrong(found, truth)


@pytest.mark.long
def test_usage_that_is_printed_an_iteration_further_on_names_the_victims(store: Store) -> None:
    run = store.run("hasty")
    found, truth = store.rows("request_recompute", run), store.truth(run)
    victims = {name for name, row in truth.items() if row["preemptions"]}
    assert len(victims) > 8
    assert {name for name, row in found.items() if row["preemptions"]} == victims
    assert all(found[name]["preemptions"] == truth[name]["preemptions"] for name in found)
    again = sum(row["recomputed_tokens"] for row in found.values())
    assert again <= store.total(run)["recomputed_tokens_high"]


@pytest.mark.long
@pytest.mark.parametrize("without", [["metrics.prom.gz"], ["metrics.prom.gz", "otlp.jsonl.gz"]])
def test_less_evidence_makes_nobody_more_certain(store: Store, without: list[str]) -> None:
    whole = store.rows("request_recompute", store.run("plain"))
    part = store.rows("request_recompute", store.run("plain", without=without))
    named = {name for name in part.keys() & whole.keys() if part[name]["preemptions"]}
    assert len(named) > 5
    assert all(part[name]["confidence"] <= whole[name]["confidence"] for name in named)
    assert not sure(part)


@pytest.mark.long
def test_aborts_that_the_log_does_not_print_are_the_clients(store: Store) -> None:
    run = store.run("plain", log=r"Iteration\(|non-default args|KV cache size")
    truth, total = store.truth(run), store.total(run)
    again = sum(row["recomputed_tokens"] for row in truth.values())
    assert sum(row["outcome"] == "aborted" for row in truth.values()) == 14
    # the balance alone has all that the aborted were given in their last iterations on top
    assert total["recomputed_tokens_low"] <= again <= total["recomputed_tokens_high"]
    assert again == 826


@pytest.mark.long
@pytest.mark.parametrize(("name", "early"), [("first_token", 2), ("with_pauses", 1)])
def test_waits_lie_where_they_were(store: Store, name: str, early: int) -> None:
    run = store.run(name)
    found, phases = store.rows("request_recompute", run), store.rows("request_phases", run)
    compared = 0
    for request, row in store.truth(run).items():
        # the engine times those that it finished
        if not row["preemptions"] or row["outcome"] not in {"good", "late"}:
            continue
        waited = found[request]["requeue_before_first_token_ns"]
        compared += 0 < waited < found[request]["requeue_ns"]
        for phase in PHASES:
            off = abs(phases[request][f"{phase}_ns"] - row[f"{phase}_ns"])
            assert off <= E2E_SHARE * row["e2e_ns"], (request, phase)
    assert compared >= early
