"""What a source is: the only module that the author of a new format needs.

A source is a frozen value with two functions. `sniff` says how sure it is that a file is its own;
`read` yields what it found, in file order, in bounded memory. Defects are `Problem`s, never
exceptions. Built-in sources are found by listing the folder `trueput/sources`; every module there
has a constant `SOURCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from trueput.clock import ClockKind

HEAD_BYTES = 65_536
"""How many (decompressed) bytes of a file `sniff` is shown."""

BATCH_ROWS = 65_536
"""The largest number of rows in one `Batch`."""

MOST_LOST = 0.01
"""So small a share of a profile's operations may be lost without a word about its gaps: a fifth of
the smallest change that the gate looks for by default."""


def loses_much(lost: int, whole: int) -> bool:
    """Return whether so many of all operations are lost that gaps between the rest tell nothing."""
    return lost > MOST_LOST * whole


class Severity(StrEnum):
    """How much a problem takes away."""

    INFO = "info"
    """Noted; nothing was lost."""
    WARNING = "warning"
    """A record or part of one was not read."""
    ERROR = "error"
    """The rest of the file, or a whole kind of record, was not read."""


@dataclass(frozen=True)
class Sniff:
    """How sure a source is (0..1) that a file is its own, and why. 0 means "not mine"."""

    score: float
    reason: str


NOT_MINE = Sniff(0.0, "no mark of this format in the first 64 KiB")


@dataclass(frozen=True)
class Batch:
    """Rows of one ingested table, in source order, instants on the source's own clock.

    `rows` is a pyarrow Table or RecordBatch whose columns are a subset of the table's schema
    (missing columns are NULL; `run_id` and `source_id` are filled by ingest), or a list of dicts.
    """

    table: str
    rows: pa.Table | pa.RecordBatch | list[dict[str, Any]]


@dataclass(frozen=True)
class Problem:
    """One thing in the input that was not as it should be. `text` never holds prompt text.

    `count` > 1 stands for that many problems of the same code, of which this is the first.
    """

    code: str
    severity: Severity
    text: str
    line: int | None = None
    count: int = 1


@dataclass(frozen=True)
class Fact:
    """Something a file says of the whole run: `engine_version`, `config.max_num_seqs`, ...

    Keys used by the rest of trueput: `engine`, `engine_version`, `model`, `hardware`, `profiled`,
    `clock.date_end_ns`, `config.<name>` (engine configuration), `client.<name>` (the load that was
    asked for), `slo.<metric>` (nanoseconds), `kv.<name>` (KV-cache facts). Values are JSON types.
    """

    key: str
    value: str | int | float | bool | None
    line: int | None = None


@dataclass(frozen=True)
class Clock:
    """The kind of clock this file's instants are on; yielded once, before or after the batches.

    `offset_ns` is given where the file itself proves the way to UTC, with its uncertainty.
    """

    kind: ClockKind
    offset_ns: int | None = None
    uncertainty_ns: int | None = None
    method: str = ""


Item: TypeAlias = Batch | Problem | Fact | Clock


@dataclass(frozen=True)
class ReadOptions:
    """What the run folder says about a file, for sources that need it.

    `run_toml` is the parsed run.toml ({} without one); `mtime_ns` the file's modification time;
    `year` the year of log lines that print none; `siblings` the names of the other files of the
    run, relative to the run folder.
    """

    run_toml: Mapping[str, Any] = field(default_factory=dict)
    mtime_ns: int | None = None
    year: int | None = None
    relative_path: str = ""
    siblings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """One file format.

    `problem_codes` maps each code the source can emit to what it means; `proves` says in one
    sentence what a file of this format can prove; `turn_on` names the switch that writes it.
    """

    name: str
    title: str
    versions: str
    tables: tuple[str, ...]
    sniff: Callable[[str, bytes], Sniff]
    read: Callable[[Path, ReadOptions], Iterator[Item]]
    problem_codes: Mapping[str, str] = field(default_factory=dict)
    proves: str = ""
    turn_on: str = ""
