"""The requests of a run: when they are sent, how long they are, which of them end early."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.config import NS_PER_S, Config


@dataclass(eq=False)
class Request:
    """A request as its client plans it, and what the engine makes of it (instants in run ns)."""

    index: int
    sent_at: int
    prompt: int
    asked: int
    """`max_tokens`."""
    length: int
    """Output tokens it ends with; less than asked where an end token comes first."""
    prefix: int | None = None
    prefix_tokens: int = 0
    refused: bool = False
    leaves_after: int | None = None
    """The client goes once it has received so many tokens."""

    # the engine's own
    arrived_at: int = 0
    ready_at: int = 0
    queued_at: int | None = None
    first_scheduled_at: int | None = None
    computed: int = 0
    produced: int = 0
    pending: int = 0
    """Tokens that launched steps will produce."""
    high: int = 0
    """The most tokens whose KV has existed."""
    cached: int = 0
    """Prompt tokens found in the prefix cache when first scheduled."""
    blocks: list[int] = field(default_factory=list)
    hashed: int = 0
    """Leading blocks that stand in the prefix cache."""
    preempted_at: int | None = None
    preemptions: list[int] = field(default_factory=list)
    """Instants."""
    resumes: list[int] = field(default_factory=list)
    recomputed: int = 0
    lost_computed: int = 0
    token_at: list[int] = field(default_factory=list)
    received_at: list[int] = field(default_factory=list)
    left_at: int | None = None
    """The client went away."""
    leave_kind: str | None = None
    """abort or timeout."""
    aborted_at: int | None = None
    """The engine learnt of it."""
    finished_at: int | None = None

    @property
    def target(self) -> int:
        """Tokens whose KV must exist before the next token can be produced."""
        return self.prompt + self.produced + self.pending

    @property
    def ended_at(self) -> int | None:
        """As the client sees it."""
        if self.left_at is not None:
            return self.left_at
        return self.finished_at if self.refused else self.received_at[-1]

    def name(self, prefix: str) -> str:
        """The id that client and engine share."""
        return f"cmpl-{prefix}{self.index}-0"


def make_requests(config: Config, first_send: int) -> list[Request]:
    """The load of a run, sent from `first_send` on; depends on `workload_seed` alone."""
    rng = np.random.default_rng([config.workload_seed, 1])
    shape = config.burstiness
    gaps = rng.gamma(shape, 1 / (config.request_rate * shape), config.requests)
    # as the client does it: the last send falls on its nominal instant
    times = np.cumsum(gaps)
    times *= config.requests / config.request_rate / times[-1]
    times -= times[0]
    found = []
    for index in range(config.requests):
        prompt = int(rng.integers(config.prompt_tokens[0], config.prompt_tokens[1] + 1))
        asked = int(rng.integers(config.output_tokens[0], config.output_tokens[1] + 1))
        fate, part = rng.random(), rng.random()
        one = Request(index, first_send + round(times[index] * NS_PER_S), prompt, asked, asked)
        if config.shared_prefixes:
            one.prefix = int(rng.integers(config.shared_prefixes))
            one.prefix_tokens = min(config.prefix_tokens, prompt - 1)
        if fate < config.refused_ratio:
            one.refused, one.prompt = True, config.max_model_len + 40 + int(60 * part)
        elif fate < config.refused_ratio + config.abort_ratio:
            one.leaves_after = max(1, int(0.7 * part * asked))
        elif fate < config.refused_ratio + config.abort_ratio + config.early_stop_ratio:
            one.length = max(2, int((0.4 + 0.5 * part) * asked))
        found.append(one)
    return found
