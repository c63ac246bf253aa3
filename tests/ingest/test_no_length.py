"""Operations that end as they start: what ran is not seen, and gaps behind it are not idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest.traces import Answers, Event, kernel, launched, of_case

from trueput.attribution.gpu.operations.no_length import without_length

FINE_US = 0.001
"""What makes a length no whole number of microseconds."""


def fine(events: Sequence[Event]) -> list[Event]:
    """The events with lengths of 60.001 us."""
    return [e | {"dur": e["dur"] + FINE_US * (e["cat"] == "kernel" and e["dur"] > 0)}
            for e in events]  # fmt: skip


def moved(number: int, size: int | None, *, us: float = 0, stream: int = 8) -> Event:
    """A copy on a stream of its own, 80 us behind the start of a cell: 10 us after its kernel."""
    told = {} if size is None else {"bytes": size}
    return {**kernel(number, 10_000 + number), "cat": "gpu_memcpy", "dur": us,
            "ts": number * 100 + 80,
            "args": {"device": 0, "stream": stream, "correlation": 10_000 + number, **told},
            }  # fmt: skip


def shortened(numbers: Sequence[int], upto: int = 100) -> list[Event]:
    """A kernel of 60 us every 100 us, some of which show no length."""
    return [
        e | {"dur": 0} if e["cat"] == "kernel" and e["args"]["correlation"] in numbers else e
        for e in launched(range(1, upto + 1), range(1, upto + 1))
    ]


@dataclass(frozen=True)
class Case:
    """A trace of kernels of 60 us every 100 us, from 110 us on, and the gaps in it by hand (us)."""

    events: Sequence[Event]
    gaps_us: int
    lost: int = 0
    few: int = 0
    beside_us: int = 0
    blind: int = 0


# of n kernels the gaps between are 40 us; one without a length adds its 60
CASES = {
    "all have a length": Case(shortened(()), 99 * 40),
    "every kernel has none": Case(shortened(range(1, 101)), 9_900, lost=100, blind=100),
    "a third has none": Case(
        shortened(range(3, 101, 3)), 99 * 40 + 33 * 60, lost=33, blind=33
    ),
    # it may have run from its start to that of the next: 100 us, of a trace of 29,960 us
    "one of three hundred": Case(shortened([150], 300), 299 * 40 + 60, few=1, beside_us=100,
                                 blind=1),
    # the same kernel, and the next on its stream begins 1 s later
    "one of two hundred, before a long gap": Case(
        [*shortened([100]), *launched(range(10_000, 10_100), range(10_000, 10_100))],
        10_099 * 100 + 70 - 110 - 199 * 60, lost=1, blind=1,
    ),
    # lengths in whole microseconds: a copy of none took less than one, in the gap behind a kernel
    "copies on a coarse clock": Case(
        [*shortened(()), *(moved(n, None) for n in range(1, 91))], 99 * 40, few=90, beside_us=90,
        blind=90,
    ),
    # a copy of 4 KiB takes 140.96 us at most: 30 us of this gap and 40 of the next
    "a small copy on a fine clock": Case(
        [*fine(shortened((), 300)), moved(150, 4_096)], 299 * 40, few=1, beside_us=70, blind=1,
    ),
    # nothing was moved
    "a copy of no bytes": Case([*fine(shortened(())), moved(50, 0)], 99 * 40, blind=1),
    # how much was moved is not told, and it may have run to the end: most gaps of the second half
    "a copy of unknown size on a fine clock": Case(
        [*fine(shortened(())), moved(50, None)], 99 * 40, lost=1, blind=1
    ),
    # the next on its stream begins 30 us later
    "a copy of unknown size before the next on its stream": Case(
        [*fine(shortened((), 300)), moved(150, None, stream=7)], 299 * 40, few=1, beside_us=30,
        blind=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_has_no_length_may_have_run(answers: Answers, name: str) -> None:
    case, found = CASES[name], of_case(answers, CASES, name)
    ((time, low, high, basis),) = found["idle"]
    assert abs(high - case.gaps_us) <= 1  # a thousandth of a microsecond for each of 300 kernels
    if case.lost:
        assert (time, low, basis) == (0, 0, "bounded")
    else:
        assert time == high
        assert abs(high - low - case.beside_us) <= 1
        assert basis == ("bounded" if case.few else "measured")
    told = {"INGEST009": case.lost, "INGEST013": case.few, "KINETO010": case.blind}
    assert sorted(found["told"]) == [(code, count) for code, count in told.items() if count]
    nothing_seen = case.lost == len(case.events) // 2
    assert found["unions"] == [(basis,)][nothing_seen:]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "memcpy"]),
        st.integers(0, 1),  # device
        st.integers(0, 1),  # stream
        st.integers(0, 3_000),  # start
        st.sampled_from([0, 0, 1, 7, 150, 400]),  # length
        st.sampled_from([None, 0, 1]),  # bytes
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=examples(150), deadline=None)
@given(OPERATIONS)
def test_unseen_time_is_that_of_looking_at_every_nanosecond(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]
) -> None:
    part = tmp_path_factory.mktemp("none") / "ops"
    columns = {
        "source_id": ["s"] * len(rows),
        "process_key": ["p"] * len(rows),
        "kind": [r[0] for r in rows],
        "device_key": [f"p:{r[1]}" for r in rows],
        "quality": ["zero_duration" if r[4] == 0 else None for r in rows],
        "device": [r[1] for r in rows],
        "stream": [r[2] for r in rows],
        "bytes": [r[5] if r[0] == "memcpy" else None for r in rows],
        "start_at_ns": [r[3] for r in rows],
        "end_at_ns": [r[3] + r[4] for r in rows],
    }
    texts = ("source_id", "process_key", "kind", "device_key", "quality")
    table = pa.table({
        name: pa.array(values, pa.string() if name in texts else pa.int64())
        for name, values in columns.items()
    })  # fmt: skip
    pq.write_table(table, part, row_group_size=6)
    last = max(r[3] + r[4] for r in rows)
    most = 0
    for device in (0, 1):
        mine = [r for r in rows if r[1] == device]
        unseen, busy = np.zeros(last + 1, bool), np.zeros(last + 1, bool)
        for kind, _, stream, start, length, size in mine:
            busy[start : start + length] = True
            if length == 0 and not (kind == "memcpy" and size == 0):
                after = [r[3] for r in mine if r[2] == stream and r[3] > start]
                unseen[start : min([*after, last])] = True
        most = max(most, int((unseen & ~busy).sum()))
    kernels = sum(r[0] == "kernel" and r[4] == 0 for r in rows)
    found = without_length(part)
    if found is None:
        assert most == kernels == 0
    else:
        assert found.idle_ns == most
        assert found.kinds["kernels"] == (kernels, sum(r[0] == "kernel" for r in rows))
