"""Turns recorded vLLM runs into figures by hand, so that the gate is tested before the views."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from trueput.gate.figures import RunFigures
from trueput.slo import parse_slo

_STEP = re.compile(
    r"context requests, (\d+) context tokens, (\d+) generation requests, (\d+) generation tokens, "
    r"iteration elapsed time: ([\d.]+) ms"
)


@cache
def _raw(folder: Path) -> tuple[dict[str, list[float]], list[tuple[float, ...]], str, str]:
    bench = json.loads((folder / "bench.json").read_text())
    packed, plain = folder / "server.log.gz", folder / "server.log"
    if packed.exists():
        log = gzip.decompress(packed.read_bytes()).decode(errors="replace")
    else:
        log = plain.read_text(errors="replace")
    steps = [tuple(float(part) for part in found) for found in _STEP.findall(log)]
    run = tomllib.loads((folder / "run.toml").read_text())
    client = next(step["command"] for step in run["steps"] if "bench serve" in step["command"])
    return bench, steps, client, run["server_command"]


def _arguments(command: str) -> dict[str, str]:
    words = shlex.split(command)
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {k.lstrip("-"): v for k, v in pairs if k.startswith("--")}


def figures(folder: Path, slo: str) -> RunFigures:
    """Return a recorded run under an objective; no view is involved."""
    bench, steps, client, server = _raw(folder)
    limits = parse_slo(slo)
    asked = _arguments(client)
    starts = [round(start * 1e9) for start in bench["start_times"]]
    first = min(starts)
    requests: list[dict[str, object]] = []
    for i, start in enumerate(starts):
        e2e, ttft = round(bench["latencies"][i] * 1e9), round(bench["ttfts"][i] * 1e9)
        tokens = int(bench["output_lens"][i])
        tpot = (e2e - ttft) / (tokens - 1)
        good = ttft <= (limits.ttft or 0) and tpot <= (limits.tpot or 0)
        requests.append(
            {
                "outcome": "good" if good else "late",
                "sent_offset_ns": start - first,
                "end_offset_ns": start - first + e2e,
                "ttft_ns": ttft,
                "tpot_ns": tpot,
                "e2e_ns": e2e,
                "prompt_tokens": int(bench["input_lens"][i]),
                "asked_output_tokens": tokens,
                "output_tokens": tokens,
            }
        )
    return _run(folder.name, slo, requests, steps, asked, _arguments(server))


def _run(
    name: str,
    slo: str,
    requests: list[dict[str, object]],
    steps: list[tuple[float, ...]],
    asked: Mapping[str, str],
    server: Mapping[str, str],
) -> RunFigures:
    window = max(int(str(row["end_offset_ns"])) for row in requests)
    good = sum(row["outcome"] == "good" for row in requests)
    scheduled = sum(step[0] + step[2] for step in steps)
    busy = round(sum(step[3] for step in steps) * 1e6)
    # Recompute shows as generation tokens above one for each generation request.
    again = sum(max(0.0, step[2] - step[1]) for step in steps)
    count = len(requests)
    tokens = sum(int(str(row["output_tokens"])) for row in requests)
    goodput = {
        "run_id": name, "slo": slo, "window_rule": "all", "window_ns": window,
        "planned_requests": count, "sent_requests": count, "answered_requests": count,
        "complete_requests": count, "good_requests": good, "late_requests": count - good,
        "slo_attainment_ratio": good / count, "goodput_rps": good * 1e9 / window,
        "output_tokens_per_s": tokens * 1e9 / window, "basis": "measured",
    }  # fmt: skip
    activity: list[dict[str, object]] = [
        {"metric": "engine_step", "value": busy, "unit": "ns", "window_ns": window,
         "basis": "reported"},
        {"metric": "scheduled_tokens", "value": scheduled, "unit": "tokens", "window_ns": window,
         "basis": "reported"},
    ]  # fmt: skip
    # Without step instants: the elapsed times laid end to end, stretched over the window.
    at, points = 0.0, list[dict[str, object]]()
    total = sum(step[3] for step in steps)
    for step in steps:
        at += step[3]
        offset = min(window, round(at / total * window))
        points.append(
            {"metric": "scheduled_tokens", "offset_ns": offset, "value": step[0] + step[2]}
        )
    return RunFigures.from_views(
        {
            "goodput": [goodput],
            "request_outcomes": requests,
            "gpu_activity": activity,
            "recompute": [
                {"recomputed_tokens": again, "scheduled_tokens": scheduled, "basis": "inferred"}
            ],
            "runs": [{"run_id": name, "engine": "vllm", "config": server}],
            "load_sessions": [
                {
                    "request_rate_per_s": float(asked["request-rate"]),
                    "planned_requests": int(asked["num-prompts"]),
                    "writer": "vllm bench serve",
                }
            ],
            "activity_series": points,
        }
    )
