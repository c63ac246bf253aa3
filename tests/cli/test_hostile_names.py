"""Whatever a run, a model or a log line is called: nothing of it drives a terminal, ends a cell,
starts a tag or runs in a spreadsheet."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from cli.program import CHECKOUT, Done, Program

NAME = "=1+cmd|'/C x'!A|\x1b[31mred\x9b2J[red]x[/red] </script><b>`a`\n\u202e[y](http://z)"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
LISTS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors", "latencies",
         "generated_texts", "queue_times")  # fmt: skip


def made(folder: Path, scale: float) -> Path:
    """Write a run of twelve requests whose model has the hostile name."""
    folder.mkdir()
    source = CHECKOUT / "sample_data" / "regress_baseline" / "bench.json.gz"
    bench = json.loads(gzip.decompress(source.read_bytes()))
    bench = {k: v[:12] if k in LISTS and isinstance(v, list) else v for k, v in bench.items()}
    bench |= {"model_id": NAME, "num_prompts": 12, "completed": 12, "failed": 0}
    bench["latencies"] = [x * scale for x in bench["latencies"]]
    (folder / "bench.json").write_text(json.dumps(bench))
    labels = json.dumps({"x": NAME})
    (folder / "run.toml").write_text(f"odd_key = {json.dumps('x')}\n# {labels!r}\n")
    log = f"INFO 11-29 13:25:54 [core.py:1] {NAME}\nERROR 11-29 13:25:54 [core.py:1] {NAME}\n"
    (folder / "server.log").write_text(log * 3)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A store of two runs with hostile names."""
    root = tmp_path_factory.mktemp("hostile")
    program = Program(root / "store", 120)
    for name, scale in ((NAME, 1.0), (f"{NAME}2", 1.3)):
        done = program("ingest", str(made(root / f"run{scale}", scale)), "--run", name)
        assert done.code == 0
        harmless(done)
    return program


def harmless(done: Done) -> None:
    """Nothing that a terminal obeys, on either stream."""
    assert done.code in {0, 1, 2, 3}
    for text in (done.stdout, done.stderr):
        assert not OBEYED.search(text), OBEYED.findall(text)


COMMANDS = (
    ("runs",),
    ("show", NAME),
    ("show", NAME, "--slo", "ttft=5s,tpot=20ms"),
    ("doctor", NAME),
    ("gate", NAME, f"{NAME}2", "--slo", "ttft=5s,tpot=20ms"),
    ("compare", NAME, f"{NAME}2"),
    ("sweep", NAME, f"{NAME}2", "--slo", "ttft=5s,tpot=20ms"),
    ("history",),
    ("noise", NAME, f"{NAME}2"),
    ("sql", "SELECT run_id, model FROM runs"),
    ("sql", "FROM problems"),
    ("show", f"{NAME}3"),
    ("explain", NAME),
    ("tables", NAME),
)
WRITTEN = [c for c in COMMANDS[:10] if c[0] != "noise" and "--slo" not in c[:3]]


@pytest.mark.long(besides=5)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_tables(hostile: Program, command: tuple[str, ...]) -> None:
    harmless(hostile(*command))


def test_markup_is_shown_as_it_is(hostile: Program) -> None:
    page = hostile("sql", "SELECT model FROM runs LIMIT 1").stdout
    assert "[red]x[/red]" in "".join(page.split())


@pytest.mark.long(besides=3)
@pytest.mark.parametrize("command", WRITTEN, ids=lambda c: c[0])
def test_csv_markdown_and_json(hostile: Program, command: tuple[str, ...], tmp_path: Path) -> None:
    """One run writes all three: CSV on stdout, the others to files."""
    markdown, document = tmp_path / "made.md", tmp_path / "made.json"
    done = hostile(*command, "--format", "csv", "-o", str(markdown), "-o", str(document))
    harmless(done)
    a_row_is_a_line_without_formulas(done.stdout)
    text = document.read_text(encoding="utf-8")
    assert not OBEYED.search(text), "the name is kept, and escaped"
    json.loads(text)
    without_tags_links_and_cut_cells(markdown.read_text(encoding="utf-8"))


def without_tags_links_and_cut_cells(text: str) -> None:
    """Markdown that shows the name and is nothing else."""
    assert not OBEYED.search(text)
    outside_of_code = re.sub("`[^`]*`", "", text)
    assert not re.search(r"<[a-z/!?]", outside_of_code), "a tag"
    assert "](http" not in outside_of_code, "a link"
    width = 0
    for line in text.splitlines():
        if line.startswith("|"):
            width = width or line.count("|")
            assert line.count("|") == width, "a cell that ends early"
        else:
            width = 0


def a_row_is_a_line_without_formulas(text: str) -> None:
    """CSV that a spreadsheet only shows."""
    lines = list(csv.reader(io.StringIO(text)))
    assert len(lines) == len(text.splitlines()), "a row is a line"
    assert len({len(line) for line in lines}) == 1
    for cell in (cell for line in lines for cell in line):
        is_number = re.fullmatch(r"-?[0-9.e+-]+|-inf", cell)
        assert is_number or not cell.startswith(("=", "+", "-", "@")), "a formula"


def test_json_gives_the_name_back(hostile: Program) -> None:
    found = json.loads(hostile("sql", "FROM runs", "--format", "json").stdout)
    assert {r["run_id"] for r in found} == {NAME, f"{NAME}2"}
    assert {r["model"] for r in found} == {NAME}


def test_on_a_terminal(hostile: Program) -> None:
    for command in (COMMANDS[0], COMMANDS[1], COMMANDS[4]):
        shown = hostile(*command, terminal=True, environment={"NO_COLOR": "1"})
        assert "\x1b[31m" not in shown.stdout
        assert "\x9b" not in shown.stdout


def test_the_store_stays_where_it_is(tmp_path: Path) -> None:
    program = Program(tmp_path / "inside" / "store")
    for name in ("../../escaped", str(tmp_path / "escaped"), "..", "007", "20261129", "a\x00b"):
        done = program("ingest", "sample_data/control_baseline", "--run", name)
        assert done.code in {0, 2}
    assert {p.name for p in tmp_path.iterdir()} == {"inside"}
    assert {p.name for p in (tmp_path / "inside").iterdir()} == {"store"}
    names = json.loads(program("runs", "--format", "json").stdout)
    assert {"007", "20261129"} <= {r["run_id"] for r in names}


def test_junit_and_annotations(hostile: Program, tmp_path: Path) -> None:
    gate = ("gate", NAME, f"{NAME}2", "--slo", "ttft=5s,tpot=20ms", "--format")
    summary = tmp_path / "summary.md"
    github = hostile(*gate, "github", environment={"GITHUB_STEP_SUMMARY": str(summary)})
    junit = hostile(*gate, "junit")
    for done in (github, junit):
        harmless(done)
    assert all(re.match("::(error|warning|notice) title=", x) for x in github.stdout.splitlines())
    assert Xml.fromstring(junit.stdout).tag == "testsuites"
    assert not re.search(r"<[a-z/!?]", re.sub("`[^`]*`", "", summary.read_text()))


@pytest.mark.long
def test_a_picture_and_a_baseline(hostile: Program, tmp_path: Path) -> None:
    page, drawing = tmp_path / "sweep.html", tmp_path / "sweep.svg"
    done = hostile("sweep", NAME, f"{NAME}2", "-o", str(page), "-o", str(drawing))
    harmless(done)
    assert "<script" not in page.read_text()
    assert not OBEYED.search(page.read_text())
    assert Xml.fromstring(drawing.read_text()).tag.endswith("svg")
    for command in (("baseline", "accept", NAME), ("baseline", "list"),
                    ("baseline", "set", NAME, NAME), ("gate", "@last:1", f"{NAME}2"),
                    ("history", NAME), ("baseline", "remove", NAME)):  # fmt: skip
        harmless(hostile(*command))


OWNED = "no\n::error::owned\n  ::warning::owned\r##[error]owned"
MISREAD = (
    ("gate", "a", OWNED), ("gate", OWNED, "b", "--policy", OWNED), ("gate", f"--{OWNED}"),
    ("gate", "a", "b", "--slo", OWNED), ("gate", "a", "b", "--window", OWNED), (OWNED,),
    ("show", "a", OWNED), ("show", OWNED), ("show", "a", "--format", OWNED),
    ("compare", "b", OWNED), ("noise", OWNED), ("explain", OWNED), ("tables", OWNED),
    ("sql", f'FROM "{OWNED}"'), ("ingest", OWNED), ("baseline", "set", OWNED, "a"),
    ("baseline", "remove", OWNED), ("policy", "check", OWNED), ("runs", "-o", OWNED),
    ("gate", "a", "b", "-o", "{folder}/" + f"{OWNED}.json", "--store", "{folder}/" + OWNED),
)  # fmt: skip


def commands_in(text: str) -> list[str]:
    """Return the lines that a CI runner would take for commands."""
    return [line for line in re.split("[\r\n]", text) if line.lstrip().startswith(("::", "##["))]


@pytest.mark.parametrize("command", MISREAD, ids=lambda c: c[0][:8])
def test_a_name_gives_the_runner_no_command(tmp_path: Path, command: tuple[str, ...]) -> None:
    given = [word.replace("{folder}", str(tmp_path)) for word in command]
    done = Program(tmp_path / "store", 120)(*given)
    assert done.code == 2
    assert "::error" in done.stderr
    assert commands_in(done.stderr) == commands_in(done.stdout) == []


def test_an_override_gives_the_runner_no_command(hostile: Program, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text(
        f"[[overrides]]\nrule = 'goodput-drop'\nseverity = 'informing'\nexpires = 2999-01-01\n"
        f"reason = {json.dumps(OWNED)}\nowner = {json.dumps(OWNED)}\n"
    )
    judged = ("gate", NAME, f"{NAME}2", "--slo", "ttft=5s,tpot=20ms", "--policy", str(policy))
    for how in (("-o", str(tmp_path / "gate.md")), ("--format", "csv"), ()):
        done = hostile(*judged, *how)
        assert "owned" in done.stderr + done.stdout
        assert commands_in(done.stderr) == commands_in(done.stdout) == []
    assert commands_in(hostile("policy", "check", str(policy)).stderr) == []
