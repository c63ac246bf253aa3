"""What step annotations tell of the log's iterations beyond their counts: lengths and squares.

The newest annotations of vLLM and SGLang tell sums over the requests of a step: of their lengths,
of the squares of their scheduled tokens, and of tokens times length. Two requests that share an
iteration, of which the log prints one number of tokens, are told apart by them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trueput.attribution.gpu.profile.marks import Bools, Marks, numbers, read_marks
from trueput.attribution.gpu.steps.match import matched
from trueput.attribution.records import SHAPE_NUMBERS, UNTOLD, Floats, Ints

Life: TypeAlias = tuple[str, int]
"""Engine and incarnation."""


def shapes_of_iterations(
    parts: Mapping[str, Sequence[Path]],
    printed: Callable[[], pa.Table],
    offsets: Mapping[str, int],
    dated: Collection[str],
) -> dict[Life, tuple[Ints, Ints]]:
    """Return for each life of an engine numbers of iterations and their (n, 6) SHAPE_NUMBERS.

    Nothing where no annotation tells any, and where what they tell cannot be these sums.
    `printed` gives the iterations, `offsets` and `dated` are those of `matched`.
    """
    paths = parts.get("gpu_ranges", ())
    if not any(_has_shapes(path) for path in paths):
        return {}
    iterations, marks = printed(), read_with_shapes(paths)
    if marks is None or marks.shapes is None:
        return {}
    at = matched(marks, iterations, offsets, dated)
    tied: Bools = (at >= 0) & (marks.shapes != UNTOLD).any(axis=1)
    # the ranks of one engine say the same of a step
    places, first = np.unique(at[tied], return_index=True)
    told = marks.shapes[tied][first].astype(np.int64, copy=False)
    engines = iterations.column("engine").to_pylist()
    lives = numbers(iterations.column("incarnation"))[places]
    step_ix = numbers(iterations.column("step_ix"))[places]
    found: dict[Life, tuple[Ints, Ints]] = {}
    names = np.array([str(engines[place]) for place in places.tolist()], dtype=object)
    for name in dict.fromkeys(zip(names.tolist(), lives.tolist(), strict=True)):
        mine = (names == name[0]) & (lives == name[1])
        found[name] = (step_ix[mine], told[mine])
    return found


def read_with_shapes(paths: Sequence[Path], denied: list[str] | None = None) -> Marks | None:
    """Return the step annotations, with their shapes where they tell any.

    A file whose numbers cannot be these sums tells none, and is added to `denied`.
    """
    marks = read_marks(paths, shapes=any(_has_shapes(path) for path in paths))
    if marks is None or marks.shapes is None:
        return marks
    shapes = marks.shapes.astype(np.int64)
    wrong = ~_can_be_sums(marks)
    for source in dict.fromkeys(str(place[0]) for place in marks.places):
        here = np.array([str(place[0]) == source for place in marks.places])[marks.place]
        if (wrong & here).any():
            shapes[here] = UNTOLD
            if denied is not None:
                denied.append(source)
    return replace(marks, shapes=shapes if (shapes != UNTOLD).any() else None)


def kv_by_annotation(marks: Marks, again: Ints) -> Floats:
    """Return (n, 3) tokens in the KV cache that prefill, decode and recompute read, NaN where the
    annotations do not tell; `again` is what each step computed again.

    What one victim reads beside sequences that decode follows from tokens times lengths.
    """
    found = np.full((len(marks), 3), np.nan)
    if marks.shapes is None:
        return found
    shapes = marks.shapes.astype(np.int64)
    context_kv = shapes[:, 1]
    squares, kv, products = shapes[:, 3:].T
    more = marks.generation_tokens.astype(np.int64) - marks.generation_requests
    told = (shapes[:, [1, 3, 4, 5]] != UNTOLD).all(axis=1) & (marks.untold == 0)
    # of one request that takes more than a token, and takes all of what is more
    is_one = squares - 2 * marks.generation_tokens + marks.generation_requests == more * more
    plain = told & (more == 0) & (again == 0)
    victim = told & (more > 0) & is_one & (again > 0) & (again <= more)
    length = np.where(victim, (products - kv) / np.maximum(more, 1), 0)
    # with the last of it comes its next token: it is read once for both
    decode, recompute = kv - length / 2, length / 2
    each = np.stack([context_kv, decode, recompute], axis=1)
    found[plain | victim] = each[plain | victim]
    return found


def _has_shapes(path: Path) -> bool:
    """Return whether a part has any of the numbers, by its statistics."""
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        at = [names.index(name) for name in SHAPE_NUMBERS]
        groups = (file.metadata.row_group(g) for g in range(file.num_row_groups))
        return any(_has_values(group.column(k)) for group in groups for k in at)


def _has_values(column: Any) -> bool:
    told = column.statistics
    return told is None or not told.has_null_count or bool(told.null_count < column.num_values)


def _can_be_sums(marks: Marks) -> Bools:
    """Return for each step whether its numbers can be the sums that they are taken for.

    Of no request they are 0; of one its tokens squared, and times its length; of requests with a
    token each their number, and their lengths. None is shorter than what it is given.
    """
    assert marks.shapes is not None
    wrong = np.zeros(len(marks), np.bool_)
    for group, first in (("context", 0), ("generation", 3)):
        requests, tokens = (
            getattr(marks, f"{group}_{name}").astype(np.int64) for name in ("requests", "tokens")
        )
        squares, kv, products = marks.shapes[:, first : first + 3].astype(np.int64).T
        is_plain = (requests <= 1) | (tokens == requests)
        each = np.where(requests <= 1, tokens, 1)
        wrong |= is_plain & (squares != UNTOLD) & (squares != np.maximum(requests, 0) * each * each)
        # an annotation has one of the three or all: one of all could not be read
        wrong |= (marks.shapes[:, first : first + 3] != UNTOLD).sum(axis=1) == 2
        told = (kv != UNTOLD) & (products != UNTOLD)
        wrong |= is_plain & told & (products != each * kv)
        wrong |= (squares != UNTOLD) & ((squares < tokens) | (squares > tokens * tokens))
        # a request is as long as what it is given at least
        wrong |= (kv != UNTOLD) & (kv < tokens)
        wrong |= (squares != UNTOLD) & (products != UNTOLD) & (products < squares)
    found: Bools = ~wrong
    return found
