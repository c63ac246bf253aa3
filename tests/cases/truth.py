"""What the instrumented scheduler wrote down, and what an iteration's tokens really cost.

Nothing here comes from the program: times are the scheduler's own, and the cost of a recomputed
token is fitted on the printed duration of the iterations whose composition the scheduler knows.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_ITERATION = re.compile(r"Iteration\((\d+)\):.* iteration elapsed time: ([\d.]+) ms")


@dataclass
class Life:
    """One request as the scheduler saw it; instants and spans in ns, of the monotonic clock."""

    added_ns: int
    prompt_tokens: int
    scheduled_ns: int | None = None
    first_token_ns: int | None = None
    preemptions: int = 0
    preempted_before_first_token: bool = False
    requeue_ns: int = 0
    recomputed: dict[int, int] = field(default_factory=dict)
    """Tokens computed again, by iteration."""

    @property
    def recomputed_tokens(self) -> int:
        """Tokens computed again, over all iterations."""
        return sum(self.recomputed.values())


@dataclass
class Truth:
    """A run: its requests by the id a client can know, and the time a recomputed token costs."""

    lives: dict[str, Life]
    token_ns: float

    @property
    def victims(self) -> dict[str, Life]:
        """The requests that were preempted."""
        return {name: life for name, life in self.lives.items() if life.preemptions}

    def lost_ns(self, life: Life) -> float:
        """Return what preemption took from a request: waiting, and computing again."""
        return life.requeue_ns + life.recomputed_tokens * self.token_ns


def _ns(seconds: float) -> int:
    return round(seconds * 10**9)


def _lines(path: Path) -> list[str]:
    packed = path.with_name(path.name + ".gz")
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return data.decode(errors="replace").splitlines()


def _printed_ns(folder: Path) -> dict[int, int]:
    found = (_ITERATION.search(line) for line in _lines(folder / "server.log"))
    return {int(m[1]): round(float(m[2]) * 10**6) for m in found if m}


def _request(name: str) -> str:
    return name.rsplit("-", 1)[0]


class _Replay:
    """Goes through the scheduler's events in order."""

    def __init__(self, elapsed_ns: dict[int, int]) -> None:
        self.elapsed_ns = elapsed_ns
        self.lives: dict[str, Life] = {}
        self.away: dict[str, int] = {}
        self.steps: list[tuple[int, int, int]] = []
        self.iteration = -1

    def event(self, event: dict[str, Any]) -> None:
        kind = event["ev"]
        if kind == "add":
            life = Life(_ns(event["mono"]), event["prompt"])
            self.lives[_request(event["req"])] = life
        elif kind == "preempt":
            name = _request(event["req"])
            life = self.lives[name]
            life.preemptions += 1
            life.preempted_before_first_token |= life.first_token_ns is None
            self.away[name] = _ns(event["mono"])
        elif kind == "step":
            # the scheduler's first step is printed as iteration 0
            self.iteration += 1
            self._step(event)

    def _step(self, event: dict[str, Any]) -> None:
        start = _ns(event["mono"])
        end = start + _ns(event["sched_s"]) + self.elapsed_ns.get(self.iteration, 0)
        many = single = 0
        for full_name, kind, begin, tokens, again in event["reqs"]:
            name = _request(full_name)
            life = self.lives[name]
            if life.scheduled_ns is None:
                life.scheduled_ns = start
            if kind == "resumed" and name in self.away:
                life.requeue_ns += start - self.away.pop(name)
            if again:
                life.recomputed[self.iteration] = again
            if life.first_token_ns is None and begin + tokens >= life.prompt_tokens:
                life.first_token_ns = end
            many += tokens if tokens > 1 else 0
            single += tokens == 1
        if self.iteration in self.elapsed_ns:
            self.steps.append((self.elapsed_ns[self.iteration], many, single))


def load_truth(folder: Path) -> Truth:
    """Return what really happened in a recorded run."""
    replay = _Replay(_printed_ns(folder))
    for line in _lines(folder / "truth_sched.jsonl"):
        replay.event(json.loads(line))
    elapsed, many, single = (np.array(x, float) for x in zip(*replay.steps, strict=True))
    factors = np.column_stack([np.ones_like(elapsed), many, single])
    cost = np.linalg.lstsq(factors, elapsed, rcond=None)[0]
    return Truth(replay.lives, float(cost[1]))
