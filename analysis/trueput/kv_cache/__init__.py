"""KV-cache arithmetic: what a model's config.json says of the bytes that a token costs.

A capacity model for stated conditions, not a measurement: what an engine really keeps depends on
its block size, its allocator and what it frees. Pure: no file is opened here.
"""

from __future__ import annotations

from trueput.kv_cache.arithmetic import KV_DTYPES, Conditions, KvFigures, figures
from trueput.kv_cache.config import read_model
from trueput.kv_cache.model import Layer, Model, Vectors

__all__ = [
    "KV_DTYPES", "Conditions", "KvFigures", "Layer", "Model", "Vectors", "figures", "read_model",
]  # fmt: skip
