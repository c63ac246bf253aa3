"""The pytest plugin: a gate as an assertion, and nothing at all where no test asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases.nights import night
from cli.program import CHECKOUT

from trueput.errors import TrueputError
from trueput.pytest_plugin import Gate

HEAVY = ("duckdb", "polars", "pyarrow", "numpy", "scipy", "typer", "rich", "trueput.verbs")
TESTS = """
import pytest

A = [f"{root}/night0{n}" for n in (1, 2, 3)]
B = [f"{root}/night0{n}" for n in (4, 5, 6)]
LATE = [f"{root}/late/night0{n}" for n in (1, 2, 3)]

def test_passes(trueput_gate):
    trueput_gate(A, [B], policy=f"{root}/gate.toml").assert_passes()

def test_flagged(trueput_gate):
    trueput_gate(A, [LATE], slo="ttft=1s").assert_passes()

def test_open(trueput_gate):
    trueput_gate(A[0], B[0], slo="ttft=1s").assert_passes(skip_inconclusive=True)

def test_open_fails(trueput_gate):
    trueput_gate(A[0], B[0], slo="ttft=1s").assert_passes()

def test_policy(trueput_gate):
    judged = trueput_gate(A, [B, LATE], policy=f"{root}/gate.toml")
    assert judged.verdict == "flagged"
    judged.assert_not_flagged()

def test_no_such_path(trueput_gate):
    trueput_gate(A, f"{root}/gone", slo="ttft=1s").assert_passes()

def test_caught(trueput_gate):
    from trueput.errors import UsageError
    with pytest.raises(UsageError, match="has no unit") as caught:
        trueput_gate(A, [B], slo="ttft=1h")
    assert "ttft=500ms" in caught.value.hint
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with runs and the tests above."""
    root = tmp_path_factory.mktemp("project")
    for number in range(1, 7):
        night(root, number, count=60)
    for number in range(1, 4):
        night(root / "late", number, late=30, count=60)
    (root / "gate.toml").write_text(
        'repeats = 3\n[slo]\nttft = "1s"\n[rules]\nrecompute-growth = "informing"\n'
    )
    (root / "test_gate.py").write_text(f"root = {str(root)!r}\n{TESTS}")
    (root / "test_other.py").write_text("def test_other():\n    pass\n")
    return root


def pytest_in(project: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment |= {"PYTHONPATH": str(CHECKOUT / "analysis"), "NO_COLOR": "1"}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("TRUEPUT_STORE", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "trueput.pytest_plugin", "-rA", "-q", *arguments],
        cwd=project, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.long
def test_in_a_project(project: Path) -> None:
    said = pytest_in(project, "test_gate.py")
    assert "4 failed, 2 passed, 1 skipped" in said
    assert "PASSED test_gate.py::test_caught" in said
    assert f"trueput gate: not judged: `{project}/gone` is neither a path nor a run" in said
    assert "analysis/trueput" not in said, "no file of the package is shown"
    assert "PASSED test_gate.py::test_passes" in said
    assert "trueput gate: flagged: " in said
    assert "flagged: goodput-drop: SLO attainment fell, 0.500x" in said
    assert "inconclusive: goodput-drop: Goodput" in said
    assert "runs on each side would settle it" in said
    assert "Traceback" not in said
    assert "pytest_plugin.py" not in said, "the reader's own line is what failed"
    assert not (project / ".trueput").exists(), "no store in the project's folder"


def test_a_project_that_does_not_use_it(project: Path) -> None:
    (project / "conftest.py").write_text(
        "import sys\n"
        f"def pytest_sessionfinish():\n    print('LOADED', [m for m in {HEAVY!r} if m in "
        "sys.modules])\n"
    )
    said = pytest_in(project, "-s", "test_other.py")
    (project / "conftest.py").unlink()
    assert "LOADED []" in said
    assert "1 passed" in said


def test_the_entry_point_is_declared() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\ntrueput = "trueput.pytest_plugin"\n' in text


def test_sides(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUEPUT_STORE", raising=False)
    gate = Gate(tmp_path / "store")
    one = gate(project / "night01", project / "night02", slo="ttft=1s")
    assert one.verdict == "inconclusive"
    assert "objective ttft=1000ms, 1 baseline and 1 candidate runs" in one.text
    one.assert_not_flagged()
    assert (tmp_path / "store").is_dir()
    with pytest.raises(TrueputError, match="a comma in its name"):
        gate(["a,b", "c"], "d")
    with pytest.raises(TrueputError, match="neither a path nor a run"):
        gate(project / "night01", "nothing", store=tmp_path / "store")
