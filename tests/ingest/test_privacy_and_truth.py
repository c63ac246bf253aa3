"""Recorded runs: no text of a prompt or an answer is kept, and truth files change nothing."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cases.recorded import fixtures_root
from ingest.made import content

from trueput.schema import tables
from trueput.verbs.ingest import ingest

WORDS = 3


def strings_of(store: Path) -> Iterator[str]:
    """Every string value of every Parquet file, and every other file as text."""
    for path in store.rglob("*"):
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            for name in table.column_names:
                if str(table.schema.field(name).type) == "string":
                    yield from table.column(name).unique().drop_null().to_pylist()
        elif path.is_file():
            yield path.read_text("utf-8", "replace")


def spoken(texts: list[str]) -> set[str]:
    """A few words in a row from the middle of each text: what must be found nowhere."""
    found = set()
    for text in texts:
        words = text.split()
        if len(words) >= 2 * WORDS:
            middle = len(words) // 2
            found.add(" ".join(words[middle : middle + WORDS]))
    return found


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("private") / "store"
    recorded = fixtures_root() / "vllm_cpu"
    ingest([recorded / n for n in ("baseline_low", "errors_debug")], store=store)
    return store


@pytest.mark.parametrize("run", ["baseline_low", "errors_debug"])
def test_generated_texts_are_not_in_the_store(stored: Path, run: str) -> None:
    bench = json.loads((fixtures_root() / "vllm_cpu" / run / "bench.json").read_text("utf-8"))
    told = spoken(bench["generated_texts"])
    assert told
    everything = "\n".join(strings_of(stored))
    assert not [t for t in told if t in everything]


def test_prompts_and_token_ids_of_a_debug_log_are_not_in_the_store(stored: Path) -> None:
    path = fixtures_root() / "vllm_cpu" / "errors_debug" / "server.log.gz"
    log = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    ids = {
        ", ".join(re.split(r",\s*", found)[10:16])
        for found in re.findall(r"(?:prompt_token_ids: |\"prompt\": ?)\[([0-9, ]{80,})\]", log)
    }
    prompts = {p[20:60] for p in re.findall(r"prompt: '([^']{80,})'", log)}
    assert ids
    everything = "\n".join(strings_of(stored))
    squeezed = everything.replace(", ", ",")
    assert not [t for t in ids if t.replace(", ", ",") in squeezed]
    assert not [t for t in prompts if t in everything]


def test_the_only_lists_that_are_kept_are_spans_of_time(stored: Path) -> None:
    lists = {
        (path.relative_to(stored).parts[0], field.name)
        for path in stored.rglob("*.parquet")
        for field in pq.read_schema(path)
        if str(field.type).startswith("list")
    }
    allowed = {(t.name, c.name) for t in tables().values() for c in t.columns if c.type == "spans"}
    assert lists <= allowed


def test_plain_pyarrow_reads_the_store(stored: Path) -> None:
    table = pq.read_table(stored / "requests" / "baseline_low")
    assert set(table.column("run_id").to_pylist()) == {"baseline_low"}
    field = pq.read_schema(next((stored / "requests" / "baseline_low").iterdir())).field(
        "sent_at_ns"
    )
    assert field.metadata[b"unit"] == b"ns"


def test_results_are_the_same_without_truth_files(tmp_path: Path) -> None:
    recorded = fixtures_root() / "vllm_cpu" / "errors_debug"
    with_truth, without = tmp_path / "a" / "run", tmp_path / "b" / "run"
    shutil.copytree(recorded, with_truth)
    shutil.copytree(recorded, without, ignore=shutil.ignore_patterns("truth_*"))
    assert any(p.name.startswith("truth_") for p in with_truth.iterdir())
    for path in (with_truth, without):
        ingest([path], store=path.parent / "store")
    assert content(tmp_path / "a" / "store", "run") == content(tmp_path / "b" / "store", "run")
