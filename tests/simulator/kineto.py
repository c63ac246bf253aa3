"""The PyTorch profiler's Chrome trace of every rank, as vLLM's workers write it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from simulator.clocks import KINETO_BASE_NS, unix_ns
from simulator.devices import COMMUNICATION, Op
from simulator.engine import Run
from simulator.launches import Launch, host_steps

CBID = {"cudaLaunchKernel": 211, "cudaMemcpyAsync": 41, "cudaMemsetAsync": 51,
        "cudaGraphLaunch": 311}  # fmt: skip
COPIES = {
    "h2d": ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
    "d2h": ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"),
    "memset": ("gpu_memset", "Memset (Device)"),
}
Event = dict[str, Any]
_encode = json.JSONEncoder().encode


class Micros(float):
    """Microseconds that print with three decimals, from exact nanoseconds."""

    ns: int

    def __new__(cls, ns: int) -> Micros:
        """Of so many nanoseconds."""
        made = super().__new__(cls, ns / 1000)
        made.ns = ns
        return made

    def __repr__(self) -> str:
        return f"{self.ns // 1000}.{self.ns % 1000:03d}"


def _at(at: int) -> Micros:
    return Micros(unix_ns(at) - KINETO_BASE_NS)


def _event(
    category: str, name: str, pid: int, tid: int, span: tuple[int, int], **args: Any
) -> Event:
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": _at(span[0]),
        "dur": Micros(span[1] - span[0]), "args": args,
    }  # fmt: skip


def _operation(op: Op, correlation: int, external: int) -> Event:
    category, name = COPIES.get(op.kind, ("kernel", op.name))
    where: dict[str, Any] = {
        "External id": external, "device": op.device, "context": 1, "stream": op.stream,
        "correlation": correlation,
    }  # fmt: skip
    if op.kind == "kernel":
        grid = [24, 1, 1] if op.stream == COMMUNICATION else [132, 1, 1]
        where |= {"grid": grid, "block": [384, 1, 1]}
    else:
        where["bytes"] = op.moved
    return _event(category, name, op.device, op.stream, (op.start, op.end), **where)


def _call(launch: Launch, pid: int, external: int) -> Event:
    return _event(
        "cuda_runtime", launch.api, pid, pid, (launch.start, launch.end),
        **{"External id": external, "cbid": CBID[launch.api], "correlation": launch.correlation},
    )  # fmt: skip


def _events(run: Run, device: int) -> Iterator[Event]:
    pid = 4200 + device
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0.0,
           "args": {"name": "VLLM::Worker"}}  # fmt: skip
    operations: list[Event] = []
    hosts = host_steps(run, device, graphs=run.config.cuda_graphs)
    for external, host in enumerate(hosts, 1):
        yield _event(
            "user_annotation", host.name, pid, pid, (host.start, host.end),
            **{"External id": external},
        )  # fmt: skip
        streams: dict[int, list[Op]] = {}
        for launch in host.launches:
            yield _call(launch, pid, external)
            for op in launch.ops:
                operations.append(_operation(op, launch.correlation, external))
                streams.setdefault(op.stream, []).append(op)
        for stream, ops in streams.items():
            # Kineto's own projection of the annotation: no operation of the device
            span = (min(op.start for op in ops) - 1, max(op.end for op in ops))
            projected = _event("gpu_user_annotation", host.name, device, stream, span)
            operations.append(projected | {"args": {"External id": external}})
    yield from operations


def _document(run: Run, device: int) -> str:
    properties = [
        {"id": k, "name": "Simulated GPU", "totalGlobalMem": 85_899_345_920, "computeMajor": 9,
         "computeMinor": 0, "warpSize": 32, "numSms": 132}
        for k in range(run.config.devices)
    ]  # fmt: skip
    head: Event = {
        "schemaVersion": 1,
        "deviceProperties": properties,
        "cupti_version": 28,
        "cuda_runtime_version": 12090,
        "cuda_driver_version": 13000,
        "distributedInfo": {"backend": "nccl", "rank": device, "world_size": run.config.devices},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": KINETO_BASE_NS,
    }
    lines = [json.dumps(head)[:-1] + ',\n"traceEvents": [']
    lines.append(",\n".join(_dump(event) for event in _events(run, device)))
    lines.append(f'],\n"traceName": "rank{device}.pt.trace.json"}}')
    return "\n".join(lines) + "\n"


def _dump(event: Event) -> str:
    # the C encoder prints floats itself, so the exact decimals are put in afterwards
    exact, plain = "", {}
    for key, value in event.items():
        if type(value) is Micros:
            exact += f'"{key}": {value!r}, '
        else:
            plain[key] = value
    return "{" + exact + _encode(plain)[1:]


def write(run: Run, *, compresslevel: int = 9) -> dict[str, bytes]:
    """One trace per rank, by file name."""
    found = {}
    for device in range(run.config.devices):
        name = f"dp0_pp0_tp{device}_dcp0_ep0_rank{device}.{unix_ns(run.ended_at)}.pt.trace.json.gz"
        content = _document(run, device).encode()
        found[f"torch_profile/{name}"] = gzip.compress(content, compresslevel, mtime=0)
    return found
