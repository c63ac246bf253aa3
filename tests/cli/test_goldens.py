"""Commands on the sample runs: what they print on stdout and stderr, and their exit code.

A golden shows all three under the command. After a wanted change, write them anew and read the
difference: `pytest tests/cli --update-goldens`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli.program import Done, Program

GOLDENS = Path(__file__).parent / "goldens"
BOTH = (80, 160)
"""The demo shows the pages of `show` and `gate` at both widths."""
PAIR = (
    "sample_data/regress_baseline,sample_data/regress_baseline_r2 "
    "sample_data/regress_candidate,sample_data/regress_candidate_r2"
)
LEDGER = (
    "SELECT work, outcome, time_ns, share_ratio FROM gpu_ledger "
    "WHERE run_id = 'regress_candidate' ORDER BY work, outcome"
)
COMMANDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "demo": ("demo", BOTH),
    "show": ("show sample_data/regress_candidate", (80,)),
    "show-no-preemption": ("show regress_baseline", (80,)),
    "gate": (f"gate {PAIR}", BOTH),
    "gate-inconclusive": (f"gate {PAIR} --slo ttft=5000ms,tpot=25ms", (80,)),
    "gate-not-comparable": ("gate regress_baseline control_candidate", (80,)),
    "gate-json": ("gate regress_baseline regress_candidate --format json", (80,)),
    "gate-markdown": (f"gate {PAIR} --format markdown", (80,)),
    "gate-junit": (f"gate {PAIR} --format junit", (80,)),
    "gate-github": (f"gate {PAIR} --format github", (80,)),
    "gate-csv": (f"gate {PAIR} --format csv", (80,)),
    "sweep": (f"sweep {PAIR} regress_candidate control_candidate", BOTH),
    "sweep-csv": (f"sweep {PAIR} regress_candidate --rung scheduled_tokens --format csv", (80,)),
    "sweep-markdown": (f"sweep {PAIR} control_candidate --format markdown", (80,)),
    "history": ("history regress_baseline", BOTH),
    "policy-init-twice": ("policy init README.md", (80,)),
    "compare": (f"compare {PAIR}", BOTH),
    "compare-csv": ("compare regress_baseline regress_candidate --format csv", (80,)),
    "compare-markdown": ("compare regress_baseline regress_candidate --format markdown", (80,)),
    "doctor": ("doctor sample_data/regress_candidate", BOTH),
    "doctor-markdown": ("doctor regress_candidate --format markdown", (80,)),
    "runs": ("runs", BOTH),
    "runs-csv": ("runs --format csv", (80,)),
    "tables-one": ("tables gpu_ledger", BOTH),
    "explain": ("explain tpot", (80,)),
    "explain-rule": ("explain activity-without-goodput", (80,)),
    "explain-unknown": ("explain tpto", (80,)),
    "noise": ("noise regress_baseline regress_baseline_r2", (80,)),
    "sql": (f"sql {shlex.quote(LEDGER)}", (80,)),
    "sql-json": (f"sql {shlex.quote(LEDGER)} --format json", (80,)),
    "sql-csv": (f"sql {shlex.quote(LEDGER)} --format csv", (80,)),
    "sql-markdown": (f"sql {shlex.quote(LEDGER)} --format markdown", (80,)),
    "sql-records": ("sql \"FROM goodput WHERE run_id = 'regress_candidate'\"", (80,)),
    "sql-error": ('sql "SELECT nothing FROM goodput"', (80,)),
    "unknown-run": ("show regress_candidat", (80,)),
    "bad-slo": ("show regress_baseline --slo ttft=soon", (80,)),
    "bad-window": ("show regress_baseline --window fixed:9s..1s", (80,)),
    "bad-format": ("runs --format yaml", (80,)),
    "bad-suffix": ("runs -o runs.pdf", (80,)),
    "no-candidate": ("gate regress_baseline", (80,)),
    "one-run-of-noise": ("noise regress_baseline", (80,)),
    "several-runs": ("show sample_data", (80,)),
    "no-such-command": ("shwo regress_baseline", (80,)),
}
CASES = [(name, width) for name, (_, widths) in COMMANDS.items() for width in widths]
JUDGES_AGAIN = {
    "gate-inconclusive", "gate-json", "gate-junit", "gate-github", "gate-csv", "sweep-csv",
    "sweep-markdown", "compare-csv", "compare-markdown", "doctor-markdown",
}  # fmt: skip
"""The same verdicts and pages in other forms; what a form is like, `test_gate_outputs` says."""
RUN = [
    pytest.param(*case, marks=[pytest.mark.long] if case[0] in JUDGES_AGAIN else [])
    for case in CASES
]


def golden(name: str, width: int) -> Path:
    widths = COMMANDS[name][1]
    return GOLDENS / (f"{name}-{width}.txt" if len(widths) > 1 else f"{name}.txt")


def told(command: str, width: int, done: Done) -> str:
    """Return one text that shows a command and all that came of it."""
    parts = [f"$ COLUMNS={width} trueput {command}\n", f"exit {done.code}\n"]
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if text:
            parts.append(f"--- {name}\n{text}")
    return "".join(parts)


@pytest.mark.parametrize(("name", "width"), RUN)
def test_command(name: str, width: int, store: Path, update_goldens: bool) -> None:
    command = COMMANDS[name][0]
    text = told(command, width, Program(store, width)(*shlex.split(command)))
    path = golden(name, width)
    if update_goldens:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden yet: pytest tests/cli --update-goldens writes {path.name}"
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "width"), CASES)
def test_nothing_is_wider_than_the_page(name: str, width: int) -> None:
    if COMMANDS[name][0].rpartition("--format ")[2] in {
        "csv",
        "markdown",
        "json",
        "junit",
        "github",
    }:
        return
    _, _, page = golden(name, width).read_text(encoding="utf-8").partition("--- stdout\n")
    page = page.partition("--- stderr\n")[0]
    assert [line for line in page.splitlines() if len(line) > width] == []


def test_every_golden_has_its_command() -> None:
    wanted = {golden(name, width).name for name, width in CASES}
    assert {path.name for path in GOLDENS.iterdir()} == wanted


def test_ingest_twice(tmp_path: Path, update_goldens: bool) -> None:
    program = Program(tmp_path / "store")
    command = "ingest sample_data/regress_baseline sample_data/control_baseline"
    text = "".join(told(command, 80, program(*shlex.split(command))) for _ in range(2))
    path = Path(__file__).parent / "ingest_twice.txt"
    if update_goldens:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
