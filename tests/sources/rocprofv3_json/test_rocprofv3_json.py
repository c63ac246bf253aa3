"""Bytes of rocprofv3's JSON -> rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.gpu_reading import (
    cases,
    check_bytes,
    check_case,
    fixture,
    input_of,
    problems_of,
    read_items,
    rows,
    rows_of,
    span_facts,
)

from trueput.sources.rocprofv3_json import SOURCE, walk

CASES = cases(__file__)
BYTES = [input_of(case).read_bytes() for case in CASES]
WHOLE = CASES[0].parent / "two_processes" / "results.json"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    check_case(SOURCE, case)


@given(st.binary(max_size=300))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes(data: bytes) -> None:
    check_bytes(SOURCE, data)
    check_bytes(SOURCE, b'{"rocprofiler-sdk-tool":[' + data)


@given(st.sampled_from(BYTES), st.data())
@settings(max_examples=examples(80), deadline=None)
def test_any_damage(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data)))
    middle = choice.draw(st.sampled_from([b"", b'"', b"{", b"}", b"]", b"\\", b"\x00", b"1e999"]))
    check_bytes(SOURCE, data[:at] + middle + data[at + len(middle) :])
    check_bytes(SOURCE, data[:at])


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_any_chunk_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows(SOURCE, WHOLE)
    monkeypatch.setattr(walk, "_CHUNK", size)
    monkeypatch.setattr(walk, "_WINDOW", 300)
    assert rows(SOURCE, WHOLE) == whole


def test_layout_and_compression_do_not_matter(tmp_path: Path) -> None:
    packed = tmp_path / "results.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(json.loads(WHOLE.read_bytes())).encode()))
    assert rows(SOURCE, packed) == rows(SOURCE, WHOLE)


def test_nothing_private_is_kept() -> None:
    assert "SECRET" in WHOLE.read_text()
    assert "SECRET" not in repr(read_items(SOURCE, WHOLE)) + repr(rows(SOURCE, WHOLE))


def test_recorded_file() -> None:
    path = fixture("tracelens/rocprof__908_results.json.gz")
    items = read_items(SOURCE, path)
    found = rows_of(items)
    ops = found["gpu_ops"]
    assert span_facts(ops) == {
        "rows": 43915,
        "sum_ns": 4441741378,
        "union_ns": 4233112334,
        "span_ns": 15122023494,
    }
    assert len({op["stream"] for op in ops}) == 5
    assert len({op["name"] for op in ops}) == 80
    assert {(op["process_key"], op["device"]) for op in ops} == {("p908", 0)}
    assert {op["quality"] for op in ops} == {None}
    assert problems_of(items) == {}
    [capture] = found["gpu_captures"]
    assert (capture["status"], capture["kernel_rows"], capture["dropped_rows"]) == (
        "whole",
        43915,
        0,
    )
    assert len(found["gpu_devices"]) == 8


def test_a_cut_recorded_file_is_partial(tmp_path: Path) -> None:
    data = fixture("tracelens/rocprof__908_results.json.gz").read_bytes()
    path = tmp_path / "908_results.json.gz"
    path.write_bytes(data[: len(data) - 200_000])
    items = read_items(SOURCE, path)
    [capture] = rows_of(items)["gpu_captures"]
    assert capture["status"] == "partial"
    assert 0 < capture["kernel_rows"] < 43915
    assert problems_of(items) == {"ROCJSON001": 1}
