"""`nvidia-smi --query-gpu=... --format=csv -lms ...`: one row per sample and device, UTC."""

from __future__ import annotations

from simulator.clocks import unix_ns, wall
from simulator.devices import COMPUTE
from simulator.engine import READY_AT, Run
from simulator.truth import Span, union, without

HEADER = (
    "timestamp, index, name, uuid, utilization.gpu [%], utilization.memory [%], "
    "memory.used [MiB], memory.total [MiB], power.draw.instant [W], clocks.current.sm [MHz]"
)
UUID = "GPU-5ac1f0de-0000-4000-8000-00000000000{}"


def write(run: Run) -> str:
    """The file."""
    config = run.config
    lines = [HEADER]
    spans: list[tuple[list[Span], list[Span]]] = []
    for device in range(config.devices):
        ops = [op for step in run.steps for op in step.device.ops if op.device == device]
        kernels = union((op.start, op.end) for op in ops if op.kind == "kernel")
        heavy = union((op.start, op.end) for op in ops
                      if op.kind == "kernel" and op.stream == COMPUTE)  # fmt: skip
        spans.append((kernels, heavy))
    for at in range(READY_AT + config.telemetry_ns, run.ended_at, config.telemetry_ns):
        since = at - config.telemetry_ns
        for device, (kernels, heavy) in enumerate(spans):
            busy = 1 - without((since, at), kernels) / config.telemetry_ns
            hard = 1 - without((since, at), heavy) / config.telemetry_ns
            shown = at + 8_000_000 * device
            stamp = f"{wall(shown):%Y/%m/%d %H:%M:%S}.{unix_ns(shown) % 10**9 // 10**6:03d}"
            lines.append(
                f"{stamp}, {device}, Simulated GPU, {UUID.format(device)}, {100 * busy:.0f} %, "
                f"{40 * hard:.0f} %, 71204 MiB, 81920 MiB, {95 + 420 * hard:.2f} W, 1980 MHz"
            )
    return "\n".join(lines) + "\n"
