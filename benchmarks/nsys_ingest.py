"""Ingest of an nsys SQLite export against sqlite3 with fetchmany and pyarrow: CPU and peak memory.

The product hashes the file, claims it, resolves names, tells launches from other calls, and writes
the store; the peer converts the numbers of two tables. Bars: at least 3 times less CPU; a peak
under 300 MB; five times the rows take at most 1.15 times the peak.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from measure import (
    HERE,
    Cost,
    Report,
    arguments,
    cost,
    environment,
    in_turns,
    least_cpu,
    peak,
    python,
    trueput,
    work_folder,
)

ROWS, FEWER, QUICK_ROWS, QUICK_FEWER = 10_000_000, 2_000_000, 1_000_000, 200_000
LESS_CPU, PEAK_MIB, GROWTH = 3.0, 300e6 / (1 << 20), 1.15


def export_of(rows: int, folder: Path) -> Path:
    """Return an export of that many kernels and calls, made when it is not there."""
    path = folder / f"export-{rows}.sqlite"
    if not path.exists():
        scratch = path.with_suffix(".part")
        cost(python(HERE / "made" / "nsys_export.py", rows, scratch))
        scratch.replace(path)
    return path


def ingest(export: Path, folder: Path) -> Cost:
    """Ingest into a fresh store."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    return cost(trueput("ingest", export, "--store", store), environment(NO_COLOR="1"))


def peer(export: Path, folder: Path, *more: str) -> Cost:
    """Run the peer."""
    out = folder / "peer"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    return cost(python(HERE / "peers" / "nsys_with_sqlite3.py", export, out, *more))


def stored_rows(store: Path) -> int:
    """Return the operations and launches that the manifest counts."""
    manifest = json.loads(next((store / "_runs").glob("*.json")).read_text("utf-8"))
    return int(manifest["rows"]["gpu_ops"]) + int(manifest["rows"]["gpu_launches"])


def main() -> int:
    """Run the benchmark."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, help="kernels, and as many calls")
    options = parser.parse_args()
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    fewer = min(QUICK_FEWER if options.quick else FEWER, rows // 5)
    rounds = 1 if options.quick else options.rounds
    with_temporary = work_folder(options.work)
    folder = Path(with_temporary.name) if with_temporary else options.work
    report = Report(f"nsys ingest, {rows:,} kernels and {rows:,} calls")
    try:
        export = export_of(rows, folder)
        report.note(f"{export.stat().st_size / 1e6:.0f} MB of SQLite")
        found = in_turns(
            {
                "trueput": lambda: ingest(export, folder),
                "peer": lambda: peer(export, folder),
                "few": lambda: peer(export, folder, "--few"),
            },
            rounds,
        )
        mine, theirs, few = found["trueput"], found["peer"], found["few"]
        converted = int(re.findall(r"\d+", theirs[0].output)[-1])
        report.measured("trueput ingest", mine)
        report.measured("peer: fetchmany, 18 + 7 columns", theirs)
        report.measured("peer: fetchmany, 9 + 5 columns", few)
        report.holds("no row is lost", stored_rows(folder / "store") == converted)
        report.bar("CPU, peer / trueput", least_cpu(theirs) / least_cpu(mine), LESS_CPU,
                   at_least=True)  # fmt: skip
        report.note(
            f"CPU, peer of the same columns / trueput {least_cpu(few) / least_cpu(mine):.2f}"
        )
        short = ingest(export_of(fewer, folder), folder)
        report.measured(f"trueput ingest, {fewer:,} kernels", [short])
        report.bar("peak MiB over all sizes", peak([*mine, short]), PEAK_MIB)
        report.bar(f"peak, {rows:,} / {fewer:,} kernels", peak(mine) / short.peak_mib, GROWTH)
    finally:
        if with_temporary:
            with_temporary.cleanup()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
