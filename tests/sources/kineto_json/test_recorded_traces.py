"""Public traces of CUDA and ROCm -> what SOURCES.md says that they hold, to the nanosecond."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from fixture_folder import fixture_folder
from sources.kineto_json import reading

from trueput.source_api import Problem

Row = dict[str, Any]
NAMES = (
    "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto",
    "hta/critical_path__cuda_event_sync_multi_stream__event_sync_trace",
    "hta/nccl_parser_config__nccl_data",
    "hta/negative_queue_length_values_check__rank0",
    "hta/rank_non_gpu__rank_non_gpu",
    "hta/timeline_analysis__sampled_rank-0",
    "hta/trace_compare__base__base",
    "hta/trace_file_list__inference_rank_1",
    "hta/trace_filter__sampled_rank-1",
    "hta/triton_example__triton_example",
    "tracelens/b200__eager_trace",
    "tracelens/h100__Qwen_Qwen1.5-0.5B-Chat__1016005",
    "tracelens/h100__gaunernst_bert-small-uncased__1016001",
    "tracelens/inference__sglang_prefilldecode__sglang_Qwen3-8B_prefilldecode",
    "tracelens/inference__vllm_decode_full__graph_execution",
    "tracelens/mi210__gpu_only_trace__gpu_only_trace",
    "tracelens/mi300__resnet_act_checkpoint",
    "tracelens/torch_compile_triton__trace",
)


def union_ns(rows: Iterable[Row]) -> int:
    """Time in which at least one of the rows runs."""
    total, reached = 0, -(2**63)
    for start, end in sorted((r["start_at_ns"], r["end_at_ns"]) for r in rows):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def facts_of(rows: dict[str, list[Row]]) -> dict[str, int]:
    """The numbers of SOURCES.md, from the rows of the source."""
    ops, launches = rows["gpu_ops"], rows["gpu_launches"]
    kernels = [op for op in ops if op["kind"] == "kernel"]
    # SOURCES.md counts the one library; the column `class` knows other collectives too.
    nccl = [op for op in kernels if "nccl" in op["name"].lower()]
    other = [op for op in kernels if "nccl" not in op["name"].lower()]
    calls = {(c["process_key"], c["correlation_id"]): c["api"] for c in launches}
    of_kernel = [calls.get((op["process_key"], op["correlation_id"])) for op in kernels]
    kinds = Counter(op["kind"] for op in ops)
    return {
        "kernels": kinds["kernel"],
        "memcpy": kinds["memcpy"],
        "memset": kinds["memset"],
        "sum_kernel_ns": sum(op["end_at_ns"] - op["start_at_ns"] for op in kernels),
        "union_kernel_ns": union_ns(kernels),
        "union_gpu_ns": union_ns(ops),
        "span_gpu_ns": max((op["end_at_ns"] for op in ops), default=0)
        - min((op["start_at_ns"] for op in ops), default=0),
        "streams": len({(op["device_key"], op["stream"]) for op in ops}),
        "distinct_corr": len({op["correlation_id"] for op in kernels}),
        "kernels_with_launch": sum(api is not None for api in of_kernel),
        "graph_launches": sum("GraphLaunch" in c["api"] for c in launches),
        "kernels_from_graph": sum("GraphLaunch" in (api or "") for api in of_kernel),
        "nccl_kernels": len(nccl),
        "union_nccl_ns": union_ns(nccl),
        "union_other_ns": union_ns(other),
        "overlap_ns": union_ns(nccl) + union_ns(other) - union_ns(kernels),
    }


def stated(name: str) -> tuple[dict[str, int], list[str]]:
    """The facts and step annotations that SOURCES.md states for a file."""
    text = (fixture_folder("gpu") / "SOURCES.md").read_text("utf-8")
    entry = text[text.index(f"- `{name}.json.gz`") :]
    [line] = re.findall(r"^  - facts: (.*)$", entry.split("\n- `")[0], re.MULTILINE)
    steps = re.search(r"step_annotations=\[(.*?)\], base", line)
    numbers = {key: int(n) for key, n in re.findall(r"(\w+)=(-?\d+)", line)}
    return numbers, re.findall(r'"([^"]*)"', steps[1]) if steps else []


@pytest.mark.parametrize("name", NAMES)
def test_trace(name: str) -> None:
    numbers, steps = stated(name)
    items = reading.items_of(fixture_folder("gpu") / f"{name}.json.gz")
    rows = reading.rows_of(items)
    found = facts_of(rows)
    shared = numbers.keys() & found.keys()
    assert len(shared) >= 3
    assert {key: found[key] for key in shared} == {key: numbers[key] for key in shared}
    unstated = {"nccl_kernels", "graph_launches"} - shared
    assert all(found[key] == 0 for key in unstated)
    assert {r["name"] for r in rows["gpu_ranges"] if r["dialect"]} == set(steps)
    assert all(r["context_requests"] is not None for r in rows["gpu_ranges"] if r["dialect"])
    [capture] = rows["gpu_captures"]
    assert (capture["status"], capture["kernel_rows"]) == ("whole", numbers["kernels"])
    assert all(d["rank"] == numbers.get("rank") for d in rows["gpu_devices"])


def test_full_graph_decode_belongs_to_its_step_by_launch_only() -> None:
    name = "tracelens/inference__vllm_decode_full__graph_execution"
    rows = reading.rows_of(reading.items_of(fixture_folder("gpu") / f"{name}.json.gz"))
    [step] = [r for r in rows["gpu_ranges"] if r["dialect"]]
    kernels = [op for op in rows["gpu_ops"] if op["kind"] == "kernel"]
    inside = {
        c["correlation_id"]
        for c in rows["gpu_launches"]
        if c["thread_key"] == step["thread_key"]
        and step["start_at_ns"] <= c["start_at_ns"]
        and c["end_at_ns"] <= step["end_at_ns"]
    }
    by_time = [k for k in kernels if step["start_at_ns"] <= k["start_at_ns"] <= step["end_at_ns"]]
    assert sum(k["correlation_id"] in inside for k in kernels) == 425
    assert by_time == []
    assert rows["gpu_captures"][0]["graph_mode"] == "node"


def test_the_trace_of_a_cpu_is_no_idle_gpu() -> None:
    folder = fixture_folder("vllm_cpu") / "torch_profile" / "torch_profile"
    [path] = folder.glob("*.pt.trace.json.gz")
    items = reading.items_of(path, relative_path=f"torch_profile/{path.name}")
    rows = reading.rows_of(items)
    assert [i.code for i in items if isinstance(i, Problem)] == ["KINETO011"]
    assert rows["gpu_ops"] == rows["gpu_devices"] == []
    assert rows["gpu_captures"][0]["kernel_rows"] == 0
    steps = [r for r in rows["gpu_ranges"] if r["dialect"] == "vllm_detailed"]
    assert len(steps) > 10
    assert {r["process_key"] for r in steps} == {"rank0"}
