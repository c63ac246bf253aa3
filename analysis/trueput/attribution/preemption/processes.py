"""Which requests each engine process served, and whether it can be replayed with them."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.attribution.records import EngineLimits, Steps, Stream


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
        return [list(enumerate(streams)) for _ in steps]
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
    return own
