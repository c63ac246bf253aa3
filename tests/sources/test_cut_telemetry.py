"""Telemetry that is cut at any byte invents nothing: a number that lacks digits is not read."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sources.gpu_reading import problems_of, read_items, rows_of

from trueput.source_api import Source
from trueput.sources import amd_smi_csv, dcgmi_dmon, gpu_prometheus, nvidia_smi_csv, nvidia_smi_text

UUIDS = [f"GPU-{n}2345678-1234-1234-1234-123456789abc" for n in range(2)]
FILES: dict[str, tuple[Source, str]] = {
    "dcgmi": (
        dcgmi_dmon.SOURCE,
        "#Entity   GRACT  TENSO  DRAMA\nID\nGPU 10   0.998  0.885  0.305\nGPU 10  0.25  0.5  0.299",
    ),
    "dmon": (
        nvidia_smi_text.SOURCE,
        "#Date       Time      gpu    pwr   pclk\n#YYYYMMDD   HH:MM:SS  Idx      W    MHz\n"
        " 20260101   12:00:00    0    633   1980\n 20260101   12:00:01   11    634   1755",
    ),
    "smi": (
        nvidia_smi_csv.SOURCE,
        "timestamp, index, utilization.gpu [%], power.draw [W]\n"
        "2026/01/01 12:00:00.000, 0, 90, 512.34\n2026/01/01 12:00:01.000, 10, 80, 498.76",
    ),
    "smi with units": (
        nvidia_smi_csv.SOURCE,
        "timestamp, index, utilization.gpu [%], memory.used [MiB]\n"
        "2026/01/01 12:00:00.000, 0, 90 %, 512 MiB\n2026/01/01 12:00:01.000, 10, 80 %, 4976 MiB",
    ),
    "smi, masks last": (
        nvidia_smi_csv.SOURCE,
        "timestamp, index, power.draw [W], clocks_event_reasons.active\n"
        "2026/01/01 12:00:00.000, 0, 90 W, 0x0000000000000024",
    ),
    "smi, level last": (
        nvidia_smi_csv.SOURCE, "index, power.draw [W], pstate\n0, 90 W, P0\n0, 91 W, P12",
    ),
    "smi, index last": (
        nvidia_smi_csv.SOURCE, "power.draw [W], index\n90 W, 10\n91 W, 11",
    ),
    "smi, uuid last": (
        nvidia_smi_csv.SOURCE,
        f"power.draw [W], uuid\n90 W, {UUIDS[0]}\n91 W, {UUIDS[1]}\n92 W, {UUIDS[0]}",
    ),
    "smi, time last": (
        nvidia_smi_csv.SOURCE,
        "index, power.draw [W], timestamp\n0, 90 W, 2026/01/01 12:00:00.000\n"
        "0, 91 W, 2026/01/01 12:00:01.125",
    ),
    "amd": (
        amd_smi_csv.SOURCE,
        "timestamp,gpu,power_usage,gfx_usage,fb_used\n1767268800,0,250,80,1234\n"
        "1767268801,10,251,79,5678",
    ),
    "amd, time last": (
        amd_smi_csv.SOURCE,
        "gpu,power_usage,timestamp\n0,250,1767268800\n1,251,1767268801.25",
    ),
    "exporter": (
        gpu_prometheus.SOURCE,
        '# SCRAPE 1767268800\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 100\n'
        'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 512.25\n# SCRAPE 1767268801\n'
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 95',
    ),
    "exporter, stamped": (
        gpu_prometheus.SOURCE,
        'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 100 1767268800000\n'
        'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 512.25 1767268800000',
    ),
}  # fmt: skip


def samples(source: Source, path: Path) -> Counter[tuple[Any, ...]]:
    """The values that a file gives, with device, instant and metric."""
    found = rows_of(read_items(source, path)).get("gpu_samples", [])
    return Counter(
        (row["device"], row["at_ns"], row["metric"], row["value"])
        for row in found
        if row["value"] is not None
    )


@pytest.mark.parametrize("name", FILES)
def test_no_value_is_invented(tmp_path: Path, name: str) -> None:
    source, text = FILES[name]
    path = tmp_path / "file.txt"
    path.write_text(text + "\n")
    whole = samples(source, path)
    assert whole
    for size in range(len(text) + 1):
        path.write_text(text[:size])
        found = samples(source, path)
        # the exporter's last scrape may be cut before its time: then it has the file's own
        assert {row[2:] for row in found} <= {row[2:] for row in whole}
        if source is not gpu_prometheus.SOURCE:
            assert found <= whole


@pytest.mark.parametrize(
    ("name", "code", "lost"),
    [
        pytest.param("dcgmi", "DCGMI009", 1, id="dcgmi"),
        pytest.param("dmon", "SMITEXT010", 1, id="dmon"),
        pytest.param("smi", "SMICSV011", 1, id="smi"),
        pytest.param("smi with units", "SMICSV011", 0, id="a unit ends the number"),
        pytest.param("smi, masks last", "SMICSV011", 1, id="a mask"),
        pytest.param("smi, index last", "SMICSV011", 1, id="without its device a row is none"),
        pytest.param("smi, uuid last", "SMICSV011", 0, id="a whole name of a device"),
        pytest.param("smi, time last", "SMICSV011", 0, id="a whole instant"),
        pytest.param("exporter", "GPUPROM003", 1, id="exporter"),
        pytest.param("exporter, stamped", "GPUPROM003", 0, id="an instant ends the number"),
        pytest.param("amd", "AMDSMI008", 1, id="amd"),
        pytest.param("amd, time last", "AMDSMI008", 1, id="without its instant a row is none"),
    ],
)
def test_a_whole_file_without_a_last_newline(
    tmp_path: Path, name: str, code: str, lost: int
) -> None:
    """What stands before the last number is read, and what is left out is told."""
    source, text = FILES[name]
    path = tmp_path / "file.txt"
    path.write_text(text + "\n")
    whole = samples(source, path)
    assert code not in problems_of(read_items(source, path))
    path.write_text(text)
    assert (whole - samples(source, path)).total() == lost
    assert problems_of(read_items(source, path)).get(code, 0) == lost
    path.write_bytes(gzip.compress((text + " \n").encode()))
    assert samples(source, path) == whole
