"""A model's config.json -> what decides its KV cache. What is not understood is an error."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from trueput.errors import InputError
from trueput.kv_cache.families import (
    FAMILIES,
    NAMELESS,
    RECURRENT_ONLY,
    WITHOUT_CACHE,
    Family,
)
from trueput.kv_cache.fields import LONGEST, Fields
from trueput.kv_cache.layers import read_layers
from trueput.kv_cache.model import Model, Vectors
from trueput.kv_cache.state import read_state

_INNER: Final = ("text_config", "llm_config", "language_config", "thinker_config")
_NOT_UNDERSTOOD: Final = (
    "block_configs", "compress_ratios", "cross_attention_layers", "global_head_dim",
    "kv_heads_per_layer", "num_global_key_value_heads", "swa_head_dim", "swa_num_key_value_heads",
)  # fmt: skip
_MOST_LAYERS: Final = 10_000
_BY_GROUPS: Final = frozenset({"chatglm"})
_FALCON: Final = frozenset({"falcon", "refinedweb", "refinedwebmodel"})
_HEADS: Final = ("num_attention_heads", "n_head", "n_heads")


def read_model(values: object, where: str) -> Model:
    """Return the model that a config describes. Raises InputError naming the field in the way."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: expected a JSON object", "give a model's config.json")
    if values.get("is_encoder_decoder") is True:
        raise InputError(
            f"{where}: an encoder-decoder model keeps a cache of its input too, which is not "
            "understood here",
            "decoder-only models are",
        )
    told = _text_part(values, where)
    name = told.get("model_type")
    family = _family(name, where)
    fields = Fields(told, where, family.defaults)
    if name is None:
        fields.assume("the config names no model_type: read as plain attention from its fields")
    for key in _NOT_UNDERSTOOD:
        if fields.given(key):
            raise fields.error(
                f"`{key}` is given: layers differ in a way that is not understood here"
            )
    kind = str(name or "unnamed").lower()
    count = fields.need("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if count > _MOST_LAYERS:
        raise fields.error(f"{count} layers, expected at most {_MOST_LAYERS}")
    layers = read_layers(fields, family, kind, count)
    vectors = _vectors(fields, kind)
    state = read_state(fields) if any(layer.has_state for layer in layers) else None
    if fields.count("num_nextn_predict_layers", "mtp_num_hidden_layers", least=0):
        fields.assume("layers for multi-token prediction are not counted")
    return Model(
        family=kind,
        layers=layers,
        vectors=vectors,
        dtype=_dtype(fields),
        cache_dtype=_cache_dtype(values),
        longest_tokens=fields.count(
            "max_position_embeddings", "n_positions", "max_seq_len", most=LONGEST
        ),
        state=state,
        assumptions=tuple(fields.assumptions),
    )


def _text_part(values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the part of a multimodal config that describes the language model."""
    told = values
    while True:
        name = next((n for n in _INNER if isinstance(told.get(n), Mapping)), None)
        if name is None:
            return told
        inner = dict(told[name])
        if "model_type" not in inner and told.get("model_type") is not None:
            raise InputError(
                f"{where}: `{name}` names no model_type, so its architecture is unknown",
                "give the config of the language model itself",
            )
        for dtype in ("torch_dtype", "dtype"):
            if told.get(dtype) is not None and not (inner.get("dtype") or inner.get("torch_dtype")):
                inner[dtype] = told[dtype]
        told = inner


def _family(name: object, where: str) -> Family:
    if name is None:
        return NAMELESS
    if not isinstance(name, str):
        raise InputError(f"{where}: `model_type` is not a text")
    kind = name.lower()
    if kind in FAMILIES:
        return FAMILIES[kind]
    if kind in WITHOUT_CACHE:
        raise InputError(f"{where}: `{name}` is an encoder and has no KV cache")
    if kind in RECURRENT_ONLY:
        raise InputError(
            f"{where}: `{name}` has no attention: it keeps a state of fixed size, and no KV cache"
        )
    near = difflib.get_close_matches(kind, FAMILIES, 3, 0.6)
    hint = (
        "known are for example " + ", ".join(near)
        if near
        else ("known are llama, mistral, qwen2, qwen3, gemma2, gemma3_text, deepseek_v3 and others")
    )
    raise InputError(
        f"{where}: architecture `{name}` is unknown, so its KV cache is not guessed",
        f"{hint}; where it is plain attention, leave `model_type` out of a copy of the file",
    )


def _vectors(fields: Fields, kind: str) -> Vectors:
    latent = fields.count("kv_lora_rank")
    if latent is not None:
        index = fields.count("index_head_dim", least=0) or 0
        rope = fields.need("qk_rope_head_dim", least=0)
        return Vectors(latent_size=latent, rope_size=rope, index_size=index)
    heads = _kv_heads(fields, kind)
    _expect_shared(fields, heads)
    size = fields.count("head_dim", "kv_channels", "attention_head_dim")
    if size is None:
        width = fields.need("hidden_size", "n_embd", "d_model", "n_embed")
        query_heads = fields.need(*_HEADS)
        if width % query_heads:
            raise fields.error(
                f"no `head_dim`, and hidden size {width} is no multiple of {query_heads} heads"
            )
        size = width // query_heads
    return Vectors(kv_heads=heads, key_size=size, value_size=fields.count("v_head_dim") or size)


def _kv_heads(fields: Fields, kind: str) -> int:
    if kind in _FALCON:
        return _falcon_heads(fields)
    if kind in _BY_GROUPS and fields.flag("multi_query_attention"):
        return fields.need("multi_query_group_num")
    inner = fields.inner("attn_config")
    named = fields.count("num_key_value_heads", "num_kv_heads", "n_head_kv")
    if named is None and inner is not None:
        named = 1 if inner.text("attn_type") == "multiquery_attention" else None
        named = named or inner.count("kv_n_heads")
    if named is not None:
        return named
    if fields.flag("multi_query"):
        return 1
    heads = fields.need(*_HEADS)
    fields.assume("no number of KV heads is given: one for each attention head (multi-head)")
    return heads


def _expect_shared(fields: Fields, heads: int) -> None:
    """Raise InputError unless each KV head serves the same whole number of attention heads.

    A latent cache has no heads of its own, and is not asked.
    """
    if any(fields.given(name) for name in _HEADS) and (queries := fields.need(*_HEADS)) % heads:
        raise fields.error(
            f"{heads} KV heads and {queries} attention heads: a KV head serves a whole number of "
            "attention heads",
            "see whether the two numbers are swapped, or of another model",
        )


def _falcon_heads(fields: Fields) -> int:
    """Return Falcon's KV heads: its old layout has one, whatever `num_kv_heads` says."""
    if fields.flag("new_decoder_architecture") or fields.given("n_head_kv"):
        return fields.need("num_kv_heads", "n_head_kv")
    if fields.flag("multi_query") is not False:
        return 1
    return fields.need("num_kv_heads", *_HEADS)


def _dtype(fields: Fields) -> str | None:
    name = fields.text("dtype", "torch_dtype")
    return name.removeprefix("torch.").lower() if name else None


def _cache_dtype(values: Mapping[str, Any]) -> str | None:
    """Return the type of the cache that a quantised checkpoint asks for."""
    told = values.get("quantization_config")
    if not isinstance(told, Mapping):
        return None
    scheme = told.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8:
        return {"float": "fp8", "int": "int8"}.get(str(scheme.get("type")))
    algorithm = told.get("kv_cache_quant_algo")
    known = {"FP8": "fp8", "NVFP4": "nvfp4"}
    return known.get(algorithm.upper()) if isinstance(algorithm, str) else None
