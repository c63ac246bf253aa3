"""Texts that come as dictionaries: the file says the table's own schema and holds the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueput.arrow import InvalidRowsError, arrow_schema, conform
from trueput.ingest.read import PartWriter

OWN = {"run_id": "r", "source_id": "f"}


def words(*texts: str | None, spare: str = "") -> Any:
    """A dictionary column that also holds a text which no row has."""
    different = [spare, *dict.fromkeys(t for t in texts if t is not None)]
    codes = pa.array([None if t is None else different.index(t) for t in texts], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(different, pa.string()))


def operations(kind: Any, name: Any) -> pa.Table:
    """Rows of gpu_ops."""
    size = len(kind)
    times = pa.array(range(size), pa.int64())
    return pa.table({"kind": kind, "name": name, "device_key": words(*["G0"] * size),
                     "start_at_ns": times, "end_at_ns": times})  # fmt: skip


def test_rows_come_back_as_plain_texts(tmp_path: Path) -> None:
    first = operations(words("kernel", "memcpy"), words("k1", None))
    # another dictionary, and a batch without one: both into the same row group
    second = operations(words("memset", "kernel"), words("memset", "k2"))
    third = operations(pa.array(["kernel"]), pa.array(["k1"]))
    writer = PartWriter("gpu_ops", tmp_path / "part.parquet")
    for batch in (first, second, third):
        writer.add(conform("gpu_ops", batch, OWN, coded=True))
    assert writer.close()
    with pq.ParquetFile(tmp_path / "part.parquet") as file:
        assert file.schema_arrow.equals(arrow_schema("gpu_ops"), check_metadata=True)
        rows = file.read()
    assert rows.column("kind").to_pylist() == ["kernel", "memcpy", "memset", "kernel", "kernel"]
    assert rows.column("name").to_pylist() == ["k1", None, "memset", "k2", "k1"]
    assert rows.column("source_id").to_pylist() == ["f"] * 5


def test_a_word_that_no_row_has_is_no_fault() -> None:
    rows = operations(words("kernel", spare="nonsense"), words("k"))
    assert conform("gpu_ops", rows, OWN, coded=True).num_rows == 1


@pytest.mark.parametrize("kind", [words("nonsense"), words(None)])
def test_unknown_and_missing_words_are_refused(kind: Any) -> None:
    with pytest.raises(InvalidRowsError, match=r"gpu_ops\.kind"):
        conform("gpu_ops", operations(kind, words("k")), OWN, coded=True)


def test_a_null_among_the_texts_themselves_is_a_null() -> None:
    name = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([None], pa.string()))
    rows = conform("gpu_ops", operations(words("kernel"), name), OWN, coded=True)
    assert rows.column("name").null_count == 1
