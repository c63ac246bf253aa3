"""The columns of step_work from iterations and how their time is divided."""

from __future__ import annotations

import numpy as np

from trueput.attribution.iterations.cost import StepParts
from trueput.attribution.records import Ints, Steps


def work_columns(steps: Steps, again: Ints, of_context: Ints, parts: StepParts) -> dict[str, Ints]:
    """Return the numbers of step_work, one row per iteration with several kinds of work or with
    recompute; `again` are the tokens computed again, `of_context` those printed as context."""
    kinds = (
        (parts.prefill_ns > 0).astype(np.int64)
        + (parts.decode_ns > 0).astype(np.int64)
        + (parts.recompute_ns > 0).astype(np.int64)
    )
    keep = (kinds > 1) | (again > 0)
    columns = {
        "step_ix": steps.step_ix,
        "recomputed_tokens": again,
        "context_recomputed_tokens": of_context,
        "prefill_ns": parts.prefill_ns,
        "decode_ns": parts.decode_ns,
        "recompute_ns": parts.recompute_ns,
        "prefill_ns_low": parts.prefill_low_ns,
        "prefill_ns_high": parts.prefill_high_ns,
        "decode_ns_low": parts.decode_low_ns,
        "decode_ns_high": parts.decode_high_ns,
        "recompute_ns_low": parts.recompute_low_ns,
        "recompute_ns_high": parts.recompute_high_ns,
    }
    return {name: values[keep] for name, values in columns.items()}
