"""What a simulated run may not lose: tokens, blocks, time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from simulator import SCENARIOS
from simulator.cost import WORKS, Amount, compute_ns, owed
from simulator.engine import Engine
from simulator.truth import request_truth, share_out, union, without
from simulator_tests.runs import VARIED, ledger, run_of


@pytest.mark.parametrize("name", VARIED)
def test_every_token_is_computed_once_or_again(name: str) -> None:
    run = run_of(name)
    for one in run.requests:
        items = [item for step in run.steps for item in step.items if item.request is one]
        assert sum(item.recomputed for item in items) == one.recomputed
        assert one.recomputed <= one.lost_computed
        if one.finished_at is not None and one.aborted_at is None and not one.refused:
            assert one.produced == one.length
            assert len(one.token_at) == one.produced
            assert sum(item.prefilled for item in items) == one.prompt - one.cached
            # an end token is seen late where the next step has been launched already
            ghosts = sum(item.decoded for item in items) - (one.produced - 1)
            assert ghosts in ((0, 1) if run.config.async_scheduling else (0,))


@pytest.mark.parametrize("name", VARIED)
def test_steps_keep_to_the_limits(name: str) -> None:
    run = run_of(name)
    for step in run.steps:
        assert len(step.items) <= run.config.max_num_seqs
        assert 0 < sum(item.tokens for item in step.items) <= run.config.max_num_batched_tokens
        assert all(item.tokens > 0 for item in step.items)


@pytest.mark.parametrize("name", VARIED)
def test_all_blocks_come_back(name: str) -> None:
    engine = Engine(SCENARIOS[name], 1)
    engine.serve()
    assert len(engine.pool.free) == engine.pool.capacity
    assert not any(engine.pool.users)
    assert not engine.waiting
    assert not engine.running


def test_a_request_may_end_while_it_waits_to_be_computed_again() -> None:
    """Its last token was on its way when it was preempted."""
    config = SCENARIOS["troubled"].replace(
        async_scheduling=True, prefix_caching=True, abort_ratio=0.25, workload_seed=81, requests=50
    )
    engine = Engine(config, 6002)
    run = engine.serve()
    assert len(engine.pool.free) == engine.pool.capacity
    assert not engine.waiting
    assert not engine.running
    ended = [one for one in run.requests if one.produced == one.length > 0]
    assert any(one.preempted_at is not None for one in ended)


@pytest.mark.parametrize("name", VARIED)
def test_phases_sum_and_are_not_negative(name: str) -> None:
    rows = request_truth(run_of(name), "x-")
    for row in rows:
        phases = {key: row[key] for key in row if key.endswith("_ns") and key != "e2e_ns"}
        assert all(isinstance(value, int) and value >= 0 for value in phases.values()), row
        assert sum(value for value in phases.values() if isinstance(value, int)) == row["e2e_ns"]


@pytest.mark.parametrize("name", VARIED)
def test_ledger_cells_sum_to_the_window(name: str) -> None:
    run, found = run_of(name), ledger(name)
    window = found.window[1] - found.window[0]
    assert sum(found.cells.values()) == window * run.config.devices
    assert all(cost >= 0 for cost in found.cells.values())
    free = sum(cost for (work, _), cost in found.cells.items() if work in ("idle", "unattributed"))
    assert free == window * run.config.devices - sum(found.busy)
    assert found.idle_empty + found.idle_waiting == found.cells["idle", "none"]


@pytest.mark.parametrize("name", VARIED)
def test_streams_are_serial_and_work_follows_its_launch(name: str) -> None:
    run = run_of(name)
    for device in range(run.config.devices):
        ops = [op for step in run.steps for op in step.device.ops if op.device == device]
        for stream in {op.stream for op in ops}:
            spans = sorted((op.start, op.end) for op in ops if op.stream == stream)
            assert all(a[1] <= b[0] for a, b in pairwise(spans))
        for step in run.steps:
            base = step.device.launch_at[device]
            for op in step.device.ops:
                if op.device == device:
                    assert op.start >= base + op.order * run.config.launch_ns
                    assert op.end <= step.device.ready_at


def test_what_works_owe_is_what_the_step_costs() -> None:
    config = SCENARIOS["overlapped"]
    for numbers in ((40, 3, 9), (0, 5, 12), (7, 0, 50), (0, 4, 0), (64, 0, 0)):
        step = {work: Amount() for work in WORKS}
        for work, n in zip(WORKS, numbers, strict=True):
            for k in range(n if work == "decode" else 1):
                step[work].add(80 + k, 1 if work == "decode" else n, sampled=True)
        constant, parts = owed(config, step)
        assert constant + sum(parts.values()) == pytest.approx(compute_ns(config, step.values()))
        assert all((parts[work] > 0) <= (step[work].tokens > 0) for work in WORKS)


def test_interval_arithmetic() -> None:
    assert union([(5, 9), (1, 3), (2, 4), (9, 9), (9, 11)]) == [(1, 4), (5, 11)]
    assert without((0, 10), [(1, 4), (5, 11)]) == 2
    assert without((2, 3), [(1, 4)]) == 0
    assert share_out(10, [1, 1, 1]) == [4, 3, 3]
    assert sum(share_out(7, [0.1, 5, 3])) == 7


def test_seeds_move_the_noise_and_not_the_load() -> None:
    one, other, again = run_of("tiny", 1), run_of("tiny", 2), Engine(SCENARIOS["tiny"], 1).serve()
    load = [(x.prompt, x.asked, x.length, x.refused) for x in one.requests]
    assert load == [(x.prompt, x.asked, x.length, x.refused) for x in other.requests]
    assert [s.done_at for s in one.steps] == [s.done_at for s in again.steps]
    assert [s.done_at for s in one.steps] != [s.done_at for s in other.steps]
