"""Conservation over profiles as tools write them: every form that the simulator has, every fixture.

Each file stands alone, as one run: without requests, without the engine's log, without the other
ranks. That is where pieces fall out of joins that hold where everything was recorded.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixture_folder import fixture_folder
from simulator import SCENARIOS, simulate, write_run
from simulator.files import PROFILES

import trueput
from trueput.verbs.opening import open_runs

WINDOWS = ("all", "fixed:0s..1ms", "fixed:3ms..20ms", "fixed:100s..101s")
FOLDERS = ("hta", "jax_toolbox", "nsys_ai", "rocprofiler_sdk", "tracelens")
CHECKS = ("check_ledger_sums", "check_busy_within_window", "check_gpu_busy", "check_gpu_op_totals")


def assert_conserved(store: Path, window: str) -> None:
    """Every check of GPU time is empty, and no cell has a time outside its bounds."""
    reading = trueput.Reading(store=store, window=window)
    with open_runs(None, reading) as warehouse:
        for check in CHECKS:
            assert warehouse.view(check) == [], check
        outside = "SELECT * FROM gpu_ledger WHERE time_ns NOT BETWEEN time_ns_low AND time_ns_high"
        assert warehouse.ask(outside).rows == []


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one simulated run in every form of profile: with its logs, and the files alone."""
    folder = tmp_path_factory.mktemp("forms")
    run = simulate(SCENARIOS["tiny"], seed=1)
    for profile in PROFILES:
        whole = folder / "runs" / profile
        write_run(run, whole, profiles=[profile], with_telemetry=False, compresslevel=1)
        for at, path in enumerate(sorted([*whole.glob("*.sqlite"), *whole.rglob("*.pt.trace*")])):
            alone = folder / "runs" / f"{profile}_{at}_alone"
            alone.mkdir()
            shutil.copy(path, alone)
    trueput.ingest([folder / "runs"], store=folder / "store")
    return folder / "store"


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("window", WINDOWS)
def test_every_form_of_the_simulator_conserves_time(simulated: Path, window: str) -> None:
    assert_conserved(simulated, window)


def test_every_form_of_the_simulator_has_a_ledger(simulated: Path) -> None:
    found = trueput.sql(
        "SELECT DISTINCT run_id FROM gpu_ledger WHERE work = 'idle' AND basis <> 'reported'",
        trueput.Reading(store=simulated),
    ).rows
    # Kineto writes one file per rank, and there are two
    alone = {"kineto_0_alone", "kineto_1_alone"} | {
        f"{p}_0_alone" for p in PROFILES if p != "kineto"
    }
    assert {name for (name,) in found} == {*PROFILES, *alone}


def test_the_clocks_of_every_form_of_the_simulator_are_known(simulated: Path) -> None:
    """run.toml has the time zone and the anchors of the client, each profile says when it began."""
    found = trueput.sql(
        "SELECT run_id, best_basis FROM evidence WHERE question = 'clocks on one scale'",
        trueput.Reading(store=simulated),
    ).rows
    assert {basis for name, basis in found if name in PROFILES} == {"measured"}
    assert {name for name, _ in found} >= set(PROFILES)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of every recorded profile, each file a run of its own."""
    folder = tmp_path_factory.mktemp("recorded")
    for name in FOLDERS:
        for path in sorted(p for p in (fixture_folder("gpu") / name).rglob("*") if p.is_file()):
            alone = folder / "runs" / f"{name}__{path.name.replace('.', '_')}"
            alone.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, alone)
    trueput.ingest([folder / "runs"], store=folder / "store")
    return folder / "store"


@pytest.mark.parametrize("window", WINDOWS)
def test_every_recorded_profile_conserves_time(recorded: Path, window: str) -> None:
    assert_conserved(recorded, window)


def test_every_recorded_profile_with_operations_has_a_ledger(recorded: Path) -> None:
    reading = trueput.Reading(store=recorded)
    ran = trueput.sql("SELECT DISTINCT run_id FROM gpu_ops ORDER BY 1", reading).rows
    told = trueput.sql("SELECT DISTINCT run_id FROM gpu_ledger ORDER BY 1", reading).rows
    assert len(ran) > 10
    assert told == ran
