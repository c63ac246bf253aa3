"""History: the nights of a series in the order of time, and the night of a jump."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cases.nights import night
from cli.program import Program
from gate.bench_runs import bench, write

import trueput
from trueput.errors import InputError
from trueput.verbs import baseline
from trueput.verbs.opening import Reading


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine nights, from the seventh on a quarter of the requests late; and another run."""
    root = tmp_path_factory.mktemp("history")
    for number in range(1, 10):
        night(root, number, late=5 if number >= 7 else 0)
    write(root / "0_other", bench([0.3] * 20, every_s=0.5), '[slo]\nttft = "1s"\n')
    trueput.ingest([root], store=root / "store")
    return root / "store"


def test_the_night_of_the_jump(nights: Path) -> None:
    (series,) = trueput.history("nightly", Reading(store=nights))
    assert [n.run_id for n in series.nights] == [f"night0{n}" for n in range(1, 10)]
    changes = {c.metric: c for c in series.changes or ()}
    attainment = changes["slo_attainment_ratio"]
    assert (attainment.kind, attainment.last_run) == ("jump", "night07")
    assert (attainment.before, attainment.after) == pytest.approx((1.0, 0.75))
    assert attainment.change == pytest.approx(-0.25)
    goodput = changes["goodput_rps"]
    assert goodput.last_run == "night07"
    assert goodput.change == pytest.approx(-0.25, abs=0.02)
    assert not goodput.points


def test_order_is_time_not_name(tmp_path: Path) -> None:
    for number, name in ((3, "a"), (1, "b"), (2, "c")):
        night(tmp_path / "in", number).rename(tmp_path / "in" / name)
    trueput.ingest([tmp_path / "in"], store=tmp_path / "store")
    (series,) = trueput.history(None, Reading(store=tmp_path / "store"))
    assert [n.run_id for n in series.nights] == ["b", "c", "a"]
    assert series.changes == ()


@pytest.mark.long
def test_a_run_names_its_series_and_accepted_runs_are_marked(nights: Path) -> None:
    how = Reading(store=nights)
    baseline.accept("night02", how)
    (series,) = trueput.history("night05", how)
    assert series.key == "nightly"
    assert [n.run_id for n in series.nights if n.accepted] == ["night02"]
    assert {s.key for s in trueput.history(None, how)} > {"nightly"}
    with pytest.raises(InputError, match="neither a series nor a readable run"):
        trueput.history("nigthly", how)


def test_without_the_library_the_nights_are_shown(
    nights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    done = Program(nights, 120)("history", "nightly")
    assert done.code == 0
    assert "night09" in done.stdout
    assert "pip install 'trueput[history]'" in done.stderr
    every = Program(nights, 120)("history")  # of several series
    assert every.stderr.count("pip install") == done.stderr.count("pip install") == 1
    assert "\\n" not in every.stderr
    found = json.loads(Program(nights)("history", "nightly", "--format", "json").stdout)
    assert found[0]["changes"] is None


@pytest.mark.parametrize("width", [80, 160])
def test_the_page(nights: Path, width: int) -> None:
    page = Program(nights, width)("history", "nightly").stdout
    assert all(len(line) <= width for line in page.splitlines())
    assert "goodput_rps" in page
    assert "jump" in page
    assert "-25.0 points" in page


def test_csv_and_markdown(nights: Path) -> None:
    program = Program(nights)
    lines = program("history", "nightly", "--format", "csv").stdout.splitlines()
    assert len(lines) == 10
    assert "slo_attainment_ratio jump -0.2500" in lines[7]
    assert program("history", "nightly", "--format", "markdown").stdout.count("\n| night0") >= 9


def test_an_empty_store(tmp_path: Path) -> None:
    done = Program(tmp_path / "store")("history")
    assert (done.code, done.stdout.strip()) == (0, "")
    assert "trueput ingest" in done.stderr
