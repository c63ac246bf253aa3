from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from fixture_folder import fixture_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.vllm_bench.reading import outcome

from trueput.source_api import HEAD_BYTES
from trueput.sources.vllm_bench_console import SOURCE, asked_length, namespace

CASES = sorted((Path(__file__).parent / "cases").iterdir())
BYTES = [case.joinpath("input.txt").read_bytes() for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path, tmp_path: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    raw = (case / "input.txt").read_bytes()
    assert expected == outcome(SOURCE, case / "input.txt")
    assert SOURCE.sniff("bench.txt", raw).score >= 0.8
    packed = tmp_path / "bench.txt.gz"
    packed.write_bytes(gzip.compress(raw.replace(b"\n", b"\r\n")))
    assert expected == outcome(SOURCE, packed)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"INFO 01-01 00:00:00 [api_server.py:1] args: Namespace(model='m', seed=0)\n",
        b'{"text": "Namespace(a=1, num_prompts=3)"}',
    ],
)
def test_declines_other_files(head: bytes) -> None:
    assert SOURCE.sniff("x.txt", head).score == 0


def test_no_block_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "bench.txt"
    path.write_text("Namespace(num_prompts=3, request_rate=1.0)\nTraceback\n")
    found = outcome(SOURCE, path)
    assert found["problems"] == ["CONSOLE003"]
    assert found["facts"] == {"client.num_prompts": 3, "client.request_rate": 1.0}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Namespace(dataset_name='random', random_output_len=9, random_range_ratio=0.5)", None),
        ("Namespace(dataset_name='random', random_output_len=9, random_range_ratio=1.0)", 9),
        ("Namespace(dataset_name='sharegpt', sharegpt_output_len=None, output_len=5)", 5),
        ("Namespace(dataset_name='prefix_repetition', prefix_repetition_output_len=7)", 7),
        ("Namespace(dataset_name='custom', custom_output_len=-1)", None),
        ("Namespace(", None),
    ],
)
def test_asked_length(line: str, expected: int | None) -> None:
    assert expected == asked_length(namespace(line))


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_damaged_bytes_never_raise(tmp_path_factory: Any, data: st.DataObject) -> None:
    first, second = data.draw(st.sampled_from(BYTES)), data.draw(st.sampled_from(BYTES))
    cut = data.draw(st.integers(0, len(first)))
    resume = data.draw(st.integers(0, len(second)))
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(first[:cut] + data.draw(st.binary(max_size=30)) + second[resume:])
    SOURCE.sniff("any.txt", path.read_bytes()[:HEAD_BYTES])
    outcome(SOURCE, path)


def test_recorded_consoles_agree_with_their_results() -> None:
    names = sorted(path.parent for path in (fixture_folder("vllm_cpu")).glob("*/bench.txt"))
    assert len(names) == 13
    for folder in names:
        found = outcome(SOURCE, folder / "bench.txt")
        result = json.loads((folder / "bench.json").read_text())
        row = found["load_sessions"][0]
        assert found["problems"] == []
        assert row["claimed_complete_requests"] == result["completed"]
        assert row["planned_requests"] == result["num_prompts"]
        assert abs(row["duration_ns"] / 1e9 - result["duration"]) <= 0.005
        assert row["slo"]
        assert row["request_id_prefix"]
        assert row["ignore_eos"] is True
