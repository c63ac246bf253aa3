"""KV-cache arithmetic: bytes of real models, what bounds them, what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kv.configs import (
    DEEPSEEK_V3,
    EXPECTED,
    FALCON_7B,
    GEMMA_2_9B,
    GEMMA_3_4B,
    JAMBA,
    LLAMA_3_8B,
    MINIMAX,
    MISTRAL_7B,
    QWEN_2_5_7B,
    QWEN_3_NEXT,
    Config,
)

from trueput.errors import InputError, UsageError
from trueput.kv_cache import KvFigures
from trueput.units import bytes_text, to_bytes
from trueput.verbs.kv import kv

GIB = 2**30


def per_token(config: Config, **given: Any) -> int:
    return kv(config, **given).bytes_per_token


def told(found: KvFigures) -> str:
    return "\n".join(found.assumptions)


@pytest.mark.parametrize(
    ("config", "token", "tokens", "sequence"),
    [e[1:] for e in EXPECTED],
    ids=[e[0] for e in EXPECTED],
)
def test_bytes_of_real_models(config: Config, token: int, tokens: int, sequence: int) -> None:
    found = kv(config, tokens=tokens, sequences=3)
    assert found.bytes_per_token == token
    assert found.bytes_per_sequence == sequence
    assert found.bytes_total == 3 * sequence
    assert found.formula.endswith(f"= {token:,} bytes per token")
    assert found.assumptions[0].startswith("a capacity model for the stated conditions, not a")


def test_the_known_values() -> None:
    found = kv(
        LLAMA_3_8B, tokens=8_192, sequences=32, memory="80GiB", weights="16GiB", reserve="4GiB"
    )
    assert found.bytes_per_token == 131_072
    assert found.bytes_per_sequence == GIB
    assert found.bytes_total == 32 * GIB
    assert found.sequences_that_fit == 60
    expected = "2 x 32 layers x 8 KV heads x head dim 128 x 2 bytes = 131,072 bytes per token"
    assert found.formula == expected


def test_what_is_not_asked_for_is_unknown() -> None:
    found = kv(LLAMA_3_8B)
    assert found.bytes_per_sequence is None
    assert found.bytes_total is None
    assert found.sequences_that_fit is None


def test_types_of_the_cache() -> None:
    assert per_token(LLAMA_3_8B, kv_dtype="fp8") == 65_536
    # a vector of 128: 128 bytes and 4 of scales; of 4 bits: 64 and 4; 2 x 32 x 8 vectors
    assert per_token(LLAMA_3_8B, kv_dtype="int8") == 512 * 132
    assert per_token(LLAMA_3_8B, kv_dtype="int4") == 512 * 68
    # a vector of 128 values of 4 bits: 64 bytes, and 8 groups of 16 with an fp8 scale each
    assert per_token(LLAMA_3_8B, kv_dtype="nvfp4") == 512 * 72
    assert "(head dim 128 x 4 bits + 8 bytes of scales)" in kv(LLAMA_3_8B, kv_dtype="nvfp4").formula
    of_checkpoint = {"quantization_config": {"kv_cache_quant_algo": "NVFP4"}}
    assert per_token({**LLAMA_3_8B, **of_checkpoint}) == 512 * 72
    with pytest.raises(UsageError, match="fp4_e2m1"):
        kv(LLAMA_3_8B, kv_dtype="fp4_e2m1")
    assert per_token(LLAMA_3_8B, kv_dtype="float32") == 262_144
    assert "4 bytes of scales" in told(kv(LLAMA_3_8B, kv_dtype="int4"))
    # 512 + 4 x 4 + 64 x 2 = 656 bytes a layer
    assert per_token(DEEPSEEK_V3, kv_dtype="fp8_ds_mla") == 61 * 656
    asked = {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    assert per_token({**LLAMA_3_8B, "quantization_config": asked}) == 65_536
    with pytest.raises(UsageError, match="no latent cache"):
        kv(LLAMA_3_8B, kv_dtype="fp8_ds_mla")
    with pytest.raises(UsageError, match="int3"):
        kv(LLAMA_3_8B, kv_dtype="int3")


def test_a_config_without_a_dtype_says_what_was_assumed() -> None:
    config = {k: v for k, v in LLAMA_3_8B.items() if k != "torch_dtype"}
    assert per_token(config) == 131_072
    assert "16 bits are assumed" in told(kv(config))


def test_tensor_parallelism() -> None:
    assert [per_token(LLAMA_3_8B, tp=n) for n in (1, 2, 8, 16, 32)] == [
        131_072, 65_536, 16_384, 16_384, 16_384,
    ]  # fmt: skip
    assert "each is kept by 2 ranks" in told(kv(LLAMA_3_8B, tp=16))
    assert per_token(FALCON_7B, tp=4) == per_token(FALCON_7B)
    assert per_token(DEEPSEEK_V3, tp=8) == 70_272
    assert "not divided" in told(kv(DEEPSEEK_V3, tp=8))
    with pytest.raises(UsageError, match="8 KV heads cannot be divided over 3 ranks"):
        kv(LLAMA_3_8B, tp=3)


def test_windows_bound_what_a_sequence_keeps() -> None:
    within, beyond = (kv(MISTRAL_7B, tokens=n).bytes_per_sequence for n in (4_096, 1_000_000))
    assert within == beyond
    found = kv(GEMMA_2_9B, kv_dtype="float16")
    assert (found.bytes_per_token, found.bytes_per_token_beyond_windows) == (344_064, 172_032)
    assert "21 layers keep the last 4,096 tokens" in told(found)
    # Qwen2 with its window switched on: from layer 14 on
    on = {**QWEN_2_5_7B, "use_sliding_window": True, "max_window_layers": 14}
    assert kv(on).layers_of_a_window == 14
    lettered = {**LLAMA_3_8B, "sliding_window": 64, "sliding_window_pattern": "LLLG"}
    assert kv({**lettered, "model_type": "exaone4"}).layers_of_a_window == 24


def test_defaults_of_a_family_are_stated() -> None:
    text = told(kv(GEMMA_3_4B))
    assert "`num_key_value_heads` is not given: 4, the family's default" in text
    assert "all but the last of each 6" in text


def test_blocks_round_up() -> None:
    # 100 tokens take 7 blocks of 16
    assert kv(LLAMA_3_8B, tokens=100, block_size=16).bytes_per_sequence == 112 * 131_072
    # a window of 4,096 is 256 blocks, and one more while it moves
    found = kv(MISTRAL_7B, tokens=9_000, block_size=16).bytes_per_sequence
    assert found == 257 * 16 * 131_072
    assert kv(MISTRAL_7B, tokens=4_096, block_size=16).bytes_per_sequence == 4_096 * 131_072


def test_contexts_of_more_than_ten_million_tokens() -> None:
    assert per_token({**LLAMA_3_8B, "max_position_embeddings": 10_485_760}) == 131_072
    assert kv({**MISTRAL_7B, "sliding_window": 20_000_000}, tokens=10).bytes_per_sequence == (
        10 * 131_072
    )
    with pytest.raises(InputError, match="1 to 1000000000"):
        kv({**LLAMA_3_8B, "max_position_embeddings": 10**9 + 1})


def test_state_of_hybrid_models() -> None:
    assert kv(JAMBA).state_bytes_per_sequence == 28 * 311_296
    assert kv(JAMBA, tp=2).state_bytes_per_sequence == 14 * 311_296
    wide = kv({**QWEN_3_NEXT, "mamba_ssm_dtype": "float32"})
    assert wide.state_bytes_per_sequence == 36 * (24_576 * 2 + 524_288 * 4)
    unknown = kv(MINIMAX, tokens=1_000)
    assert unknown.state_bytes_per_sequence is None
    assert unknown.bytes_per_sequence == 4_096_000
    assert "state of layers without attention is unknown" in told(unknown)
    assert kv(QWEN_3_NEXT, tp=32).state_bytes_per_sequence is None  # 16 heads over 32 ranks
    assert kv(LLAMA_3_8B).state_bytes_per_sequence == 0


def test_a_config_that_names_no_architecture_is_read_by_its_fields() -> None:
    config = {"num_hidden_layers": 32, "num_key_value_heads": 8, "head_dim": 128}
    assert per_token({**config, "dtype": "float16"}) == 131_072
    assert "names no model_type" in told(kv(config))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "llamma"}, "architecture `llamma` is unknown"),
        ({"model_type": "mamba"}, "keeps a state of fixed size"),
        ({"model_type": "bert"}, "has no KV cache"),
        ({"model_type": 7}, "`model_type` is not a text"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"num_hidden_layers": None}, "no `num_hidden_layers`"),
        ({"num_hidden_layers": "32"}, "expected a whole number"),
        ({"num_hidden_layers": 0}, "expected 1 to"),
        ({"num_hidden_layers": 10**6}, "expected at most"),
        ({"num_key_value_heads": 8.0}, "expected a whole number"),
        ({"num_key_value_heads": True}, "expected a whole number"),
        ({"num_key_value_heads": 64}, "64 KV heads and 32 attention heads"),
        ({"num_key_value_heads": 12}, "12 KV heads and 32 attention heads"),
        ({"hidden_size": 4095}, "no multiple of 32 heads"),
        ({"sliding_window": 1024}, "nothing says which layers use it"),
        ({"layer_types": ["full_attention"]}, "expected one per layer"),
        ({"layer_types": ["warped_attention"] * 32}, "warped_attention"),
        ({"layer_types": ["mamba"] * 32}, "no layer has a KV cache"),
        ({"num_kv_shared_layers": 32}, "num_kv_shared_layers"),
        ({"hybrid_override_pattern": "MX"}, "hybrid_override_pattern"),
        ({"global_head_dim": 512}, "not understood"),
        ({"attn_layer_indices": [40]}, "none of the 32"),
        ({"text_config": {"num_hidden_layers": 2}}, "names no model_type"),
        ({"use_sliding_window": "no"}, "expected true or false"),
    ],
)
def test_what_is_not_understood_is_refused(change: Config, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kv({**LLAMA_3_8B, **change})


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"memory": "80"}, None),
        ({"memory": "80Gi"}, "no size"),
        ({"memory": "0.3"}, "no size"),
        ({"memory": "-1GiB"}, "no size"),
        ({"memory": -1}, "no size"),
        ({"memory": "16GiB", "weights": "20GiB"}, "less than weights and reserve"),
        ({"weights": "20GiB"}, "none is given"),
        ({"tokens": 0}, "--tokens"),
        ({"block_size": 0}, "--block-size"),
        ({"tp": 0}, "--tp"),
    ],
)
def test_conditions_that_cannot_be(given_: dict[str, Any], message: str | None) -> None:
    if message is None:
        assert kv(LLAMA_3_8B, **given_).cache_bytes == 80
        return
    with pytest.raises(UsageError, match=message):
        kv(LLAMA_3_8B, **given_)


def test_sizes_are_exact() -> None:
    sizes = {
        "1": 1, "0": 0, "1B": 1, "1KiB": 1_024, "1.5 MiB": 1_572_864, "80GiB": 85_899_345_920,
        "80GB": 80_000_000_000, "0.1TB": 10**11, "141.5gib": 151_934_468_096,
        "999999999999999999": 999_999_999_999_999_999,
    }  # fmt: skip
    assert {text: to_bytes(text) for text in sizes} == sizes
    for text in ("", "GiB", "1e3", "1,024", "1.0.0", "0.5B", "0.1GiB", "inf", "1G", "٣"):
        assert to_bytes(text) is None, text
    assert [bytes_text(n) for n in (None, 0, 1_023, 131_072, 2**30, 1_536 * 2**40)] == [
        "-", "0 B", "1023 B", "128 KiB", "1 GiB", "1,536 TiB",
    ]  # fmt: skip


def grown(found: KvFigures) -> tuple[int, ...]:
    sequence, total = found.bytes_per_sequence, found.bytes_total
    assert sequence is not None
    assert total is not None
    return found.bytes_per_token, sequence, total


ANY = st.sampled_from([e[1] for e in EXPECTED])
COUNT = st.integers(1, 300_000)


@given(ANY, COUNT, COUNT, st.integers(1, 500), st.sampled_from([None, 1, 16, 32]))
def test_more_tokens_or_sequences_never_take_less(
    config: Config, tokens: int, more: int, sequences: int, block: int | None
) -> None:
    def at(tokens: int, sequences: int) -> tuple[int, ...]:
        return grown(kv(config, tokens=tokens, sequences=sequences, block_size=block))

    less = at(tokens, sequences)
    assert all(a <= b for a, b in zip(less, at(tokens + more, sequences), strict=True))
    assert all(a <= b for a, b in zip(less, at(tokens, sequences + 1), strict=True))


@given(
    st.sampled_from([LLAMA_3_8B, MISTRAL_7B, GEMMA_2_9B, DEEPSEEK_V3, JAMBA, QWEN_3_NEXT]),
    st.integers(8, 80), COUNT,
)  # fmt: skip
def test_more_layers_never_take_less(config: Config, layers: int, tokens: int) -> None:
    few, many = (
        grown(kv({**config, "num_hidden_layers": n}, tokens=tokens, sequences=2))
        for n in (layers, layers + 1)
    )
    assert all(a <= b for a, b in zip(few, many, strict=True))


@given(ANY, COUNT, st.integers(0, 2**42))
def test_what_fits_fits_and_one_more_does_not(config: Config, tokens: int, memory: int) -> None:
    found = kv(config, tokens=tokens, memory=memory)
    assert found.sequences_that_fit is not None
    assert found.bytes_per_sequence is not None
    assert found.sequences_that_fit * found.bytes_per_sequence <= memory
    assert (found.sequences_that_fit + 1) * found.bytes_per_sequence > memory


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = sorted({k for e in EXPECTED for k in e[1]})


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ANY, st.dictionaries(st.sampled_from(KEYS), VALUES | st.lists(VALUES, max_size=3)))
def test_no_config_is_a_crash(config: Config, change: Config) -> None:
    with suppress(InputError, UsageError):
        kv({**config, **change}, tokens=100)
