"""What a whole process cost: CPU time and peak memory of children, run in alternation.

Wall time is not looked at: on a shared machine it says more about the neighbours than about the
program. CPU time is user plus system of the child and of everything that it waited for. The
measuring process itself stays small, because a child's peak memory is never below its parent's at
the moment of the fork.
"""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE_ROOT = HERE.parent / "analysis"
MIB = 1 << 20


@dataclass(frozen=True)
class Cost:
    """One run of one command."""

    cpu_s: float
    peak_mib: float
    output: str


@cache
def _compiled() -> None:
    """Let the checkout have its byte code, as an installed package has."""
    compileall.compile_dir(SOURCE_ROOT / "trueput", quiet=1)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a child: trueput importable from the checkout, and compiled."""
    _compiled()
    paths = [str(SOURCE_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), **more}


def python(*words: str | Path) -> list[str]:
    """Return the command that runs this very Python."""
    return [sys.executable, *(str(word) for word in words)]


def made_store(folder: Path, name: str, script: str, *words: int) -> Path:
    """Return the store that `made/SCRIPT WORDS STORE` writes, made unless it is there.

    Not one of another version of trueput: its files may lack columns, and are read as such.
    """
    ask = python("-c", "from trueput.ingest.store import READER_VERSION as v; print(v)")
    version = subprocess.run(ask, env=environment(), check=True, capture_output=True, text=True)
    path = folder / f"{name}-v{version.stdout.strip()}"
    if not path.exists():
        scratch = path.with_suffix(".part")
        cost(python(HERE / "made" / script, *map(str, words), scratch), environment())
        scratch.rename(path)
    return path


def trueput(*words: str | Path) -> list[str]:
    """Return the command that runs trueput."""
    return python("-m", "trueput", *words)


def cost(command: Sequence[str], env: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and return what it cost. Raises RuntimeError when it fails."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=dict(env or environment())
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {child.returncode}\n{text[-4000:]}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text)


def in_turns(jobs: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    """Run every job once a round, one after the other: A B A B A B."""
    found: dict[str, list[Cost]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            found[name].append(job())
    return found


def least_cpu(costs: Sequence[Cost]) -> float:
    """Return the least CPU time: what is above it is the machine's doing."""
    return min(c.cpu_s for c in costs)


def peak(costs: Sequence[Cost]) -> float:
    """Return the highest peak memory, in MiB."""
    return max(c.peak_mib for c in costs)


@dataclass
class Report:
    """The figures of one benchmark, and whether each holds its bar."""

    title: str
    lines: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def measured(self, name: str, costs: Sequence[Cost]) -> None:
        """Add the row of one program."""
        every = " ".join(f"{c.cpu_s:.2f}" for c in costs)
        self.lines.append(
            f"{name:34} {least_cpu(costs):8.2f} CPU s {peak(costs):8.0f} MiB   ({every})"
        )

    def note(self, text: str) -> None:
        """Add a line of text."""
        self.lines.append(text)

    def bar(self, name: str, value: float, limit: float, *, at_least: bool = False) -> None:
        """Add a figure that must stay on its side of `limit`."""
        good = value >= limit if at_least else value <= limit
        sign = ">=" if at_least else "<="
        word = "ok" if good else "MISSED"
        self.lines.append(f"{name:52} {value:8.2f}  (bar {sign} {limit:g})  {word}")
        if not good:
            self.missed.append(name)

    def holds(self, name: str, good: bool) -> None:
        """Add a condition that must be true."""
        self.lines.append(f"{name:52} {'ok' if good else 'MISSED'}")
        if not good:
            self.missed.append(name)

    def finish(self) -> int:
        """Print everything and return the exit code: 1 when a bar was missed."""
        print(self.title)
        for line in self.lines:
            print("  " + line)
        print("every bar holds" if not self.missed else f"missed: {', '.join(self.missed)}")
        return 1 if self.missed else 0


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small pair instead of three")
    parser.add_argument("--rounds", type=int, default=3, help="how often each program runs")
    parser.add_argument("--work", type=Path, help="folder for inputs, kept for the next time")
    return parser


def work_folder(chosen: Path | None) -> tempfile.TemporaryDirectory[str] | None:
    """Return a temporary folder unless one was chosen."""
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        return None
    return tempfile.TemporaryDirectory(prefix="trueput-bench-")
