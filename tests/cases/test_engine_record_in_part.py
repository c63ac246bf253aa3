"""An engine's record that holds a part of the load hides no activity from a gate.

A candidate schedules 1.4 times the tokens for the same goodput. Its log is cut, thinned or broken.
Recorded logs show what is told of a cut; the verdicts are of runs written down in a line.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cases.conftest import Ask
from gate.made_up import repeats

from trueput.gate.verdict import Verdict, gate
from trueput.verbs.doctor import doctor
from trueput.verbs.figures import figures
from trueput.verbs.opening import Reading, runs_of

PART = "the engine's log ends 5.86 s before the last answer that its client received (COVER002)"
UNKNOWN = "step time, scheduled tokens, recompute and preemptions are unknown"


def first(share: float) -> Callable[[str], str]:
    return lambda text: text[: int(len(text) * share)]


def without_a_sixth(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[: len(lines) // 3] + lines[len(lines) // 2 :])


def thinned(text: str) -> str:
    """Return a log without every fourth line of an iteration."""
    kept, seen = [], 0
    for line in text.splitlines(keepends=True):
        seen += "Iteration(" in line
        if "Iteration(" not in line or seen % 4:
            kept.append(line)
    return "".join(kept)


def late(text: str) -> str:
    """Return a log whose first third of iterations was rotated away."""
    lines = text.splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if "Iteration(" in line]
    return "".join(lines[: places[0]] + lines[places[len(places) // 3] :])


CUTS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "nothing": (lambda text: text, set()),
    "the last tenth": (first(0.9), {"COVER002", "COVER003"}),
    "the last third": (first(0.67), {"COVER002", "COVER003"}),
    "a sixth in the middle": (without_a_sixth, {"COVER001", "COVER003"}),
    "every fourth iteration": (thinned, {"COVER001", "COVER003"}),
    "the first third": (late, {"COVER002", "COVER003"}),
}


def copied(fixtures: Path, folder: Path) -> Path:
    source = fixtures / "vllm_cpu" / "regress_baseline"
    folder.mkdir()
    for file in ("run.toml", "bench.json", "server.log.gz"):
        shutil.copy(source / file, folder / file)
    return folder


def told(folder: Path) -> set[str]:
    """Return what doctor says of the record; the gate must know of it if it says anything."""
    reading = Reading(store=folder.parent / "store", slo="ttft=5000ms")
    (diagnosis,) = doctor(str(folder), reading)
    codes = {p["code"] for p in diagnosis.problems if p["code"].startswith("COVER")}
    (name,) = runs_of(str(folder), reading)
    assert (figures([name], reading)[name].uncovered is not None) == bool(codes)
    activity = next(e for e in diagnosis.evidence if e["question"] == "GPU activity")
    assert activity["best_basis"] == ("unknown" if codes else "reported")
    return codes


@pytest.mark.parametrize("cut", CUTS)
def test_a_log_that_lacks_a_part_is_told(fixtures: Path, tmp_path: Path, cut: str) -> None:
    change, codes = CUTS[cut]
    log = copied(fixtures, tmp_path / "run") / "server.log.gz"
    with gzip.open(log, "rt") as file:
        text = file.read()
    with gzip.open(log, "wt", compresslevel=1) as file:
        file.write(change(text))
    assert told(tmp_path / "run") == codes


def test_a_broken_compressed_log_is_told(fixtures: Path, tmp_path: Path) -> None:
    log = copied(fixtures, tmp_path / "run") / "server.log.gz"
    held = log.read_bytes()
    log.write_bytes(held[: int(len(held) * 0.7)])
    assert "COVER004" in told(tmp_path / "run")


def test_no_recorded_log_is_said_to_lack_a_part(ask: Ask) -> None:
    assert ask("SELECT run_id, code, text FROM problems WHERE code LIKE 'COVER%'") == []


@pytest.mark.parametrize("side", ["candidate", "baseline", "both"])
def test_rungs_of_a_part_are_never_a_pass(side: str) -> None:
    """As written, activity fell: 7 tokens for each 10. What is missing may be more than that."""
    base, cand = repeats("a", 3), repeats("c", 3, tokens=7_000)
    assert gate(base, [("c", cand)]).verdict is Verdict.PASS
    if side != "candidate":
        base = [*base[:2], replace(base[2], uncovered=PART)]
    if side != "baseline":
        cand = [*cand[:2], replace(cand[2], uncovered=PART)]
    result = gate(base, [("c", cand)])
    assert result.verdict is Verdict.INCONCLUSIVE
    rungs = {
        f.metric: f for f in result.candidates[0].findings if f.rule == "activity-without-goodput"
    }
    assert {f.outcome.value for f in rungs.values()} == {"inconclusive"}
    assert set(rungs) == {"engine_step", "scheduled_tokens"}
    assert "does not cover its load" in rungs["scheduled_tokens"].conclusion
    (recompute,) = (f for f in result.candidates[0].findings if f.rule == "recompute-growth")
    assert recompute.outcome.value == "inconclusive"
    notes = [note.text for note in result.notes if PART in note.text]
    assert len(notes) == (2 if side == "both" else 1)
    assert all(note.endswith(UNKNOWN) for note in notes)


def test_a_record_that_holds_no_iteration_on_either_side_is_no_pass() -> None:
    base = [replace(run, uncovered=PART) for run in repeats("a", 3, activity=False)]
    cand = [replace(run, uncovered=PART) for run in repeats("c", 3, activity=False)]
    assert gate(base, [("c", cand)]).verdict is Verdict.INCONCLUSIVE
