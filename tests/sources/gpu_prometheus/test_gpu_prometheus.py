"""Scrapes of GPU exporters -> samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.gpu_reading import (
    MTIME_NS,
    cases,
    check_bytes,
    check_case,
    check_cut_archive,
    fixture,
    input_of,
    outcome,
    problems_of,
    read_items,
    rows,
    rows_of,
)

from trueput.ingest.folders import claim
from trueput.source_api import HEAD_BYTES, Clock, ReadOptions
from trueput.sources.gpu_prometheus import SOURCE

CASES = {case.name: case for case in cases(__file__)}
BYTES = [input_of(case).read_bytes() for case in CASES.values()]


@pytest.mark.parametrize("name", [name for name in CASES if name != "with_engine"])
def test_case(name: str) -> None:
    check_case(SOURCE, CASES[name])


def test_a_file_with_engine_metrics_is_the_engine_reader_s() -> None:
    path = input_of(CASES["with_engine"])
    answer = claim(path)
    assert answer.source is not None
    assert answer.source.name == "prometheus_text"
    assert answer.rival is None
    found = outcome(SOURCE, path, ReadOptions(mtime_ns=MTIME_NS))
    assert "GPUPROM009 warning line 3 x1" in found["problems"]


@pytest.mark.parametrize("name", ["dcgm_marked", "smi_exporter", "mig"])
def test_other_files_are_claimed_here(name: str) -> None:
    answer = claim(input_of(CASES[name]))
    assert answer.source == SOURCE
    assert answer.rival is None


@given(st.binary(max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes(data: bytes) -> None:
    check_bytes(SOURCE, data)
    check_bytes(SOURCE, b'DCGM_FI_DEV_SM_CLOCK{gpu="0"} ' + data)


@given(st.sampled_from(BYTES), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_any_damage(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data)))
    middle = choice.draw(st.binary(max_size=6))
    check_bytes(SOURCE, data[:at] + middle + data[at + len(middle) :])
    check_bytes(SOURCE, data[:at])


@pytest.mark.parametrize("name", ["dcgm_marked", "dcgm_new_names", "smi_exporter"])
def test_nothing_private_is_kept(name: str) -> None:
    path = input_of(CASES[name])
    assert "SECRET" in path.read_text()
    assert "SECRET" not in repr(read_items(SOURCE, path)) + repr(rows(SOURCE, path))


def sample_lines(path: Path) -> list[str]:
    """The lines of a scrape that are samples."""
    return [line for line in path.read_text().splitlines() if line and line[0] != "#"]


def of(found: list[dict[str, Any]], metric: str) -> list[tuple[int | None, float | None]]:
    """Device and value of one metric, in order."""
    return [(row["device"], row["value"]) for row in found if row["metric"] == metric]


def test_recorded_t4() -> None:
    path = fixture("dcgm_exporter/datadog_t4.prom")
    assert len(sample_lines(path)) == 23
    assert SOURCE.sniff(path.name, path.read_bytes()[:HEAD_BYTES]).score >= 0.9
    items = read_items(SOURCE, path)
    found = rows_of(items)
    assert len({row["uuid"] for row in found["gpu_devices"]}) == 2
    samples = found["gpu_samples"]
    assert of(samples, "power") == [(0, 8.969)]
    assert of(samples, "energy") == [(0, 128996.013)]
    assert of(samples, "gpu_util") == [(0, 0.0)]
    assert of(samples, "memory_total") != []
    assert {row["device"] for row in samples} == {0, 1}
    active = ("engine_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active")
    assert not [row for row in samples if row["metric"] in active]
    # The file's last line has no end, so that its value may lack digits and is left out.
    assert problems_of(items) == {"GPUPROM003": 1, "GPUPROM005": 1, "GPUPROM010": 1}


def test_recorded_readme_sample() -> None:
    path = fixture("dcgm_exporter/readme_sample.prom")
    assert len(sample_lines(path)) == 9
    items = read_items(SOURCE, path)
    samples = rows_of(items)["gpu_samples"]
    assert of(samples, "sm_clock") == [(0, 139)] * 3
    assert of(samples, "mem_clock") == [(0, 405)] * 3
    assert of(samples, "memory_temperature") == [(0, None)] * 3
    assert [row["at_ns"] for row in samples] == [None] * 6 + [MTIME_NS] * 3
    assert problems_of(items) == {"GPUPROM005": 1, "GPUPROM006": 2}


def test_recorded_smi_exporter() -> None:
    path = fixture("nvidia_smi/nvidia_gpu_exporter_h100_mig_load.prom")
    assert len(sample_lines(path)) == 128
    items = read_items(SOURCE, path)
    samples = rows_of(items)["gpu_samples"]
    assert of(samples, "power") == [(0, 433.78)]
    assert of(samples, "power_instant") == [(0, 447.35)]
    assert of(samples, "sm_clock") == [(0, 1980)]
    assert of(samples, "memory_used") == [(0, 11125 * 2**20)]
    assert of(samples, "mig_mode") == [(0, 1)]
    assert of(samples, "gpu_util") == []
    assert of(samples, "processes") == [(0, 3)]
    assert of(samples, "process_memory") == [(0, 2407530496 + 1333788672 + 7847542784)]
    assert problems_of(items) == {"GPUPROM005": 1}
    assert sum(isinstance(item, Clock) for item in items) == 1


def test_a_damaged_archive_is_partial() -> None:
    rows_before = b"".join(
        b'DCGM_FI_DEV_SM_CLOCK{gpu="%d"} %d\n' % (n, n * 7919 % 2000) for n in range(5000)
    )
    codes, found = check_cut_archive(SOURCE, b"" + rows_before, "gpu.prom")
    assert "GPUPROM004" in codes
    assert found["gpu_samples"]


def test_a_file_without_a_header_is_said(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    assert problems_of(read_items(SOURCE, path)) == {"GPUPROM011": 1}
