"""The program as a whole: what loads what, one program under two names, the library beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli.program import CHECKOUT, Program

import trueput

HEAVY = {"duckdb", "polars", "pyarrow", "altair", "scipy", "numpy", "pandas"}


def python(*arguments: str, store: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "analysis"), "COLUMNS": "80"}
    if store is not None:
        environment["TRUEPUT_STORE"] = str(store)
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, check=False, cwd=CHECKOUT, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "import trueput",
        "import sys; sys.argv = ['trueput', '--help']\n"
        "from trueput.__main__ import main\n"
        "try: main()\nexcept SystemExit as e: assert not e.code",
        "import sys; sys.argv = ['trueput', 'gate', '--help']\n"
        "from trueput.__main__ import main\n"
        "try: main()\nexcept SystemExit as e: assert not e.code",
    ],
    ids=["import", "help", "help of a command"],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    report = "\nimport sys, json; sys.stderr.write(json.dumps(sorted(sys.modules)))"
    done = python("-c", code + report)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in json.loads(done.stderr)}
    assert loaded & HEAVY == set()


def test_python_m_trueput_is_the_same_program(trueput: Program, store: Path) -> None:
    for command in (["--help"], ["gate"], ["runs", "--format", "csv"]):
        done = python("-m", "trueput", *command, store=store)
        here = trueput(*command)
        assert (done.returncode, done.stdout, done.stderr) == (here.code, here.stdout, here.stderr)


@pytest.mark.long
def test_a_narrow_encoding_is_no_crash(store: Path) -> None:
    environment = {
        **os.environ, "PYTHONPATH": str(CHECKOUT / "analysis"), "PYTHONIOENCODING": "ascii",
        "TRUEPUT_STORE": str(store),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "trueput", "show", "regress_candidate"],
        capture_output=True, check=False, cwd=CHECKOUT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"regress_candidate" in done.stdout


def test_every_name_of_the_library_resolves() -> None:
    for name in trueput.__all__:
        assert getattr(trueput, name) is not None
    assert dir(trueput) == sorted(trueput.__all__)
    with pytest.raises(AttributeError):
        _ = trueput.sweeep


def test_a_verb_stays_a_verb_after_its_package_was_imported() -> None:
    code = (
        "import trueput, trueput.gate.policy, trueput.sources, trueput.gate\n"
        "assert callable(trueput.gate) and callable(trueput.sources)\n"
        "from trueput.gate.policy import Policy\n"
        "from trueput import gate, sources\n"
        "assert sources() and callable(gate)\n"
        "assert trueput.sources()[0].name\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_the_library_has_the_verbs_of_the_command_line(trueput_help: str) -> None:
    commands = {
        line.split()[0]
        for line in trueput_help.partition("Commands:\n")[2].splitlines()
        if line.startswith("  ") and not line.startswith("   ") and not line.startswith("  Exit")
    }
    commands -= {"trueput."}
    verbs = {name for name in trueput.__all__ if name.islower()}
    assert commands == verbs


@pytest.fixture
def trueput_help(store: Path) -> str:
    return Program(store, 200)("--help").stdout


def test_library_and_command_line_say_the_same(store: Path) -> None:
    reading = trueput.Reading(store=store)
    answer = trueput.sql("SELECT run_id, good_requests FROM goodput", reading).dicts()
    printed = Program(store)(
        "sql", "SELECT run_id, good_requests FROM goodput", "--format", "json"
    ).stdout
    assert json.loads(printed) == answer
    assert [r["run_id"] for r in trueput.runs(reading)] == [r["run_id"] for r in answer]
    sides = "regress_baseline,regress_baseline_r2", "regress_candidate,regress_candidate_r2"
    result = trueput.gate(sides[0], [sides[1]], reading=reading)
    assert result.exit_code == Program(store)("gate", *sides).code == 1
