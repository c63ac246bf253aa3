"""The gate's arithmetic against figures worked out by hand, independently of the code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from trueput.gate.resampling import BLOCKS, RESAMPLES, SEED, median_log_sd, sum_log_sd
from trueput.gate.statistics import Effect, Noise, Sample, adjusted, ratio_effect, share_effect

NOISE = Noise()
T_2 = 2.919985580  # one-sided 95 % point of t with 2 degrees of freedom (printed tables: 2.920)
Z = 1.644853627


def exact(*values: float) -> list[Sample]:
    return [Sample.exact(value) for value in values]


def known(effect: Effect | None) -> Effect:
    assert effect is not None
    return effect


def test_two_runs_each_side_by_hand() -> None:
    # logs: baseline 0, ln 1.2 = 0.1823216; candidate ln 2 = 0.6931472, ln 2.2 = 0.7884574
    # means 0.0911608 and 0.7408023, difference 0.6496415, ratio 1.9148543
    # variances 0.1823216^2/2 = 0.0166206 and 0.0953102^2/2 = 0.0045420, pooled 0.0105813
    # sd 0.1028654, se = sd * sqrt(1/2 + 1/2) = 0.1028654; reach = 2.9199856 * se = 0.3003656
    effect = known(ratio_effect(exact(1.0, 1.2), exact(2.0, 2.2), NOISE))
    assert effect.estimate == pytest.approx(1.9148543, rel=1e-6)
    assert effect.low == pytest.approx(math.exp(0.6496415 - 0.3003656), rel=1e-5)
    assert effect.high == pytest.approx(math.exp(0.6496415 + 0.3003656), rel=1e-5)
    assert effect.degrees == 2
    assert not effect.assumed_noise


def test_equal_repeats_get_the_floor() -> None:
    # sd 0.02 in each run: reach = 2.9199856 * 0.02 * sqrt(1) = 0.0583997, a bound of about 6 %
    two = known(ratio_effect(exact(3.0, 3.0), exact(3.0, 3.0), NOISE))
    assert two.low == pytest.approx(math.exp(-0.0583997), rel=1e-6)
    assert not two.did_not_fall(0.05)
    # three runs a side: t with 4 degrees is 2.1318468; reach = 2.1318468 * 0.02 * sqrt(2/3)
    three = known(ratio_effect(exact(3, 3, 3), exact(3, 3, 3), NOISE))
    assert three.high == pytest.approx(math.exp(0.0348129), rel=1e-5)
    assert three.did_not_fall(0.05)
    assert three.did_not_rise(0.05)


def test_one_run_a_side_adds_in_quadrature() -> None:
    # 0.03^2 + 0.04^2 + 0.1^2 + 0.1^2 = 0.0225, se 0.15, reach 1.6448536 * 0.15 = 0.2467280
    effect = known(ratio_effect([Sample.exact(1.0, 0.03)], [Sample.exact(0.5, 0.04)], NOISE))
    assert effect.high == pytest.approx(0.5 * math.exp(0.2467280), rel=1e-6)
    assert effect.fell(0.05)
    assert effect.assumed_noise


def test_share_of_requests_has_at_least_its_binomial_sd() -> None:
    # n = 100, none lost: p = 0.5/101 = 0.0049505, var = p (1 - p) / 100 = 4.92599e-5
    # 5 lost: p = 5.5/101 = 0.0544554, var = 5.14901e-4; one run widened by 0.1 * 0.05 = 0.005
    base, cand = [Sample.exact(0.0, trials=100)], [Sample.exact(0.05, trials=100)]
    one = known(share_effect(base, cand, NOISE))
    reach = Z * math.sqrt(4.92599e-5 + 5.14901e-4 + 0.005**2)
    assert one.high == pytest.approx(0.05 + reach, rel=1e-5)
    # two equal runs a side, no widening: se^2 = (4.92599e-5 + 5.14901e-4) / 2
    two = known(share_effect(base * 2, cand * 2, NOISE))
    assert two.low == pytest.approx(0.05 - T_2 * math.sqrt(2.8208e-4), rel=1e-4)


def test_share_of_tokens_has_the_floor() -> None:
    # 0.02 * 0.3 = 0.006 for the candidate, 0 for the baseline; se = 0.006 / sqrt 2
    effect = known(share_effect(exact(0, 0), exact(0.3, 0.3), NOISE))
    assert effect.low == pytest.approx(0.3 - T_2 * 0.006 / math.sqrt(2), rel=1e-6)
    nothing = known(share_effect(exact(0, 0), exact(0, 0), NOISE))
    assert (nothing.low, nothing.high) == (0, 0)


def test_bounded_figures_widen_the_interval() -> None:
    bounded = [Sample(0.1, 0.3, 0.2)] * 2
    effect = known(share_effect(exact(0, 0), bounded, NOISE))
    reach = T_2 * 0.02 * 0.2 / math.sqrt(2)
    assert effect.low == pytest.approx(0.1 - reach)
    assert effect.high == pytest.approx(0.3 + reach)


def test_p_value_matches_the_bound() -> None:
    effect = known(ratio_effect(exact(1.0, 1.1), exact(1.6, 1.7), NOISE))
    limit = effect.low - 1
    assert effect.p_rose(limit) == pytest.approx(0.05, rel=1e-6)


def test_benjamini_hochberg_by_hand() -> None:
    # sorted 0.01, 0.02, 0.03, 0.5: times 4/1, 4/2, 4/3, 4/4 -> 0.04, 0.04, 0.04, 0.5
    assert adjusted([0.03, 0.5, 0.01, 0.02]) == pytest.approx([0.04, 0.5, 0.04, 0.04])
    assert adjusted([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_benjamini_hochberg_is_what_scipy_gives(p_values: list[float]) -> None:
    theirs = stats.false_discovery_control(p_values, method="bh")
    assert adjusted(p_values) == pytest.approx(list(theirs), rel=1e-12, abs=1e-300)


def test_repeats_to_settle_by_hand() -> None:
    # ratio 0.9, limit 0.95: gap ln(0.95/0.9) = 0.0540672; sd 0.02
    # n=2: 2.920 * 0.02 * 1 = 0.0584 > gap; n=3: 2.1318 * 0.02 * 0.8165 = 0.0348 < gap
    effect = known(ratio_effect(exact(1.0, 1.0), exact(0.9, 0.9), NOISE))
    assert effect.repeats_to_settle(0.95) == 3
    assert effect.repeats_to_settle(effect.estimate) is None


def test_resampling_of_runs_is_shown_from_five_on() -> None:
    few = known(ratio_effect(exact(1, 1.1, 1, 1.1), exact(2, 2.1, 2, 2.1), NOISE))
    many = known(ratio_effect(exact(*[1, 1.1] * 3), exact(*[2, 2.1] * 3), NOISE))
    assert "permutation" not in few.method
    assert "permutation p" in many.method
    assert "bootstrap" in many.method


def test_a_value_of_zero_has_no_ratio() -> None:
    assert ratio_effect(exact(0, 1), exact(1, 1), NOISE) is None


def test_block_sums_against_a_plain_loop() -> None:
    offsets = [3, 11, 12, 40, 41, 77, 99]
    amounts = [1.0, 2.0, 1.0, 5.0, 1.0, 3.0, 2.0]
    starts = np.random.default_rng(SEED).random((RESAMPLES, BLOCKS))
    sums = []
    for row in starts:
        total = 0.0
        for start in row:
            for offset, amount in zip(offsets, amounts, strict=True):
                if (offset / 100 - start) % 1.0 < 1 / BLOCKS:
                    total += amount
        sums.append(max(total, 0.5))
    found = sum_log_sd(offsets, amounts, 100)
    assert found == pytest.approx(float(np.log(sums).std(ddof=1)), rel=1e-9)


def test_block_medians_against_a_plain_loop() -> None:
    offsets, values = [3, 11, 12, 40, 41, 77, 99], [4.0, 2.0, 9.0, 5.0, 1.0, 3.0, 6.0]
    starts = np.random.default_rng(SEED).random((RESAMPLES, BLOCKS))
    medians = []
    for row in starts:
        drawn = sorted(
            value
            for start in row
            for offset, value in zip(offsets, values, strict=True)
            if (offset / 100 - start) % 1.0 < 1 / BLOCKS
        )
        if drawn:
            medians.append(drawn[(len(drawn) - 1) // 2])
    found = median_log_sd(offsets, values, 100)
    assert found == pytest.approx(float(np.log(medians).std(ddof=1)), rel=1e-9)


def test_nothing_in_the_window_has_no_variation() -> None:
    assert sum_log_sd([5, 6], [0.0, 0.0], 10) is None
    assert sum_log_sd([50], [1.0], 10) is None
    assert median_log_sd([], [], 10) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 50)), min_size=3), st.randoms())
def test_order_and_unit_of_rows_change_nothing(rows: list[tuple[int, int]], chance: object) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    for measure in (sum_log_sd, median_log_sd):
        plain = measure([o for o, _ in rows], [float(a) for _, a in rows], 1000)
        other = measure([o * 1000 for o, _ in shuffled], [float(a) for _, a in shuffled], 10**6)
        assert plain == other


@settings(deadline=None)
@given(
    st.lists(st.floats(0.1, 10), min_size=1, max_size=4),
    st.lists(st.floats(0.1, 10), min_size=1, max_size=4),
    st.floats(0.001, 1000),
)
def test_unit_and_order_of_runs_change_no_ratio(
    base: list[float], cand: list[float], unit: float
) -> None:
    plain = known(ratio_effect(exact(*base), exact(*cand), NOISE))
    other = known(
        ratio_effect(exact(*(unit * b for b in base[::-1])), exact(*(unit * c for c in cand[::-1])),
                     NOISE)
    )  # fmt: skip
    assert other.low == pytest.approx(plain.low, rel=1e-6)
    assert other.high == pytest.approx(plain.high, rel=1e-6)
    assert plain.low <= plain.estimate <= plain.high
