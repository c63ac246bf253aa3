"""Whether two sides were asked the same: what blocks a comparison, and what only informs.

What was *asked* blocks, over every planned request, failed ones included. What is usually under
test (engine version, configuration, model, hardware) informs. What came back never blocks: it is
for the rules. The policy's ``[must_match]`` and ``[under_test]`` override both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from trueput.gate.classes import ASPECT as CLASSES
from trueput.gate.classes import classes_gap
from trueput.gate.figures import RunFigures, text
from trueput.gate.loads import (
    LENGTHS,
    ONE_SIDE,
    Difference,
    Gap,
    closed_loop,
    fingerprint_gap,
    gaps_gap,
    length_gap,
    rate_gap,
)
from trueput.gate.outside_window import ASPECT as OUTSIDE_WINDOW
from trueput.gate.outside_window import outside_gap
from trueput.gate.over_repeats import furthest_apart
from trueput.gate.prompt_counts import ASPECT as PROMPT_COUNTS
from trueput.gate.prompt_counts import counts_gap
from trueput.gate.service import (
    asked_setting,
    clock_difference,
    delay_gap,
    lost_difference,
    meaning_gap,
    power_difference,
    quality_text,
    reuse_difference,
    saturation_gap,
    warmth_gap,
)
from trueput.load_command import OUTPUT_LENGTHS, SAMPLING

Read: TypeAlias = Callable[[RunFigures], object]


def _concurrency(run: RunFigures) -> object:
    """Return the client's own limit; where it told its rate and no limit, it had none."""
    told = run.asked_concurrency is not None or run.asked_rate_rps is None
    return run.asked_concurrency if told else "no limit"


#: Aspects of one value a run: how to read it, and whether a difference blocks.
_VALUES: dict[str, tuple[Read, bool]] = {
    "concurrency": (_concurrency, True),
    "burstiness": (lambda run: run.asked_burstiness, True),
    "slo": (lambda run: text(run.goodput, "slo") or "none", True),
    "window_rule": (lambda run: text(run.goodput, "window_rule"), True),
    "client": (lambda run: run.client, True),
    "vantage": (lambda run: run.vantage, True),
    "profiled": (lambda run: run.profiled, True),
    "cache_state": (lambda run: run.cache_state, True),
    "throttled": (lambda run: run.throttled, True),
    "engine": (lambda run: run.engine, False),
    "engine_version": (lambda run: run.engine_version, False),
    "model": (lambda run: run.model, False),
    "quantisation": (lambda run: run.quantisation, False),
    "hardware": (lambda run: run.hardware, False),
    "devices": (lambda run: run.devices, False),
    "quality": (quality_text, False),
}
#: Settings of the load, as a client's file or command tells them, and whether each blocks.
_SETTINGS = {
    "dataset_name": True, "ignore_eos": True, "ramp_up_strategy": True, "ramp_up_start_rps": True,
    "ramp_up_end_rps": True, "prefix_repetition_prefix_len": True,
    "prefix_repetition_num_prefixes": True, "seed": False, "num_warmups": False,
    **{name: True for name in (*SAMPLING, *OUTPUT_LENGTHS, "random_range_ratio") if name != "seed"},
}  # fmt: skip
_VALUES |= {
    f"asked.{name}": (partial(asked_setting, name=name), blocks)
    for name, blocks in _SETTINGS.items()
}
#: Aspects with a size of their own: how far apart two runs are.
_GAPS: dict[str, Callable[[RunFigures, RunFigures], Gap | None]] = {
    PROMPT_COUNTS: counts_gap,
    CLASSES: classes_gap,
    "fingerprint": fingerprint_gap,
    "arrival_rate": rate_gap,
    "arrival_gaps": gaps_gap,
    OUTSIDE_WINDOW: outside_gap,
    "client_saturation": saturation_gap,
    "client_delay": delay_gap,
    "cache_warmth": warmth_gap,
    "metric_meaning": meaning_gap,
}
#: Aspects that are figures of a whole side: how far apart the means over its repeats are.
_MEANS: dict[str, Callable[[Sequence[RunFigures], Sequence[RunFigures]], Difference | None]] = {
    "prefix_reuse": reuse_difference,
    "lost_requests": lost_difference,
    "gpu_clock": clock_difference,
    "power_limit": power_difference,
}
#: Aspects that are told of a pair of runs, not of the repeats of one side among themselves.
_OF_PAIRS = ("client_saturation", "client_delay", "metric_meaning", PROMPT_COUNTS, CLASSES)
#: How a difference begins that is one among the repeats of a side.
MIXED = "the repeats of the"
#: Aspects of one value that must be known on both sides, or on neither, for a pass.
_ASKED_VALUES = ("concurrency", "model")
ASPECTS = ("planned_requests", *LENGTHS, *_GAPS, *_MEANS, *_VALUES)


def compare_sides(
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    must_match: frozenset[str] = frozenset(),
    under_test: frozenset[str] = frozenset(),
) -> tuple[Difference, ...]:
    """Return every difference between two sides, then those among the repeats of one side."""
    runs = (*baseline, *candidate)
    named = {aspect for aspect in must_match | under_test if aspect.startswith("config.")}
    settings = sorted(named | {f"config.{name}" for run in runs for name in run.config})
    found = []
    for aspect in (*ASPECTS, *settings):
        difference = _difference(aspect, baseline, candidate, aspect in must_match)
        if difference is None and aspect in must_match and not any(_told(aspect, r) for r in runs):
            difference = Difference(aspect, "unknown", "unknown", "not known on either side", True)
        if difference is not None and difference.blocks:
            difference = _mixed(aspect, difference, baseline, candidate)
        if difference is not None:
            blocks = (difference.blocks or aspect in must_match) and aspect not in under_test
            found.append(
                Difference(
                    aspect,
                    difference.baseline,
                    difference.candidate,
                    difference.difference,
                    blocks,
                    difference.holds_back and not blocks and aspect not in under_test,
                )
            )
    return (*found, *_among("baseline", baseline), *_among("candidate", candidate))


def _difference(
    aspect: str, baseline: Sequence[RunFigures], candidate: Sequence[RunFigures], strict: bool
) -> Difference | None:
    """Return the largest difference in one aspect; ``strict`` holds equal to the last digit."""
    if aspect == "planned_requests":
        return _planned(baseline, candidate)
    if aspect in LENGTHS:
        return furthest_apart(baseline, candidate, lambda b, c: length_gap(aspect, b, c, strict))
    if aspect in _GAPS:
        return furthest_apart(baseline, candidate, _GAPS[aspect])
    if aspect in _MEANS:
        return _MEANS[aspect](baseline, candidate)
    if aspect in _VALUES:
        read, blocks = _VALUES[aspect]
        return _values(aspect, baseline, candidate, read, blocks)
    name = aspect.removeprefix("config.")
    return _values(aspect, baseline, candidate, lambda run: _setting(run, name), False)


def _mixed(
    aspect: str,
    difference: Difference,
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
) -> Difference:
    """Say where it is the repeats of one side that differ: any two members are then unlike."""
    shown, mixed = [difference.baseline, difference.candidate], []
    for place, (side, runs) in enumerate((("baseline", baseline), ("candidate", candidate))):
        own = [_difference(aspect, runs[:1], [other], False) for other in runs[1:]]
        unlike = [item for item in own if item is not None and item.blocks]
        if unlike:
            mixed.append(side)
            texts = [unlike[0].baseline, *(item.candidate for item in unlike)]
            shown[place] = ", ".join(dict.fromkeys(texts))
    if not mixed:
        return difference
    size = f"{MIXED} {' and of the '.join(mixed)} are different loads"
    return replace(difference, baseline=shown[0], candidate=shown[1], difference=size)


def _told(aspect: str, run: RunFigures) -> bool:
    """Tell whether a run says anything of an aspect that holds one value."""
    if aspect.startswith("config."):
        return bool(run.config)
    return aspect not in _VALUES or _VALUES[aspect][0](run) is not None


def _setting(run: RunFigures, name: str) -> object:
    """Return one engine setting; ``None`` where the run's settings are not known at all."""
    if not run.config:
        return None
    return run.config.get(name, "not set")


def _values(
    aspect: str,
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    read: Read,
    blocks: bool,
) -> Difference | None:
    values_b = sorted({str(read(run)) for run in baseline if read(run) is not None})
    values_c = sorted({str(read(run)) for run in candidate if read(run) is not None})
    unknown = [read(run) is None for run in (*baseline, *candidate)]
    partly = aspect in _ASKED_VALUES and any(unknown) and not all(unknown)
    if values_b == values_c and not partly:
        return None
    shown_b, shown_c = ", ".join(values_b) or "unknown", ", ".join(values_c) or "unknown"
    if not values_b or not values_c:
        return Difference(aspect, shown_b, shown_c, ONE_SIDE, False, partly)
    if values_b == values_c:
        return Difference(aspect, shown_b, shown_c, "not known for every run", False, True)
    return Difference(aspect, ", ".join(values_b), ", ".join(values_c), "not the same", blocks)


def _planned(baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]) -> Difference | None:
    runs = (*baseline, *candidate)
    told = [run.planned_fixed is not None for run in runs]
    partly = any(told) and not all(told)
    found = _values("planned_requests", baseline, candidate, lambda run: run.load_planned, False)
    if found is None and partly:
        before, after = (
            ", ".join(sorted({str(run.load_planned) for run in side}))
            + ("" if all(run.planned_fixed is not None for run in side) else " recorded")
            for side in (baseline, candidate)
        )
        what = "how many were asked for is not known for every run"
        return Difference("planned_requests", before, after, what, False, holds_back=True)
    if found is None or "unknown" in (found.baseline, found.candidate):
        return found if found is None else replace(found, holds_back=True)
    counts_b = [run.load_planned or 0 for run in baseline]
    counts_c = [run.load_planned or 0 for run in candidate]
    size = sum(counts_c) / len(counts_c) - sum(counts_b) / len(counts_b)
    mean = " on the mean" if len({*counts_b}) > 1 or len({*counts_c}) > 1 else ""
    fixed = all(run.planned_fixed for run in runs)
    note = "" if fixed else "; not known to be fixed by the client"
    holds_back = not fixed
    if not fixed and not partly and all(closed_loop(run) for run in runs):
        holds_back = False
        note = "; a closed loop: better service makes more requests"
    return Difference(
        found.aspect,
        found.baseline,
        found.candidate,
        f"{size:+.6g} requests{mean}{note}",
        fixed,
        holds_back,
    )


def _among(side: str, runs: Sequence[RunFigures]) -> list[Difference]:
    """List what differs among the repeats of one side; it never blocks by itself."""
    if len(runs) < 2:
        return []
    settings = sorted({f"config.{name}" for run in runs for name in run.config})
    found = []
    for aspect in (a for a in (*ASPECTS, *settings) if a not in _OF_PAIRS):
        for other in runs[1:]:
            difference = _difference(aspect, runs[:1], [other], False)
            if difference is None or difference.difference == ONE_SIDE:
                continue
            shown = f"{runs[0].run_id} {difference.baseline}, {other.run_id} {difference.candidate}"
            values = (shown, "") if side == "baseline" else ("", shown)
            found.append(
                Difference(f"{aspect} among {side} repeats", *values, difference.difference, False)
            )
            break
    return found
