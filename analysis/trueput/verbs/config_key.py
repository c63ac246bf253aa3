"""The key of a configuration: which runs of a store belong to one nightly series.

A run says it itself with the label `series` in its run.toml. Without one the key is a hash over
what is meant to stay the same from night to night: engine, model, hardware, GPU count, the engine
settings that a user chooses, and the load that was asked for. What a nightly job is there to try
out (engine version) and what an engine derives by itself are left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trueput.verbs.opening import Reading, open_runs

#: Engine settings that a user chooses; what an engine computes from them is left out.
SETTINGS = (
    "block_size", "data_parallel_size", "dtype", "enable_chunked_prefill", "enable_prefix_caching",
    "enforce_eager", "gpu_memory_utilization", "kv_cache_dtype", "max_model_len",
    "max_num_batched_tokens", "max_num_seqs", "num_gpu_blocks_override", "pipeline_parallel_size",
    "quantization", "scheduling_policy", "tensor_parallel_size",
)  # fmt: skip
#: What was asked of the load, by the client's command or its result.
LOAD = (
    "burstiness", "custom_output_len", "dataset_name", "max_concurrency", "num_prompts",
    "random_input_len", "random_output_len", "random_range_ratio", "request_rate",
    "sharegpt_output_len",
)  # fmt: skip
LABEL = "series"
_DIGITS = 12
_RUNS = """
SELECT run_id, engine, model, hardware, gpu_count, config_json, client_json, labels_json,
  coalesce(profiled, false) AS profiled, usable
FROM runs
ORDER BY run_id
"""
_LOADS = """
SELECT run_id, request_rate_per_s AS request_rate, burstiness, max_concurrency,
  planned_requests AS num_prompts, asked_output_tokens
FROM load_sessions
ORDER BY ALL
"""


@dataclass(frozen=True)
class RunKey:
    """One run's key, what it stands for, and whether the run can be a baseline at all."""

    run_id: str
    key: str
    meaning: str
    profiled: bool
    usable: bool


def run_keys(run_ids: Sequence[str] | None, reading: Reading) -> dict[str, RunKey]:
    """Return the key of each run; of all runs of the store without `run_ids`."""
    with open_runs(run_ids, reading) as warehouse:
        runs = warehouse.ask(_RUNS).dicts()
        loads = warehouse.ask(_LOADS).dicts()
    sessions: dict[str, list[dict[str, Any]]] = {}
    for load in loads:
        sessions.setdefault(load.pop("run_id"), []).append(load)
    return {row["run_id"]: _run_key(row, sessions.get(row["run_id"], [])) for row in runs}


def _run_key(row: Mapping[str, Any], loads: Sequence[Mapping[str, Any]]) -> RunKey:
    label = json.loads(row["labels_json"]).get(LABEL)
    config = json.loads(row["config_json"])
    asked = json.loads(row["client_json"])
    what = {
        **{name: row[name] for name in ("engine", "model", "hardware", "gpu_count")},
        **{name: config[name] for name in SETTINGS if name in config},
    }
    client = {name: asked[name] for name in LOAD if name in asked}
    merged = [
        {**client, **{name: value for name, value in load.items() if value is not None}}
        for load in loads or [{}]
    ]
    text = json.dumps([what, merged], sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]
    key = str(label) if label is not None and str(label).strip() else f"config-{digest}"
    return RunKey(row["run_id"], key, _meaning(what, merged), row["profiled"], row["usable"])


def _meaning(what: Mapping[str, Any], loads: Sequence[Mapping[str, Any]]) -> str:
    names = [str(what[name]) for name in ("engine", "model", "hardware") if what[name] is not None]
    if what["gpu_count"] is not None:
        names.append(f"{what['gpu_count']} GPU")
    shown = ("max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size")
    names += [f"{name}={what[name]}" for name in shown if name in what]
    for load in loads:
        parts = {"request_rate": "1/s", "max_concurrency": "in flight", "num_prompts": "requests"}
        names += [f"{load[name]} {unit}" for name, unit in parts.items() if name in load]
    return ", ".join(names) or "nothing is known of it"
