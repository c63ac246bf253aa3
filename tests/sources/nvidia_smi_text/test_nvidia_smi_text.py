"""Text of nvidia-smi dmon and pmon -> samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    rows_of,
)

from trueput.source_api import HEAD_BYTES
from trueput.sources.nvidia_smi_text import SOURCE

CASES = cases(__file__)
BYTES = [input_of(case).read_bytes() for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    check_case(SOURCE, case)


@given(st.binary(max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes(data: bytes) -> None:
    check_bytes(SOURCE, data)
    check_bytes(SOURCE, b"# gpu    pwr     sm\n# Idx      W      %\n" + data)


@given(st.sampled_from(BYTES), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_any_damage(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data)))
    middle = choice.draw(st.binary(max_size=6))
    check_bytes(SOURCE, data[:at] + middle + data[at + len(middle) :])
    check_bytes(SOURCE, data[:at])


def test_no_process_is_named() -> None:
    path = input_of(next(case for case in CASES if case.name == "pmon"))
    kept = repr(read_items(SOURCE, path)) + repr(rows(SOURCE, path))
    assert "SECRET" not in kept
    assert "11345" not in kept


def of(found: list[dict[str, Any]], metric: str) -> list[Any]:
    """The values of one metric, in order."""
    return [row["value"] for row in found if row["metric"] == metric]


@pytest.mark.parametrize(
    ("name", "power", "used"),
    [
        ("h100_idle", [69, 69, 69, 69, 69], [0.0] * 5),
        ("h100_load", [631, 634, 633, 634, 636], [1.0] * 5),
        ("h100_mig_idle", [70, 70, 70, 70, 70], [None] * 5),
        ("h100_mig_load", [438, 440, 437, 439, 439], [None] * 5),
    ],
)
def test_recorded_dmon(name: str, power: list[float], used: list[float | None]) -> None:
    path = fixture(f"nvidia_smi/{name}_dmon.txt")
    assert SOURCE.sniff(path.name, path.read_bytes()[:HEAD_BYTES]).score >= 0.9
    items = read_items(SOURCE, path)
    samples = rows_of(items)["gpu_samples"]
    assert of(samples, "power") == power
    assert of(samples, "gpu_util") == used
    assert len(samples) == 5 * 11
    assert {row["at_ns"] for row in samples} == {None}
    assert problems_of(items) == {"SMITEXT006": 1}


@pytest.mark.parametrize(
    ("name", "lines", "processes", "share"),
    [
        ("h100_idle", 5, [0] * 5, [None] * 5),
        ("h100_load", 15, [3] * 5, [0.99] * 5),
        ("h100_mig_idle", 5, [0] * 5, [None] * 5),
        ("h100_mig_load", 15, [3] * 5, [None] * 5),
    ],
)
def test_recorded_pmon(
    name: str, lines: int, processes: list[int], share: list[float | None]
) -> None:
    path = fixture(f"nvidia_smi/{name}_pmon.txt")
    assert len(path.read_text().splitlines()) == 2 + lines
    items = read_items(SOURCE, path)
    samples = rows_of(items)["gpu_samples"]
    assert of(samples, "processes") == processes
    assert of(samples, "process_sm_util") == share
    assert problems_of(items) == {"SMITEXT006": 1}


def test_a_damaged_archive_is_partial() -> None:
    rows_before = b"".join(b"   %d  %d\n" % (n % 8, n * 7919 % 700) for n in range(5000))
    codes, found = check_cut_archive(
        SOURCE, b"# gpu    pwr\n# Idx      W\n" + rows_before, "dmon.txt"
    )
    assert "SMITEXT004" in codes
    assert found["gpu_samples"]


def test_a_file_without_a_header_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    assert problems_of(read_items(SOURCE, path)) == {"SMITEXT005": 1}
