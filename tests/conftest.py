"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from effort import IS_LONG, MARK, short
from kept_open import switch_on


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    if not IS_LONG:
        switch_on()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Leave out what is long, but for tests that are named, and for goldens to be written.

    A wrapper, so that the first cases are those of the file, before others shuffle them.
    """
    is_asked = any("::" in arg for arg in config.args) or config.getoption("update_goldens", False)
    if not IS_LONG and not is_asked:
        kept, left = short(items)
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not IS_LONG:
        terminalreporter.write_line("the short suite; TRUEPUT_LONG_TESTS=1 runs the long tests too")
