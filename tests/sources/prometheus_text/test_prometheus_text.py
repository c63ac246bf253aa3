"""Bytes of /metrics scrapes -> rows of `engine_samples`."""

from __future__ import annotations

import gzip
import json
import random
import string
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fixture_folder import fixture_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput import source_api
from trueput.arrow import conform
from trueput.source_api import Batch, Clock, Fact, Item, Problem, ReadOptions
from trueput.sources import prometheus_text
from trueput.sources.prometheus_text import SOURCE, reader, rows

CASES = Path(__file__).parent / "cases"
COLUMNS = ("line", "at_ns", "engine", "incarnation", "metric", "labels", "kind", "le", "value")
SAMPLE = (CASES / "marked" / "metrics.prom").read_bytes()


def rows_of(items: list[Item]) -> list[dict[str, Any]]:
    """All rows, conformed to the schema."""
    constants = {"run_id": "r", "source_id": "s"}
    rows: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, Batch):
            rows += conform(item.table, item.rows, constants).to_pylist()
    return [{name: row[name] for name in COLUMNS} for row in rows]


def read_bytes(data: bytes, name: str = "metrics.prom") -> list[Item]:
    """Everything that the source yields for a file of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return list(SOURCE.read(path, ReadOptions(mtime_ns=1_700_000_000_000_000_000)))


def sections(path: Path) -> dict[str, list[str]]:
    """The parts of an expected.txt."""
    found: dict[str, list[str]] = defaultdict(list)
    name = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line:
            found[name].append(line)
    return found


def expected_row(line: str) -> dict[str, Any]:
    """One row of an expected.txt."""
    fields = [field.strip() for field in line.split(" | ")]
    row: dict[str, Any] = dict(zip(COLUMNS, fields, strict=True))
    for name in ("line", "at_ns", "incarnation"):
        row[name] = None if row[name] == "-" else int(row[name])
    for name in ("le", "value"):
        row[name] = None if row[name] == "-" else float(row[name])
    return row


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_case(name: str) -> None:
    wanted = sections(CASES / name / "expected.txt")
    options = dict(line.split("=") for line in wanted["options"])
    [path] = [p for p in (CASES / name).iterdir() if p.name != "expected.txt"]
    mtime = options.get("mtime_ns")
    items = list(SOURCE.read(path, ReadOptions(mtime_ns=int(mtime) if mtime else None)))
    assert rows_of(items) == [expected_row(line) for line in wanted["rows"]]
    problems = [f"{p.code} {p.line or '-'} {p.count}" for p in items if isinstance(p, Problem)]
    assert problems == wanted["problems"]
    facts = [f"{f.key} {json.dumps(f.value)}" for f in items if isinstance(f, Fact)]
    assert facts == wanted["facts"]
    assert [c.kind.value for c in items if isinstance(c, Clock)] == wanted["clock"]


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_cases_are_claimed(name: str) -> None:
    [path] = [p for p in (CASES / name).iterdir() if p.name != "expected.txt"]
    assert SOURCE.sniff(path.name, path.read_bytes()[: source_api.HEAD_BYTES]).score >= 0.8


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x00\x01\x02",
        b"INFO 11-29 13:25:54 [loggers.py:199] vllm:num_preemptions\n",
        b'# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\n',
        b'{"vllm:num_preemptions_total": 1}\n',
        b"see the metric\nvllm:num_preemptions_total, which counts\n",
    ],
)
def test_other_files_are_declined(head: bytes) -> None:
    assert SOURCE.sniff("x", head).score == 0.0


def test_documented_codes_are_all_there() -> None:
    for code in SOURCE.problem_codes:
        assert f"| {code} |" in (prometheus_text.__doc__ or "")


def test_nothing_of_an_engine_is_said_and_no_row() -> None:
    items = read_bytes(b"# TYPE up gauge\nup 1\n")
    assert rows_of(items) == []
    assert [p.code for p in items if isinstance(p, Problem)] == ["PROM009"]


def test_too_many_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_SERIES", 3)
    lines = "".join(f'vllm:a{{p="{i}"}} 1\n' for i in range(10))
    items = read_bytes(b"# SCRAPE 1700000000 x\n" + lines.encode())
    assert len(rows_of(items)) == 3
    assert [(p.code, p.count) for p in items if isinstance(p, Problem)] == [("PROM013", 7)]


def test_damaged_gzip_keeps_what_came_before() -> None:
    rng = random.Random(5)
    scrapes = (
        f"# SCRAPE {1700000000 + i} x\nvllm:prompt_tokens_total {i}\n"
        f'vllm:g{{note="{"".join(rng.choices(string.ascii_letters, k=50))}"}} {i}\n'
        for i in range(2000)
    )
    data = gzip.compress("".join(scrapes).encode())
    items = read_bytes(data[: len(data) // 2])
    assert len(rows_of(items)) > 100
    assert [p.code for p in items if isinstance(p, Problem)] == ["PROM008"]


def test_incarnations_hold_over_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rows, reader):
        monkeypatch.setattr(module, "BATCH_ROWS", 5)
    text = "".join(
        f"# SCRAPE {1700000000 + i} x\nvllm:num_requests_running {i}\n"
        f"vllm:prompt_tokens_total {i % 4}\nvllm:generation_tokens_total {i % 4}\n"
        for i in range(20)
    )
    items = read_bytes(text.encode())
    assert sum(isinstance(item, Batch) for item in items) > 5
    assert [row["incarnation"] for row in rows_of(items)] == [
        i // 4 for i in range(20) for _ in "abc"
    ]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file that was good once: truncated, spliced, or with noise inside."""
    one = (
        CASES / draw(st.sampled_from(["marked", "restart", "garbage"])) / "metrics.prom"
    ).read_bytes()
    cut = draw(st.integers(0, len(one)))
    noise = draw(st.binary(max_size=30))
    again = draw(st.integers(0, len(SAMPLE)))
    return one[:cut] + noise + SAMPLE[again:]


@given(st.one_of(st.binary(max_size=300), damaged()))
@settings(deadline=None, max_examples=examples(150))
def test_never_raises_and_rows_conform(data: bytes) -> None:
    items = read_bytes(data)
    rows_of(items)
    SOURCE.sniff("x", data)
    for item in items:
        if isinstance(item, Problem):
            assert item.code in SOURCE.problem_codes


@given(damaged(), st.integers(1, 200))
@settings(deadline=None, max_examples=examples(60))
def test_block_size_and_compression_do_not_matter(data: bytes, size: int) -> None:
    whole = read_bytes(data)
    old = prometheus_text.BLOCK_BYTES
    prometheus_text.BLOCK_BYTES = size
    try:
        small = read_bytes(data)
    finally:
        prometheus_text.BLOCK_BYTES = old
    zipped = read_bytes(gzip.compress(data), "metrics.prom.gz")
    for other in (small, zipped):
        assert rows_of(other) == rows_of(whole)
        assert [i for i in other if not isinstance(i, Batch)] == [
            i for i in whole if not isinstance(i, Batch)
        ]


def test_a_cut_last_line_is_one_problem_and_no_false_restart() -> None:
    text = SAMPLE + b"# SCRAPE 1700000003 x\n" + b'vllm:num_preemptions_total{engine="0"} 5'
    for cut in range(1, 18):
        items = read_bytes(text[:-cut])
        codes = [p.code for p in items if isinstance(p, Problem)]
        assert codes.count("PROM014") == 1
        assert "PROM006" not in codes


@pytest.mark.parametrize(
    ("last", "is_read"), [("5 1700000003000", True), ("5 170000000300", False), ("5", False)]
)
def test_a_last_line_without_an_end_is_read_where_nothing_can_lack(
    last: str, is_read: bool
) -> None:
    line = f'vllm:num_preemptions_total{{engine="0"}} {last}'.encode()
    ended, open_ended = read_bytes(line + b"\n"), read_bytes(line)
    assert len(rows_of(ended)) == 1
    codes = [p.code for p in open_ended if isinstance(p, Problem)]
    assert ("PROM014" in codes) is not is_read
    assert rows_of(open_ended) == (rows_of(ended) if is_read else [])


def fixtures() -> Path:
    return fixture_folder("vllm_cpu")


RUNS = [
    # run, preemptions, prompt tokens, generated tokens, first tokens
    ("regress_baseline", 0, 34_779, 7_680, 60),
    ("regress_candidate", 30, 34_779, 7_680, 60),
    ("regress_candidate_truth", 28, 34_779, 7_680, 60),
    ("candidate_high", 19, None, None, 56),
    ("candidate_overload_truth", 42, None, None, 44),
    ("prefix_cache", 6, None, None, 45),
    ("aiperf", 11, None, None, None),
]


@pytest.mark.parametrize(("run", "preemptions", "prompt", "generated", "first"), RUNS)
def test_recorded_run(
    run: str, preemptions: int, prompt: int | None, generated: int | None, first: int | None
) -> None:
    path = fixtures() / run / "metrics.prom.gz"
    items = list(SOURCE.read(path, ReadOptions()))
    assert [i for i in items if isinstance(i, Problem)] == []
    series: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    rows = rows_of(items)
    for row in rows:
        if row["kind"] != "histogram_bucket":
            series[row["metric"], row["labels"], row["kind"]].append(row["value"])
    grown = {key: values[-1] - values[0] for key, values in series.items()}
    totals = {
        ("vllm:num_preemptions_total", "", "counter"): preemptions,
        ("vllm:prompt_tokens_by_source_total", "source=local_compute", "counter"): prompt,
        ("vllm:generation_tokens_total", "", "counter"): generated,
        ("vllm:time_to_first_token_seconds", "", "histogram_count"): first,
    }
    for key, total in totals.items():
        assert total is None or grown[key] == total
    assert {row["incarnation"] for row in rows} == {0}
    assert all(row["at_ns"] is not None for row in rows)
    facts = {item.key: item.value for item in items if isinstance(item, Fact)}
    assert (facts["model"], facts["engine"], facts["kv.block_size"]) == ("tiny-llama", "vllm", 32)
    assert facts["kv.blocks"] == 80
    assert facts["config.enable_prefix_caching"] is (not run.startswith("regress_"))
