"""Bytes per token, per sequence and in all, and what fits: integers throughout."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from trueput.errors import UsageError
from trueput.kv_cache.model import Layer, Model, Vectors

_ALIASES: Final = {
    "half": "float16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32",
    "float": "float32", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8",
}  # fmt: skip
_BITS: Final = {
    "float32": 32, "float16": 16, "bfloat16": 16, "fp8": 8, "int8": 8, "int4": 4, "nvfp4": 4,
}  # fmt: skip
_SCALED: Final = frozenset({"int8", "int4"})
_SCALE_BYTES: Final = 4
_GROUPED: Final = "nvfp4"
_GROUP: Final = 16
"""Values of a vector that share one fp8 scale."""
_PACKED: Final = "fp8_ds_mla"
_PACKED_SIZES: Final = (512, 64)
_INDEX_GROUP: Final = 128

KV_DTYPES: Final = ("auto", *_BITS, *_ALIASES, _PACKED)
"""What `--kv-dtype` understands."""


@dataclass(frozen=True)
class Conditions:
    """What the arithmetic is done for. Sizes in bytes, all of one rank."""

    tokens: int | None = None
    sequences: int | None = None
    kv_dtype: str = "auto"
    tp: int = 1
    block_size: int | None = None
    memory: int | None = None
    weights: int | None = None
    reserve: int | None = None


@dataclass(frozen=True)
class KvFigures:
    """The arithmetic's results, of one rank. None: not asked for, or not known."""

    bytes_per_token: int
    bytes_per_token_beyond_windows: int
    state_bytes_per_sequence: int | None
    bytes_per_sequence: int | None
    bytes_total: int | None
    cache_bytes: int | None
    sequences_that_fit: int | None
    formula: str
    assumptions: tuple[str, ...]
    kv_dtype: str
    layers: int
    layers_of_all_tokens: int
    layers_of_a_window: int
    layers_sharing: int
    layers_with_state: int


def figures(model: Model, given: Conditions) -> KvFigures:
    """Return the figures of a model under stated conditions. Raises UsageError for unusable ones.

    A layer with a window keeps at most the window of each sequence; with a block size, whole
    blocks, and one more where the window moves on and so straddles a block.
    """
    _check(given)
    notes = [_MODEL_NOTE, *model.assumptions]
    dtype = _dtype(model, given.kv_dtype, notes)
    heads = _heads_of_a_rank(model.vectors, given.tp, notes)
    per_layer = _bytes_of_a_layer(model.vectors, heads, dtype, notes)
    counts = Counter(layer.kv for layer in model.layers)
    windows = Counter(layer.window for layer in model.layers if layer.window is not None)
    keeping = counts["all"] + counts["window"]
    stateful = sum(layer.has_state for layer in model.layers)
    state = _state(model, stateful, given.tp, notes)
    if windows:
        told = ", ".join(
            f"{n} layers keep the last {w:,} tokens" for w, n in sorted(windows.items())
        )
        notes.append(f"{told}; an engine that frees nothing outside the window keeps all")
    if counts["shared"]:
        notes.append(f"{counts['shared']} layers use the keys and values of earlier ones")
    sequence = None
    if given.tokens is not None:
        kept = [_kept(layer, given.tokens, given.block_size) for layer in model.layers]
        sequence = per_layer * sum(kept) + (state or 0)
        _note_length(model, given, notes)
    if given.tp > 1:
        notes.append(f"all figures are of one of {given.tp} ranks, memory and weights too")
    cache = _cache(given, notes)
    total = None if sequence is None or given.sequences is None else sequence * given.sequences
    return KvFigures(
        bytes_per_token=per_layer * keeping,
        bytes_per_token_beyond_windows=per_layer * counts["all"],
        state_bytes_per_sequence=state,
        bytes_per_sequence=sequence,
        bytes_total=total,
        cache_bytes=cache,
        sequences_that_fit=None if cache is None or not sequence else cache // sequence,
        formula=_formula(model.vectors, heads, dtype, keeping, per_layer),
        assumptions=tuple(dict.fromkeys(notes)),
        kv_dtype=dtype,
        layers=len(model.layers),
        layers_of_all_tokens=counts["all"],
        layers_of_a_window=counts["window"],
        layers_sharing=counts["shared"],
        layers_with_state=stateful,
    )


_MODEL_NOTE: Final = (
    "a capacity model for the stated conditions, not a measurement: no fragmentation, no prefix "
    "shared between sequences"
)


def _check(given: Conditions) -> None:
    for name in ("tokens", "sequences", "tp", "block_size"):
        value = getattr(given, name)
        if value is not None and value < 1:
            option = name.replace("_", "-")
            raise UsageError(f"--{option}: {value}, expected a whole number from 1 on")
    if given.memory is None and (given.weights is not None or given.reserve is not None):
        raise UsageError("--weights and --reserve take from a --memory, and none is given")


def _dtype(model: Model, asked: str, notes: list[str]) -> str:
    if asked not in KV_DTYPES:
        raise UsageError(f"--kv-dtype: `{asked}` is unknown", f"known are {', '.join(KV_DTYPES)}")
    if asked != "auto":
        return _ALIASES.get(asked, asked)
    if model.cache_dtype is not None:
        notes.append(f"the checkpoint asks for a cache of type {model.cache_dtype}")
        return model.cache_dtype
    if model.dtype is None:
        notes.append("the config names no dtype: 16 bits are assumed; --kv-dtype says otherwise")
        return "float16"
    name = _ALIASES.get(model.dtype, model.dtype)
    if name not in _BITS:
        raise UsageError(
            f"the config's dtype `{model.dtype}` is unknown", "name the cache's: --kv-dtype"
        )
    if name == "float32":
        notes.append("the config says float32; where an engine serves 16 bits: --kv-dtype float16")
    else:
        notes.append(f"the cache has the model's dtype, {name}")
    return name


def _heads_of_a_rank(vectors: Vectors, tp: int, notes: list[str]) -> int:
    if vectors.is_latent:
        if tp > 1:
            notes.append("the latent cache is the same on every rank: it is not divided")
        return 1
    heads = vectors.kv_heads
    if heads % tp == 0:
        return heads // tp
    if tp % heads == 0:
        notes.append(f"{heads} KV heads on {tp} ranks: each is kept by {tp // heads} ranks")
        return 1
    raise UsageError(
        f"--tp: {heads} KV heads cannot be divided over {tp} ranks, nor repeated evenly",
        f"give a divisor or a multiple of {heads}",
    )


def _bytes_of_a_layer(vectors: Vectors, heads: int, dtype: str, notes: list[str]) -> int:
    """Return the bytes that a layer keeps of one token on one rank."""
    if dtype == _PACKED:
        if (vectors.latent_size, vectors.rope_size) != _PACKED_SIZES:
            raise UsageError(
                f"--kv-dtype: {_PACKED} is for a latent of 512 and 64, and this model has "
                + (f"{vectors.latent_size} and {vectors.rope_size}" if vectors.is_latent
                   else "no latent cache")
            )  # fmt: skip
        notes.append(f"{_PACKED}: 512 fp8 + 4 float32 scales + 64 values of 16 bits")
        size = 512 + 4 * 4 + 64 * 2
    elif vectors.is_latent:
        size = _vector(vectors.latent_size + vectors.rope_size, dtype)
    else:
        size = heads * (_vector(vectors.key_size, dtype) + _vector(vectors.value_size, dtype))
    if dtype in _SCALED:
        notes.append(
            f"{dtype}: {_SCALE_BYTES} bytes of scales for each vector of a token (a float16 scale "
            "and zero point, or a float32 scale)"
        )
    elif dtype == _GROUPED:
        notes.append(
            f"{dtype}: an fp8 scale for each {_GROUP} values; scales per tensor take no room worth "
            "counting"
        )
    elif dtype == "fp8":
        notes.append("fp8: scales per tensor, which take no room worth counting")
    if vectors.index_size:
        groups = -(-vectors.index_size // _INDEX_GROUP)
        notes.append(f"index of attention: {vectors.index_size} fp8 values and a float32 scale "
                     f"per {_INDEX_GROUP} of them, in each layer")  # fmt: skip
        size += vectors.index_size + 4 * groups
    return size


def _vector(entries: int, dtype: str) -> int:
    packed = -(-entries * _BITS[dtype] // 8)
    return packed + _scales(entries, dtype)


def _scales(entries: int, dtype: str) -> int:
    """Return the bytes of scales that a vector of so many values takes."""
    if dtype == _GROUPED:
        return -(-entries // _GROUP)
    return _SCALE_BYTES if dtype in _SCALED else 0


def _state(model: Model, layers: int, tp: int, notes: list[str]) -> int | None:
    """Return the bytes of fixed state per sequence on a rank: 0 without such layers."""
    if not layers:
        return 0
    state = model.state
    if state is None:
        return None
    if any(divisor % tp for divisor in state.divisors):
        notes.append(
            f"how the state of {layers} layers falls to {tp} ranks is unknown; not counted"
        )
        return None
    dtype = _ALIASES.get(model.dtype or "", model.dtype or "float16")
    recurrent = _ALIASES.get(state.recurrent_dtype or dtype, state.recurrent_dtype or dtype)
    if dtype not in _BITS or recurrent not in _BITS:
        notes.append("the dtype of the state is unknown; it is not counted")
        return None
    if recurrent == dtype:
        notes.append(f"state in the model's dtype, {dtype}; some engines keep it in float32")
    else:
        notes.append(f"state in {recurrent}, its convolution's in {dtype}, as the config says")
    bits = state.conv_entries * _BITS[dtype] + state.recurrent_entries * _BITS[recurrent]
    return layers * (bits // 8 // tp)


def _kept(layer: Layer, tokens: int, block_size: int | None) -> int:
    """Return for how many tokens a layer holds room."""
    if layer.kv in ("shared", "none"):
        return 0
    window = layer.window
    if block_size is None:
        return tokens if window is None else min(tokens, window)
    blocks = -(-tokens // block_size)
    if window is not None and tokens > window:
        blocks = min(blocks, -(-window // block_size) + 1)
    return blocks * block_size


def _note_length(model: Model, given: Conditions, notes: list[str]) -> None:
    if given.block_size is None:
        notes.append("tokens are not rounded up to the blocks of a paged cache (--block-size)")
    else:
        notes.append(f"a sequence takes whole blocks of {given.block_size:,} tokens in each layer")
    longest = model.longest_tokens
    if longest is not None and given.tokens is not None and given.tokens > longest:
        notes.append(
            f"{given.tokens:,} tokens are more than the {longest:,} that the config allows"
        )


def _cache(given: Conditions, notes: list[str]) -> int | None:
    """Return the bytes left for the cache."""
    if given.memory is None:
        return None
    for name in ("weights", "reserve"):
        if getattr(given, name) is None:
            notes.append(f"--{name} is not given: nothing is taken from the memory for it")
    left = given.memory - (given.weights or 0) - (given.reserve or 0)
    if left < 0:
        raise UsageError(
            f"--memory: {given.memory:,} bytes are less than weights and reserve together, "
            f"{given.memory - left:,}"
        )
    return left


def _formula(vectors: Vectors, heads: int, dtype: str, layers: int, per_layer: int) -> str:
    total = f"{layers * per_layer:,} bytes per token"
    entries = vectors.latent_size + vectors.rope_size if vectors.is_latent else vectors.key_size
    room = _scales(entries, dtype)
    scale = f" + {room} bytes of scales" if room else ""
    if dtype == _PACKED:
        inner = "(512 x 1 byte + 4 x 4 bytes + 64 x 2 bytes)"
    elif vectors.is_latent:
        inner = f"({vectors.latent_size} latent + {vectors.rope_size} rope) x {_size(dtype)}{scale}"
    elif vectors.key_size == vectors.value_size:
        one = f"head dim {vectors.key_size} x {_size(dtype)}"
        one = f"({one}{scale})" if scale else one
        return f"2 x {layers} layers x {heads} KV heads x {one} = {total}"
    else:
        both = f"({vectors.key_size} + {vectors.value_size})"
        twice = f" + {room + _scales(vectors.value_size, dtype)} bytes of scales" if scale else ""
        one = f"{both} x {_size(dtype)}"
        one = f"({one}{twice})" if twice else one
        return f"{layers} layers x {heads} KV heads x {one} = {total}"
    if vectors.index_size:
        groups = -(-vectors.index_size // _INDEX_GROUP)
        inner = f"{inner} + {vectors.index_size + 4 * groups} bytes of index"
    wrapped = f"({inner})" if scale or vectors.index_size else inner
    return f"{layers} layers x {wrapped} = {total}"


def _size(dtype: str) -> str:
    bits = _BITS[dtype]
    return f"{bits // 8} byte{'s' if bits > 8 else ''}" if bits >= 8 else f"{bits} bits"
