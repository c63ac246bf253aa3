"""What a user gets wrong: exit 2, what and where, and a hint; a bug of ours is 70."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli.program import CHECKOUT, Program


def failed(program: Program, *arguments: str) -> str:
    """Return the message of a command that must fail as a usage or input error."""
    done = program(*arguments)
    assert done.code == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(("error: ", "Usage: "))
    return done.stderr


@pytest.mark.parametrize("verb", ["show", "doctor"])
def test_an_unknown_run_is_guessed_at(trueput: Program, verb: str) -> None:
    message = failed(trueput, verb, "regress_candidat")
    assert "neither a path nor a run" in message
    assert "did you mean `regress_candidate`" in message


def test_an_unknown_run_of_a_gate(trueput: Program) -> None:
    assert "did you mean" in failed(trueput, "gate", "regress_baseline", "regres_candidate")


@pytest.mark.parametrize(
    "empty", ["", " ", "regress_baseline,,control_baseline", "regress_baseline,"]
)
def test_an_empty_argument(trueput: Program, empty: str) -> None:
    assert "empty" in failed(trueput, "gate", empty, "regress_candidate")
    assert "empty" in failed(trueput, "gate", "regress_candidate", empty)


def test_a_path_that_is_not_there(trueput: Program) -> None:
    message = failed(trueput, "ingest", "runs/friday")
    assert "runs/friday" in message


def test_an_empty_folder(trueput: Program, tmp_path: Path) -> None:
    for verb in ("ingest", "show", "doctor"):
        message = failed(trueput, verb, str(tmp_path))
        assert str(tmp_path) in message


def test_files_of_no_known_format(trueput: Program, tmp_path: Path) -> None:
    (tmp_path / "notes.bin").write_bytes(bytes(range(256)))
    assert "known format" in failed(trueput, "ingest", str(tmp_path))


def test_a_store_that_is_a_file(trueput: Program, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no store")
    for arguments in (["runs"], ["ingest", "regress_baseline"], ["sql", "SELECT 1"]):
        message = failed(trueput, *arguments, "--store", str(tmp_path / "notes"))
        assert "a store is a folder" in message
        assert "--store" in message
    assert (tmp_path / "notes").read_text() == "no store"


@pytest.mark.parametrize("slo", ["ttft", "ttft=soon", "ttft=-1s", "speed=1s", "ttft=1s,ttft=2s"])
def test_a_bad_objective(trueput: Program, slo: str) -> None:
    message = failed(trueput, "show", "regress_baseline", "--slo", slo)
    assert "--slo" in message
    assert "hint:" in message


@pytest.mark.parametrize("window", ["half", "fixed:1..2", "fixed:9s..1s", "fixed:1s"])
def test_a_bad_window(trueput: Program, window: str) -> None:
    assert "--window" in failed(trueput, "runs", "--window", window)


@pytest.mark.parametrize(
    "command",
    ["runs", "show regress_baseline", "gate a b", "compare a b", "doctor a", "noise a b",
     "explain", "sources", "tables", "sql FROM", "ingest a"],
)  # fmt: skip
def test_a_bad_format_is_refused_before_any_work(trueput: Program, command: str) -> None:
    message = failed(trueput, *command.split(), "--format", "yaml")
    assert "`yaml`" in message
    assert "markdown" in message


def test_a_bad_suffix_writes_nothing(trueput: Program, tmp_path: Path) -> None:
    good, bad = tmp_path / "runs.csv", tmp_path / "runs.pdf"
    message = failed(trueput, "runs", "-o", str(good), "-o", str(bad))
    assert "suffix" in message
    assert not good.exists()


def test_a_file_that_cannot_be_written(trueput: Program, tmp_path: Path) -> None:
    (tmp_path / "runs.csv").mkdir()
    assert "cannot be written" in failed(trueput, "runs", "-o", str(tmp_path / "runs.csv"))


@pytest.mark.parametrize(
    "query", ["SELECT nothing FROM goodput", "SELEC 1", "FROM nothing", "SELECT 1/", ""]
)
def test_a_query_that_does_not_run(trueput: Program, query: str) -> None:
    assert "hint:" in failed(trueput, "sql", query)


@pytest.mark.parametrize(
    "query",
    ["SELECT 1 AS a; SELECT 2 AS b", "EXPLAIN SELECT 1; SELECT 2", "SELECT 1; SET threads = 1",
     "PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b); SELECT 2"],
)  # fmt: skip
def test_several_questions_at_once(trueput: Program, query: str) -> None:
    message = failed(trueput, "sql", query)
    assert "only the last would be answered" in message
    assert "hint: ask one question at a time" in message


def test_a_query_that_is_a_comment_only(trueput: Program) -> None:
    assert "holds no statement" in failed(trueput, "sql", "-- nothing yet")


def test_an_unknown_option_is_no_query(trueput: Program) -> None:
    for option in ("--rum=my run", "--fromat"):
        assert "No such option" in failed(trueput, "sql", option, "SELECT 1")


def test_a_query_from_a_file_and_from_stdin(trueput: Program, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text("SELECT 1 AS one")
    from_file = trueput("sql", "-f", str(file), "--format", "csv")
    from_stdin = trueput("sql", "-", "--format", "csv", stdin="SELECT 1 AS one")
    assert from_file.stdout == from_stdin.stdout == "one\n1\n"
    assert "not both" in failed(trueput, "sql", "SELECT 1", "-f", str(file))
    assert "cannot be read" in failed(trueput, "sql", "-f", str(tmp_path / "no.sql"))


def test_a_policy_with_an_unknown_key(trueput: Program, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text("min_efect = 0.1\n")
    message = failed(
        trueput, "gate", "regress_baseline", "regress_candidate", "--policy", str(policy)
    )
    assert "min_efect" in message
    assert "min_effect" in message


@pytest.mark.parametrize("text", ["min_effect =", "[slo]\nttft = 'soon'\n"])
def test_a_policy_that_cannot_be_read(trueput: Program, tmp_path: Path, text: str) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text(text)
    message = failed(
        trueput, "gate", "regress_baseline", "regress_candidate", "--policy", str(policy)
    )
    assert "gate.toml" in message or "policy" in message


def test_a_policy_that_is_not_there(trueput: Program, tmp_path: Path) -> None:
    policy = str(tmp_path / "gate.toml")
    assert "gate.toml" in failed(
        trueput, "gate", "regress_baseline", "regress_candidate", "--policy", policy
    )


@pytest.mark.parametrize("verb", ["gate", "compare"])
def test_no_candidate(trueput: Program, verb: str) -> None:
    assert "CANDIDATE" in failed(trueput, verb, "regress_baseline")


def test_run_names_one_run(trueput: Program) -> None:
    message = failed(trueput, "ingest", "sample_data", "--run", "friday")
    assert "8 runs" in message


@pytest.mark.long
def test_a_taken_name_is_not_overwritten(tmp_path: Path) -> None:
    program = Program(tmp_path / "store")
    assert program("ingest", "sample_data/regress_baseline", "--run", "nightly").code == 0
    message = failed(program, "ingest", "sample_data/control_baseline", "--run", "nightly")
    assert "--replace" in message
    assert "already holds" in message
    assert (
        program("ingest", "sample_data/control_baseline", "--run", "nightly", "--replace").code == 0
    )


def test_an_empty_store(tmp_path: Path) -> None:
    program = Program(tmp_path / "store")
    done = program("runs", "--format", "json")
    assert (done.code, done.stdout) == (0, "[]\n")
    assert "trueput ingest PATH" in done.stderr
    assert "is empty" in failed(program, "show", "friday")
    assert program("sql", "SELECT count(*) AS n FROM goodput", "--format", "csv").stdout == "n\n0\n"


def test_our_own_bug_is_70(trueput: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a \x1b[31mbug")

    monkeypatch.setattr("trueput.verbs.runs.runs", broken)
    done = trueput("runs")
    assert done.code == 70
    assert "RuntimeError: a \\x1b[31mbug" in done.stderr
    assert "please report" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" not in done.stdout


def test_debugging_shows_where(trueput: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr("trueput.verbs.runs.runs", broken)
    done = trueput("runs", environment={"TRUEPUT_DEBUG": "1"})
    assert done.code == 70
    assert "Traceback" in done.stderr


def test_an_interrupt_is_130(trueput: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trueput.verbs.runs.runs", interrupted)
    assert trueput("runs").code == 130


@pytest.mark.long
def test_a_reader_that_leaves_does_not_change_the_verdict(store: Path) -> None:
    command = (
        f"{sys.executable} -m trueput gate regress_baseline,regress_baseline_r2 "
        "regress_candidate,regress_candidate_r2 | true; echo ${PIPESTATUS[0]}"
    )
    environment = {"PYTHONPATH": str(CHECKOUT / "analysis"), "TRUEPUT_STORE": str(store)}
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        env=environment, capture_output=True, text=True, check=False, cwd=CHECKOUT,
    )  # fmt: skip
    assert done.stdout == "1\n"
    assert done.stderr == ""


@pytest.mark.long
def test_a_page_of_an_unusable_run_says_so_to_the_shell_too(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.toml").write_text("gpu_count = 1\n")
    done = Program(tmp_path / "store")("show", str(run))
    assert done.code == 2
    assert "too little of this run could be read" in done.stdout
