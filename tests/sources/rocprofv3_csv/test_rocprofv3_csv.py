"""Bytes of rocprofv3's CSV traces -> rows."""

from __future__ import annotations

import gzip
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
    rows,
    span_facts,
)

from trueput.source_api import ReadOptions
from trueput.sources.rocprofv3_csv import SOURCE

CASES = cases(__file__)
BYTES = [input_of(case).read_bytes() for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    check_case(SOURCE, case)


@given(st.binary(max_size=400))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes(data: bytes) -> None:
    check_bytes(SOURCE, data)


@given(st.sampled_from(BYTES), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_any_damage(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data)))
    middle = choice.draw(st.binary(max_size=6))
    check_bytes(SOURCE, data[:at] + middle + data[at + len(middle) :])
    check_bytes(SOURCE, data[:at])


def test_compressed_is_the_same(tmp_path: Path) -> None:
    plain = CASES[0].parent / "kernels_newer" / "908_kernel_trace.csv"
    packed = tmp_path / "908_kernel_trace.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert rows(SOURCE, packed) == rows(SOURCE, plain)


def test_counter_collections_are_not_claimed() -> None:
    head = b'"Correlation_Id","Kernel_Name","Counter_Name","Start_Timestamp","End_Timestamp"\n'
    assert SOURCE.sniff("1_counter_collection.csv", head).score == 0


def test_a_missing_column_is_said(tmp_path: Path) -> None:
    path = tmp_path / "kernel_trace.csv"
    path.write_text('"Kind","Kernel_Name","Start_Timestamp"\n"KERNEL_DISPATCH","a",1\n')
    items = read_items(SOURCE, path)
    assert problems_of(items) == {"ROCCSV001": 1}


@pytest.mark.parametrize(
    ("name", "table", "count", "total", "union"),
    [
        ("kernel_trace", "gpu_ops", 7, 795453, 299425),
        ("hip_runtime_trace", "gpu_launches", 8, 972177644, 972177644),
        ("marker_api_trace", "gpu_ranges", 5, 4962639, 1813674),
        ("memory_copy_trace", "gpu_ops", 2, 1145680, 1145680),
    ],
)
def test_recorded_files(name: str, table: str, count: int, total: int, union: int) -> None:
    found = span_facts(rows(SOURCE, fixture(f"rocprofiler_sdk/{name}.csv"))[table])
    assert (found["rows"], found["sum_ns"], found["union_ns"]) == (count, total, union)


@pytest.mark.parametrize(
    ("relative_path", "key"),
    [
        ("908_kernel_trace.csv", "p908:2"),
        ("host/908_kernel_trace.csv.gz", "p908:2"),
        ("kernel_trace.csv", "p?:2"),
        ("rank1/kernel_trace.csv", "p?rank1:2"),
        ("out_kernel_trace.csv", "p?out:2"),
        ("rank1/out_kernel_trace.csv", "p?rank1/out:2"),
    ],
)
def test_devices_of_several_processes_stay_apart(relative_path: str, key: str) -> None:
    path = CASES[0].parent / "kernels_newer" / "908_kernel_trace.csv"
    found = rows(SOURCE, path, ReadOptions(relative_path=relative_path))
    assert found["gpu_ops"][0]["device_key"] == key


def test_a_damaged_archive_is_partial() -> None:
    header, row = (
        (CASES[0].parent / "kernels_newer" / "908_kernel_trace.csv").read_text().split("\n")[:2]
    )
    data = "\n".join([header, *(row.replace("1000,", f"{n}000,") for n in range(1, 3000))])
    codes, found = check_cut_archive(SOURCE, data.encode(), "908_kernel_trace.csv")
    assert "ROCCSV004" in codes
    assert found["gpu_captures"][0]["status"] == "partial"
