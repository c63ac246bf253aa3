"""Operations of a profile that no one can read are lost, as those of impossible times are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sources.gpu_reading import problems_of, read_items, rows_of

from trueput.source_api import Source
from trueput.sources import nsys_stats_csv, rocprofv3_csv, rocprofv3_json

COUNT = 200


def rocprof_json(broken: int, word: str) -> str:
    """Kernels of which some end at a word instead of an instant."""
    records = ",".join(
        json.dumps({
            "start_timestamp": 1_000 * n, "end_timestamp": 1_000 * n + 500,
            "dispatch_info": {"agent_id": {"handle": 1}, "queue_id": {"handle": 1}, "kernel_id": 1},
        }).replace(f": {1_000 * n + 500}", f": {word if n <= broken else 1_000 * n + 500}")
        for n in range(1, COUNT + 1)
    )  # fmt: skip
    head = '{"rocprofiler-sdk-tool":[{"buffer_records":{"kernel_dispatch":['
    return head + records + "]}}]}"


def rocprof_csv(broken: int, word: str) -> str:
    lines = ["Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp"]
    lines += [
        f"KERNEL_DISPATCH,1,1,k,{n},{1_000 * n},{word if n <= broken else 1_000 * n + 500}"
        for n in range(1, COUNT + 1)
    ]
    return "\n".join(lines) + "\n"


def stats(broken: int, word: str) -> str:
    lines = ["Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Device,Ctx,Strm,Name"]
    lines += [
        f"{1_000 * n},{word if n <= broken else 500},{n},1,1,1,D (0),1,7,k"
        for n in range(1, COUNT + 1)
    ]
    return "\n".join(lines) + "\n"


def stats_start(broken: int, word: str) -> str:
    lines = ["Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Device,Ctx,Strm,Name"]
    lines += [
        f"{word if n <= broken else 1_000 * n},500,{n},1,1,1,D (0),1,7,k"
        for n in range(1, COUNT + 1)
    ]
    return "\n".join(lines) + "\n"


FORMATS = {
    "rocprofv3 JSON": (rocprof_json, rocprofv3_json.SOURCE, "1_results.json", "ROCJSON002"),
    "rocprofv3 CSV": (rocprof_csv, rocprofv3_csv.SOURCE, "1_kernel_trace.csv", "ROCCSV002"),
    "nsys stats": (stats, nsys_stats_csv.SOURCE, "a.csv", "NSTAT003"),
    "nsys stats, starts": (stats_start, nsys_stats_csv.SOURCE, "a.csv", "NSTAT003"),
}


WORDS = ["NaN", '"x"', "null", "nan,7"]
CASES = [(n, w) for n in FORMATS for w in (WORDS[:3] if "JSON" in n else WORDS)]


@pytest.mark.parametrize(("name", "word"), CASES)
@pytest.mark.parametrize("broken", [0, 2, 3])
def test_more_than_one_in_a_hundred(tmp_path: Path, name: str, word: str, broken: int) -> None:
    text: Callable[[int, str], str]
    source: Source
    text, source, file, code = FORMATS[name]
    (tmp_path / file).write_text(text(broken, word))
    items = read_items(source, tmp_path / file)
    if name.startswith("nsys") and "," in word:
        code = "NSTAT002"
    assert problems_of(items).get(code, 0) == broken
    (capture,) = rows_of(items)["gpu_captures"]
    assert capture["kernel_rows"] == COUNT - broken
    assert capture["dropped_rows"] == broken
    assert capture["operations_lost"] is (broken > 2)
