"""A gate's result as JSON, Markdown, JUnit XML, GitHub annotations, plain lines; byte-stable."""

from __future__ import annotations

from trueput.gate.render.failure import (
    failure_annotations,
    failure_json,
    failure_junit,
    failure_markdown,
    failure_text,
)
from trueput.gate.render.github import to_annotations
from trueput.gate.render.json_text import SCHEMA, SCHEMA_VERSION, to_json
from trueput.gate.render.junit import to_junit
from trueput.gate.render.markdown import to_markdown
from trueput.gate.render.plain import to_line, to_text

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "failure_annotations",
    "failure_json",
    "failure_junit",
    "failure_markdown",
    "failure_text",
    "to_annotations",
    "to_json",
    "to_junit",
    "to_line",
    "to_markdown",
    "to_text",
]
