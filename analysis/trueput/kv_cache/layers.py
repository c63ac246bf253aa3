"""Which layers keep all tokens, which a window, which share, which have a state instead."""

from __future__ import annotations

from typing import Final

from trueput.kv_cache.families import Family
from trueput.kv_cache.fields import LONGEST, Fields
from trueput.kv_cache.model import Layer

_FULL: Final = Layer("all")
_STATE: Final = Layer("none", has_state=True)
_NOTHING: Final = Layer("none")
_WORDS: Final = {
    "full_attention": _FULL,
    "attention": _FULL,
    "full": _FULL,
    "global": _FULL,
    "linear_attention": _STATE,
    "mamba": _STATE,
    "conv": _STATE,
    "mlp": _NOTHING,
    "moe": _NOTHING,
}
_WINDOW_WORDS: Final = frozenset({"sliding_attention", "sliding", "local", "local_attention"})
_LETTERS: Final = {"*": _FULL, "M": _STATE, "-": _NOTHING, "E": _NOTHING}
_BOTH: Final = frozenset({"falcon_h1"})


def read_layers(fields: Fields, family: Family, kind: str, count: int) -> tuple[Layer, ...]:
    """Return what each layer keeps, from the most explicit field there is."""
    layers = _hybrid(fields, kind, count) or _sliding(fields, family, count)
    layers = _shared(fields, layers)
    if not any(layer.kv in ("all", "window") for layer in layers):
        raise fields.error("no layer has a KV cache of its own")
    return tuple(layers)


def _hybrid(fields: Fields, kind: str, count: int) -> list[Layer] | None:
    """Return the layers where a field names them one by one, or says which have attention."""
    words = fields.items("layer_types", count)
    if words is not None:
        return [_word(fields, word) for word in words]
    pattern = fields.text("hybrid_override_pattern")
    if pattern is not None:
        if len(pattern) != count or set(pattern) - set(_LETTERS):
            raise fields.error(
                f"`hybrid_override_pattern` is not {count} letters of {' '.join(_LETTERS)}"
            )
        return [_LETTERS[letter] for letter in pattern]
    if kind in _BOTH:
        return [Layer("all", has_state=True)] * count
    attending = _attending(fields, count)
    if attending is None:
        return None
    return [_FULL if i in attending else _STATE for i in range(count)]


def _attending(fields: Fields, count: int) -> set[int] | None:
    """Return the layers with attention in a model whose other layers have a state."""
    listed = fields.items("attn_layer_indices")
    if listed is not None:
        return _within(fields, "attn_layer_indices", listed, count, 0)
    linear = fields.inner("linear_attn_config")
    if linear is not None:
        listed = linear.items("full_attn_layers") or []
        return _within(linear, "full_attn_layers", listed, count, 1)
    kinds = fields.items("attn_type_list", count)
    if kinds is not None:
        if set(map(str, kinds)) - {"0", "1"}:
            raise fields.error("`attn_type_list` holds more than 0 and 1")
        return {i for i, kind in enumerate(kinds) if kind == 1}
    period = fields.count("attn_layer_period")
    if period is not None:
        offset = fields.need("attn_layer_offset", least=0)
        return {i for i in range(count) if i % period == offset}
    interval = fields.count("full_attention_interval")
    if interval is not None:
        return {i for i in range(count) if (i + 1) % interval == 0}
    return None


def _within(fields: Fields, name: str, listed: list[object], count: int, first: int) -> set[int]:
    found = {i - first for i in listed if isinstance(i, int) and first <= i < count + first}
    if len(found) != len(listed):
        raise fields.error(f"`{name}` names layers that are none of the {count}")
    return found


def _word(fields: Fields, word: object) -> Layer:
    if word in _WINDOW_WORDS:
        return Layer("window", fields.need("sliding_window", most=LONGEST))
    if word == "chunked_attention":
        return _chunk(fields)
    if not isinstance(word, str) or word not in _WORDS:
        raise fields.error(f"`layer_types` holds {word!r}, a kind of layer that is unknown")
    return _WORDS[word]


def _chunk(fields: Fields) -> Layer:
    size = fields.need("attention_chunk_size")
    fields.assume("a layer that attends within chunks keeps at most one chunk of a sequence")
    return Layer("window", size)


def _sliding(fields: Fields, family: Family, count: int) -> list[Layer]:
    """Return the layers of a model with attention in each, by the family's rule for windows."""
    if family.sliding == "rope":
        return _rope(fields, family, count)
    if fields.flag("use_sliding_window") is False:
        return [_FULL] * count
    if family.sliding == "switch":
        if not fields.flag("use_sliding_window"):
            return [_FULL] * count
        first = fields.need("max_window_layers", least=0)
        window = Layer("window", fields.need("sliding_window", most=LONGEST))
        return [window if i >= first else _FULL for i in range(count)]
    letters, every = _pattern(fields, family)
    size = fields.count("sliding_window", most=LONGEST)
    if size is None:
        if letters is not None or family.pattern is not None:
            raise fields.error("no `sliding_window`, although some layers slide")
        return [_FULL] * count
    window = Layer("window", size)
    if letters is not None:
        return [_FULL if letters[i % len(letters)] == "G" else window for i in range(count)]
    if every is not None:
        return [_FULL if (i + 1) % every == 0 else window for i in range(count)]
    if family.sliding == "all":
        return [window] * count
    raise fields.error(
        "`sliding_window` is given, and nothing says which layers use it",
        "say so with `layer_types`, or set `sliding_window` to null in a copy of the file",
    )


def _pattern(fields: Fields, family: Family) -> tuple[str | None, int | None]:
    """Return a pattern of letters (L local, G global), or which n-th layers are global."""
    for name in ("sliding_window_pattern", "_sliding_window_pattern"):
        letters = fields.text(name)
        if letters is not None:
            if not letters or set(letters) - {"L", "G"}:
                raise fields.error(f"`{name}` is `{letters[:40]}`, expected letters L and G")
            return letters, None
    given = fields.count("sliding_window_pattern", "_sliding_window_pattern")
    if given is None and family.pattern is not None and fields.given("sliding_window"):
        fields.assume(
            f"which layers slide is not given: by the family's rule, all but the last of each "
            f"{family.pattern}"
        )
    return None, given or family.pattern


def _rope(fields: Fields, family: Family, count: int) -> list[Layer]:
    chunk = _chunk(fields)
    listed = fields.items("no_rope_layers")
    if listed:  # 1: with rotary positions, which attends within chunks
        if len(listed) != count:
            raise fields.error(f"`no_rope_layers` has {len(listed)} items, expected {count}")
        return [chunk if flag else _FULL for flag in listed]
    every = fields.count("no_rope_layer_interval") or family.pattern or 1
    return [_FULL if (i + 1) % every == 0 else chunk for i in range(count)]


def _shared(fields: Fields, layers: list[Layer]) -> list[Layer]:
    """Return the layers with those marked that use the keys and values of an earlier one."""
    last = fields.count("num_kv_shared_layers", least=0)
    if last:
        if last >= len(layers):
            raise fields.error(f"`num_kv_shared_layers` is {last} of {len(layers)} layers")
        first = len(layers) - last
        return [Layer("shared") if i >= first else layer for i, layer in enumerate(layers)]
    factor = fields.count("cla_share_factor")
    if factor is not None and factor > 1 and fields.flag("use_cla") is not False:
        return [layer if i % factor == 0 else Layer("shared") for i, layer in enumerate(layers)]
    return layers
