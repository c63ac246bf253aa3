"""explain: a glossary term, rule, problem code, verdict, table or view."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from trueput.attribution.run import PROBLEM_CODES as ATTRIBUTION_CODES
from trueput.errors import UsageError
from trueput.gate.rules import discover
from trueput.ingest.run import PROBLEM_CODES as INGEST_CODES
from trueput.ingest.run_toml import PROBLEM_CODES as RUN_CODES
from trueput.schema import glossary, remedies, tables, views
from trueput.sources import all_sources
from trueput.warehouse.codes import PROBLEM_CODES as VIEW_CODES


@dataclass(frozen=True)
class Explanation:
    """What a word of trueput means."""

    term: str
    kind: str
    text: str
    formula: str = ""
    elsewhere: str = ""
    remedy: str = ""
    """What to do about a problem."""


VERDICTS = {
    "pass": "Every blocking rule passed or did not apply.",
    "flagged": "A blocking rule's condition is shown.",
    "inconclusive": "A blocking rule can be shown neither way with these runs.",
    "not_comparable": "The two sides differ in what was asked of them; findings decide nothing.",
    "unusable": "A run holds too little that can be read to judge it.",
}


def _known() -> dict[str, Explanation]:
    found: dict[str, Explanation] = {}
    for name, table in {**tables(), **views()}.items():
        found[name] = Explanation(name, table.kind, table.doc)
    for source in all_sources():
        for code, meaning in source.problem_codes.items():
            kind, remedy = f"problem of {source.name}", remedies().get(code, remedies()["source"])
            found[code.lower()] = Explanation(code, kind, meaning, remedy=remedy)
    for codes in (INGEST_CODES, RUN_CODES, ATTRIBUTION_CODES, VIEW_CODES):
        for code, meaning in codes.items():
            remedy = remedies().get(code, "")
            found[code.lower()] = Explanation(code, "problem", meaning, remedy=remedy)
    for rule in discover():
        text = f"Flags when {rule.summary}."
        found[rule.name] = Explanation(rule.name, f"gate rule, {rule.severity}", text)
    for name, text in VERDICTS.items():
        found[name] = Explanation(name, "verdict", text)
    for term in glossary().values():
        entry = Explanation(term.name, "term", term.definition, term.formula, term.elsewhere)
        found[term.name.lower()] = entry
    return found


def explain(term: str | None = None) -> list[Explanation]:
    """Return what `term` means; without one, everything that can be explained."""
    known = _known()
    if term is None:
        return [known[k] for k in sorted(known)]
    key = term.strip().lower()
    for candidate in (key, key.replace("_", "-"), key.replace("-", "_"), key.replace("_", " ")):
        if candidate in known:
            return [known[candidate]]
    near = difflib.get_close_matches(key, known, 3)
    hint = (
        "did you mean " + " or ".join(f"`{known[n].term}`" for n in near) + "?"
        if near
        else ("`trueput explain` lists all terms")
    )
    raise UsageError(f"`{term}` is no term, rule, problem code, verdict, table or view", hint)
