"""A gate's result as JSON for machines and as Markdown for a pull request; byte-stable."""

from __future__ import annotations

import json
import math

from trueput.gate.loads import Difference
from trueput.gate.rule_api import Finding
from trueput.gate.verdict import CandidateResult, GateResult, Verdict

SCHEMA = "trueput.gate/1"
SCHEMA_VERSION = "1.1"
"""Grows in its second part when keys are added; another first part is another schema."""
_DIGITS = 10
_TITLES = {
    Verdict.PASS: "pass",
    Verdict.FLAGGED: "flagged",
    Verdict.UNUSABLE: "unusable input",
    Verdict.NOT_COMPARABLE: "not comparable",
    Verdict.INCONCLUSIVE: "inconclusive",
}


def to_json(result: GateResult) -> str:
    """Return the result under schema ``trueput.gate/1``: NaN as null, infinities as text."""
    document = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "verdict": result.verdict.value,
        "exit_code": result.exit_code,
        "slo": result.slo,
        "window_rule": result.window_rule,
        "notes": [{"level": note.level, "text": note.text} for note in result.notes],
        "baseline": {"config": result.baseline_config, "runs": list(result.baseline_runs)},
        "candidates": [_candidate(candidate) for candidate in result.candidates],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _candidate(candidate: CandidateResult) -> dict[str, object]:
    return {
        "config": candidate.config,
        "runs": list(candidate.runs),
        "verdict": candidate.verdict.value,
        "reason": candidate.reason,
        "settle_runs": candidate.settle_runs,
        "findings": [_finding(finding) for finding in candidate.findings],
        "comparability": [_difference(difference) for difference in candidate.comparability],
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "outcome": finding.outcome.value,
        "metric": finding.metric,
        "unit": finding.unit,
        "baseline": _number(finding.baseline),
        "candidate": _number(finding.candidate),
        "ratio": _number(finding.ratio),
        "ratio_low": _number(finding.ratio_low),
        "ratio_high": _number(finding.ratio_high),
        "confidence": finding.confidence,
        "method": finding.method,
        "basis": finding.basis,
        "conclusion": finding.conclusion,
        "scope": finding.scope,
    }


def _difference(difference: Difference) -> dict[str, object]:
    return {
        "aspect": difference.aspect,
        "baseline": difference.baseline,
        "candidate": difference.candidate,
        "difference": difference.difference,
        "blocks": difference.blocks,
    }


def _number(value: float | None) -> float | str | None:
    """Return a JSON value with ten significant digits, so that libraries agree on each byte."""
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.{_DIGITS}g}")


def to_markdown(result: GateResult) -> str:
    """Return a comment for a pull request: the verdict first, then what it rests on."""
    lines = [f"## trueput gate: {_TITLES[result.verdict]}", ""]
    lines += [f"- objective: {_code(result.slo) if result.slo else 'none'}"]
    lines += [f"- window: {_code(result.window_rule) if result.window_rule else 'unknown'}"]
    lines += [
        f"- baseline: {_code(result.baseline_config)} ({_cell(', '.join(result.baseline_runs))})"
    ]
    lines += [f"- **{note.level}**: {_cell(note.text)}" for note in result.notes]
    for candidate in result.candidates:
        lines += ["", *_candidate_lines(candidate)]
    return "\n".join(lines) + "\n"


def _candidate_lines(candidate: CandidateResult) -> list[str]:
    lines = [
        f"### {_cell(candidate.config)}: {_TITLES[candidate.verdict]}",
        "",
        f"Runs {_cell(', '.join(candidate.runs))}. Because: {_cell(candidate.reason)}.",
    ]
    if candidate.settle_runs is not None:
        lines.append(
            f"About {candidate.settle_runs} runs on each side would settle it (an estimate)."
        )
    if candidate.findings:
        lines += ["", *_findings_table(candidate)]
        lines += ["", *(f"- {_cell(f.rule)}: {_cell(f.conclusion)}" for f in candidate.findings)]
    if candidate.comparability:
        lines += ["", *_differences_table(candidate)]
    scopes = dict.fromkeys(f"- {_cell(f.rule)}: {_cell(f.scope)}" for f in candidate.findings)
    if scopes:
        lines += ["", "What this covers:", "", *scopes]
    return lines


def _findings_table(candidate: CandidateResult) -> list[str]:
    lines = [
        "| rule | outcome | severity | metric | baseline | candidate | ratio | bounds | basis |",
        "|---|---|---|---|--:|--:|--:|---|---|",
    ]
    for f in candidate.findings:
        bounds = (
            f"{_shown(f.ratio_low)} to {_shown(f.ratio_high)}"
            if f.ratio_low is not None
            else "see below"
        )
        cells = (
            f.rule,
            f.outcome.value.replace("_", " "),
            f.severity,
            f"{f.metric} ({f.unit})" if f.unit else f.metric,
            _shown(f.baseline),
            _shown(f.candidate),
            _shown(f.ratio),
            bounds if f.baseline is not None else "",
            f.basis,
        )
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return lines


def _differences_table(candidate: CandidateResult) -> list[str]:
    lines = ["| differs | baseline | candidate | by | blocks |", "|---|---|---|---|---|"]
    for d in candidate.comparability:
        cells = (d.aspect, d.baseline, d.candidate, d.difference, "yes" if d.blocks else "no")
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return lines


def _shown(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "unknown"
    return f"{value:.4g}"


def _cell(value: str) -> str:
    """Return text that cannot break a table or start a tag, whatever a run is called."""
    flat = " ".join(value.split())
    for mark, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "&#124;"),
        ("](", "]&#40;"),
    ):
        flat = flat.replace(mark, safe)
    return flat


def _code(value: str) -> str:
    return f"`{' '.join(value.split()).replace('`', '')}`"
