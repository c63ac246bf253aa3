"""The lives of each engine in one file: a restart begins a new one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from trueput.sources.vllm_log.problems import Problems

RESTART_DROP: Final = 10_000
"""A number lower by more than this, or lower than half, is a new count and not a late line."""

Lines = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Numbered:
    """Rows of steps or samples: line, engine (a place in `engines`), and number of the step."""

    line: Lines
    engine: Lines
    engines: list[str]
    step_ix: Lines

    def of(self, engine: str) -> slice | npt.NDArray[np.bool_]:
        """Return which rows are of an engine."""
        if self.engines == [engine]:
            return slice(None)
        if engine not in self.engines:
            return slice(0)
        found: npt.NDArray[np.bool_] = self.engine == self.engines.index(engine)
        return found


@dataclass
class Life:
    """One engine: how many lives it had, and whether it did something in the present one."""

    incarnation: int = 0
    active: bool = False
    last_ix: int | None = None


@dataclass
class Lives:
    """Counts the restarts of each engine. A start line is one when the engine had been active."""

    problems: Problems
    _engines: dict[str, Life] = field(default_factory=dict)
    _starts: list[tuple[int, str | None]] = field(default_factory=list)

    def add_start(self, line: int, engine: str | None) -> None:
        """Note a line in which an engine starts; None stands for all engines."""
        self._starts.append((line, engine))

    def number(self, steps: Numbered, samples: Numbered) -> tuple[Lines, Lines]:
        """Return the incarnation of each row of steps and of samples."""
        step_lives = np.zeros(len(steps.line), np.int64)
        sample_lives = np.zeros(len(samples.line), np.int64)
        for name in sorted({*steps.engines, *samples.engines, *self._engines}):
            of_steps, of_samples = steps.of(name), samples.of(name)
            life = self._engines.setdefault(name, Life())
            lines, numbers = steps.line[of_steps], steps.step_ix[of_steps]
            sampled = samples.line[of_samples]
            cuts = self._cuts(life, name, lines, numbers, sampled)
            base = life.incarnation
            step_lives[of_steps] = base + np.searchsorted(cuts, lines, side="right")
            sample_lives[of_samples] = base + np.searchsorted(cuts, sampled, side="right")
            life.incarnation += len(cuts)
            self._note_gaps(lines, numbers, life, cuts)
            if len(numbers):
                life.last_ix = int(numbers[-1])
            if cuts and (not len(lines) or cuts[-1] > lines[-1]):
                life.last_ix = None
        self._starts.clear()
        return step_lives, sample_lives

    def _cuts(
        self, life: Life, name: str, lines: Lines, numbers: Lines, sampled: Lines
    ) -> list[int]:
        """Return the lines at which a new life begins, in order."""
        starts = [n for n, engine in self._starts if engine is None or engine == name]
        busy = np.sort(np.concatenate([lines, sampled]))
        cuts = []
        since = 0
        for start in starts:
            until = int(np.searchsorted(busy, start))
            if life.active or until > since:
                cuts.append(start)
            life.active, since = False, until
        life.active = life.active or len(busy) > since
        before = np.concatenate([[-1 if life.last_ix is None else life.last_ix], numbers[:-1]])
        fell = (numbers * 2 < before) | (numbers < before - RESTART_DROP)
        for at in np.flatnonzero(fell):
            previous = int(lines[at - 1]) if at else 0
            if not any(previous < cut <= lines[at] for cut in cuts):
                cuts.append(int(lines[at]))
        return sorted(cuts)

    def _note_gaps(self, lines: Lines, numbers: Lines, life: Life, cuts: list[int]) -> None:
        if not len(numbers):
            return
        first = numbers[0] if life.last_ix is None else life.last_ix + 1
        expected = np.concatenate([[first], numbers[:-1] + 1])
        same_life = np.diff(np.searchsorted(cuts, lines, side="right"), prepend=0) == 0
        missing = np.where(same_life, numbers - expected, 0)
        gaps = np.flatnonzero(missing > 0)
        if len(gaps):
            at = int(lines[gaps[0]])
            self.problems.add("VLOG008", at, count=int(missing[gaps].sum()))
