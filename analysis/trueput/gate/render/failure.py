"""A gate that could not judge at all, in the forms for machines: nobody waits for a missing file.

The command, the policy or the input was not usable (exit code 2), or trueput itself failed (70).
There is no verdict.
"""

from __future__ import annotations

import json
from xml.etree import ElementTree as Xml

from trueput.errors import TrueputError
from trueput.gate.render.github import annotation
from trueput.gate.render.json_text import SCHEMA, SCHEMA_VERSION
from trueput.gate.render.junit import document, legal
from trueput.gate.render.markdown import prose

_TITLE = "trueput gate: not judged"


def failure_json(error: TrueputError) -> str:
    """Return a document of the same schema without a verdict: ``error`` says why."""
    made: dict[str, object] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "verdict": None,
        "exit_code": int(error.exit_code),
        "error": {"message": error.message, "hint": error.hint},
        "candidates": [],
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def failure_junit(error: TrueputError) -> str:
    """Return a document with one test case, in error."""
    suite = Xml.Element("testsuite", name="trueput gate")
    case = Xml.SubElement(suite, "testcase", classname="trueput.gate", name="input", time="0")
    state = Xml.SubElement(case, "error", message=legal(error.message), type="not_judged")
    state.text = legal(str(error))
    return document([suite])


def failure_annotations(error: TrueputError) -> str:
    """Return one workflow command: an error."""
    return f"{annotation('error', _TITLE, str(error))}\n"


def failure_markdown(error: TrueputError) -> str:
    """Return a comment that says why there is no verdict."""
    lines = [f"## {_TITLE}", "", prose(error.message)]
    if error.hint:
        lines += ["", f"Hint: {prose(error.hint)}"]
    return "\n".join(lines) + "\n"


def failure_text(error: TrueputError) -> str:
    """Return plain lines."""
    return f"{_TITLE}: {error}\n"
