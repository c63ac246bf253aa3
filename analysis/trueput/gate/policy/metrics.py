"""The metrics that a policy may give limits of their own, and the unit of their absolute floor.

The names are those of the findings. A rung of GPU activity stands with the unit of its rate.
"""

from __future__ import annotations

from typing import Final

#: Rungs of GPU activity, as a finding of `activity-without-goodput` names them; the one that says
#: most first.
RUNGS: Final = {
    "kernel_union": "ratio",
    "gpu_op_union": "ratio",
    "engine_active": "ratio",
    "engine_step": "ratio",
    "sm_active": "ratio",
    "tensor_active": "ratio",
    "dram_active": "ratio",
    "power": "W",
    "energy": "J/s",
    "scheduled_tokens": "tokens/s",
    "flops": "flop/s",
}
#: Every metric with limits of its own. Spans are written as text with a unit: `floor = "20ms"`.
METRICS: Final = {
    "goodput_rps": "1/s",
    "slo_attainment_ratio": "ratio",
    "lost_requests_ratio": "ratio",
    "answer_tokens_per_request": "tokens",
    "recomputed_ratio": "ratio",
    "output_tokens_per_s": "tokens/s",
    "ttft_ns_p50": "ns",
    "e2e_ns_p50": "ns",
    "ttft_ns_mean": "ns",
    "tpot_ns_mean": "ns",
    "longest_gap_ns_mean": "ns",
    "e2e_ns_mean": "ns",
    "hit_ratio": "ratio",
    "kv_used_ratio_p99": "ratio",
    "preemptions_per_request": "1/request",
    "warm_but_later_ratio": "ratio",
    "quality": "score",
    **RUNGS,
}
