"""CSV logs of nvidia-smi -> samples."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
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

from trueput.ingest.folders import find_runs
from trueput.ingest.run import ingest_run
from trueput.ingest.store import Store
from trueput.source_api import HEAD_BYTES, ReadOptions
from trueput.sources.nvidia_smi_csv import SOURCE
from trueput.sources.nvidia_smi_csv.columns import split

CASES = cases(__file__)
BYTES = [input_of(case).read_bytes() for case in CASES]
PLATO = ["timestamp", "utilization.gpu", "utilization.memory", "memory.used", "memory.free"]
PLATO += ["temperature.gpu", "power.draw"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    check_case(SOURCE, case)


@given(st.binary(max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes(data: bytes) -> None:
    check_bytes(SOURCE, data)
    check_bytes(SOURCE, b"timestamp, index, utilization.gpu [%], power.draw [W]\n" + data)


@given(st.sampled_from(BYTES), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_any_damage(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data)))
    middle = choice.draw(st.binary(max_size=6))
    check_bytes(SOURCE, data[:at] + middle + data[at + len(middle) :])
    check_bytes(SOURCE, data[:at])


def test_no_process_name_is_kept() -> None:
    case = next(case for case in CASES if case.name == "apps")
    assert "SECRET" not in repr(read_items(SOURCE, input_of(case))) + repr(
        rows(SOURCE, input_of(case))
    )


def test_other_tables_are_not_claimed() -> None:
    assert SOURCE.sniff("a.csv", b"timestamp,index,uuid,name,pid\n1,2,3,4,5\n").score == 0
    assert SOURCE.sniff("a.csv", b"2026/04/25 16:06:06.780, started\n").score == 0


def of(found: list[dict[str, Any]], metric: str) -> list[Any]:
    """The values of one metric, in order."""
    return [row["value"] for row in found if row["metric"] == metric]


def test_recorded_headerless_log() -> None:
    path = fixture("plato/gpu_log_headerless.csv")
    toml = {"columns": {"file": path.name, "telemetry": PLATO}}
    items = read_items(SOURCE, path, ReadOptions(run_toml=toml, relative_path=path.name))
    samples = rows_of(items)["gpu_samples"]
    power = [(r["at_ns"], r["value"]) for r in samples if r["metric"] == "power"]
    assert len(power) == 1923
    assert power[-1][0] - power[0][0] == 9_636_953_000_000
    assert round(sum(value for _, value in power) / len(power), 4) == 16.5209
    steps = list(pairwise(power))
    energy = sum((b[0] - a[0]) / 1e9 * (a[1] + b[1]) / 2 for a, b in steps)
    assert round(energy, 2) == 159221.03
    assert max(b[0] - a[0] for a, b in steps) == 5_723_000_000
    used = of(samples, "gpu_util")
    assert sum(value > 0 for value in used) == 112
    assert round(100 * sum(used) / len(used), 4) == 1.4306
    assert problems_of(items) == {"SMICSV007": 1}


def test_a_headerless_log_alone_is_claimed_and_said() -> None:
    path = fixture("plato/gpu_log_headerless.csv")
    assert SOURCE.sniff(path.name, path.read_bytes()[:HEAD_BYTES]).score >= 0.5
    items = read_items(SOURCE, path)
    assert problems_of(items) == {"SMICSV001": 1923}
    assert rows_of(items) == {}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("h100_idle", (0.0, 69.85, 69.85, 69.62, 0, 0)),
        ("h100_load", (1.0, 631.95, 631.95, 625.68, 19818 * 2**20, 0)),
        ("h100_mig_idle", (None, 71.15, 71.15, 70.72, 59 * 2**20, 1)),
        ("h100_mig_load", (None, 433.78, 433.78, 447.35, 11125 * 2**20, 1)),
    ],
)
def test_recorded_queries(name: str, wanted: tuple[float | None, ...]) -> None:
    path = fixture(f"nvidia_smi/{name}_query-gpu.csv")
    lines = path.read_text().splitlines()
    assert [len(split(line)) for line in lines] == [212, 212]
    items = read_items(SOURCE, path)
    samples = rows_of(items)["gpu_samples"]
    names = ("gpu_util", "power", "power_average", "power_instant", "memory_used", "mig_mode")
    assert [of(samples, name) for name in names] == [[value] for value in wanted]
    assert {row["device"] for row in samples} == {0}
    assert problems_of(items) == {}


def test_recorded_eight_gpus() -> None:
    path = fixture("virtualclient/query-gpu-8xH100.csv")
    assert {len(split(line)) for line in path.read_text().splitlines() if line} == {39}
    items = read_items(SOURCE, path)
    samples = rows_of(items)["gpu_samples"]
    assert of(samples, "gpu_util") == [0.0] * 8
    assert of(samples, "memory_used") == [0.0] * 8
    assert of(samples, "power_average") == [70.89, 71.71, 70.78, 72.17] * 2
    assert of(samples, "power_instant") == [70.68, 72.05, 70.97, 71.44] * 2
    assert [r["device"] for r in samples if r["metric"] == "gpu_util"] == list(range(8))
    assert problems_of(items) == {}


@pytest.mark.parametrize(("name", "processes"), [("h100_idle", []), ("h100_load", [3.0])])
def test_recorded_compute_applications(name: str, processes: list[float]) -> None:
    path = fixture(f"nvidia_smi/{name}_query-compute-apps.csv")
    assert len(split(path.read_text().splitlines()[0])) == 8
    items = read_items(SOURCE, path)
    samples = rows_of(items).get("gpu_samples", [])
    assert of(samples, "processes") == processes
    assert of(samples, "process_memory") == [19798 * 2**20 for _ in processes]
    assert problems_of(items) == ({"SMICSV008": 1} if processes else {})


def test_a_damaged_archive_is_partial() -> None:
    rows_before = b"".join(b"%d, %d.5 W\n" % (n % 8, n * 7919 % 700) for n in range(5000))
    codes, found = check_cut_archive(SOURCE, b"index, power.draw [W]\n" + rows_before, "gpu.csv")
    assert "SMICSV006" in codes
    assert found["gpu_samples"]


def test_rows_of_another_length_are_said(tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text("index, power.draw [W]\n0, 5 W\n0, 5 W, 6 W\n")
    assert problems_of(read_items(SOURCE, path)) == {"SMICSV003": 1}


def test_ingest_gives_it_the_columns_of_run_toml(tmp_path: Path) -> None:
    run = tmp_path / "a"
    run.mkdir()
    (run / "log.txt").write_text("2026/04/25 16:06:06.780, 7\n2026/04/25 16:06:07.780, 9\n")
    (run / "run.toml").write_text(
        'timezone = "+02:00"\n[columns]\nfile = "log.txt"\n'
        'telemetry = ["timestamp", "utilization.gpu [%]"]\n'
    )
    [folder] = find_runs(run)
    store = Store(tmp_path / "store")
    assert ingest_run(folder, folder.run_id, store).rows["gpu_samples"] == 2
    [part] = (tmp_path / "store" / "gpu_samples").rglob("*.parquet")
    found = pq.read_table(part).to_pylist()
    assert [row["value"] for row in found] == [0.07, 0.09]
    assert found[0]["at_ns"] == 1_777_125_966_780_000_000
