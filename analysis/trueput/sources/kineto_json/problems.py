"""What can be wrong with a trace: codes, and a count of each with the first place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trueput.scan import Damage, byte_chunks
from trueput.source_api import Problem, Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

TEXTS = {
    "KINETO001": (_E, "no list of trace events in this file"),
    "KINETO002": (_E, "the compressed file is damaged, the rest is not read"),
    "KINETO003": (_E, "the list of events is cut: what came before was read"),
    "KINETO004": (_W, "an event could not be read"),
    "KINETO005": (_W, "an event is no JSON: its fields were recovered"),
    "KINETO006": (_W, "bytes of an event are no UTF-8: replaced"),
    "KINETO007": (_W, "an event has no usable time: dropped"),
    "KINETO008": (_W, "an event has ts 0 and no length, a mark of a lost time: dropped"),
    "KINETO009": (_W, "an event ends before it starts: dropped"),
    "KINETO010": (_I, "an operation has no length: kept, marked"),
    "KINETO011": (_I, "no GPU operation in this trace: it tells nothing of a GPU, not even idle"),
    "KINETO012": (
        _W,
        "work was launched and none of its GPU operations is here: neither busy nor idle",
    ),
    "KINETO013": (_W, "graphs were launched and no kernel of one was recorded: blind, not idle"),
    "KINETO014": (_W, "one operation takes more than half of the trace"),
    "KINETO015": (_W, "the profiler stopped early: what ran after that was not recorded"),
    "KINETO016": (_W, "times count from an unknown zero: no baseTimeNanoseconds"),
    "KINETO017": (_I, "times are epoch times already: baseTimeNanoseconds was not added"),
    "KINETO018": (_W, "metadata could not be read"),
    "KINETO019": (_I, "a trace of graph capture, not of serving"),
    "KINETO020": (_W, "a GPU operation names no device"),
    "KINETO021": (_W, "the file is cut behind its events: what stood there is not known"),
    "KINETO022": (_W, "text that is no JSON stands in the document: passed over"),
    "KINETO023": (_I, "records outside the profiler's window, such as those of its warm-up"),
    "KINETO024": (_W, "a GPU operation is told by a begin and an end (B, E): not read"),
    "KINETO025": (_W, "so many operations were dropped that gaps between the rest are not idle"),
}

PROBLEM_CODES: Mapping[str, str] = {code: text for code, (_, text) in TEXTS.items()}


@dataclass
class _Found:
    count: int
    place: int | None
    detail: str


@dataclass
class Problems:
    """Problems by code: how many, and the first place (bytes into the decompressed file)."""

    found: dict[str, _Found] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, place: int | None = None, detail: str = "") -> None:
        """Count problems of a code; the first place and detail are kept."""
        if count <= 0:
            return
        known = self.found.get(code)
        if known is None:
            self.found[code] = _Found(count, place, detail)
        else:
            known.count += count

    def count(self, *codes: str) -> int:
        """Return how many there were of these codes."""
        return sum(self.found[code].count for code in codes if code in self.found)

    def items(self, path: Path) -> Iterator[Problem]:
        """Yield one `Problem` per code, in order, with its line in the file."""
        places = sorted(f.place for f in self.found.values() if f.place is not None)
        lines = _lines_at(path, places) if places else {}
        for code, found in sorted(self.found.items()):
            severity, text = TEXTS[code]
            line = None if found.place is None else lines.get(found.place)
            words = f"{text}: {found.detail}" if found.detail else text
            yield Problem(code, severity, words, line, found.count)


def _lines_at(path: Path, places: list[int]) -> dict[int, int]:
    """Return the 1-based line of each place (ascending); reads the file once more, up to there."""
    lines: dict[int, int] = {}
    line, at, waiting = 1, 0, list(places)
    for chunk in byte_chunks(path):
        if isinstance(chunk, Damage):
            break
        while waiting and waiting[0] < at + len(chunk):
            lines[waiting[0]] = line + chunk.count(b"\n", 0, waiting[0] - at)
            waiting.pop(0)
        if not waiting:
            break
        line += chunk.count(b"\n")
        at += len(chunk)
    for place in waiting:
        lines[place] = line
    return lines
