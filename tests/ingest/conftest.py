"""What a store holds of a module's made-up traces."""

from __future__ import annotations

import pytest
from ingest.traces import QUERIES, Answers, answers_of


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What is held of a module's CASES, each a run; asked by its QUESTIONS, where it has any."""
    module = request.module
    traces = (case.events for case in module.CASES.values())
    questions = getattr(module, "QUESTIONS", QUERIES)
    return answers_of(tmp_path_factory.mktemp("cases"), traces, questions)
