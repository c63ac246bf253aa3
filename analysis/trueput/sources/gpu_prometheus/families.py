"""Which families of GPU exporters become which metrics, old and new names alike."""

from __future__ import annotations

import re
from typing import Final

from trueput.telemetry import THROTTLE_REASONS, scale

_DCGM_DEVICE: Final = {
    "GPU_UTIL": ("gpu_util", "%"),
    "GPU_UTIL_RATIO": ("gpu_util", "%"),
    "MEM_COPY_UTIL": ("mem_util", "%"),
    "MEM_COPY_UTIL_RATIO": ("mem_util", "%"),
    "ENC_UTIL": ("enc_util", "%"),
    "DEC_UTIL": ("dec_util", "%"),
    "POWER_USAGE": ("power", "W"),
    "BOARD_POWER_WATTS": ("power", "W"),
    "POWER_USAGE_INSTANT": ("power_instant", "W"),
    "ENFORCED_POWER_LIMIT": ("power_limit", "W"),
    "TOTAL_ENERGY_CONSUMPTION": ("energy", "mJ"),
    "FB_USED": ("memory_used", "MiB"),
    "FB_FREE": ("memory_free", "MiB"),
    "FB_TOTAL": ("memory_total", "MiB"),
    "FB_RESERVED": ("memory_reserved", "MiB"),
    "SM_CLOCK": ("sm_clock", "MHz"),
    "MEM_CLOCK": ("mem_clock", "MHz"),
    "VIDEO_CLOCK": ("video_clock", "MHz"),
    "GPU_TEMP": ("temperature", "C"),
    "MEMORY_TEMP": ("memory_temperature", "C"),
    "PSTATE": ("pstate", ""),
    "MIG_MODE": ("mig_mode", ""),
    "CLOCK_THROTTLE_REASONS": ("throttle_reasons", ""),
    "CLOCKS_EVENT_REASONS": ("throttle_reasons", ""),
}
"""Utilisations of DCGM_FI_DEV_ are 0..100, the one that ends in _RATIO too."""

_DCGM_PROFILING: Final = {
    "GR_ENGINE_ACTIVE": "engine_active",
    "GR_ENGINE_UTIL_RATIO": "engine_active",
    "SM_ACTIVE": "sm_active",
    "SM_UTIL_RATIO": "sm_active",
    "SM_OCCUPANCY": "sm_occupancy",
    "SM_OCCUPANCY_RATIO": "sm_occupancy",
    "PIPE_TENSOR_ACTIVE": "tensor_active",
    "TENSOR_UTIL_RATIO": "tensor_active",
    "DRAM_ACTIVE": "dram_active",
    "DRAM_UTIL_RATIO": "dram_active",
    "PIPE_FP64_ACTIVE": "fp64_active",
    "PIPE_FP32_ACTIVE": "fp32_active",
    "PIPE_FP16_ACTIVE": "fp16_active",
    "PCIE_TX_BYTES": "pcie_tx",
    "PCIE_RX_BYTES": "pcie_rx",
    "NVLINK_TX_BYTES": "nvlink_tx",
    "NVLINK_RX_BYTES": "nvlink_rx",
}
"""Families of DCGM_FI_PROF_ are 0..1, traffic is bytes per second."""

_NVIDIA_SMI: Final = {
    "utilization_gpu_ratio": ("gpu_util", ""),
    "utilization_memory_ratio": ("mem_util", ""),
    "utilization_encoder_ratio": ("enc_util", ""),
    "utilization_decoder_ratio": ("dec_util", ""),
    "utilization_jpeg_ratio": ("jpg_util", ""),
    "utilization_ofa_ratio": ("ofa_util", ""),
    "power_draw_watts": ("power", "W"),
    "power_draw_average_watts": ("power_average", "W"),
    "power_draw_instant_watts": ("power_instant", "W"),
    "enforced_power_limit_watts": ("power_limit", "W"),
    "memory_used_bytes": ("memory_used", "B"),
    "memory_free_bytes": ("memory_free", "B"),
    "memory_total_bytes": ("memory_total", "B"),
    "memory_reserved_bytes": ("memory_reserved", "B"),
    "clocks_current_sm_clock_hz": ("sm_clock", "Hz"),
    "clocks_current_memory_clock_hz": ("mem_clock", "Hz"),
    "clocks_current_graphics_clock_hz": ("graphics_clock", "Hz"),
    "clocks_current_video_clock_hz": ("video_clock", "Hz"),
    "temperature_gpu": ("temperature", "C"),
    "temperature_memory": ("memory_temperature", "C"),
    "pstate": ("pstate", ""),
    "mig_mode_current": ("mig_mode", ""),
    "compute_apps": ("processes", ""),
    "compute_app_used_memory_bytes": ("process_memory", "B"),
}
_REASON: Final = re.compile(r"clocks_(?:event|throttle)_reasons_(counters_)?(\w+?)(_seconds)?")

INDEX_FAMILY: Final = "nvidia_smi_index"
INFO_FAMILY: Final = "nvidia_smi_gpu_info"
SUMMED: Final = frozenset({"process_memory"})
"""Metrics of which a scrape has one sample per process."""


def metric_of(family: str) -> tuple[str, float, float] | None:
    """Return metric, factor and divisor of a family; None for one that is not stored."""
    found: tuple[str, str] | None = None
    if family.startswith("DCGM_FI_DEV_"):
        found = _DCGM_DEVICE.get(family[12:])
    elif family.startswith("DCGM_FI_PROF_"):
        name = _DCGM_PROFILING.get(family[13:])
        found = (name, "") if name else None
    elif family.startswith("nvidia_smi_"):
        found = _NVIDIA_SMI.get(family[11:]) or _reason(family[11:])
    return None if found is None else (found[0], *scale(found[1]))


def _reason(name: str) -> tuple[str, str] | None:
    found = _REASON.fullmatch(name)
    if found is None:
        return None
    if found[2] == "active" and not found[1]:
        return "throttle_reasons", ""
    if found[2] not in THROTTLE_REASONS:
        return None
    return (f"throttle_{found[2]}_time", "s") if found[1] else (f"throttle_{found[2]}", "")
