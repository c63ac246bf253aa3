"""Log lines that name one request id -> requests, by the engine's own id and the order of lines.

An engine that adds eight hex digits to the id it is given tells its requests apart by itself. One
that does not prints the same id again when it gets the next request of that name.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from trueput.attribution.reused.lives import RECENT

CHILD: Final = re.compile(r"^\d+_((?:chat)?cmpl-)")
SUFFIX: Final = re.compile(r"-[0-9a-f]{8}$")


@dataclass(frozen=True)
class Line:
    """One event of a request. `at` is on any clock; of one file the lines are in order."""

    place: Hashable
    event: str
    name: str | None
    """The id that a client can know, as printed."""
    engine_name: str | None
    at: int | None


@dataclass
class LogLife:
    """The lines of one request, as positions; what tells it."""

    place: Hashable
    lines: list[int] = field(default_factory=list)
    own: str | None = None
    """What the engine calls it, where that is not what the client does."""
    seen: set[tuple[str, str | None, int | None]] = field(default_factory=set)
    got: set[tuple[str, str | None]] = field(default_factory=set)
    children: set[str] = field(default_factory=set)
    """Numbers of the answers (n > 1) that were added."""


def log_lives(lines: Sequence[Line]) -> list[LogLife]:
    """Return the requests that the lines of one external id tell of, in order of the lines."""
    found: list[LogLife] = []
    named: dict[str, LogLife] = {}
    for at, line in enumerate(lines):
        own = _own(line)
        life = named.get(own) if own else None
        if life is not None:
            found = _without_echo(found, life, line)
        else:
            life = _of_time(found[-RECENT:], line, own)
        if life is None:
            life = LogLife(line.place)
            found.append(life)
        if own:
            life.own = own
            named[own] = life
        life.lines.append(at)
        life.seen.add((line.event, line.name, line.at))
        life.got.add((line.event, line.name))
        if line.event == "added" and (child := child_of(line.engine_name)) is not None:
            life.children.add(child)
    return found


def child_of(engine_name: str | None) -> str | None:
    """Return the number of one of the answers (n > 1) to a request, from 0; None for others."""
    if engine_name is None or not CHILD.match(engine_name):
        return None
    return engine_name.partition("_")[0]


def _own(line: Line) -> str | None:
    """Return the engine's id of a request that a client knows by another."""
    if line.engine_name is None:
        return None
    parent = CHILD.sub(r"\1", line.engine_name)
    outer = None if line.name is None else CHILD.sub(r"\1", line.name)
    return parent if outer is not None and parent != outer and SUFFIX.search(parent) else None


def _of_time(found: list[LogLife], line: Line, own: str | None) -> LogLife | None:
    """Return the request that a line without a known id of the engine belongs to."""
    said = (line.event, line.name, line.at)
    again = next((x for x in found if line.at is not None and said in x.seen), None)
    if own is None and again is not None:
        return again  # the same line once more
    mine = [x for x in found if x.place == line.place]
    if own is not None:
        begun = next((x for x in mine if x.own is None and not _added(x)), None)
        return begun if begun is not None else _of_earlier_answer(mine, line)
    if line.event in {"received", "added"}:
        if (of_answer := _of_earlier_answer(mine, line)) is not None:
            return of_answer
        last = mine[-1] if mine else None
        is_next = last is None or (line.event, line.name) in last.got
        is_late = line.event == "received" and last is not None and _added(last)
        return None if is_next or is_late else last
    waiting = (x for x in mine if (line.event, line.name) not in x.got and _told(x, line.event))
    return next(waiting, mine[-1] if mine else None)


def _of_earlier_answer(mine: list[LogLife], line: Line) -> LogLife | None:
    """Return the request of whose other answers (n > 1) all before this one were added."""
    child = child_of(line.engine_name)
    last = mine[-1] if mine else None
    if child is None or last is None or line.event != "added":
        return None
    is_next = child not in last.children and child == str(len(last.children))
    return last if last.children and is_next else None


def _added(life: LogLife) -> bool:
    return any(event == "added" for event, _ in life.got)


def _told(life: LogLife, event: str) -> bool:
    """Return whether a line with the engine's own id said the same before."""
    return life.own is not None and any(kind == event for kind, _ in life.got)


def _without_echo(found: list[LogLife], life: LogLife, line: Line) -> list[LogLife]:
    """Give a known request the line that only repeats how it came, from a log that overlaps."""
    last = found[-1]
    if line.event != "added" or last is life or last.own is not None or _added(last):
        return found
    life.lines.extend(last.lines)
    return found[:-1]
