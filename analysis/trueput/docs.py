"""The generated reference pages: tables, views, SQL, words, formats, problems, rules, policy, CLI.

Each page says what the program itself reads: the schema files, the SQL headers, the sources'
declarations, the rules. `stale` compares them with the committed ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trueput.attribution.run import PROBLEM_CODES as ATTRIBUTION_CODES
from trueput.gate.comparability import ASPECTS
from trueput.gate.policy.keys import KEYS as POLICY_KEYS
from trueput.gate.policy.metrics import METRICS as POLICY_METRICS
from trueput.gate.render.schema import schema_text
from trueput.gate.rule_api import Outcome
from trueput.gate.rules import discover
from trueput.ingest.run import PROBLEM_CODES as INGEST_CODES
from trueput.ingest.run_toml import PROBLEM_CODES as RUN_TOML_CODES
from trueput.schema import BASIS_MEMBERS, Column, Table, glossary, remedies, tables, views
from trueput.sources import all_sources
from trueput.warehouse.codes import PROBLEM_CODES
from trueput.warehouse.models import LAYERS, macros, models

FOLDER = "docs/reference"
"""Where the generated pages lie in a checkout."""

_MADE = "<!-- Written by `trueput docs`. Edit its source, not this page. -->"


def pages(cli_reference: str = "") -> dict[str, str]:
    """Return every generated page by its path from the root of a checkout.

    `cli_reference` is the text of the commands' page; without it that page is left out.
    """
    found = {
        "tables.md": _tables_page(),
        "views.md": _views_page(),
        "sql.md": _sql_page(),
        "glossary.md": _glossary_page(),
        "sources.md": _sources_page(),
        "problems.md": _problems_page(),
        "rules.md": _rules_page(),
        "policy.md": _policy_page(),
    }
    found["gate.schema.json"] = schema_text()
    if cli_reference:
        found["cli.md"] = _page("Commands", _CLI_INTRO, cli_reference)
    return {f"{FOLDER}/{name}": text for name, text in sorted(found.items())}


def stale(root: Path, cli_reference: str = "") -> list[str]:
    """Return the pages under `root` that differ from the generated ones, are missing or left."""
    made = pages(cli_reference)
    old = [
        name
        for name, text in made.items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]
    there = {f"{FOLDER}/{path.name}" for path in (root / FOLDER).glob("*.*")}
    return sorted({*old, *(there - set(made))})


def problem_codes() -> dict[str, tuple[str, str]]:
    """Return every problem code with who reports it and what it means."""
    found = {
        code: (f"source `{source.name}`", text)
        for source in all_sources()
        for code, text in source.problem_codes.items()
    }
    for codes, who in (
        (INGEST_CODES, "ingest"),
        (RUN_TOML_CODES, "`run.toml`"),
        (ATTRIBUTION_CODES, "attribution"),
        (PROBLEM_CODES, "view `problems`"),
    ):
        found.update({code: (who, text) for code, text in codes.items()})
    return dict(sorted(found.items()))


def _page(title: str, *parts: str) -> str:
    text = "\n\n".join([_MADE, f"# {title}", *(part.strip() for part in parts if part.strip())])
    return text + "\n"


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(value) for value in row) + " |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _column_row(column: Column) -> tuple[str, str, str, str, str]:
    meaning = column.doc
    if column.enum and column.enum != BASIS_MEMBERS:
        words = "; ".join(f"`{word}` {text}" for word, text in column.enum.items())
        meaning = f"{meaning} {words}."
    return (
        f"`{column.name}`",
        column.storage,
        column.shown_unit,
        column.null_means if column.null else "never",
        meaning,
    )


def _table(table: Table) -> str:
    parts = [f"## {table.name}", table.doc]
    if table.key:
        parts.append("Key: " + ", ".join(f"`{name}`" for name in table.key) + ".")
    if table.null_rule:
        parts.append(table.null_rule)
    head = ("column", "type", "unit", "NULL when", "what it is")
    parts.append(_grid(head, map(_column_row, table.columns)))
    return "\n\n".join(parts)


def _bases() -> str:
    words = "; ".join(f"`{word}` {text}" for word, text in BASIS_MEMBERS.items())
    return f"Columns named `basis` or ending in `_basis` hold one of: {words}."


def _tables_page() -> str:
    return _page("Tables", _TABLES_INTRO, _bases(), *map(_table, tables().values()))


def _views_page() -> str:
    known = models()
    texts = []
    for view in views().values():
        text = _table(view)
        if view.name in known:
            why = " ".join(known[view.name].header.splitlines()).partition(". ")[2]
            if why:
                text = text.replace(f"{view.doc}\n", f"{view.doc}\n\n> {why}\n", 1)
        texts.append(text)
    both = [name for name in known if name in tables()]
    more = ", ".join(f"`{name}`" for name in sorted({*both, "slo_policy"}))
    same = f"{more} are views too, with the columns of the tables of those names ([tables.md])."
    return _page("Views", _VIEWS_INTRO, same, _bases(), *texts, "[tables.md]: tables.md")


def _sql_page() -> str:
    made = []
    for name, text in macros().items():
        comment = " ".join(x[2:].strip() for x in text.splitlines() if x.startswith("--"))
        call = text.split("MACRO", 1)[1].split(")", 1)[0].strip() + ")"
        made.append((f"`{call}`" if call.startswith(name) else f"`{name}`", comment))
    parts = ["## Macros", _grid(("macro", "what it gives"), made)]
    for layer in LAYERS:
        parts += [f"## {layer}", _LAYERS[layer]]
        for model in models().values():
            if model.layer == layer:
                header = "\n".join(f"> {line}".rstrip() for line in model.header.splitlines())
                parts.append(f"### {model.name}\n\n{header}")
    return _page("SQL files", _SQL_INTRO, *parts)


def _glossary_page() -> str:
    parts = []
    for term in glossary().values():
        text = f"**{term.name}**: {term.definition}"
        if term.formula:
            text += f"\n\n    {term.formula}"
        if term.elsewhere:
            text += f"\n\n*Elsewhere:* {term.elsewhere}"
        parts.append(text)
    return _page("Glossary", _GLOSSARY_INTRO, _conflicts(), "## Terms", *parts)


def _conflicts() -> str:
    head = ("word", "here", "elsewhere")
    found = glossary()
    rows = [
        (f"`{name}`", found[name].formula or found[name].definition, found[name].elsewhere)
        for name in ("ttft", "tpot", "itl", "e2e", "goodput_rps", "slo_attainment", "complete")
    ]
    return f"## Words that other tools use otherwise\n\n{_grid(head, rows)}"


def _sources_page() -> str:
    overview = _grid(
        ("format", "what it is", "versions", "tables"),
        [
            (f"`{s.name}`", s.title, s.versions, ", ".join(f"`{t}`" for t in s.tables))
            for s in all_sources()
        ],
    )
    parts = []
    for source in all_sources():
        text = f"## {source.name}\n\n{source.title}."
        if source.proves:
            text += f"\n\nWhat it can prove: {source.proves.rstrip('.')}."
        if source.turn_on:
            text += f"\n\nTurned on by: `{source.turn_on}`"
        if source.problem_codes:
            codes = sorted(source.problem_codes.items())
            grid = _grid(("problem", "meaning"), [(f"`{c}`", t) for c, t in codes])
            text += f"\n\n{grid}"
        parts.append(text)
    return _page("Formats", _SOURCES_INTRO, overview, *parts)


def _problems_page() -> str:
    rows = [(f"`{code}`", who, text) for code, (who, text) in problem_codes().items()]
    told = [(f"`{code}`", remedies()[code]) for code in problem_codes() if code in remedies()]
    return _page(
        "Problem codes",
        _PROBLEMS_INTRO,
        _grid(("code", "from", "meaning"), rows),
        "## What to do",
        f"Of the codes of formats: {remedies()['source']}",
        _grid(("code", "what to do"), told),
    )


def _rules_page() -> str:
    rules = discover()
    rows = [(f"`{r.name}`", r.severity, r.summary) for r in rules]
    parts = [_grid(("rule", "default severity", "flags when"), rows)]
    for rule in rules:
        module = inspect.getmodule(rule.check)
        text = inspect.getdoc(module) if module else None
        parts.append(f"## {rule.name}\n\n{text or rule.summary}")
    outcomes = ", ".join(f"`{outcome}`" for outcome in Outcome)
    return _page("Gate rules", _RULES_INTRO.format(outcomes=outcomes), *parts)


def _policy_page() -> str:
    rows = [(f"`{key.shown}`", key.default, key.doc) for key in POLICY_KEYS]
    units = ", ".join(f"`{metric}` ({unit})" for metric, unit in POLICY_METRICS.items())
    aspects = ", ".join(f"`{name}`" for name in ASPECTS)
    names = ", ".join(f"`{rule.name}`" for rule in discover())
    return _page(
        "Policy of the gate",
        _POLICY_INTRO,
        _grid(("key", "default", "what it does"), rows),
        f"Aspects: {aspects}, and `config.NAME` for one engine setting.",
        f"Rules: {names}.",
        f"Metrics, with the unit of `floor`: {units}.",
        _POLICY_OVERRIDES,
        f"```toml\n{_POLICY_EXAMPLE}```",
    )


_TABLES_INTRO = """
What `ingest` stores, as Parquet under `<store>/<table>/`. Every row names its run (`run_id`).
Instants (`*_at_ns`) and spans (`*_ns`) are 64-bit nanoseconds, instants since the Unix epoch in UTC
where the way to UTC is known (table `sources`). NULL means "not observed"; 0 means "observed, and
none". In SQL each table is a view of the same name.
"""

_VIEWS_INTRO = """
What the tables mean. `trueput sql`, `trueput db` and the library offer them under these names; what
nothing fills is empty and typed. Views named `check_*` must be empty.
"""

_SQL_INTRO = """
Every view is one file under `analysis/trueput/sql`, a bare `SELECT` that can be pasted into any
DuckDB shell on a file that `trueput db` wrote. Raw Parquet rows stand in schema `raw`.
"""

_LAYERS: Mapping[str, str] = {
    "staging": "Tables, tied together and renamed; nothing is calculated.",
    "intermediate": "Steps on the way; internal, and free to change.",
    "marts": "The public views; their columns stand in [views](views.md).",
    "checks": "What must hold for every run: each returns the rows that break it.",
}

_GLOSSARY_INTRO = """
The words of trueput, as `trueput explain TERM` prints them. They come from `schemas/glossary.toml`.
"""

_SOURCES_INTRO = """
The formats that trueput reads, plain, `.gz` or `.zst`. A file is claimed by its content, not by its
name. `trueput doctor FOLDER` says what the files of a folder can prove and what is missing.
"""

_PROBLEMS_INTRO = """
What was not as it should be in the input becomes a row of `problems`, never a crash. Codes are
stable. Severity: `info` nothing was lost; `warning` a record or part of one was not read; `error`
the rest of a file or a kind of record was not read.
"""

_RULES_INTRO = """
Each rule judges one thing and gives findings with figures, bounds, basis, one sentence of
conclusion and one of scope. A finding's outcome is one of {outcomes}. How they make a verdict:
[the gate](../concepts/gate.md). The policy may make a rule blocking or informing.
"""

_POLICY_INTRO = """
A policy is a small TOML file, given with `--policy`. Every key is optional; an unknown one is an
error that names the nearest known key. `trueput policy init` writes a commented file,
`trueput policy check FILE` reads one and says what it holds a candidate to.
"""

_POLICY_OVERRIDES = """
An override is an exception that someone answers for, until a day: it names a `rule` with its
`severity`, or an `aspect` and whether it `blocks`, and `owner`, `reason` and `expires`. While it is
in force every output says so. Once it has expired it is not applied: the stricter verdict is back,
and every output carries a warning. It is no error, so that a gate at night still judges.
"""

_POLICY_EXAMPLE = """version = 1
min_effect = 0.05
run_log_sd = 0.08
repeats = 3

[exit]
not_comparable = 4

[slo]
ttft = "500ms"
tpot = "50ms"
min_output_tokens = 1
undefined = "pass"

[must_match]
hardware = true

[under_test]
concurrency = true

[rules]
recompute-growth = "blocking"

[metrics.goodput_rps]
min_effect = 0.03
floor = 0.1

[[overrides]]
rule = "first-token-only"
severity = "informing"
owner = "serving-team"
reason = "a known cost of the new scheduler"
expires = 2027-01-31
"""

_CLI_INTRO = """
Every command has a function of the same name in the library. Exit codes: 0 pass, 1 flagged, 2 usage
or unusable input, 3 inconclusive or not comparable, 70 a bug of trueput.
"""
