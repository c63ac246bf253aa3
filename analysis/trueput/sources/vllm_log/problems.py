"""The problem codes of vLLM logs, and one counted `Problem` per code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trueput.source_api import Problem, Severity

CODES: Final = {
    "VLOG001": "the compressed file breaks; what came before was read",
    "VLOG002": "bytes that are no UTF-8 text were replaced",
    "VLOG003": "the last line is cut off and was not read",
    "VLOG004": "an iteration line could not be read",
    "VLOG005": "a statistics line, or a part of one, could not be read",
    "VLOG006": "a request line could not be read",
    "VLOG007": "a line starts as a JSON object and is none",
    "VLOG008": "iteration numbers are missing between two iteration lines of one engine",
    "VLOG009": "the engine died; requests in flight have no further record",
    "VLOG010": "the server ran with --disable-log-stats: no statistics, metrics or iteration lines",
    "VLOG011": "dates run backwards; the order of the lines was kept",
    "VLOG012": "a date that does not exist; those lines have no time",
    "VLOG013": "a line is longer than 16 MiB; only its start was looked at",
    "VLOG014": "no line of this file has a vLLM prefix",
    "VLOG015": "the last date lies after the file's own time; the year was guessed wrong",
    "VLOG016": "lines that look complete were taken as the rest of a message of several lines, "
    "as the carriage return before them says; they were not read",
    "VLOG017": "lines with a level and a time but no date are of an unknown form; not read",
}
"""What each code means."""

SEVERITIES: Final = {
    "VLOG001": Severity.ERROR,
    "VLOG008": Severity.WARNING,
    "VLOG010": Severity.INFO,
    "VLOG011": Severity.INFO,
    "VLOG013": Severity.INFO,
}
"""Other codes are warnings."""


@dataclass
class Problems:
    """Counts problems by code and keeps the first line and text of each."""

    _first: dict[str, tuple[int | None, str]] = field(default_factory=dict)
    _count: dict[str, int] = field(default_factory=dict)

    def add(self, code: str, line: int | None, *, text: str = "", count: int = 1) -> None:
        """Count a problem; the text of the one with the lowest line is kept, by default the
        meaning of the code."""
        first = self._first.get(code)
        if first is None or (line is not None and first[0] is not None and line < first[0]):
            self._first[code] = (line, text or CODES[code])
        self._count[code] = self._count.get(code, 0) + count

    def items(self) -> Iterator[Problem]:
        """Yield one problem per code."""
        for code, (line, text) in sorted(self._first.items()):
            severity = SEVERITIES.get(code, Severity.WARNING)
            yield Problem(code, severity, text, line, self._count[code])
