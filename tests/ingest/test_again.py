"""The same run a second time: unchanged, replaced, or refused."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from ingest.made import content, rows_of, write_log

from trueput.errors import InputError, UsageError
from trueput.ingest.folders import find_runs
from trueput.ingest.store import SWEEP_AFTER_S, Store
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading, ensure_run
from trueput.verbs.sql import sql


def test_the_same_bytes_change_nothing(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log")
    (first,) = ingest([run], store=store)
    before = {p: p.read_bytes() for p in store.rglob("*.*") if p.is_file()}
    os.utime(run / "server.log", (1, 1))
    (second,) = ingest([run], store=store)
    assert (first.state, second.state) == ("new", "unchanged")
    assert {p: p.read_bytes() for p in store.rglob("*.*") if p.is_file()} == before


def test_other_bytes_at_the_same_path_replace_the_run(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log", 4)
    ingest([run], store=store)
    write_log(run / "server.log", 6)
    (done,) = ingest([run], store=store)
    assert done.state == "replaced"
    assert rows_of(store, "run", "engine_steps").num_rows == 18
    fresh = tmp_path / "fresh"
    ingest([run], store=fresh)
    assert content(store, "run") == content(fresh, "run")


def test_other_bytes_at_another_path_need_a_word(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_log(tmp_path / "a" / "run" / "server.log", 4)
    write_log(tmp_path / "b" / "run" / "server.log", 5)
    ingest([tmp_path / "a" / "run"], store=store)
    with pytest.raises(UsageError) as raised:
        ingest([tmp_path / "b" / "run"], store=store)
    assert "--replace" in str(raised.value)
    assert "--run" in str(raised.value)
    assert rows_of(store, "run", "engine_steps").num_rows == 12
    (done,) = ingest([tmp_path / "b" / "run"], store=store, replace=True)
    assert done.state == "replaced"
    assert rows_of(store, "run", "engine_steps").num_rows == 15


def test_the_same_bytes_at_another_path_are_the_same_run(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for folder in ("a", "b"):
        write_log(tmp_path / folder / "run" / "server.log")
    ingest([tmp_path / "a" / "run"], store=store)
    (done,) = ingest([tmp_path / "b" / "run"], store=store)
    assert done.state == "unchanged"


def test_the_same_bytes_under_another_name_are_another_run(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log")
    ingest([run], store=store)
    ingest([run], run="again", store=store)
    assert list(Store(store).manifests()) == ["again", "run"]


def test_a_verb_keeps_both_runs_where_a_path_meets_a_taken_name(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_log(tmp_path / "a" / "run" / "server.log", 4)
    write_log(tmp_path / "b" / "run" / "server.log", 5)
    said: list[str] = []
    how = Reading(store=store, note=said.append)
    first = ensure_run(find_runs(tmp_path / "a" / "run")[0], how)
    second = ensure_run(find_runs(tmp_path / "b" / "run")[0], how)
    assert first == "run"
    assert second.startswith("run~")
    assert len(second) == len("run~") + 8
    assert len(said) == 1
    assert ensure_run(find_runs(tmp_path / "b" / "run")[0], how) == second
    assert len(Store(store).manifests()) == 2


def test_replaced_files_are_swept_when_no_reader_can_need_them(tmp_path: Path) -> None:
    run, root = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log", 4)
    ingest([run], store=root)
    old = set(root.rglob("*.parquet"))
    write_log(run / "server.log", 5)
    ingest([run], store=root)
    assert old <= set(root.rglob("*.parquet"))
    for path in root.rglob("*.parquet"):
        seconds = path.stat().st_mtime - 2 * SWEEP_AFTER_S
        os.utime(path, (seconds, seconds))
    write_log(run / "server.log", 6)
    ingest([run], store=root)
    assert not old & set(root.rglob("*.parquet"))
    assert rows_of(root, "run", "engine_steps").num_rows == 18


def test_run_makes_one_run_of_several_paths(tmp_path: Path) -> None:
    store = tmp_path / "store"
    one = write_log(tmp_path / "a" / "server.log", 2)
    two = write_log(tmp_path / "b" / "server.log", 3, first=50)
    (done,) = ingest([one, two, tmp_path / "b"], run="both", store=store)
    assert done.files == 2
    assert rows_of(store, "both", "engine_steps").num_rows == 15
    sources = rows_of(store, "both", "sources").column("source_id").to_pylist()
    assert len(sources) == len(set(sources)) == 3


def test_run_with_a_folder_of_runs_is_refused(tmp_path: Path) -> None:
    for name in ("mon", "tue"):
        write_log(tmp_path / "nights" / name / "server.log")
    with pytest.raises(UsageError):
        ingest([tmp_path / "nights"], run="x", store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_run_names_the_only_run_below_a_folder(tmp_path: Path) -> None:
    log = write_log(tmp_path / "night" / "logs" / "server.log", 4)
    (done,) = ingest([tmp_path / "night"], run="x", store=tmp_path / "store")
    assert (done.run_id, done.state) == ("x", "new")
    assert rows_of(tmp_path / "store", "x", "engine_steps").num_rows == 12
    (again,) = ingest([log.parent], run="x", store=tmp_path / "store")
    assert again.state == "unchanged", "the run is that of the folder below"


def test_two_folders_of_one_name_are_refused_together(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_log(tmp_path / folder / "run" / "server.log", len(folder))
    with pytest.raises(UsageError):
        ingest([tmp_path / "a" / "run", tmp_path / "b" / "run"], store=tmp_path / "store")


def test_nothing_claimed_is_an_input_error_and_leaves_no_run(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    run.mkdir()
    (run / "run.toml").write_text("gpu_count = 1\n")
    (run / "photo.bin").write_bytes(bytes(range(256)))
    with pytest.raises(InputError):
        ingest([run], store=store)
    with pytest.raises(InputError):
        ingest([run / "photo.bin"], store=store)
    assert not Store(store).manifests()


def test_unclaimed_files_are_listed_with_what_was_tried(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log")
    (run / "photo.bin").write_bytes(bytes(range(256)))
    (done,) = ingest([run], store=store)
    assert done.unclaimed == ("photo.bin",)
    rows = {r["source_id"]: r for r in rows_of(store, "run", "sources").to_pylist()}
    assert rows["photo.bin"]["format"] is None
    assert "vllm_log" in rows["photo.bin"]["sniff_reason"]
    codes = rows_of(store, "run", "problems").column("code").to_pylist()
    assert "INGEST002" in codes


def test_a_copy_inside_a_run_is_read_once(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log")
    write_log(run / "copy.log")
    (done,) = ingest([run], store=store)
    assert rows_of(store, "run", "engine_steps").num_rows == 12
    problems = rows_of(store, "run", "problems").to_pylist()
    assert [p["source_id"] for p in problems if p["code"] == "INGEST005"] == ["server.log"]
    assert done.copies == ("server.log",)


def test_a_file_and_its_compressed_twin_are_read_once(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    plain = write_log(run / "server.log")
    (run / "server.log.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (done,) = ingest([run], store=store)
    assert rows_of(store, "run", "engine_steps").num_rows == 12
    problems = rows_of(store, "run", "problems").to_pylist()
    twins = [p["source_id"] for p in problems if p["code"] == "INGEST005"]
    assert len(twins) == 1
    assert done.copies == tuple(twins)


def test_results_appended_to_one_file_stay_apart(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    run.mkdir()
    one = {
        "date": "20260101-000000",
        "backend": "openai",
        "model_id": "m",
        "tokenizer_id": "m",
        "num_prompts": 2,
        "completed": 2,
        "duration": 3.0,
        "total_input_tokens": 11,
        "total_output_tokens": 4,
        "input_lens": [5, 6],
        "output_lens": [2, 2],
        "ttfts": [0.5, 0.5],
        "itls": [[0.1], [0.1]],
        "start_times": [10.0, 11.0],
        "errors": ["", ""],
    }
    later = one | {"date": "20260101-000100", "start_times": [70.0, 71.0]}
    (run / "bench.json").write_text(json.dumps(one) + "\n" + json.dumps(later) + "\n")
    ingest([run], store=store)
    reading = Reading(store=store, slo="ttft=1s")
    rows = sql("SELECT session, row_ix, outcome FROM request_outcomes", reading).dicts()
    assert len({r["row_ix"] for r in rows}) == 4
    assert len({r["session"] for r in rows}) == 2
    assert {r["outcome"] for r in rows} == {"good"}
    assert sql("FROM check_requests_unique", reading).rows == []


def test_a_question_about_a_path_of_which_nothing_is_left_keeps_the_run(tmp_path: Path) -> None:
    """Only `ingest` may replace: a question about a path whose files went away loses nothing."""
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log")
    (run / "run.toml").write_text("gpu_count = 1\n")
    ingest([run], store=store)
    before = content(store, "run")
    for left in (None, b"\x1f\x8b\x08", b""):  # gone, cut to the head of an archive, emptied
        (run / "server.log").unlink(missing_ok=True)
        if left is not None:
            (run / "server.log").write_bytes(left)
        said: list[str] = []
        how = Reading(store=store, note=said.append)
        (found,) = find_runs(run)
        beside = ensure_run(found, how)
        assert beside.startswith("run~")
        assert "`run` stays as it was" in said[0]
        assert content(store, "run") == before
        assert ensure_run(found, how) == beside
        usable = sql("SELECT run_id, usable FROM runs ORDER BY run_id", how).dicts()
        assert {r["run_id"]: r["usable"] for r in usable} | {"run": True, beside: False} == {
            r["run_id"]: r["usable"] for r in usable
        }
    named = {n for m in Store(store).manifests().values() for ns in m.files.values() for n in ns}
    assert named == {p.relative_to(store).as_posix() for p in store.rglob("*.parquet")}
    write_log(run / "server.log")
    assert ensure_run(find_runs(run)[0], Reading(store=store)) == "run"


def test_a_question_about_a_path_that_still_tells_something_reads_it_anew(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log", 4)
    ingest([run], store=store)
    write_log(run / "server.log", 2)
    assert ensure_run(find_runs(run)[0], Reading(store=store)) == "run"
    assert rows_of(store, "run", "engine_steps").num_rows == 6
