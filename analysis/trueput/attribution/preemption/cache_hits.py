"""How many tokens each prefill computed where no record says what the prefix cache held of it.

An iteration prints one number of context tokens for all its requests. Who prefilled alone took them
all, and so did whoever stood beside requests whose cached tokens are known. Where several requests
of unknown cached tokens share an iteration only their sum is known. They are taken to have found
as many tokens as most others that found any. Where that is too much for the sum, either the later
ones did or the earlier: both are told, and what they do not agree on is open. What is beyond goes
to all alike. The bounds hold whatever else gives the same sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from trueput.attribution.preemption.presence import PREFILL, Presence

ROUNDS = 20
"""Chunked prompts tie iterations together: shares settle in a few rounds, or nearly."""


@dataclass(frozen=True)
class Prompt:
    """What is known of a request's prompt before its iterations are looked at."""

    tokens: int | None
    """None where no record has its length."""
    most_cached: int
    """Tokens that the prefix cache can have held of it; 0 where it is known what it held."""
    is_whole: bool
    """It was prefilled to its end, and nothing came between."""

    @property
    def is_open(self) -> bool:
        """Whether what it computed is known from its iterations alone."""
        return self.tokens is None or self.most_cached > 0


def share_hits(
    found: Sequence[Presence], prompts: Mapping[int, Prompt], known: Collection[int] = ()
) -> list[Presence]:
    """Return the presences with the tokens of prefills shared out anew, with their bounds.

    `prompts` has every request that prefills. Each iteration keeps the sum of its tokens. A row
    without tokens stays as it is, and so do those of iterations that are `known`.
    """
    rows = [x for x in found if x.work == PREFILL and x.tokens is not None]
    shares, others = (_Shares(rows, prompts, known) for _ in range(2))
    shares.level(later_first=True)
    others.level(later_first=False)
    bounds = shares.bounds()
    out = []
    for x in found:
        if x.tokens is None or x.work != PREFILL:
            out.append(replace(x, low=x.tokens, high=x.tokens, other=x.tokens))
            continue
        key = (x.job, x.first)
        tokens, other = shares.tokens[key], others.tokens[key]
        low, high = bounds.get(key, (tokens, tokens))
        low, high = min(low, other), max(high, other)
        out.append(replace(x, tokens=tokens, low=low, high=high, other=other))
    return out


class _Shares:
    """The tokens of prefills by request and iteration, and what may be moved among them."""

    def __init__(
        self, rows: Sequence[Presence], prompts: Mapping[int, Prompt], known: Collection[int]
    ) -> None:
        self.prompts = prompts
        self.tokens = {(x.job, x.first): x.tokens or 0 for x in rows}
        by_step: dict[int, list[int]] = {}
        computed: dict[int, int] = {}
        for job, step in sorted(self.tokens):
            computed[job] = computed.get(job, 0) + self.tokens[job, step]
            if prompts[job].is_open and step not in known:
                by_step.setdefault(step, []).append(job)
        self.steps = {step: jobs for step, jobs in sorted(by_step.items()) if len(jobs) > 1}
        """Iterations in which several requests of unknown cached tokens prefill."""
        self.cached: dict[int, int] = {}
        """Prompt tokens that were not computed, of requests whose prefill is whole."""
        self.order = {job: place for place, job in enumerate(dict.fromkeys(x.job for x in rows))}
        for job, done in computed.items():
            prompt = prompts[job]
            if prompt.is_whole and prompt.tokens is not None and prompt.tokens >= done:
                self.cached[job] = prompt.tokens - done
        shared = {job for jobs in self.steps.values() for job in jobs}
        alone = Counter(hit for job, hit in self.cached.items() if hit and job not in shared)
        self.usual = max(alone, key=lambda hit: (alone[hit], hit), default=0)
        """The tokens found by most of those that found any and whose share is known."""

    def level(self, *, later_first: bool) -> None:
        """Make requests that share an iteration have found what they are most likely to."""
        for _ in range(ROUNDS):
            moved = 0
            for step, jobs in self.steps.items():
                movable = [job for job in jobs if job in self.cached]
                movable.sort(key=self.order.__getitem__, reverse=later_first)
                hits = [self.cached[job] for job in movable]
                most = [self._most(job, step) for job in movable]
                likely = likely_hits(sum(hits), most, self.usual)
                for job, was, hit in zip(movable, hits, likely, strict=True):
                    self.tokens[job, step] -= hit - was
                    self.cached[job] = hit
                    moved += abs(hit - was)
            if moved == 0:
                break

    def _most(self, job: int, step: int) -> int:
        """The most it can have had cached if only this iteration's share of it changes."""
        hit = self.cached[job]
        return max(hit, min(self.prompts[job].most_cached, hit + self.tokens[job, step] - 1))

    def bounds(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Low and high of the tokens that are not known, by request and iteration."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for steps in self._tied():
            jobs = {job for step in steps for job in self.steps[step]}
            is_summed = jobs <= self.cached.keys()
            hits = sum(self.cached[job] for job in jobs) if is_summed else None
            for step in steps:
                whole = sum(self.tokens[job, step] for job in self.steps[step])
                for job in self.steps[step]:
                    tokens = self.tokens[job, step]
                    fewer, more = self._slack(job, jobs, hits, is_alone=len(steps) == 1)
                    others = len(self.steps[step]) - 1
                    low = 1 if fewer is None else max(1, tokens - fewer)
                    high = whole - others if more is None else min(whole - others, tokens + more)
                    found[job, step] = (min(low, tokens), max(high, tokens))
        return found

    def _slack(
        self, job: int, jobs: set[int], hits: int | None, *, is_alone: bool
    ) -> tuple[int | None, int | None]:
        """By how many tokens a share can be smaller and larger; None where nothing tells."""
        if hits is None:
            return None, None
        if not is_alone:
            return hits, hits
        others = sum(self.prompts[other].most_cached for other in jobs if other != job)
        return (
            max(0, min(self.prompts[job].most_cached, hits) - self.cached[job]),
            max(0, self.cached[job] - max(0, hits - others)),
        )

    def _tied(self) -> list[list[int]]:
        """The shared iterations in groups that no request joins with another."""
        groups: list[list[int]] = []
        reached: dict[int, int] = {}
        for step, jobs in self.steps.items():
            mine = sorted({reached[job] for job in jobs if job in reached})
            if not mine:
                mine = [len(groups)]
                groups.append([])
            keep, *rest = mine
            for other in rest:
                for at in groups[other]:
                    reached.update(dict.fromkeys(self.steps[at], keep))
                groups[keep] += groups[other]
                groups[other] = []
            groups[keep].append(step)
            reached.update(dict.fromkeys(jobs, keep))
        return [sorted(steps) for steps in groups if steps]


def likely_hits(whole: int, most: Sequence[int], usual: int) -> list[int]:
    """Cached tokens that sum to `whole`, each at most its `most`.

    `usual` each, the first ones first; what is beyond is shared out evenly.
    """
    found = [0] * len(most)
    left = whole
    for k in range(len(most)):
        found[k] = min(usual, most[k], left)
        left -= found[k]
    order = sorted(range(len(most)), key=lambda k: (most[k] - found[k], k))
    for place, k in enumerate(order):
        more = min(most[k] - found[k], left // (len(order) - place))
        found[k] += more
        left -= more
    return found
