"""`trueput gate` writing several outputs in one call, and the step summary of GitHub Actions."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from cli.program import Program

GATE = (
    "gate", "regress_baseline,regress_baseline_r2", "regress_candidate,regress_candidate_r2",
)  # fmt: skip


def test_several_outputs_in_one_call(trueput: Program, tmp_path: Path) -> None:
    names = ("gate.json", "gate.md", "gate.csv", "gate.xml", "gate.txt")
    outputs = [x for name in names for x in ("-o", str(tmp_path / name))]
    done = trueput(*GATE, *outputs, "--format", "github")
    assert done.code == json.loads((tmp_path / "gate.json").read_text())["exit_code"] == 1
    assert {p.name for p in tmp_path.iterdir()} == set(names)
    assert Xml.fromstring((tmp_path / "gate.xml").read_text()).tag == "testsuites"
    assert done.stdout.startswith("::error title=")
    assert (tmp_path / "gate.md").read_text().startswith("## trueput gate: flagged")


def test_a_format_can_be_named_before_the_file(trueput: Program, tmp_path: Path) -> None:
    junit, annotations = tmp_path / "report", tmp_path / "a.log"
    done = trueput(*GATE, "-o", f"junit={junit}", "--output", f"github={annotations}")
    assert done.code == 1
    assert done.stdout.startswith("trueput gate: flagged: regress_candidate,regress_candidate_r2 ")
    assert done.stdout.count("\n") == 1
    assert Xml.fromstring(junit.read_text()).tag == "testsuites"
    assert annotations.read_text().startswith("::error")
    assert trueput("runs", "-o", f"junit={junit}").code == 2


def test_the_step_summary_grows(trueput: Program, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    place = {"GITHUB_STEP_SUMMARY": str(summary)}
    done = trueput(*GATE, "--format", "github", environment=place)
    text = summary.read_text()
    assert text.startswith("# before\n## trueput gate: flagged\n")
    assert "::" not in text
    assert trueput(*GATE, "--format", "json", environment=place).code == done.code
    assert summary.read_text() == text


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    trueput: Program, tmp_path: Path
) -> None:
    place = {"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "summary.md")}
    done = trueput(*GATE, "--format", "github", environment=place)
    assert done.code == 1
    assert "warning: $GITHUB_STEP_SUMMARY" in done.stderr


def test_the_policy_decides_what_an_open_verdict_exits_with(
    trueput: Program, tmp_path: Path
) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text("repeats = 3\n[exit]\ninconclusive = 0\n")
    done = trueput(*GATE, "--policy", str(policy))
    assert done.code == 0
    assert "INCONCLUSIVE" in done.stdout
    assert "the policy asks for 3 runs on each side" in " ".join(done.stdout.split())


def test_one_line_beside_files_unless_stdout_is_one(trueput: Program, tmp_path: Path) -> None:
    many = trueput(*GATE, "regress_baseline_r2,regress_candidate", "-o", str(tmp_path / "a.json"))
    assert many.stdout.startswith("trueput gate: flagged: 2 candidates against regress_baseline,")
    assert trueput(*GATE, "-o", "json=/dev/stdout").stdout == ""


FAILING = {
    "unknown run": ("gate", "regress_baseline", "no-such-run"),
    "unknown baseline": ("gate", "@nothing", "regress_candidate"),
    "bad objective": (*GATE, "--slo", "ttft=fast"),
    "no policy file": (*GATE, "--policy", "/no/such/gate.toml"),
}


@pytest.mark.parametrize("case", FAILING)
def test_what_cannot_be_judged_is_said_in_every_form(
    trueput: Program, tmp_path: Path, case: str
) -> None:
    names = ("q.xml", "q.json", "q.md", "q.csv", "q.txt")
    outputs = [x for name in names for x in ("-o", str(tmp_path / name))]
    done = trueput(*FAILING[case], *outputs, "--format", "github")
    assert done.code == 2
    assert done.stdout.startswith("::error title=trueput gate%3A not judged::")
    assert done.stdout.count("\n") == 1
    assert done.stderr.startswith("error: ")
    root = Xml.fromstring((tmp_path / "q.xml").read_text())
    assert (root.attrib["tests"], root.attrib["errors"]) == ("1", "1")
    document = json.loads((tmp_path / "q.json").read_text())
    assert (document["verdict"], document["exit_code"]) == (None, 2)
    assert document["error"]["message"] in done.stderr
    assert (tmp_path / "q.md").read_text().startswith("## trueput gate: not judged")
    assert (tmp_path / "q.csv").read_text().startswith("config,verdict,rule,")
    assert trueput(*FAILING[case]).stdout == ""


def test_beside_csv_the_policy_is_named_on_stderr(trueput: Program, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text(
        "margin = 0.5\n[[overrides]]\nrule = 'goodput-drop'\nseverity = 'informing'\n"
        "owner = 'team'\nreason = 'known'\nexpires = 2020-01-31\n"
    )
    done = trueput(*GATE, "--policy", str(policy), "--format", "csv")
    assert done.stdout.startswith("config,verdict,")
    assert "warning: override expired on 2020-01-31" in done.stderr
    assert "notice: the policy judges otherwise than by default: margin = 0.5" in done.stderr
    files = trueput(*GATE, "--policy", str(policy), "-o", str(tmp_path / "gate.csv"))
    assert "margin = 0.5 (default 0.05)" in files.stderr


def test_a_file_that_may_not_be_read_is_said_in_every_form(
    trueput: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "server.log")

    monkeypatch.setattr("trueput.verbs.gate.gate", refuse)
    done = trueput(*GATE, "-o", str(tmp_path / "q.json"), "--format", "github")
    assert done.code == 2
    assert done.stdout.endswith("::`server.log`: Permission denied\n")
    document = json.loads((tmp_path / "q.json").read_text())
    assert document["error"] == {"message": "`server.log`: Permission denied", "hint": None}


MISUSED = {
    "no candidate": (("gate", "regress_baseline"), "Missing argument 'CANDIDATE'"),
    "no base": (("gate",), "Missing argument 'BASE'"),
    "no such format": ((*GATE, "--format", "nope"), "`nope` is not offered here"),
    "no such option": ((*GATE, "--polcy", "x.toml"), "--polcy"),
}


@pytest.mark.parametrize("case", MISUSED)
def test_a_command_that_is_not_understood_is_said_in_the_files(
    trueput: Program, tmp_path: Path, case: str
) -> None:
    command, why = MISUSED[case]
    report, document, page = tmp_path / "q", tmp_path / "q.json", tmp_path / "q.md"
    files = ("-o", f"junit={report}", f"--output={document}", f"-o{page}")
    done = trueput(command[0], *files, "-o", str(tmp_path / "q.unknown"), *command[1:])
    assert (done.code, done.stdout) == (2, "")
    assert why in done.stderr
    assert "q.unknown` has no suffix that names a format" in " ".join(done.stderr.split())
    (error,) = Xml.fromstring(report.read_text()).iter("error")
    assert why in error.attrib["message"]
    told = json.loads(document.read_text())
    assert (told["verdict"], told["exit_code"], told["candidates"]) == (None, 2, [])
    assert why in told["error"]["message"]
    assert page.read_text().startswith("## trueput gate: not judged")


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(
    ("module", "name"), [("trueput.verbs.gate", "gate"), ("trueput.gate.render", "to_junit")]
)
def test_a_failure_of_our_own_is_said_in_the_files(
    trueput: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("nothing")

    monkeypatch.setattr(importlib.import_module(module), name, fail)
    names = ("q.json", "q.xml", "q.md")
    done = trueput(*GATE, *(x for name in names for x in ("-o", str(tmp_path / name))))
    assert done.code == 70
    assert "trueput failed: KeyError: 'nothing'" in done.stderr
    document = json.loads((tmp_path / "q.json").read_text())
    assert (document["verdict"], document["exit_code"]) == (None, 70)
    assert document["error"]["message"] == "trueput failed: KeyError: 'nothing'"
    assert Xml.fromstring((tmp_path / "q.xml").read_text()).attrib["errors"] == "1"
    assert "not judged" in (tmp_path / "q.md").read_text()


def test_help_writes_no_file(trueput: Program, tmp_path: Path) -> None:
    assert trueput("gate", "-o", str(tmp_path / "q.json"), "--help").code == 0
    assert not (tmp_path / "q.json").exists()


@pytest.mark.long
def test_words_before_backticks_stay_code(trueput: Program) -> None:
    done = trueput(*GATE, "--format", "markdown", "--slo", "min_output_tokens=1")
    assert "&#96;" not in done.stdout
