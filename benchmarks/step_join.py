"""Which step launched which operation: trueput's SQL against the same job as a range join.

10 million kernels, their launching calls and 200 000 annotated steps. Both sides read the same
Parquet files and count operations and time of every step, from start-up to answer; totals and a
hash of all steps are compared. trueput matches file, process and thread as well; the peer, DuckDB's
join for inequalities, knows that there is only one of each. Bars: at least 2.5 times less CPU, the
same answer.
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
LESS_CPU = 2.5


def main() -> int:
    """Run the benchmark."""
    options = arguments(__doc__).parse_args()
    operations = QUICK_OPERATIONS if options.quick else OPERATIONS
    temporary = work_folder(options.work)
    folder = Path(temporary.name) if temporary else options.work
    report = Report(f"step join, {operations:,} operations, {operations // 50:,} steps")
    try:
        store = made_store(folder, f"gpu-{operations}", "gpu_store.py", operations)
        mine_out, their_out = folder / "steps-views.json", folder / "steps-range.json"
        views, ranges = HERE / "peers" / "gpu_by_views.py", HERE / "peers" / "steps_by_range.py"
        found = in_turns(
            {
                "views": lambda: cost(python(views, "steps", store, mine_out), environment()),
                "range": lambda: cost(python(ranges, store, their_out), environment()),
            },
            1 if options.quick else options.rounds,
        )
        mine, theirs = found["views"], found["range"]
        report.measured("trueput: int_gpu_op_steps", mine)
        report.measured("peer: DuckDB, range join", theirs)
        answers = [json.loads(out.read_text("utf-8")) for out in (mine_out, their_out)]
        report.holds("same answer", answers[0] == answers[1])
        report.bar("CPU, peer / trueput", least_cpu(theirs) / least_cpu(mine), LESS_CPU,
                   at_least=True)  # fmt: skip
        report.note(f"peak memory, peer / trueput {peak(theirs) / peak(mine):.2f}")
    finally:
        if temporary:
            temporary.cleanup()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
