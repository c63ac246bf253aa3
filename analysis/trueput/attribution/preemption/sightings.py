"""What ties iterations to instants: tokens that clients received, and timed spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from trueput.attribution.iterations.timeline import Sightings
from trueput.attribution.records import Ints, Steps, Stream
from trueput.attribution.replay.stories import Event


def sightings(events: Sequence[Event], streams: Sequence[Stream], steps: Steps) -> Sightings:
    """Receipts and spans of all requests, tied to iterations by the story."""
    n = len(steps.step_ix)
    change = np.zeros(n + 1, dtype=np.int64)
    admitted: dict[int, int] = {}
    started: dict[int, int] = {}
    spans: list[tuple[int, int, int]] = []
    for event in events:
        joined = event.kind in {"admit", "resume"}
        if joined:
            change[event.step] += 1
        elif event.kind in {"preempt", "stop", "left"}:
            change[event.step] -= 1
        stream = streams[event.job] if event.job >= 0 else None
        if stream is None:
            continue
        if event.kind == "admit":
            admitted[event.job] = event.step
        elif event.kind == "start" and event.job not in started:
            started[event.job] = event.step
            begin = admitted[event.job]
            if stream.prefill_ns is not None:
                first = int(steps.elapsed_ns[begin])
                spans.append((begin, event.step, stream.prefill_ns - first))
        elif event.kind == "stop" and event.job in started and stream.decode_ns is not None:
            spans.append((started[event.job], event.step - 1, stream.decode_ns))
    running = np.cumsum(change)[:n]
    before = np.concatenate([[0], running[:-1]]) + np.minimum(_leaving(events, n), 0)
    table = np.array(spans or np.zeros((0, 3)), dtype=np.int64)
    knots = {min(x.step, n - 1) for x in events if x.kind not in {"prefill", "recompute", "told"}}
    knots |= {max(0, min(x.step, n) - 1) for x in events if x.kind == "stop"}
    return Sightings(
        _receipts(events, streams),
        table[:, 0],
        table[:, 1],
        table[:, 2],
        before <= 0,
        np.array(sorted(knots), dtype=np.int64),
    )


def _leaving(events: Sequence[Event], n: int) -> Ints:
    """Requests that ended between iterations, as negative numbers at the iteration after."""
    gone = np.zeros(n + 1, dtype=np.int64)
    for event in events:
        if event.kind in {"stop", "left"}:
            gone[event.step] -= 1
    return gone[:n]


def _receipts(events: Iterable[Event], streams: Sequence[Stream]) -> list[tuple[Ints, Ints]]:
    """For each stream the iterations that made its tokens, and when its client had them."""
    received: dict[int, Ints] = {}
    for job, stream in enumerate(streams):
        if stream.gaps_ns is None or stream.first_token_at_ns is None:
            continue
        if stream.aborted or len(stream.gaps_ns) + 1 == stream.output_tokens:
            gaps = np.concatenate([[0], stream.gaps_ns]).astype(np.int64)
            received[job] = stream.first_token_at_ns + np.cumsum(gaps)
    found: list[tuple[Ints, Ints]] = []
    begun: dict[int, tuple[int, int]] = {}
    for event in events:
        if event.kind == "start":
            begun[event.job] = (event.step, event.tokens)
        elif event.kind in {"preempt", "stop", "left"} and event.job in begun:
            step, output = begun.pop(event.job)
            at = received.get(event.job)
            made = event.tokens - output
            # one token in each iteration, or the lines between are not all there
            if at is None or made != event.step - step:
                continue
            made = min(made, len(at) - output)
            if made > 0:
                index = np.arange(step, step + made, dtype=np.int64)
                found.append((index, at[output : output + made]))
    return found
