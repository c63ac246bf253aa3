"""What the engine's histogram of computed prompt tokens says where two shares are just as likely.

vLLM observes `request_prefill_kv_computed_tokens` once for each request that finishes: its prompt
less what the prefix cache held of it when it was first scheduled. Aborted requests are not in it.
So where the shares of an iteration lie between finished requests and others, its sum decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from trueput.attribution.preemption.presence import PREFILL, Presence

MOST_OPEN = 64
"""Open places beyond which their combinations are not looked at."""


@dataclass(frozen=True)
class Told:
    """What the requests that finished computed of their prompts, all together."""

    jobs: frozenset[int]
    tokens: int


def settle(found: Sequence[Presence], told: Told) -> list[Presence]:
    """Return the presences, one of two shares taken wherever only that one gives the told sum.

    Rows whose `tokens` and `other` differ hang together where they are of one request or one
    iteration: of these, all are the one or all the other. Nothing changes where no choice gives the
    sum, and where several choices do, what they have in common is taken.
    """
    groups = _groups(found)
    shifts = [
        sum(
            (found[k].other or 0) - (found[k].tokens or 0)
            for k in group
            if found[k].job in told.jobs
        )
        for group in groups
    ]
    now = sum(x.tokens or 0 for x in found if x.work == PREFILL and x.job in told.jobs)
    out = list(found)
    for group, is_other in zip(groups, choices(shifts, told.tokens - now), strict=True):
        for k in group if is_other is not None else ():
            tokens = found[k].other if is_other else found[k].tokens
            out[k] = replace(found[k], tokens=tokens, other=tokens)
    return out


def choices(shifts: Sequence[int], wanted: int) -> list[bool | None]:
    """Return for each shift whether it is taken in every choice of some that sums to `wanted`.

    None where some choices take it and some do not, for all shifts where no choice has that sum or
    there are too many of them. A shift of 0 is never told.
    """
    if len(shifts) > MOST_OPEN:
        return [None] * len(shifts)
    before = list(accumulate(shifts, _or_more, initial=frozenset({0})))
    after = list(accumulate(reversed(shifts), _or_more, initial=frozenset({0})))[::-1]
    found: list[bool | None] = []
    for k, shift in enumerate(shifts):
        left, taken = (
            any(wanted - own - a in after[k + 1] for a in before[k]) for own in (0, shift)
        )
        found.append(None if left == taken else taken)
    return found


def _or_more(sums: Collection[int], shift: int) -> frozenset[int]:
    return frozenset(sums) | {x + shift for x in sums}


def _groups(found: Sequence[Presence]) -> list[list[int]]:
    """Positions of the rows that are open, those that hang together in one list."""
    groups: dict[int, list[int]] = {}
    at: dict[tuple[str, int], int] = {}
    for k, x in enumerate(found):
        if x.work != PREFILL or x.tokens == x.other:
            continue
        keys = (("job", x.job), ("step", x.first))
        mine = sorted({at[key] for key in keys if key in at})
        keep = mine[0] if mine else k
        groups.setdefault(keep, []).append(k)
        for other in mine[1:]:
            groups[keep] += groups.pop(other)
            at.update({key: keep for key, group in at.items() if group == other})
        at.update(dict.fromkeys(keys, keep))
    return list(groups.values())
