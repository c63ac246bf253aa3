"""A gate's result as text: JSON, Markdown, JUnit XML, GitHub annotations. All byte-stable."""

from __future__ import annotations

from trueput.gate.render.github import to_annotations
from trueput.gate.render.json_text import SCHEMA, SCHEMA_VERSION, to_json
from trueput.gate.render.junit import to_junit
from trueput.gate.render.markdown import to_markdown

__all__ = ["SCHEMA", "SCHEMA_VERSION", "to_annotations", "to_json", "to_junit", "to_markdown"]
