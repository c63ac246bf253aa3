"""The settings that `vllm bench sweep` writes into a result: what differs between combinations.

It adds `run_number` and every setting of the combination as a key of its own, beside the keys of
the client and whatever the user gave with `--metadata`. Numbers and switches are kept; texts only
under names that are known to be settings, since metadata can hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from trueput.sources.vllm_bench import bench_json

MARK: Final = "run_number"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,60}", re.ASCII)
#: Settings that are words.
_WORDS: Final = frozenset(
    {
        "attention_backend", "dtype", "kv_cache_dtype", "load_format",
        "quantization", "scheduling_policy", "dataset_name",
        "tokenizer_mode", "distributed_executor_backend", "performance_mode",
    }
)  # fmt: skip
#: Keys of the client's own result that are scalars.
_CLIENT: Final = frozenset(
    {
        MARK, "date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id",
        "num_prompts", "request_rate", "burstiness", "max_concurrency", "ramp_up_strategy",
        "ramp_up_start_rps", "ramp_up_end_rps", "duration", "completed", "failed",
        "failed_requests", "total_input_tokens", "total_output_tokens", "total_input",
        "request_throughput", "request_goodput", "request_goodput:", "output_throughput",
        "input_throughput", "total_token_throughput", "max_output_tokens_per_s",
        "max_concurrent_requests", "rtfx", "mode",
    }
)  # fmt: skip
#: Figures that the client computed.
_FIGURE: Final = re.compile(
    r"(?:(?:mean|median|std|p[0-9_.]+)_.*_ms|(?:spec_decode|diffusion|probe)_.*)"
)


def swept_settings(fields: Mapping[str, bench_json.Buffer]) -> dict[str, int | float | bool | str]:
    """Return the settings of a swept combination by name; none where no sweep wrote the result."""
    if MARK not in fields:
        return {}
    found: dict[str, int | float | bool | str] = {}
    for key, raw in fields.items():
        name = key.replace("-", "_")
        if name in _CLIENT or not _NAME.fullmatch(key) or _FIGURE.fullmatch(name):
            continue
        if bench_json.kind(raw) in "[{":
            continue
        value = bench_json.value(raw)
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and name in _WORDS):
            found[name] = value[:60] if isinstance(value, str) else value
    return dict(sorted(found.items()))
