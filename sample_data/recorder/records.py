"""The files of a recorded run: trace, records, telemetry, run.toml, truth."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from scheduler import Request

KEPT_CATEGORIES = frozenset(
    {
        "user_annotation", "gpu_user_annotation", "kernel", "gpu_memcpy", "gpu_memset",
        "cuda_runtime", "cuda_driver", "overhead", "Trace",
    }
)  # fmt: skip
KEPT_ARGUMENTS = frozenset(
    {
        "device", "stream", "correlation", "context", "External id", "graph id", "graph node id",
        "bytes", "cbid", "name", "labels", "sort_index",
    }
)  # fmt: skip
FIELDS = (
    "timestamp,index,name,utilization.gpu,utilization.memory,memory.used,power.draw,"
    "clocks.current.sm,temperature.gpu"
)
SAMPLE_MS = 100
_LEFT_OUT = frozenset({"traceName", "host_name", "trace_id"})


@dataclass(frozen=True)
class Step:
    """One line of the step log."""

    step: int
    start_ns: int
    end_ns: int
    context_requests: int
    context_tokens: int
    generation_requests: int
    generation_tokens: int
    recomputed_tokens: int
    running: int
    waiting: int
    kv_blocks: int
    preemptions: int
    decode_tokens: int


class Telemetry:
    """`nvidia-smi` beside a run, where there is one."""

    def __init__(self, device: str) -> None:
        program = shutil.which("nvidia-smi") if device == "cuda" else None
        self.command = program and [
            program, f"--query-gpu={FIELDS}", "--format=csv", f"--loop-ms={SAMPLE_MS}",
        ]  # fmt: skip
        self.printed = ""

    def __enter__(self) -> Telemetry:
        self.process = None
        if self.command:
            self.process = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            time.sleep(3 * SAMPLE_MS / 1000)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()

    def stop(self) -> None:
        """Stop sampling and keep what was printed, but for a last line that was cut."""
        if self.process is not None:
            time.sleep(2 * SAMPLE_MS / 1000)
            self.process.terminate()
            printed, _ = self.process.communicate(timeout=30)
            self.printed = printed[: printed.rfind("\n") + 1]
            self.process = None

    def text(self) -> str:
        """Return what was printed so far; sampling ends."""
        self.stop()
        return self.printed


def write_run(
    folder: Path, *, requests: list[Request], steps: list[Step], trace: Path, telemetry: str,
    anchors: list[tuple[int, int]], objective: dict[str, int], about: dict[str, Any],
    keep_operators: bool,
) -> int:  # fmt: skip
    """Write a run's folder and return its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    _pack(folder / "loop.pt.trace.json.gz", thinned(trace, keep_operators=keep_operators))
    _pack(folder / "requests.jsonl.gz", _lines(map(_request_line, requests)))
    _pack(folder / "steps.jsonl.gz", _lines(map(asdict, steps)))
    if telemetry:
        (folder / "nvidia_smi.csv").write_text(telemetry, encoding="utf-8")
    (folder / "run.toml").write_text(_run_toml(folder.name, anchors, objective, about, requests))
    for name, truth in (
        ("truth_run.json", _truth_of_run(requests, steps, about)),
        ("truth_requests.json", [_truth_of_request(r) for r in requests]),
    ):
        (folder / name).write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return sum(path.stat().st_size for path in folder.iterdir())


def thinned(path: Path, *, keep_operators: bool) -> bytes:
    """Return the trace as the profiler wrote it, or without operators and most arguments.

    One event a line, in the order written. The host's name and the path are left out of its head.
    """
    told = json.loads(path.read_bytes())
    events = told.pop("traceEvents")
    head = {k: v for k, v in told.items() if k not in _LEFT_OUT}
    kept = []
    for event in events:
        if not keep_operators:
            if event.get("ph") == "X" and event.get("cat") not in KEPT_CATEGORIES:
                continue
            if event.get("ph") in ("s", "f", "t"):
                continue
            arguments = event.get("args", {})
            event["args"] = {k: v for k, v in arguments.items() if k in KEPT_ARGUMENTS}
        kept.append(json.dumps(event, separators=(",", ":")))
    body = ",\n".join(kept)
    return f'{json.dumps(head)[:-1]}, "traceEvents": [\n{body}\n]}}\n'.encode()


def _pack(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def _lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()


def _request_line(request: Request) -> dict[str, Any]:
    return {
        "id": request.name,
        "arrived_ns": request.arrived_at_ns,
        "first_token_ns": request.first_token_at_ns,
        "ended_ns": request.ended_at_ns,
        "ttft_ns": request.first_token_at_ns - request.arrived_at_ns,
        "e2e_ns": request.ended_at_ns - request.arrived_at_ns,
        "queue_ns": request.scheduled_at_ns - request.arrived_at_ns,
        "prefill_ns": request.first_token_at_ns - request.scheduled_at_ns,
        "decode_ns": request.ended_at_ns - request.first_token_at_ns,
        "prompt": len(request.prompt),
        "output": len(request.tokens),
        "asked": request.asked,
        "preemptions": request.preemptions,
        "state": "finished" if request.done else "unfinished",
    }


def _truth_of_request(request: Request) -> dict[str, Any]:
    return {
        "request_id": request.name,
        "queue_ns": request.scheduled_at_ns - request.arrived_at_ns,
        "requeue_ns": request.requeue_ns,
        "ttft_ns": request.first_token_at_ns - request.arrived_at_ns,
        "e2e_ns": request.ended_at_ns - request.arrived_at_ns,
        "preemptions": request.preemptions,
        "recomputed_tokens": request.recomputed_tokens,
    }


def _truth_of_run(
    requests: list[Request], steps: list[Step], about: dict[str, Any]
) -> dict[str, Any]:
    scheduled = sum(s.context_tokens + s.generation_tokens for s in steps)
    again = sum(r.recomputed_tokens for r in requests)
    once = sum(len(r.prompt) + len(r.tokens) - 1 for r in requests)
    if scheduled != once + again:
        raise RuntimeError(f"{scheduled} tokens were scheduled, and {once} + {again} were due")
    return {
        **about,
        "requests": len(requests),
        "finished": sum(r.done for r in requests),
        "steps": len(steps),
        "step_ns": sum(s.end_ns - s.start_ns for s in steps),
        "scheduled_tokens": scheduled,
        "prompt_tokens": sum(len(r.prompt) for r in requests),
        "output_tokens": sum(len(r.tokens) for r in requests),
        "recomputed_tokens": again,
        "preemptions": sum(r.preemptions for r in requests),
    }


def _run_toml(
    name: str, anchors: list[tuple[int, int]], objective: dict[str, int], about: dict[str, Any],
    requests: list[Request],
) -> str:  # fmt: skip
    is_gpu = about["device"] == "cuda"
    limits = about["limits"]
    kind = "a GPU, decode as CUDA graphs" if is_gpu else "the CPU, eager; no GPU was there"
    text = f"""name = {json.dumps(name)}
kind = {json.dumps(f"recorded: a small decode loop of our own on {kind}; no serving engine")}
simulated = false
profiled = true
{f"gpu_count = 1{chr(10)}" if is_gpu else ""}hardware = {json.dumps(about["hardware"])}
planned_requests = {len(requests)}
timezone = "{time.strftime("%z")[:3]}:{time.strftime("%z")[3:]}"
year = {time.localtime().tm_year}

[labels]
made_by = "sample_data/recorder"
torch = {json.dumps(about["torch"])}

[slo]
"""
    text += "".join(f'{key} = "{value}ns"\n' for key, value in objective.items())
    text += f"""
[config]
max_num_seqs = {limits["most_running"]}
max_num_batched_tokens = {limits["tokens_a_step"]}
block_size = {about["block_tokens"]}
num_gpu_blocks = {limits["kv_blocks"]}

[columns]
file = "requests.jsonl.gz"
vantage = "engine"
clock = "utc"

[columns.names]
request_id = "id"
arrived_at = "arrived_ns"
first_token_at = "first_token_ns"
last_token_at = "ended_ns"
ended_at = "ended_ns"
ttft = "ttft_ns"
e2e = "e2e_ns"
queue = "queue_ns"
prefill = "prefill_ns"
decode = "decode_ns"
prompt_tokens = "prompt"
output_tokens = "output"
asked_output_tokens = "asked"
preemptions = "preemptions"
status = "state"

[columns.units]
arrived_ns = "ns"
first_token_ns = "ns"
ended_ns = "ns"
ttft_ns = "ns"
e2e_ns = "ns"
queue_ns = "ns"
prefill_ns = "ns"
decode_ns = "ns"

[columns.status]
finished = "finished"
unfinished = "running"
"""
    for unix, monotonic in anchors:
        text += f"\n[[clock_anchors]]\nunix = {_seconds(unix)}\nmonotonic = {_seconds(monotonic)}\n"
    return text


def _seconds(value: int) -> str:
    return f"{value // 10**9}.{value % 10**9:09d}"
