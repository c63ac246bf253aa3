"""CSV of amd-smi -> samples."""

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

from trueput.sources.amd_smi_csv import SOURCE

CASES = cases(__file__)
BYTES = [input_of(case).read_bytes() for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    check_case(SOURCE, case)


@given(st.binary(max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes(data: bytes) -> None:
    check_bytes(SOURCE, data)
    check_bytes(SOURCE, b"gpu,gfx,socket_power\n" + data)


@given(st.sampled_from(BYTES), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_any_damage(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data)))
    middle = choice.draw(st.binary(max_size=6))
    check_bytes(SOURCE, data[:at] + middle + data[at + len(middle) :])
    check_bytes(SOURCE, data[:at])


def test_recorded_file() -> None:
    path = fixture("virtualclient/amd_smi_csv.txt")
    assert SOURCE.sniff(path.name, path.read_bytes()).score >= 0.9
    items = read_items(SOURCE, path)
    found = {row["metric"]: row["value"] for row in rows_of(items)["gpu_samples"]}
    assert found == {
        "gpu_util": 0.98,
        "mem_util": 0.01,
        "memory_total": 14928.0 * 2**20,
        "memory_used": 363.0 * 2**20,
        "sm_clock": None,
        "mem_clock": None,
    }
    assert problems_of(items) == {"AMDSMI006": 1}


def test_a_damaged_archive_is_partial() -> None:
    rows_before = b"".join(b"%d,5,%d\n" % (n % 8, n * 7919 % 700) for n in range(5000))
    codes, found = check_cut_archive(SOURCE, b"gpu,gfx,socket_power\n" + rows_before, "amd.csv")
    assert "AMDSMI004" in codes
    assert found["gpu_samples"]


def test_a_file_without_a_header_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    assert problems_of(read_items(SOURCE, path)) == {"AMDSMI005": 1}
