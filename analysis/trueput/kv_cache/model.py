"""What of a model decides the size of its KV cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Layer:
    """What one layer keeps of a sequence.

    `kv`: keys and values of `all` tokens, of the last `window` tokens, none because an earlier
    layer's are used (`shared`), or none at all (`none`). `has_state`: a state of fixed size.
    """

    kv: Literal["all", "window", "shared", "none"]
    window: int | None = None
    has_state: bool = False


@dataclass(frozen=True)
class Vectors:
    """What a layer with a KV cache keeps of one token.

    Per head: `kv_heads` keys of `key_size` and values of `value_size`. Latent: one vector of
    `latent_size` and one of `rope_size`, the same for all heads (then `kv_heads` is 0), and
    `index_size` entries of the index that chooses which tokens are attended to.
    """

    kv_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    latent_size: int = 0
    rope_size: int = 0
    index_size: int = 0

    @property
    def is_latent(self) -> bool:
        """Whether all heads share one compressed vector."""
        return self.kv_heads == 0


@dataclass(frozen=True)
class State:
    """What a layer without attention keeps of a sequence, however long it is.

    Entries of the convolution (`conv`) and of the recurrence, each as heads, groups x size and
    groups that a split over ranks must divide.
    """

    conv_entries: int
    recurrent_entries: int
    divisors: tuple[int, ...]
    recurrent_dtype: str | None = None


@dataclass(frozen=True)
class Model:
    """A model as its config tells it. `state` None: no layer has one, or its size is unknown."""

    family: str
    layers: tuple[Layer, ...]
    vectors: Vectors
    dtype: str | None
    cache_dtype: str | None
    longest_tokens: int | None
    state: State | None = None
    assumptions: tuple[str, ...] = ()
