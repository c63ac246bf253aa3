"""What the tests of the GPU sources share: reading a file whole, cases, fixtures, interval unions.

A case is a folder with one input file, `expected.json`, and perhaps `run.toml`; `expected.json`
holds the rows by table (without NULLs), the problems, the clock and the facts.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fixture_folder import fixture_folder

from trueput.arrow import conform
from trueput.scan import plain_name, read_head
from trueput.source_api import HEAD_BYTES, Batch, Clock, Fact, Item, Problem, ReadOptions, Source

MTIME_NS = 1_700_000_000_000_000_000


def read_items(source: Source, path: Path, options: ReadOptions | None = None) -> list[Item]:
    """Everything that the source yields for a file."""
    return list(source.read(path, options or ReadOptions(mtime_ns=MTIME_NS)))


def rows_of(items: Iterable[Item]) -> dict[str, list[dict[str, Any]]]:
    """All rows by table, conformed to the schema, without the ids that ingest gives."""
    found: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        if isinstance(item, Batch):
            rows = conform(item.table, item.rows, {"run_id": "r", "source_id": "s"}).to_pylist()
            for row in rows:
                del row["run_id"], row["source_id"]
            found.setdefault(item.table, []).extend(rows)
    return found


def rows(source: Source, path: Path, options: ReadOptions | None = None) -> dict[str, Any]:
    """All rows of a file by table."""
    return rows_of(read_items(source, path, options))


def problems_of(items: Iterable[Item]) -> dict[str, int]:
    """How often each problem code occurred."""
    return {item.code: item.count for item in items if isinstance(item, Problem)}


def outcome(source: Source, path: Path, options: ReadOptions) -> dict[str, Any]:
    """What a case's expected.json holds."""
    items = read_items(source, path, options)
    [clock] = [item for item in items if isinstance(item, Clock)]
    return {
        "rows": {
            table: [{k: v for k, v in row.items() if v is not None} for row in found]
            for table, found in rows_of(items).items()
        },
        "problems": [
            f"{p.code} {p.severity.value} line {p.line} x{p.count}"
            for p in items
            if isinstance(p, Problem)
        ],
        "clock": clock.kind.value,
        "facts": {f.key: f.value for f in items if isinstance(f, Fact)},
    }


def cases(test_file: str) -> list[Path]:
    """The case folders beside a test file."""
    return sorted((Path(test_file).parent / "cases").iterdir())


def input_of(case: Path) -> Path:
    """The input file of a case."""
    [path] = [p for p in case.iterdir() if p.name not in ("expected.json", "run.toml")]
    return path


def check_case(source: Source, case: Path) -> None:
    """Compare a case with its expectation; its input is claimed, its codes are known."""
    path = input_of(case)
    toml = case / "run.toml"
    run_toml = tomllib.loads(toml.read_text()) if toml.exists() else {}
    options = ReadOptions(run_toml=run_toml, mtime_ns=MTIME_NS, relative_path=path.name)
    found = outcome(source, path, options)
    if os.environ.get("TRUEPUT_WRITE_EXPECTED"):
        (case / "expected.json").write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads((case / "expected.json").read_text())
    if not run_toml:
        assert source.sniff(plain_name(path.name), read_head(path, HEAD_BYTES)).score >= 0.5
    assert {line.split()[0] for line in found["problems"]} <= set(source.problem_codes)
    assert set(found["rows"]) <= set(source.tables)


def check_bytes(source: Source, data: bytes, name: str = "input.txt") -> dict[str, Any]:
    """Read any bytes: nothing is raised, rows fit their schema, codes are documented."""
    source.sniff(name, data[:HEAD_BYTES])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        items = read_items(source, path)
    assert set(problems_of(items)) <= set(source.problem_codes)
    assert sum(isinstance(item, Clock) for item in items) == 1
    return rows_of(items)


def fixture(name: str) -> Path:
    """A recorded GPU file; the test is skipped where the fixtures are not given."""
    return fixture_folder("gpu") / name


def span_facts(found: list[dict[str, Any]]) -> dict[str, int]:
    """Count, sum and union of intervals, and the span from the first start to the last end."""
    spans = sorted((row["start_at_ns"], row["end_at_ns"]) for row in found)
    union, reached = 0, spans[0][0]
    for start, end in spans:
        union += max(0, end - max(start, reached))
        reached = max(reached, end)
    return {
        "rows": len(spans),
        "sum_ns": sum(end - start for start, end in spans),
        "union_ns": union,
        "span_ns": reached - spans[0][0],
    }


def check_cut_archive(source: Source, data: bytes, name: str) -> tuple[dict[str, int], Any]:
    """Read a gzip file that lacks its end: the problems and the rows before the damage."""
    packed = gzip.compress(data, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.gz"
        path.write_bytes(packed[: len(packed) * 2 // 3])
        items = read_items(source, path)
    assert set(problems_of(items)) <= set(source.problem_codes)
    return problems_of(items), rows_of(items)
