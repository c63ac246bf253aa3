"""Result files of `vllm bench serve` written down in a line, for tests that ingest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def bench(
    ttft_s: Sequence[float],
    *,
    gap_s: float = 0.02,
    tokens: int = 5,
    every_s: float = 1.0,
    slow_gap_s: float | None = None,
    **told: object,
) -> dict[str, object]:
    """Return one result: a request a `ttft_s`, sent `every_s`, its tokens `gap_s` apart.

    `slow_gap_s` is the last gap of each request.
    """
    count = len(ttft_s)
    gaps = [gap_s] * (tokens - 1)
    if slow_gap_s is not None:
        gaps[-1] = slow_gap_s
    latencies = [ttft + sum(gaps) for ttft in ttft_s]
    starts = [100.0 + every_s * place for place in range(count)]
    duration = max(s + x for s, x in zip(starts, latencies, strict=True)) - starts[0]
    return {
        "date": "20261129-134425", "endpoint_type": "vllm", "backend": "vllm", "label": None,
        "model_id": "tiny", "tokenizer_id": "tiny", "num_prompts": count,
        "request_rate": 1 / every_s, "burstiness": 1.0, "max_concurrency": None,
        "duration": duration, "completed": count, "failed": 0,
        "total_input_tokens": 100 * count, "total_output_tokens": tokens * count,
        "request_throughput": count / duration, "request_goodput": None,
        "output_throughput": tokens * count / duration,
        "total_token_throughput": (100 + tokens) * count / duration,
        "input_lens": [100] * count, "output_lens": [tokens] * count,
        "ttfts": list(ttft_s), "itls": [gaps] * count, "latencies": latencies,
        "start_times": starts, "queue_times": [0.0] * count, "errors": [""] * count,
        "generated_texts": [""] * count, "mean_ttft_ms": 1000 * sum(ttft_s) / count,
        "median_ttft_ms": 1000 * sorted(ttft_s)[count // 2],
        **told,
    }  # fmt: skip


def write(folder: Path, result: dict[str, object], run_toml: str = "") -> Path:
    """Write a run of one result; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(result), encoding="utf-8")
    if run_toml:
        (folder / "run.toml").write_text(run_toml, encoding="utf-8")
    return folder


SCHEDULED = """
[columns]
file = "client.jsonl"
vantage = "client"
format = "jsonl"
clock = "utc"

[columns.names]
request_id = "id"
scheduled_at = "due"
sent_at = "sent"
first_token_at = "first"
ended_at = "end"
output_tokens = "out"
prompt_tokens = "in"
label = "tier"
status = "status"

[columns.units]
due = "s"
sent = "s"
first = "s"
end = "s"
"""


def write_scheduled(folder: Path, late_s: float, ttft_s: float, label: str) -> Path:
    """Write a run of 20 requests, each sent `late_s` after it was due; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for place in range(20):
        due = 1_795_959_000.0 + place
        sent = due + late_s
        row = {"id": f"{label}{place}", "due": due, "sent": sent, "first": sent + ttft_s,
               "end": sent + ttft_s + 0.2, "out": 5, "in": 100, "tier": "chat",
               "status": "good"}  # fmt: skip
        lines.append(json.dumps(row))
    (folder / "client.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "run.toml").write_text(SCHEDULED, encoding="utf-8")
    return folder
