"""Perfetto traces as rocprofv3 writes them -> rows. The traces are made here."""

from __future__ import annotations

import importlib
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.gpu_reading import check_bytes, problems_of, read_items, rows_of

from trueput.sources.perfetto_trace import SOURCE

NOTES = ["begin_ns", "end_ns", "corr_id", "tid", "agent", "queue", "dst_agent", "copy_bytes"]
CATEGORIES = ["kernel_dispatch", "hip_api", "marker_api", "memory_copy", "hsa_api"]
EVENTS: list[tuple[str, str, dict[str, Any]]] = [
    ("hip_api", "hipLaunchKernel", {"begin_ns": 90, "end_ns": 95, "corr_id": 7, "tid": 501}),
    (
        "kernel_dispatch",
        "f(int)",
        {"begin_ns": 100, "end_ns": 200, "corr_id": 7, "agent": "Agent-2", "queue": 4},
    ),
    ("kernel_dispatch", "g.kd", {"begin_ns": 300, "end_ns": 250, "corr_id": 8, "agent": 2}),
    (
        "memory_copy",
        "MEMORY_COPY_HOST_TO_DEVICE",
        {"begin_ns": 400, "end_ns": 450, "corr_id": 9, "dst_agent": "Agent-2", "copy_bytes": 64},
    ),
    (
        "marker_api",
        "execute_context_0(0)_generation_4(4)",
        {"begin_ns": 80, "end_ns": 120, "corr_id": 10, "tid": 501},
    ),
    ("hsa_api", "hsa_init", {"begin_ns": 1, "end_ns": 2}),
]


def make_trace(
    *, packed: bool = False, events: list[tuple[str, str, dict[str, Any]]] = EVENTS
) -> bytes:
    """A trace of slices with interned names."""
    proto: Any = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = proto.Trace()
    first = trace.packet.add()
    first.trusted_packet_sequence_id = 1
    first.sequence_flags = 1
    first.track_descriptor.uuid = 1
    first.track_descriptor.process.pid = 500
    first.track_descriptor.process.process_name = "SECRET"
    for number, name in enumerate(NOTES, 1):
        first.interned_data.debug_annotation_names.add(iid=number, name=name)
    for number, name in enumerate(CATEGORIES, 1):
        first.interned_data.event_categories.add(iid=number, name=name)
    for number, (category, name, values) in enumerate(events, 1):
        packet = trace.packet.add()
        packet.trusted_packet_sequence_id = 1
        packet.interned_data.event_names.add(iid=number, name=name)
        event = packet.track_event
        event.type = 1
        event.category_iids.append(CATEGORIES.index(category) + 1)
        event.name_iid = number
        for key, value in values.items():
            note = event.debug_annotations.add(name_iid=NOTES.index(key) + 1)
            if isinstance(value, int):
                note.uint_value = value
            else:
                note.string_value = value
        end = trace.packet.add()
        end.trusted_packet_sequence_id = 1
        end.track_event.type = 2
    if not packed:
        return bytes(trace.SerializeToString())
    bundle = proto.Trace()
    bundle.packet.add().compressed_packets = zlib.compress(trace.SerializeToString())
    return bytes(bundle.SerializeToString())


@pytest.mark.parametrize("packed", [False, True])
def test_slices_of_rocprofv3(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "500_results.pftrace"
    path.write_bytes(make_trace(packed=packed))
    assert SOURCE.sniff(path.name, path.read_bytes()).score >= 0.9
    items = read_items(SOURCE, path)
    found = rows_of(items)
    kernel, copy = found["gpu_ops"]
    assert (kernel["start_at_ns"], kernel["end_at_ns"], kernel["correlation_id"]) == (100, 200, 7)
    assert (kernel["name"], kernel["device_key"], kernel["stream"]) == ("f(int)", "p500:2", 4)
    assert (copy["kind"], copy["name"], copy["bytes"]) == ("memcpy", "HtoD", 64)
    [launch] = found["gpu_launches"]
    assert (launch["api"], launch["correlation_id"]) == ("hipLaunchKernel", 7)
    [step] = found["gpu_ranges"]
    assert (step["thread_key"], step["generation_requests"]) == ("p500:t501", 4)
    [capture] = found["gpu_captures"]
    assert (capture["status"], capture["kernel_rows"], capture["dropped_rows"]) == ("whole", 1, 1)
    assert problems_of(items) == {"PERFETTO004": 1}
    assert "SECRET" not in repr(items) + repr(found)


def test_an_absurd_kernel_is_clipped_and_an_odd_packet_is_counted(tmp_path: Path) -> None:
    spans = [(1_000_000, 1_001_000_000), (2_000_000, 3_000_000)]
    events = [("kernel_dispatch", "k", {"begin_ns": a, "end_ns": b, "queue": 1}) for a, b in spans]
    path = tmp_path / "a.pftrace"
    path.write_bytes(b"\n\x03\xff\xff\xff" + make_trace(events=events))
    items = read_items(SOURCE, path)
    assert problems_of(items) == {"PERFETTO003": 1, "PERFETTO005": 1}
    ends = {op["quality"]: op["end_at_ns"] for op in rows_of(items)["gpu_ops"]}
    assert ends == {"clipped": 2_000_000, None: 3_000_000}


def test_a_cut_trace_is_partial(tmp_path: Path) -> None:
    path = tmp_path / "cut.pftrace"
    path.write_bytes(make_trace()[:-30])
    items = read_items(SOURCE, path)
    assert problems_of(items)["PERFETTO002"] == 1
    assert rows_of(items)["gpu_captures"][0]["status"] == "partial"


def test_without_the_package_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pftrace"
    path.write_bytes(b"\n\x00")
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace.perfetto_trace_pb2", None)
    assert problems_of(read_items(SOURCE, path)) == {"PERFETTO001": 1}


def test_a_trace_of_another_program_is_said(tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    path = tmp_path / "a.pftrace"
    path.write_bytes(b"\n\x00")
    assert problems_of(read_items(SOURCE, path)) == {"PERFETTO006": 1}


@given(st.data())
@settings(max_examples=examples(80), deadline=None)
def test_any_damage(data: st.DataObject) -> None:
    try:
        importlib.import_module("perfetto")
        whole = make_trace(packed=data.draw(st.booleans()))
    except ImportError:
        whole = b"\n\x00\n\x05abcde"
    at = data.draw(st.integers(0, len(whole)))
    middle = data.draw(st.binary(max_size=6))
    check_bytes(SOURCE, whole[:at] + middle + whole[at + len(middle) :], "a.pftrace")
    check_bytes(SOURCE, middle, "a.pftrace")
