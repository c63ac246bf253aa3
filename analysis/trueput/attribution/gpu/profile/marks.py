"""Step annotations of a profile, read from gpu_ranges row group by row group into plain arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trueput.attribution.records import SHAPE_NUMBERS, UNTOLD, Ints

Place: TypeAlias = tuple[str | None, ...]
"""File, process and thread; of a kernel without the thread."""
Bools: TypeAlias = NDArray[np.bool_]

COMPOSITION = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
_KEYS = ("source_id", "process_key", "thread_key")
_COLUMNS = ("start_at_ns", "end_at_ns", *COMPOSITION)
DUPLICATE: Final = "duplicate"
"""Word of gpu_ops.quality for an operation that its file holds twice."""
CONTEXT_UNTOLD: Final = 1
"""The tokens that requests without a first token were given are not told."""
GENERATION_UNTOLD: Final = 2
"""Neither requests nor tokens of decoding are told."""


class Places:
    """Numbers for the places that occur, in order of first sight."""

    def __init__(self) -> None:
        self.known: dict[Place, int] = {}

    def codes(self, columns: Sequence[Any]) -> Ints:
        """Return one number per row for the values of dictionary columns."""
        flat: Ints = np.zeros(len(columns[0]), np.int64)
        choices: list[list[str | None]] = []
        for column in columns:
            indices = pc.fill_null(column.indices, len(column.dictionary))
            choices.append([*column.dictionary.to_pylist(), None])
            flat = flat * len(choices[-1]) + indices.to_numpy(zero_copy_only=False)
        used, inverse = np.unique(flat, return_inverse=True)
        numbers = np.zeros(used.size, np.int64)
        for at, code in enumerate(used.tolist()):
            names: list[str | None] = []
            rest = code
            for choice in reversed(choices):
                rest, index = divmod(rest, len(choice))
                names.append(choice[index])
            numbers[at] = self.known.setdefault(tuple(reversed(names)), len(self.known))
        found: Ints = numbers[inverse.ravel()]
        return found


@dataclass(frozen=True)
class Marks:
    """Step annotations, the innermost of nested ones; by file, process and start.

    Numbers other than instants may be of four bytes: a long profile has hundreds of thousands of
    steps. Those that `of` returns are of eight.
    """

    places: tuple[Place, ...]
    place: Ints
    """Position in `places` for each annotation."""
    start_ns: Ints
    end_ns: Ints
    context_requests: Ints
    context_tokens: Ints
    generation_requests: Ints
    generation_tokens: Ints
    untold: Ints
    """Bits: CONTEXT_UNTOLD, GENERATION_UNTOLD; their numbers are then 0."""
    shapes: Ints | None = None
    """(n, 6) SHAPE_NUMBERS, UNTOLD where an annotation has none; None where they were not read."""

    def __len__(self) -> int:
        return self.start_ns.size

    def of(self, which: Ints | Bools | slice) -> Marks:
        """Return some of the annotations."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "places"}
        chosen = {
            name: values[which].astype(np.int64, copy=False)
            for name, values in known.items()
            if values is not None
        }
        return replace(self, **chosen)


def row_groups(
    paths: Sequence[Path],
    columns: Sequence[str],
    within: Mapping[str, Sequence[tuple[int, int]]] | None = None,
) -> Iterator[pa.Table]:
    """Yield row groups of parts, texts as dictionaries.

    `within` names columns and ranges: a row group without a value in any of them is passed over.
    """
    for path in paths:
        with pq.ParquetFile(path) as file:
            texts = [c for c in columns if file.schema_arrow.field(c).type == pa.string()]
        with pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False) as file:
            for index in range(file.num_row_groups):
                group = file.metadata.row_group(index)
                if all(_touches(group, c, ranges) for c, ranges in (within or {}).items()):
                    yield file.read_row_group(index, list(columns), use_threads=False)


def _touches(group: Any, column: str, ranges: Sequence[tuple[int, int]]) -> bool:
    """Return whether a row group may hold a value inside one of the ranges."""
    for at in range(group.num_columns):
        part = group.column(at)
        if part.path_in_schema == column:
            told = part.statistics
            if told is not None and told.has_null_count and told.null_count == group.num_rows:
                return False
            if told is None or not told.has_min_max:
                return True
            return any(told.min <= high and told.max >= low for low, high in ranges)
    return True


def numbers(column: Any, null: int = 0) -> Ints:
    """Return a column as whole numbers, `null` for NULL."""
    whole: Any = pc.fill_null(column, null) if column.null_count else column
    found: Ints = whole.to_numpy()
    return found


def words(column: Any) -> Any:
    """Return a text column of a row group as one dictionary array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.unify_dictionaries().combine_chunks()


def has_word(column: Any, word: str) -> Bools:
    """Return for each row of a text column whether it is `word`."""
    array = words(column)
    wanted = np.array([*(text == word for text in array.dictionary.to_pylist()), False])
    indices: Any = pc.fill_null(array.indices, len(array.dictionary))
    found: Bools = wanted[indices.to_numpy(zero_copy_only=False)]
    return found


def set_aside(quality: Any) -> Bools:
    """Return for each operation whether it counts nowhere: its times or its device are unknown, or
    another row says the same."""
    found = has_word(quality, "implausible") | has_word(quality, "no_device")
    return found | has_word(quality, DUPLICATE)


def read_marks(paths: Sequence[Path], *, shapes: bool = False) -> Marks | None:
    """Return the step annotations of a run; None where no annotation names a step.

    `shapes` are read as well where that is asked for.
    """
    places = Places()
    besides = SHAPE_NUMBERS if shapes else ()
    pieces: list[list[Any]] = [[] for _ in range(len(_COLUMNS) + len(besides) + 2)]
    groups = row_groups(paths, (*_KEYS, *_COLUMNS, *besides, "dialect"))
    # by `map`: no row group is kept while the next one is read
    for found in map(partial(_of_group, places, besides), groups):
        for into, column in zip(pieces, found, strict=False):
            into.append(column)
    if not pieces[0]:
        return None
    names = tuple(places.known)
    place, start, end = (_joined(column) for column in pieces[:3])
    order = _innermost_by_start(names, place, start, end)
    # one column after the other: a long profile has hundreds of thousands of steps
    chosen = [place[order], start[order], end[order]]
    del place, start, end
    last = len(pieces) - len(besides)
    chosen += [_joined(column)[order] for column in pieces[3:last]]
    told = [_joined(column)[order] for column in pieces[last:]]
    marks = Marks(names, *chosen)
    return replace(marks, shapes=np.stack(told, axis=1)) if told else marks


def _of_group(places: Places, besides: Sequence[str], rows: pa.Table) -> list[Any]:
    """Return the places of the step annotations of a row group, its _COLUMNS, what they do not
    tell, and the columns `besides`, UNTOLD for NULL; [] without any."""
    known = pc.or_(
        pc.is_valid(rows.column("context_tokens")),
        pc.is_valid(rows.column("generation_tokens")),
    )
    steps = rows.filter(pc.and_(known, pc.is_valid(rows.column("dialect"))))
    if not steps.num_rows:
        return []
    code = places.codes([words(steps.column(k)) for k in _KEYS])
    told = (_compact(numbers(steps.column(name))) for name in _COLUMNS)
    more = (_compact(numbers(steps.column(name), UNTOLD)) for name in besides)
    return [_compact(code), *told, _compact(_untold(steps)), *more]


def _untold(steps: pa.Table) -> Ints:
    """Return for each step which parts of its composition are NULL."""
    found: Ints = np.zeros(steps.num_rows, np.int64)
    for bit, names in (
        (CONTEXT_UNTOLD, ("context_tokens",)),
        (GENERATION_UNTOLD, ("generation_requests", "generation_tokens")),
    ):
        missing = np.ones(steps.num_rows, np.bool_)
        for name in names:
            missing &= pc.is_null(steps.column(name)).to_numpy(zero_copy_only=False)
        found |= missing * bit
    return found


def _compact(values: Ints) -> Any:
    """Return a copy in four bytes a value where they do: what it came from can go."""
    small = values.astype(np.int32)
    return small if (small == values).all() else values.copy()


def _joined(pieces: list[Any]) -> Ints:
    """Return the pieces as one array, and let go of them."""
    whole: Ints = np.concatenate(pieces)
    pieces.clear()
    return whole


def _ranks(places: Sequence[Place], width: int) -> Ints:
    """Return the order of each place by its first `width` parts; NULL comes first."""
    keys = [tuple((part is not None, part or "") for part in p[:width]) for p in places]
    order = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([order[key] for key in keys], np.int64)


def _innermost_by_start(places: Sequence[Place], place: Ints, start: Ints, end: Ints) -> Ints:
    """Positions of the annotations by file, process and start.

    Without each annotation that holds the next one of its thread.
    """
    order = np.lexsort((-end, start, _ranks(places, 3)[place]))
    thread, begins, ends = place[order], start[order], end[order]
    holds = np.zeros(order.size, np.bool_)
    holds[:-1] = (thread[1:] == thread[:-1]) & (begins[1:] >= begins[:-1]) & (ends[1:] <= ends[:-1])
    inner: Ints = order[~holds]
    by_start: Ints = inner[np.lexsort((start[inner], _ranks(places, 2)[place[inner]]))]
    return by_start
