"""Operations at an instant long before the first launch: they do not let a capture begin there."""

from __future__ import annotations

from pathlib import Path

import pytest
from ingest.traces import BASE_NS, Held, kernel, launched, write

FIRST, LAST = 50_000, 50_500
"""Launches from 5 s after the zero of the trace on."""


@pytest.mark.parametrize(("at_us", "counts"), [
    pytest.param(0, False, id="at zero"),
    pytest.param(FIRST * 100 - 500_000, True, id="half a second before, as of what still ran"),
])  # fmt: skip
def test_a_kernel_before_every_call(tmp_path: Path, at_us: int, counts: bool) -> None:
    numbers = range(FIRST, LAST)
    wrong = {**kernel(LAST, 7), "ts": at_us}
    write(tmp_path / "run" / "t.pt.trace.json", [*launched(numbers, numbers), wrong])
    held = Held(tmp_path / "run")
    assert ("INGEST007" in held.told) is not counts
    ((from_ns, whole_ns),) = held.rows("SELECT min(start_at_ns), count(*) FROM gpu_ops")
    assert (from_ns, whole_ns) == (BASE_NS + at_us * 1000, LAST - FIRST + 1)
    # five hundred kernels of 60 us, one every 100 us, and the wrong one
    begin_us = at_us if counts else FIRST * 100 + 10
    window_us = (LAST - 1) * 100 + 70 - begin_us
    assert held.idle[0] == window_us - 60 * (LAST - FIRST + counts)
