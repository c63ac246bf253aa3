"""A store of the sample runs, and the golden files that commands are compared with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cases.recorded import shared_store
from cli.program import CHECKOUT, Program

SAMPLES = CHECKOUT / "sample_data"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="Write what the commands print now into tests/cli/goldens and README.md.",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-goldens", default=False) and os.environ.get("CI"):
        raise pytest.UsageError("--update-goldens: goldens are reviewed by people, not made by CI")


@pytest.fixture(scope="session")
def update_goldens(pytestconfig: pytest.Config) -> bool:
    """Whether goldens are to be written instead of compared."""
    return bool(pytestconfig.getoption("--update-goldens", default=False))


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds the six sample runs."""
    return shared_store(tmp_path_factory, "samples", [SAMPLES])


@pytest.fixture
def trueput(store: Path) -> Program:
    """The command line on that store, 80 columns wide, at the root of the checkout."""
    return Program(store)
