"""A gate's result as Markdown for a comment on a change; byte-stable."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from trueput.gate.classes import counts_text
from trueput.gate.render.amounts import MEANS_TEXT, amount, not_applicable, unit_after
from trueput.gate.rule_api import Finding, Outcome
from trueput.gate.verdict import CandidateResult, GateResult, Verdict

TITLES = {
    Verdict.PASS: "pass",
    Verdict.FLAGGED: "flagged",
    Verdict.UNUSABLE: "unusable input",
    Verdict.NOT_COMPARABLE: "not comparable",
    Verdict.INCONCLUSIVE: "inconclusive",
}


def to_markdown(result: GateResult) -> str:
    """Return a comment for a pull request: the verdict first, then what it rests on."""
    lines = [f"## trueput gate: {TITLES[result.verdict]}", ""]
    lines += [f"- objective: {_code(result.slo) if result.slo else result.objective}"]
    lines += [f"- window: {_code(result.window_rule) if result.window_rule else 'unknown'}"]
    lines += [
        f"- baseline: {_code(result.baseline_config)} ({inert(', '.join(result.baseline_runs))})"
    ]
    lines += [f"- **{note.level}**: {prose(note.text)}" for note in result.notes]
    if len(result.candidates) > 1:
        lines += ["", *_overview(result)]
    for candidate in result.candidates:
        lines += ["", *_candidate_lines(candidate, result.baseline_runs, result.several_slos)]
    return "\n".join(lines) + "\n"


def _overview(result: GateResult) -> list[str]:
    lines = ["| candidate | verdict | because |", "|---|---|---|"]
    for candidate in result.candidates:
        words = (inert(candidate.config), TITLES[candidate.verdict], prose(candidate.reason))
        lines.append(f"| {' | '.join(words)} |")
    return lines


def _candidate_lines(
    candidate: CandidateResult, baseline: Sequence[str], several_slos: bool
) -> list[str]:
    lines = [
        f"### {inert(candidate.config)}: {TITLES[candidate.verdict]}",
        "",
        f"Runs {inert(', '.join(candidate.runs))}. Because: {prose(candidate.reason)}.",
    ]
    if several_slos:
        lines.append(f"Objective {_code(candidate.slo) if candidate.slo else 'none'}.")
    if candidate.settle_runs is not None:
        lines.append(
            f"About {candidate.settle_runs} runs on each side would settle it (an estimate)."
        )
    unlike = candidate.verdict is Verdict.NOT_COMPARABLE
    differences = ["", *_differences_table(candidate)] if candidate.comparability else []
    applied = [f for f in candidate.findings if f.outcome is not Outcome.NOT_APPLICABLE]
    if unlike:
        lines += differences
    if applied:
        lines += ["", *_findings_table(applied), ""]
        if max(len(baseline), len(candidate.runs)) > 1:
            lines += [f"{MEANS_TEXT[0].upper()}{MEANS_TEXT[1:]}.", ""]
        lines += [f"- {inert(f.rule)}: {prose(f.conclusion)}" for f in applied]
    if left := not_applicable(candidate.findings):
        lines += ["", f"Not applicable: {', '.join(map(inert, left))}."]
    if not unlike:
        lines += differences
    if candidate.classes:
        lines += ["", *_classes_table(candidate)]
    scopes = dict.fromkeys(f"- {inert(f.rule)}: {prose(f.scope)}" for f in applied)
    if scopes:
        lines += ["", "What this covers:", "", *scopes]
    return lines


def _findings_table(findings: Sequence[Finding]) -> list[str]:
    lines = [
        "| rule | outcome | severity | metric | baseline | candidate | ratio | bounds | basis |",
        "|---|---|---|---|--:|--:|--:|---|---|",
    ]
    for f in findings:
        bounds = "see below" if f.ratio_low is None else _bounds(f.ratio_low, f.ratio_high)
        cells = (
            f.rule,
            f.outcome.value.replace("_", " "),
            f.severity,
            f.metric,
            _amount(f.baseline, f.unit),
            _amount(f.candidate, f.unit),
            _ratio(f.ratio),
            bounds if f.baseline is not None else "",
            f.basis,
        )
        lines.append(f"| {' | '.join(inert(cell) for cell in cells)} |")
    return lines


def _amount(value: float | None, unit: str) -> str:
    text = amount(value, unit)
    return text if text == "unknown" else f"{text}{unit_after(unit)}"


def _ratio(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "unknown"
    return f"{value:.3f}x" if math.isfinite(value) else "inf"


def _bounds(low: float, high: float | None) -> str:
    return f"{low:.3f} to {'unknown' if high is None else f'{high:.3f}'}"


def _differences_table(candidate: CandidateResult) -> list[str]:
    lines = ["| differs | baseline | candidate | by | blocks |", "|---|---|---|---|---|"]
    for d in sorted(candidate.comparability, key=lambda d: (not d.blocks, not d.holds_back)):
        cells = [inert(cell) for cell in (d.aspect, d.baseline, d.candidate)]
        cells += [prose(d.difference), "yes" if d.blocks else "a pass" if d.holds_back else "no"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _classes_table(candidate: CandidateResult) -> list[str]:
    lines = ["| requests of class | baseline | candidate |", "|---|---|---|"]
    for tally in candidate.classes:
        cells = (tally.name, counts_text(tally.baseline), counts_text(tally.candidate))
        lines.append(f"| {' | '.join(inert(cell) for cell in cells)} |")
    return lines


#: What stands between two backticks and is left to be code: nothing that a table could break at.
_CODE = re.compile(r"`([\w\[\]=.,:/\"+-](?:[\w \[\]=.,:/\"+-]*[\w\[\]=.,:/\"+-])?)`", re.ASCII)


def prose(value: str) -> str:
    """Return a sentence of ours, which may name anything: as `inert`, but code stays code.

    What stands between backticks stays code where it is plain words; every other backtick is made
    harmless, so that these are the only ones and pair as they should.
    """
    parts = _CODE.split(" ".join(value.split()))
    return "".join(
        f"`{part}`" if place % 2 else inert(part, "") for place, part in enumerate(parts)
    )


def inert(value: str, between: str = " ") -> str:
    """Return a name that cannot break a table, start a tag, be set in bold, or ping anybody.

    `between` stands for white space; empty: it is left as it is.
    """
    flat = between.join(value.split()) if between else value
    for mark, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "&#124;"),
        ("](", "]&#40;"),
        ("*", "&#42;"),
        ("`", "&#96;"),
        ("@", "@&#8203;"),
    ):
        flat = flat.replace(mark, safe)
    return flat


def _code(value: str) -> str:
    return f"`{' '.join(value.split()).replace('`', '')}`"
