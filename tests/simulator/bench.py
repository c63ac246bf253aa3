"""The result of `vllm bench serve --save-result --save-detailed` (0.32)."""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import mean, median, pstdev

import numpy as np

from simulator.clocks import MONOTONIC_NS, seconds, wall
from simulator.config import NS_PER_MS
from simulator.engine import Run
from simulator.workload import Request

TIMEOUT = (
    'Traceback (most recent call last):\n  File "<site-packages>/vllm/benchmarks/lib/'
    'endpoint_request_func.py", line 241, in async_request_openai_completions\n'
    "    async for chunk_bytes in response.content.iter_any():\n"
    "asyncio.exceptions.TimeoutError\n"
)
CANCELLED = TIMEOUT.replace("TimeoutError", "CancelledError")


def is_complete(one: Request) -> bool:
    """Whether the client counts it as completed."""
    return not one.refused and one.leave_kind is None


def _error(one: Request) -> str:
    if one.refused:
        return "Bad Request"
    return {None: "", "timeout": TIMEOUT, "abort": CANCELLED}[one.leave_kind]


def _percentiles(name: str, values: list[float]) -> dict[str, float]:
    found = {f"mean_{name}_ms": 0.0, f"median_{name}_ms": 0.0, f"std_{name}_ms": 0.0}
    if values:
        found = {
            f"mean_{name}_ms": mean(values) * 1e3,
            f"median_{name}_ms": median(values) * 1e3,
            f"std_{name}_ms": pstdev(values) * 1e3,
        }
    for percent in (50, 90, 99):
        found[f"p{percent}_{name}_ms"] = (
            float(np.percentile(values, percent)) * 1e3 if values else 0.0
        )
    return found


def write(run: Run, prefix: str) -> str:
    """The result as one JSON object."""
    config, requests = run.config, run.requests
    start = min(one.sent_at for one in requests) - NS_PER_MS
    end = max(one.ended_at or 0 for one in requests) + NS_PER_MS
    duration = seconds(end - start)
    ttfts = [seconds(one.received_at[0] - one.sent_at) if one.received_at else 0.0
             for one in requests]  # fmt: skip
    itls = [[seconds(b - a) for a, b in pairwise(one.received_at)] for one in requests]
    done = [one for one in requests if is_complete(one)]
    latencies = [
        seconds(one.received_at[-1] - one.sent_at) if is_complete(one) else 0.0 for one in requests
    ]
    outputs = [len(one.received_at) if is_complete(one) else 0 for one in requests]
    tpots = [
        seconds(one.received_at[-1] - one.received_at[0]) / (len(one.received_at) - 1)
        for one in done if len(one.received_at) > 1
    ]  # fmt: skip
    good = 0
    for one in done:
        first = one.received_at[0] - one.sent_at
        rest = one.received_at[-1] - one.received_at[0]
        limit = config.tpot_ms * NS_PER_MS * (len(one.received_at) - 1)
        good += first <= config.ttft_ms * NS_PER_MS and rest <= limit
    prompt = sum(one.prompt for one in done)
    result = {
        "date": f"{wall(end):%Y%m%d-%H%M%S}",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": "sim-model",
        "tokenizer_id": "<model>",
        "num_prompts": len(requests),
        "request_rate": config.request_rate,
        "burstiness": config.burstiness,
        "max_concurrency": None,
        "duration": duration,
        "completed": len(done),
        "failed": len(requests) - len(done),
        "total_input_tokens": prompt,
        "total_output_tokens": sum(outputs),
        "request_throughput": len(done) / duration,
        "request_goodput": good / duration,
        "output_throughput": sum(outputs) / duration,
        "total_token_throughput": (prompt + sum(outputs)) / duration,
        "input_lens": [one.prompt for one in requests],
        "output_lens": outputs,
        "ttfts": ttfts,
        "itls": itls,
        "latencies": latencies,
        "start_times": [seconds(MONOTONIC_NS + one.sent_at) for one in requests],
        "queue_times": [0.0001] * len(requests),
        "generated_texts": [""] * len(requests),
        "errors": [_error(one) for one in requests],
    }
    kept = [k for k, one in enumerate(requests) if is_complete(one)]
    result |= _percentiles("ttft", [ttfts[k] for k in kept])
    result |= _percentiles("tpot", tpots)
    result |= _percentiles("itl", [gap for k in kept for gap in itls[k]])
    result |= _percentiles("e2el", [latencies[k] for k in kept])
    return json.dumps(result)
