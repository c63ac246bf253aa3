"""Where the recorded files are that tests read: the folder that TRUEPUT_FIXTURES names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def fixture_folder(name: str) -> Path:
    """Return one folder of the fixtures; skip without them, fail where they are required."""
    root = os.environ.get("TRUEPUT_FIXTURES")
    if root and (Path(root) / name).is_dir():
        return Path(root) / name
    if os.environ.get("TRUEPUT_REQUIRE_FIXTURES") == "1":
        pytest.fail(f"TRUEPUT_REQUIRE_FIXTURES is 1, and TRUEPUT_FIXTURES holds no folder {name}")
    pytest.skip("TRUEPUT_FIXTURES is not set")
