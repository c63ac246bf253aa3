"""`trueput policy init` and `policy check`: what they write, refuse and say."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from cli.program import Program

import trueput
from trueput.gate.policy import Policy, load_policy

OVERRIDE = """
[[overrides]]
rule = "goodput-drop"
severity = "informing"
owner = "team"
reason = "known"
expires = {year}-12-31
"""


def test_init_writes_once(tmp_path: Path) -> None:
    program = Program(folder=tmp_path)
    first = program("policy", "init")
    assert (first.code, first.stdout) == (0, "")
    assert "gate.toml" in first.stderr
    path = tmp_path / "gate.toml"
    assert load_policy(path) == Policy()
    path.write_text("repeats = 3\n")
    again = program("policy", "init")
    assert again.code == 2
    assert "--force" in again.stderr
    assert path.read_text() == "repeats = 3\n"
    assert program("policy", "init", "--force").code == 0
    assert load_policy(path) == Policy()


def test_init_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = Program(folder=tmp_path)("policy", "init", "file/gate.toml")
    assert done.code == 2
    assert "bug" not in done.stderr


def test_check_says_what_is_set(tmp_path: Path) -> None:
    path = tmp_path / "gate.toml"
    path.write_text("repeats = 4\n[metrics.goodput_rps]\nfloor = 0.1\n[exit]\ninconclusive = 0\n")
    done = Program(folder=tmp_path)("policy", "check", "gate.toml", "--format", "json")
    found = {row["setting"]: row["value"] for row in json.loads(done.stdout)["settings"]}
    assert found["repeats"] == "4"
    assert found["goodput_rps"] == "min_effect as above, floor 0.1"
    assert found["exit codes"] == "inconclusive 0, not_comparable 3"


def test_check_refuses_what_gate_refuses(tmp_path: Path) -> None:
    (tmp_path / "gate.toml").write_text("repeat = 4\n")
    done = Program(folder=tmp_path)("policy", "check", "gate.toml")
    assert done.code == 2
    assert "did you mean `repeats`" in done.stderr


def test_check_warns_of_an_expired_override(tmp_path: Path) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(OVERRIDE.format(year=2001))
    done = Program(folder=tmp_path)("policy", "check", "gate.toml")
    assert done.code == 0
    assert "warning: override expired on 2001-12-31" in done.stderr
    assert trueput.policy.check(path, date(2001, 12, 31)).notes[0].level == "notice"
