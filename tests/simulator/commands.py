"""The commands a real run of this configuration would have been started with."""

from __future__ import annotations

import zlib
from typing import Any

from simulator.config import Config

VERSION = "0.32.0"


def server_command(config: Config) -> str:
    """`vllm serve ...`."""
    words = [
        "<venv>/bin/vllm serve <model> --served-model-name sim-model --host 127.0.0.1 --port 8101",
        f"--max-model-len {config.max_model_len} --block-size {config.block_size}",
        f"--num-gpu-blocks-override {config.num_blocks} --max-num-seqs {config.max_num_seqs}",
        f"--max-num-batched-tokens {config.max_num_batched_tokens}",
        f"--tensor-parallel-size {config.devices} --seed 0 --enable-log-requests",
        "--enable-logging-iteration-details --enable-prompt-tokens-details",
        "--otlp-traces-endpoint grpc://127.0.0.1:4317",
        "--enable-prefix-caching" if config.prefix_caching else "--no-enable-prefix-caching",
        "--async-scheduling" if config.async_scheduling else "--no-async-scheduling",
    ]
    return " ".join(words)


def server_arguments(config: Config) -> dict[str, Any]:
    """The same as the engine prints them."""
    return {
        "model_tag": "<model>",
        "enable_prompt_tokens_details": True,
        "host": "127.0.0.1",
        "port": 8101,
        "model": "<model>",
        "max_model_len": config.max_model_len,
        "served_model_name": ["sim-model"],
        "tensor_parallel_size": config.devices,
        "block_size": config.block_size,
        "num_gpu_blocks_override": config.num_blocks,
        "enable_prefix_caching": config.prefix_caching,
        "otlp_traces_endpoint": "grpc://127.0.0.1:4317",
        "enable_logging_iteration_details": True,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "max_num_seqs": config.max_num_seqs,
        "async_scheduling": config.async_scheduling,
        "enable_log_requests": True,
    }


def bench_command(config: Config, prefix: str) -> str:
    """`vllm bench serve ...`."""

    def range_of(span: tuple[int, int]) -> tuple[int, float]:
        middle = (span[0] + span[1]) / 2
        return round(middle), round((span[1] - span[0]) / 2 / middle, 4)

    prompt, prompt_ratio = range_of(config.prompt_tokens)
    output, output_ratio = range_of(config.output_tokens)
    words = [
        "<venv>/bin/vllm bench serve --backend vllm --base-url http://127.0.0.1:8101",
        "--model sim-model --tokenizer <model> --dataset-name random",
        f"--random-input-len {prompt} --random-output-len {output}",
        f'--random-range-ratio \'{{"input": {prompt_ratio}, "output": {output_ratio}}}\'',
        f"--num-prompts {config.requests} --request-rate {config.request_rate}",
        f"--burstiness {config.burstiness} --seed {config.workload_seed}",
        *(["--ignore-eos"] if config.early_stop_ratio == 0 else []),
        f"--temperature 0 --request-id-prefix {prefix}",
        f"--goodput ttft:{config.ttft_ms} tpot:{config.tpot_ms}",
        "--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,99",
        "--save-result --save-detailed --result-filename bench.json",
    ]
    return " ".join(words)


def engine_id(name: str) -> str:
    """The engine's own id of a request: the external one and 8 hex digits."""
    return f"{name}-{zlib.crc32(name.encode()):08x}"
