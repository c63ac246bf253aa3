"""Recorded vLLM runs as the attribution's inputs, and the recorded scheduler's own account of them.

Small readers for tests only: the product's sources read these formats properly. The truth reader
is used to score results and never to make them.
"""

from __future__ import annotations

import ast
import datetime as dt
import gzip
import json
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fixture_folder import fixture_folder

from trueput.attribution.records import EngineLimits, Steps, Stream, Totals

ITERATION = re.compile(
    r"(\d\d-\d\d \d\d:\d\d:\d\d) .*?Engine (\d{3}): Iteration\((\d+)\): (\d+) context requests, "
    r"(\d+) context tokens, (\d+) generation requests, (\d+) generation tokens, "
    r"iteration elapsed time: ([\d.]+) ms(?:, \w+ KV cache usage: ([\d.]+)%)?"
)
ABORTED = re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d) .*Aborted request\(s\) (\S+?)-[0-9a-f]{8}\.")
ARGUMENTS = re.compile(r"non-default args: (\{.*)")
COUNTER = re.compile(r"^(vllm:\w+)(?:\{(.*?)\})? (\S+)$")


def fixtures_root() -> Path:
    """The folder of recorded vLLM runs; skips the test where none is given."""
    return fixture_folder("vllm_cpu")


@dataclass
class RecordedRun:
    """Everything `attribute` takes, for one recorded run."""

    steps: list[Steps]
    streams: list[Stream]
    limits: EngineLimits
    totals: Totals


@dataclass
class TrueVictim:
    """What the instrumented scheduler did to one preempted request."""

    preemptions: int = 0
    requeue_ns: int = 0
    recomputed: dict[int, int] = field(default_factory=dict)  # step index -> tokens


def _client_guidellm(folder: Path) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    path = folder / "guidellm.json"
    if not path.exists():
        return rows
    for report in json.loads(path.read_text())["benchmarks"]:
        for record in [x for kind in report["requests"].values() for x in kind or []]:
            sent = _ns(record["request_start_time"])
            first = record["time_to_first_token_ms"]
            rows[f"{record['response_id']}"] = {
                "prompt_tokens": record["prompt_tokens"],
                "output_tokens": record["output_tokens"],
                "sent_at_ns": sent,
                "first_token_at_ns": sent + round(first * 10**6) if first else None,
                "ended_at_ns": _ns(record["request_end_time"]),
            }
    rows.pop("None", None)
    return rows


def _log_ns(stamp: str, year: int) -> int:
    at = dt.datetime.strptime(f"{year}-{stamp}+0000", "%Y-%m-%d %H:%M:%S%z")
    return int(at.timestamp()) * 10**9


def _rename_by_order(
    clients: dict[str, dict[str, Any]], spans: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Client rows under the engine's ids where a client's own ids did not reach the engine."""
    if clients.keys() & spans.keys() or len(clients) != len(spans):
        return clients
    sent = sorted(clients.values(), key=lambda row: int(row["sent_at_ns"]))
    arrived = sorted(spans, key=lambda request_id: int(spans[request_id]["start"]))
    return dict(zip(arrived, sent, strict=True))


def _lines(path: Path) -> list[str]:
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    if path.suffix == ".gz":
        with gzip.open(path, "rt", errors="replace") as handle:
            return handle.read().splitlines()
    return path.read_text(errors="replace").splitlines()


def _read_steps(lines: list[str], year: int) -> list[Steps]:
    rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for line in lines:
        if match := ITERATION.search(line):
            rows[match[2]].append(
                (
                    int(match[3]),
                    _log_ns(match[1], year),
                    round(float(match[8]) * 10**6),
                    *(int(match[i]) for i in range(4, 8)),
                    float(match[9]) / 100 if match[9] else float("nan"),
                )
            )
    return [_steps(engine, table) for engine, table in sorted(rows.items())]


def _steps(engine: str, table: list[tuple[float, ...]]) -> Steps:
    columns = list(zip(*table, strict=True))
    index, logged, elapsed, *counts = (np.array(x, dtype=np.int64) for x in columns[:7])
    return Steps(
        engine=engine,
        incarnation=0,
        step_ix=index,
        logged_at_ns=logged,
        elapsed_ns=elapsed,
        context_requests=counts[0],
        context_tokens=counts[1],
        generation_requests=counts[2],
        generation_tokens=counts[3],
        kv_used_ratio=np.array(columns[7], dtype=np.float64),
    )


def _read_limits(lines: list[str]) -> EngineLimits:
    arguments: dict[str, Any] = {}
    for line in lines:
        if match := ARGUMENTS.search(line):
            plain = re.sub(r"\w+Config\(.*?\)(?=[,}])", "None", match[1])
            arguments = ast.literal_eval(plain)
            break
    return EngineLimits(
        block_size=arguments.get("block_size"),
        num_blocks=arguments.get("num_gpu_blocks_override"),
        max_num_seqs=arguments.get("max_num_seqs"),
        max_num_batched_tokens=arguments.get("max_num_batched_tokens"),
        prefix_caching=arguments.get("enable_prefix_caching", True),
        spec_tokens=0,
    )


def _read_totals(folder: Path, aborted: int) -> Totals:
    scrapes: list[dict[str, float]] = []
    for line in _lines(folder / "metrics.prom"):
        if line.startswith("# SCRAPE "):
            scrapes.append(defaultdict(float))
        elif scrapes and (match := COUNTER.match(line)):
            name = match[1] + ("|local_compute" if "local_compute" in (match[2] or "") else "")
            scrapes[-1][name] += float(match[3])
    full = [scrape for scrape in scrapes if "vllm:generation_tokens_total" in scrape]
    if not full:
        return Totals(None, None, None, None, aborted)

    def delta(name: str) -> int:
        return round(full[-1][name] - full[0][name])

    return Totals(
        delta("vllm:prompt_tokens_by_source_total|local_compute"),
        delta("vllm:generation_tokens_total"),
        delta("vllm:time_to_first_token_seconds_count"),
        delta("vllm:num_preemptions_total"),
        aborted,
    )


def _read_spans(folder: Path) -> dict[str, dict[str, Any]]:
    spans: dict[str, dict[str, Any]] = {}
    for line in _lines(folder / "otlp.jsonl"):
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    if span["name"] != "llm_request":
                        continue
                    flat = {
                        item["key"]: next(iter(item["value"].values()))
                        for item in span["attributes"]
                    }
                    flat["start"] = span["startTimeUnixNano"]
                    spans[str(flat["gen_ai.request.id"])] = flat
    return spans


def _ns(seconds: float) -> int:
    return round(float(seconds) * 10**9)


def _client_bench(folder: Path, command: str, shift_ns: int) -> dict[str, dict[str, Any]]:
    if not (folder / "bench.json").exists():
        return {}
    bench = json.loads((folder / "bench.json").read_text())
    prefix = re.search(r"--request-id-prefix (\S+)", command)
    assert prefix is not None
    rows: dict[str, dict[str, Any]] = {}
    for i, start in enumerate(bench["start_times"]):
        if bench["errors"][i]:
            continue
        sent = _ns(start) + shift_ns
        gaps = np.array([_ns(gap) for gap in bench["itls"][i]], dtype=np.int64)
        rows[f"cmpl-{prefix[1]}{i}-0"] = {
            "prompt_tokens": bench["input_lens"][i],
            "output_tokens": bench["output_lens"][i],
            "sent_at_ns": sent,
            "first_token_at_ns": sent + _ns(bench["ttfts"][i]),
            "ended_at_ns": sent + _ns(bench["latencies"][i]),
            "gaps_ns": gaps,
        }
    return rows


def _client_raw(folder: Path, shift_ns: int) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    path = folder / "client.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        record = json.loads(line)
        if record.get("status") not in {200, None}:
            continue
        chunks = np.array([_ns(t) for t in record.get("chunk_mono") or []], dtype=np.int64)
        usage = (record.get("last_chunk") or {}).get("usage") or {}
        rows[f"cmpl-{record['request_id']}-0"] = {
            "prompt_tokens": usage.get("prompt_tokens", record.get("prompt_tokens_sent")),
            "output_tokens": usage.get("completion_tokens"),
            "asked_output_tokens": record.get("max_tokens"),
            "sent_at_ns": _ns(record["send_mono"]) + shift_ns,
            "first_token_at_ns": int(chunks[0]) + shift_ns if len(chunks) else None,
            "ended_at_ns": _ns(record["end_mono"]) + shift_ns,
            "gaps_ns": np.diff(chunks) if len(chunks) else None,
        }
    return rows


def _client_aiperf(folder: Path) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    path = folder / "aiperf_artifacts" / "profile_export.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        record = json.loads(line)
        meta, metrics = record["metadata"], record["metrics"]

        def value(name: str, source: dict[str, Any] = metrics) -> Any:
            return source.get(name, {}).get("value")

        # a cancelled request's recorded start is its cancellation delay too late
        sent = int(meta["credit_issued_ns" if meta["was_cancelled"] else "request_start_ns"])
        first = value("time_to_first_token")
        latencies = value("inter_chunk_latency") or []
        rows[f"cmpl-{meta['x_request_id']}-0"] = {
            "prompt_tokens": value("usage_prompt_tokens"),
            "output_tokens": value("usage_completion_tokens"),
            "sent_at_ns": sent,
            "first_token_at_ns": sent + round(first * 10**6) if first else None,
            "ended_at_ns": int(meta["request_end_ns"]),
            "gaps_ns": np.array([round(x * 10**6) for x in latencies], dtype=np.int64),
        }
    return rows


def load_run(folder: Path) -> RecordedRun:
    """One recorded run, every vantage it has, joined by request id."""
    setup = tomllib.loads((folder / "run.toml").read_text())
    year = int(setup["date_utc"][:4])
    lines = _lines(folder / "server.log")
    anchors = setup["clock_anchors"]
    # the first anchor names the shift; all agree to the microsecond on these runs
    shift_ns = _ns(anchors[0]["unix"]) - _ns(anchors[0]["monotonic"])
    command = " ".join(step.get("command", "") for step in setup.get("steps", []))
    aborted = {match[2] for line in lines if (match := ABORTED.search(line))}
    clients = _client_bench(folder, command, shift_ns) if "bench serve" in command else {}
    clients |= _client_raw(folder, shift_ns) | _client_aiperf(folder)
    clients |= _client_guidellm(folder)
    spans = _read_spans(folder)
    clients = _rename_by_order(clients, spans)
    left = {match[2]: _log_ns(match[1], year) for line in lines if (match := ABORTED.search(line))}
    for request_id, at in left.items():
        clients.setdefault(request_id, {"ended_at_ns": at})
    streams = [
        _join(request_id, clients.get(request_id, {}), spans.get(request_id, {}), aborted)
        for request_id in sorted(clients.keys() | spans.keys() | aborted)
    ]
    return RecordedRun(
        _read_steps(lines, year),
        streams,
        _read_limits(lines),
        _read_totals(folder, len(aborted)),
    )


def _join(
    request_id: str, client: dict[str, Any], span: dict[str, Any], aborted: set[str]
) -> Stream:
    def latency(name: str) -> int | None:
        key = f"gen_ai.latency.{name}"
        return _ns(span[key]) if key in span else None

    def usage(name: str, other: str) -> int | None:
        key = f"gen_ai.usage.{name}"
        return int(span[key]) if key in span else client.get(other)

    asked = span.get("gen_ai.request.max_tokens", client.get("asked_output_tokens"))
    return Stream(
        request_id=request_id,
        prompt_tokens=usage("prompt_tokens", "prompt_tokens"),
        cached_prompt_tokens=None,
        output_tokens=usage("completion_tokens", "output_tokens"),
        asked_output_tokens=int(asked) if asked is not None else None,
        sent_at_ns=client.get("sent_at_ns"),
        first_token_at_ns=client.get("first_token_at_ns"),
        ended_at_ns=client.get("ended_at_ns"),
        gaps_ns=client.get("gaps_ns"),
        arrived_at_ns=int(span["start"]) if span else None,
        queue_ns=latency("time_in_queue"),
        prefill_ns=latency("time_in_model_prefill"),
        decode_ns=latency("time_in_model_decode"),
        e2e_ns=latency("e2e"),
        aborted=request_id in aborted,
    )


def load_truth(folder: Path) -> tuple[dict[str, TrueVictim], int]:
    """Per request id what the scheduler did, and the run's recomputed tokens.

    The truth's step n is printed as iteration n - 1.
    """
    victims: dict[str, TrueVictim] = defaultdict(TrueVictim)
    since: dict[str, float] = {}
    total = 0
    printed = -1
    for line in _lines(folder / "truth_sched.jsonl"):
        event = json.loads(line)
        if event["ev"] == "preempt":
            request = event["req"].rsplit("-", 1)[0]
            victims[request].preemptions += 1
            since[request] = event["mono"]
        elif event["ev"] == "step":
            printed += 1
            for name, kind, _, _, again in event["reqs"]:
                request = name.rsplit("-", 1)[0]
                if kind == "resumed" and request in since:
                    victims[request].requeue_ns += _ns(event["mono"] - since.pop(request))
                if again:
                    total += again
                    victims[request].recomputed[printed] = (
                        victims[request].recomputed.get(printed, 0) + again
                    )
    return dict(victims), total
