"""A gate's result as JSON for machines; byte-stable."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

from trueput.gate.classes import ClassTally
from trueput.gate.loads import Difference
from trueput.gate.rule_api import Finding
from trueput.gate.verdict import CandidateResult, GateResult

SCHEMA = "trueput.gate/1"
SCHEMA_VERSION = "1.5"
"""Grows in its second part when keys are added; another first part is another schema."""
_DIGITS = 10


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
        "policy": [asdict(setting) for setting in result.policy],
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
        "slo": candidate.slo,
        "settle_runs": candidate.settle_runs,
        "findings": [_finding(finding) for finding in candidate.findings],
        "comparability": [_difference(difference) for difference in candidate.comparability],
        "classes": [_class(tally) for tally in candidate.classes],
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
        "holds_back": difference.holds_back,
    }


def _class(tally: ClassTally) -> dict[str, object]:
    return {
        "class": tally.name,
        "baseline": [asdict(count) for count in tally.baseline],
        "candidate": [asdict(count) for count in tally.candidate],
    }


def _number(value: float | None) -> float | str | None:
    """Return a JSON value with ten significant digits, so that libraries agree on each byte."""
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.{_DIGITS}g}")
