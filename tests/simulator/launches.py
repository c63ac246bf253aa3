"""How a step's operations were launched: the host calls of each device's process.

The operations are the same however they were launched. A decode-only step may be shown as one
graph launch for its layers (`graphs`), or call by call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from simulator.config import Config
from simulator.devices import Op
from simulator.engine import Run, Step

APIS = {
    "kernel": "cudaLaunchKernel",
    "h2d": "cudaMemcpyAsync",
    "d2h": "cudaMemcpyAsync",
    "memset": "cudaMemsetAsync",
}
GRAPH_LAUNCH = "cudaGraphLaunch"
MARGIN_NS = 20_000
"""The annotation begins so long before the first launch and ends so long after the last."""


@dataclass
class Launch:
    """A host call and what it put on the device."""

    api: str
    start: int
    end: int
    correlation: int
    ops: list[Op] = field(default_factory=list)

    @property
    def is_graph(self) -> bool:
        """Whether it launched a whole graph."""
        return self.api == GRAPH_LAUNCH


@dataclass
class HostStep:
    """One step in one device's process."""

    step: Step
    name: str
    """Text of its annotation."""
    start: int
    end: int
    launches: list[Launch]


def annotation(step: Step, *, detailed: bool) -> str:
    """The step annotation of vLLM 0.14 and later; `detailed` that of its option since 0.26."""
    (context, inside), (generation, beside) = (_group(step, c, detailed=detailed) for c in (1, 0))
    total = f"{sum(item.tokens for item in step.items)}_" if detailed else ""
    return f"execute_{total}context_{context}({inside})_generation_{generation}({beside})"


def _group(step: Step, context: int, *, detailed: bool) -> tuple[int, str]:
    """How many requests of one kind, and what is told of their tokens."""
    mine = [item for item in step.items if item.context == bool(context)]
    tokens = [item.tokens for item in mine]
    if not detailed:
        return len(mine), str(sum(tokens))
    lengths = [item.start + item.tokens for item in mine]
    squares = sum(q * q for q in tokens)
    products = sum(q * s for q, s in zip(tokens, lengths, strict=True))
    return len(mine), f"sq{sum(tokens)}sk{sum(lengths)}sqsq{squares}sqsk{products}"


def host_steps(run: Run, device: int, *, graphs: bool) -> Iterator[HostStep]:
    """The steps of one process in order; correlation ids are unique within it."""
    config: Config = run.config
    correlation = 1_000
    for step in run.steps:
        base = step.device.launch_at[device]
        launches: list[Launch] = []
        ops = sorted((op for op in step.device.ops if op.device == device), key=lambda x: x.order)
        for op in ops:
            if graphs and op.in_graph and launches and launches[-1].is_graph:
                launches[-1].ops.append(op)
                continue
            correlation += 1
            start = base + op.order * config.launch_ns
            end = start + config.launch_ns * 6 // 10
            api = GRAPH_LAUNCH if graphs and op.in_graph else APIS[op.kind]
            launches.append(Launch(api, start, end, correlation, [op]))
        name = annotation(step, detailed=config.detailed_annotations)
        end = launches[-1].end + MARGIN_NS // 2
        yield HostStep(step, name, base - MARGIN_NS, end, launches)
