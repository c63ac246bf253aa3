"""A file that may not be read takes nothing else of its run with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ingest.made import rows_of, write_log

from trueput.errors import InputError
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql


def lock(patch: pytest.MonkeyPatch) -> None:
    """Make every file named locked.log refuse to be opened, also by root."""
    opened = Path.open

    def refuse(path: Path, *args: object, **kwargs: object) -> object:
        if path.name == "locked.log" and "w" not in str(kwargs.get("mode")):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)  # type: ignore[call-overload]  # passed on as given

    patch.setattr(Path, "open", refuse)


def test_the_rest_of_the_run_is_read_and_the_file_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch)
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log")
    write_log(run / "locked.log", 9)
    (done,) = ingest([run], store=store)
    assert (done.state, done.usable) == ("new", True)
    assert rows_of(store, "run", "engine_steps").num_rows == 12
    found = sql("SELECT source_id, code, severity FROM problems", Reading(store=store)).dicts()
    assert found == [{"source_id": "locked.log", "code": "INGEST006", "severity": "error"}]
    found = sql("SELECT source_id FROM sources WHERE sha256 IS NULL", Reading(store=store)).dicts()
    assert found == [{"source_id": "locked.log"}]


def test_a_run_of_one_such_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock(monkeypatch)
    log = write_log(tmp_path / "locked.log")
    with pytest.raises(InputError, match="cannot be read"):
        ingest([log], store=tmp_path / "store")


def test_readable_again_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log")
    write_log(run / "locked.log", 9, first=10)
    with monkeypatch.context() as patch:
        lock(patch)
        ingest([run], store=store)
    (done,) = ingest([run], store=store)
    assert done.state == "replaced"
    assert rows_of(store, "run", "engine_steps").num_rows == 39
