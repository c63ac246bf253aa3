"""Which device an operation ran on: the CUDA ordinal of a process -> an identity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trueput.nsys_rows.tables import Query, Tables, pid_of
from trueput.scan import Damage

WILD_FROM = 65_536
"""No process has so many devices: an ordinal from here on names none. Graphs that begin on the host
have 2**31 - 1."""


def usable(ordinal: int | None) -> int | None:
    """Return an ordinal, None where it can be that of no device."""
    return None if ordinal is None or not 0 <= ordinal < WILD_FROM else ordinal


@dataclass(frozen=True)
class Gpu:
    """A GPU as TARGET_INFO_GPU or TARGET_INFO_CUDA_DEVICE tells it."""

    name: str | None
    uuid: str | None
    memory_bytes: int | None


def records(tables: Tables, query: Query, most: int = 65_536) -> list[dict[str, Any]]:
    """Return the rows of a small table as dicts, texts None where empty; at most `most`."""
    found: list[dict[str, Any]] = []
    for batch in tables.batches(query):
        if isinstance(batch, Damage) or len(found) >= most:
            break
        found += batch.slice(0, most - len(found)).to_pylist()
    return [{k: None if v == "" else v for k, v in row.items()} for row in found]


class Devices:
    """Keys of devices, and the devices that were met."""

    def __init__(self, tables: Tables) -> None:
        self._gpus: dict[int, Gpu] = {}
        self._mapped: dict[tuple[int, int], Gpu] = {}
        self._met: dict[tuple[int | None, int | None], str] = {}
        self._first_of_pid: dict[int, int] = {}
        self._read(tables)

    def _read(self, tables: Tables) -> None:
        asked = Query("TARGET_INFO_GPU", ("id", "totalMemory"), ("name", "uuid"))
        for row in records(tables, asked):
            if row["id"] is not None:
                self._gpus[row["id"]] = Gpu(row["name"], row["uuid"], row["totalMemory"] or None)
        asked = Query("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"), ("uuid",))
        for row in records(tables, asked):
            if row["cudaId"] is None or row["pid"] is None:
                continue
            gpu = self._gpus.get(row["gpuId"], Gpu(None, None, None))
            uuid = row["uuid"] or gpu.uuid  # an instance of a partitioned GPU has one of its own
            self._mapped[row["pid"], row["cudaId"]] = Gpu(gpu.name, uuid, gpu.memory_bytes)

    def gpu(self, process: int | None, ordinal: int | None) -> Gpu:
        """Return what is known of a device; the only GPU of the file needs no map."""
        if ordinal is None:
            return Gpu(None, None, None)
        pid = None if process is None else pid_of(process)
        found = self._mapped.get((pid, ordinal)) if pid is not None else None
        if found is None and len(self._gpus) == 1 and not self._mapped:
            found = next(iter(self._gpus.values()))
        return found or Gpu(None, None, None)

    def key(self, process: int | None, ordinal: int | None) -> str:
        """Return the key of a device: its UUID, else process and ordinal."""
        met = self._met.get((process, ordinal))
        if met is None:
            uuid = self.gpu(process, ordinal).uuid
            met = uuid or f"{self._process_word(process)}:{_ordinal_word(ordinal)}"
            self._met[process, ordinal] = met
        return met

    def _process_word(self, process: int | None) -> str:
        """`p111`; a second process 111, of another container, is told by its full id."""
        if process is None:
            return "p?"
        pid = pid_of(process)
        first = self._first_of_pid.setdefault(pid, process)
        return f"p{pid}" if first == process else f"p{pid}@{process & (2**64 - 1):x}"

    def unknown(self) -> int:
        """Return how many devices met have an ordinal and no identity."""
        return sum(self.gpu(p, o).uuid is None for p, o in self._met if o is not None)

    def hardware(self) -> str | None:
        """Return the name that all GPUs of the file share."""
        used = {self.gpu(p, o).name for p, o in self._met} - {None}
        names = used or {g.name for g in self._gpus.values()} - {None}
        return next(iter(names)) if len(names) == 1 else None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each device met, then for each GPU that no operation ran on."""
        seen: set[str | None] = set()
        for (process, ordinal), key in sorted(self._met.items(), key=lambda m: (m[1], str(m[0]))):
            gpu = self.gpu(process, ordinal)
            seen.add(gpu.uuid)
            yield {
                "device_key": key,
                "device": ordinal,
                "process_key": None if process is None else str(process),
                "name": gpu.name,
                "uuid": gpu.uuid,
                "memory_bytes": gpu.memory_bytes,
            }
        for number, gpu in sorted(self._gpus.items()):
            if gpu.uuid not in seen and not (self._met and len(self._gpus) == 1):
                yield {
                    "device_key": gpu.uuid or f"gpu{number}",
                    "name": gpu.name,
                    "uuid": gpu.uuid,
                    "memory_bytes": gpu.memory_bytes,
                }


def _ordinal_word(ordinal: int | None) -> str:
    return "?" if ordinal is None else str(ordinal)
