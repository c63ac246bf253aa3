"""The parts of rocprofv3's JSON that are read; everything else in it is skipped, never kept."""

from __future__ import annotations

from typing import Any

import msgspec

from trueput.rocm_rows import Device, count_of, device_key

_GPU = 2


class Handle(msgspec.Struct):
    """A reference to an agent, queue or stream."""

    handle: int = 0


class Correlation(msgspec.Struct):
    """`internal` joins a host call to what it launched."""

    internal: int = 0


class DispatchInfo(msgspec.Struct):
    """Where a kernel ran, and which it is."""

    agent_id: Handle
    queue_id: Handle
    kernel_id: int


class Dispatch(msgspec.Struct):
    """One kernel."""

    start_timestamp: int
    end_timestamp: int
    dispatch_info: DispatchInfo
    thread_id: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Copy(msgspec.Struct):
    """One memory copy."""

    start_timestamp: int
    end_timestamp: int
    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    bytes: int | None = None
    src_agent_id: Handle = msgspec.field(default_factory=Handle)
    dst_agent_id: Handle = msgspec.field(default_factory=Handle)
    stream_id: Handle | None = None
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Call(msgspec.Struct):
    """One host call or marker."""

    start_timestamp: int
    end_timestamp: int
    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Symbol(msgspec.Struct):
    """The name of a kernel."""

    kernel_id: int
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    kernel_name: str = ""

    def name(self) -> str | None:
        """Return the most readable name, without the `.kd` of a kernel descriptor."""
        for text in (self.formatted_kernel_name, self.demangled_kernel_name, self.kernel_name):
            if text and text != "0":
                return text.removesuffix(".kd").removesuffix(" [clone .kd]")
        return None


class MemoryBank(msgspec.Struct):
    """One memory of an agent."""

    size_in_bytes: int = 0


class Agent(msgspec.Struct):
    """A CPU or GPU."""

    id: Handle
    type: int = 0
    node_id: int | None = None
    logical_node_type_id: int | None = None
    gpu_index: int | None = None
    name: str = ""
    product_name: str = ""
    uuid: Any = None
    mem_banks: list[MemoryBank] = []


class Metadata(msgspec.Struct):
    """Which process, and the capture's window. Hosts, commands and options are left out."""

    pid: int | None = None
    init_time: int | None = None
    fini_time: int | None = None


class Kind(msgspec.Struct):
    """One domain of records and the names of its operations."""

    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct):
    """The text of a marker."""

    key: int
    value: str


class Strings(msgspec.Struct):
    """Names by number."""

    buffer_records: list[Kind] = []
    marker_api: list[Message] = []


def gpu_of(agent: Agent, process: str | None, count_before: int) -> Device | None:
    """Return the GPU that an agent is; None for a CPU. `count_before` GPUs were listed before."""
    if agent.type != _GPU:
        return None
    uuid = uuid_of(agent.uuid)
    ordinal = next(
        (n for n in (agent.logical_node_type_id, agent.gpu_index) if n is not None and n >= 0),
        count_before,
    )
    memory = sum(bank.size_in_bytes for bank in agent.mem_banks if bank.size_in_bytes > 0)
    return Device(
        device_key=device_key(uuid, process, ordinal),
        device=count_of(ordinal),
        process_key=process,
        name=agent.product_name or agent.name or None,
        uuid=uuid,
        memory_bytes=count_of(memory) or None,
    )


def uuid_of(value: Any) -> str | None:
    """Return `GPU-` and 16 hex digits from an agent's UUID; None where it is absent or zero.

    The first eight bytes are the GPU's unique id, lowest byte first.
    """
    raw = value.get("bytes") if isinstance(value, dict) else None
    if not isinstance(raw, dict):
        return None
    digits = [raw.get(f"value{index}") for index in range(8)]
    numbers = [n for n in digits if isinstance(n, int) and 0 <= n < 256]
    if len(numbers) < 8 or not any(numbers):
        return None
    return "GPU-" + bytes(reversed(numbers)).hex()
