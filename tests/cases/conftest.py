"""The recorded runs, each ingested once for the whole session and all its workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cases.recorded import fixtures_root, shared_store

from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

Ask = Callable[[str], list[dict[str, Any]]]
RowsOf = Callable[[str, str], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of recorded runs and client results; skips without one."""
    return fixtures_root()


@pytest.fixture(scope="session")
def store(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds every recorded vLLM run, made by a real ingest."""
    return shared_store(tmp_path_factory, "recorded", [fixtures / "vllm_cpu"])


@pytest.fixture(scope="session")
def ask(store: Path) -> Ask:
    """Ask that store in SQL, as `trueput sql` does."""

    @cache
    def question(query: str) -> list[dict[str, Any]]:
        return sql(query, Reading(store=store)).dicts()

    return question


@pytest.fixture(scope="session")
def rows_of(ask: Ask) -> RowsOf:
    """The rows of a view for one run; each view is asked for once."""

    def rows(view: str, run: str) -> list[dict[str, Any]]:
        return [r for r in ask(f"FROM {view}") if r["run_id"] == run]

    return rows
