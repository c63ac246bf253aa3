"""Console output of `vllm bench serve`: what was asked (Namespace line) and the printed totals.

The line `Namespace(...)` is the only place that keeps the client's objectives (`goodput`), the
request id prefix and whether end-of-sequence was ignored. Only known keys are read, with a small
tokeniser; nothing is evaluated. The block `Serving Benchmark Result` becomes a load session
without request records; ingest folds it into the session of the JSON result beside it.

An asked output length is kept only where the command fixes one for every request: a range ratio
other than 0 does not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from trueput.clock import ClockKind
from trueput.load_command import DATASET_LENGTH, SAMPLING, asked_length
from trueput.scan import Damage, text_blocks
from trueput.source_api import (
    NOT_MINE,
    Batch,
    Clock,
    Fact,
    Item,
    Problem,
    ReadOptions,
    Severity,
    Sniff,
    Source,
)
from trueput.units import to_ns

Value: TypeAlias = str | int | float | bool | list[str] | None

PROBLEM_CODES: Final = {
    "CONSOLE001": "the result block ends without its last line; what was printed was read",
    "CONSOLE002": "a known line of the result block holds no number",
    "CONSOLE003": "no result block: the client did not finish, or its output was cut",
    "CONSOLE004": "the compressed file breaks; what came before was read",
    "CONSOLE005": "an objective of the command is no `metric:milliseconds` and was left out",
}

_KEYS: Final = frozenset(
    {
        "num_prompts", "request_rate", "burstiness", "max_concurrency", "ignore_eos", "goodput",
        "request_id_prefix", "random_input_len", "random_output_len", "random_range_ratio",
        "dataset_name", "seed", "backend", "model", "endpoint", "percentile_metrics",
        "metric_percentiles", "save_detailed", "output_len", "custom_output_len",
        "sharegpt_output_len", "sonnet_output_len", "hf_output_len",
        "prefix_repetition_output_len", "num_warmups", "ramp_up_strategy", "ramp_up_start_rps",
        "ramp_up_end_rps", "spec_bench_output_len", *SAMPLING,
    }
)  # fmt: skip
_COUNTS: Final = {
    "Successful requests": "claimed_complete_requests",
    "Failed requests": "claimed_failed_requests",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Total input tokens": "claimed_prompt_tokens",
    "Total generated tokens": "claimed_output_tokens",
}
_RATES: Final = {
    "Request rate configured (RPS)": "request_rate_per_s",
    "Request throughput (req/s)": "claimed_request_throughput_rps",
    "Request goodput (req/s)": "claimed_goodput_rps",
    "Output token throughput (tok/s)": "claimed_output_tokens_per_s",
}
_TITLE: Final = re.compile(r"\s*=+ Serving Benchmark Result =+\s*$")
_END: Final = re.compile(r"\s*={20,}\s*$")
_LINE: Final = re.compile(r"\s*([A-Z][^:]{1,60}):\s+(\S.*?)\s*$")
_CLAIM: Final = re.compile(
    r"(?:Mean|Median|Std|P\d{1,2}(?:\.\d{1,3})?) [A-Z0-9 ()a-z]{2,40} \(ms\)"
    r"|Peak [a-z ]{4,40}(?: \(tok/s\))?|Total [Tt]oken throughput \(tok/s\)"
    r"|RTFx?(?: .{0,40})?|Accept[a-z]+ [a-z]+(?: \(%\))?"
)
_NAME: Final = re.compile(r"\s*([A-Za-z_]\w*)=")
_QUOTED: Final = re.compile(r"'([^'\\]*+)'|\"([^\"\\]*+)\"")
_STRING: Final = re.compile(r"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\"")
_GOAL: Final = re.compile(r"(ttft|tpot|e2el):(\d{1,9}(?:\.\d{1,6})?)")


def sniff(name: str, head: bytes) -> Sniff:
    """Look for the result block, or for the Namespace line of a serving benchmark."""
    block = b" Serving Benchmark Result =" in head
    begin = head.find(b"Namespace(")
    line = head[begin:].split(b"\n", 1)[0] if begin >= 0 and head[:1] != b"{" else b""
    command = b" num_prompts=" in line or b" request_rate=" in line
    if block and command:
        return Sniff(0.95, "Namespace line and result block of `vllm bench serve`")
    if block or (command and b"Starting main benchmark run" in head):
        return Sniff(0.85, "console output of a serving benchmark")
    return Sniff(0.5, "Namespace line of a serving benchmark") if command else NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the command's facts, one session per result block, and problems."""
    console = _Console()
    for block in text_blocks(path):
        if isinstance(block, Damage):
            text = f"the file breaks: {block.text}"
            console.problems.append(Problem("CONSOLE004", Severity.ERROR, text))
            break
        text = block.data.decode("utf-8", "replace")
        for offset, line in enumerate(text.split("\n")):
            console.line = block.first_line + offset
            # A progress bar ends in a bare carriage return and glues to the next line.
            console.take(line.rstrip("\r").rpartition("\r")[2])
    yield from console.finish()


@dataclass
class _Console:
    """Reads lines in order; keeps the last command seen and the block that is open."""

    command: dict[str, Value] | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    claims: dict[str, float] | None = None
    problems: list[Problem] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    line: int = 1

    def take(self, line: str) -> None:
        """Read one line."""
        if self.claims is None:
            if _TITLE.match(line):
                self._open()
            elif "Namespace(" in line and ("num_prompts=" in line or "request_rate=" in line):
                self._command(line)
        elif _END.match(line):
            self._close()
        elif match := _LINE.match(line):
            self._figure(match.group(1).strip(), match.group(2))

    def finish(self) -> Iterator[Item]:
        """Yield everything that was read."""
        if self.claims is not None:
            self._close()
            text = "the file ends inside the result block"
            self.problems.append(Problem("CONSOLE001", Severity.WARNING, text, self.line))
        if not self.rows:
            text = "no line `Serving Benchmark Result`"
            self.problems.append(Problem("CONSOLE003", Severity.WARNING, text))
        yield Clock(ClockKind.NONE)
        yield from self.facts
        for index, row in enumerate(self.rows):
            row["session"] = str(index) if len(self.rows) > 1 else None
        if self.rows:
            yield Batch("load_sessions", self.rows)
        yield from self.problems

    def _command(self, line: str) -> None:
        first = self.command is None
        self.command = namespace(line)
        goals, unread = slo_text(self.command.get("goodput"))
        if unread:
            text = f"{unread} of the objectives of the command"
            self.problems.append(Problem("CONSOLE005", Severity.WARNING, text, self.line))
        if not first:
            return
        for key, value in self.command.items():
            if value is not None and not isinstance(value, list) and _applies(key, self.command):
                odd = isinstance(value, float) and not math.isfinite(value)
                self.facts.append(Fact(f"client.{key}", str(value) if odd else value))
        if goals:
            self.facts.append(Fact("slo.text", goals))

    def _open(self) -> None:
        self.claims = {}
        asked = self.command or {}
        self.rows.append(
            {
                "writer": "vllm bench serve",
                "backend": _as_text(asked.get("backend")),
                "model": _as_text(asked.get("model")),
                "planned_requests": _as_count(asked.get("num_prompts")),
                "request_rate_per_s": _as_rate(asked.get("request_rate")),
                "burstiness": _as_rate(asked.get("burstiness")),
                "max_concurrency": _as_count(asked.get("max_concurrency")),
                "asked_output_tokens": asked_length(asked),
                "ignore_eos": asked["ignore_eos"] if asked.get("ignore_eos") in (0, 1) else None,
                "request_id_prefix": _as_text(asked.get("request_id_prefix")),
                "slo": slo_text(asked.get("goodput"))[0],
                "detailed": False,
                "claims_json": "{}",
            }
        )

    def _figure(self, name: str, text: str) -> None:
        row = self.rows[-1]
        if name == "Backend":
            row["writer"] = "sglang bench_serving"
            row["backend"] = text[:60] if re.fullmatch(r"[\w.-]+", text) else row["backend"]
            return
        claim = _CLAIM.fullmatch(name)
        known = name in _COUNTS or name in _RATES or name == "Benchmark duration (s)"
        if not known and not claim:
            return
        number = _number(text)
        if number is None:
            if text not in {"None", "nan", "not set"}:
                problem = f"`{name}` holds no number"
                self.problems.append(Problem("CONSOLE002", Severity.WARNING, problem, self.line))
        elif name in _RATES:
            # The command prints the asked rate in full, the block with two decimals.
            column = _RATES[name]
            asked = row["request_rate_per_s"] if column == "request_rate_per_s" else None
            row[column] = number if asked is None else asked
        elif name == "Benchmark duration (s)":
            row["duration_ns"] = to_ns(text.replace(",", ""), "s")
        elif claim and self.claims is not None:
            self.claims[name] = number
        else:
            row[_COUNTS[name]] = _as_count(number)

    def _close(self) -> None:
        finite = {k: v if math.isfinite(v) else str(v) for k, v in (self.claims or {}).items()}
        self.rows[-1]["claims_json"] = json.dumps(finite, sort_keys=True)
        self.claims = None


def namespace(line: str) -> dict[str, Value]:
    """Return the known keys of a printed argparse Namespace whose value is a plain literal.

    Nothing is evaluated. Nested brackets and quoted text are stepped over, so that a key inside a
    value is not taken for one.
    """
    found: dict[str, Value] = {}
    at = line.find("Namespace(") + len("Namespace(")
    while match := _NAME.match(line, at):
        start = match.end()
        at = _value_end(line, start)
        key = match.group(1)
        if key in _KEYS:
            value, ok = _literal(line[start:at].strip())
            if ok:
                found[key] = value
        at += 1
    return found


def _value_end(line: str, at: int) -> int:
    """Return where the value that begins at `at` ends: a comma or bracket of the outer level."""
    depth = 0
    while at < len(line):
        sign = line[at]
        if sign in "'\"":
            text = _STRING.match(line, at)
            at = text.end() if text else len(line)
            continue
        if sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            if depth == 0:
                return at
            depth -= 1
        elif sign == "," and depth == 0:
            return at
        at += 1
    return at


def _literal(text: str) -> tuple[Value, bool]:
    if text in {"None", "True", "False"}:
        return {"None": None, "True": True, "False": False}[text], True
    if quoted := _QUOTED.fullmatch(text):
        return (quoted.group(1) or quoted.group(2) or "")[:200], True
    if text.startswith("[") and text.endswith("]"):
        return [(m.group(1) or m.group(2) or "")[:60] for m in _QUOTED.finditer(text)][:20], True
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text), True
    number = _number(text)
    return number, number is not None


def _number(text: str) -> float | None:
    if len(text) > 40 or not re.fullmatch(r"-?(?:inf|[\d,]*\.?\d*(?:[eE][+-]?\d{1,3})?)", text):
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _applies(key: str, asked: dict[str, Value]) -> bool:
    """Whether a key of one data set is about the data set in use."""
    dataset = asked.get("dataset_name")
    if key in DATASET_LENGTH.values():
        return isinstance(dataset, str) and DATASET_LENGTH.get(dataset) == key
    return dataset == "random" or not key.startswith("random_")


def slo_text(goals: Value) -> tuple[str | None, int]:
    """Return `--goodput` words in the grammar of --slo, and how many words were not understood."""
    words = goals if isinstance(goals, list) else []
    matches = [_GOAL.fullmatch(word) for word in words]
    parts = [f"{m.group(1).removesuffix('l')}={m.group(2)}ms" for m in matches if m]
    return ",".join(parts) or None, len(words) - len(parts)


def _as_text(value: Value) -> str | None:
    return value if isinstance(value, str) and value else None


def _as_count(value: Value) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    whole = math.isfinite(value) and 0 <= value < 2**53 and value == int(value)
    return int(value) if whole else None


def _as_rate(value: Value) -> float | None:
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


SOURCE = Source(
    name="vllm_bench_console",
    title="vLLM bench serve console output",
    versions="0.4-0.33",
    tables=("load_sessions",),
    sniff=sniff,
    read=read,
    problem_codes=PROBLEM_CODES,
    proves="the objectives, id prefix and load that were asked for, and the printed totals",
    turn_on="vllm bench serve ... 2>&1 | tee bench.txt",
)
