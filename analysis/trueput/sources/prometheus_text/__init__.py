"""Scrapes of `/metrics` as Prometheus or OpenMetrics text: engine counters, gauges, histograms.

One file holds many scrapes (each after a line `# SCRAPE <unix seconds> <iso>`, or after another
comment that holds a time) or one. A sample's instant is its own timestamp where it has one, else
the marker's, the file name's or the file's modification time.

| code | meaning |
|---|---|
| PROM001 | lines that are no sample, comment or marker |
| PROM002 | samples without a usable value or timestamp |
| PROM003 | NaN values, which say that nothing was observed; not stored |
| PROM004 | infinite values; not stored |
| PROM005 | the last scrape is cut |
| PROM006 | a counter fell or the process began again: a new incarnation |
| PROM007 | the instant is the file's modification time |
| PROM008 | the file is damaged from here on |
| PROM009 | nothing of a known engine in the file |
| PROM010 | scrapes follow each other without a time between them |
| PROM011 | scrapes that failed, or whose marker has no readable time |
| PROM012 | a time without a zone was read as UTC |
| PROM013 | too many different series; those after the limit are not read |
| PROM014 | the last line has no end: its number may lack digits, it is not read |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trueput.clock import ClockKind
from trueput.exposition import is_whole, name_ns
from trueput.scan import Block, Damage, plain_name, text_blocks
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Sniff, Source
from trueput.sources.prometheus_text.reader import TEXTS, Reader

BLOCK_BYTES = 8 << 20

_TYPED = re.compile(
    rb"^# TYPE (?:ray_)?(?:vllm|sglang)[:_]\w+ "
    rb"(?:counter|gauge|histogram|summary|untyped|unknown|info|stateset)\s*$",
    re.MULTILINE,
)
_SAMPLE = re.compile(
    rb"^(?:ray_)?(?:vllm|sglang)[:_]\w+(?:\{[^\n]*\})? +"
    rb"[-+]?(?:\d[\d.eE+-]*|Inf|NaN)(?: [\d.]+)?\s*$",
    re.MULTILINE,
)
_MARKED = re.compile(rb"^# SCRAPE(?:_ERROR)? \d", re.MULTILINE)
_HTTP = re.compile(rb"^# TYPE http_request(?:s_total counter|_duration\w* histogram)", re.MULTILINE)


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a Prometheus text file of a serving engine."""
    if _TYPED.search(head):
        return Sniff(0.95, "# TYPE lines of vllm or sglang metrics")
    if _SAMPLE.search(head):
        return Sniff(0.85, "samples of vllm or sglang metrics")
    if _MARKED.search(head):
        return Sniff(0.6, "# SCRAPE markers")
    if _HTTP.search(head):
        return Sniff(0.3, "# TYPE lines of HTTP server metrics")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the file's samples, what they say of the run, and what was wrong."""
    file_ns, assumed = name_ns(plain_name(path.name))
    from_mtime = file_ns is None
    if from_mtime:
        file_ns = options.mtime_ns
    reader = Reader(file_ns)
    cut_line: int | None = None
    damaged = False
    joined = False
    for block in text_blocks(path, BLOCK_BYTES):
        if isinstance(block, Damage):
            reader.problems.add("PROM008", None, f": {block.text}")
            damaged = True
            continue
        lines, cut_line, joined = _whole_lines(block, reader, joined)
        yield from reader.lines(lines, block.first_line)
    yield from reader.finish(cut_line=None if damaged else cut_line)
    if reader.used_file_time and from_mtime:
        reader.problems.add("PROM007", None)
    elif reader.used_file_time and assumed:
        reader.problems.add("PROM012", None, " (in the file name)")
    yield from reader.problems.items()
    timed = reader.marked or reader.own_times or (reader.used_file_time and file_ns is not None)
    yield Clock(ClockKind.UTC if timed else ClockKind.NONE, method="as stamped")


def _whole_lines(
    block: Block, reader: Reader, joined: bool
) -> tuple[list[bytes], int | None, bool]:
    """Return the lines of a block that end, the number of one that does not, and whether it did.

    `joined` says that the block before ended within a line, whose rest is then dropped.
    """
    text = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
    lines = text.split(b"\n")
    last = lines.pop()
    if joined and lines:
        reader.problems.add("PROM001", block.first_line)
        lines[0] = b""
    number = block.first_line + len(lines)
    if not last or last.lstrip().startswith(b"#") or last.isspace():
        if last:
            lines.append(last)
        return lines, None, False
    if is_whole(last):
        return [*lines, last], None, True
    return lines, number, True


SOURCE = Source(
    name="prometheus_text",
    title="Prometheus or OpenMetrics text (scrapes of /metrics)",
    versions="vLLM 0.4 to 0.33, SGLang 0.4 and later; text format 0.0.4, OpenMetrics 1.0",
    tables=("engine_samples",),
    sniff=sniff,
    read=read,
    problem_codes={code: text for code, (_, text) in TEXTS.items()},
    proves=(
        "Engine counters and histograms over time: preemptions, tokens delivered, queue and cache"
        " state; nothing of single requests, and no recompute by itself."
    ),
    turn_on="GET /metrics of the server, saved every second with a line `# SCRAPE <unix>` before",
)
