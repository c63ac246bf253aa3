"""PyTorch profiler traces (Kineto, Chrome trace JSON): what ran on the GPU, and who launched it.

Plain, .gz or .zip; an object with `traceEvents` or a bare list; metadata before or after the
events; CUDA and ROCm; categories of 2021 (`Kernel`, `Runtime`) and of today.

- gpu_ops: kernels, copies, memsets. Kineto's own projection of annotations and waits that sit on
  streams are not work of the device and are not read.
- gpu_launches: runtime and driver calls that put work on a device, by correlation id. One launch
  of a graph has many kernels. Names come without their version (`_v11060`).
- gpu_ranges: annotations of the host, those of engine steps with their composition. Nested ones
  are all kept.
- gpu_devices: devices that ran something; a trace lists those of the whole machine.
- gpu_captures: one row: what was captured, and what may be missing.

Times are read as decimal text, never as a float. `baseTimeNanoseconds` is added where it stands
before the events; behind them it is the file's offset to UTC. Times above 1e14 us are epoch times.
Operations are joined with launches within one process: the process is named by the rank in the
file's name, else by the file, since every worker may call itself rank 0.

| code | meaning |
|---|---|
| KINETO001 | no list of trace events |
| KINETO002 | the compressed file is damaged from here on |
| KINETO003 | the list of events is cut: the capture is `partial` |
| KINETO004 | events that could not be read |
| KINETO005 | events that are no JSON, whose fields were recovered: the capture is `partial` |
| KINETO006 | events with bytes that are no UTF-8 |
| KINETO007 | events without a usable time: dropped |
| KINETO008 | events with ts 0 and no length: lost times, dropped |
| KINETO009 | events that end before they start: dropped |
| KINETO010 | operations without a length: kept, quality `zero_duration` |
| KINETO011 | no GPU operation: the trace of a CPU, or of a front end |
| KINETO012 | launches without any GPU operation: the file adds neither busy nor idle time |
| KINETO013 | graph launches without any of their kernels: blind, not idle |
| KINETO014 | one operation takes more than half of the trace |
| KINETO015 | the profiler stopped early: what ran after that was not recorded |
| KINETO016 | times from an unknown zero |
| KINETO017 | epoch times although a base is given: not added |
| KINETO018 | metadata that could not be read |
| KINETO019 | a trace of graph capture, not of serving |
| KINETO020 | GPU operations that name no device |
| KINETO021 | the file is cut behind its events: the capture is `partial` |
| KINETO022 | log lines, or commas behind the last event: passed over, the capture is `partial` |
| KINETO023 | records outside the profiler's window, such as those of its warm-up |
| KINETO024 | GPU operations told by a begin and an end (B, E): not read, gaps are not idle |
| KINETO025 | so many operations were dropped that gaps between the rest are not idle |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trueput.source_api import NOT_MINE, Item, ReadOptions, Sniff, Source
from trueput.sources.kineto_json.problems import PROBLEM_CODES

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\[\s*\{")
_METADATA = re.compile(
    rb'"(?:deviceProperties|distributedInfo|baseTimeNanoseconds|cupti_version|roctracer_version'
    rb'|schemaVersion)"\s*:'
)
_CATEGORY = re.compile(
    rb'"cat"\s*:\s*"(?:kernel|cpu_op|cuda_runtime|cuda_driver|user_annotation|gpu_user_annotation'
    rb'|gpu_memcpy|gpu_memset|python_function|operator|runtime|memcpy|memset)"',
    re.IGNORECASE,
)


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a trace of the PyTorch profiler."""
    del name
    events, category = _EVENTS.search(head), _CATEGORY.search(head)
    metadata = len(set(_METADATA.findall(head)))
    if events and (category or metadata):
        return Sniff(0.95, "traceEvents with marks of Kineto")
    if metadata >= 2 and head.lstrip()[:1] == b"{":
        return Sniff(0.8, "metadata of Kineto, events not yet in sight")
    if category and _BARE.match(head) and b'"ph"' in head:
        return Sniff(0.85, "a list of events with categories of Kineto")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield operations, launches, ranges, devices and the capture, and what was wrong."""
    from trueput.sources.kineto_json.reader import SEGMENT_BYTES, Reader

    yield from Reader(path, options, SEGMENT_BYTES).items()


SOURCE = Source(
    name="kineto_json",
    title="PyTorch profiler trace (Kineto JSON)",
    versions="PyTorch 1.8 to 2.11, CUDA and ROCm",
    tables=(
        "gpu_ops",
        "gpu_launches",
        "gpu_ranges",
        "gpu_overheads",
        "gpu_devices",
        "gpu_captures",
    ),
    sniff=sniff,
    read=read,
    problem_codes=PROBLEM_CODES,
    proves=(
        "What ran on the GPU and when, which step launched it, how many requests and tokens each"
        " step carried; not which requests, and a profiled run is no baseline for speed."
    ),
    turn_on=(
        'vLLM: --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "DIR"}\', then'
        " POST /start_profile and /stop_profile"
    ),
)
