"""Variation between repeats: a copy of a run is no repeat."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trueput.errors import UsageError
from trueput.verbs.noise import noise
from trueput.verbs.opening import Reading

SAMPLES = Path(__file__).parents[2] / "sample_data"


@pytest.mark.long
def test_a_copy_does_not_count(tmp_path: Path) -> None:
    copy = shutil.copytree(SAMPLES / "regress_baseline", tmp_path / "copy")
    with (copy / "run.toml").open("a", encoding="utf-8") as file:
        file.write("\n# another file, the same measurement\n")
    reading = Reading(store=tmp_path / "store")
    original, repeat = (str(SAMPLES / name) for name in ("regress_baseline", "regress_baseline_r2"))
    with pytest.raises(UsageError, match="one measurement"):
        noise([original, str(copy)], reading)
    report = noise([original, str(copy), repeat], reading)
    assert set(report.runs) == {"copy", "regress_baseline_r2"}
    assert {v.runs for v in report.variations} == {2}


@pytest.mark.long
def test_a_window_in_which_nothing_is_known_is_told(tmp_path: Path) -> None:
    runs = [str(SAMPLES / name) for name in ("regress_baseline", "regress_baseline_r2")]
    told: list[str] = []
    reading = Reading(store=tmp_path / "store", window="fixed:100s..200s", note=told.append)
    assert noise(runs, reading).variations == ()
    assert [text for text in told if "nothing to measure" in text] == told[-1:]
