"""One run's figures as samples: the value, its bounds, and how it varies inside the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trueput.gate.figures import Row, RunFigures, number, text, whole
from trueput.gate.resampling import median_log_sd, sum_log_sd
from trueput.gate.statistics import Sample

if TYPE_CHECKING:
    from trueput.gate.requests import Mask, Numbers, Requests


def bounded(run: RunFigures, column: str, trials: int | None = None) -> Sample | None:
    """Return a goodput column with its bounds; their middle where only they are known."""
    value = number(run.goodput, column)
    low, high = number(run.goodput, f"{column}_low"), number(run.goodput, f"{column}_high")
    if value is None:
        if low is None or high is None:
            return None
        value = math.sqrt(low * high) if low > 0 else (low + high) / 2
    low, high = (value if bound is None else bound for bound in (low, high))
    return Sample(min(low, value), max(high, value), value, trials=trials)


def goodput(run: RunFigures, per_device: bool, single: bool) -> Sample | None:
    """Return good requests per window-second; ``single`` adds the variation inside the run."""
    sample = bounded(run, "goodput_rps")
    if sample is None:
        return None
    over = float(run.devices or 1) if per_device else 1.0
    good = run.ended_inside.is_outcome("good").astype(float)
    within = _within(run, good) if single else None
    return Sample(sample.low / over, sample.high / over, sample.value / over, within)


def attainment(run: RunFigures, single: bool) -> Sample | None:
    """Return good requests of the planned ones."""
    import numpy as np

    sample = bounded(run, "slo_attainment_ratio")
    sent = run.sent_inside.column("sent_ns")
    known, window = ~np.isnan(sent), span_ns(run)
    if sample is None or not single or not known.any() or window is None:
        return sample
    good = run.sent_inside.is_outcome("good")[known].astype(float)
    within = sum_log_sd(sent[known], good, window, np.ones(len(good)))
    return replace(sample, within_sd=within)


#: Good requests of a run below which counting them alone leaves a third of its goodput open.
FEWEST_GOOD = 10


def few_good(run: RunFigures) -> bool:
    """Tell whether a run has only a handful of good requests, none included.

    The sd of the log of k good ones of n is sqrt((1 - k / n) / k): about 0.3 for ten of many, and 0
    where all are good, however few.
    """
    sample, planned = bounded(run, "slo_attainment_ratio"), run.count("planned")
    if sample is None or not planned:
        return False
    return sample.low * planned < FEWEST_GOOD * (1 - sample.low)


def output_tokens(run: RunFigures, per_device: bool, single: bool) -> Sample | None:
    """Return output tokens per window-second; requests of unknown length tell no variation."""
    value = number(run.goodput, "output_tokens_per_s")
    if value is None:
        return None
    over = float(run.devices or 1) if per_device else 1.0
    within = _within(run, run.ended_inside.column("output_tokens")) if single else None
    return Sample.exact(value / over, within)


def good_output_tokens(run: RunFigures, single: bool) -> Sample | None:
    """Return output tokens of good requests per window-second."""
    value = number(run.goodput, "good_output_tokens_per_s")
    if value is None:
        return None
    ended = run.ended_inside
    amounts = ended.column("output_tokens") * ended.is_outcome("good")
    return Sample.exact(value, _within(run, amounts) if single else None)


def throughput(run: RunFigures, single: bool) -> Sample | None:
    """Return requests that ended as asked per window-second."""
    value = number(run.goodput, "request_throughput_rps")
    if value is None:
        return None
    return Sample.exact(
        value, _within(run, run.ended_inside.survived.astype(float)) if single else None
    )


def median(run: RunFigures, name: str, single: bool, *, with_failures: bool) -> Sample | None:
    """Return a median latency of survivors; ``with_failures`` a lost request lasts for ever.

    ``None`` without a survivor, or where half of the requests were lost.
    """
    import numpy as np

    requests = run.sent_inside
    column, sent = requests.column(name), requests.column("sent_ns")
    chosen: Mask = requests.survived & ~np.isnan(column)
    values: Numbers = column[chosen]
    offsets: Numbers = np.nan_to_num(sent[chosen], nan=0.0)
    if not len(values):
        return None
    if with_failures and (lost := requests.lost()):
        gone = ~requests.survived & (requests.outcome >= 0) & ~requests.is_outcome("not_sent")
        offsets = np.concatenate([offsets, np.nan_to_num(sent[gone], nan=0.0)])
        values = np.concatenate([values, np.full(lost, math.inf)])
    middle = float(np.median(values))
    window = span_ns(run)
    if not math.isfinite(middle):
        return None
    if not single or window is None:
        return Sample.exact(middle)
    # A resample whose median falls among the lost ones lasted at least ten times the longest.
    longest = 10 * float(values[np.isfinite(values)].max())
    return Sample.exact(middle, median_log_sd(offsets, np.minimum(values, longest), window))


def mean(run: RunFigures, name: str, single: bool) -> Sample | None:
    """Return a mean latency of survivors; ``None`` where none of them has it.

    Also ``None`` where the gaps of a twentieth of them are lost, which may be the longest ones.
    """
    import numpy as np

    requests = run.sent_inside
    column, sent = requests.column(name), requests.column("sent_ns")
    chosen: Mask = requests.survived & ~np.isnan(column)
    values: Numbers = column[chosen]
    if not len(values) or (name == "longest_gap_ns" and _gaps_are_lost(requests)):
        return None
    window = span_ns(run)
    within = None
    if single and window is not None:
        offsets = np.nan_to_num(sent[chosen], nan=0.0)
        within = sum_log_sd(offsets, values, window, np.ones(len(values)))
    return Sample.exact(math.fsum(values.tolist()) / len(values), within)


#: Of answers that took longer than this after their first chunk, more chunks came.
_AT_ONCE_NS = 5e6
_MOST_LOST = 0.05


def _gaps_are_lost(requests: Requests) -> bool:
    """Tell whether too many answers of several tokens, not all in one chunk, have no gaps."""
    import numpy as np

    after = requests.column("e2e_ns") - requests.column("ttft_ns")
    one = (requests.column("output_tokens") <= 1) | (after <= _AT_ONCE_NS)
    streamed: Mask = requests.survived & ~one
    lost = streamed & np.isnan(requests.column("longest_gap_ns"))
    return int(np.count_nonzero(lost)) > _MOST_LOST * int(np.count_nonzero(streamed))


def lost_share(run: RunFigures) -> Sample | None:
    """Return planned requests that did not end as asked, as a share; needs the planned count.

    With bounds where no file tells how some ended.
    """
    planned, complete = run.count("planned"), run.complete
    bounds = run.complete_bounds if complete is None else (complete, complete)
    if not planned or bounds is None:
        return None
    high, low = (min(max(1 - count / planned, 0.0), 1.0) for count in bounds)
    return Sample(low, high, (low + high) / 2, trials=planned)


def recomputed_share(run: RunFigures) -> Sample | None:
    """Return recomputed tokens as a share of the scheduled ones, with its bounds."""
    if run.uncovered is not None:
        return None
    row = run.recompute
    scheduled = number(row, "scheduled_tokens")
    tokens = number(row, "recomputed_tokens")
    share = number(row, "recomputed_ratio")
    if share is None and tokens is not None and scheduled:
        share = tokens / scheduled
    low, high = number(row, "recomputed_tokens_low"), number(row, "recomputed_tokens_high")
    bounds = None if low is None or high is None or not scheduled else (
        low / scheduled, high / scheduled)  # fmt: skip
    if share is None:
        return None if bounds is None else Sample(*bounds, sum(bounds) / 2)
    if bounds is None or low == high:
        return Sample.exact(share)
    return Sample(min(bounds[0], share), max(bounds[1], share), share)


def hit_share(run: RunFigures) -> Sample | None:
    """Return prompt tokens found in the prefix cache, as a share of those looked up.

    A cache in which nothing was looked up, being off, found none.
    """
    share = number(run.prefix_cache, "hit_ratio")
    if share is None and number(run.prefix_cache, "hit_tokens") == 0:
        share = 0.0
    return None if share is None else Sample.exact(share)


def kv_used(run: RunFigures) -> Sample | None:
    """Return the 99th percentile of the share of KV blocks in use."""
    share = number(run.batching, "kv_used_ratio_p99")
    return None if share is None or run.uncovered is not None else Sample.exact(share)


def preempted(run: RunFigures) -> Sample | None:
    """Return preemptions for each planned request; a request may be preempted more than once."""
    count, planned = number(run.recompute, "preemptions"), run.count("planned")
    if count is None or not planned or run.uncovered is not None:
        return None
    return Sample.exact(count / planned)


def basis_of(rows: Sequence[Row | None]) -> str:
    """Return the bases that rows state, each once; ``unknown`` when none states one."""
    return ", ".join(sorted({basis for row in rows if (basis := text(row, "basis"))})) or "unknown"


def idle_room_ns(run: RunFigures) -> int | None:
    """Return how far idle's bounds lie apart in a run's ledger; None where they are not told."""
    idle = [row for row in run.gpu_ledger if text(row, "work") == "idle"]
    ends = [(whole(row, "time_ns_low"), whole(row, "time_ns_high")) for row in idle]
    known = [high - low for low, high in ends if low is not None and high is not None]
    return sum(known) if idle and len(known) == len(ends) else None


def unwatched_ns(run: RunFigures) -> int:
    """Return how much of the window a profile does not watch, over all devices that it shows."""
    unseen = [row for row in run.gpu_ledger
              if (text(row, "work"), text(row, "outcome")) == ("unattributed", "none")]  # fmt: skip
    shown = {row.get("device") for row in run.gpu_activity
             if (text(row, "metric") or "").endswith("_union")}  # fmt: skip
    if not unseen or not shown:
        return 0
    others = (whole(unseen[0], "devices") or len(shown)) - len(shown)
    time = sum(whole(row, "time_ns") or 0 for row in unseen)
    return max(0, time - others * (whole(unseen[0], "window_ns") or 0))


def span_ns(run: RunFigures) -> int | None:
    """Return the length over which the run's own variation is looked at: its window, from 0."""
    window = whole(run.goodput, "window_ns")
    is_known = run.window is not None or text(run.goodput, "window_rule") in (None, "all")
    if is_known and window:
        return window
    ends = run.requests.known("end_ns")
    return int(ends.max()) or None if len(ends) else None


def _within(run: RunFigures, amounts: Numbers) -> float | None:
    """Return the sd of the log of a sum over requests that ended, resampled by their ends."""
    import numpy as np

    ends = run.ended_inside.column("end_ns")
    counted = ~np.isnan(ends) & ~np.isnan(amounts)
    window = span_ns(run)
    if not counted.any() or window is None:
        return None
    return sum_log_sd(ends[counted], amounts[counted], window)
