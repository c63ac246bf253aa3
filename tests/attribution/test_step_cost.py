"""The step cost model: exact division of time, robustness, honesty about poor fits."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.iterations.cost import (
    MAX_FIT_STEPS,
    StepCost,
    StepParts,
    StepWork,
    fit_step_cost,
    overlapped,
    split_steps,
)
from trueput.attribution.iterations.timeline import own_least
from trueput.attribution.records import Ints, Steps

WORKS = ("prefill", "decode", "recompute")


def made_up(n: int, seed: int = 0) -> StepWork:
    """Steps that cost 5 ms + 0.3 ms a token + 0.5 ms a sequence + 1 us a KV token."""
    rng = np.random.default_rng(seed)
    prefill = np.where(rng.random(n) < 0.2, rng.integers(1, 500, n), 0)
    again = np.where(rng.random(n) < 0.1, rng.integers(1, 300, n), 0)
    decode = rng.integers(0, 30, n)
    kv = rng.integers(0, 3000, n).astype(np.float64)
    elapsed = 5e6 + 3e5 * (prefill + again) + 5e5 * decode + 1e3 * kv + rng.normal(0, 2e5, n)
    return StepWork(elapsed.astype(np.int64), prefill, again, decode, kv)


def test_the_coefficients_come_out_again() -> None:
    cost = fit_step_cost(made_up(3000))
    assert cost.usable
    assert cost.trimmed_r2 > 0.99
    assert abs(cost.constant_ns - 5e6) < 1e5
    assert abs(cost.prefill_token_ns - 3e5) < 3e3
    assert abs(cost.decode_sequence_ns - 5e5) < 5e3
    assert abs(cost.kv_token_ns - 1e3) < 50


def test_a_stall_of_25_seconds_changes_nothing_much() -> None:
    work = made_up(2000)
    elapsed = work.elapsed_ns.copy()
    elapsed[777] += 25 * 10**9
    calm = fit_step_cost(work)
    stalled = fit_step_cost(dataclasses.replace(work, elapsed_ns=elapsed))
    assert stalled.usable
    assert abs(stalled.prefill_token_ns / calm.prefill_token_ns - 1) < 0.01
    assert abs(stalled.constant_ns / calm.constant_ns - 1) < 0.02


def test_the_fit_is_the_same_on_every_call() -> None:
    assert fit_step_cost(made_up(500)) == fit_step_cost(made_up(500))


def test_time_that_follows_nothing_falls_back_to_token_share() -> None:
    work = made_up(1000)
    noise = np.random.default_rng(5).integers(10**6, 10**8, 1000)
    cost = fit_step_cost(dataclasses.replace(work, elapsed_ns=noise))
    assert cost.method == "token_share"
    parts = split_steps(cost, work)
    tokens = work.prefill_tokens + work.decode_sequences + work.recomputed_tokens
    share = work.elapsed_ns * work.recomputed_tokens / np.maximum(tokens, 1)
    assert np.abs(parts.recompute_ns - share).max() <= 1


def test_too_few_steps_are_not_fitted() -> None:
    assert fit_step_cost(made_up(10)).method == "token_share"


def test_a_long_run_is_fitted_on_a_sample() -> None:
    cost = fit_step_cost(made_up(MAX_FIT_STEPS + 1))
    assert cost.n <= MAX_FIT_STEPS
    assert abs(cost.prefill_token_ns - 3e5) < 3e3


def test_the_constant_is_decodes_in_decode_only_steps_and_shared_in_mixed_ones() -> None:
    cost = StepCost(8e6, 1e5, 1e6, 0.0, 100, 1.0, "robust_nnls")

    def ints(*values: int) -> Ints:
        return np.array(values, dtype=np.int64)

    work = StepWork(ints(10_000_000, 20_000_000), ints(0, 60), ints(0, 20), ints(2, 4), np.zeros(2))
    parts = split_steps(cost, work)
    assert parts.decode_ns.tolist() == [10_000_000, 6_666_667]
    # 6, 4 and 2 ms of 12 variable ones, and 8 ms of constant in the same proportion
    assert parts.prefill_ns.tolist() == [0, 10_000_000]
    assert parts.recompute_ns.tolist()[0] == 0
    assert abs(parts.recompute_ns.tolist()[1] - 3_333_333) <= 1
    # the constant to the others, and all of it to recompute
    assert parts.recompute_low_ns.tolist() == [0, 2_000_000]
    assert parts.recompute_high_ns.tolist() == [0, 10_000_000]
    assert parts.decode_low_ns.tolist() == [10_000_000, 4_000_000]


counts = st.integers(0, 3000)
rows = st.lists(
    st.tuples(st.integers(0, 10**11), counts, counts, counts, st.floats(0, 1e6)),
    min_size=1,
    max_size=40,
)
coefficients = st.tuples(*[st.floats(0, 1e7, allow_subnormal=False)] * 4)


knees = st.tuples(st.integers(0, 3000), st.floats(0, 1e7, allow_subnormal=False))


@given(rows, coefficients, st.sampled_from(["robust_nnls", "token_share"]), knees)
def test_parts_sum_exactly_and_lie_between_their_bounds(
    table: list[tuple[int, int, int, int, float]],
    model: tuple[float, ...],
    method: str,
    knee: tuple[int, float],
) -> None:
    columns = list(zip(*table, strict=True))
    elapsed, prefill, again, decode = (np.array(x, dtype=np.int64) for x in columns[:4])
    work = StepWork(elapsed, prefill, again, decode, np.array(columns[4], dtype=np.float64))
    constant, token, sequence, kv = model
    parts = split_steps(StepCost(constant, token, sequence, kv, 100, 1.0, method, *knee), work)
    total = parts.prefill_ns + parts.decode_ns + parts.recompute_ns
    assert total.dtype == np.int64
    assert (total == work.elapsed_ns).all()
    for name in WORKS:
        value = getattr(parts, f"{name}_ns")
        assert (value >= 0).all()
        assert (getattr(parts, f"{name}_low_ns") <= value).all()
        assert (value <= getattr(parts, f"{name}_high_ns")).all()
        assert (getattr(parts, f"{name}_high_ns") <= work.elapsed_ns).all()
    assert (parts.recompute_ns[work.recomputed_tokens == 0] == 0).all()
    assert (parts.prefill_ns[work.prefill_tokens == 0] == 0).all()


def test_of_iterations_that_overlap_each_keeps_what_it_took_longer_than_the_one_before() -> None:
    """Of 10, 30, 20, and after a lost line 50 ms only 20 of the second are surely their own.

    Two thirds of the second are left, and of its 12 ms of recompute at least 8.
    """
    elapsed = np.array([10, 30, 20, 50], np.int64) * 10**6
    steps = dataclasses.replace(
        Steps("0", 0, *(np.zeros(4, np.int64) for _ in range(7)), np.full(4, np.nan)),
        step_ix=np.array([7, 8, 9, 11], np.int64),
        elapsed_ns=elapsed,
    )
    own = own_least(steps)
    assert np.allclose(own, [0, 2 / 3, 0, 0])
    none = np.zeros(4, np.int64)
    low = np.array([6, 12, 3, 9], np.int64) * 10**6
    parts = overlapped(StepParts(none, none, low, none, none, none, none, low, elapsed), own)
    assert np.abs(parts.recompute_low_ns - [0, 8_000_000, 0, 0]).max() <= 1
    assert (parts.recompute_ns == low).all()
    assert (parts.recompute_high_ns == elapsed).all()
