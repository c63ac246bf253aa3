"""Which requests each engine process served, and whether it can be replayed with them."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.attribution.iterations.timeline import PRINT_DELAY_NS, SECOND_NS
from trueput.attribution.records import EngineLimits, Steps, Stream

QUARTER_HOUR_NS = 900 * SECOND_NS
"""Zones lie whole quarters of an hour apart."""
CLOCKS_NS = SECOND_NS
"""How far the clocks of a client and of an engine may lie apart."""


def why_no_replay(
    steps: Sequence[Steps], streams: Sequence[Stream], limits: EngineLimits
) -> str | None:
    """Return in words what keeps a run from being replayed; None where nothing does."""
    if not streams:
        return "no requests are known: victims cannot be named"
    placed = sum(
        x.prompt_tokens is not None and (x.arrived_at_ns is not None or x.sent_at_ns is not None)
        for x in streams
    )
    if placed * 2 < len(streams):
        return "most requests have no known arrival or prompt length: victims cannot be named"
    if len({x.engine for x in steps}) > 1:
        return "several engines and no record of which served a request: victims are not named"
    if limits.spec_tokens:
        return "speculative decoding: tokens per iteration vary, victims are not named"
    return None


def requests_by_process(
    steps: Sequence[Steps], streams: Sequence[Stream]
) -> list[list[tuple[int, Stream]]]:
    """For each engine process the requests that arrived in its time, with their positions."""
    if len(steps) <= 1:
        return [_of_its_time(x, list(enumerate(streams))) for x in steps]
    starts = [int(x.logged_at_ns[0]) if len(x.logged_at_ns) else 0 for x in steps]
    order = sorted(range(len(steps)), key=starts.__getitem__)
    ends = [int(x.logged_at_ns[-1]) + 10**9 if len(x.logged_at_ns) else 0 for x in steps]
    own: list[list[tuple[int, Stream]]] = [[] for _ in steps]
    for position, stream in enumerate(streams):
        at = stream.arrived_at_ns if stream.arrived_at_ns is not None else stream.sent_at_ns
        if at is None:
            continue
        later = [k for k in order if ends[k] >= at]
        if later:
            own[later[0]].append((position, stream))
    return [_of_its_time(x, mine) for x, mine in zip(steps, own, strict=True)]


def _of_its_time(steps: Steps, own: list[tuple[int, Stream]]) -> list[tuple[int, Stream]]:
    """Leave out the requests that had ended before the first iteration; all where none is left.

    None is left of a log whose zone is not known, too: then they stay, if a zone can explain it.
    """
    if not len(steps.logged_at_ns):
        return own
    first = int(steps.logged_at_ns[0]) - PRINT_DELAY_NS
    known = [end for _, x in own if (end := _ended_ns(x)) is not None]
    here = [(k, x) for k, x in own if (end := _ended_ns(x)) is None or end >= first]
    if here or not known:
        return here
    # quarters of an hour by which the log may be moved back into the time of the requests
    least = max(1, -(-(first - max(known)) // QUARTER_HOUR_NS))
    most = (int(steps.logged_at_ns[-1]) + SECOND_NS - min(known)) // QUARTER_HOUR_NS
    return own if least <= most else []


def _ended_ns(stream: Stream) -> int | None:
    """When a request left the engine at the latest, UTC ns; None where that is not known."""
    if stream.arrived_at_ns is not None and stream.e2e_ns is not None:
        return stream.arrived_at_ns + stream.e2e_ns
    if stream.aborted:
        # printed to the second
        return None if stream.aborted_at_ns is None else stream.aborted_at_ns + SECOND_NS
    return None if stream.ended_at_ns is None else stream.ended_at_ns + CLOCKS_NS
