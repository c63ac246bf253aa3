"""What `trueput ingest` says of copies, of files without a record, and of a disk that is full."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from ingest.made import rows_of, write_log
from typer.testing import CliRunner

from trueput.cli.app import build
from trueput.ingest import read
from trueput.verbs.ingest import ingest

HEADER = "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp"


def test_a_copy_is_not_of_an_unknown_format(tmp_path: Path) -> None:
    log = write_log(tmp_path / "run" / "server.log")
    shutil.copy(log, log.with_name("again.log"))
    (log.parent / "notes.txt").write_text("hello\n")
    (done,) = ingest([log.parent], store=tmp_path / "store")
    assert done.copies == ("server.log",)
    assert done.unclaimed == ("notes.txt",)
    told = CliRunner().invoke(
        build(), ["ingest", str(log.parent), "--replace", "--store", str(tmp_path / "store")]
    )
    assert "copies of other files, not read: server.log" in told.output
    assert "of no known format, not read: notes.txt\n" in told.output


def test_a_file_of_a_header_alone_says_that_it_tells_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "5_kernel_trace.csv").write_text(HEADER + "\n")
    ingest([run], store=tmp_path / "store")
    problems = rows_of(tmp_path / "store", "run", "problems").to_pylist()
    assert [(p["source_id"], p["code"]) for p in problems] == [("5_kernel_trace.csv", "INGEST008")]


def test_a_full_disk_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "run" / "server.log")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(read.PartWriter, "_flush", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        ingest([log.parent], store=tmp_path / "store")
    assert error.value.filename == str(tmp_path / "store")
