"""What is a run: folders, files, names."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ingest.made import write_log

from trueput.errors import InputError
from trueput.ingest.folders import claim, default_run_id, find_runs
from trueput.verbs.ingest import ingest


def names(path: Path) -> list[str]:
    return [found.run_id for found in find_runs(path)]


def test_a_file_is_a_run_named_without_its_format_suffixes(tmp_path: Path) -> None:
    log = write_log(tmp_path / "friday.night.server.log")
    assert names(log) == ["friday.night.server"]
    packed = tmp_path / "friday.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert names(packed) == ["friday"]


@pytest.mark.parametrize(
    ("name", "run_id"),
    [("a.log", "a"), ("a.json.gz", "a"), ("a.JSON", "a"), ("a.v2", "a.v2"), (".log", ".log"),
     ("a.b.jsonl.zst", "a.b"), ("20261129", "20261129"), ("x.tar", "x.tar")],
)  # fmt: skip
def test_default_run_id_of_a_file(tmp_path: Path, name: str, run_id: str) -> None:
    path = tmp_path / name
    path.write_text("x")
    assert default_run_id(path) == run_id


def test_a_folder_keeps_its_whole_name(tmp_path: Path) -> None:
    write_log(tmp_path / "v1.log" / "server.log")
    assert names(tmp_path / "v1.log") == ["v1.log"]


def test_the_folder_one_stands_in_has_a_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "here" / "server.log")
    monkeypatch.chdir(tmp_path / "here")
    assert names(Path()) == ["here"]


def test_a_folder_with_a_claimed_file_is_a_run_and_its_subfolders_belong_to_it(
    tmp_path: Path,
) -> None:
    write_log(tmp_path / "run" / "server.log")
    write_log(tmp_path / "run" / "later" / "server.log", first=4)
    (only,) = find_runs(tmp_path / "run")
    assert list(only.files) == ["later/server.log", "server.log"]


def test_a_folder_with_a_run_toml_is_a_run_though_its_files_lie_below(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "logs" / "server.log")
    write_log(tmp_path / "run" / "more" / "server.log", first=4)
    (tmp_path / "run" / "run.toml").write_text("")
    assert names(tmp_path / "run") == ["run"]


def test_otherwise_each_subfolder_is_a_run(tmp_path: Path) -> None:
    write_log(tmp_path / "nights" / "mon" / "server.log")
    write_log(tmp_path / "nights" / "deep" / "tue" / "server.log")
    (tmp_path / "nights" / "README.md").write_text("Iteration(1): vLLM `Added request x.`")
    (tmp_path / "nights" / "empty").mkdir()
    assert names(tmp_path / "nights") == ["tue", "mon"]


def test_hidden_files_and_folders_are_not_looked_at(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "server.log")
    write_log(tmp_path / "run" / ".old" / "server.log")
    write_log(tmp_path / "run" / ".server.log.swp")
    write_log(tmp_path / "run" / "..data" / "server.log")  # as mounted volumes have beside it
    (only,) = find_runs(tmp_path / "run")
    assert list(only.files) == ["server.log"]


def test_two_dots_hide_no_file(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "..server.log")
    (only,) = find_runs(tmp_path / "run")
    assert list(only.files) == ["..server.log"]


def test_truth_files_are_never_part_of_a_run(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "server.log")
    write_log(tmp_path / "run" / "truth_server.log")
    write_log(tmp_path / "other" / "truth_server.log")
    (only,) = find_runs(tmp_path / "run")
    assert list(only.files) == ["server.log"]
    with pytest.raises(InputError):
        find_runs(tmp_path / "other")


def test_documents_and_programs_are_not_claimed(tmp_path: Path) -> None:
    for name in ("notes.md", "parse.py", "report.html"):
        assert claim(write_log(tmp_path / name)).source is None


@pytest.mark.parametrize("make", ["nothing", "empty", "foreign"])
def test_a_path_without_a_run_is_an_input_error(tmp_path: Path, make: str) -> None:
    path = tmp_path / "path"
    if make != "nothing":
        path.mkdir()
    if make == "foreign":
        (path / "photo.bin").write_bytes(bytes(range(256)))
    with pytest.raises(InputError) as raised:
        find_runs(path)
    assert str(path) in raised.value.message


def test_a_claim_says_why_not(tmp_path: Path) -> None:
    path = tmp_path / "photo.bin"
    path.write_bytes(bytes(range(256)))
    answer = claim(path)
    assert answer.source is None
    assert "vllm_log" in answer.reason


def test_a_folder_without_anything_known_is_named(tmp_path: Path) -> None:
    """A notebook and hidden files are no data; a cut profile two folders down is."""
    runs = tmp_path / "runs"
    write_log(runs / "good" / "server.log")
    for name, text in (
        ("bad/deep/nsys.sqlite", ""),
        ("notes/README.md", "vLLM"),
        ("notes/.cache.json", "{}"),
        ("mixed/good2/truth_run.json", "{}"),
        ("mixed/odd/profile.json", "<html>"),
    ):
        (runs / name).parent.mkdir(parents=True, exist_ok=True)
        (runs / name).write_text(text)
    write_log(runs / "mixed" / "good2" / "server.log")
    passed: list[Path] = []
    done = ingest([runs], store=tmp_path / "store", passed=passed)
    assert {d.run_id for d in done} == {"good", "good2"}
    assert passed == [runs / "bad", runs / "mixed" / "odd"]


def test_of_several_paths_those_without_a_run_keep_no_other_from_being_read(tmp_path: Path) -> None:
    """As a shell's `runs/*` names them: tools, documents and a folder of which nothing is known."""
    runs = tmp_path / "runs"
    write_log(runs / "good" / "server.log")
    (runs / "tools").mkdir()
    (runs / "tools" / "scrape.py").write_text("print()")
    (runs / "README.md").write_text("what ran")
    (runs / "told").mkdir()
    (runs / "told" / "run.toml").write_text("gpu_count = 1")
    (runs / "told" / "photo.bin").write_bytes(bytes(range(256)))
    passed: list[Path] = []
    done = ingest(sorted(runs.iterdir()), store=tmp_path / "store", passed=passed)
    assert [one.run_id for one in done] == ["good"]
    assert sorted(passed) == [runs / "README.md", runs / "told", runs / "tools"]
    with pytest.raises(InputError, match=r"README\.md.*known format"):
        ingest([runs / "README.md", runs / "tools"], store=tmp_path / "store")
    with pytest.raises(InputError, match="no such file"):
        ingest([runs / "good", runs / "gone"], store=tmp_path / "store")
