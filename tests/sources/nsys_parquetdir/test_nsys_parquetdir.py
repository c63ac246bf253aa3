"""A folder of Parquet files -> the same rows as the SQLite export of the same content."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.gpu_reading import problems_of, read_items, rows_of
from sources.nsys_sqlite.exports import (
    KERNEL,
    MEMCPY,
    P1,
    P2,
    RUNTIME,
    Content,
    call,
    kernel,
    mark,
    session,
    strings,
    write_parquetdir,
    write_sqlite,
)

from trueput.scan import read_head
from trueput.source_api import HEAD_BYTES, Item, ReadOptions
from trueput.sources.nsys_parquetdir import SOURCE
from trueput.sources.nsys_sqlite import SOURCE as SQLITE

CONTENT: Content = {
    **session(),
    "StringIds": strings(s20="a range", s21="NCCL"),
    KERNEL: [kernel(100, 200, 1), kernel(150, 140, 2), kernel(160, 160, 3, P2, graphNodeId=5)],
    RUNTIME: [call(1, 2, 1), call(3, 4, 3, P2 + 9, name=11), call(5, 6, 4, name=13)],
    "NVTX_EVENTS": [
        mark(1, None, None, eventType=75, textId=21, domainId=1),
        mark(1, 9, "execute_context_1(5)_generation_0(0)"),
        mark(2, 8, None, textId=20, domainId=1),
        mark(3, 7, None, eventType=34),
    ],
    "TARGET_INFO_GPU": [{"id": 0, "name": "A GPU", "totalMemory": 80, "uuid": "GPU-a"}],
    "ENUM_CUDA_MEMCPY_OPER": [{"id": 1, "name": "CUDA_MEMCPY_KIND_HTOD"}],
}


def read_folder(files: dict[str, Path]) -> dict[str, list[Item]]:
    """What each file of the folder yields, as ingest reads it."""
    siblings = tuple(f"profile/{path.name}" for path in files.values())
    return {
        table: read_items(
            SOURCE, path, ReadOptions(relative_path=f"profile/{path.name}", siblings=siblings)
        )
        for table, path in files.items()
    }


def test_one_file_speaks_for_the_folder_and_says_what_sqlite_says(tmp_path: Path) -> None:
    found = read_folder(write_parquetdir(tmp_path / "profile", CONTENT))
    assert [table for table, items in found.items() if items] == [KERNEL]
    wanted = read_items(SQLITE, write_sqlite(tmp_path / "x.sqlite", CONTENT))
    assert rows_of(found[KERNEL]) == rows_of(wanted)
    assert problems_of(found[KERNEL]) == problems_of(wanted)
    assert [i for i in found[KERNEL] if i in wanted] == [i for i in wanted if i in found[KERNEL]]


@pytest.mark.parametrize("missing", [KERNEL, "StringIds", RUNTIME, "META_DATA_EXPORT"])
def test_a_missing_table_is_no_failure(tmp_path: Path, missing: str) -> None:
    content = {k: v for k, v in CONTENT.items() if k != missing}
    found = read_folder(write_parquetdir(tmp_path / "profile", content))
    spoken = [items for items in found.values() if items]
    assert len(spoken) == 1
    wanted = read_items(SQLITE, write_sqlite(tmp_path / "x.sqlite", content))
    assert rows_of(spoken[0]) == rows_of(wanted)


def test_a_file_alone_and_files_of_another_folder(tmp_path: Path) -> None:
    files = write_parquetdir(tmp_path / "profile", CONTENT)
    [op, _] = rows_of(read_items(SOURCE, files[KERNEL], ReadOptions()))["gpu_ops"]
    assert op["name"] is None
    assert op["device_key"] == "p111:0"
    options = ReadOptions(
        relative_path=f"b/{KERNEL}.parquet", siblings=("a/StringIds.parquet", f"b/{KERNEL}.parquet")
    )
    assert rows_of(read_items(SOURCE, files[KERNEL], options))["gpu_ops"][0]["name"] is None


def test_sniff(tmp_path: Path) -> None:
    files = write_parquetdir(tmp_path / "profile", CONTENT)
    for path in files.values():
        assert SOURCE.sniff(path.name, read_head(path, HEAD_BYTES)).score > 0.9
    head = read_head(files[KERNEL], HEAD_BYTES)
    assert SOURCE.sniff("trace.parquet", head).score == 0
    assert SOURCE.sniff(f"{KERNEL}.parquet", b"text").score == 0


def test_other_number_types_and_unsigned_ids(tmp_path: Path) -> None:
    files = write_parquetdir(tmp_path / "profile", {KERNEL: CONTENT[KERNEL]})
    table = pq.read_table(files[KERNEL])
    high = pa.array([P1 + (1 << 63)] * 3, pa.uint64())
    table = table.set_column(table.schema.get_field_index("globalPid"), "globalPid", high)
    names = pa.array([1, 1, 1], pa.int16())
    table = table.set_column(table.schema.get_field_index("streamId"), "streamId", names)
    pq.write_table(table, files[KERNEL])
    ops = rows_of(read_folder(files)[KERNEL])["gpu_ops"]
    assert ops[0]["process_key"] == str(P1 - (1 << 63))
    assert ops[0]["stream"] == 1


def test_damaged_files(tmp_path: Path) -> None:
    sound = [CONTENT[KERNEL][0], CONTENT[KERNEL][2]]
    files = write_parquetdir(tmp_path / "profile", {**CONTENT, KERNEL: sound, MEMCPY: sound})
    files[RUNTIME].write_bytes(files[RUNTIME].read_bytes()[:-20])
    items = read_folder(files)[KERNEL]
    assert problems_of(items)["NSYS002"] >= 1
    [capture] = rows_of(items)["gpu_captures"]
    # the calls alone are lost
    assert (capture["status"], capture["operations_lost"]) == ("partial", False)
    assert len(rows_of(items)["gpu_ops"]) == 4
    files[MEMCPY].write_bytes(files[MEMCPY].read_bytes()[:-20])
    [capture] = rows_of(read_folder(files)[KERNEL])["gpu_captures"]
    assert (capture["status"], capture["operations_lost"]) == ("partial", True)
    files[KERNEL].write_bytes(b"PAR1 and nothing more")
    alone = read_items(SOURCE, files[KERNEL], ReadOptions())
    assert "NSYS001" in problems_of(alone)


def _kernel_bytes() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_parquetdir(Path(folder), {KERNEL: CONTENT[KERNEL]})[KERNEL].read_bytes()


KERNEL_BYTES = _kernel_bytes()


@given(
    st.lists(st.tuples(st.integers(0, len(KERNEL_BYTES) - 1), st.binary(max_size=4)), max_size=8)
)
@settings(max_examples=examples(100), deadline=None)
def test_no_damage_raises(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(KERNEL_BYTES)
    for at, piece in changes:
        data[at : at + len(piece)] = piece
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{KERNEL}.parquet"
        path.write_bytes(bytes(data))
        rows_of(read_items(SOURCE, path, ReadOptions()))
