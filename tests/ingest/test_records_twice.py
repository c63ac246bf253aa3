"""A file that holds records twice says what it says without the copies, and that there are some."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ingest.traces import Held, kernel, launched, write
from simulator import SCENARIOS, simulate, write_run

import trueput

VIEWS = ("gpu_activity", "gpu_ledger", "gpu_idle", "gpu_range_projection", "recompute")


def kineto(run: Path) -> int:
    """Append all events of each rank to its own; return how many operations that are."""
    count = 0
    for path in run.rglob("*.pt.trace.json.gz"):
        text = gzip.decompress(path.read_bytes()).decode()
        head, rest = text.split('"traceEvents": [\n', 1)
        events, tail = rest.split("\n],", 1)
        count += sum(events.count(f'"cat": "{c}"') for c in ("kernel", "gpu_memcpy", "gpu_memset"))
        whole = f'{head}"traceEvents": [\n{events},\n{events}\n],{tail}'
        path.write_bytes(gzip.compress(whole.encode(), 1))
    return count


def nsys(run: Path) -> int:
    """Insert some rows of each table of operations once more."""
    (path,) = run.glob("*.sqlite")
    with sqlite3.connect(path) as connection:
        count = 0
        for kind, share in (("KERNEL", 1), ("MEMCPY", 3), ("MEMSET", 2)):
            table = f"CUPTI_ACTIVITY_KIND_{kind}"
            copied = connection.execute(
                f"INSERT INTO {table} SELECT * FROM {table} WHERE rowid % {share} = 0"
            )
            count += copied.rowcount
    connection.close()
    return count


FORMS: dict[str, tuple[str, Callable[[Path], int]]] = {
    "kineto": ("kineto", kineto),
    "nsys_node": ("nsys_node", nsys),
    "nsys_graph": ("nsys_graph", nsys),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """One simulated run in each form, as it is and doubled; and how many operations were added."""
    folder = tmp_path_factory.mktemp("twice")
    run = simulate(SCENARIOS["tiny"], seed=1)
    added = {}
    for name, (profile, double) in FORMS.items():
        clean, twice = folder / "runs" / name, folder / "runs" / f"{name}_twice"
        write_run(run, clean, profiles=[profile], with_telemetry=False, compresslevel=1)
        shutil.copytree(clean, twice)
        added[name] = double(twice)
    trueput.ingest([folder / "runs"], store=folder / "store")
    return folder / "store", added


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("name", FORMS)
def test_figures_are_those_without_the_copies(
    store: tuple[Path, dict[str, int]], name: str
) -> None:
    reading, added = trueput.Reading(store=store[0]), store[1][name]
    for view in VIEWS:
        rows: dict[str, list[Any]] = {name: [], f"{name}_twice": []}
        for row in trueput.sql(f"SELECT * FROM {view} ORDER BY ALL", reading).dicts():
            if (run := row.pop("run_id")) in rows:
                rows[run].append(row)
        assert rows[name] == rows[f"{name}_twice"], view
        assert rows[name] or view == "gpu_range_projection"
    told = trueput.sql(
        f"SELECT code, sum(occurrences) FROM problems WHERE run_id = '{name}_twice' AND code NOT IN"
        f" (SELECT code FROM problems WHERE run_id = '{name}') GROUP BY code",
        reading,
    ).rows
    assert [code for code, _ in told] == ["INGEST014"]
    marked = "SELECT run_id, count(*) FROM gpu_ops WHERE quality = 'duplicate' AND run_id"
    assert trueput.sql(f"{marked} LIKE '{name}%' GROUP BY 1", reading).rows == [
        (f"{name}_twice", added)
    ]


SMI = "timestamp, index, utilization.gpu [%], power.draw [W]\n" + "".join(
    f"2026/01/01 12:00:{n:02}.000, {gpu}, {50 + n} %, {500 + n}.5 W\n"
    for n in range(10)
    for gpu in (0, 1)
)
LATER = SMI.replace(":0", ":3")
DMON = "#Date       Time        gpu    pwr\n#YYYYMMDD   HH:MM:SS    Idx      W\n" + "".join(
    f" 20260101   12:00:0{n}      0    500\n" for n in range(5)
)


@pytest.mark.long(besides=2)
@pytest.mark.parametrize(
    ("text", "samples", "twice"),
    [
        pytest.param(SMI, 40, 0, id="as it is"),
        pytest.param(SMI + SMI, 40, 40, id="appended to itself"),
        pytest.param(SMI + LATER, 80, 0, id="another half minute"),
        pytest.param(SMI + SMI[len(SMI) // 2 :].partition("\n")[2] + LATER, 80, 20, id="in part"),
        pytest.param(SMI + SMI.replace("500.5", "501.5"), 42, 38, id="another value"),
        # of seconds alone, two samples may lie in one
        pytest.param(DMON + DMON.partition("Idx      W\n")[2], 10, 0, id="a coarse clock"),
        pytest.param(SMI.replace("index, ", "driver, ") * 2, 80, 0, id="an unknown device"),
    ],
)
def test_samples_count_once(tmp_path: Path, text: str, samples: int, twice: int) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "gpu.csv").write_text(text)
    held = Held(tmp_path / "run")
    assert held.rows("SELECT count(*) FROM gpu_samples") == [(samples,)]
    assert held.told.get("INGEST014", 0) == twice
    rows = held.rows("SELECT record_rows FROM sources WHERE source_id = 'gpu.csv'")
    assert rows == [(samples,)]


def test_short_ones_that_nothing_tells_apart(tmp_path: Path) -> None:
    """Two memsets of no length in one microsecond, whose launches are not known, are two."""
    short = {**kernel(5, 0), "cat": "gpu_memset", "dur": 0, "name": "Memset (Device)"}
    known = {**kernel(6, 77), "cat": "gpu_memset", "dur": 0, "name": "Memset (Device)"}
    events = [*launched(range(1, 11), range(1, 11)), short, short, known, known]
    write(tmp_path / "run" / "t.pt.trace.json", events)
    assert Held(tmp_path / "run").told["INGEST014"] == 1
