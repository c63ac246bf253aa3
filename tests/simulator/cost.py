"""What a step costs the devices: a roofline per kernel, and how its time is owed to its works.

The matrix kernels take the longer of reading the weights and computing the tokens; attention the
longer of reading the KV and computing the pairs. So the cost is no sum over tokens, and what one
work costs depends on what else is in the step. `owed` settles that: a work's variable part is its
mean marginal cost over all orders in which the works could have joined the step (the Shapley
value). For a cost that *is* a sum it is exactly the work's own term.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from simulator.config import Config

WORKS = ("prefill", "decode", "recompute")


@dataclass
class Amount:
    """How much of one work a step holds."""

    tokens: int = 0
    pairs: int = 0
    kv: int = 0
    sampled: int = 0

    def add(self, start: int, tokens: int, *, sampled: bool) -> None:
        """Tokens `start` to `start + tokens` of a request."""
        if tokens > 0:
            self.tokens += tokens
            self.pairs += tokens * start + tokens * (tokens + 1) // 2
            self.kv += start + tokens
            self.sampled += sampled


def attention_ns(config: Config, amounts: Iterable[Amount]) -> float:
    """Attention of all layers together."""
    found = list(amounts)
    pairs, kv = sum(x.pairs for x in found), sum(x.kv for x in found)
    return config.attention_ns + max(config.pair_ns * pairs, config.kv_token_ns * kv)


def matrix_ns(config: Config, amounts: Iterable[Amount]) -> float:
    """The matrix kernels of all layers together."""
    return max(config.weights_ns, config.token_ns * sum(x.tokens for x in amounts))


def sampler_ns(config: Config, amounts: Iterable[Amount]) -> float:
    """Logits and sampling."""
    return config.sampler_ns + config.sampler_sequence_ns * sum(x.sampled for x in amounts)


def compute_ns(config: Config, amounts: Iterable[Amount]) -> float:
    """The computing kernels of a step; without any amount the step's constant."""
    found = list(amounts)
    return attention_ns(config, found) + matrix_ns(config, found) + sampler_ns(config, found)


def owed(config: Config, step: dict[str, Amount]) -> tuple[float, dict[str, float]]:
    """The constant of a step and each work's variable part; together the cost of the step."""
    works = [work for work in WORKS if step[work].tokens]
    constant = compute_ns(config, [])
    parts = dict.fromkeys(WORKS, 0.0)
    orders = list(itertools.permutations(works))
    for order in orders:
        before, joined = constant, []
        for work in order:
            joined.append(step[work])
            after = compute_ns(config, joined)
            parts[work] += (after - before) / len(orders)
            before = after
    return constant, parts


def shares(config: Config, step: dict[str, Amount]) -> dict[str, float]:
    """Each work's share of a step's computing time: the constant in proportion to the parts."""
    _, parts = owed(config, step)
    total = sum(parts.values())
    if total <= 0:
        parts = {work: float(step[work].tokens) for work in WORKS}
        total = sum(parts.values())
    return {work: part / total for work, part in parts.items()}
