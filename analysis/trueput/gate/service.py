"""What came back, and in what state the machine was: listed beside a comparison.

Lost requests, a client that could not keep up and a closed loop say how to read the figures. A
cache that was warm before the first request, and a device that was slowed down, are not what was to
be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from trueput.gate.figures import RunFigures, number
from trueput.gate.loads import Difference, Gap, closed_loop, sends_of, sent_rate
from trueput.gate.over_repeats import mean_difference
from trueput.gate.samples import lost_share

#: A client that sent at less than this share of the asked rate did not keep up.
SATURATED_BELOW = 0.98
_LOST_POINTS = 0.01
#: Points from which on prefix reuse is listed.
_REUSE_POINTS = 0.05
_CLOCK_LIMIT = 0.02
_POWER_LIMIT = 0.02
#: Wait before the send that bends latencies: this share of the median end-to-end time.
_DELAY_SHARE = 0.1
#: Share of the sends that shows how warm the cache was, and how many requests that needs.
_FIRST = 0.1
_FEWEST_FIRST = 5
_WARM_POINTS = 0.2


def lost_difference(
    baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]
) -> Difference | None:
    """Compare planned requests that did not end as asked: for the rules, never blocking."""

    def share(run: RunFigures) -> float | None:
        sample = lost_share(run)
        return None if sample is None else sample.value

    sides = baseline, candidate
    size = partial(_points, least=_LOST_POINTS, what=" of the planned")
    return mean_difference("lost_requests", sides, share, "{:.1%}", size)


def reuse_difference(
    baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]
) -> Difference | None:
    """Compare the share of prompt tokens that came from the prefix cache: what came back."""

    def share(run: RunFigures) -> float | None:
        return number(run.workload, "reuse_ratio")

    sides, size = (baseline, candidate), partial(_points, least=_REUSE_POINTS)
    return mean_difference("prefix_reuse", sides, share, "{:.1%}", size)


def _points(before: float, after: float, least: float, what: str = "") -> str | None:
    moved = after - before
    return f"{100 * moved:+.1f} points{what}" if abs(moved) >= least else None


def saturation_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Say where a client sent more slowly than it was asked to."""
    shares = [_achieved(run) for run in (b, c)]
    low = [run for run, share in zip((b, c), shares, strict=True) if share is not None
           and share < _expected(run)]  # fmt: skip
    if not low:
        return None
    before, after = (
        "unknown" if share is None else f"{share:.1%} of the asked rate" for share in shares
    )
    worst = min(share for share in shares if share is not None)
    limited = any(closed_loop(run) for run in low)
    why = "its own limit of requests in flight held it back" if limited else "the client fell short"
    return 1 - worst, Difference(
        "client_saturation", before, after, f"{1 - worst:.1%} short: {why}", False
    )


def _achieved(run: RunFigures) -> float | None:
    """Return the sent rate over the asked one; ``None`` for a load without a finite rate."""
    asked, sent = run.asked_rate_rps, sent_rate(run)
    if asked is None or sent is None or not 0 < asked < math.inf:
        return None
    return sent / asked


def _expected(run: RunFigures) -> float:
    """Return the least share of the asked rate that chance explains.

    A client that draws its gaps freely strays by 1 / sqrt(gaps); vLLM's rescales them.
    """
    gaps = max(len(sends_of(run)) - 1, 1)
    by_chance = 0.0 if run.client == "vllm bench serve" else 1.645 / math.sqrt(gaps)
    return SATURATED_BELOW * gaps / (gaps + 1) - by_chance


def delay_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Say where requests waited in the client: coordinated omission hides that wait."""
    waits = [_wait_p99(run) for run in (b, c)]
    shares = [_of_median(run, wait) for run, wait in zip((b, c), waits, strict=True)]
    if max(shares) <= _DELAY_SHARE:
        return None
    before, after = ("unknown" if wait is None else f"p99 {wait / 1e6:.1f} ms" for wait in waits)
    size = (
        f"up to {max(shares):.0%} of the median end-to-end time passed before the send "
        '(coordinated omission; `[slo] from = "scheduled"` counts it)'
    )
    return max(shares), Difference("client_delay", before, after, size, False)


def _wait_p99(run: RunFigures) -> float | None:
    import numpy as np

    found = [run.requests.known(name) for name in ("client_delay_ns", "client_queue_ns")]
    waits = [float(np.quantile(waits, 0.99)) for waits in found if len(waits)]
    return max(waits) if waits else None


def _of_median(run: RunFigures, wait: float | None) -> float:
    import numpy as np

    e2e = run.requests.known("e2e_ns", run.requests.survived)
    return wait / float(np.median(e2e)) if wait and len(e2e) and np.median(e2e) > 0 else 0.0


def warmth_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare how much of the first prompts was cached already, for the same lengths in order.

    It blocks where nothing that is under test explains it: same engine, version and cache setting.
    """
    if any(run.cache_state for run in (b, c)) or not _same_prompts(b, c):
        return None
    first = [_first_cached(run) for run in (b, c)]
    if first[0] is None or first[1] is None or abs(first[1] - first[0]) <= _WARM_POINTS:
        return None
    setting = "enable_prefix_caching"
    alike = (b.engine, b.engine_version) == (c.engine, c.engine_version) and (
        b.config.get(setting) == c.config.get(setting)
    )
    moved = first[1] - first[0]
    before, after = (f"{share or 0:.0%} of the first prompts cached" for share in first)
    size = f"{100 * moved:+.0f} points: one side found a warm cache"
    return abs(moved), Difference("cache_warmth", before, after, size, alike)


def _same_prompts(b: RunFigures, c: RunFigures) -> bool:
    import numpy as np

    one, other = (run.requests.column("prompt_tokens") for run in (b, c))
    return np.array_equal(one, other)


def _first_cached(run: RunFigures) -> float | None:
    """Return the cached share of the first tenth of prompts, but for the very first.

    A readiness probe often sends the first prompt before the load does.
    """
    import numpy as np

    order = np.argsort(run.requests.column("sent_ns"), kind="stable")
    chosen = order[1 : 1 + max(_FEWEST_FIRST, int(_FIRST * len(order)))]
    cached = run.requests.column("cached_prompt_tokens")[chosen]
    prompt = run.requests.column("prompt_tokens")[chosen]
    if len(chosen) < _FEWEST_FIRST or np.isnan(cached).any() or not prompt.sum() > 0:
        return None
    return float(cached.sum() / prompt.sum())


def clock_difference(
    baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]
) -> Difference | None:
    """Compare the mean clock of the devices over the window."""
    sides = baseline, candidate
    read, size = partial(_state, column="sm_clock_mhz_mean"), partial(_relative, limit=_CLOCK_LIMIT)
    return mean_difference("gpu_clock", sides, read, "{:.0f} MHz", size)


def power_difference(
    baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]
) -> Difference | None:
    """Compare the power limit in force on the devices."""
    sides = baseline, candidate
    read, size = (
        partial(_state, column="power_limit_w_mean"),
        partial(_relative, limit=_POWER_LIMIT),
    )
    return mean_difference("power_limit", sides, read, "{:.0f} W", size)


def _state(run: RunFigures, column: str) -> float | None:
    """Return the mean of a state over a run's devices."""
    known = [value for row in run.gpu_state if (value := number(row, column))]
    return math.fsum(known) / len(known) if known else None


def _relative(before: float, after: float, limit: float) -> str | None:
    moved = after / before - 1
    return f"{moved:+.1%}" if abs(moved) > limit else None


#: Releases of vLLM from which a figure of the same name means something else.
_MEANINGS = (
    ("0.8", "prompt_tokens_total leaves recompute out, a preemption is counted at the next output"),
    ("0.11.2", "prefix-cache hits leave out resumed requests"),
    ("0.16", "printed prompt throughput leaves cached tokens out"),
    ("0.24", "iteration_tokens_total counts the computed part of a prompt"),
)


def meaning_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Name the figures whose meaning changed between the versions of the two engines."""
    if b.engine != "vllm" or c.engine != "vllm":
        return None
    versions = [_release(run.engine_version) for run in (b, c)]
    if versions[0] is None or versions[1] is None:
        return None
    low, high = sorted(v for v in versions if v is not None)
    changed = [what for since, what in _MEANINGS if low < (_release(since) or ()) <= high]
    if not changed:
        return None
    return float(len(changed)), Difference(
        "metric_meaning", b.engine_version or "", c.engine_version or "", "; ".join(changed), False
    )


def _release(version: str | None) -> tuple[int, ...] | None:
    parts = (version or "").lstrip("v").split("+")[0].split(".")[:3]
    digits = ["".join(ch for ch in part if ch.isdigit()) for part in parts]
    return tuple(int(part) for part in digits if part) if digits[0] else None


def quality_text(run: RunFigures) -> str | None:
    """Return the quality scores given for a run, by name; ``None`` without any."""
    return ", ".join(f"{name} {score:g}" for name, score in sorted(run.quality.items())) or None


#: What vLLM's client does where its command does not say.
_UNSAID = {"ignore_eos": False, "seed": 0, "num_warmups": 0}
#: Settings that are asked for by being there: without them nothing is asked.
_OPTIONAL = ("top_p", "top_k", "min_p", "repetition_penalty", "ramp_up_strategy", "max_tokens")


def asked_setting(run: RunFigures, name: str) -> str | None:
    """Return one setting of the load that was asked for; ``None`` where no file tells it.

    Numbers are written alike, wherever they come from. Where the command is known and does not have
    an optional setting, that is `not set`.
    """
    value = run.asked.get(name)
    if value is None and "dataset_name" in run.asked:
        value = "not set" if name in _OPTIONAL else None
        if run.client == "vllm bench serve":
            value = _UNSAID.get(name, value)
    if value is None or isinstance(value, bool):
        return None if value is None else str(value)
    try:
        return f"{float(str(value)):.15g}"
    except ValueError:
        return {"true": "True", "false": "False"}.get(str(value), str(value))
