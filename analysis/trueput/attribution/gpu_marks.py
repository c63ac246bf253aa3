"""Step annotations of a profile, read from gpu_ranges row group by row group into plain arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trueput.attribution.records import Ints

Place: TypeAlias = tuple[str | None, ...]
"""File, process and thread; of a kernel without the thread."""
Bools: TypeAlias = NDArray[np.bool_]

COMPOSITION = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
_KEYS = ("source_id", "process_key", "thread_key")


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
    """Step annotations, the innermost of nested ones; by file, process and start."""

    places: tuple[Place, ...]
    place: Ints
    """Position in `places` for each annotation."""
    start_ns: Ints
    end_ns: Ints
    context_requests: Ints
    context_tokens: Ints
    generation_requests: Ints
    generation_tokens: Ints

    def __len__(self) -> int:
        return self.start_ns.size

    def of(self, which: Ints | Bools | slice) -> Marks:
        """Return some of the annotations."""
        names = [f.name for f in fields(self) if f.name != "places"]
        return replace(self, **{name: getattr(self, name)[which] for name in names})


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
            words = [c for c in columns if file.schema_arrow.field(c).type == pa.string()]
        with pq.ParquetFile(path, read_dictionary=words) as file:
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
            if told is None or not told.has_min_max:
                return True
            return any(told.min <= high and told.max >= low for low, high in ranges)
    return True


def numbers(column: Any) -> Ints:
    """Return a column as whole numbers, 0 for NULL."""
    whole: Any = pc.fill_null(column, 0) if column.null_count else column
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


def read_marks(paths: Sequence[Path]) -> Marks | None:
    """Return the step annotations of a run; None where no annotation names a step."""
    places = Places()
    columns = (*_KEYS, "start_at_ns", "end_at_ns", *COMPOSITION)
    pieces: list[list[Ints]] = []
    for rows in row_groups(paths, (*columns, "dialect")):
        known = pc.or_(
            pc.is_valid(rows.column("context_tokens")),
            pc.is_valid(rows.column("generation_tokens")),
        )
        steps = rows.filter(pc.and_(known, pc.is_valid(rows.column("dialect"))))
        if steps.num_rows:
            place = places.codes([words(steps.column(k)) for k in _KEYS])
            pieces.append([place, *(numbers(steps.column(c)) for c in columns[len(_KEYS) :])])
    if not pieces:
        return None
    names = tuple(places.known)
    joined = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return _by_start(_innermost(Marks(names, *joined)))


def _ranks(places: Sequence[Place], width: int) -> Ints:
    """Return the order of each place by its first `width` parts; NULL comes first."""
    keys = [tuple((part is not None, part or "") for part in p[:width]) for p in places]
    order = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([order[key] for key in keys], np.int64)


def _innermost(marks: Marks) -> Marks:
    """Leave out each annotation that holds the next one of its thread."""
    rank = _ranks(marks.places, 3)[marks.place]
    marks = marks.of(np.lexsort((-marks.end_ns, marks.start_ns, rank)))
    holds = np.zeros(len(marks), np.bool_)
    holds[:-1] = (
        (marks.place[1:] == marks.place[:-1])
        & (marks.start_ns[1:] >= marks.start_ns[:-1])
        & (marks.end_ns[1:] <= marks.end_ns[:-1])
    )
    return marks.of(~holds) if holds.any() else marks


def _by_start(marks: Marks) -> Marks:
    rank = _ranks(marks.places, 2)[marks.place]
    return marks.of(np.lexsort((marks.start_ns, rank)))
