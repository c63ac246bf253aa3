"""Scrapes that hold a part of a recorded run, or lie one in each file, give no wrong recompute.

Of regress_candidate its log schedules 59,687 tokens; its 60 requests have 34,779 prompt tokens and
7,680 output tokens, none of them cached: 59,687 - (34,779 + 7,680 - 60) = 17,288 were computed
again, with 30 preemptions. Its baseline had none.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueput.verbs.opening import Reading
from trueput.verbs.show import show
from trueput.verbs.sql import sql

AGAIN, SCHEDULED, PREEMPTED = 17_288, 59_687, 30
MARK = re.compile(r"^# SCRAPE (\d+\.\d+) .*\n", re.MULTILINE)

Scrapes = list[tuple[float, str]]


def scrapes_of(run: Path) -> Scrapes:
    """Return when each scrape was taken, and its text."""
    with gzip.open(run / "metrics.prom.gz", "rt") as file:
        pieces = MARK.split(file.read())[1:]
    return [(float(at), text) for at, text in zip(pieces[::2], pieces[1::2], strict=True)]


def by_name(folder: Path, held: Scrapes) -> None:
    for at, text in held[:: len(held) // 4] + held[-1:]:
        (folder / f"metrics_{at:.0f}.prom").write_text(text)


def by_modification(folder: Path, held: Scrapes) -> None:
    for name, (at, text) in {"before": held[0], "after": held[-1]}.items():
        path = folder / f"{name}.prom"
        path.write_text(text)
        os.utime(path, (at, at))


def one_afterwards(folder: Path, held: Scrapes) -> None:
    by_modification(folder, held)
    (folder / "before.prom").unlink()


def marked(folder: Path, held: Scrapes) -> None:
    text = "".join(f"# SCRAPE {at:.6f} 2026\n{text}" for at, text in held)
    (folder / "metrics.prom").write_text(text)


def without_starts(held: Scrapes) -> Scrapes:
    """Leave out what says when the process began."""
    return [(at, re.sub(r"^process_start_time_seconds .*\n", "", x, flags=re.M)) for at, x in held]


def run_of(fixtures: Path, folder: Path, put: Callable[[Path, Scrapes], None]) -> dict[str, Any]:
    """Make the run with the scrapes that `put` leaves, and return its recompute."""
    source = fixtures / "vllm_cpu" / "regress_candidate"
    folder.mkdir()
    for file in ("run.toml", "bench.json", "server.log.gz", "otlp.jsonl.gz"):
        shutil.copyfile(source / file, folder / file)
    put(folder, scrapes_of(source))
    return recompute_of(folder)


def recompute_of(folder: Path) -> dict[str, Any]:
    reading = Reading(store=folder.parent / "store")
    (row,) = show(str(folder), reading)["recompute"]
    told = sql("SELECT code FROM problems WHERE code = 'ATTR017'", reading).dicts()
    return {**row, "is_told": bool(told)}


@pytest.mark.parametrize(
    "put", [by_name, by_modification, one_afterwards, lambda f, x: marked(f, x[len(x) // 2 :])]
)
def test_counters_known_from_the_start_give_all_of_it(
    fixtures: Path, tmp_path: Path, put: Callable[[Path, Scrapes], None]
) -> None:
    row = run_of(fixtures, tmp_path / "run", put)
    assert (row["recomputed_tokens"], row["preemptions"]) == (AGAIN, PREEMPTED)
    assert row["recomputed_tokens_low"] == row["recomputed_tokens_high"] == AGAIN
    assert (row["method"], row["is_told"]) == ("conservation", False)


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[: len(x) // 2],
        lambda x: x[:-10],
        lambda x: without_starts(x[len(x) // 2 :]),
        lambda x: without_starts(x[-1:]),
    ],
    ids=["first half", "all but the last", "second half", "the last"],
)
def test_counters_of_a_part_are_no_balance(
    fixtures: Path, tmp_path: Path, part: Callable[[Scrapes], Scrapes]
) -> None:
    row = run_of(fixtures, tmp_path / "run", lambda folder, held: marked(folder, part(held)))
    assert row["is_told"]
    assert row["preemptions"] is None
    assert row["method"] != "conservation" or row["basis"] == "bounded"
    assert row["recomputed_tokens"] in (None, AGAIN)
    assert row["recomputed_tokens_low"] <= AGAIN <= (row["recomputed_tokens_high"] or SCHEDULED)


def test_a_life_that_was_not_scraped_is_not_recompute(fixtures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(fixtures / "vllm_cpu" / "regress_candidate", folder)
    folder.chmod(0o755)
    (folder / "server.log.gz").unlink()
    both = b""
    for run in ("regress_baseline", "regress_candidate"):
        both += gzip.decompress((fixtures / "vllm_cpu" / run / "server.log.gz").read_bytes())
    (folder / "server.log").write_bytes(both)
    row = recompute_of(folder)
    assert row["is_told"]
    assert (row["basis"], row["recomputed_tokens"], row["preemptions"]) == ("bounded", None, None)
    assert row["recomputed_tokens_low"] <= AGAIN < row["recomputed_tokens_high"]
