"""A commented policy file: every key with what it does and its default, none of them set."""

from __future__ import annotations

import textwrap

from trueput.gate.policy.keys import ANY, KEYS, LISTED, Key

_WIDTH = 96
_HEAD = (
    "Policy of `trueput gate`: give it with --policy. A line `#key = value` is a setting to take "
    "up: remove its `#`, and that of the [table] above it. An unknown key is an error."
)
_EXAMPLES = {
    "metrics.METRIC": ("metrics.goodput_rps",),
    "must_match": ("engine_version",),
    "under_test": ("concurrency", "config.max_num_seqs"),
    "rules": ("recompute-growth",),
}
_WORDS = {
    "exit": "What the process exits with. 0 lets a job go on; the verdict stays what it is.",
    "slo": "The objective. --slo comes before it; run.toml and the client's own come after it.",
    "slo.class": "Limits of one class of requests. One [[slo.class]] each.",
    "metrics.METRIC": "Limits of one metric, named as in the findings.",
    "must_match": "Aspects that have to be equal on both sides.",
    "under_test": "Aspects that may differ, being what is tried out.",
    "rules": "Severity of a rule.",
    "overrides": "Exceptions that someone answers for, until a day. One [[overrides]] each.",
}


def template() -> str:
    """Return the text of a policy that sets nothing but its version."""
    lines = [*_prose(_HEAD), ""]
    table = ""
    for key in KEYS:
        if key.table != table:
            table = key.table
            lines += [*_prose(_WORDS[table]), _opening(table)]
        if (key.table, key.name) == ("overrides", "aspect"):
            continue
        if (key.table, key.name) == ("overrides", "blocks"):
            aspect = next(k for k in KEYS if (k.table, k.name) == ("overrides", "aspect"))
            lines += _prose(f"In place of rule and severity: aspect = {aspect.example} and "
                            f"blocks = {key.example}. {key.doc}")  # fmt: skip
            continue
        lines += _setting(key)
        if not table or key is _last(table):
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _last(table: str) -> Key:
    return [key for key in KEYS if key.table == table][-1]


def _opening(table: str) -> str:
    if table in LISTED:
        return f"#[[{table}]]"
    name = _EXAMPLES[table][0] if table == "metrics.METRIC" else table
    return f"#[{name}]"


def _setting(key: Key) -> list[str]:
    if key.name == "version":
        return [*_prose(key.doc), f"version = {key.example}"]
    if key.name == ANY:
        return [*_prose(key.doc), *(f"#{name} = {key.example}" for name in _EXAMPLES[key.table])]
    return [*_prose(_worded(key)), f"#{key.name} = {key.example}"]


def _worded(key: Key) -> str:
    if key.default in {"none", "required"} or key.default.startswith("required"):
        return key.doc
    return f"{key.doc} Default: {key.default}."


def _prose(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ",
                         break_on_hyphens=False)  # fmt: skip
