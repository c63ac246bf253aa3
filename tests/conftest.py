"""What holds for every test."""

from __future__ import annotations

import os


def pytest_configure() -> None:
    if os.environ.get("TRUEPUT_OPEN_ANEW") != "1":
        from kept_open import switch_on

        switch_on()
