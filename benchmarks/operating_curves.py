"""How often the gate flags: seeded draws of run summaries fed to its pure functions.

Each run is a goodput, a rate of GPU activity, and latencies (TTFT, time per token, longest gap) of
as much noise as goodput, drawn as logs about their true values; all are independent. The objective
limits TTFT alone, so that every other latency can flag too. Bars (exit 1 when one is missed):

- 2,000 A/A pairs of three repeats, log SD 0.05 of goodput and 0.02 of activity: at most 1 % flagged
- 2,000 pairs of five repeats that truly lose 10 % of goodput at 15 % more activity, the same SDs:
  at least 95 % flagged by activity-without-goodput

usage: operating_curves.py [--quick] [--write docs/operating-curves.md]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import numpy as np

from trueput.gate.figures import RunFigures
from trueput.gate.requests import Request, Requests
from trueput.gate.rule_api import BLOCKING, Outcome
from trueput.gate.verdict import CandidateResult, Verdict, gate

SEED = 20_260_101
PAIRS = 2000
CURVE_PAIRS = 100
MOST_FALSE, LEAST_POWER = 0.01, 0.95
HEADLINE = "activity-without-goodput"
REPEATS = (2, 3, 5, 10)
NOISE = (0.02, 0.05, 0.10)
LOSSES = (0.0, 0.05, 0.10, 0.15, 0.20, 0.30)
MORE = (0.0, 0.05, 0.10, 0.15, 0.25, 0.40)
_WINDOW_S = 1000
_GOODPUT_RPS = 1.0
_PLANNED = 1500
_LATENCIES_S = (0.2, 0.02, 0.06)
"""TTFT, time per token and longest gap of a run, as the truth has them."""
_TOKENS = 100


@dataclass(frozen=True)
class Truth:
    """What is drawn from: repeats a side, log SDs, and the candidate's true change."""

    repeats: int
    goodput_sd: float
    activity_sd: float
    loss: float = 0.0
    more: float = 0.0


@dataclass(frozen=True)
class Rates:
    """Shares of the pairs: each verdict, and what the headline rule flagged."""

    pairs: int
    verdicts: dict[Verdict, float]
    headline: float

    @property
    def flagged(self) -> float:
        """Share of the pairs that any blocking rule flagged."""
        return self.verdicts.get(Verdict.FLAGGED, 0.0)


def summary(
    name: str, goodput_rps: float, tokens_per_s: float, latencies_s: Sequence[float]
) -> RunFigures:
    """Return a run of which only its summary is known; one request stands for its latencies."""
    ttft, tpot, gap = (round(1e9 * latency) for latency in latencies_s)
    e2e = ttft + _TOKENS * tpot
    request = Request("good", True, 0, e2e, ttft, float(tpot), e2e, longest_gap_ns=gap)
    goodput = {
        "run_id": name, "slo": "ttft=500ms", "window_rule": "all",
        "window_ns": _WINDOW_S * 10**9, "planned_requests": _PLANNED, "sent_requests": _PLANNED,
        "complete_requests": _PLANNED, "goodput_rps": goodput_rps,
        "slo_attainment_ratio": min(1.0, goodput_rps * _WINDOW_S / _PLANNED), "basis": "measured",
    }  # fmt: skip
    rung = {
        "metric": "scheduled_tokens", "value": tokens_per_s * _WINDOW_S, "unit": "tokens",
        "basis": "reported",
    }  # fmt: skip
    return RunFigures.from_views(
        {"runs": [{"run_id": name}], "goodput": [goodput], "gpu_activity": [rung]},
        requests=Requests.of([request]),
    )


def drawn(truth: Truth, pairs: int) -> Iterator[CandidateResult]:
    """Yield the gate's result on each pair; the same seed for every truth."""
    chance = np.random.default_rng(SEED)
    latency_chance = np.random.default_rng([SEED, 1])
    sds = np.array([truth.goodput_sd, truth.activity_sd])
    moved = np.array([math.log(1 - truth.loss), math.log(1 + truth.more)])
    for _ in range(pairs):
        noise = np.exp(chance.normal(size=(2, truth.repeats, 2)) * sds)
        noise[1] *= np.exp(moved)
        shape = (2, truth.repeats, len(_LATENCIES_S))
        latencies = np.exp(latency_chance.normal(size=shape) * truth.goodput_sd) * _LATENCIES_S
        sides = [
            [
                summary(f"{side}{i}", _GOODPUT_RPS * g, 1000 * a, times)
                for i, ((g, a), times) in enumerate(zip(runs, many, strict=True))
            ]
            for side, runs, many in zip("ab", noise, latencies, strict=True)
        ]
        yield gate(sides[0], [("b", sides[1])]).candidates[0]


def rates(truth: Truth, pairs: int) -> Rates:
    """Return how the gate rules on pairs drawn from a truth."""
    verdicts: Counter[Verdict] = Counter()
    headline = 0
    for result in drawn(truth, pairs):
        verdicts[result.verdict] += 1
        headline += any(
            f.rule == HEADLINE and f.severity == BLOCKING and f.outcome is Outcome.FLAGGED
            for f in result.findings
        )
    return Rates(pairs, {v: n / pairs for v, n in verdicts.items()}, headline / pairs)


def all_rates(truths: Sequence[Truth], pairs: int) -> list[Rates]:
    """Return the rates of several truths, worked out side by side."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(rates, truths, [pairs] * len(truths)))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all but the first column are numbers."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def percent(share: float) -> str:
    """Return a share as a reader says it."""
    return f"{100 * share:.1f} %"


def page(bars: Sequence[tuple[str, Truth, Rates, str]], pairs: int) -> str:
    """Return the page: the bars, then the curves."""
    bar_rows = [
        [words, percent(found.flagged), percent(found.headline), bar]
        for words, _, found, bar in bars
    ]
    false_rows = []
    cases = list(product(NOISE, REPEATS))
    alarms = all_rates([Truth(repeats, sd, 0.02) for sd, repeats in cases], pairs)
    for (sd, repeats), found in zip(cases, alarms, strict=True):
        shares = (found.verdicts.get(v, 0.0) for v in (
            Verdict.FLAGGED, Verdict.INCONCLUSIVE, Verdict.PASS))  # fmt: skip
        false_rows.append([f"{sd:.2f}, {repeats} repeats", *map(percent, shares)])
    losses = _curve([(f"{loss:.0%}", "loss", loss) for loss in LOSSES], pairs)
    more = _curve([(f"{part:.0%}", "more", part) for part in MORE], pairs)
    return _PAGE.format(
        pairs=PAIRS,
        curve_pairs=pairs,
        bars=table(["draws", "flagged", f"by {HEADLINE}", "bar"], bar_rows),
        false=table(["log SD of goodput", "flagged", "inconclusive", "pass"], false_rows),
        losses=losses,
        more=more,
    )


def _curve(steps: Sequence[tuple[str, str, float]], pairs: int) -> str:
    """Return the share that the headline flags, by size of the change, repeats and noise."""
    cases = list(product((0.02, 0.05), REPEATS))
    changes = [(v, 0.15) if kind == "loss" else (0.10, v) for _, kind, v in steps]
    found = iter(
        all_rates([Truth(n, sd, 0.02, *change) for sd, n in cases for change in changes], pairs)
    )
    rows = [
        [f"{sd:.2f}, {repeats} repeats",
         *(f"{percent(one.headline)} / {percent(one.flagged)}"
           for one in islice(found, len(steps)))]
        for sd, repeats in cases
    ]  # fmt: skip
    return table(["log SD of goodput", *(name for name, _, _ in steps)], rows)


_PAGE = """\
<!-- Written by `benchmarks/operating_curves.py --write`. Edit that script, not this page. -->

# Operating curves of the gate

How often the gate flags a change that is not there, and how often it finds one that is. Runs are
drawn, not recorded: each has a goodput, a rate of GPU activity, and three latencies (TTFT, time per
token, longest gap) with the log SD of goodput. Their logs are normal about their true values, all
are independent, and the policy is the default one. The objective limits TTFT alone: the other
latencies are judged too. Real repeats are noisier than they look within a run; `trueput noise`
measures yours.

## Bars

{pairs} pairs each. *Flagged* is the verdict, by whichever blocking rule.

{bars}

## Nothing changed: false alarms, and what repeats buy

Activity has a log SD of 0.02. What is not flagged and not passed is inconclusive: too noisy to show
that nothing was lost. {curve_pairs} pairs a row.

{false}

## How much goodput must be lost to be found

Activity rose by 15 %, log SD 0.02. Cells: flagged by activity-without-goodput / flagged by any
blocking rule. {curve_pairs} pairs a cell.

{losses}

At 0 % nothing was gained for 15 % more activity, and that is what the rule is for.

## How much activity must rise to be found

Goodput fell by 10 %. The same cells.

{more}
"""


def main() -> int:
    """Draw, print, and return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws, no curves")
    parser.add_argument("--write", type=Path, help="write the page with the curves here")
    given = parser.parse_args()
    pairs = PAIRS // 10 if given.quick else PAIRS
    same, lost = Truth(3, 0.05, 0.02), Truth(5, 0.05, 0.02, 0.10, 0.15)
    wanted = [
        ("nothing changed, 3 repeats, log SD 0.05 / 0.02", same, "at most 1 % flagged"),
        ("the same, log SD 0.10 / 0.02", Truth(3, 0.10, 0.02), "shown"),
        ("goodput -10 %, activity +15 %, 5 repeats, log SD 0.05 / 0.02", lost,
         "at least 95 % by the rule"),
        ("the same, log SD 0.05 / 0.05", Truth(5, 0.05, 0.05, 0.10, 0.15), "shown"),
    ]  # fmt: skip
    found = all_rates([truth for _, truth, _ in wanted], pairs)
    bars = [
        (words, truth, one, bar) for (words, truth, bar), one in zip(wanted, found, strict=True)
    ]
    for words, _, one, bar in bars:
        shown = f"flagged {percent(one.flagged)}, by the rule {percent(one.headline)}"
        print(f"{words}: {shown} ({bar})")
    if given.write is not None and not given.quick:
        given.write.write_text(page(bars, CURVE_PAIRS), encoding="utf-8")
    missed = bars[0][2].flagged > MOST_FALSE or bars[2][2].headline < LEAST_POWER
    print("missed" if missed else "holds")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
