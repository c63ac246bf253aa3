"""Traces that were merged of several processes: correlation ids are those of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ingest.traces import Event, Held, kernel, launch, write


def of(event: Event, pid: Any, device: int | None = None, **more: Any) -> Event:
    """An event of another process, or on another device."""
    args = {**event["args"], **({} if device is None else {"device": device}), **more}
    return {**event, "pid": pid, "args": args}


def rank(number: int, ran: range) -> list[Event]:
    """100 launches with ids 1 to 100, and the kernels that ran on the device of that number."""
    calls = [of(launch(n), 100 + number) for n in range(1, 101)]
    return calls + [of(kernel(n), number, number) for n in ran]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_loss_in_one_process_is_not_hidden_by_the_ids_of_another(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    ranks = [rank(0, range(1, 101)), rank(1, range(1, 51))]
    ranks[1].append(of(kernel(100), 1, 1))
    write(tmp_path / "run" / "t.pt.trace.json", [e for at in order for e in ranks[at]])
    held = Held(tmp_path / "run")
    # the second lacks 51 to 99
    assert held.told == {"INGEST009": 49}
    assert held.rows("SELECT count(DISTINCT process_key) FROM gpu_launches") == [(2,)]
    assert held.rows(
        "SELECT device, count(DISTINCT process_key), count(*) FROM gpu_ops GROUP BY 1 ORDER BY 1"
    ) == [(0, 1, 100), (1, 1, 51)]
    assert held.rows("SELECT count(DISTINCT process_key) FROM gpu_ops") == [(2,)]


def test_a_device_belongs_to_the_process_that_launched_on_it(tmp_path: Path) -> None:
    """Of the ids of the second process a third are those of the first; its device is 0."""
    first = [of(launch(n), 100) for n in range(1, 91)] + [of(kernel(n), 1, 1) for n in range(1, 91)]
    second = [of(launch(n), 101) for n in range(61, 151)]
    second += [of(kernel(n), 0, 0) for n in range(61, 151)]
    write(tmp_path / "run" / "t.pt.trace.json", [*first, *second])
    held = Held(tmp_path / "run")
    assert held.told == {}
    joined = held.rows(
        "SELECT o.device, count(*) FROM gpu_ops AS o JOIN gpu_launches AS l "
        "ON l.process_key = o.process_key AND l.correlation_id = o.correlation_id "
        "GROUP BY 1 ORDER BY 1"
    )
    assert joined == [(0, 90), (1, 90)]


def test_two_processes_on_one_device_have_what_they_launched(tmp_path: Path) -> None:
    calls = [of(launch(n), 100 + n % 2) for n in range(1, 41)]
    write(tmp_path / "run" / "t.pt.trace.json", [*calls, *(kernel(n) for n in range(1, 41))])
    held = Held(tmp_path / "run")
    assert held.told == {}
    assert held.rows("SELECT count(*) FROM gpu_ops GROUP BY process_key") == [(20,), (20,)]


def test_words_before_pids_keep_merged_traces_apart(tmp_path: Path) -> None:
    """Both ranks call their process 100 and their device 0."""
    events = [
        {**event, "pid": f"[TP{number:02}] {event['pid']}", "ts": event["ts"] + number}
        for number in (0, 1)
        for n in range(1, 11)
        for event in (of(launch(n), 100), kernel(n))
    ]
    write(tmp_path / "run" / "t.pt.trace.json", events)
    held = Held(tmp_path / "run")
    assert held.told == {}
    # each from its first kernel to the end of its last: 960 us, with ten kernels of 60 us
    assert held.rows("SELECT device, value FROM gpu_activity WHERE metric = 'kernel_union'") == [
        (0, 600_000.0), (1, 600_000.0)
    ]  # fmt: skip
    assert held.rows("SELECT count(*), count(DISTINCT device_key) FROM gpu_devices") == [(2, 2)]


def test_annotations_of_another_pid_than_the_only_process_stay_with_it(tmp_path: Path) -> None:
    note = {"ph": "X", "cat": "user_annotation", "name": "x", "pid": 5, "tid": 9, "ts": 90,
            "dur": 2_000, "args": {}}  # fmt: skip
    events = [note, *(launch(n) for n in range(1, 11)), *(kernel(n) for n in range(1, 11))]
    write(tmp_path / "run" / "t.pt.trace.json", events)
    held = Held(tmp_path / "run")
    assert held.rows("SELECT name, operations FROM gpu_range_projection") == [("x", 10)]
