"""Model families by `model_type`: which of their layers slide, and what their configs leave out.

A family that is not listed is an error: a mechanism nobody wrote down here (other sizes in some
layers, compressed or shared keys) would give a wrong figure that looks right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Sliding = Literal["none", "all", "switch", "pattern", "rope"]
"""Which layers slide where the config has no `layer_types`.

`none`: none, and a window is an error; `all`: every layer, where there is a window; `switch`: from
`max_window_layers` on, where `use_sliding_window` is on; `pattern`: all but every n-th; `rope`:
layers with rotary positions attend within chunks.
"""


@dataclass(frozen=True)
class Family:
    """How the configs of a family are read."""

    sliding: Sliding = "none"
    pattern: int | None = None
    defaults: Mapping[str, int] = field(default_factory=dict)
    """What the family's published configs leave out, being the default of its config class."""


_PLAIN = (
    "apertus arcee aria_text baichuan bloom chatglm codegen cohere dbrx deepseek dots1 ernie4_5 "
    "ernie4_5_moe exaone falcon gemma glm glm4 glm4_moe gpt2 gpt_bigcode gpt_neox gptj granite "
    "granitemoe granitemoeshared helium hunyuan hunyuan_v1_dense hunyuan_v1_moe internlm2 "
    "internlm3 llama mimo minimax_m2 mpt nemotron olmo olmo2 olmoe opt orion persimmon phi qwen "
    "refinedweb refinedwebmodel seed_oss smollm3 stablelm stablelm_epoch xverse"
)
_LATENT = "deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite kimi_k2 kimi_linear minicpm3"
_SLIDING_ALL = "mistral mixtral ministral phi3 phimoe starcoder2"
_SWITCHED = (
    "qwen2 qwen2_moe qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text qwen3 "
    "qwen3_moe qwen3_vl_text qwen3_vl_moe_text qwen3_omni_moe_text"
)
_HYBRID = (
    "bamba falcon_h1 granitemoehybrid jamba lfm2 lfm2_moe minimax minimax_text_01 nemotron_h "
    "qwen3_next qwen3_5_text qwen3_5_moe_text"
)

FAMILIES: Final[Mapping[str, Family]] = {
    **{name: Family() for name in (*_PLAIN.split(), *_LATENT.split(), *_HYBRID.split())},
    **{name: Family("all") for name in _SLIDING_ALL.split()},
    **{name: Family("switch") for name in _SWITCHED.split()},
    "gemma2": Family(
        "pattern",
        2,
        {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
         "sliding_window": 4096},
    ),
    "gemma3_text": Family(
        "pattern",
        6,
        {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
         "sliding_window": 4096},
    ),
    "gemma3n_text": Family("pattern", 5),
    "gpt_oss": Family("pattern", 2),
    "cohere2": Family("pattern", 4),
    "exaone4": Family("pattern", 4),
    "olmo3": Family("pattern", 4),
    "llama4_text": Family("rope", 4),
}  # fmt: skip

WITHOUT_CACHE: Final = frozenset(
    [
        "bert",
        "roberta",
        "distilbert",
        "deberta",
        "electra",
        "mpnet",
        "modernbert",
        "xlm-roberta",
        "vit",
        "clip",
        "siglip",
    ]
)
RECURRENT_ONLY: Final = frozenset(["falcon_mamba", "mamba", "mamba2", "rwkv", "rwkv5", "xlstm"])

NAMELESS: Final = Family("all")
"""How a config without `model_type` is read: plain attention, from its explicit keys alone."""
