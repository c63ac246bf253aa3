"""Bytes of OTLP JSON -> rows of `requests`."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fixture_folder import fixture_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput import source_api
from trueput.arrow import conform
from trueput.clock import ClockKind
from trueput.source_api import Batch, Clock, Fact, Item, Problem, ReadOptions
from trueput.sources import otlp_spans
from trueput.sources.otlp_spans import SOURCE, framing

CASES = Path(__file__).parent / "cases"
INPUTS = {
    folder.name: next(p for p in folder.iterdir() if p.name != "expected.json")
    for folder in sorted(CASES.iterdir())
}
BYTES = {name: path.read_bytes() for name, path in INPUTS.items()}


def rows_of(items: list[Item]) -> list[dict[str, Any]]:
    """All rows, conformed to the schema, without NULLs."""
    constants = {"run_id": "r", "source_id": "s"}
    rows: list[dict[str, Any]] = []
    for item in items:
        if isinstance(item, Batch):
            rows += conform(item.table, item.rows, constants).to_pylist()
    return [{k: v for k, v in r.items() if v is not None and k not in constants} for r in rows]


def problems_of(items: list[Item]) -> list[tuple[str, int | None, int]]:
    return [(p.code, p.line, p.count) for p in items if isinstance(p, Problem)]


def read_bytes(data: bytes, name: str = "otlp.jsonl") -> list[Item]:
    """Everything that the source yields for a file of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return list(SOURCE.read(path, ReadOptions()))


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_case(name: str) -> None:
    wanted = json.loads((CASES / name / "expected.json").read_text())
    items = list(SOURCE.read(INPUTS[name], ReadOptions()))
    assert rows_of(items) == wanted["rows"]
    assert problems_of(items) == [tuple(problem) for problem in wanted["problems"]]
    assert {f.key: f.value for f in items if isinstance(f, Fact)} == wanted["facts"]
    assert [c.kind for c in items if isinstance(c, Clock)] == [ClockKind.UTC]
    assert SOURCE.sniff(name, BYTES[name][: source_api.HEAD_BYTES]).score >= 0.9


@pytest.mark.parametrize(
    "head", [b"", b"\xff\xfe", b'{"traceEvents": []}', b'{"resourceMetrics": []}', b"resourceSpans"]
)
def test_other_files_are_declined(head: bytes) -> None:
    assert SOURCE.sniff("x", head).score == 0.0


def test_documented_codes_are_all_there() -> None:
    for code in SOURCE.problem_codes:
        assert f"| {code} |" in (otlp_spans.__doc__ or "")


@pytest.mark.parametrize("indent", [None, 0, 2, 7])
def test_layout_does_not_matter(indent: int | None) -> None:
    documents = [json.loads(line) for line in BYTES["lines"].splitlines()]
    wanted = rows_of(read_bytes(BYTES["lines"]))
    for value in (documents, documents[1]):
        assert rows_of(read_bytes(json.dumps(value, indent=indent).encode())) == wanted
    glued = "\n".join(json.dumps(d, indent=indent) for d in documents)
    assert rows_of(read_bytes(glued.encode())) == wanted


def test_no_request_in_the_file() -> None:
    items = read_bytes(BYTES["lines"].splitlines()[0])
    assert rows_of(items) == []
    assert problems_of(items) == [("OTLP010", None, 1)]


def test_deep_and_long_documents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = b'{"resourceSpans": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    assert problems_of(read_bytes(deep + BYTES["lines"]))[0] == ("OTLP001", 1, 1)
    monkeypatch.setattr(framing, "MAX_DOCUMENT_BYTES", 5000)
    monkeypatch.setattr(framing, "BLOCK_BYTES", 1000)
    long = b'{"resourceSpans": [' + b"\n" * 3 + b" 1,\n" * 5000 + b"]}\n"
    items = read_bytes(long + BYTES["lines"])
    assert problems_of(items)[0] == ("OTLP003", 1, 1)
    assert rows_of(items) == rows_of(read_bytes(BYTES["lines"]))


def test_a_second_process_that_appears_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_spans, "HELD_ROWS", 1)
    items = read_bytes(BYTES["list"])
    assert [row.get("replica") for row in rows_of(items)] == [None, "77"]
    assert [code for code, _, _ in problems_of(items)] == ["OTLP011"]


def test_damaged_gzip_keeps_what_came_before() -> None:
    lines = [
        BYTES["lines"].splitlines()[1].replace(b'"spanId": "000', b'"spanId": "%03x' % i)
        for i in range(1, 500)
    ]
    data = gzip.compress(b"\n".join(lines))
    items = read_bytes(data[: len(data) // 2])
    assert len(rows_of(items)) > 50
    assert "OTLP004" in [code for code, _, _ in problems_of(items)]


def test_a_truncated_last_line_is_one_problem() -> None:
    data = BYTES["lines"].rstrip()
    last = data.rfind(b"\n") + 1
    for cut in range(last + 2, len(data) - 1, 37):
        assert [c for c, _, _ in problems_of(read_bytes(data[:cut]))] == ["OTLP002"]


def test_a_list_that_does_not_end_is_one_problem() -> None:
    """Documents on lines of their own, between brackets on theirs."""
    data = BYTES["list"].rstrip()
    whole = [c for c, _, _ in problems_of(read_bytes(data))]
    assert data.endswith(b"\n]")
    assert "OTLP002" not in whole
    for cut in (data[:-1], data[:-2]):
        assert [c for c, _, _ in problems_of(read_bytes(cut))] == [*whole, "OTLP002"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A file that was good once: truncated, spliced, or with noise inside."""
    one = BYTES[draw(st.sampled_from(sorted(BYTES)))]
    two = BYTES[draw(st.sampled_from(sorted(BYTES)))]
    cut, again = draw(st.integers(0, len(one))), draw(st.integers(0, len(two)))
    return one[:cut] + draw(st.binary(max_size=20)) + two[again:]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spans", "name", "key", "value", "attributes", "resource", "intValue", "status"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@st.composite
def odd_request(draw: st.DrawFn) -> bytes:
    """An export request whose parts have any shape."""
    span = {
        "name": "llm_request",
        **draw(st.dictionaries(st.sampled_from(["spanId", "status"]), JSON)),
    }
    span["attributes"] = draw(JSON | st.just({"gen_ai.request.id": 5, "gen_ai.latency.e2e": 1e300}))
    span["startTimeUnixNano"] = draw(JSON | st.just("9223372036854775807"))
    spans = draw(st.sampled_from([[span], span, [[span]]]))
    parts = draw(JSON | st.sampled_from([[{"spans": spans}], {"spans": spans}]))
    request = {"resourceSpans": [{"resource": draw(JSON), "scopeSpans": parts}]}
    return json.dumps(draw(st.sampled_from([request, [request], [[request]]]))).encode()


@given(st.one_of(st.binary(max_size=200), damaged(), odd_request()))
@settings(deadline=None, max_examples=examples(250))
def test_never_raises_and_rows_conform(data: bytes) -> None:
    items = read_bytes(data)
    rows_of(items)
    SOURCE.sniff("x", data)
    for item in items:
        if isinstance(item, Problem):
            assert item.code in SOURCE.problem_codes


@given(damaged(), st.integers(1, 300))
@settings(deadline=None, max_examples=examples(60))
def test_block_size_and_compression_do_not_matter(data: bytes, size: int) -> None:
    whole = read_bytes(data)
    old = framing.BLOCK_BYTES
    framing.BLOCK_BYTES = size
    try:
        small = read_bytes(data)
    finally:
        framing.BLOCK_BYTES = old
    for other in (small, read_bytes(gzip.compress(data), "otlp.jsonl.gz")):
        assert rows_of(other) == rows_of(whole)
        assert problems_of(other) == problems_of(whole)


def fixtures() -> Path:
    return fixture_folder("vllm_cpu")


RUNS = [
    # run, spans; errors_debug had 10 aborted requests, which have none
    ("regress_baseline", 60),
    ("regress_candidate", 60),
    ("baseline_low", 14),
    ("candidate_overload_truth", 44),
    ("errors_debug", 41),
    ("aiperf", 38),
    ("guidellm", 22),
]


@pytest.mark.parametrize(("run", "count"), RUNS)
def test_recorded_run(run: str, count: int) -> None:
    items = list(SOURCE.read(fixtures() / run / "otlp.jsonl.gz", ReadOptions()))
    rows = rows_of(items)
    assert len(rows) == count
    assert len({row["request_id"] for row in rows}) == count
    assert problems_of(items) == []
    for row in rows:
        assert "replica" not in row
        assert row["arrived_at_ns"] < row["first_token_at_ns"] < row["ended_at_ns"]
        assert row["queue_ns"] + row["prefill_ns"] + row["decode_ns"] <= row["e2e_ns"]
    if run.startswith("regress_"):
        assert sum(row["prompt_tokens"] for row in rows) == 34_779
        assert sum(row["output_tokens"] for row in rows) == 7_680
