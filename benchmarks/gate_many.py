"""A gate over many candidates, already ingested: CPU time and memory of the whole process.

A store of 50 candidates and a baseline, three repeats each, 10,000 requests a run: client rows and
four engine events per request. Bars: 60 CPU-seconds and 1 GB.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from measure import Report, arguments, cost, environment, made_store, python, work_folder

CANDIDATES, QUICK_CANDIDATES, REPEATS, REQUESTS = 50, 8, 3, 10_000
MOST_CPU_S, MOST_MIB = 60.0, 1e9 / (1 << 20)

GATE = """
import json, sys
from collections import Counter
from pathlib import Path
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading

store, sides = Path(sys.argv[1]), sys.argv[2:]
result = gate(sides[0], sides[1:], reading=Reading(store=store, slo="ttft=500ms,tpot=50ms"))
print(json.dumps({
    "verdicts": Counter(c.verdict.value for c in result.candidates),
    "findings": Counter(f.outcome.value for c in result.candidates for f in c.findings),
}))
"""


def sides(candidates: int) -> list[str]:
    """Return the configurations: the repeats of each, joined with commas."""
    names = [f"night-{i:02}" for i in range((candidates + 1) * REPEATS)]
    return [",".join(names[at : at + REPEATS]) for at in range(0, len(names), REPEATS)]


def main() -> int:
    """Gate once, and compare what it cost with the bars."""
    given = arguments(__doc__).parse_args()
    candidates = QUICK_CANDIDATES if given.quick else CANDIDATES
    report = Report(f"gate over {candidates} candidates x {REPEATS} x {REQUESTS:,} requests")
    temporary = work_folder(given.work)
    try:
        folder = given.work or Path(temporary.name if temporary else ".")
        runs = (candidates + 1) * REPEATS
        store = made_store(folder, f"gate-{runs}", "store.py", runs * REQUESTS, runs)
        found = cost(python("-c", GATE, store, *sides(candidates)), environment())
    finally:
        if temporary is not None:
            temporary.cleanup()
    report.measured("trueput gate", [found])
    told = json.loads(found.output.strip().splitlines()[-1])
    report.note(f"verdicts {told['verdicts']}, findings {told['findings']}")
    report.holds("every candidate has a verdict", sum(told["verdicts"].values()) == candidates)
    report.bar("CPU seconds", found.cpu_s, MOST_CPU_S)
    report.bar("peak MiB", found.peak_mib, MOST_MIB)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
