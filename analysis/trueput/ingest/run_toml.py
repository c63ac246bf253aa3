"""run.toml: what no other file says. Known keys become facts and options, others problems."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trueput.clock import ClockAnchor, parse_zone
from trueput.load_command import asked_settings
from trueput.source_api import Fact, Problem, Severity
from trueput.units import to_ns

PROBLEM_CODES = {
    "RUN001": "run.toml is not valid TOML; the run is read without it.",
    "RUN002": "run.toml has a key that trueput does not know.",
    "RUN003": "A value in run.toml is of the wrong kind and was not used.",
    "RUN004": "`[columns]` describes a file that is not there.",
}

_KNOWN = {
    "name", "purpose", "labels", "gpu_count", "timezone", "year", "price_per_gpu_hour",
    "planned_requests", "config", "slo", "quality", "clock_anchors", "steps", "columns",
    "engine", "engine_version", "engine_package", "hardware", "model", "simulated", "profiled",
    "kind", "date_utc", "server_command", "server_exit_code", "machine",
}  # fmt: skip
_RANGES: dict[str, tuple[tuple[type[int] | type[float], ...], int, int]] = {
    "gpu_count": ((int,), 1, 10**7),
    "planned_requests": ((int,), 0, 10**15),
    "price_per_gpu_hour": ((int, float), 0, 10**9),
    "year": ((int,), 1970, 2200),
}
_NOT_KEPT = {"server_env", "env", "environment"}
_SERVER_FLAGS = {
    "max-num-seqs", "max-num-batched-tokens", "block-size", "num-gpu-blocks-override",
    "max-model-len", "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size",
    "kv-cache-dtype", "dtype", "gpu-memory-utilization", "enable-prefix-caching",
    "enforce-eager", "enable-logging-iteration-details", "enable-log-requests",
    "otlp-traces-endpoint", "enable-chunked-prefill", "seed", "scheduling-policy",
    "enable-per-request-metrics", "quantization", "async-scheduling", "served-model-name",
}  # fmt: skip
_CLIENT_FLAGS = {
    "backend", "dataset-name", "random-input-len", "random-output-len", "random-range-ratio",
    "num-prompts", "request-rate", "burstiness", "max-concurrency", "seed", "ignore-eos",
    "request-id-prefix", "goodput", "percentile-metrics", "save-detailed", "result-filename",
    "temperature", "num-warmups", "ramp-up-strategy", "prefix-repetition-prefix-len",
    "prefix-repetition-suffix-len", "prefix-repetition-num-prefixes",
    "prefix-repetition-output-len", "sharegpt-output-len", "custom-output-len", "hf-output-len",
    "sonnet-output-len", "spec-bench-output-len", "output-len", "max-tokens", "min-tokens",
    "top-p", "top-k", "min-p", "repetition-penalty", "ramp-up-start-rps", "ramp-up-end-rps",
    "extra-body", "extra-request-body", "extra-inputs", "osl", "output-tokens-mean",
    "mean-output-tokens", "output-sequence-length", "synthetic-output-tokens-mean",
    "max-completion-tokens", "random-seed", "random-output",
}  # fmt: skip


#: Commands that send a load, by whichever client.
_LOAD = re.compile(
    r"bench.*serve|bench_serving|vllm-bench|aiperf\s+profile|genai-perf\s+profile|genai-bench"
    r"|guidellm\s+(run|benchmark)|token_benchmark_ray"
)


@dataclass(frozen=True)
class LoadCommand:
    """One client command of run.toml `[[steps]]`: its flags by name without dashes."""

    name: str
    flags: Mapping[str, Any]


@dataclass
class RunToml:
    """run.toml, taken apart."""

    raw: dict[str, Any] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    anchors: list[ClockAnchor] = field(default_factory=list)
    timezone: str | None = None
    year: int | None = None
    loads: list[LoadCommand] = field(default_factory=list)
    slo: str | None = None
    labels: dict[str, Any] = field(default_factory=dict)
    quality: dict[str, float] = field(default_factory=dict)

    numbers: dict[str, int | float] = field(default_factory=dict)
    """gpu_count, planned_requests, price_per_gpu_hour, year: those that are sound."""

    def asked(self) -> dict[str, Any]:
        """Return the settings that the client's commands ask for, where all of them agree."""
        commands = [asked_settings(load.flags) for load in self.loads]
        return {
            name: value
            for name, value in (commands[0] if commands else {}).items()
            if all(name in other and other[name] == value for other in commands)
        }

    def _wrong(self, key: str, expected: str) -> None:
        text = f"`{key}` is not {expected}; it was not used"
        self.problems.append(Problem("RUN003", Severity.WARNING, text))


def read_run_toml(path: Path | None) -> RunToml:
    """Read run.toml; without a file, or with a broken one, an empty RunToml (with a problem)."""
    result = RunToml()
    if path is None:
        return result
    try:
        result.raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        result.problems.append(Problem("RUN001", Severity.ERROR, f"{error}"[:200]))
        return result
    for key in sorted(set(result.raw) - _KNOWN - _NOT_KEPT):
        text = f"unknown key `{key}`"
        result.problems.append(Problem("RUN002", Severity.INFO, text))
    for key in _NOT_KEPT:
        result.raw.pop(key, None)
    _simple_facts(result)
    _anchors(result)
    _commands(result)
    _tables(result)
    return result


def _simple_facts(run: RunToml) -> None:
    for key in ("engine", "engine_version", "hardware"):
        value = run.raw.get(key)
        if isinstance(value, str):
            run.facts.append(Fact(key, value))
        elif value is not None:
            run._wrong(key, "text")
    model = run.raw.get("model")
    if isinstance(model, str):
        run.facts.append(Fact("model", model))
    for key in ("simulated", "profiled"):
        if isinstance(run.raw.get(key), bool):
            run.facts.append(Fact(key, run.raw[key]))
    zone = run.raw.get("timezone")
    if isinstance(zone, str):
        try:
            parse_zone(zone)
            run.timezone = zone
        except ValueError:
            run._wrong("timezone", "a zone such as `UTC`, `+02:00` or `Europe/Berlin`")
    elif zone is not None:
        run._wrong("timezone", "text")
    for key, (kinds, least, most) in _RANGES.items():
        value = run.raw.get(key)
        if isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most:
            run.numbers[key] = value
        elif value is not None:
            run._wrong(key, f"a number from {least} to {most}")
    year = run.numbers.get("year")
    run.year = int(year) if year is not None else None


def _anchors(run: RunToml) -> None:
    anchors = run.raw.get("clock_anchors", [])
    if not isinstance(anchors, list):
        run._wrong("clock_anchors", "a list of tables")
        return
    for anchor in anchors:
        pair = [anchor.get(k) if isinstance(anchor, dict) else None for k in ("unix", "monotonic")]
        spans = [to_ns(v, "s") if isinstance(v, (int, float)) else None for v in pair]
        if spans[0] is None or spans[1] is None:
            run._wrong("clock_anchors", "a pair of numbers `unix`, `monotonic`")
        else:
            run.anchors.append(ClockAnchor(spans[0], spans[1]))


def _flags(command: str, known: set[str]) -> dict[str, Any]:
    """Return the known long options of a command line; lists where several values follow."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: dict[str, Any] = {}
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--"):
            continue
        name, _, inline = word[2:].partition("=")
        values = [inline] if inline else []
        while index < len(words) and not words[index].startswith("--"):
            values.append(words[index])
            index += 1
        negative = name.startswith("no-") and name[3:] in known
        if negative:
            found[name[3:]] = False
        elif name in known:
            found[name] = _value(values)
    return found


def _value(values: list[str]) -> Any:
    if not values:
        return True
    if len(values) > 1:
        return values
    try:
        return json.loads(values[0])
    except ValueError:
        return values[0]


def _commands(run: RunToml) -> None:
    command = run.raw.get("server_command")
    if isinstance(command, str):
        for name, value in _flags(command, _SERVER_FLAGS).items():
            key = name.replace("-", "_")
            kept = True if key == "otlp_traces_endpoint" else value
            if isinstance(kept, (str, int, float, bool)):
                run.facts.append(Fact(f"config.{key}", kept))
    steps = run.raw.get("steps", [])
    for step in steps if isinstance(steps, list) else []:
        text = step.get("command") if isinstance(step, dict) else None
        if isinstance(text, str) and _LOAD.search(text):
            flags = _flags(text, _CLIENT_FLAGS)
            run.loads.append(LoadCommand(str(step.get("name", "")), flags))


def _tables(run: RunToml) -> None:
    config = run.raw.get("config", {})
    if isinstance(config, dict):
        for key, value in config.items():
            if isinstance(value, (str, int, float, bool)):
                run.facts.append(Fact(f"config.{key}", value))
    labels = run.raw.get("labels", {})
    if isinstance(labels, dict):
        run.labels = {k: v for k, v in labels.items() if isinstance(v, (str, int, float, bool))}
    quality = run.raw.get("quality", {})
    if isinstance(quality, dict):
        run.quality = {
            k: float(v)
            for k, v in quality.items()
            if isinstance(v, (int, float)) and not isinstance(v, bool)
        }
    slo = run.raw.get("slo")
    if isinstance(slo, dict):
        run.slo = ",".join(f"{k}={v}" for k, v in slo.items())
    elif isinstance(slo, str):
        run.slo = slo


def goodput_slo(words: Any) -> str | None:
    """Return a client's `--goodput ttft:500 tpot:20` (milliseconds) in the grammar of --slo."""
    names = {"ttft": "ttft", "tpot": "tpot", "e2el": "e2e"}
    parts = []
    for word in words if isinstance(words, list) else [words]:
        name, _, limit = str(word).partition(":")
        if name in names and limit:
            parts.append(f"{names[name]}={limit}ms")
    return ",".join(parts) or None
