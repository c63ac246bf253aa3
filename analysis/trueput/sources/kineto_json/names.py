"""Names in a trace: which kernels communicate, which calls launch work, which process a file is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

_COMMUNICATION = re.compile(
    r"nccl|rccl|nvshmem|rocshmem|mscclpp|msccl_|oneccl|hccl"
    r"|cross_device_reduce|quickreduce|quick_all_?reduce|multimem_"
    r"|(?<!warp)(?<!block)(?<!quad)(?<!warp_)(?<!block_)(?<!quad_)all_?reduce"
    r"|all_?gather|reduce_?scatter|all_?to_?all|all2all"
    r"|deep_?ep::|\b(?:internode|intranode)(?:_ll)?::(?:dispatch|combine)",
    re.IGNORECASE,
)
_FUSED_COMPUTE = re.compile(r"gemm|matmul|cutlass|attention|flash", re.IGNORECASE)
_ALWAYS = re.compile(r"nccl|rccl", re.IGNORECASE)
_VERSION = re.compile(r"_v[0-9]+(?:_ptsz|_ptds)?$|_(?:ptsz|ptds)$")
_LAUNCH = re.compile(r"(?:cuda|cu|hip|hsa|ur|ze)[A-Za-z]*(?:Launch|Memcpy|Memset|MemPrefetch)")
_HOST_WORK = re.compile(r"LaunchHostFunc")

_SUFFIX = re.compile(r"(?:\.(?:json|gz|zip|zst|pt|trace))+$", re.IGNORECASE)
_STAMP = re.compile(r"[.\-_]\d{9,}(?=[.\-_]|$)")
_RANK = re.compile(r"(?:^|[^a-z])rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE)
_AXIS = r"(?:tp|dp|pp|ep|dcp)[-_]?\d{1,5}"
_PLACE = re.compile(rf"(?:^|[^a-z])({_AXIS}(?:[-_]{_AXIS})*)(?!\d)", re.IGNORECASE)


def kernel_class(name: str) -> str:
    """Return `communication` for a kernel that moves data between devices, else `compute`.

    A product fused with its collective is compute: its time cannot be told apart.
    """
    if _ALWAYS.search(name):
        return "communication"
    if _COMMUNICATION.search(name) and not _FUSED_COMPUTE.search(name):
        return "communication"
    return "compute"


def launch_name(name: str) -> str | None:
    """Return the name of a call that puts work on a device, without its version, else None."""
    if _LAUNCH.match(name) and not _HOST_WORK.search(name):
        return _VERSION.sub("", name)
    return None


def is_graph_launch(name: str) -> bool:
    """Tell whether a launch starts a whole graph."""
    return "GraphLaunch" in name


def worker_name(relative_path: str) -> str:
    """Return a trace's path without suffixes and time stamps: the same for all of one worker."""
    path = PurePosixPath(relative_path)
    stem = _STAMP.sub("", _SUFFIX.sub("", path.name))
    return str(path.parent / (stem or path.name))


def file_rank(relative_path: str) -> int | None:
    """Return the rank that the file's name tells."""
    found = _RANK.findall(PurePosixPath(worker_name(relative_path)).name)
    return int(found[-1]) if found else None


def _short(relative_path: str) -> str | None:
    name = PurePosixPath(worker_name(relative_path)).name
    rank, place = file_rank(relative_path), _PLACE.search(name)
    if rank is not None:
        return f"rank{rank}"
    return place[1].lower() if place else None


def process_key(relative_path: str, siblings: Sequence[str], told_rank: int | None) -> str:
    """Return a key for the traced process that no other file of the run has.

    The rank in the file's name where no other worker's file has it too; the rank that the trace
    tells where it is the only trace; else the name of the file without its time stamp. Every
    worker of an engine may call itself rank 0, so that what the trace tells proves little.
    """
    mine = worker_name(relative_path)
    others = [s for s in siblings if worker_name(s) != mine and _is_trace(s)]
    short = _short(relative_path)
    if short is not None and all(_short(other) != short for other in others):
        return short
    if short is None and told_rank is not None and not others:
        return f"rank{told_rank}"
    return mine


def _is_trace(path: str) -> bool:
    return bool(re.search(r"\.(?:json|pt\.trace)(?:\.gz|\.zip|\.zst)?$", path, re.IGNORECASE))
