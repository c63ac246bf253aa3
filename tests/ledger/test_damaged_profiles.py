"""Recorded profiles cut short: what was lost is not idle, and what is whole stays measured."""

from __future__ import annotations

from typing import Any

import pytest
from fixture_folder import fixture_folder

import trueput

PROFILE = "nsys_ai/mfu_2gpu_before.sqlite"
OVERHEAD_NS = 4_125 + 2_005_380
"""What the profiler's own work took, by the two kinds that the table PROFILER_OVERHEAD holds."""
CUTS = {
    "whole": 1.0,
    # ends in the table of calls: every kernel is there
    "calls_cut": 0.3,
    # ends in the table of kernels
    "kernels_cut": 0.2,
}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> trueput.Reading:
    """The same profile, whole and cut, each a run."""
    folder = tmp_path_factory.mktemp("cut")
    data = (fixture_folder("gpu") / PROFILE).read_bytes()
    for name, share in CUTS.items():
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "a.sqlite").write_bytes(data[: int(len(data) * share)])
    trueput.ingest([folder / "runs"], store=folder / "store")
    return trueput.Reading(store=folder / "store")


def idle_of(reading: trueput.Reading, run: str) -> dict[str, Any]:
    (row,) = trueput.sql(
        f"SELECT * FROM gpu_ledger WHERE run_id = '{run}' AND work = 'idle'", reading
    ).dicts()
    return row


def kernels_of(reading: trueput.Reading) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for run, *rest in trueput.sql(
        "SELECT run_id, device, value, window_ns, basis FROM gpu_activity "
        "WHERE metric = 'kernel_union' ORDER BY ALL",
        reading,
    ).rows:
        found.setdefault(run, []).append(tuple(rest))
    return found


def test_what_is_lost_may_have_run_in_any_gap(reading: trueput.Reading) -> None:
    truth, cut = idle_of(reading, "whole"), idle_of(reading, "kernels_cut")
    assert truth["time_ns_high"] == truth["time_ns"]
    assert 0 < truth["time_ns"] - truth["time_ns_low"] <= OVERHEAD_NS
    assert (cut["time_ns"], cut["time_ns_low"], cut["basis"]) == (0, 0, "bounded")
    assert cut["time_ns_high"] > truth["time_ns"] > 0


def test_unions_are_at_least_what_was_seen(reading: trueput.Reading) -> None:
    found = kernels_of(reading)
    assert {row[-1] for row in found["kernels_cut"]} == {"bounded"}
    for whole, cut in zip(found["whole"], found["kernels_cut"], strict=True):
        assert cut[1] < whole[1]


def test_damage_elsewhere_leaves_the_operations_measured(reading: trueput.Reading) -> None:
    found = kernels_of(reading)
    assert {row[-1] for row in found["whole"]} == {"measured"}
    assert found["calls_cut"] == found["whole"]
    whole, cut = idle_of(reading, "whole"), idle_of(reading, "calls_cut")
    assert cut["time_ns"] == cut["time_ns_high"] > 0
    # the work of the profiler, whose process is known in both
    assert whole["time_ns"] - whole["time_ns_low"] == cut["time_ns"] - cut["time_ns_low"]
    status = "SELECT run_id, status, operations_lost FROM gpu_captures ORDER BY run_id"
    assert trueput.sql(status, reading).rows == [
        ("calls_cut", "partial", False), ("kernels_cut", "partial", True),
        ("whole", "whole", False),
    ]  # fmt: skip


def test_doctor_says_that_the_profile_gives_bounds(reading: trueput.Reading) -> None:
    told = {}
    for run in CUTS:
        (diagnosis,) = trueput.doctor(run, reading)
        (told[run],) = [r for r in diagnosis.evidence if r["question"] == "GPU activity"]
    assert {run: row["best_basis"] for run, row in told.items()} == {
        "whole": "measured", "calls_cut": "measured", "kernels_cut": "bounded",
    }  # fmt: skip
    assert "lost operations" in told["kernels_cut"]["source"]
