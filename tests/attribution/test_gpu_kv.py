"""Steps whose KV is known are divided by a model of it, the others by the model without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trueput.attribution.gpu.steps.busy import Busy
from trueput.attribution.gpu.steps.cost import fit_gpu_cost, split_gpu_steps
from trueput.attribution.iterations.cost import MIN_FIT_STEPS, StepWork
from trueput.attribution.records import Floats, Ints

MS = 1_000_000


def steps(known: int, n: int = 600) -> StepWork:
    """Steps of 2 ms, 0.1 ms for each token of a prompt, and 0.01 ms for each token of KV; one in
    five prefills. Of the first `known` it is told whose KV they read."""
    rng = np.random.default_rng(5)
    decode = rng.integers(1, 9, n)
    prefill = np.where(rng.random(n) < 0.2, rng.integers(8, 33, n), 0)
    kv = np.stack([2.0 * prefill, decode * rng.uniform(50, 300, n), np.zeros(n)], axis=1)
    elapsed = 2 * MS + 0.1 * MS * prefill + 0.01 * MS * kv.sum(axis=1)
    kv[known:] = np.nan
    none: Ints = np.zeros(n, np.int64)
    return StepWork(elapsed.astype(np.int64), prefill, none, decode, kv.sum(axis=1), kv)


def busy_of(work: StepWork) -> Busy:
    """All of their kernels are seen."""
    size = len(work.elapsed_ns)
    none = np.zeros(size, np.bool_)
    ten: Ints = np.full(size, 10, np.int64)
    return Busy(np.arange(size), work.elapsed_ns, work.elapsed_ns, ten, none, ~none, 0.0)


def one_step(prefill: int, decode: int, kv: tuple[float, float]) -> StepWork:
    """A step of a thousand ms."""
    counts = (np.array([x], np.int64) for x in (1000 * MS, prefill, 0, decode))
    by_work: Floats = np.array([[*kv, 0.0]])
    return StepWork(*counts, by_work.sum(axis=1), by_work)


def test_each_work_pays_for_the_kv_it_reads() -> None:
    work = steps(known=600)
    cost = fit_gpu_cost(work, busy_of(work))
    assert cost.with_kv is not None
    assert cost.with_kv.best.kv_token_ns == pytest.approx(0.01 * MS, rel=1e-3)
    assert cost.with_kv.best.trimmed_r2 > 0.9999 > cost.best.trimmed_r2
    # the prompt 2 + 0.4 ms, decoding 1.6 ms, whatever a sequence costs in the mean of all steps
    step = one_step(20, 1, (40.0, 160.0))
    parts = split_gpu_steps(cost, step)
    assert parts.prefill_ns[0] == pytest.approx(1000 * MS * 2.4 / 4.0, rel=1e-3)
    assert parts.decode_ns[0] == pytest.approx(1000 * MS * 1.6 / 4.0, rel=1e-3)


@pytest.mark.parametrize("known", [0, MIN_FIT_STEPS - 1, 300])
def test_steps_of_unknown_kv_are_divided_by_the_model_without(known: int) -> None:
    work = steps(known)
    cost = fit_gpu_cost(work, busy_of(work))
    assert (cost.with_kv is not None) == (known == 300)
    assert cost.knows_kv(work).sum() == (300 if known == 300 else 0)
    nan = replace(work, kv_tokens=np.full(600, np.nan), kv_by_work=np.full((600, 3), np.nan))
    without = split_gpu_steps(fit_gpu_cost(nan, busy_of(nan)), nan)
    parts = split_gpu_steps(cost, work)
    different = parts.prefill_ns != without.prefill_ns
    assert not different[300:].any()
    assert different[:300].any() == (known == 300)
