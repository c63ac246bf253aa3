"""vLLM server logs, text and JSON, 0.4 to 0.33 (V0 and V1).

A file is read in blocks of a few MiB. The lines of a block are cut into messages (see
`lines`), and every kind of message is parsed for all its lines at once; Python runs per
line only for rare kinds: start-up, warnings, statistics that were printed twice.

| line | becomes |
|---|---|
| `Iteration(1234): ...` | engine_steps |
| `Avg prompt throughput: ...`, `SpecDecoding metrics: ...`, ... | engine_samples, `log:<name>` |
| `Received`, `Added`, `Finished`, `Aborted request`, preemption warnings | request_events |
| `INFO:     127.0.0.1:54321 - "POST /v1/completions HTTP/1.1" 200 OK` | request_events |
| version, arguments, engine configuration, KV-cache size, end of start-up | facts |

The line's own time is local wall time without a year, to the second. Where a collector put a
stamp with a zone in front, that stamp is taken instead and the clock is UTC.

Problem codes: see `problems.CODES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trueput.clock import ClockKind
from trueput.scan import MAX_LINE_BYTES, Damage, Filler, plain_name, read_head
from trueput.source_api import (
    BATCH_ROWS,
    HEAD_BYTES,
    NOT_MINE,
    Batch,
    Clock,
    Fact,
    Item,
    ReadOptions,
    Sniff,
    Source,
)
from trueput.sources.vllm_log.block import NO_TIME, Block
from trueput.sources.vllm_log.dates import Dates
from trueput.sources.vllm_log.facts import DATELESS, INTERESTING, REST, Facts
from trueput.sources.vllm_log.lives import Lives, Numbered
from trueput.sources.vllm_log.places import PADDING, Flags, Places, Text
from trueput.sources.vllm_log.prefix import PREFIX
from trueput.sources.vllm_log.problems import CODES, Problems
from trueput.sources.vllm_log.reader import LineReader
from trueput.sources.vllm_log.requests import Requests
from trueput.sources.vllm_log.samples import STATS, Samples
from trueput.sources.vllm_log.text import clean, is_broken_json, is_clean, is_crlf

BLOCK_BYTES: Final = 8 << 20
SPARE_BYTES: Final = 64 << 10
"""Room for the beginning of a line that the piece before left."""
STRONG: Final = re.compile(
    rb"vLLM|Iteration\(\d+\): |Avg prompt throughput: |\[async_llm(?:_engine)?\.py:|"
    rb"\[(?:v1/)?(?:engine/)?(?:core|llm_engine|loggers|metrics)\.py:|Received request "
)
PREFIXED: Final = re.compile(rb"(?m)" + PREFIX[1:].replace(r"\r?$", r"\r?$").encode())
JSON_LINE: Final = re.compile(
    rb'(?m)^\{(?=[^\n]*"(?:levelname|level)")(?=[^\n]*"(?:message|msg)")[^\n]*'
)
ACCESS_LINE: Final = re.compile(rb'(?m)^(?:\([^()\n]*\) )?INFO: +\S+ - "[A-Z]+ \S+ HTTP/')
QUOTING: Final = (".md", ".rst", ".html", ".py", ".toml")
"""Files that may quote a log."""
CLIENT: Final = re.compile(rb"Serving Benchmark Result|Starting initial single prompt test run")


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that a file with this head is a vLLM server log."""
    if plain_name(name).endswith(QUOTING):
        return NOT_MINE
    lines = len(PREFIXED.findall(head))
    marks = len(STRONG.findall(head))
    if CLIENT.search(head):
        return Sniff(0.1, "console output of a load client") if lines else NOT_MINE
    if lines and marks:
        return Sniff(0.95, f"{lines} lines with vLLM's log prefix")
    if marks and JSON_LINE.search(head):
        return Sniff(0.85, "JSON log lines of vLLM")
    is_log = plain_name(name).endswith((".log", ".txt", ".out", ".err"))
    if lines and (lines > 1 or is_log):
        return Sniff(0.6, f"{lines} lines with a prefix like vLLM's")
    if marks and is_log and ACCESS_LINE.search(head):
        return Sniff(0.6, "access lines of an API server and a mark of vLLM")
    return NOT_MINE


@dataclass(frozen=True)
class _Piece:
    """Whole lines, or a part of one: whether it began in the piece before (`continues`), goes on
    in the next (`goes_on`), or is the last line and has no newline (`is_tail`).

    The first `size` bytes of `room` are the piece, PADDING stands behind them; the room is used
    again for the next piece.
    """

    room: bytearray
    size: int
    continues: bool = False
    goes_on: bool = False
    is_tail: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the piece is whole lines."""
        return not (self.continues or self.goes_on or self.is_tail)

    def data(self) -> bytes:
        """Return the bytes."""
        return bytes(memoryview(self.room)[: self.size])


@dataclass
class Reading:
    """Everything that one reading of a file remembers between blocks."""

    reader: LineReader
    problems: Problems
    lives: Lives
    facts: Facts
    requests: Requests
    samples: Samples
    line: int = 1

    @classmethod
    def of(cls, path: Path, options: ReadOptions) -> Reading:
        problems = Problems()
        reader = LineReader(Dates.of(path, options), is_crlf(read_head(path, HEAD_BYTES)), problems)
        lives = Lives(problems)
        return cls(
            reader,
            problems,
            lives,
            Facts(problems, lives),
            Requests(problems),
            Samples(problems),
        )

    def piece(self, piece: _Piece) -> list[Item]:
        """Return what one block holds."""
        carried = self.reader.last_at
        first_line = self.line
        block = None
        if piece.is_plain:
            text = self._text(piece, first_line)
            block = self.reader.quickly(text, first_line)
            data = b"" if block is not None else text.slice(0, text.size)
        else:
            data = piece.data()
            if piece.is_tail and is_broken_json(data):
                self.problems.add("VLOG003", first_line)
                return []
            data = clean(data, first_line, self.reader.crlf, self.problems)
        if block is not None:
            self.line += block.count
            quick = self._quickly(block, carried)
            if quick is not None:
                return quick
        from trueput.sources.vllm_log import careful

        if block is not None:
            return careful.items(self, careful.Lines.of_block(block), carried)
        if piece.goes_on and not piece.continues:
            self.problems.add("VLOG013", first_line)
        lines = careful.read(self.reader, data, first_line, continues=piece.continues)
        self.line += lines.count
        if piece.is_tail and not careful.is_whole(lines, first_line, self.problems):
            return []
        return careful.items(self, lines, carried)

    def _text(self, piece: _Piece, first_line: int) -> Text:
        """Return the clean bytes of whole lines, in place where they are clean."""
        text = Text(piece.room, piece.size)
        if is_clean(text):
            return text
        data = clean(piece.data(), first_line, self.reader.crlf, self.problems)
        return Text(data + PADDING, len(data))

    def _quickly(self, block: Block, carried: int | None) -> list[Item] | None:
        """Return what a block holds where only its statistics and start-up lines are left."""
        if block.has_left or _any(pc.ends_with(block.message, "across cluster]")):
            return None
        events = self.requests.read(block.events)
        if events is None:
            return None
        marked, is_sample = _marked(block.message, STATS, INTERESTING)
        sampled, told = marked[is_sample], marked[~is_sample]
        rows = block.messages
        found = [
            (
                int(rows.line[at]),
                None if rows.at_ns[at] == NO_TIME else int(rows.at_ns[at]),
                None if rows.process[at] < 0 else rows.names[rows.process[at]],
                block.message[at].as_py(),
            )
            for at in told.tolist()
        ]
        marked, is_bare = _marked(block.rest, REST, DATELESS)
        bare = [
            (int(block.rest_line[at]), block.rest[at].as_py()) for at in marked[is_bare].tolist()
        ]
        self.note_dateless(block.rest_line[marked[~is_bare]].tolist())
        samples = self.samples.read(
            rows.line[sampled],
            rows.at_ns[sampled],
            [text or "" for text in block.message.take(sampled).to_pylist()],
        )
        items: list[Item] = [*self.facts.read(found, bare, lambda n: block.time_before(n, carried))]
        steps = block.steps
        numbered = Numbered(steps.line, steps.engine, steps.engines, steps.numbers["step_ix"])
        step_lives, sample_lives = self.lives.number(numbered, samples.numbered())
        items += slices("engine_steps", {**steps.columns(), "incarnation": step_lives})
        items += slices("engine_samples", {**samples.columns(), "incarnation": sample_lives})
        items += slices("request_events", events)
        return items

    def note_dateless(self, lines: list[int]) -> None:
        """Report lines without a prefix that is known."""
        if lines:
            self.problems.add("VLOG017", lines[0], count=len(lines))

    def finish(self) -> Iterator[Item]:
        """Yield what is known only at the end: facts, the clock, the problems."""
        yield from self.facts.finish()
        dates = self.reader.dates
        if dates.backwards:
            self.problems.add("VLOG011", None, count=dates.backwards)
        if dates.invalid:
            self.problems.add("VLOG012", None, count=dates.invalid)
        if dates.year is None and dates.last is not None and dates.last > dates.latest:
            self.problems.add("VLOG015", None)
        if not self.reader.prefixed:
            self.problems.add("VLOG014", None)
        yield _clock(self.reader.clock)
        yield from self.problems.items()


def _clock(kind: ClockKind | None) -> Clock:
    if kind is ClockKind.UTC:
        return Clock(kind, 0, 0, "outer time stamps with a zone")
    if kind is ClockKind.LOCAL:
        return Clock(kind, None, 1_000_000_000, "local time of the log prefix, to the second")
    return Clock(ClockKind.NONE)


def _marked(texts: pa.StringArray, first: str, second: str) -> tuple[Places, Flags]:
    """Return which texts match one of two patterns, and which of these match the first; most of
    the texts match none."""
    marked = np.flatnonzero(_matches(texts, f"{first}|{second}"))
    return marked, _matches(texts.take(marked), first)


def _matches(texts: Any, pattern: str) -> Flags:
    found = pc.match_substring_regex(texts, pattern)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _any(flags: Any) -> bool:
    return bool(pc.any(flags).as_py())


def slices(table: str, columns: dict[str, Any]) -> Iterator[Batch]:
    """Yield columns as batches of at most BATCH_ROWS rows."""
    rows = pa.table(columns)
    for start in range(0, rows.num_rows, BATCH_ROWS):
        yield Batch(table, rows.slice(start, BATCH_ROWS))


def _pieces(path: Path, block_bytes: int, problems: Problems) -> Iterator[_Piece]:
    """Yield the file in pieces; the last line alone where it has no newline.

    After a damage the cut last line is left out, for the damage was reported.
    """
    room = bytearray(block_bytes + SPARE_BYTES)
    held = 0
    continues = False
    with closing(Filler(path, block_bytes)) as filler:
        while True:
            if len(room) < held + block_bytes + len(PADDING):
                room = room[:held] + bytes(block_bytes + SPARE_BYTES)
            count = filler.into(room, held)
            if isinstance(count, Damage):
                problems.add("VLOG001", None, text=f"{CODES['VLOG001']}: {count.text}")
                return
            if not count:
                break
            size = held + count
            cut = room.rfind(b"\n", held, size) + 1
            if cut:
                rest = room[cut:size]
                room[cut : cut + len(PADDING)] = PADDING
                yield _Piece(room, cut, continues)
                held, continues = len(rest), False
                room[:held] = rest
                continue
            held = size
            if held > MAX_LINE_BYTES:
                yield _Piece(room, held, continues, goes_on=True)
                held, continues = 0, True
    if held and not continues:
        yield _Piece(room, held, is_tail=True)


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the rows, facts, clock and problems of one log, block by block."""
    reading = Reading.of(path, options)
    yield Fact("engine", "vllm")
    for piece in _pieces(path, BLOCK_BYTES, reading.problems):
        items = reading.piece(piece)
        # The block and its frames are not kept while the caller works on the rows.
        del piece
        yield from items
    yield from reading.finish()


SOURCE = Source(
    name="vllm_log",
    title="vLLM server log (text or JSON)",
    versions="vLLM 0.4 to 0.33",
    tables=("engine_steps", "engine_samples", "request_events"),
    sniff=sniff,
    read=read,
    problem_codes=CODES,
    proves=(
        "which tokens every engine iteration scheduled, recompute included, and how long it took; "
        "which requests were received and aborted, to the second"
    ),
    turn_on="vllm serve --enable-logging-iteration-details --enable-log-requests",
)
