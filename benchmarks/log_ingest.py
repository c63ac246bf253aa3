"""Log ingest against a careful script with `re`: CPU, peak memory, and memory as the log grows.

The product hashes the file, claims it, parses it, attributes the engine's record and writes the
store; the peer only parses and writes. Bars, for a log of 5 million lines: at least 2.5 times less
CPU; a peak under 300 MB, at most 1.15 times that of a log a quarter as long. A log of 1.5 million
lines is measured beside it: what it costs to start weighs more there.
"""

from __future__ import annotations

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

LONG, MIDDLE, SHORT = 5_000_000, 1_500_000, 1_250_000
QUICK_LONG, QUICK_MIDDLE, QUICK_SHORT = 1_600_000, 600_000, 400_000
LESS_CPU, PEAK_MIB, GROWTH = 2.5, 300e6 / (1 << 20), 1.15


def log_of(lines: int, folder: Path) -> Path:
    """Return a log of that many lines, made when it is not there."""
    path = folder / f"server-{lines}.log"
    if not path.exists():
        scratch = path.with_suffix(".part")
        cost(python(HERE / "made" / "server_log.py", lines, scratch))
        scratch.replace(path)
    return path


def ingest(log: Path, folder: Path) -> Cost:
    """Ingest into a fresh store."""
    store = folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    return cost(trueput("ingest", log, "--store", store), environment(NO_COLOR="1"))


def peer(log: Path, folder: Path) -> Cost:
    """Run the peer."""
    out = folder / "peer.parquet"
    out.unlink(missing_ok=True)
    return cost(python(HERE / "peers" / "log_with_re.py", log, out))


def both(log: Path, folder: Path, rounds: int, report: Report) -> tuple[list[Cost], list[Cost]]:
    """Run the product and the peer in turns; report what they cost."""
    found = in_turns(
        {"trueput": lambda: ingest(log, folder), "re": lambda: peer(log, folder)}, rounds
    )
    report.note(f"{log.stat().st_size / 1e6:.0f} MB of log")
    report.measured("trueput ingest", found["trueput"])
    report.measured("peer: re behind literal guards", found["re"])
    return found["trueput"], found["re"]


def stored_rows(store: Path) -> int:
    """Return the rows of steps, events and samples that the manifest counts."""
    import json

    manifest = json.loads(next((store / "_runs").glob("*.json")).read_text("utf-8"))
    return sum(manifest["rows"][t] for t in ("engine_steps", "request_events"))


def main() -> int:
    """Run the benchmark."""
    options = arguments(__doc__).parse_args()
    long, middle, short = (
        (QUICK_LONG, QUICK_MIDDLE, QUICK_SHORT) if options.quick else (LONG, MIDDLE, SHORT)
    )
    rounds = 1 if options.quick else 3
    with_temporary = work_folder(options.work)
    folder = Path(with_temporary.name) if with_temporary else options.work
    report = Report(f"log ingest, {long:,} lines")
    try:
        mine, theirs = both(log_of(long, folder), folder, rounds, report)
        kept = stored_rows(folder / "store")
        parsed = int(re.findall(r"\d+", theirs[0].output)[-1])
        report.note(f"rows: {kept:,} steps and events in the store, {parsed:,} lines of the peer")
        report.holds("no line of a known kind is lost", 0.98 * parsed <= kept)
        report.bar("CPU, peer / trueput", least_cpu(theirs) / least_cpu(mine), LESS_CPU,
                   at_least=True)  # fmt: skip
        small = ingest(log_of(short, folder), folder)
        report.measured(f"trueput ingest, {short:,} lines", [small])
        report.bar("peak MiB", peak([*mine, small]), PEAK_MIB)
        report.bar(f"peak, {long:,} / {short:,} lines", peak(mine) / small.peak_mib, GROWTH)
        report.bar(f"CPU per line, {long:,} / {short:,} lines",
                   least_cpu(mine) / small.cpu_s / (long / short), 1.25)  # fmt: skip
        mine, theirs = both(log_of(middle, folder), folder, rounds, report)
        ratio = least_cpu(theirs) / least_cpu(mine)
        report.note(f"CPU, peer / trueput, {middle:,} lines: {ratio:.2f}")
    finally:
        if with_temporary:
            with_temporary.cleanup()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
