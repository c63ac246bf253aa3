"""What the demo tells to try next runs as it is printed, however the demo was called."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from trueput.cli.pages.demo_page import called_as


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in an environment beside the current folder; no `trueput` is on the PATH."""
    program = tmp_path / "my env" / "bin" / "trueput"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return program


def test_by_its_path_where_no_shell_finds_it(installed: Path) -> None:
    name = called_as("my env/bin/trueput")
    assert shlex.split(name) == ["my env/bin/trueput"]
    assert subprocess.run(f"{name} runs", shell=True, check=False).returncode == 0


def test_by_name_where_a_shell_finds_it(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{installed.parent}:/usr/bin:/bin")
    for argument in ("trueput", str(installed), "my env/bin/trueput"):
        assert called_as(argument) == "trueput"


def test_by_its_path_where_a_shell_finds_another(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "trueput"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    assert shlex.split(called_as(str(installed))) == [str(installed)]


def test_as_a_module() -> None:
    name = called_as("/x/trueput/__main__.py")
    assert name.endswith(" -m trueput")
    python = name.removesuffix(" -m trueput")
    done = subprocess.run(
        f"{python} -c 'import sys; print(sys.prefix)'",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == sys.prefix
