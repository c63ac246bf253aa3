"""Bytes of Kineto traces -> GPU operations, launches, ranges, devices and the capture."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sources.kineto_json import reading

from trueput.source_api import Batch, Clock, Fact, Item, Problem, ReadOptions
from trueput.sources.kineto_json import SOURCE
from trueput.sources.kineto_json.names import (
    file_rank,
    kernel_class,
    launch_name,
    process_key,
    worker_name,
)

HERE = Path(__file__).parent
CASES = HERE / "cases"


WHOLE = (CASES / "whole" / "trace.json").read_bytes()


def read_bytes(data: bytes, size: int = 4 << 20, name: str = "trace.json") -> list[Item]:
    """Everything that the source yields for a file of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        items: list[Item] = reading.items_of(path, size)
        return items


def told(data: bytes, size: int = 4 << 20, name: str = "trace.json") -> dict[str, Any]:
    """Rows, problems, facts and clock."""
    found: dict[str, Any] = reading.told(read_bytes(data, size, name))
    return found


def case_file(name: str) -> Path:
    """The input of a case."""
    [path] = [p for p in (CASES / name).iterdir() if p.name != "expected.json"]
    return path


NAMES = sorted(p.name for p in CASES.iterdir())


@cache
def plainly_told(name: str) -> dict[str, Any]:
    """What a case's file tells, read as it is."""
    return reading.told(reading.items_of(case_file(name)))


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str) -> None:
    expected = json.loads((CASES / name / "expected.json").read_text("utf-8"))
    assert plainly_told(name) == expected


@pytest.mark.long(besides=20)
@pytest.mark.parametrize("name", [n for n in NAMES if n != "nested_objects"])
@pytest.mark.parametrize("size", [150, 1000])
def test_rows_do_not_depend_on_how_much_is_read_at_once(name: str, size: int) -> None:
    """Objects in an event that look like events are the one thing that may be cut in two."""
    assert reading.told(reading.items_of(case_file(name), size)) == plainly_told(name)


@pytest.mark.long(besides=8)
@pytest.mark.parametrize("name", NAMES)
def test_gzip_and_zip_are_the_same_as_plain(name: str, tmp_path: Path) -> None:
    path = case_file(name)
    plain = plainly_told(name)
    packed = tmp_path / f"{path.name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert reading.told(reading.items_of(packed)) == plain
    archive = tmp_path / f"{path.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("inner.json", path.read_bytes())
    assert reading.told(reading.items_of(archive)) == plain


def test_zip_of_several_files_says_so() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traces.zip"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.json", WHOLE)
            file.writestr("b.json", WHOLE)
        problems = [i for i in reading.items_of(path) if isinstance(i, Problem)]
    assert [p.code for p in problems] == ["KINETO001", "KINETO002"]
    assert "2 files" in problems[1].text


def test_cut_gzip_keeps_what_came_before_the_cut() -> None:
    head, event = WHOLE.split(b'  {\n    "ph"')[0], WHOLE[WHOLE.index(b'  {\n    "ph"') :]
    events = b",\n".join([event.split(b"\n  ],")[0]] * 40)
    packed = gzip.compress(head + events + b"\n  ]\n}\n")
    found = told(packed[: len(packed) * 2 // 3], name="trace.json.gz")
    codes = {p.split()[0] for p in found["problems"]}
    assert {"KINETO002", "KINETO003"} <= codes
    assert len(found["gpu_ops"]) > 5
    assert found["gpu_captures"][0]["status"] == "partial"


def test_nothing_of_environment_host_or_user_is_told() -> None:
    items = reading.items_of(CASES / "secrets" / "trace.json")
    texts = [
        str(i.rows.to_pylist() if not isinstance(i.rows, list) else i.rows)
        if isinstance(i, Batch) else str(i)
        for i in items
    ]  # fmt: skip
    assert "SECRET" not in "".join(texts)


def test_every_problem_code_is_met_by_a_case() -> None:
    met = {"KINETO002", "KINETO004", "KINETO020"}  # below, and in the properties
    for name in NAMES:
        expected = json.loads((CASES / name / "expected.json").read_text("utf-8"))
        met |= {problem.split()[0] for problem in expected["problems"]}
    assert met == set(SOURCE.problem_codes)


def test_an_event_that_tells_nothing_is_counted_as_lost() -> None:
    broken = WHOLE.replace(b'"ts": 30.500, "dur": 1.250', b'"tz": 30.500, "dur": 1.250 "')
    found = told(broken)
    assert "KINETO004 54 1" in found["problems"]
    assert found["gpu_captures"][0]["status"] == "partial"
    assert len(found["gpu_ops"]) == 4


def _kernel(number: int) -> bytes:
    return (
        b'  {\n    "ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "tid": 7,\n'
        b'    "ts": %d.125, "dur": 0.500,\n    "args": {\n      "device": 0, "stream": 7,'
        b' "correlation": %d\n    }\n  }' % (number % 50, 10 + number, number)
    )


def test_damage_in_a_long_trace_costs_only_itself() -> None:
    """Longer than what is read ahead; broken events, and metadata that looks like events."""
    count, broken = 90_000, {7, 8, 20_000, 61_234, 89_999}
    events = [_kernel(n) for n in range(count)]
    for n in broken:
        events[n] = events[n].replace(b': "k%d' % (n % 50), b': "say "k%d' % (n % 50))
    devices = b",\n".join(b'  {\n    "id": %d, "name": "GPU"\n  }' % n for n in range(8))
    text = b'{"traceEvents": [\n' + b",\n".join(events) + b"\n  ],\n"
    text += b'"deviceProperties": [\n' + devices + b'\n  ],\n"baseTimeNanoseconds": 5000\n}\n'
    items = read_bytes(text, 512 << 10)
    found = reading.rows_of(items)
    names = [f"k{n % 50}" if n not in broken else f'say "k{n % 50}' for n in range(count)]
    assert [op["name"] for op in found["gpu_ops"]] == names
    assert [op["start_at_ns"] for op in found["gpu_ops"]][::9] == [
        (10 + n) * 1000 + 125 for n in range(0, count, 9)
    ]
    assert [f"{i.code} {i.line} {i.count}" for i in items if isinstance(i, Problem)] == [
        f"KINETO005 {2 + 7 * 7} 5"
    ]
    assert [d["name"] for d in found["gpu_devices"]] == ["GPU"]
    [clock] = [i for i in items if isinstance(i, Clock)]
    assert clock.offset_ns == 5000


def test_an_operation_without_a_device() -> None:
    found = told(WHOLE.replace(b'"pid": 0', b'"pid": "?"').replace(b'"device": 0,', b""))
    assert "KINETO020 - 5" in found["problems"]
    assert {op["device_key"] for op in found["gpu_ops"]} == {"rank3:?"}


def _noise(seed: int) -> bytes:
    rnd = random.Random(seed)
    data = bytearray(WHOLE)
    for _ in range(rnd.randint(1, 6)):
        at = rnd.randrange(len(data))
        match rnd.randrange(4):
            case 0:
                data[at] = rnd.randrange(256)
            case 1:
                del data[at : at + rnd.randrange(1, 200)]
            case 2:
                other = rnd.randrange(len(data))
                data[at:at] = data[other : other + rnd.randrange(300)]
            case _:
                data[at:at] = rnd.choice(
                    [b'"', b"}", b"{", b"]", b"[", b"\\", b"\x00", b"\xff", b","]
                )
    return bytes(data)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([80, 700, 4 << 20]))
def test_never_raises_on_damaged_traces(seed: int, size: int) -> None:
    _check(read_bytes(_noise(seed), size))


@settings(max_examples=examples(30), deadline=None)
@given(st.one_of(st.binary(), st.binary().map(lambda b: b'{"traceEvents": [{"ph": "X"' + b)))
@example(b'{"traceEvents": ' + b"[" * 50_000)
@example(b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1' + b"9" * 6000 + b', "dur": 1}]}')
@example(b'[{"ph": "X", "cat": "kernel", "ts": 1, "dur": 9223372036854775.807}]')
@example(b'[{"ph":"X","cat":"kernel","name":"\\ud800","ts":1,"dur":1},{"ph":"X"}]')
@example(b'{"deviceProperties": ' + b"[" * 50_000 + b', "traceEvents": []}')
def test_never_raises_on_any_bytes(data: bytes) -> None:
    for size in (64, 4 << 20):
        _check(read_bytes(data, size))


@given(st.integers(0, len(WHOLE)))
@settings(max_examples=examples(25), deadline=None)
def test_a_cut_trace_gives_a_prefix_of_the_whole(at: int) -> None:
    whole, cut = told(WHOLE), told(WHOLE[:at])
    assert cut.get("gpu_ops", []) == whole["gpu_ops"][: len(cut.get("gpu_ops", []))]


def _check(items: list[Item]) -> None:
    """Rows conform, each problem code is known, and one clock is told."""
    for row in reading.rows_of(items)["gpu_ops"]:
        assert row["start_at_ns"] <= row["end_at_ns"]
    problems = [i for i in items if isinstance(i, Problem)]
    assert {p.code for p in problems} <= set(SOURCE.problem_codes)
    assert len({p.code for p in problems}) == len(problems)
    assert sum(isinstance(i, Clock) for i in items) == 1


def test_sniff() -> None:
    assert SOURCE.sniff("trace.json", WHOLE[:65536]).score > 0.9
    assert SOURCE.sniff("t.json", (CASES / "bare_list" / "trace.json").read_bytes()).score > 0.8
    assert SOURCE.sniff("t.json", b'{"traceEvents": [{"ph": "X", "cat": "step"}]}').score == 0
    assert SOURCE.sniff("t.json", b'{"rocprofiler-sdk-tool":[{"metadata":{}}]}').score == 0
    assert SOURCE.sniff("t.json", b"").score == 0


def test_profiled_is_a_fact() -> None:
    items = list(SOURCE.read(CASES / "whole" / "trace.json", ReadOptions()))
    assert Fact("profiled", value=True) in items


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        (
            "void vllm::cross_device_reduce_2stage<c10::BFloat16, 8>(vllm::RankData*)",
            "communication",
        ),
        ("void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", "communication"),
        ("allreduce_fusion_kernel_oneshot_lamport<...>", "communication"),
        ("void deep_ep::internode_ll::dispatch<true>(void*)", "communication"),
        ("void softmax_warp_forward<float>(WarpAllReduce<float>)", "compute"),
        ("layer_norm_block_all_reduce", "compute"),
        ("nvjet_tst_gemm_reduce_scatter_fused", "compute"),
        ("void at::native::reduce_kernel<512, 1>", "compute"),
    ],
)
def test_kernel_class(name: str, wanted: str) -> None:
    assert kernel_class(name) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("cudaLaunchKernel", "cudaLaunchKernel"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch"),
        ("cuLaunchKernelEx", "cuLaunchKernelEx"),
        ("hipExtModuleLaunchKernel", "hipExtModuleLaunchKernel"),
        ("hipMemcpyWithStream", "hipMemcpyWithStream"),
        ("cudaMemsetAsync_v3020_ptsz", "cudaMemsetAsync"),
        ("cudaLaunchHostFunc", None),
        ("cudaStreamSynchronize", None),
        ("INVALID", None),
    ],
)
def test_launch_name(name: str, wanted: str | None) -> None:
    assert launch_name(name) == wanted


@pytest.mark.parametrize(
    ("path", "siblings", "told_rank", "wanted"),
    [
        ("rank0.1795959451145768757.pt.trace.json.gz", (), 0, "rank0"),
        ("a/dp0_pp0_tp1_dcp0_ep1_rank1.17.pt.trace.json.gz", (), 0, "rank1"),
        ("1764400000-TP-2-DP-0.trace.json.gz", (), 0, "tp-2-dp-0"),
        ("trace.json", (), 4, "rank4"),
        ("trace.json", (), None, "trace"),
        (
            "host_77.1764400000000.pt.trace.json",
            ("host_78.1764400000000.pt.trace.json",),
            0,
            "host_77",
        ),
        ("a/rank0.1.pt.trace.json", ("b/rank0.1.pt.trace.json",), 0, "a/rank0.1"),
        ("rank0.111111111.pt.trace.json", ("rank0.222222222.pt.trace.json",), 0, "rank0"),
    ],
)
def test_process_key(
    path: str, siblings: tuple[str, ...], told_rank: int | None, wanted: str
) -> None:
    assert process_key(path, siblings, told_rank) == wanted


def test_worker_and_rank() -> None:
    assert worker_name("x/sampled_rank-1.json.gz") == "x/sampled_rank-1"
    assert file_rank("x/sampled_rank-1.json.gz") == 1
    assert file_rank("franke.json") is None
