"""What holds for every test."""

from __future__ import annotations


def pytest_configure() -> None:
    from kept_open import IS_LONG, switch_on

    if not IS_LONG:
        switch_on()
