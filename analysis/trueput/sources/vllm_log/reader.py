"""The bytes of a block -> what stands in it, where it can be read quickly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trueput.clock import ClockKind
from trueput.sources.vllm_log.block import Block
from trueput.sources.vllm_log.dates import Dates
from trueput.sources.vllm_log.fast import scan
from trueput.sources.vllm_log.places import Text
from trueput.sources.vllm_log.problems import Problems

CR: Final = ord("\r")


@dataclass
class LineReader:
    """What must be remembered between blocks to read the next one.

    `open` holds the beginnings of messages of several lines, `unfinished` those of lines that a
    container runtime split.
    """

    dates: Dates
    crlf: bool
    problems: Problems
    clock: ClockKind | None = None
    last_at: int | None = None
    prefixed: int = 0
    open: set[str] = field(default_factory=set)
    unfinished: set[str] = field(default_factory=set)

    def quickly(self, text: Text, first_line: int) -> Block | None:
        """Return what stands in a block of clean, whole lines, None where it must be read with
        care."""
        if self.open or self.unfinished or (text.controls[1] == CR).any():
            return None
        if self.clock is ClockKind.UTC:
            return None
        block = scan(text, first_line, self.dates, self.last_at)
        if block is None:
            return None
        if len(block.times[0]):
            self.clock = ClockKind.LOCAL
        self.prefixed += len(block.times[0])
        last = block.last_time()
        if last is not None:
            self.last_at = last
        return block
