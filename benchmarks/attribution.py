"""Phases and latencies of many requests: trueput's public views against a pandas program.

A store of client rows and four engine events per request, in 50 runs. Both sides give the time in
each phase and the percentiles of TTFT, TPOT and end-to-end time of every run; their answers are
compared. The peer reads the events, the views what ingest has grouped of them for every question;
grouping them, by ingest's own code, is measured beside it, and both are added up. Bars: a question
over 10 million requests takes at least 3 times less CPU, over fewer 2.5 times (starting, planning
and the percentiles' few rows weigh more there), and a third of the peak memory, and gives the same
answer with `memory_limit` 1 GB at a peak of at most 1.1 GB.

`--full` takes 10 million requests (about 15 GB of memory for the peer).
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from measure import (
    HERE,
    Cost,
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

REQUESTS, QUICK_REQUESTS, FULL_REQUESTS, RUNS = 3_000_000, 500_000, 10_000_000, 50
LESS_CPU, LESS_CPU_OF_FEWER, LESS_MEMORY = 3.0, 2.5, 3.0
LIMIT, LIMITED_PEAK_MIB = "1GB", 1.1e9 / (1 << 20)


def by_views(store: Path, out: Path, limit: str = "") -> Cost:
    """Run trueput's side."""
    words = [limit] if limit else []
    return cost(python(HERE / "peers" / "phases_by_views.py", store, out, *words), environment())


def by_pandas(store: Path, out: Path) -> Cost:
    """Run the peer."""
    return cost(python(HERE / "peers" / "phases_by_pandas.py", store, out), environment())


def grouping(store: Path, folder: Path) -> Cost:
    """Group the events as ingest does."""
    folder.mkdir(exist_ok=True)
    return cost(python(HERE / "made" / "instants.py", store, folder), environment())


def flat(answer: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return every number of an answer by run and name; a phase that no run has is left out."""
    found = {(run, phase): time for run, phase, time in answer["phases"] if time}
    for run, requests, *metrics in answer["latencies"]:
        found[run, "requests"] = requests
        for name, values in zip(("ttft", "tpot", "e2e"), metrics, strict=True):
            found.update({(run, f"{name} {i}"): v for i, v in enumerate(values)})
    return found


def same(one: Path, other: Path) -> bool:
    """Return whether two answers agree: integers exactly, percentiles to rounding."""
    a, b = (flat(json.loads(p.read_text("utf-8"))) for p in (one, other))
    return a.keys() == b.keys() and all(math.isclose(a[k], b[k], rel_tol=1e-9) for k in a)


def main() -> int:
    """Run the benchmark."""
    parser = arguments(__doc__)
    parser.add_argument("--full", action="store_true", help="10 million requests")
    options = parser.parse_args()
    requests = QUICK_REQUESTS if options.quick else FULL_REQUESTS if options.full else REQUESTS
    temporary = work_folder(options.work)
    folder = Path(temporary.name) if temporary else options.work
    report = Report(f"attribution, {requests:,} requests, {4 * requests:,} events, {RUNS} runs")
    try:
        store = made_store(folder, f"store-{requests}", "store.py", requests, RUNS)
        outs = {n: folder / f"{n}.json" for n in ("views", "pandas", "limited")}
        found = in_turns(
            {
                "views": lambda: by_views(store, outs["views"]),
                "pandas": lambda: by_pandas(store, outs["pandas"]),
                "limited": lambda: by_views(store, outs["limited"], LIMIT),
                "grouping": lambda: grouping(store, folder / "instants"),
            },
            1 if options.quick else options.rounds,
        )
        views, pandas, limited = found["views"], found["pandas"], found["limited"]
        report.measured("trueput: run_phases, request_outcomes", views)
        report.measured("peer: pandas", pandas)
        report.measured(f"trueput, memory_limit {LIMIT}", limited)
        report.measured("ingest: grouping the events", found["grouping"])
        once = min(float(c.output) for c in found["grouping"])
        both = least_cpu(views) + once
        report.note(
            f"of that without starting a process {once:.2f} CPU s; with the question {both:.2f}, "
            f"{least_cpu(pandas) / both:.2f} times less than the peer"
        )
        report.holds("same answer as the peer", same(outs["views"], outs["pandas"]))
        report.holds("same answer under the memory limit", same(outs["views"], outs["limited"]))
        less = LESS_CPU if requests == FULL_REQUESTS else LESS_CPU_OF_FEWER
        report.bar("CPU, peer / trueput", least_cpu(pandas) / least_cpu(views), less,
                   at_least=True)  # fmt: skip
        report.bar("peak memory, peer / trueput", peak(pandas) / peak(views), LESS_MEMORY,
                   at_least=True)  # fmt: skip
        report.bar(f"peak MiB, memory_limit {LIMIT}", peak(limited), LIMITED_PEAK_MIB)
    finally:
        if temporary:
            temporary.cleanup()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
