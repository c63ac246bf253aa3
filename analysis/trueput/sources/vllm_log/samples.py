"""Periodic statistics lines -> rows of `engine_samples`.

A line is split at `, ` and then into `key: value unit`, never matched as a whole, for its parts
differ between versions. A part without a key belongs to the key before it: a further position of
a list, or a further number whose words then name it.

Lines of one wording differ only in their numbers: one line of each wording is split, and the
numbers of all others are taken out of them at once. A line with an odd number is split itself.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trueput.sources.vllm_log.block import NO_TIME, instants, named
from trueput.sources.vllm_log.lives import Numbered
from trueput.sources.vllm_log.printed import NUMBER, Printed, read_numbers
from trueput.sources.vllm_log.problems import Problems

STATS: Final = (
    r"^(?:(?:Engine [0-9]{3,6}|[0-9]+ Engines Aggregated): )?"
    r"(?:Avg prompt throughput: |Prefix cache hit rate: GPU: |Speculative metrics: |"
    r"SpecDecoding metrics: |KV Transfer metrics: |MFU: )"
)
OWNER: Final = re.compile(r"(?:Engine ([0-9]{3,6})|[0-9]+ Engines Aggregated): ")
FLOPS: Final = re.compile(r"MFU: (\S+) TF/s/device (\S+) GB/s/device")
LISTED: Final = "Per-position acceptance rate"
FOLLOWED: Final = re.compile(r"(?=[ %,])|\.?\Z")
"""What may stand behind a value."""
TRIAL: Final = 900_000_000_000
"""The first of the numbers that a wording is tried with."""
REMEMBERED: Final = 4096

Lines = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NO_LINES: Final[Lines] = np.zeros(0, np.int64)
NO_FLOATS: Final[Floats] = np.zeros(0, np.float64)

KNOWN: Final = {
    # printed key: (name, kind)
    "Avg prompt throughput": ("prompt_tokens_per_s", "interval"),
    "Avg generation throughput": ("generation_tokens_per_s", "interval"),
    "Running": ("running_requests", "gauge"),
    "Waiting": ("waiting_requests", "gauge"),
    "Pending": ("waiting_requests", "gauge"),
    "Swapped": ("swapped_requests", "gauge"),
    "Deferred": ("deferred_requests", "gauge"),
    "Preemptions": ("preemptions", "interval"),
    "Corrupted": ("corrupted_requests", "interval"),
    "Prefix cache hit rate": ("prefix_cache_hit_ratio", "gauge"),
    "Prefix cache hit rate GPU": ("prefix_cache_hit_ratio", "gauge"),
    "CPU": ("swap_prefix_cache_hit_ratio", "gauge"),
    "External prefix cache hit rate": ("external_prefix_cache_hit_ratio", "gauge"),
    "MM cache hit rate": ("mm_cache_hit_ratio", "gauge"),
    "Mean acceptance length": ("mean_acceptance_length", "interval"),
    "Accepted throughput": ("accepted_tokens_per_s", "interval"),
    "Drafted throughput": ("drafted_tokens_per_s", "interval"),
    "Accepted": ("accepted_tokens", "interval"),
    "Drafted": ("drafted_tokens", "interval"),
    "Per-position acceptance rate": ("per_position_acceptance_ratio", "interval"),
    "Avg Draft acceptance rate": ("draft_acceptance_ratio", "interval"),
    "Draft acceptance rate": ("draft_acceptance_ratio", "interval"),
    "System efficiency": ("system_efficiency", "interval"),
    "Number of speculative tokens": ("number_of_speculative_tokens", "gauge"),
}
GAUGES: Final = ("KV fetch",)
"""Keys whose parts name a state each."""


@lru_cache(maxsize=4096)
def metric_of(key: str, words: str, family: str, swap: bool, position: int) -> tuple[str, str, str]:
    """Return name, kind and labels of a printed key.

    `words` follow a number that has no key of its own; `swap` says that the line also has the KV
    cache of the GPU, so that the one of the CPU is V0's swap space; `position` counts the numbers
    behind one key.
    """
    if key.endswith("KV cache usage"):
        is_swap = swap and key == "CPU KV cache usage"
        return ("log:swap_kv_used_ratio" if is_swap else "log:kv_used_ratio"), "gauge", ""
    if key in KNOWN and not family:
        name, kind = KNOWN[key]
        return f"log:{name}", kind, f"position={position}" if key == LISTED else ""
    name = re.sub(r"[^a-z0-9]+", "_", f"{key} {words}".lower()).strip("_")
    return f"log:{family}{name}"[:120], "gauge" if key in GAUGES else "interval", ""


@dataclass(frozen=True)
class Wording:
    """A line without its numbers: its engine, and for each number its metric and divisor."""

    engine: str
    metrics: Lines
    divisors: Floats


NO_WORDING: Final = Wording("", NO_LINES, NO_FLOATS)


@dataclass(frozen=True)
class SampleRows:
    """Rows of `engine_samples`; `engine` and `metric` are places in `engines` and `metrics`
    (name, kind, labels)."""

    line: Lines
    at_ns: Lines
    engine: Lines
    engines: list[str]
    metric: Lines
    metrics: list[tuple[str, str, str]]
    value: Floats

    def numbered(self) -> Numbered:
        """Return the rows as the lives of an engine are counted by."""
        return Numbered(self.line, self.engine, self.engines, self.line)

    def columns(self) -> dict[str, Any]:
        """Return the columns of `engine_samples` without incarnation."""
        return {
            "line": pa.array(self.line),
            "at_ns": instants(self.at_ns),
            "engine": named(self.engine, self.engines),
            "metric": named(self.metric, [m[0] for m in self.metrics]),
            "kind": named(self.metric, [m[1] for m in self.metrics]),
            "labels": named(self.metric, [m[2] for m in self.metrics]),
            "value": pa.array(self.value),
        }


@dataclass
class Samples:
    """Rows of statistics lines, and which lines were already printed by another API server."""

    problems: Problems
    _seen: OrderedDict[tuple[int, str], None] = field(default_factory=OrderedDict)
    _metrics: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _wordings: dict[bytes, Wording | None] = field(default_factory=dict)

    def read(self, line: Lines, at_ns: Lines, messages: list[str]) -> SampleRows:
        """Return the rows of these lines, all of which are statistics lines."""
        new = self._new_lines(at_ns.tolist(), messages)
        if new is not None:
            line, at_ns, messages = line[new], at_ns[new], [messages[at] for at in new]
        printed = read_numbers(messages)
        wordings = self._wordings_of(printed, messages)
        none = np.array([wording is None for wording in wordings], np.bool_)
        is_odd = printed.odd | none[printed.wording]
        metrics, divisors = _laid_out(wordings, printed.wording[~is_odd])
        of_number = np.repeat(np.arange(len(messages)), printed.counts)
        sound = ~is_odd[of_number]
        of_line, values = of_number[sound], printed.numbers[sound] / divisors
        names = list(dict.fromkeys(wording.engine for wording in wordings if wording))
        owners = [names.index(wording.engine) if wording else -1 for wording in wordings]
        owner = np.array(owners, np.int64)[printed.wording]
        odd = np.flatnonzero(is_odd).tolist()
        for at in odd:
            name, body = _owner(messages[at])
            if name not in names:
                names.append(name)
            owner[at] = names.index(name)
            keys, read = self._line(int(line[at]), body)
            metrics = np.append(metrics, np.array(keys, np.int64))
            values = np.append(values, read)
            of_line = np.append(of_line, np.full(len(keys), at))
        if odd:
            order = np.argsort(of_line, kind="stable")
            metrics, values, of_line = metrics[order], values[order], of_line[order]
        known = list(self._metrics)
        engine = owner[of_line]
        return SampleRows(line[of_line], at_ns[of_line], engine, names, metrics, known, values)

    def _wordings_of(self, printed: Printed, messages: list[str]) -> list[Wording | None]:
        """Return what each wording says, None where it is not each number one value."""
        found: list[Wording | None] = []
        for number, text in enumerate(printed.wordings):
            if text not in self._wordings:
                if len(self._wordings) > REMEMBERED:
                    self._wordings.clear()
                of_it = np.flatnonzero((printed.wording == number) & ~printed.odd)
                if not len(of_it):
                    found.append(None)
                    continue
                parts = NUMBER.split(messages[int(of_it[0])])
                del parts[2::3]
                self._wordings[text] = self._tried(tuple(parts))
            found.append(self._wordings[text])
        return found

    def _new_lines(self, times: list[int], messages: list[str]) -> list[int] | None:
        """Return which lines no other API server printed before; None for all of them."""
        keys = list(zip(times, messages, strict=True))
        stamped = dict.fromkeys(key for key in keys if key[0] != NO_TIME)
        if len(stamped) == len(keys) and self._seen.keys().isdisjoint(stamped):
            self._seen.update(stamped)
            while len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            return None
        return [at for at, key in enumerate(keys) if key[0] == NO_TIME or self._is_new(*key)]

    def _is_new(self, at_ns: int, message: str) -> bool:
        key = (at_ns, message)
        if key in self._seen and message.startswith("Engine "):
            return False
        self._seen[key] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def _tried(self, parts: tuple[str, ...]) -> Wording | None:
        """Return what the numbers of a wording are, None where it is not each one value.

        `parts` are by turns what stands before a number and the mark in front of it.
        """
        before = [text + mark for text, mark in zip(parts[:-1:2], parts[1::2], strict=True)]
        behind = [*before[1:], parts[-1]][: len(before)]
        if not all(FOLLOWED.match(text) for text in behind):
            return None
        numbers = [TRIAL + at for at in range(len(before))]
        tried = "".join(f"{text}{number}" for text, number in zip(before, numbers, strict=True))
        engine, body = _owner(tried + parts[-1])
        metrics, values = self._line(None, body)
        if not values or len(values) != len(before):
            return None
        divisors = []
        for number, value in zip(numbers, values, strict=True):
            if value not in (number, number / 100):
                return None
            divisors.append(1.0 if value == number else 100.0)
        return Wording(engine, np.array(metrics, np.int64), np.array(divisors, np.float64))

    def _line(self, line: int | None, body: str) -> tuple[list[int], list[float]]:
        """Return metric and value of each part of a line. A part without a number is reported;
        without a line, nothing is returned then."""
        metrics: list[int] = []
        values: list[float] = []
        family, body = _family(body)
        swap = "GPU KV cache usage" in body
        key, position = "", 0
        for part in body.removesuffix(".").split(", "):
            left, colon, right = part.partition(family.colon)
            position = 0 if colon else position + 1
            if colon:
                key = left
            number, _, words = (right if colon else left).partition(" ")
            value = _number(number)
            if value is None or not key:
                if line is None:
                    return [], []
                self.problems.add("VLOG005", line)
                continue
            named_by = words if not colon or key in GAUGES else ""
            metric = metric_of(key, named_by, family.name, swap, position)
            metrics.append(self._metrics.setdefault(metric, len(self._metrics)))
            values.append(value)
        return metrics, values


def _laid_out(wordings: list[Wording | None], which: Lines) -> tuple[Lines, Floats]:
    """Return metric and divisor of every number of lines of these wordings, in order."""
    said = [wording or NO_WORDING for wording in wordings]
    counts = np.array([len(wording.metrics) for wording in said], np.int64)
    first = np.cumsum(counts) - counts
    of_line = counts[which]
    start = first[which] - (np.cumsum(of_line) - of_line)
    at = np.repeat(start, of_line) + np.arange(int(of_line.sum()))
    metrics = np.concatenate([NO_LINES, *(wording.metrics for wording in said)])
    divisors = np.concatenate([NO_FLOATS, *(wording.divisors for wording in said)])
    return metrics[at], divisors[at]


def _owner(message: str) -> tuple[str, str]:
    """Return the engine that a line speaks of, and what it says."""
    if match := OWNER.match(message):
        return (str(int(match[1])) if match[1] else "all"), message[match.end() :]
    return "0", message


@dataclass(frozen=True)
class Family:
    """A heading of statistics lines: what its names begin with, and what follows a key."""

    heading: str
    name: str = ""
    colon: str = ": "


FAMILIES: Final = (
    Family("SpecDecoding metrics: "),
    Family("Speculative metrics: "),
    Family("KV Transfer metrics: ", "kv_transfer_", "="),
)
PLAIN: Final = Family("")


def _family(body: str) -> tuple[Family, str]:
    for family in FAMILIES:
        if body.startswith(family.heading):
            return family, body[len(family.heading) :]
    if body.startswith("Prefix cache hit rate: GPU: "):
        # The only key with a colon in it.
        return PLAIN, body.replace(": ", " ", 1)
    if match := FLOPS.match(body):
        # Two numbers without a comma between them.
        body = f"mfu tflops per s per device: {match[1]}, mfu gb per s per device: {match[2]}"
    return PLAIN, body


def _number(text: str) -> float | None:
    percent = text.endswith("%")
    try:
        value = float(text.rstrip("%").replace(",", ""))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return value / 100 if percent else value
