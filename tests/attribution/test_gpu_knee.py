"""Steps whose cost bends: found where they show it, and divided in the mean of all orders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trueput.attribution.gpu.steps.cost import GpuCost, split_gpu_steps
from trueput.attribution.gpu.steps.knee import MOST_LEFT, fit_line_or_knee
from trueput.attribution.iterations.cost import StepCost, StepWork, split_steps
from trueput.attribution.records import Ints

MS = 1_000_000


def made_up(knee: int, noise: float = 0.0, n: int = 600) -> StepWork:
    """Steps of 10 ms, and 0.5 ms for each token beyond a knee; one in five prefills as well."""
    rng = np.random.default_rng(3)
    decode = rng.integers(1, 13, n)
    prefill = np.where(rng.random(n) < 0.2, rng.integers(8, 53, n), 0)
    beyond = np.maximum(prefill + decode - knee, 0)
    elapsed = (10 * MS + MS // 2 * beyond) * np.exp(noise * rng.standard_normal(n))
    none: Ints = np.zeros(n, np.int64)
    return StepWork(np.rint(elapsed).astype(np.int64), prefill, none, decode, np.full(n, np.nan))


def one_step(prefill: int, decode: int, again: int = 0) -> StepWork:
    """A step of a thousand ms."""
    counts = (np.array([x], np.int64) for x in (1000 * MS, prefill, again, decode))
    return StepWork(*counts, np.full(1, np.nan))


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_knee_is_found(noise: float) -> None:
    (cost,) = fit_line_or_knee(made_up(18, noise))
    assert cost.usable
    # knees are tried a fifth apart
    assert 15 <= cost.knee_tokens <= 22
    assert cost.constant_ns == pytest.approx(10 * MS, rel=0.05)


def test_steps_on_a_line_stay_on_it() -> None:
    work = made_up(18)
    line = 4 * MS + MS // 2 * work.prefill_tokens + MS // 4 * work.decode_sequences
    cost, *_ = fit_line_or_knee(replace(work, elapsed_ns=line))
    assert cost.beyond_token_ns == 0
    assert cost.prefill_token_ns == pytest.approx(MS / 2, rel=1e-6)


def test_a_step_is_divided_in_the_mean_of_both_orders() -> None:
    # 40 tokens beyond: the 48 of the prompt cost 32 of them where they come first, all 40 where
    # they come last; the 8 that decode none and 8
    cost = StepCost(12.0 * MS, 0.0, 0.0, 0.0, 100, 1.0, "robust_nnls", 16, MS / 2)
    parts = split_steps(cost, one_step(48, 8))
    assert parts.prefill_ns.tolist() == [900 * MS]
    assert parts.decode_ns.tolist() == [100 * MS]
    # of 12 + 20 ms: 16 at least, and 20 with the constant at most
    assert parts.prefill_low_ns.tolist() == [500 * MS]
    assert parts.prefill_high_ns.tolist() == [1000 * MS]
    assert parts.decode_low_ns.tolist() == [0]
    assert parts.decode_high_ns.tolist() == [500 * MS]


def test_what_three_works_add_is_the_mean_of_six_orders() -> None:
    # 10, 10 and 20 tokens and a knee of 15: the first adds 0, 0 or 5, the second 5 or 10 or all
    cost = StepCost(0.0, 0.0, 0.0, 0.0, 100, 1.0, "robust_nnls", 15, MS / 2)
    parts = split_steps(cost, one_step(10, 10, 20))
    # of 25 beyond: prefill and decode 0, 0, 5, 10, 10 and 10; recompute 5, 5, 15, 15, 20 and 25 - 5
    shares = [1000 * MS * x / 6 / 25 for x in (35, 35, 80)]
    found = [parts.prefill_ns[0], parts.decode_ns[0], parts.recompute_ns[0]]
    assert found == pytest.approx(shares, abs=1)
    assert sum(found) == 1000 * MS


def test_below_the_knee_the_constant_goes_by_tokens() -> None:
    cost = StepCost(12.0 * MS, 0.0, 0.0, 0.0, 100, 1.0, "robust_nnls", 64, MS / 2)
    parts = split_steps(cost, one_step(30, 10))
    assert (parts.prefill_ns.tolist(), parts.decode_ns.tolist()) == ([750 * MS], [250 * MS])
    assert (parts.prefill_low_ns[0], parts.prefill_high_ns[0]) == pytest.approx(
        (0, 1000 * MS), abs=0.01 * MS
    )


def test_a_knee_that_chance_does_not_make_is_taken_and_the_line_bounds() -> None:
    work = made_up(3, noise=0.03)
    cost, other = fit_line_or_knee(work)
    # it leaves more than three quarters, of the scatter; of 600 steps that is no chance
    assert (cost.knee_tokens, other.knee_tokens) == (3, 0)
    assert 1 - cost.trimmed_r2 > MOST_LEFT * (1 - other.trimmed_r2)
    assert cost.constant_ns == pytest.approx(10 * MS, rel=0.03)
    # a line through decoding of 1 to 12 tokens says less of what a step costs without a token
    assert other.constant_ns < 9.5 * MS
    step = one_step(40, 6)
    parts = split_gpu_steps(GpuCost(cost, (other,)), step)
    # of 10 + 43/2 ms the prompt's 40 tokens cost 18.5 where they come first, 20 where last; with
    # the constant in full a mean of 29.25, which the line alone would deny
    most = 1000 * MS * 29.25 / 31.5
    assert parts.prefill_high_ns[0] >= most
    assert split_steps(other, step).prefill_high_ns[0] < most
    assert parts.prefill_low_ns[0] == pytest.approx(1000 * MS * 18.5 / 31.5, rel=0.005)
    assert parts.prefill_ns[0] == pytest.approx(1000 * MS * 19.25 / 21.5, rel=0.01)


def test_a_knee_that_may_be_chance_is_a_reading_of_the_bounds() -> None:
    work = made_up(3, noise=0.03, n=120)
    cost, other = fit_line_or_knee(work)
    assert (cost.knee_tokens, other.knee_tokens) == (0, 3)


@pytest.mark.parametrize("seed", range(8))
def test_scatter_alone_makes_no_knee(seed: int) -> None:
    work = made_up(18)
    line = 4 * MS + MS // 2 * work.prefill_tokens + MS // 4 * work.decode_sequences
    noise = np.exp(0.05 * np.random.default_rng(seed).standard_normal(len(line)))
    cost, *_ = fit_line_or_knee(replace(work, elapsed_ns=np.rint(line * noise).astype(np.int64)))
    assert cost.knee_tokens == 0
