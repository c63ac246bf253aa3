"""Profiles that hold nearly the same operations: by a sample of each device's operations."""

from __future__ import annotations

import numpy as np
import pytest

from trueput.attribution.gpu.time.near_copies import SAMPLE, Sample, Sampled, alike, share_in

RANDOM = np.random.default_rng(5)
STARTS = np.cumsum(RANDOM.integers(1_000, 50_000, 100_000))
LENGTHS = RANDOM.integers(500, 40_000, STARTS.size)
CALLS = np.arange(STARTS.size)


def sample(which: slice | np.ndarray, call: int = 0, pieces: int = 3) -> Sample:
    """A sample of some of the operations, added in pieces."""
    found = Sample()
    rows = zip(*(np.array_split(c[which], pieces) for c in (STARTS, LENGTHS, CALLS)), strict=True)
    for start, length, number in rows:
        found.add(start, length, number + call)
    return found


def test_a_sample_holds_a_share_of_the_operations_whatever_their_order() -> None:
    whole, backwards = sample(slice(None)), sample(slice(None, None, -1), pieces=7)
    assert SAMPLE <= whole.rows.shape[1] <= 2 * SAMPLE
    limit = min(whole.limit, backwards.limit)
    one, other = (np.sort(s.told(limit, with_calls=True)) for s in (whole, backwards))
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("kept", [1.0, 0.9, 0.5, 0.0])
def test_the_share_of_a_sample_is_that_of_the_operations(kept: float) -> None:
    """Of 100,000 operations so many are in the other file; 4,096 tell it to three hundredths."""
    which = RANDOM.random(STARTS.size) < kept
    share = share_in(sample(slice(None)), sample(which), with_calls=True)
    assert share == pytest.approx(kept, abs=0.03)


def files(**devices: dict[str, Sample]) -> list[Sampled]:
    return [Sampled(name, "kineto_json", samples) for name, samples in devices.items()]


def test_a_merged_trace_counts_once_with_those_of_its_ranks() -> None:
    first, second = slice(0, 40_000), slice(40_000, 90_000)
    found = alike(
        files(
            merged={"a": sample(first), "b": sample(second)},
            rank0={"c": sample(first)},
            rank1={"d": sample(second)},
        )
    )
    assert {(f.source, f.others, f.is_copy) for f in found} == {
        ("rank0", ("merged",), True), ("rank1", ("merged",), True),
    }  # fmt: skip


def test_two_copies_do_not_vouch_for_each_other() -> None:
    found = alike(files(one={"a": sample(slice(None))}, other={"b": sample(slice(None))}))
    assert [(f.source, f.is_copy) for f in found] == [("other", True)]


def test_files_that_overlap_are_told_and_stay() -> None:
    """30 of each 60 thousand operations stand in the other file."""
    found = alike(
        files(one={"a": sample(slice(0, 60_000))}, other={"b": sample(slice(30_000, 90_000))})
    )
    assert {(f.source, f.is_copy) for f in found} == {("one", False), ("other", False)}
    assert [f.share for f in found] == pytest.approx([0.5, 0.5], abs=0.03)


@pytest.mark.parametrize("call", [0, 1])
def test_ranks_in_step_are_told_apart_by_their_calls(call: int) -> None:
    found = alike(files(one={"a": sample(slice(None))}, other={"b": sample(slice(None), call)}))
    assert len(found) == (call == 0)


def test_one_device_under_one_name_is_counted_once_anyway() -> None:
    found = alike(files(one={"a": sample(slice(None))}, other={"a": sample(slice(None))}))
    assert found == []


def test_few_operations_tell_nothing() -> None:
    found = alike(files(one={"a": sample(slice(0, 19))}, other={"b": sample(slice(0, 19))}))
    assert found == []
