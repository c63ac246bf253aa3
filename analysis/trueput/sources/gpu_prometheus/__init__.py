"""Scrapes of GPU exporters as Prometheus text: DCGM-exporter and nvidia_gpu_exporter.

One file holds one scrape or many, told apart and timed as in `prometheus_text`: a line
`# SCRAPE <unix seconds>` or another comment with a time before each, else the file's name, else its
modification time (for the last scrape only). Values are those of `trueput.telemetry`: profiling
fields are 0..1 and other utilisations 0..100 in DCGM whatever their name says, sentinels are NULL,
energy is a counter. The device is the label `gpu` or the family `nvidia_smi_index`; dumps of two
hosts in one file get different numbers, which gpu_devices ties to their UUIDs. MIG instances keep
their number in the metric's name (`sm_active/gi1`). Hosts, pods, process names and ids are not
stored; families that are no metric of `trueput.telemetry` are not read.

A file that also holds metrics of a serving engine is read as `prometheus_text`, and its GPU
families are then not read: save the two endpoints to two files.

| code | meaning |
|---|---|
| GPUPROM001 | lines that are no sample, comment or marker |
| GPUPROM002 | samples without a usable value |
| GPUPROM003 | the last line has no end: its number may lack digits, it is not read |
| GPUPROM004 | the file is damaged from here on |
| GPUPROM005 | the instant is the file's modification time |
| GPUPROM006 | scrapes follow each other without a time between them |
| GPUPROM007 | scrapes that failed, or whose marker has no readable time |
| GPUPROM008 | a time without a zone was read as UTC |
| GPUPROM009 | the file also has metrics of a serving engine, which are not read here |
| GPUPROM010 | GPUs without an index of their own, numbered anew |
| GPUPROM011 | no family of a known exporter in the file |
| GPUPROM012 | values outside the range of their metric, or in another unit: missing |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueput.clock import ClockKind
from trueput.exposition import name_ns
from trueput.scan import Damage, plain_name, text_blocks
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Sniff, Source
from trueput.sources.gpu_prometheus.reader import CODES, Reader
from trueput.tally import meanings

_GPU: Final = re.compile(
    rb"^(?:# (?:TYPE|HELP) )?(?:DCGM_FI_(?:DEV|PROF)_|nvidia_smi_)\w+(?:\{| )", re.MULTILINE
)
_ENGINE: Final = re.compile(rb"^(?:# TYPE )?(?:ray_)?(?:vllm|sglang)[:_]\w+(?:\{| )", re.MULTILINE)
_BLOCK_BYTES: Final = 8 << 20


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a scrape of a GPU exporter."""
    if not _GPU.search(head):
        return NOT_MINE
    if _ENGINE.search(head):
        return Sniff(0.4, "GPU families beside those of a serving engine")
    return Sniff(0.9, "families of DCGM-exporter or nvidia_gpu_exporter")


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the samples of the file, its GPUs, and what was wrong."""
    file_ns, assumed = name_ns(plain_name(path.name))
    from_mtime = file_ns is None
    reader = Reader(options.mtime_ns if from_mtime else file_ns)
    for block in text_blocks(path, _BLOCK_BYTES):
        if isinstance(block, Damage):
            reader.tally.add("GPUPROM004", text=block.text)
        else:
            yield from reader.block(block.data, block.first_line)
    yield from reader.finish()
    if reader.used_file_time and from_mtime:
        reader.tally.add("GPUPROM005")
    elif reader.used_file_time and assumed:
        reader.tally.add("GPUPROM008", text="in the file name")
    yield from reader.tally.problems()
    timed = reader.samples.timed > 0
    yield Clock(ClockKind.UTC if timed else ClockKind.NONE, method="as stamped")


SOURCE = Source(
    name="gpu_prometheus",
    title="DCGM-exporter and nvidia_gpu_exporter (Prometheus text)",
    versions="DCGM-exporter 2 to 4.6, nvidia_gpu_exporter 0.4 to 1",
    tables=("gpu_samples", "gpu_devices"),
    sniff=sniff,
    read=read,
    problem_codes=meanings(CODES),
    proves=(
        "SM, tensor and DRAM activity, power and energy over time, where the exporter collects"
        " them; utilisation alone says only that some kernel ran."
    ),
    turn_on="GET the exporter's /metrics each second into a file, a line `# SCRAPE <unix>` before",
)
