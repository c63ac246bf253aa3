"""Records that name the same request id -> requests: which of them tell of one and the same.

An id that a client used twice names two requests. Told apart are records that one vantage wrote of
them, by the engine's own id or by time: of one engine an id is free again when its request ended.
Records of different vantages are of one request where their times meet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

HANDED_OVER_NS: Final = 60_000_000_000
"""A second engine that takes a request up later than this after the first was given another one."""
AT_ONCE_NS: Final = 1_000_000_000
"""So soon after a reply of one token begins the second half of a request that was handed over,
where no name of an engine tells it from a new request."""
RETRIED_NS: Final = 30_000_000_000
"""A proxy that tries a failed request again does so within this; later it is another request."""

RECENT: Final = 64
"""Of one id so many requests at once are looked at, the last ones."""


@dataclass(frozen=True)
class Record:
    """What one place says of one request. Instants in UTC ns; None where not recorded."""

    vantage: str
    """client, server, router, engine (a record of its own) or log (lines of one request)."""
    place: Hashable
    """Where it stands: a file, and the engine that it names."""
    name: str
    """The id as it is printed there: the n > 1 replies to one request have several."""
    start: int | None
    end: int | None
    slack: int = 0
    """How far its instants may be off."""
    failed: bool = False
    one_token: bool = False
    """It asked for a single token, as the first half of a request that is handed over does."""
    prompt_tokens: int | None = None
    sequences: int = 1
    """Of a log: the answers (n) that it numbers, each of which may have a record of its own."""


_RANK: Final = {"client": 0, "server": 1, "router": 1, "engine": 2, "log": 2}
"""How far outside a vantage stands: what is further inside begins no earlier and within."""


def lives(records: Sequence[Record]) -> list[list[int]]:
    """Return the requests that records of one id tell of, in order of time.

    Each is the positions of its records.
    """
    found: list[list[int]] = []
    dated = [n for n, r in enumerate(records) if r.start is not None]
    for at in sorted(dated, key=lambda n: (_start(records[n]), _RANK[records[n].vantage])):
        one = records[at]
        fitting = [life for life in found[-RECENT:] if _fits(one, [records[n] for n in life])]
        nearest = min(
            fitting, key=lambda life: abs(_start(records[life[0]]) - _start(one)), default=None
        )
        if nearest is None:
            found.append([at])
        else:
            nearest.append(at)
    _add_undated(records, found)
    return found


def _add_undated(records: Sequence[Record], found: list[list[int]]) -> None:
    """Add the records without an instant: in order, where there are as many as requests to take."""
    undated = [n for n, r in enumerate(records) if r.start is None]
    places = list(dict.fromkeys(_key(records[n]) for n in undated))
    for key in places:
        mine = [n for n in undated if _key(records[n]) == key]
        free = [life for life in found if all(_key(records[n]) != key for n in life)]
        if len(free) == len(mine):
            for at, life in zip(mine, free, strict=True):
                life.append(at)
        else:
            found.extend([at] for at in mine)


def _key(record: Record) -> tuple[str, Hashable, str]:
    return record.vantage, record.place, record.name


def _start(record: Record) -> int:
    return record.start or 0


def _end(record: Record) -> int:
    return max(_start(record), record.end or 0)


def _beside(one: Record, other: Record) -> bool:
    """Return whether two records stand in the same place under the same name."""
    return _key(one) == _key(other)


def _fits(later: Record, members: Sequence[Record]) -> bool:
    """Return whether a record that begins after these of a request can be of it too."""
    outer = [one for one in members if _RANK[one.vantage] < _RANK[later.vantage]]
    inner = [one for one in members if _RANK[one.vantage] > _RANK[later.vantage]]
    equal = [one for one in members if _RANK[one.vantage] == _RANK[later.vantage]]
    # a client that has its answer, or gave up, sends no more for it; a proxy may try again
    clients = [_within(one, later) for one in outer if one.vantage == "client"]
    proxies = [_within(one, later) for one in outer if one.vantage != "client"]
    return (
        all(clients)
        and (any(proxies) or not proxies)
        and all(_start(later) <= _start(one) + one.slack + later.slack for one in inner)
        and (
            _is_another_answer(later, equal)
            or all(_go_together(one, later, is_inside=bool(outer)) for one in equal)
        )
    )


def _is_another_answer(later: Record, equal: Sequence[Record]) -> bool:
    """Return whether a record is of a further answer (n > 1) to the request of these records.

    All of them arrived at once, as the request did, or a log numbers as many.
    """
    others = [one for one in equal if one.vantage == "engine" and one.place == later.place]
    if later.vantage != "engine" or not others:
        return False
    if all(one.start == later.start and _same_prompt(one, later) for one in others):
        return True
    numbered = max(one.sequences for one in equal)
    soon = _start(later) - _start(others[0]) <= HANDED_OVER_NS
    return len(others) < numbered and soon


def _within(outer: Record, later: Record) -> bool:
    end = _end(outer) if outer.end is not None else _start(outer) + HANDED_OVER_NS
    return _start(later) <= end + outer.slack + later.slack


def _go_together(one: Record, later: Record, *, is_inside: bool) -> bool:
    """Return whether two records as far inside can be of one request; another one may hold both."""
    ahead = _start(later) - _end(one)
    if not _beside(one, later):
        is_second = one.place != later.place and one.vantage == later.vantage
        patience = HANDED_OVER_NS if is_second and _same_prompt(one, later) else 0
        return is_inside or ahead <= one.slack + later.slack + patience
    if one.vantage == "engine":
        return one.one_token and ahead <= AT_ONCE_NS and _same_prompt(one, later)
    if one.vantage in {"server", "router"}:
        return is_inside or ahead < 0 or (one.failed and ahead <= RETRIED_NS)
    return False


def _same_prompt(one: Record, other: Record) -> bool:
    known = (one.prompt_tokens, other.prompt_tokens)
    return None in known or known[0] == known[1]
