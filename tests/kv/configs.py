"""Configs of public models, cut to what decides their KV cache, by hand.

The expected bytes stand beside each: keys and values are 2 vectors, 16 bits are 2 bytes.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

LLAMA_3_8B: Config = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 4096, "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}  # fmt: skip
MISTRAL_7B: Config = {
    "model_type": "mistral", "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 4096, "sliding_window": 4096,
    "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA_2_9B: Config = {
    "model_type": "gemma2", "num_hidden_layers": 42, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 256, "hidden_size": 3584, "sliding_window": 4096,
    "max_position_embeddings": 8192, "torch_dtype": "float32",
}  # fmt: skip
GEMMA_3_4B: Config = {  # as published: heads are left out, being the default of the class
    "model_type": "gemma3", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
}  # fmt: skip
GEMMA_3N_E4B: Config = {
    "model_type": "gemma3n", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3n_text", "num_hidden_layers": 35, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 2048, "sliding_window": 512,
        "num_kv_shared_layers": 15,
        "layer_types": [*["sliding_attention"] * 4, "full_attention"] * 7,
    },
}  # fmt: skip
DEEPSEEK_V3: Config = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "num_nextn_predict_layers": 1, "max_position_embeddings": 163840,
    "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK_V32: Config = {**DEEPSEEK_V3, "model_type": "deepseek_v32", "index_head_dim": 128}
QWEN_2_5_7B: Config = {
    "model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "hidden_size": 3584, "use_sliding_window": False,
    "sliding_window": 131072, "max_window_layers": 28, "torch_dtype": "bfloat16",
}  # fmt: skip
JAMBA: Config = {
    "model_type": "jamba", "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "hidden_size": 4096, "attn_layer_period": 8, "attn_layer_offset": 4,
    "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "sliding_window": None,
    "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN_3_NEXT: Config = {
    "model_type": "qwen3_next", "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 2048, "full_attention_interval": 4,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "dtype": "bfloat16",
}  # fmt: skip
NEMOTRON_H: Config = {  # the letters of a model of this kind, cut to eight layers
    "model_type": "nemotron_h", "num_hidden_layers": 8, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096,
    "hybrid_override_pattern": "M-M-M*M-", "mamba_num_heads": 128, "mamba_head_dim": 64,
    "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "torch_dtype": "bfloat16",
}  # fmt: skip
MINIMAX: Config = {
    "model_type": "minimax", "num_hidden_layers": 4, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 6144, "attn_type_list": [0, 0, 0, 1],
    "torch_dtype": "bfloat16",
}  # fmt: skip
GPT_2: Config = {
    "model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024,
}  # fmt: skip
FALCON_7B: Config = {
    "model_type": "falcon", "num_hidden_layers": 32, "num_attention_heads": 71,
    "num_kv_heads": 71, "hidden_size": 4544, "multi_query": True,
    "new_decoder_architecture": False, "torch_dtype": "bfloat16",
}  # fmt: skip
FALCON_40B: Config = {
    "model_type": "falcon", "num_hidden_layers": 60, "num_attention_heads": 128,
    "num_kv_heads": 8, "hidden_size": 8192, "multi_query": True,
    "new_decoder_architecture": True, "torch_dtype": "bfloat16",
}  # fmt: skip
HUNYUAN_LARGE: Config = {
    "model_type": "hunyuan", "num_hidden_layers": 64, "num_attention_heads": 80,
    "num_key_value_heads": 8, "attention_head_dim": 128, "hidden_size": 6400, "use_cla": True,
    "cla_share_factor": 2, "torch_dtype": "bfloat16",
}  # fmt: skip
GPT_OSS_20B: Config = {
    "model_type": "gpt_oss", "num_hidden_layers": 24, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "hidden_size": 2880, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12, "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA_4_SCOUT: Config = {
    "model_type": "llama4", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "llama4_text", "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "hidden_size": 5120,
        "attention_chunk_size": 8192,
    },
}  # fmt: skip

EXPECTED: list[tuple[str, Config, int, int, int]] = [
    # name, config, bytes per token, tokens, bytes of such a sequence
    # 2 x 32 x 8 x 128 x 2; 8,192 tokens: 1 GiB
    ("llama-3-8b", LLAMA_3_8B, 131_072, 8_192, 2**30),
    # the same, but no more than 4,096 tokens: 4,096 x 131,072
    ("mistral-7b", MISTRAL_7B, 131_072, 32_768, 536_870_912),
    # float32: 2 x 42 x 8 x 256 x 4; a layer takes 16,384 a token:
    # 21 x 16,384 x 8,192 + 21 x 16,384 x 4,096
    ("gemma-2-9b", GEMMA_2_9B, 688_128, 8_192, 4_227_858_432),
    # 2 x 34 x 4 x 256 x 2; 5 of 34 layers keep all: 4,096 x (5 x 8,192 + 29 x 1,024)
    ("gemma-3-4b", GEMMA_3_4B, 139_264, 8_192, 289_406_976),
    # 20 layers of their own, 4 of them keep all: 2 x 2 x 256 x 2 = 2,048 a layer and token;
    # 2,048 x (4 x 8,192 + 16 x 512)
    ("gemma-3n-e4b", GEMMA_3N_E4B, 40_960, 8_192, 83_886_080),
    # 61 x (512 + 64) x 2
    ("deepseek-v3", DEEPSEEK_V3, 70_272, 1_000, 70_272_000),
    # 61 x (1,152 + 128 + 4)
    ("deepseek-v3.2", DEEPSEEK_V32, 78_324, 1_000, 78_324_000),
    # 2 x 28 x 4 x 128 x 2; the window is switched off
    ("qwen2.5-7b", QWEN_2_5_7B, 57_344, 200_000, 11_468_800_000),
    # layers 4, 12, 20, 28: 2 x 4 x 8 x 128 x 2; the other 28 keep
    # (8,192 x 3 + 8,192 x 16) x 2 = 311,296 each: 16,384 x 1,000 + 28 x 311,296
    ("jamba", JAMBA, 16_384, 1_000, 25_100_288),
    # 2 x 12 x 2 x 256 x 2; 36 layers keep ((2 x 16 x 128 + 32 x 128) x 3 + 32 x 128 x 128) x 2
    # = 1,097,728: 24,576 x 1,000 + 36 x 1,097,728
    ("qwen3-next", QWEN_3_NEXT, 24_576, 1_000, 64_094_208),
    # 2 x 1 x 8 x 128 x 2; 4 layers keep ((128 x 64 + 2 x 8 x 128) x 3 + 128 x 64 x 128) x 2
    # = 2,158,592: 4,096 x 1,000 + 4 x 2,158,592
    ("nemotron-h", NEMOTRON_H, 4_096, 1_000, 12_730_368),
    # 2 x 12 x 12 x 64 x 2
    ("gpt-2", GPT_2, 36_864, 1_024, 37_748_736),
    # one KV head: 2 x 32 x 1 x 64 x 2
    ("falcon-7b", FALCON_7B, 8_192, 2_048, 16_777_216),
    # 2 x 60 x 8 x 64 x 2
    ("falcon-40b", FALCON_40B, 122_880, 2_048, 251_658_240),
    # every second layer has its own: 2 x 32 x 8 x 128 x 2
    ("hunyuan-large", HUNYUAN_LARGE, 131_072, 8_192, 2**30),
    # 2 x 24 x 8 x 64 x 2; 2,048 x (12 x 8,192 + 12 x 128)
    ("gpt-oss-20b", GPT_OSS_20B, 49_152, 8_192, 204_472_320),
    # 2 x 48 x 8 x 128 x 2; 4,096 x (12 x 100,000 + 36 x 8,192)
    ("llama-4-scout", LLAMA_4_SCOUT, 196_608, 100_000, 6_123_159_552),
]
