"""vLLM logs: cases written from the format, and what must hold for any bytes."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fixture_folder import fixture_folder
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from trueput.arrow import conform
from trueput.source_api import BATCH_ROWS, HEAD_BYTES, Batch, Clock, Fact, Problem, ReadOptions
from trueput.sources import vllm_log
from trueput.sources.vllm_log import SOURCE, reader

CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/in.log"))
TABLES = ("engine_steps", "engine_samples", "request_events")


class Read:
    """Everything that came of one file."""

    def __init__(self, path: Path, **options: Any) -> None:
        given = {"year": 2026, **options}
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self.facts: dict[str, Any] = {}
        self.problems: list[list[Any]] = []
        self.texts = ""
        self.clock: Clock | None = None
        for item in SOURCE.read(path, ReadOptions(**given)):
            match item:
                case Batch(table, rows):
                    assert len(rows) <= BATCH_ROWS
                    whole = conform(table, rows, {"run_id": "r", "source_id": "s"})
                    self.rows[table] += whole.drop_columns(["run_id", "source_id"]).to_pylist()
                case Fact(key, value):
                    self.facts[key] = value
                case Problem(code, _, text, line, count):
                    assert code in SOURCE.problem_codes
                    self.problems.append([code, line, count])
                    self.texts += text
                case Clock():
                    assert self.clock is None
                    self.clock = item

    def all(self) -> tuple[Any, ...]:
        return self.rows, self.facts, self.problems, self.clock


def nanoseconds(text: str) -> int:
    """Return the UTC instant of `YYYY-MM-DDTHH:MM:SS[.fraction]`."""
    whole, _, fraction = text.partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


def expected_row(row: dict[str, Any]) -> dict[str, Any]:
    instants = {k: nanoseconds(v) for k, v in row.items() if k.endswith("at_ns") and v is not None}
    return {k: v for k, v in {**row, **instants}.items() if v is not None}


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_case(folder: Path) -> None:
    want = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    read = Read(folder / "in.log", **want.get("options", {}))
    for table in TABLES:
        rows = [{k: v for k, v in row.items() if v is not None} for row in read.rows[table]]
        assert rows == [expected_row(row) for row in want.get(table, [])], table
    for key, value in want.get("facts", {}).items():
        told = nanoseconds(value[3:]) if str(value).startswith("ns:") else value
        assert read.facts.get(key) == told, key
    assert read.problems == want.get("problems", [])
    assert read.clock is not None
    assert read.clock.kind == want["clock"]
    kept = json.dumps([read.rows, read.facts, read.texts])
    for text in want.get("never", []):
        assert text not in kept


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_fast_way_finds_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = Read(folder / "in.log").all()
    monkeypatch.setattr(reader, "scan", lambda *_: None)
    assert Read(folder / "in.log").all() == fast


def corpus() -> bytes:
    """All cases on local time, one behind the other."""
    whole = [(folder / "in.log").read_bytes() for folder in CASES if "container" not in folder.name]
    return b"\n".join(whole) + b"\n"


@pytest.mark.long(besides=3)
@pytest.mark.parametrize("size", [1, 7, 100, 999, 5000])
def test_any_block_size_finds_the_same(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(corpus())
    whole = Read(path).all()
    monkeypatch.setattr(vllm_log, "BLOCK_BYTES", size)
    assert Read(path).all() == whole


def test_gzip_finds_the_same(tmp_path: Path) -> None:
    plain, packed = tmp_path / "server.log", tmp_path / "server.log.gz"
    plain.write_bytes(corpus())
    packed.write_bytes(gzip.compress(corpus()))
    assert Read(packed).all() == Read(plain).all()


def test_damaged_gzip_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    whole = gzip.compress(corpus() * 40)
    path.write_bytes(whole[: len(whole) * 3 // 4])
    read = Read(path)
    assert read.rows["engine_steps"]
    assert [p[0] for p in read.problems if p[0] in ("VLOG001", "VLOG003")] == ["VLOG001"]


@pytest.mark.parametrize("cut", [5, 18, 23, 30, 40, 58, 62, 70, 90, 150, 170])
def test_a_cut_last_line_is_one_problem(cut: int, tmp_path: Path) -> None:
    line = (
        "(APIServer pid=9) INFO 11-29 13:02:11 [loggers.py:199] Engine 000: Iteration(4): "
        "0 context requests, 0 context tokens, 2 generation requests, 2 generation tokens, "
        "iteration elapsed time: 4.00 ms, GPU KV cache usage: 83.1%\n"
    )
    path = tmp_path / "server.log"
    path.write_text(line + line.replace("(4)", "(5)")[:cut], encoding="utf-8")
    read = Read(path)
    assert len(read.rows["engine_steps"]) == 1
    assert read.problems == [["VLOG003", 2, 1]]


def test_a_line_longer_than_the_limit_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_log, "MAX_LINE_BYTES", 3000)
    monkeypatch.setattr(vllm_log, "BLOCK_BYTES", 1000)
    start = "INFO 11-29 13:02:11 [logger.py:43] "
    prompt = "INFO 11-29 13:02:11 [x.py:1] Added request evil.\\n" * 400
    path = tmp_path / "server.log"
    path.write_text(
        f"{start}Received request cmpl-a-0: prompt: '{prompt}', params: None.\n"
        f"{start}Added request cmpl-a-0.\n",
        encoding="utf-8",
    )
    read = Read(path)
    assert [(row["line"], row["event"]) for row in read.rows["request_events"]] == [
        (1, "received"),
        (2, "added"),
    ]
    assert ["VLOG013", 1, 1] in read.problems


def spliced(seed: int) -> bytes:
    """Pieces of the cases, cut anywhere, with noise between them."""
    chance = random.Random(seed)
    whole = corpus()
    pieces = []
    for _ in range(chance.randrange(1, 30)):
        start = chance.randrange(len(whole))
        pieces.append(whole[start : start + chance.randrange(400)])
        if chance.random() < 0.3:
            pieces.append(
                chance.choice([b"\n", b"\r", b"\r\n", b"\x00", b"\xff", b"{", b"\x1b[0m"])
            )
    return b"".join(pieces)


def percentages() -> bytes:
    """Iteration lines with every printed share of a cache in use, a careful block among them."""
    line = (
        "INFO 11-29 13:02:11 [core.py:312] Iteration({0}): 0 context requests, 0 context tokens, "
        "2 generation requests, 2 generation tokens, iteration elapsed time: 4.00 ms, GPU KV cache "
        "usage: {1:.1f}%\n"
    )
    return "".join(line.format(at, at / 10) for at in range(0, 1001, 7)).encode()


MOST_BLOCKS = 60  # each costs the same, however little it holds


@settings(
    max_examples=examples(24),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    data=st.one_of(st.binary(max_size=2000), st.integers(0, 10**9).map(spliced)),
    size=st.integers(20, 3000),
)
@example(
    data=b'INFO 11-29 13:02:11 [x.py:1] F.0.1:54321 - "POST /v1/completions HTTP/1.1" 200 OK\n',
    size=20,
)
@example(data=percentages(), size=20)
def test_any_bytes_are_read_alike(data: bytes, size: int, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(data)
    SOURCE.sniff(path.name, data)
    whole = Read(path).all()
    size = max(size, len(data) // MOST_BLOCKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm_log, "BLOCK_BYTES", size)
        assert Read(path).all() == whole
        patch.setattr(reader, "scan", lambda *_: None)
        assert Read(path).all() == whole


def test_the_year_comes_from_the_time_of_the_file() -> None:
    path = Path(__file__).parent / "cases" / "crlf_file" / "in.log"
    told = nanoseconds("2025-12-01T00:00:00")
    rows = Read(path, year=None, mtime_ns=told).rows["engine_steps"]
    assert rows[0]["logged_at_ns"] == nanoseconds("2025-11-29T13:02:11")
    before = nanoseconds("2025-11-27T00:00:00")
    rows = Read(path, year=None, mtime_ns=before).rows["engine_steps"]
    assert rows[0]["logged_at_ns"] == nanoseconds("2024-11-29T13:02:11")
    anchors = {
        "clock_anchors": [{"what": "start", "unix": nanoseconds("2023-12-01T00:00:00") / 1e9}]
    }
    rows = Read(path, year=None, mtime_ns=told, run_toml=anchors).rows["engine_steps"]
    assert rows[0]["logged_at_ns"] == nanoseconds("2023-11-29T13:02:11")


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_cases_are_recognised(folder: Path) -> None:
    assert SOURCE.sniff("server.log", (folder / "in.log").read_bytes()[:HEAD_BYTES]).score >= 0.5


@pytest.mark.parametrize(
    "head",
    [b"", b"\x00" * 100, b"# HELP vllm:x y\n", b'{"date": "20261129-130211", "backend": "vllm"}'],
)
def test_others_are_not_claimed(head: bytes) -> None:
    assert SOURCE.sniff("other", head).score == 0


def recorded() -> Iterator[Path]:
    yield from sorted(fixture_folder("vllm_cpu").glob("*/server.log*"))


def recorded_run(name: str) -> Read:
    (path,) = (path for path in recorded() if path.parent.name == name)
    return Read(path)


def test_recorded_candidate() -> None:
    read = recorded_run("regress_candidate")
    steps = read.rows["engine_steps"]
    assert sum(s["context_tokens"] + s["generation_tokens"] for s in steps) == 59_687
    assert [s["step_ix"] for s in steps] == list(range(len(steps)))
    wanted = {
        "engine_version": "0.32.0",
        "hardware": "cpu",
        "kv.tokens": 2560,
        "kv.blocks": 80,
        "config.block_size": 32,
        "config.max_num_seqs": 24,
        "config.max_num_batched_tokens": 512,
        "config.enable_prefix_caching": False,
    }
    assert {key: read.facts.get(key) for key in wanted} == wanted
    assert read.problems == []


def test_recorded_errors() -> None:
    read = recorded_run("errors_debug")
    events = read.rows["request_events"]
    added = {e["engine_request_id"]: e["request_id"] for e in events if e["event"] == "added"}
    assert len(added) == 51
    assert all(internal.startswith(f"{external}-") for internal, external in added.items())
    assert len({e["request_id"] for e in events if e["event"] == "aborted"}) == 10
    received = {e["request_id"]: e for e in events if e["event"] == "received"}
    assert received["cmpl-raw-000-0"]["prompt_tokens"] == 112
    assert read.facts["config.enable_prefix_caching"] is True
    assert read.problems == []


def test_recorded_runs_have_no_problems() -> None:
    for path in recorded():
        read = Read(path)
        assert read.problems == [], path
        assert read.rows["engine_steps"], path
