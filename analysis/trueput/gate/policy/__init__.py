"""The gate's policy: a small TOML file, every key of which is used and every other is an error.

`keys` declares the keys, `model` holds what they mean, `read` turns a file into a `Policy`,
`template` writes a commented file.
"""

from __future__ import annotations

from trueput.gate.policy.model import (
    BLOCKING,
    INFORMING,
    VERSION,
    Limits,
    Note,
    Override,
    Policy,
)
from trueput.gate.policy.read import load_policy, parse_policy

__all__ = [
    "BLOCKING", "INFORMING", "VERSION", "Limits", "Note", "Override", "Policy", "load_policy",
    "parse_policy",
]  # fmt: skip
