"""A long seeded run of damaged files through ingest: no crash, no hang, bounded memory.

Each variant is a recorded file damaged in one way (see tests/robustness/damaged.py), written under
its own name or another, ingested into a fresh store in a worker process that has a limit on its
address space and a limit of time per file. A reader that fails (problem INGEST001), an error that
is not meant for the user, a worker that dies and a file that takes too long are each printed with
the number that makes the variant again: `fuzz.py --seed S --only N`.

Fixture files are found through TRUEPUT_FIXTURES.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from measure import HERE, environment, python

VARIANTS, QUICK_VARIANTS = 3000, 200
FILE_SECONDS = 20.0
ADDRESS_SPACE = 6 << 30
PEAK_MIB = 900
BATCH = 250


def make(seed: int, index: int, root: Path, folder: Path) -> tuple[Path, str]:
    """Write one variant and return it and what was done to which file."""
    from damaged import DAMAGES, kinds, name_for, opened  # type: ignore[import-not-found]

    rnd = random.Random(f"{seed}-{index}")
    found = kinds(root)
    names = sorted(found)
    kind = names[index % len(names)]
    damage = rnd.choice(DAMAGES)
    other = found[rnd.choice(names)]
    data = damage(opened(found[kind]), opened(other), rnd)
    path: Path = folder / name_for(found[kind], damage, rnd)
    path.write_bytes(data)
    return path, f"{damage.__name__} {kind}"


def work(seed: int, first: int, last: int, root: Path) -> None:
    """Ingest the variants first..last-1, one line of JSON each on stdout."""
    sys.path.insert(0, str(HERE.parent / "tests" / "robustness"))
    from trueput.errors import TrueputError
    from trueput.verbs.ingest import ingest

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for index in range(first, last):
        with tempfile.TemporaryDirectory(prefix="trueput-fuzz-") as scratch:
            path, what = make(seed, index, root, Path(scratch))
            print(json.dumps({"begin": index, "what": what}), flush=True)
            began = time.monotonic()
            told: dict[str, object] = {"end": index}
            try:
                (done,) = ingest([path], run="fuzz", store=Path(scratch) / "store")
                told |= {"claimed": True, "problems": done.problems, "usable": done.usable}
                told["failed"] = "INGEST001" in codes(Path(scratch) / "store")
            except TrueputError:
                told["claimed"] = False
            except BaseException as error:  # noqa: BLE001  that is what is looked for
                told["error"] = f"{type(error).__name__}: {error}"[:300]
            told["seconds"] = round(time.monotonic() - began, 3)
            told["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(json.dumps(told), flush=True)


def codes(store: Path) -> set[str]:
    """Return the problem codes of a store."""
    import pyarrow.parquet as pq

    parts = store.glob("problems/*/*.parquet")
    return {code for p in parts for code in pq.read_table(p).column("code").to_pylist()}


class Tally:
    """What came of the variants so far."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.bad: list[str] = []
        self.peak_mib = 0
        self.slowest = 0.0
        self.at = 0
        self.what = ""

    def line(self, text: str) -> None:
        """Take a line of a worker."""
        told = json.loads(text)
        if "begin" in told:
            self.at, self.what = told["begin"], told["what"]
            return
        self.counts["variants"] += 1
        self.peak_mib = max(self.peak_mib, told["peak_mib"])
        self.slowest = max(self.slowest, told["seconds"])
        if "error" in told:
            self.wrong(told["error"])
        elif told["claimed"]:
            self.counts["read"] += 1
            self.counts["with problems"] += told["problems"] > 0
            self.counts["unusable"] += not told["usable"]
            self.counts["problems"] += told["problems"]
            if told["failed"]:
                self.wrong("a reader failed (INGEST001)")
        else:
            self.counts["not claimed"] += 1
        if told["seconds"] > FILE_SECONDS:
            self.wrong(f"took {told['seconds']} s")

    def wrong(self, text: str) -> None:
        """Note a variant that went wrong."""
        self.counts["WRONG"] += 1
        self.bad.append(f"variant {self.at} ({self.what}): {text}")


def watch(seed: int, first: int, last: int, tally: Tally) -> int:
    """Run one worker over first..last-1 and return the variant to go on with."""
    words = ["--worker", f"{first}:{last}", "--seed", str(seed)]
    worker = subprocess.Popen(
        python(Path(__file__).resolve(), *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(POLARS_MAX_THREADS="2"), text=True,
    )  # fmt: skip
    assert worker.stdout is not None
    assert worker.stderr is not None
    import select

    while select.select([worker.stdout], [], [], 6 * FILE_SECONDS)[0]:
        line = worker.stdout.readline()
        if not line:
            break
        tally.line(line)
        tally.counts["open"] = int("begin" in line)
    else:
        worker.kill()
        tally.wrong("hangs")
    code = worker.wait()
    if tally.counts.pop("open", 0):
        if code != -9:
            tally.wrong(f"the worker died with {code}: {worker.stderr.read()[-300:]}")
        return tally.at + 1
    return last


def main() -> int:
    """Run the fuzz run."""
    parser = argparse.ArgumentParser(description="damaged files through ingest")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_VARIANTS} variants")
    parser.add_argument("--variants", type=int, default=VARIANTS)
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--only", type=int, help="one variant, whose file is kept and named")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    named = os.environ.get("TRUEPUT_FIXTURES")
    if named is None:
        print("TRUEPUT_FIXTURES is not set")
        return 2
    root = Path(named)
    if options.worker:
        first, _, last = options.worker.partition(":")
        work(options.seed, int(first), int(last), root)
        return 0
    if options.only is not None:
        sys.path.insert(0, str(HERE.parent / "tests" / "robustness"))
        print(*make(options.seed, options.only, root, Path(tempfile.mkdtemp())))
        return 0
    count = QUICK_VARIANTS if options.quick else options.variants
    tally, at = Tally(), 0
    while at < count:
        at = watch(options.seed, at, min(at + BATCH, count), tally)
    print(f"seed {options.seed}: " + ", ".join(f"{v} {k}" for k, v in tally.counts.items() if v))
    print(f"slowest file {tally.slowest:.1f} s, peak {tally.peak_mib} MiB (bar {PEAK_MIB})")
    for text in tally.bad:
        print("  " + text)
    return 1 if tally.bad or tally.peak_mib > PEAK_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
