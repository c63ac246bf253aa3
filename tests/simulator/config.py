"""What a simulated run is made of, and the named scenarios."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Config:
    """A load, an engine and the devices under it; spans in ns unless the name says otherwise."""

    name: str = "run"
    purpose: str = ""

    # the load
    requests: int = 80
    request_rate: float = 2.0
    """Requests per second, open loop."""
    burstiness: float = 1.0
    """Shape of the gamma-distributed gaps; 1 is a Poisson process, larger is more even."""
    prompt_tokens: tuple[int, int] = (260, 340)
    """Uniform, both ends included; a shared prefix counts as part of the prompt."""
    output_tokens: tuple[int, int] = (64, 96)
    shared_prefixes: int = 0
    """Distinct prefixes that prompts share; 0: none."""
    prefix_tokens: int = 0
    refused_ratio: float = 0.0
    """Share of requests whose prompt is longer than the engine takes (HTTP 400)."""
    abort_ratio: float = 0.0
    """Share of requests whose client leaves in mid-stream."""
    early_stop_ratio: float = 0.0
    """Share of requests that end by an end token before their `max_tokens`."""
    timeout_s: float | None = None
    """The client gives up after so long."""
    ttft_ms: int = 2000
    tpot_ms: int = 30
    workload_seed: int = 7
    """Lengths, gaps, who leaves: the same for all repeats of a configuration and for a pair."""

    # the engine
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 512
    block_size: int = 16
    num_blocks: int = 1024
    """Block 0 is the null block, so one less can be used."""
    max_model_len: int = 1024
    prefix_caching: bool = False
    async_scheduling: bool = False

    # the devices
    devices: int = 2
    layers: int = 1
    """Groups of kernels a step is made of; a real model's layers are folded into them."""
    cuda_graphs: bool = True
    """Decode-only steps are launched as one graph."""
    detailed_annotations: bool = False
    """Step annotations tell lengths, squares and products as well."""
    weights_ns: int = 2_000_000
    """Reading the weights once: the memory side of the matrix kernels, all layers together."""
    token_ns: int = 700_000
    """The compute side of the matrix kernels, per token."""
    kv_token_ns: int = 12_000
    """Reading one token's KV: the memory side of attention."""
    pair_ns: float = 110.0
    """The compute side of attention, per (query, key) pair."""
    attention_ns: int = 200_000
    sampler_ns: int = 160_000
    sampler_sequence_ns: int = 20_000
    reduce_ns: int = 200_000
    """Latency of one all-reduce."""
    reduce_token_ns: int = 40_000
    reduce_overlap_ratio: float = 0.35
    """Share of the matrix kernel that runs before its all-reduce can start is one minus this."""
    h2d_ns: int = 14_000
    d2h_ns: int = 11_000
    step_noise: float = 0.03
    """Standard deviation of the logarithm of a step's kernel times, common to all devices."""
    kernel_noise: float = 0.01
    schedule_ns: int = 2_000_000
    """Host time before a step is launched."""
    output_ns: int = 2_000_000
    """Host time after its outputs are back."""
    launch_ns: int = 12_000
    """Host time per launch."""
    stall_ratio: float = 0.004
    """Share of steps before which the host stalls."""
    stall_ns: int = 9_000_000
    frontend_ns: int = 900_000
    """Client to engine: network, parsing."""
    tokenise_token_ns: int = 1_500
    scrape_ns: int = NS_PER_S
    telemetry_ns: int = 500_000_000

    def replace(self, **changes: object) -> Config:
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # names are checked


_REGRESSION = Config(
    name="regression_base",
    purpose="raised batch limit, base: the KV cache holds what the limit admits",
    requests=64,
    request_rate=3.6,
    prompt_tokens=(60, 80),
    output_tokens=(40, 60),
    max_num_seqs=2,
    block_size=8,
    num_blocks=37,
    max_model_len=256,
    ttft_ms=4000,
    tpot_ms=16,
)

_IMPROVEMENT = Config(
    name="improvement_base",
    purpose="raised batch limit, base: the KV cache has room, the limit makes requests wait",
    requests=80,
    request_rate=4.8,
    prompt_tokens=(40, 60),
    output_tokens=(40, 60),
    max_num_seqs=2,
    block_size=8,
    num_blocks=200,
    max_model_len=256,
    ttft_ms=2000,
    tpot_ms=28,
)

_TINY = Config(
    name="tiny",
    purpose="half a second with preemptions, a prefix cache, an abort and a refusal in it",
    requests=10,
    request_rate=30.0,
    prompt_tokens=(40, 70),
    output_tokens=(8, 14),
    shared_prefixes=2,
    prefix_tokens=24,
    refused_ratio=0.1,
    abort_ratio=0.1,
    workload_seed=29,
    max_num_seqs=6,
    max_num_batched_tokens=96,
    block_size=8,
    num_blocks=22,
    max_model_len=256,
    prefix_caching=True,
    detailed_annotations=True,
    ttft_ms=300,
    tpot_ms=14,
    scrape_ns=2 * NS_PER_S,
)

_OVERLAPPED = Config(
    name="overlapped",
    purpose="asynchronous scheduling, prefix cache, small chunks, heavy weights: hard to fit",
    requests=80,
    request_rate=4.0,
    prompt_tokens=(60, 140),
    output_tokens=(20, 60),
    shared_prefixes=4,
    prefix_tokens=32,
    max_num_seqs=12,
    max_num_batched_tokens=64,
    block_size=8,
    num_blocks=68,
    max_model_len=256,
    prefix_caching=True,
    async_scheduling=True,
    layers=2,
    weights_ns=9_000_000,
    token_ns=500_000,
    schedule_ns=1_200_000,
    output_ns=1_200_000,
    ttft_ms=1500,
    tpot_ms=60,
)

_TROUBLED = Config(
    name="troubled",
    purpose="refused, aborted and timed-out requests, early ends, preemptions",
    requests=80,
    request_rate=4.2,
    prompt_tokens=(60, 120),
    output_tokens=(30, 60),
    refused_ratio=0.08,
    abort_ratio=0.1,
    early_stop_ratio=0.2,
    timeout_s=1.6,
    max_num_seqs=16,
    block_size=8,
    num_blocks=60,
    max_model_len=256,
    ttft_ms=1500,
    tpot_ms=30,
)

SCENARIOS: dict[str, Config] = {
    config.name: config
    for config in (
        _REGRESSION,
        _REGRESSION.replace(
            name="regression_candidate",
            purpose="raised batch limit, candidate: running requests outgrow the KV cache",
            max_num_seqs=32,
        ),
        _IMPROVEMENT,
        _IMPROVEMENT.replace(
            name="improvement_candidate",
            purpose="raised batch limit, candidate: requests no longer wait",
            max_num_seqs=10,
        ),
        _TINY,
        _OVERLAPPED,
        _TROUBLED,
    )
}
