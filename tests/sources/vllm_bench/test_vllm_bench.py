from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard
from effort import examples
from fixture_folder import fixture_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.vllm_bench.reading import outcome

from trueput.scan import read_head
from trueput.source_api import HEAD_BYTES, Problem, ReadOptions
from trueput.sources import vllm_bench
from trueput.sources.vllm_bench import SOURCE, errors

CASES = sorted((Path(__file__).parent / "cases").iterdir())
BYTES = [case.joinpath("input.json").read_bytes() for case in CASES]

DETAILED = (Path(__file__).parent / "cases/detailed/input.json").read_bytes()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    assert expected == outcome(SOURCE, case / "input.json")
    assert SOURCE.sniff("x.json", read_head(case / "input.json", HEAD_BYTES)).score >= 0.8


@pytest.mark.parametrize("name", ["run.pytorch.json", "run.pytorch.json.gz"])
def test_declines_the_pytorch_records(name: str) -> None:
    assert SOURCE.sniff(name, DETAILED).score == 0


@pytest.mark.parametrize(
    "head",
    [
        b'[{"date": "x"}]',
        b"{}",
        b"",
        b'{"backend": "sglang", "dataset_name": "random", "duration": 1.0, "completed": 3}',
        b'{"elapsed_time": 1.0, "num_requests": 5}',
    ],
)
def test_declines_other_files(head: bytes) -> None:
    assert SOURCE.sniff("x.json", head).score == 0


@pytest.mark.parametrize(
    ("text", "streamed", "expected"),
    [
        ("Too Many Requests", False, ("http_error", "Too Many Requests", 429)),
        ("Unprocessable Entity", False, ("http_error", "Unprocessable Entity", 422)),
        ('HTTP 503: {"message": "secret"}', False, ("http_error", "HTTP 503", 503)),
        ("X", True, ("stream_error", "X", None)),
        ("Traceback ...\n  f()\nTimeoutError\n", False, ("timeout", "TimeoutError", None)),
        (
            "Traceback ...\n  f()\naiohttp.ServerTimeoutError: x\n",
            True,
            ("timeout", "ServerTimeoutError", None),
        ),
        (
            "Traceback ...\n  f()\na.b.ClientConnectorError: Cannot connect to host secret\n",
            False,
            ("failed", "ClientConnectorError", None),
        ),
        ('{"prompt": "secret"}', False, ("failed", "unrecognised error text", None)),
        (" \n ", False, ("failed", "blank error text", None)),
    ],
)
def test_error_text(text: str, streamed: bool, expected: tuple[str, str, int | None]) -> None:
    found = errors.classify(text, streamed)
    assert expected == (found.status, found.kind, found.http_status)


@pytest.mark.parametrize(
    ("value", "streamed", "expected"),
    [
        (503, False, ("http_error", "HTTP 503", 503)),
        (503.0, True, ("stream_error", "HTTP 503", 503)),
        ({"status_code": "429"}, False, ("http_error", "HTTP 429", 429)),
        ({"code": "secret", "error": {"code": 500}}, False, ("http_error", "HTTP 500", 500)),
        ({"error": "secret"}, False, ("failed", "unrecognised error object", None)),
        (["secret"], False, ("failed", "unrecognised error list", None)),
        (1, False, ("failed", "1", None)),
        (600, False, ("failed", "600", None)),
        (1e308, False, ("failed", "1e+308", None)),
        (10**400, False, ("failed", "1" + 59 * "0", None)),
        (False, True, ("stream_error", "false", None)),
    ],
)
def test_error_that_is_no_text(
    value: Any, streamed: bool, expected: tuple[str, str, int | None]
) -> None:
    found = errors.classify_value(value, streamed)
    assert expected == (found.status, found.kind, found.http_status)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"errors": [""]}, {("BENCH008", "error")}),
        ({"output_lens": [1]}, {("BENCH008", "error")}),
        ({"errors": {}}, {("BENCH007", "error")}),
        ({"output_lens": [1, True, 1]}, {("BENCH007", "error")}),
        ({"output_lens": [1, 2**40, 1]}, set()),
        ({"output_lens": [1, 2**40 + 1, 1]}, {("BENCH007", "error")}),
        ({"itls": [[]]}, {("BENCH008", "warning")}),
        ({"num_prompts": 10_000_001}, {("BENCH007", "warning")}),
        ({"ttfts": [0.5, "0.5", 0.5]}, {("BENCH007", "warning")}),
    ],
)
def test_only_what_tells_how_requests_ended_is_an_error(
    tmp_path: Path, change: dict[str, Any], told: set[tuple[str, str]]
) -> None:
    path = tmp_path / "x.json"
    whole = {
        "date": "20260101-000000", "backend": "vllm", "model_id": "m", "tokenizer_id": "t",
        "num_prompts": 3, "duration": 1.0, "errors": ["", "", ""], "output_lens": [1, 1, 1],
        "ttfts": [0.5, 0.5, 0.5], "itls": [[], [], []], "latencies": [0.5, 0.5, 0.5],
    }  # fmt: skip
    path.write_text(json.dumps({**whole, **change}))
    found = [item for item in SOURCE.read(path, ReadOptions()) if isinstance(item, Problem)]
    assert {(problem.code, problem.severity.value) for problem in found} == told


def test_generated_text_is_nowhere() -> None:
    found = outcome(SOURCE, Path(__file__).parent / "cases/detailed/input.json")
    assert "secret" not in repr(found)
    assert "metadata" not in repr(found)
    odd = outcome(SOURCE, Path(__file__).parent / "cases/errors_no_text/input.json")
    assert "secret" not in repr(odd)


def test_a_file_that_is_too_large_is_one_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_bench, "MAX_FILE_BYTES", 100)
    path = tmp_path / "x.json"
    path.write_bytes(DETAILED)
    assert outcome(SOURCE, path)["problems"] == ["BENCH006"]


@pytest.mark.parametrize("data", BYTES, ids=[case.name for case in CASES])
def test_compressed_is_the_same(data: bytes, tmp_path: Path) -> None:
    plain, packed, zst = tmp_path / "x.json", tmp_path / "x.json.gz", tmp_path / "x.json.zst"
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))
    zst.write_bytes(zstandard.compress(data))
    assert outcome(SOURCE, plain) == outcome(SOURCE, packed) == outcome(SOURCE, zst)


def test_a_cut_gzip_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(DETAILED * 40)[:-200])
    found = outcome(SOURCE, path)
    assert "BENCH002" in found["problems"]
    assert found["load_sessions"]


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_damaged_bytes_never_raise(tmp_path_factory: Any, data: st.DataObject) -> None:
    first, second = data.draw(st.sampled_from(BYTES)), data.draw(st.sampled_from(BYTES))
    cut = data.draw(st.integers(0, len(first)))
    resume = data.draw(st.integers(0, len(second)))
    middle = data.draw(st.binary(max_size=30) | st.sampled_from([b"", b"{", b"[[", b'"\\ud800"']))
    _read(tmp_path_factory, first[:cut] + middle + second[resume:])


@settings(max_examples=examples(100), deadline=None)
@given(raw=st.binary(max_size=300))
def test_random_bytes_never_raise(tmp_path_factory: Any, raw: bytes) -> None:
    _read(tmp_path_factory, raw)
    _read(tmp_path_factory, b'{"date":"20260101-000000","model_id":1,"num_prompts":' + raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(odd=st.dictionaries(st.sampled_from(list(json.loads(DETAILED))), JSON, max_size=6))
def test_odd_values_never_raise(tmp_path_factory: Any, odd: dict[str, Any]) -> None:
    _read(tmp_path_factory, json.dumps({**json.loads(DETAILED), **odd}).encode())


def _read(tmp_path_factory: Any, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(raw)
    SOURCE.sniff("any.json", raw[:HEAD_BYTES])
    outcome(SOURCE, path)


def test_recorded_errors_debug() -> None:
    found = outcome(SOURCE, fixture_folder("vllm_cpu") / "errors_debug/bench.json")
    assert found["load_sessions"][0]["planned_requests"] == 10
    statuses = Counter((r["status"], r.get("http_status")) for r in found["requests"])
    assert statuses == {("ok", None): 7, ("http_error", 400): 3}
    complete = [r for r in found["requests"] if r["status"] == "ok"]
    assert sum(r["prompt_tokens"] for r in complete) == 4649
    assert sum(r["output_tokens"] for r in complete) == 1165
    assert found["problems"] == []


def test_recorded_prefix_cache_plans_more_than_it_sent() -> None:
    found = outcome(SOURCE, fixture_folder("vllm_cpu") / "prefix_cache/bench.json")
    assert found["load_sessions"][0]["planned_requests"] == 48
    assert len(found["requests"]) == 45


def test_recorded_faults() -> None:
    folder = fixture_folder("clients") / "generated_faults/vllm_0.33.0"
    found = outcome(SOURCE, folder / "vllm_0.33.0_faulty.json")
    kinds = Counter((r["status"], r.get("error_kind")) for r in found["requests"])
    assert kinds == {
        ("ok", None): 80,
        ("http_error", "X"): 10,
        ("stream_error", "ClientPayloadError"): 5,
        ("empty", "no valid chunk"): 5,
    }
    complete = [r for r in found["requests"] if r["status"] == "ok"]
    assert sum(r["prompt_tokens"] for r in complete) == 4026
    assert sum(r["output_tokens"] for r in complete) == 2275
    assert sum(r["ttft_ns"] for r in complete) // 80 == 317_921_136
    good = [
        r
        for r in complete
        if r["ttft_ns"] <= 500_000_000
        and r["e2e_ns"] <= 1_200_000_000
        and r["e2e_ns"] - r["ttft_ns"] <= 20_000_000 * (r["output_tokens"] - 1)
    ]
    assert len(good) == 63


def test_recorded_without_details() -> None:
    folder = fixture_folder("clients") / "generated_faults/vllm_0.33.0"
    found = outcome(SOURCE, folder / "vllm_0.33.0_not_detailed.json")
    assert found["problems"] == ["BENCH010"]
    assert "requests" not in found
    assert found["load_sessions"][0]["request_rate_per_s"] == "inf"
