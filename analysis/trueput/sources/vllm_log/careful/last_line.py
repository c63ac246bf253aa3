"""The last line of a log that has no newline: whole, cut off, or of no interest."""

from __future__ import annotations

import re
from typing import Final

from trueput.sources.vllm_log.careful.lines import Lines
from trueput.sources.vllm_log.problems import Problems

COMPLETE: Final = re.compile(
    r"(?:Engine \d+: )?Iteration\(.* (?:ms|\d+)(?: \(dummy\))?$|.*KV cache usage: [\d.]+%$|"
    r"(?:Received|Added|Finished|Aborted) request.*\.$|Request \S+ (?:aborted|failed).*\.$|"
    r"(?:Engine \d+: |\d+ Engines Aggregated: |Avg |Spec|KV T|Prefix).*"
    r"(?:%|reqs|tokens|tokens/s|/device)\.?$"
)
STARTS: Final = (
    "Engine 0",
    "Iteration(",
    "Avg prompt throughput: ",
    "Prefix cache hit rate: ",
    "SpecDecoding metrics: ",
    "Speculative metrics: ",
    "KV Transfer metrics: ",
    "Received request ",
    "Added request ",
    "Finished request ",
    "Aborted request",
    "Request ",
    "Generated response ",
    "Sequence group ",
)
PARTIAL: Final = re.compile(
    r"(?:\([A-Za-z_][^()\]]*(?:\) *)?)?(?:[A-Z]{1,8}(?: *(?:[0-9][0-9 :-]*(?:\[?[^ \]]*\]?)?)?|"
    r": +\S* ?(?:-.*)?))?$"
)


def is_whole(lines: Lines, line: int, problems: Problems) -> bool:
    """Return whether the line can be read as it stands; report it where it is cut off."""
    if not lines.access.is_empty():
        return True
    for message in lines.messages["message"]:
        if COMPLETE.match(message):
            return True
        if any(start.startswith(message) or message.startswith(start) for start in STARTS):
            problems.add("VLOG003", line)
        return False
    for text in lines.rest["text"]:
        if text and PARTIAL.match(text):
            problems.add("VLOG003", line)
    return False
