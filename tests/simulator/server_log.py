"""The log of `vllm serve` 0.32: start-up, requests, iterations, statistics, access lines."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.clocks import wall
from simulator.commands import VERSION, engine_id, server_arguments
from simulator.config import NS_PER_S, Config
from simulator.engine import READY_AT, Run, Step
from simulator.workload import Request

STATS_NS = 10 * NS_PER_S
API, CORE = "APIServer pid=4100", "EngineCore pid=4170"
SAMPLING = (
    "SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, "
    "temperature=0.0, watermarking=None, top_p=1.0, top_k=0, min_p=0.0, seed=None, stop=[], "
    "stop_token_ids=[], bad_words=[], thinking_token_budget=None, "
    "include_stop_str_in_output=False, ignore_eos={eos}, max_tokens={tokens}, "
    "min_tokens=0, logprobs=None, prompt_logprobs=None, "
    "skip_special_tokens=True, spaces_between_special_tokens=True, structured_outputs=None, "
    "extra_args=None)"
)
Line = tuple[int, str]


def _line(at: int, place: str, text: str, process: str = API, level: str = "INFO") -> Line:
    return at, f"({process}) {level} {wall(at):%m-%d %H:%M:%S} [{place}] {text}"


def _startup(config: Config) -> Iterator[Line]:
    tokens = config.num_blocks * config.block_size
    fit = tokens / config.max_model_len
    yield _line(NS_PER_S, "api_utils.py:347", f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {VERSION}")
    yield _line(NS_PER_S, "api_utils.py:347", "  █▄█▀ █     █     █     █  model   <model>")
    yield _line(NS_PER_S, "api_utils.py:286", f"non-default args: {server_arguments(config)!r}")
    yield _line(NS_PER_S, "model.py:2152", f"Using max model len {config.max_model_len}")
    chunked = f"max_num_batched_tokens={config.max_num_batched_tokens}."
    yield _line(NS_PER_S, "scheduler.py:307", f"Chunked prefill is enabled with {chunked}")
    start = (
        f"Initializing a V1 LLM engine (v{VERSION}) with config: model='<model>', "
        "speculative_config=None, tokenizer='<model>', dtype=torch.bfloat16, "
        f"max_seq_len={config.max_model_len}, tensor_parallel_size={config.devices}, "
        "pipeline_parallel_size=1, data_parallel_size=1, quantization=None, "
        f"enforce_eager={not config.cuda_graphs}, kv_cache_dtype=auto, device_config=cuda, seed=0, "
        f"served_model_name=sim-model, enable_prefix_caching={config.prefix_caching}, "
        "enable_chunked_prefill=True"
    )
    yield _line(6 * NS_PER_S, "core.py:133", start, CORE)
    for rank in range(config.devices):
        process = f"Worker_TP{rank} pid={4200 + rank}"
        text = "Model loading took 14.9 GiB memory and 3.1 seconds"
        yield _line(12 * NS_PER_S, "gpu_model_runner.py:3120", text, process)
    override = f"Overriding num_gpu_blocks=4096 with num_gpu_blocks_override={config.num_blocks}"
    yield _line(14 * NS_PER_S, "kv_cache_utils.py:2619", override, CORE)
    size = (
        f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency for "
        f"{config.max_model_len:,} tokens per request: {fit:.2f}x"
    )
    yield _line(14 * NS_PER_S, "kv_cache_utils.py:2327", size, CORE)
    took = "init engine (profile, create kv cache, warmup model) took 4.02 s"
    yield _line(18 * NS_PER_S, "core.py:402", took, CORE)
    yield _line(19 * NS_PER_S, "entry.py:140", "Starting vLLM server on http://127.0.0.1:8101")
    yield READY_AT - NS_PER_S // 2, "INFO:     Application startup complete."


def _request(one: Request, name: str, config: Config, port: int) -> Iterator[Line]:
    access = f'INFO:     127.0.0.1:{port} - "POST /v1/completions HTTP/1.1"'
    if one.refused:
        assert one.finished_at is not None
        yield one.finished_at, f"{access} 400 Bad Request"
        return
    eos = config.early_stop_ratio == 0
    sampling = SAMPLING.format(eos=eos, tokens=one.asked)
    received = f"Received request {name}: params: {sampling}, lora_request: None."
    yield _line(one.arrived_at + 100_000, "request_logger.py:65", received)
    yield one.arrived_at + 150_000, f"{access} 200 OK"
    yield _line(one.ready_at, "async_llm.py:578", f"Added request {engine_id(name)}.")
    if one.aborted_at is not None:
        aborted = f"Aborted request(s) {engine_id(name)}."
        yield _line(one.aborted_at, "async_llm.py:922", aborted)
        yield _line(one.aborted_at, "async_llm.py:783", f"Request {name} aborted.")


def _iteration(step: Step) -> Line:
    context, context_tokens = step.count(context=True)
    generation, generation_tokens = step.count(context=False)
    text = (
        f"Engine 000: Iteration({step.ix}): {context} context requests, {context_tokens} context "
        f"tokens, {generation} generation requests, {generation_tokens} generation tokens, "
        f"iteration elapsed time: {step.elapsed_ns / 1e6:.2f} ms, "
        f"GPU KV cache usage: {100 * step.kv_used:.1f}%"
    )
    return _line(step.done_at + 150_000, "loggers.py:199", text)


def _statistics(run: Run) -> Iterator[Line]:
    """Every 10 s from the API server; an interval without any token, like the last, is silent."""
    quiet = True
    for at in range(READY_AT + STATS_NS, run.ended_at, STATS_NS):
        since = at - STATS_NS
        prompt = sum(
            one.prompt - one.cached for one in run.requests
            if one.token_at and since < one.token_at[0] <= at
        )  # fmt: skip
        made = sum(since < token <= at for one in run.requests for token in one.token_at)
        was_quiet, quiet = quiet, not (prompt or made)
        if was_quiet and quiet:
            continue
        before = [step for step in run.steps if step.done_at <= at]
        last = before[-1] if before else None
        text = (
            f"Engine 000: Avg prompt throughput: {prompt * 1e9 / STATS_NS:.1f} tokens/s, "
            f"Avg generation throughput: {made * 1e9 / STATS_NS:.1f} tokens/s, "
            f"Running: {last.running if last else 0} reqs, "
            f"Waiting: {last.waiting if last else 0} reqs, "
            f"GPU KV cache usage: {100 * last.kv_used if last else 0:.1f}%"
        )
        queried = sum(one.prompt for one in run.requests if 0 < (one.first_scheduled_at or 0) <= at)
        hit = sum(one.cached for one in run.requests if 0 < (one.first_scheduled_at or 0) <= at)
        if run.config.prefix_caching and queried:
            text += f", Prefix cache hit rate: {100 * hit / queried:.1f}%"
        yield _line(at, "loggers.py:335", text)


def write(run: Run, prefix: str) -> str:
    """The whole log."""
    config = run.config
    lines = [*_startup(config)]
    for one in run.requests:
        port = 42_000 + 2 * (one.index % 900)
        lines += _request(one, one.name(prefix), config, port)
    lines += [_iteration(step) for step in run.steps]
    lines += _statistics(run)
    for k, at in enumerate(range(READY_AT, run.ended_at, config.scrape_ns)):
        port = 51_000 + 2 * (k % 900)
        lines.append((at, f'INFO:     127.0.0.1:{port} - "GET /metrics HTTP/1.1" 200 OK'))
    end = run.ended_at + NS_PER_S
    lines.append(_line(end, "launcher.py:279", "[shutdown] API server: engine client stopped"))
    lines.append((end, "INFO:     Shutting down"))
    lines.sort(key=lambda line: line[0])  # stable: equal instants keep their order
    return "\n".join(text for _, text in lines) + "\n"
