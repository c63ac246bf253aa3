"""Problems counted by code: the first line and text of each, and how many there were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from trueput.source_api import Problem, Severity

Codes: TypeAlias = Mapping[str, tuple[Severity, str]]
"""Code -> severity and the words that every such problem begins with."""


class Tally:
    """What was odd in one file, one `Problem` for each code."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._found: dict[str, tuple[int | None, int, str]] = {}

    def add(self, code: str, line: int | None = None, text: str = "", count: int = 1) -> None:
        """Count `count` problems; `text` follows the code's words where it is the first."""
        first, before, old = self._found.get(code, (line, 0, text))
        self._found[code] = (first, before + count, old)

    def count(self, code: str) -> int:
        """Return how often the code occurred."""
        return self._found[code][1] if code in self._found else 0

    def problems(self) -> Iterator[Problem]:
        """Yield one `Problem` for each code, in the order of codes."""
        for code, (line, count, text) in sorted(self._found.items()):
            severity, words = self._codes[code]
            yield Problem(code, severity, f"{words}: {text}" if text else words, line, count)


def meanings(codes: Codes) -> dict[str, str]:
    """Return the codes as `Source.problem_codes` wants them."""
    return {code: words for code, (_, words) in codes.items()}
