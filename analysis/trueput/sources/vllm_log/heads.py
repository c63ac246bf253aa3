"""How lines begin: process, level, time, place, or an access line.

Lines of one kind begin alike up to their digits. They are grouped by their first bytes, and one
line of each group is matched with the expression; where the first bytes do not decide, each is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from trueput.sources.vllm_log.places import Places, Text

LEVEL: Final = rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
HEAD: Final = re.compile(
    rb"(?:\(([^)\n]*)\) )?(?:"
    rb"(" + LEVEL + rb" )[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} \[?[^:\] \n]+:[0-9]{1,7}\] |"
    rb'(INFO: [^"\n]*- )(?="))'
)
UNDECIDED: Final = re.compile(rb"\([^)\n]*\Z|(?:\([^)\n]*\) )?(?:" + LEVEL + rb" |INFO: )[^\n]*\Z")
"""What a window may begin with that could still become a head."""
PROCESS: Final = re.compile(r"[A-Za-z_][^()\]]* pid=[0-9]*[^()\]]*")
BRACKET: Final = ord("(")
NAMED_BYTES: Final = 32
"""So many bytes at the beginning of a line with a process count with their digits."""
WINDOWS, SHORT_WINDOWS = (64, 96), (48, 80)
"""How many bytes of a line are looked at, with a process and without; more where those do not
decide. With many more, the ids of requests would make a group of every line."""
OTHER, PREFIXED, ACCESS = range(3)
OPEN: Final = (-1, 0, 0, 0)


@dataclass(frozen=True)
class Heads:
    """For each line: its kind, where its time or its request stands, where its message begins, and
    its process (a place in `names`, -1 without)."""

    kind: Places
    date: Places
    at: Places
    process: Places
    names: list[str | None]


class _Processes:
    """Numbers the processes in the order of their first lines."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: bytes | None) -> int | None:
        """Return the number of a process, -1 without text, None where the text is of none."""
        if text is None:
            return -1
        name = text.decode(errors="replace")
        if PROCESS.fullmatch(name) is None:
            return None
        name = name.partition(",")[0]
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]


def heads(text: Text, start: Places) -> Heads:
    """Return how each of the lines begins."""
    processes = _Processes()
    bracketed = text.bytes[start] == BRACKET
    code = np.zeros(len(start), np.int64)
    groups = [OPEN]
    for exact, lines, sizes in (
        (NAMED_BYTES, np.flatnonzero(bracketed), WINDOWS),
        (0, np.flatnonzero(~bracketed), SHORT_WINDOWS),
    ):
        which = lines
        for size in sizes:
            if not len(which):
                break
            codes, first = text.kinds(start[which], size, exact)
            found = [
                _head(processes, text.slice(place, place + size), in_window=True)
                for place in start[which[first]].tolist()
            ]
            code[which] = codes + len(groups)
            groups += found
            is_open = np.array([head == OPEN for head in found])
            which = which[is_open[codes]] if is_open.any() else which[:0]
    of_group = np.array(groups, np.int64).reshape(-1, 4)
    kind, date, at, process = (np.take(of_group[:, column], code) for column in range(4))
    for line in np.flatnonzero(kind < 0).tolist():
        head = _head(processes, text.line(int(start[line])), in_window=False)
        kind[line], date[line], at[line], process[line] = head
    date += start
    at += start
    return Heads(kind, date, at, process, processes.names)


def _head(processes: _Processes, data: bytes, *, in_window: bool) -> tuple[int, int, int, int]:
    """Return kind, and behind the start of the line: place of the time, place of the message."""
    match = HEAD.match(data)
    if match is None:
        return OPEN if in_window and UNDECIDED.match(data) else (OTHER, 0, 0, -1)
    process = processes.number(match[1])
    if process is None:
        return OTHER, 0, 0, -1
    if match[3] is not None:
        return ACCESS, 0, match.end(), process
    return PREFIXED, match.end(2), match.end(), process
