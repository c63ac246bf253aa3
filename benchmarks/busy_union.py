"""Busy time of devices as a union of intervals: trueput's view against a careful pandas program.

10 million kernels on 8 devices, four streams each. Both sides give the time in which at least one
kernel ran, device by device, from start-up to answer; the answers are compared to the nanosecond.
pandas reads the operations. The view sums the busy stretches that ingest has kept of them; making
those, by ingest's own code over the same operations, is measured beside it, and both are added up.
Bars: making the stretches once and a question each take at least 1.8 times less CPU, and a question
half the peak memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from measure import (
    HERE,
    Report,
    arguments,
    cost,
    environment,
    in_turns,
    least_cpu,
    made_store,
    peak,
    python,
    work_folder,
)

OPERATIONS, QUICK_OPERATIONS = 10_000_000, 1_000_000
LESS_CPU, LESS_MEMORY = 1.8, 2.0


def main() -> int:
    """Run the benchmark."""
    options = arguments(__doc__).parse_args()
    operations = QUICK_OPERATIONS if options.quick else OPERATIONS
    temporary = work_folder(options.work)
    folder = Path(temporary.name) if temporary else options.work
    report = Report(f"busy union, {operations:,} kernels on 8 devices")
    try:
        store = made_store(folder, f"gpu-{operations}", "gpu_store.py", operations)
        mine_out, their_out = folder / "unions-views.json", folder / "unions-pandas.json"
        views, pandas = HERE / "peers" / "gpu_by_views.py", HERE / "peers" / "unions_by_pandas.py"
        making, made = HERE / "made" / "gpu_unions.py", folder / "unions-made"
        made.mkdir(exist_ok=True)
        found = in_turns(
            {
                "views": lambda: cost(python(views, "unions", store, mine_out), environment()),
                "pandas": lambda: cost(python(pandas, store, their_out), environment()),
                "making": lambda: cost(python(making, store, made), environment()),
            },
            1 if options.quick else options.rounds,
        )
        mine, theirs = found["views"], found["pandas"]
        report.measured("trueput: gpu_activity", mine)
        report.measured("peer: pandas, running maximum", theirs)
        report.measured("ingest: keeping the stretches", found["making"])
        once = min(float(c.output) for c in found["making"])
        both = least_cpu(mine) + once
        report.note(
            f"of that without starting a process {once:.2f} CPU s; with the question {both:.2f}, "
            f"{least_cpu(theirs) / both:.2f} times less than the peer"
        )
        # the made devices are numbered in the order of their keys
        mine_ns = [busy for _, busy in json.loads(mine_out.read_text("utf-8"))]
        their_ns = list(json.loads(their_out.read_text("utf-8")).values())
        report.holds("same answer to the nanosecond", mine_ns == their_ns)
        for name, costs in (("a question", mine), ("making the stretches", found["making"])):
            less = least_cpu(theirs) / least_cpu(costs)
            report.bar(f"CPU, peer / {name}", less, LESS_CPU, at_least=True)
        report.bar("peak memory, peer / trueput", peak(theirs) / peak(mine), LESS_MEMORY,
                   at_least=True)  # fmt: skip
    finally:
        if temporary:
            temporary.cleanup()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
