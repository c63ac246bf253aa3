"""Text of dcgmi dmon -> samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.gpu_reading import (
    cases,
    check_bytes,
    check_case,
    check_cut_archive,
    fixture,
    input_of,
    problems_of,
    read_items,
    rows_of,
)

from trueput.sources.dcgmi_dmon import SOURCE

CASES = cases(__file__)
BYTES = [input_of(case).read_bytes() for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    check_case(SOURCE, case)


@given(st.binary(max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes(data: bytes) -> None:
    check_bytes(SOURCE, data)
    check_bytes(SOURCE, b"#Entity   GRACT        TENSO\nID\n" + data)


@given(st.sampled_from(BYTES), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_any_damage(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data)))
    middle = choice.draw(st.binary(max_size=6))
    check_bytes(SOURCE, data[:at] + middle + data[at + len(middle) :])
    check_bytes(SOURCE, data[:at])


@pytest.mark.parametrize(
    ("metric", "mean"),
    [("engine_active", 0.794), ("tensor_active", 0.7006), ("dram_active", 0.2402)],
)
def test_recorded_text(metric: str, mean: float) -> None:
    items = read_items(SOURCE, fixture("virtualclient/dcgmi_dmon.txt"))
    values = [r["value"] for r in rows_of(items)["gpu_samples"] if r["metric"] == metric]
    assert len(values) == 15
    assert round(sum(values) / len(values), 4) == mean
    assert problems_of(items) == {"DCGMI006": 1}


def test_a_damaged_archive_is_partial() -> None:
    rows_before = b"".join(b"GPU %d  %d.5\n" % (n % 8, n * 7919 % 700) for n in range(5000))
    codes, found = check_cut_archive(SOURCE, b"#Entity   POWER\nID\n" + rows_before, "dcgmi.txt")
    assert "DCGMI004" in codes
    assert found["gpu_samples"]


def test_a_file_without_a_header_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    assert problems_of(read_items(SOURCE, path)) == {"DCGMI005": 1}
