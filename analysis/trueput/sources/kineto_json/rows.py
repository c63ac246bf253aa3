"""Columns of events -> rows of gpu_ops, gpu_launches and the like, and the sums of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trueput.source_api import BATCH_ROWS, Batch
from trueput.sources.kineto_json.names import is_graph_launch, kernel_class, launch_name
from trueput.sources.kineto_json.problems import Problems
from trueput.sources.kineto_json.processes import Processes
from trueput.step_annotation import STEP_NUMBERS, parse_step

T = TypeVar("T")

OPERATIONS = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
LAUNCHES = ("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime")
RANGES = ("user_annotation",)
SPANS = ("overhead", "trace")
_OPERATION_WORDS = pa.array(tuple(OPERATIONS), pa.string())
_LAUNCH_WORDS, _RANGE_WORDS = pa.array(LAUNCHES, pa.string()), pa.array(RANGES, pa.string())
_SPAN_WORDS = pa.array(SPANS, pa.string())
_TIMED_COLUMNS = ["name", "cat", "pid", "tid", "ts", "dur"]
_LAUNCH_COLUMNS = [*_TIMED_COLUMNS, "correlation"]
WANTED = frozenset((*OPERATIONS, *LAUNCHES, *RANGES, *SPANS))

_BIG = "DECIMAL(28,3)"
STRUCTURE = (
    f'{{"ph":"VARCHAR","name":"VARCHAR","cat":"VARCHAR","pid":"VARCHAR","tid":"VARCHAR",'
    f'"ts":"{_BIG}","dur":"{_BIG}","args":{{"correlation":"BIGINT","device":"BIGINT",'
    f'"stream":"BIGINT","context":"BIGINT","bytes":"BIGINT","size":"BIGINT",'
    f'"graph node id":"BIGINT"}}}}'
)
MAX_INSTANT = 1 << 62
WILD_FROM = 65_536
"""No process has so many devices: an ordinal from here on names none."""

# Constants with their types: pyarrow looks for a library of dates whenever it must infer one.
_NUMBER = {n: pa.scalar(n, pa.int64()) for n in (None, 0, 1, WILD_FROM, MAX_INSTANT)}
_NO_TEXT = pa.scalar(None, pa.string())
_COMPLETE, _BEGIN, _KERNEL, _OVERHEAD, _ZERO_DURATION, _UNKNOWN, _PUSH_POP = (
    pa.scalar(word, pa.string())
    for word in ("X", "B", "kernel", "overhead", "zero_duration", "?", "push_pop")
)
_FALSE = pa.scalar(False, pa.bool_())
_COLON = pa.scalar(":", pa.string())
ABSOLUTE_FROM_NS = 100_000_000_000_000_000
"""Times above this count from the epoch: 3 years in, and no capture is as long."""
_MAX_KNOWN = 50_000
_MAX_GRAPHS = 20_000
_OF_PROGRAM = re.compile(r"loading|compil|command buffer", re.IGNORECASE)


@dataclass
class Totals:
    """Sums over the whole file; instants as they are stored."""

    kernels: int = 0
    operations: int = 0
    dropped: int = 0
    """Operations without a usable time."""
    begins: int = 0
    """Operations told by a begin and an end, which are not read."""
    launches: int = 0
    graph_launches: int = 0
    ranges: int = 0
    capture_ranges: int = 0
    graph_nodes: bool = False
    overhead_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    ops_first_ns: int = MAX_INSTANT
    ops_last_ns: int = -MAX_INSTANT
    longest_ns: int = 0
    devices: set[tuple[str, int]] = field(default_factory=set)
    """Process and ordinal of those that ran something."""
    graphs: set[int] = field(default_factory=set)
    shared: set[int] = field(default_factory=set)
    """Correlation ids of graph launches, and those that several kernels have."""
    graph_kernels: bool = False


def _is_profilers(name: str) -> bool:
    """Return whether an overhead is work of the profiler: not loading, compiling or a full queue
    of commands, which a program has without one, too."""
    return _OF_PROGRAM.search(name) is None


class Rows:
    """Turns columns of events into batches. `key` is the process, `base_ns` the zero of times."""

    def __init__(self, key: str, base_ns: int | None, problems: Problems) -> None:
        self.key = key
        self._processes = Processes(key)
        self.base_ns = base_ns
        self.problems = problems
        self.totals = Totals()
        self.absolute: bool | None = None
        """Whether times count from the epoch; None while no time was seen."""
        self._known: dict[Callable[[str], Any], dict[str, Any]] = {}

    def batches(self, texts: pa.Table) -> Iterator[Batch]:
        """Yield the rows of a segment's events, given with the fields of `STRUCTURE`."""
        args = texts["args"].combine_chunks()
        phase = pc.equal(texts["ph"], _COMPLETE)
        category = self._map(texts["cat"], str.lower, pa.string())
        if not pc.all(phase).as_py():
            begins = pc.and_(pc.equal(texts["ph"], _BEGIN), pc.is_in(category, _OPERATION_WORDS))
            self.totals.begins += _count(begins)
        size = pc.coalesce(pc.struct_field(args, "bytes"), pc.struct_field(args, "size"))
        events = pa.table({
            "name": texts["name"],
            "cat": pc.if_else(phase, category, _NO_TEXT),
            "pid": texts["pid"],
            "tid": texts["tid"],
            "ts": _thousandths(texts["ts"]),
            "dur": _thousandths(texts["dur"]),
            "correlation": pc.struct_field(args, "correlation"),
            "device": pc.struct_field(args, "device"),
            "stream": pc.struct_field(args, "stream"),
            "context": pc.struct_field(args, "context"),
            "bytes": size,
            "graph_node_id": pc.struct_field(args, "graph node id"),
        })  # fmt: skip
        for at in range(0, events.num_rows, BATCH_ROWS):
            yield from self._some(events.slice(at, BATCH_ROWS).combine_chunks())

    def _some(self, events: pa.Table) -> Iterator[Batch]:
        for table, build, words, columns in (
            ("gpu_ops", self._operations, _OPERATION_WORDS, events.column_names),
            ("gpu_launches", self._launches, _LAUNCH_WORDS, _LAUNCH_COLUMNS),
            ("gpu_ranges", self._ranges, _RANGE_WORDS, _TIMED_COLUMNS),
            ("gpu_overheads", self._spans, _SPAN_WORDS, _TIMED_COLUMNS),
        ):
            chosen = events.select(columns).filter(pc.is_in(events["cat"], value_set=words))
            rows = build(chosen) if chosen.num_rows else None
            if rows is not None and rows.num_rows:
                yield Batch(table, rows)

    def _timed(self, events: pa.Table) -> pa.Table:
        """Drop events without a usable time; add their start and end."""
        start, length, limit = events["ts"], events["dur"], _NUMBER[MAX_INSTANT]
        usable = _true(pc.and_(
            pc.and_(pc.less(pc.abs(start), limit), pc.less(pc.abs(length), limit)),
            pc.less(pc.abs(pc.add(start, length)), limit),
        ))  # fmt: skip
        zero = _true(pc.and_(pc.equal(start, _NUMBER[0]), pc.equal(length, _NUMBER[0])))
        negative = _true(pc.less(length, _NUMBER[0]))
        good = pc.and_not(pc.and_not(usable, zero), negative)
        self.problems.add("KINETO007", events.num_rows - _count(usable))
        self.problems.add("KINETO008", _count(zero))
        self.problems.add("KINETO009", _count(pc.and_(usable, negative)))
        if not pc.all(good).as_py():
            events = events.filter(good)
        if not events.num_rows:
            return events
        if self.absolute is None:
            self.absolute = events["ts"][0].as_py() >= ABSOLUTE_FROM_NS
        base = 0 if self.absolute else self.base_ns or 0
        start = pc.add(events["ts"], pa.scalar(base, pa.int64()))
        end = pc.add(start, events["dur"])
        totals, first, last = self.totals, pc.min(start).as_py(), pc.max(end).as_py()
        totals.first_ns = first if totals.first_ns is None else min(first, totals.first_ns)
        totals.last_ns = last if totals.last_ns is None else max(last, totals.last_ns)
        return events.append_column("start", start).append_column("end", end)

    def _operations(self, events: pa.Table) -> pa.Table | None:
        told = events.num_rows
        events = self._timed(events)
        self.totals.dropped += told - events.num_rows
        if not events.num_rows:
            return None
        kind = self._map(events["cat"], OPERATIONS.__getitem__, pa.string())
        is_kernel = pc.equal(kind, _KERNEL)
        device = _natural(_tame(_or_number(_tame(events["device"]), events["pid"])))
        process = self._process(events, self._processes.of_device)
        correlation = _natural(events["correlation"], 1)
        self._count(events, is_kernel, correlation)
        self._note_devices(process, device)
        zero = pc.equal(events["dur"], _NUMBER[0])
        self.problems.add("KINETO010", _count(zero))
        self.problems.add("KINETO020", device.null_count)
        return pa.table({
            "kind": kind,
            "class": pc.if_else(is_kernel, self._map(events["name"], kernel_class, pa.string()),
                                _NO_TEXT),
            "start_at_ns": events["start"],
            "end_at_ns": events["end"],
            "device": device,
            "device_key": _keyed(process, pc.fill_null(pc.cast(device, pa.string()), _UNKNOWN)),
            "process_key": process,
            "context_id": _natural(events["context"]),
            "stream": _natural(_or_number(events["stream"], events["tid"])),
            "correlation_id": correlation,
            "graph_node_id": _natural(events["graph_node_id"], 1),
            "name": events["name"],
            "bytes": pc.if_else(is_kernel, _NUMBER[None], _natural(events["bytes"])),
            "quality": pc.if_else(zero, _ZERO_DURATION, _NO_TEXT),
        })  # fmt: skip

    def _process(self, events: pa.Table, function: Callable[[str | None], str]) -> Any:
        """Return the process of each event, by its pid, as a dictionary array."""
        encoded: Any = events["pid"].combine_chunks().dictionary_encode(null_encoding="encode")
        keys = [function(pid) for pid in encoded.dictionary.to_pylist()]
        if len(set(keys)) == 1:
            return pa.repeat(pa.scalar(keys[0], pa.string()), events.num_rows)
        return pa.array(keys, pa.string()).take(encoded.indices)

    def _note_devices(self, process: Any, device: Any) -> None:
        known = self.totals.devices
        if len(known) < _MAX_KNOWN:
            pairs = pa.table({"process": process, "device": device})
            found: Any = pairs.group_by(["process", "device"], use_threads=False).aggregate([])
            known.update(
                (row["process"], row["device"])
                for row in found.to_pylist()
                if row["device"] is not None
            )

    def _count(self, events: pa.Table, is_kernel: Any, correlation: Any) -> None:
        totals = self.totals
        totals.operations += events.num_rows
        totals.kernels += _count(is_kernel)
        totals.ops_first_ns = min(totals.ops_first_ns, pc.min(events["start"]).as_py())
        totals.ops_last_ns = max(totals.ops_last_ns, pc.max(events["end"]).as_py())
        totals.longest_ns = max(totals.longest_ns, pc.max(events["dur"]).as_py())
        nodes = _count(pc.greater(events["graph_node_id"], _NUMBER[0]))
        totals.graph_nodes = totals.graph_nodes or nodes > 0
        counts = pc.value_counts(pc.drop_null(correlation.filter(is_kernel)))
        many = counts.field(0).filter(pc.greater(counts.field(1), _NUMBER[1]))
        if len(totals.shared) < _MAX_GRAPHS:
            totals.shared.update(many.to_pylist())
        if totals.graphs and not totals.graph_kernels:
            launched = pa.array(sorted(totals.graphs), pa.int64())
            totals.graph_kernels = bool(pc.any(pc.is_in(counts.field(0), launched)).as_py())

    def _launches(self, events: pa.Table) -> pa.Table | None:
        events = events.append_column("api", self._map(events["name"], launch_name, pa.string()))
        joined = _true(pc.greater_equal(events["correlation"], _NUMBER[1]))
        events = events.filter(pc.and_(pc.is_valid(events["api"]), joined))
        events = self._timed(events) if events.num_rows else events
        if not events.num_rows:
            return None
        graph = self._map(events["api"], is_graph_launch, pa.bool_())
        process = self._process(events, self._processes.of_launch)
        self.totals.launches += events.num_rows
        self.totals.graph_launches += _count(graph)
        if len(self.totals.graphs) < _MAX_GRAPHS:
            launched: list[Any] = events["correlation"].filter(graph).to_pylist()
            self.totals.graphs.update(launched)
        return pa.table({
            "process_key": process,
            "thread_key": _keyed(process, events["tid"]),
            "correlation_id": events["correlation"],
            "api": events["api"],
            "start_at_ns": events["start"],
            "end_at_ns": events["end"],
        })  # fmt: skip

    def _ranges(self, events: pa.Table) -> pa.Table | None:
        events = self._timed(events)
        if not events.num_rows:
            return None
        names: Any = pc.dictionary_encode(events["name"]).combine_chunks()
        words = names.dictionary.to_pylist()
        steps = [self._cached(parse_step, word) for word in words]
        process = self._process(events, self._processes.of_range)
        self.totals.ranges += events.num_rows
        self.totals.capture_ranges += _graph_captures(events["name"])

        def told(attribute: str, kind: pa.DataType) -> Any:
            values = [getattr(step, attribute, None) for step in steps]
            return pa.array(values, kind).take(names.indices)

        return pa.table({
            "name": events["name"],
            "process_key": process,
            "thread_key": _keyed(process, events["tid"]),
            "start_at_ns": events["start"],
            "end_at_ns": events["end"],
            "style": pa.repeat(_PUSH_POP, events.num_rows),
            "dialect": told("dialect", pa.string()),
            **{name: told(name, pa.int64()) for name in STEP_NUMBERS},
        })  # fmt: skip

    def _spans(self, events: pa.Table) -> pa.Table | None:
        events = self._timed(events)
        events = events.filter(pc.equal(events["cat"], _OVERHEAD))
        if not events.num_rows:
            return None
        own = events.filter(self._map(events["name"], _is_profilers, pa.bool_()))
        spent = pc.sum(own["dur"]).as_py() or 0
        self.totals.overhead_ns = (self.totals.overhead_ns or 0) + spent
        own = own.filter(pc.greater(own["dur"], _NUMBER[0]))
        return pa.table({"start_at_ns": own["start"], "end_at_ns": own["end"]})

    def _map(self, texts: Any, function: Callable[[str], object], kind: pa.DataType) -> Any:
        """Return what a function says of each text, asked once per different text."""
        encoded: Any = pc.dictionary_encode(texts).combine_chunks()
        values = [self._cached(function, word) for word in encoded.dictionary.to_pylist()]
        return pa.array(values, kind).take(encoded.indices)

    def _cached(self, function: Callable[[str], T], word: str) -> T:
        known = self._known.setdefault(function, {})
        if word not in known:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known[word] = function(word)
        found: T = known[word]
        return found


def _thousandths(times: Any) -> Any:
    """Return decimals of three digits as int64 thousandths: the digits as they stand, exactly."""
    times = times.combine_chunks()
    if not len(times):
        return pa.array([], pa.int64())
    pairs = np.frombuffer(times.buffers()[1], "<i8").reshape(-1, 2)
    pairs = pairs[times.offset : times.offset + len(times)]
    low, high = pairs[:, 0], pairs[:, 1]
    unknown = (high != low >> 63) | pc.is_null(times).to_numpy(zero_copy_only=False)
    return pa.array(low, pa.int64(), mask=unknown)


def _count(mask: Any) -> int:
    """Return how many are true."""
    return int(pc.sum(mask).as_py() or 0)


def _true(mask: Any) -> Any:
    """Return a mask without NULLs: unknown is false."""
    return pc.fill_null(mask, _FALSE)


def _natural(numbers: Any, least: int = 0) -> Any:
    """Return the numbers with those below `least` as NULL."""
    return pc.if_else(pc.greater_equal(numbers, _NUMBER[least]), numbers, _NUMBER[None])


def _tame(ordinals: Any) -> Any:
    """Return the ordinals of devices with those that no device has as NULL."""
    return pc.if_else(pc.less(ordinals, _NUMBER[WILD_FROM]), ordinals, _NUMBER[None])


def _or_number(numbers: Any, texts: Any) -> Any:
    """Fill NULLs from the number at the end of a text such as `0` or `stream 7`."""
    if not numbers.null_count:
        return numbers
    digits = pc.struct_field(pc.extract_regex(texts, r"^(?:stream )?(?P<n>[0-9]{1,18})\s*$"), "n")
    return pc.coalesce(numbers, pc.cast(digits, pa.int64()))


def _keyed(keys: Any, texts: Any) -> Any:
    """Return `key:text` for each row, encoded so that each is made once where there is one key."""
    encoded: Any = pc.dictionary_encode(texts).combine_chunks()
    different: list[Any] = pc.unique(keys).to_pylist()
    if len(different) > 1:
        return pc.binary_join_element_wise(keys, texts.combine_chunks(), _COLON)
    words = [f"{different[0]}:{word}" for word in encoded.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(encoded.indices)


def _graph_captures(names: Any) -> int:
    return _count(pc.match_substring_regex(names, r"^capture_[0-9]+_"))
