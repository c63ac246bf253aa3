"""Telemetry outside the range of its metric, or in another unit: missing and counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources.gpu_reading import problems_of, read_items, rows_of

from trueput.source_api import Source
from trueput.sources import amd_smi_csv, dcgmi_dmon, gpu_prometheus, nvidia_smi_csv, nvidia_smi_text
from trueput.telemetry import RANGES, UNIT_OF, Samples, is_possible


@dataclass(frozen=True)
class Case:
    """A file, the values that it gives per metric, and the code that counts the others."""

    source: Source
    text: str
    values: dict[str, list[float | None]]
    problem: dict[str, int]


CASES = {
    "smi_headings_in_other_units": Case(
        nvidia_smi_csv.SOURCE,
        "index, utilization.gpu [W], power.draw [%], memory.used [MiB]\n0, 50 W, 10 %, 4 MiB\n",
        {"gpu_util": [None], "power": [None], "memory_used": [4.0 * 2**20]},
        {"SMICSV010": 2},
    ),
    "smi_out_of_range": Case(
        nvidia_smi_csv.SOURCE,
        "index, utilization.gpu [%], power.draw [W], memory.used [MiB], clocks.current.sm [MHz]\n"
        "0, 50 %, -5 W, 99999999999999999999 MiB, 1500 MHz\n0, 250 %, 0 W, 0 MiB, -1 MHz\n"
        "0, 100 %, 5 W, 1 MiB, 0 MHz\n",
        {"gpu_util": [0.5, None, 1.0], "power": [None, 0.0, 5.0],
         "memory_used": [None, 0.0, 2.0**20], "sm_clock": [1500.0, None, 0.0]},
        {"SMICSV010": 4},
    ),
    "dmon": Case(
        nvidia_smi_text.SOURCE,
        "# gpu    pwr     sm\n# Idx      W      %\n    0     -3    101\n    0     30    100\n",
        {"power": [None, 30.0], "gpu_util": [None, 1.0]},
        {"SMITEXT009": 2},
    ),
    "dcgmi": Case(
        dcgmi_dmon.SOURCE,
        "#Entity   GRACT  SMACT  DRAMA\nID\nGPU 0   1.5   -1   0.2\nGPU-I 3   1.5   0   1\n",
        {"engine_active": [None], "sm_active": [None], "dram_active": [0.2],
         "engine_active/gi3": [None], "sm_active/gi3": [0.0], "dram_active/gi3": [1.0]},
        {"DCGMI008": 3},
    ),
    "exporter": Case(
        gpu_prometheus.SOURCE,
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0"} 1.7\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 100\n'
        'DCGM_FI_DEV_POWER_USAGE{gpu="0"} -2\n',
        {"engine_active": [None], "gpu_util": [1.0], "power": [None]},
        {"GPUPROM012": 2},
    ),
    "amd": Case(
        amd_smi_csv.SOURCE,
        "gpu,gfx_usage,power_usage,fb_total\n0,98,-1,64 MiB\n1,120 %,5,2 W\n",
        {"gpu_util": [0.98, None], "power": [None, 5.0], "memory_total": [64.0 * 2**20, None]},
        {"AMDSMI007": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_cannot_be_is_missing_and_counted(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_text(case.text)
    items = read_items(case.source, path)
    found: dict[str, list[float | None]] = {}
    for row in rows_of(items)["gpu_samples"]:
        found.setdefault(row["metric"], []).append(row["value"])
    assert {name: values for name, values in found.items() if name in case.values} == case.values
    (code,) = case.problem
    assert {code: problems_of(items).get(code)} == case.problem


def test_every_metric_has_a_range() -> None:
    assert set(UNIT_OF.values()) <= set(RANGES)
    assert is_possible("process_sm_util", 1.01)  # shares of several processes, each rounded
    assert not is_possible("process_sm_util", -0.01)


@given(st.sampled_from(sorted(UNIT_OF)), st.floats(allow_nan=False))
def test_a_stored_value_is_possible_or_missing(metric: str, value: float) -> None:
    samples = Samples()
    samples.add(0, None, metric, value)
    (batch,) = samples.take()
    assert isinstance(batch.rows, pa.Table)
    (row,) = batch.rows.to_pylist()
    assert row["value"] == (value if is_possible(metric, value) else None)
    assert samples.refused == (row["value"] is None)
