"""The devices: streams, kernels, copies and collectives of every step, on the run's clock.

A step copies its inputs to the device, runs attention and matrix kernels per group of layers with
an all-reduce after each (begun before the matrix kernel ends, so partly overlapped), samples, and
copies the tokens back. Collectives begin on each device when it is ready and end on all together:
a device that is early waits inside its collective, as real ones do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from simulator.config import Config
from simulator.cost import WORKS, Amount, attention_ns, matrix_ns, sampler_ns

COMPUTE, COMMUNICATION, COPY = 7, 19, 23
"""Stream ids."""
HOST_LAG = 2_000
"""From the end of a launch to the earliest start on the device."""
ATTENTION = (
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, true, false>"
    "(flash::Flash_fwd_params)"
)
MATRIX = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute"
SAMPLER = "void vllm::topk_topp_sample_kernel<float, 1024>(float const*, int*, int)"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class Op:
    """One operation on a device."""

    device: int
    stream: int
    kind: str  # kernel, h2d, d2h or memset
    name: str
    start: int
    end: int
    order: int
    """Place among the launches of its step on its device."""
    in_graph: bool = False
    moved: int = 0
    """Bytes."""


@dataclass
class DeviceStep:
    """What a step did on all devices."""

    launch_at: list[int]
    """First launch of each device's process."""
    ops: list[Op] = field(default_factory=list)
    ready_at: int = 0
    """The sampled tokens are on the host."""

    def launches_end(self, config: Config) -> int:
        """All launches are done."""
        last = max(op.order for op in self.ops)
        return max(self.launch_at) + (last + 1) * config.launch_ns


class Devices:
    """Runs steps one after another."""

    def __init__(self, config: Config, rng: np.random.Generator) -> None:
        self.config = config
        self.rng = rng
        self.free = [
            dict.fromkeys((COMPUTE, COMMUNICATION, COPY), 0) for _ in range(config.devices)
        ]

    def _noise(self, sd: float) -> float:
        return math.exp(sd * float(self.rng.standard_normal()))

    def _put(
        self, step: DeviceStep, device: int, stream: int, kind: str, name: str,
        earliest: int, length: float, order: int, *, in_graph: bool = False, moved: int = 0,
    ) -> Op:  # fmt: skip
        called = step.launch_at[device] + order * self.config.launch_ns
        gap = int(self.rng.exponential(600 if in_graph else 3_000))
        start = max(
            earliest,
            self.free[device][stream] + gap,
            called + self.config.launch_ns * 6 // 10 + HOST_LAG,
        )
        end = start + max(1_000, round(length))
        self.free[device][stream] = end
        op = Op(device, stream, kind, name, start, end, order, in_graph, moved)
        step.ops.append(op)
        return op

    def run(self, launch_at: int, amounts: dict[str, Amount]) -> DeviceStep:
        """Runs a step whose launches begin at `launch_at`."""
        config = self.config
        each = range(config.devices)
        parts = [amounts[work] for work in WORKS]
        tokens = sum(part.tokens for part in parts)
        graph = config.cuda_graphs and tokens == amounts["decode"].tokens
        speed = self._noise(config.step_noise)
        step = DeviceStep([launch_at + int(self.rng.integers(0, 4_000)) for _ in each])
        order = 0
        for device in each:
            self._put(
                step, device, COMPUTE, "h2d", "", 0, config.h2d_ns + 2 * tokens, order,
                moved=64 + 12 * tokens,
            )  # fmt: skip
        order += 1
        if not graph:
            for device in each:
                self._put(step, device, COMPUTE, "memset", "", 0, 1_500, order, moved=4 * tokens)
            order += 1
        ready = [0] * config.devices
        attention = attention_ns(config, parts) / config.layers * speed
        matrix = matrix_ns(config, parts) / config.layers * speed
        reduce = (config.reduce_ns + config.reduce_token_ns * tokens) / config.layers
        for _ in range(config.layers):
            products = []
            for device in each:
                own = self._noise(config.kernel_noise)
                self._put(
                    step, device, COMPUTE, "kernel", ATTENTION, ready[device], attention * own,
                    order, in_graph=graph,
                )  # fmt: skip
                own = self._noise(config.kernel_noise)
                product = self._put(
                    step, device, COMPUTE, "kernel", MATRIX, 0, matrix * own,
                    order + 1, in_graph=graph,
                )  # fmt: skip
                products.append(product)
            self._reduce(step, products, reduce * self._noise(0.05), order + 2, graph=graph)
            ready = [self.free[device][COMMUNICATION] + 1_000 for device in each]
            order += 3
        for device in each:
            sampled = self._put(
                step, device, COMPUTE, "kernel", SAMPLER, ready[device],
                sampler_ns(config, parts) * speed, order,
            )  # fmt: skip
            self._put(
                step, device, COPY, "d2h", "", sampled.end + 500, config.d2h_ns, order + 1,
                moved=8 * max(1, sum(part.sampled for part in parts)),
            )  # fmt: skip
        step.ready_at = max(self.free[device][COPY] for device in each) + 20_000
        return step

    def _reduce(
        self, step: DeviceStep, products: list[Op], length: float, order: int, *, graph: bool
    ) -> None:
        """One all-reduce: begins inside the matrix kernel, ends on all devices at once."""
        config = self.config
        begun = []
        for device, product in enumerate(products):
            within = (1 - config.reduce_overlap_ratio) * (product.end - product.start)
            called = step.launch_at[device] + (order + 1) * config.launch_ns
            begun.append(
                max(product.start + round(within), called, self.free[device][COMMUNICATION])
            )
        tail = round(length * 0.4)
        end = max(max(begun) + round(length), max(p.end for p in products) + tail)
        for device, start in enumerate(begun):
            self.free[device][COMMUNICATION] = end
            step.ops.append(Op(device, COMMUNICATION, "kernel", REDUCE, start, end, order, graph))
