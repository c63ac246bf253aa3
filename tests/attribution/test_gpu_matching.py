"""Steps of a profile that lacks every iteration of one composition, found in the engine's log."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from trueput.attribution.gpu.profile.marks import Marks
from trueput.attribution.gpu.steps.match import matched
from trueput.attribution.gpu.time.clock import SEVERAL

MS, SECOND = 1_000_000, 1_000_000_000
TOOK_NS, BETWEEN_NS = 10 * MS, 2 * MS


@dataclass(frozen=True)
class Iteration:
    """What an iteration computes: tokens of a prompt, and sequences that each get a token."""

    context: int
    decoding: int


def one_at_a_time(seed: int) -> Iterator[Iteration]:
    """A prompt, alone, and then as many iterations as its answer has tokens: 25 of 26 are equal."""
    chance = random.Random(seed)
    for _ in range(40):
        yield Iteration(chance.randrange(50, 500), 0)
        yield from [Iteration(0, 1)] * chance.randrange(20, 30)


def in_batches(seed: int) -> Iterator[Iteration]:
    """Prompts come while others decode, so that the batch changes with each."""
    chance, left = random.Random(seed), [1]
    for _ in range(600):
        prompt = chance.randrange(50, 500) if chance.random() < 0.2 and len(left) < 12 else 0
        yield Iteration(prompt, len(left))
        left = [n - 1 for n in left if n > 1] + [chance.randrange(20, 60)] * (prompt > 0)


Engine = Callable[[int], Iterator[Iteration]]


def log_of(*engines: list[Iteration]) -> pa.Table:
    """The iterations of some engines, each printed at the second in which it ended."""
    rows = [(str(name), at, it) for name, engine in enumerate(engines)
            for at, it in enumerate(engine)]  # fmt: skip
    end = np.array([at * (TOOK_NS + BETWEEN_NS) + TOOK_NS for _, at, _ in rows])
    return pa.table({
        "source_id": ["log"] * len(rows), "engine": [name for name, _, _ in rows],
        "incarnation": [0] * len(rows), "step_ix": [at for _, at, _ in rows],
        "logged_at_ns": end // SECOND * SECOND, "elapsed_ns": [TOOK_NS] * len(rows),
        "context_requests": [int(it.context > 0) for _, _, it in rows],
        "context_tokens": [it.context for _, _, it in rows],
        "generation_requests": [it.decoding for _, _, it in rows],
        "generation_tokens": [it.decoding for _, _, it in rows],
    })  # fmt: skip


def profile_of(
    engine: list[Iteration], kept: Callable[[Iteration], bool]
) -> tuple[Marks, list[int]]:
    """The annotations of the iterations that a profile holds, and which those are."""
    at = [n for n, it in enumerate(engine) if kept(it)]
    start = np.array(at, np.int64) * (TOOK_NS + BETWEEN_NS)
    context = np.array([engine[n].context for n in at], np.int64)
    decoding = np.array([engine[n].decoding for n in at], np.int64)
    zero = np.zeros(len(at), np.int64)
    marks = Marks((("trace", "1", "1"),), zero, start, start + TOOK_NS // 2,
                  (context > 0).astype(np.int64), context, decoding, decoding, zero)  # fmt: skip
    return marks, at


@pytest.mark.parametrize("kept", [
    pytest.param(lambda it: not it.context, id="no step that prefills"),
    pytest.param(lambda it: not it.context or it.context % 20 == 0, id="few that prefill"),
    pytest.param(lambda it: it.decoding != 1 or it.context > 0, id="none that decodes for one"),
])  # fmt: skip
@pytest.mark.parametrize("engine", [one_at_a_time, in_batches])
def test_what_is_there_is_found_whatever_is_missing(
    engine: Engine, kept: Callable[[Iteration], bool]
) -> None:
    iterations = list(engine(1))
    marks, at = profile_of(iterations, kept)
    assert len(at) < len(iterations)
    assert matched(marks, log_of(iterations), {}, {"trace"}).tolist() == at


@pytest.mark.parametrize("kept", [
    pytest.param(lambda _: True, id="all"),
    pytest.param(lambda it: not it.context, id="no step that prefills"),
])  # fmt: skip
def test_of_two_engines_it_is_the_one_whose_steps_these_are(
    kept: Callable[[Iteration], bool],
) -> None:
    mine, other = list(in_batches(1)), list(in_batches(2))
    marks, at = profile_of(mine, kept)
    assert matched(marks, log_of(mine, other), {}, {"trace"}).tolist() == at
    assert (matched(marks, log_of(other), {}, {"trace"}) < 0).all()


def test_between_steps_that_follow_each_other_at_once_none_is_missing() -> None:
    """Compositions as if prefills were missing, and no time in which they can have run."""
    iterations = list(in_batches(1))
    marks, at = profile_of(iterations, lambda it: not it.context)
    start = np.arange(len(at)) * (TOOK_NS + BETWEEN_NS)
    marks = replace(marks, start_ns=start, end_ns=start + TOOK_NS // 2)
    assert (matched(marks, log_of(iterations), {}, {"trace"}) < 0).all()


@pytest.mark.parametrize("engine", [in_batches, one_at_a_time])
def test_a_stretch_of_a_long_log_is_found_without_a_clock(engine: Engine) -> None:
    """Equal iterations are many, and those that tell where it lies are few."""
    whole = [it for seed in range(10) for it in engine(seed)]
    first = len(whole) // 2
    marks, at = profile_of(whole[first : first + 300], lambda _: True)
    assert (matched(marks, log_of(whole)) == np.array(at) + first).all()


def only_decoding(count: int, *, varied: bool) -> tuple[pa.Table, Marks]:
    """An engine that always decodes for three, and all of its steps; each takes 10 ms, or 3 % more
    or less."""
    engine = [Iteration(0, 3)] * count
    log, (marks, _) = log_of(engine), profile_of(engine, lambda _: True)
    if not varied:
        return log, marks
    chance = np.random.default_rng(5)
    took = (TOOK_NS * chance.normal(1, 0.03, count)).astype(np.int64)
    pause = (BETWEEN_NS * chance.normal(1, 0.02, count)).astype(np.int64)
    start = np.cumsum(took + pause) - took - pause
    for name, values in (("elapsed_ns", took), ("logged_at_ns", (start + took) // SECOND * SECOND)):
        log = log.set_column(log.column_names.index(name), name, pa.array(values))
    return log, replace(marks, start_ns=start, end_ns=start + took)


@pytest.mark.parametrize("dated", [{"trace"}, set()])
@pytest.mark.parametrize("size", [12, 60])
def test_equal_steps_that_may_be_anywhere_are_nowhere(dated: set[str], size: int) -> None:
    log, marks = only_decoding(2_000, varied=False)
    found = matched(marks.of(slice(700, 700 + size)), log, {}, dated)
    assert (found == SEVERAL).all()


def test_equal_steps_are_found_by_how_long_each_took() -> None:
    log, marks = only_decoding(2_000, varied=True)
    for first in range(0, 1_900, 190):
        found = matched(marks.of(slice(first, first + 60)), log, {}, {"trace"})
        assert found.tolist() == list(range(first, first + 60))


@pytest.mark.parametrize("dated", [{"trace"}, set()])
def test_few_equal_steps_are_found_or_not_but_never_elsewhere(dated: set[str]) -> None:
    log, marks = only_decoding(2_000, varied=True)
    for first in range(0, 1_980, 45):
        found = matched(marks.of(slice(first, first + 18)), log, {}, dated)
        assert (found == SEVERAL).all() or found.tolist() == list(range(first, first + 18))
