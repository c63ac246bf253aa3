"""Start-up, configuration and end-of-life lines -> facts of the run. Only known keys are taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from trueput.source_api import Fact
from trueput.sources.vllm_log.lives import Lives
from trueput.sources.vllm_log.problems import Problems

Value = str | int | float | bool | None
Row = tuple[int, int | None, str | None, str]
"""Line, instant, process, message."""

CONFIG_KEYS: Final = {
    # as printed: as a fact
    "dtype": "dtype",
    "max_seq_len": "max_model_len",
    "max_model_len": "max_model_len",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "enable_expert_parallel": "enable_expert_parallel",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_partial_prefills": "max_num_partial_prefills",
    "long_prefill_token_threshold": "long_prefill_token_threshold",
    "block_size": "block_size",
    "num_gpu_blocks_override": "num_gpu_blocks_override",
    "enable_prefix_caching": "enable_prefix_caching",
    "enable_chunked_prefill": "enable_chunked_prefill",
    "chunked_prefill_enabled": "enable_chunked_prefill",
    "kv_cache_dtype": "kv_cache_dtype",
    "quantization": "quantization",
    "enforce_eager": "enforce_eager",
    "enable_logging_iteration_details": "enable_logging_iteration_details",
    "enable_log_requests": "enable_log_requests",
    "disable_log_requests": "disable_log_requests",
    "disable_log_stats": "disable_log_stats",
    "async_scheduling": "async_scheduling",
    "scheduling_policy": "scheduling_policy",
    "preemption_mode": "preemption_mode",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "swap_space": "swap_space",
    "cpu_offload_gb": "cpu_offload_gb",
    "api_server_count": "api_server_count",
    "seed": "seed",
}
_KEY: Final = "|".join([*CONFIG_KEYS, "model", "model_tag", "served_model_name", "device_config"])
SETTING: Final = re.compile(
    rf"(?<![\w.'\"])(?P<quote>['\"]?)(?P<key>{_KEY})(?P=quote)(?:=|: )"
    r"(?P<value>'[^']{0,200}'|\"[^\"]{0,200}\"|\['[^']{0,200}'\]|[^\s,'\"\[\](){}]{1,100})"
)
SPECULATIVE: Final = re.compile(r"num_spec(?:ulative)?_tokens'?(?:=|: )([0-9]{1,9})")
TRACES: Final = re.compile(r"otlp_traces_endpoint'?(?:=|: )(None|'[^']*')")
ARGUMENTS: Final = re.compile(r"(?:non-default args: \{|args: Namespace\()")
ENGINE_START: Final = re.compile(
    r"Initializing an? (?:LLM|V[01] LLM) engine \(v?([^\s)]{1,60})\) with config: "
)
VERSION: Final = re.compile(
    r"(?:vLLM (?:API )?server version |[^A-Za-z0-9]{0,80}version\s+)v?([0-9]+\.[0-9]+[^\s,]{0,50})"
)
KV_TOKENS: Final = re.compile(r"(.{1,30}?) KV cache size: ([0-9][0-9,]{0,24}) tokens")
CONCURRENCY: Final = re.compile(
    r"(?:.*, )?Maximum concurrency for ([0-9][0-9,]*) tokens per request: ([0-9][0-9,.]*)x"
)
KV_BLOCKS: Final = re.compile(r"# [A-Z]+ blocks: ([0-9]{1,18})")
KV_OVERRIDE: Final = re.compile(
    r"Overriding num_gpu_blocks=[0-9]+ with num_gpu_blocks_override=([0-9]{1,18})"
)
CHUNKED: Final = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=([0-9]{1,18})")
STARTED: Final = re.compile(
    r"init engine \(|Graph capturing finished in |Starting vLLM (?:API )?server|"
    r"Application startup complete"
)
CRASH: Final = re.compile(
    r"(?:[\w.]+\.)?EngineDeadError\b|EngineCore encountered a fatal error|"
    r"EngineCore hit an exception|Engine core proc .{0,40} died|"
    r"Dumping input data for V1 LLM engine"
)
SHUTDOWN: Final = re.compile(
    r"\[shutdown\]|Shutting down|Gracefully stopping|Received SIG(?:TERM|INT)|"
    r"Caught SIG|Received signal|Launcher.{0,20}SIG"
)
INTERESTING: Final = (
    r"^(?:non-default args: |args: Namespace|Initializing an? |vLLM (?:API )?server version |"
    r".{1,30} KV cache size: |Maximum concurrency for |# [A-Z]+ blocks: |Overriding num_gpu_blocks|"
    r"Chunked prefill is enabled|init engine \(|Graph capturing finished|Starting vLLM |"
    r"\[shutdown\]|Shutting down|Gracefully stopping|Received SIG|Caught SIG|Received signal|"
    r"Application startup complete|(?:[A-Za-z0-9_.]+\.)?EngineDeadError|"
    r"EngineCore (?:encountered|hit)|Engine core proc |Dumping input data|"
    r"[^A-Za-z0-9]{0,80}version +v?[0-9])"
)
REST: Final = (
    r"^(?:\([^()]* pid=[0-9]+\) +)?(?:INFO: +(?:Application startup complete|Shutting down)|"
    r"(?:[A-Za-z0-9_.]+\.)?EngineDeadError)"
)
LATER: Final = r"^(?:[^A-Za-z0-9]{0,80}version +v?[0-9]|(?:[A-Za-z0-9_.]+\.)?EngineDeadError)"
"""What is looked for in the later lines of a message: the banner, the end of a traceback."""
DATELESS: Final = (
    r"^(?:\([^()]* pid=[0-9]+\) +)?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"[0-9]{2}:[0-9]{2}:[0-9]{2} \[?[^ \]]+:[0-9]+\]"
)
"""A prefix that says no date: a formatter of the user's own."""
REST_HEAD: Final = re.compile(r"^(?:\([^()]* pid=[0-9]+\) +)?(?:INFO: +)?")
ENGINE_RANK: Final = re.compile(r"[A-Za-z_]+_(?:DP)?([0-9]+) pid=")


def _top_level(message: str) -> str:
    """Return the settings of `message` without those nested in another value."""
    start = ARGUMENTS.match(message) or ENGINE_START.match(message)
    kept: list[str] = []
    depth, quote, escaped = 0, "", False
    for char in message[start.end() if start else 0 :]:
        if quote:
            quote = "" if char == quote and not escaped else quote
            escaped = char == "\\" and not escaped
        elif char in "'\"":
            quote = char
        elif char in "({":
            depth += 1
        if depth == 0:
            kept.append(char)
        if not quote and char in ")}":
            depth = max(0, depth - 1)
    return "".join(kept)


def _value(text: str) -> Value:
    if text[:1] in "'\"":
        return text[1:-1]
    if text.startswith("["):
        return text[2:-2]
    words: dict[str, Value] = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text.removeprefix("torch.")


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@dataclass
class Facts:
    """Collects facts in file order; a fact is told again only when its value changes."""

    problems: Problems
    lives: Lives
    is_stopping: bool = False
    started: tuple[int, int] | None = None
    _told: dict[str, Value] = field(default_factory=dict)
    _new: list[Fact] = field(default_factory=list)

    def read(
        self,
        found: Iterable[Row],
        bare: Iterable[tuple[int, str]],
        time_before: Callable[[int], int | None],
    ) -> list[Fact]:
        """Return the new facts of one block, from lines that match INTERESTING, LATER, or REST.

        `bare` lines have no prefix; they get the time of the last line before them that has one.
        """
        rows = [*found, *((n, None, None, REST_HEAD.sub("", text)) for n, text in bare)]
        for line, at_ns, process, message in sorted(rows, key=lambda row: row[0]):
            at = time_before(line) if at_ns is None else at_ns
            self._line(line, at, process, message)
        new, self._new = self._new, []
        return new

    def finish(self) -> Iterator[Fact]:
        """Yield what is known only at the end."""
        if self.started is not None:
            line, at_ns = self.started
            yield Fact("startup.end_at_ns", at_ns, line)

    def _tell(self, key: str, value: Value, line: int) -> None:
        if key in self._told and self._told[key] == value:
            return
        self._told[key] = value
        self._new.append(Fact(key, value, line))

    def _line(self, line: int, at_ns: int | None, process: str | None, message: str) -> None:
        if match := ENGINE_START.match(message):
            self._engine_start(line, process, match[1], message)
        elif ARGUMENTS.match(message):
            self._settings(line, message)
        elif match := VERSION.match(message):
            self._tell("engine_version", match[1], line)
        elif STARTED.match(message):
            if at_ns is not None:
                self.started = (line, at_ns)
        elif SHUTDOWN.match(message):
            self.is_stopping = True
        elif CRASH.match(message):
            if not self.is_stopping:
                self.problems.add("VLOG009", line)
                self._tell("engine_crashed", True, line)
        else:
            self._capacity(line, message)

    def _engine_start(self, line: int, process: str | None, version: str, message: str) -> None:
        rank = ENGINE_RANK.match(process or "")
        self.lives.add_start(line, str(int(rank[1])) if rank else None)
        self.is_stopping = False
        self._tell("engine_version", version, line)
        self._settings(line, message)

    def _settings(self, line: int, message: str) -> None:
        model = None
        for match in SETTING.finditer(_top_level(message)):
            key, value = match["key"], _value(match["value"])
            if key in ("model", "model_tag"):
                model = model or value
            elif key == "served_model_name":
                self._tell("config.served_model_name", value, line)
            elif key == "device_config":
                self._tell("hardware", value, line)
            else:
                self._setting(key, value, line)
        if model is not None:
            self._tell("model", model, line)
        if slots := SPECULATIVE.search(message):
            self._tell("config.num_speculative_tokens", int(slots[1]), line)
        if traces := TRACES.search(message):
            self._tell("config.otlp_traces_endpoint", traces[1] != "None", line)

    def _setting(self, key: str, value: Value, line: int) -> None:
        if key == "disable_log_stats" and value is True:
            self.problems.add("VLOG010", line)
        self._tell(f"config.{CONFIG_KEYS[key]}", value, line)

    def _capacity(self, line: int, message: str) -> None:
        if tokens := KV_TOKENS.match(message):
            self._tell("kv.tokens", _number(tokens[2]), line)
            self._tell("kv.device", tokens[1], line)
        if limit := CONCURRENCY.match(message):
            self._tell("kv.max_concurrency", float(limit[2].replace(",", "")), line)
            self._tell("config.max_model_len", _number(limit[1]), line)
        if blocks := KV_BLOCKS.match(message) or KV_OVERRIDE.match(message):
            self._tell("kv.blocks", int(blocks[1]), line)
        if chunked := CHUNKED.match(message):
            self._tell("config.enable_chunked_prefill", True, line)
            self._tell("config.max_num_batched_tokens", int(chunked[1]), line)
