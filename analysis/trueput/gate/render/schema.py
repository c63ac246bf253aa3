"""The JSON Schema of `gate --format json`, from which the reference file is written."""

from __future__ import annotations

import json
from typing import Any

from trueput.gate.policy import BLOCKING, INFORMING
from trueput.gate.render.json_text import SCHEMA, SCHEMA_VERSION
from trueput.gate.rule_api import Outcome
from trueput.gate.verdict import Verdict

_FIGURE = {"anyOf": [{"type": ["number", "null"]}, {"enum": ["inf", "-inf"]}]}
_TEXT = {"type": "string"}
_VERSION = {"type": "string", "pattern": r"^1\.[0-9]+$"}
_RUNS = {"type": "array", "items": _TEXT}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
    }


def _said(kind: dict[str, Any], description: str) -> dict[str, Any]:
    return {**kind, "description": description}


_FINDING = _object(
    rule=_said(_TEXT, "Name of the rule."),
    severity=_said({"enum": [BLOCKING, INFORMING]}, "Whether the rule may decide the verdict."),
    outcome={"enum": [outcome.value for outcome in Outcome]},
    metric=_said(_TEXT, "The figure that was judged."),
    unit=_said(_TEXT, "Unit of baseline and candidate; empty where there is none."),
    baseline=_said(_FIGURE, "Mean over the baseline's runs (of the logs for a ratio)."),
    candidate=_said(_FIGURE, "The same over the candidate's runs."),
    ratio=_said(_FIGURE, "candidate / baseline."),
    ratio_low=_said(_FIGURE, "One-sided lower bound; null where points are compared."),
    ratio_high=_said(_FIGURE, "One-sided upper bound; null where points are compared."),
    confidence=_said({"type": "number"}, "Of each bound."),
    method=_said(_TEXT, "How the bounds were computed."),
    basis=_said(_TEXT, "What the figures rest on: measured, reported, inferred, ..."),
    conclusion=_said(_TEXT, "One sentence."),
    scope=_said(_TEXT, "What the conclusion covers."),
)
_DIFFERENCE = _object(
    aspect=_said(_TEXT, "What differs, or differs among the repeats of one side."),
    baseline=_TEXT,
    candidate=_TEXT,
    difference=_said(_TEXT, "The size of the difference."),
    blocks=_said({"type": "boolean"}, "True where it makes the sides not comparable."),
    holds_back=_said(
        {"type": "boolean"}, "True where nothing passes: the load is not known to be the same."
    ),
)
_COUNTS = {
    "type": "array",
    "items": _object(
        requests=_said({"type": "integer"}, "Planned requests that are of the class."),
        unknown=_said({"type": "integer"}, "Those whose label or prompt length is not known."),
        planned=_said({"type": "integer"}, "All planned requests of the run."),
    ),
}
_CLASS = _object(**{"class": _said(_TEXT, "Whom it is for.")}, baseline=_COUNTS, candidate=_COUNTS)
_CANDIDATE = _object(
    config=_said(_TEXT, "The configuration as it was named."),
    runs=_RUNS,
    verdict={"enum": [verdict.value for verdict in Verdict]},
    reason=_said(_TEXT, "What decided the verdict."),
    slo=_said({"type": ["string", "null"]}, "The objective of the candidate's own runs."),
    settle_runs=_said(
        {"type": ["integer", "null"]},
        "Estimate of the runs on each side that would settle an inconclusive verdict.",
    ),
    findings={"type": "array", "items": _FINDING},
    comparability={"type": "array", "items": _DIFFERENCE},
    classes=_said(
        {"type": "array", "items": _CLASS},
        "Requests of each class of the objective, a count for each run; empty without classes.",
    ),
)


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of this version."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{SCHEMA}, version {SCHEMA_VERSION}",
        "description": "What `trueput gate --format json` prints. Keys may be added within "
        f"{SCHEMA}; none is removed and none changes its meaning.",
        "oneOf": [_result(), _failure()],
    }


def _failure() -> dict[str, Any]:
    """Return the schema of a gate that could not judge: usage, policy or input is not usable."""
    return {
        "title": "not judged",
        **_object(
            schema={"const": SCHEMA},
            schema_version=_VERSION,
            verdict={"type": "null"},
            exit_code={"enum": [2, 70]},
            error=_object(message=_TEXT, hint={"type": ["string", "null"]}),
            candidates={"type": "array", "maxItems": 0},
        ),
    }


def _result() -> dict[str, Any]:
    return {
        "title": "judged",
        **_object(
            schema={"const": SCHEMA},
            schema_version=_VERSION,
            verdict={"enum": [verdict.value for verdict in Verdict]},
            exit_code={"type": "integer", "minimum": 0, "maximum": 99},
            slo=_said({"type": ["string", "null"]}, "The objective, where all runs agree on one."),
            window_rule={"type": ["string", "null"]},
            notes=_said(
                {
                    "type": "array",
                    "items": _object(level={"enum": ["notice", "warning"]}, text=_TEXT),
                },
                "Overrides of the policy, in force or expired, its settings in one sentence, "
                "runs that are one measurement, and requests outside the window.",
            ),
            policy=_said(
                {
                    "type": "array",
                    "items": _object(key=_TEXT, value=_TEXT, default=_TEXT),
                },
                "Settings of the policy that differ from the defaults, of all that decides a "
                "verdict; an override is in `notes`.",
            ),
            baseline=_object(config=_TEXT, runs=_RUNS),
            candidates={"type": "array", "minItems": 1, "items": _CANDIDATE},
        ),
    }


def schema_text() -> str:
    """Return the schema as the reference file holds it."""
    return json.dumps(schema(), indent=2) + "\n"
