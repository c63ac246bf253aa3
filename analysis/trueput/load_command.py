"""What a load client's command asks of every request: its settings, and the length of its replies.

Settings go by their option's name with underscores; those that another client spells otherwise, or
that stand in a JSON body, go by vLLM's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DATASET_LENGTH: Final = {
    "random": "random_output_len",
    "random-mm": "random_output_len",
    "random-ids": "random_output_len",
    "custom": "custom_output_len",
    "sharegpt": "sharegpt_output_len",
    "sonnet": "sonnet_output_len",
    "hf": "hf_output_len",
    "prefix_repetition": "prefix_repetition_output_len",
    "spec_bench": "spec_bench_output_len",
}
"""Data set -> the option that asks for its replies' length."""
OUTPUT_LENGTHS: Final = (
    "output_len", "max_tokens", "min_tokens", *dict.fromkeys(DATASET_LENGTH.values()),
)  # fmt: skip
SAMPLING: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
ALIASES: Final = {
    "osl": "output_len", "output_tokens_mean": "output_len", "mean_output_tokens": "output_len",
    "output_sequence_length": "output_len", "synthetic_output_tokens_mean": "output_len",
    "max_completion_tokens": "max_tokens", "random_seed": "seed",
    "random_output": "random_output_len",
}  # fmt: skip
"""Options of other clients, and of the API, by vLLM's name."""
_BODIES: Final = ("extra_body", "extra_request_body", "extra_inputs")


def asked_settings(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain settings of a command's options (names with dashes), as `name: value`."""
    found: dict[str, Any] = {}
    for flag, value in flags.items():
        name = flag.replace("-", "_")
        if name in _BODIES:
            for key, inner in _body(value).items():
                found.setdefault(ALIASES.get(key, key), inner)
        elif isinstance(value, (str, int, float, bool)):
            found[ALIASES.get(name, name)] = value
    return found


def _body(value: Any) -> dict[str, Any]:
    """Return what a body asks for: a JSON object, or words `name:value`."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        words = value if isinstance(value, list) else [value]
        pairs = [(key, told) for word in words if isinstance(word, str)
                 for key, sign, told in [word.partition(":")] if sign]  # fmt: skip
    wanted = {*SAMPLING, *OUTPUT_LENGTHS, *ALIASES, "ignore_eos"}
    return {
        str(key): told
        for key, told in pairs
        if key in wanted and isinstance(told, (str, int, float, bool))
    }


def asked_length(asked: Mapping[str, Any]) -> int | None:
    """Return the output length that the command fixes for every request; None where it varies.

    A range ratio of 0 fixes it; so does 1, which only early versions accept (share of the length
    that the shortest one has).
    """
    dataset = asked.get("dataset_name")
    if isinstance(dataset, str) and dataset.startswith("random"):
        number = _number(asked.get("random_range_ratio"))
        if number not in (0, 1):
            return None
    own = DATASET_LENGTH.get(dataset) if isinstance(dataset, str) else None
    for key in ("output_len", own):
        length = asked.get(key) if key else None
        if isinstance(length, int) and not isinstance(length, bool) and length > 0:
            return length
    return None


def fixed_length(flags: Mapping[str, Any]) -> int | None:
    """Return the output length that a command's options fix.

    Without a data set an option of one says which. Without a range ratio it is not known whether
    random lengths vary: versions differ.
    """
    asked = asked_settings(flags)
    if "dataset_name" not in asked:
        named = [d for d, option in DATASET_LENGTH.items() if option in asked]
        asked["dataset_name"] = named[0] if named else None
    return asked_length(asked)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
