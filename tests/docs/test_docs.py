"""The pages are current, and what exists is mentioned: in the pages, and each page in the index."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from trueput.attribution.run import PROBLEM_CODES as ATTRIBUTION_CODES
from trueput.cli.app import build
from trueput.cli.reference import cli_reference
from trueput.docs import FOLDER, pages, problem_codes, stale
from trueput.gate import policy
from trueput.gate.policy.keys import KEYS as POLICY_KEYS
from trueput.gate.rules import discover
from trueput.ingest.run import PROBLEM_CODES as INGEST_CODES
from trueput.ingest.run_toml import PROBLEM_CODES as RUN_CODES
from trueput.ingest.run_toml import read_run_toml
from trueput.schema import glossary, remedies, tables, views
from trueput.slo import KEYS
from trueput.sources import all_sources
from trueput.verbs.explain import explain
from trueput.warehouse.codes import PROBLEM_CODES as VIEW_CODES
from trueput.warehouse.models import macros, models

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HAND_WRITTEN = sorted(p for p in DOCS.rglob("*.md") if p.parent.name != "reference")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages(cli_reference())


def test_generated_pages_are_current() -> None:
    assert stale(ROOT, cli_reference()) == [], "write them with `trueput docs`"


def test_a_changed_a_missing_and_a_left_page_are_stale(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    for name, text in pages().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert stale(tmp_path) == []
    (folder / "rules.md").write_text("other", encoding="utf-8")
    (folder / "tables.md").unlink()
    (folder / "of_old.md").touch()
    left = [f"{FOLDER}/{name}" for name in ("of_old.md", "rules.md", "tables.md")]
    assert stale(tmp_path) == left


def test_everything_is_mentioned(made: dict[str, str]) -> None:
    def page(name: str) -> str:
        return made[f"{FOLDER}/{name}.md"]

    for table in tables().values():
        assert f"## {table.name}\n" in page("tables")
        assert all(f"| `{c.name}` |" in page("tables") for c in table.columns)
    for view in views().values():
        assert f"## {view.name}\n" in page("views")
        assert all(f"| `{c.name}` |" in page("views") for c in view.columns)
    for name in [*models(), *macros()]:
        assert name in page("sql")
    for source in all_sources():
        assert f"## {source.name}\n" in page("sources")
        assert source.proves, f"{source.name} does not say what it proves"
        assert source.turn_on, f"{source.name} does not say what turns it on"
    for code in problem_codes():
        assert f"| `{code}` |" in page("problems")
    formats = {code for source in all_sources() for code in source.problem_codes}
    for code in {*problem_codes()} - formats:
        assert code in remedies(), f"{code}: say in schemas/remedies.toml what to do about it"
    for code in remedies().keys() - {"source"}:
        assert code in problem_codes(), f"{code} of schemas/remedies.toml is no problem"
        (told,) = explain(code)
        assert told.remedy == remedies()[code]
        assert f"| `{code}` | {told.remedy} |" in page("problems")
    for rule in discover():
        assert f"## {rule.name}\n" in page("rules")
    for term in glossary():
        assert f"**{term}**" in page("glossary")


def test_the_policy_page_knows_every_key_and_its_example_is_valid(made: dict[str, str]) -> None:
    text = made[f"{FOLDER}/policy.md"]
    for key in POLICY_KEYS:
        assert f"| `{key.shown}` |" in text, key
    for metric in KEYS:
        assert metric in text
    example = text.split("```toml\n")[1].split("```")[0]
    assert policy.parse_policy(example).slo_text == "ttft=500ms,tpot=50ms,min_output_tokens=1"


def test_a_problem_code_has_one_meaning() -> None:
    who = (INGEST_CODES, RUN_CODES, ATTRIBUTION_CODES, VIEW_CODES)
    codes = [code for known in who for code in known]
    assert sorted(codes) == sorted({*codes})
    of_sources = {code for source in all_sources() for code in source.problem_codes}
    assert of_sources.isdisjoint(codes)


def test_problem_codes_that_the_code_emits_are_documented() -> None:
    package = ROOT / "analysis" / "trueput"
    emitted = set()
    for path in [*package.rglob("*.py"), *package.rglob("*.sql")]:
        emitted |= set(re.findall(r"[\"']([A-Z]{3,10}\d{3})[\"']", path.read_text("utf-8")))
    assert emitted - set(problem_codes()) == set()


CODE = re.compile(r"\b[A-Z]{3,}[0-9]{3}\b")


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *HAND_WRITTEN], ids=lambda p: str(p.relative_to(ROOT))
)
def test_what_the_pages_tell_to_explain_can_be_explained(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert set(CODE.findall(text)) <= set(problem_codes())
    for term in re.findall(r"trueput explain ([\w-]+)", text):
        assert explain(term)


def test_the_words_of_columns_stand_in_the_glossary() -> None:
    for table, column in (
        ("request_outcomes", "outcome"),
        ("gpu_ledger", "work"),
        ("run_phases", "phase"),
    ):
        missing = set(views()[table].column(column).enum) - set(glossary()) - {"none"}
        assert missing == set(), f"{table}.{column}"
    kinds = set(views()["request_outcomes"].column("failure_kind").enum) - {"other"}
    assert kinds <= set(glossary())


@pytest.mark.parametrize("path", HAND_WRITTEN, ids=lambda p: p.relative_to(DOCS).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for inside, below in LINK.findall(path.read_text("utf-8")):
        target = inside or below
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"({name})" in index, name


def test_views_and_columns_that_the_guides_name_exist() -> None:
    """A query in a guide's sql block binds on an empty store."""
    code = """
import sys
from trueput.warehouse.connect import Selection, connect
connection = connect(Selection({}))
for query in sys.stdin.read().split(";"):
    if query.strip():
        connection.execute(query)
"""
    queries = []
    for path in HAND_WRITTEN:
        queries += re.findall(r"```sql\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    assert queries
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=";\n".join(queries),
        text=True,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "analysis")},
    )
    assert done.returncode == 0, done.stderr[-800:]


def test_the_examples_in_the_guides_are_valid(tmp_path: Path) -> None:
    def blocks(name: str) -> list[str]:
        text = (DOCS / "guides" / name).read_text("utf-8")
        return re.findall(r"```toml\n(.*?)```", text, re.DOTALL)

    (of_policy,) = blocks("nightly.md")
    assert policy.parse_policy(of_policy).slo_text
    for text in blocks("generic-records.md"):
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        assert read_run_toml(path).problems == []


def test_commands_in_the_jobs_exist() -> None:
    """Every `trueput` command line of the CI guide has a verb and options that the program has."""
    group: Any = typer.main.get_command(build())
    text = (DOCS / "guides" / "ci.md").read_text("utf-8")
    lines = re.findall(r"^\s+(?:- |run: )*(trueput [a-z].*)$", text, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        words = shlex.split(line.partition(" ||")[0])[1:]
        command = group.commands[words.pop(0)]
        if hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, line
