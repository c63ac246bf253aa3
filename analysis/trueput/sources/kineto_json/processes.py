"""Which process an event of a trace is of: correlation ids count from 1 in every process.

A trace has one process, and is named by its file. Traces that were merged into one file have
several: a merger that keeps them apart writes a word before each pid (`[TP01] 4242`), of the
operations too. Without one, calls and annotations tell their process by its pid, and operations
that of their device: the first process that launches keeps the file's name, others add their pid,
and operations are given to the process whose launches they are when all of them are known.
"""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 4_096
"""Processes that are kept apart; all others are taken for the file's."""
_WORD = re.compile(r"\[([^\]]{1,40})\] ")


class Processes:
    """Keys of the processes of one trace; `key` is that of the file."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._of_pid: dict[str, str] = {}
        self._begun = {"launch": False, "range": False}

    def of_device(self, pid: str | None) -> str:
        """Return the process of an operation, by the pid that the trace gives to its device."""
        return self._by_word(pid) or self.key

    def of_launch(self, pid: str | None) -> str:
        """Return the process of a call."""
        return self._of_host(pid, "launch")

    def of_range(self, pid: str | None) -> str:
        """Return the process of an annotation."""
        return self._of_host(pid, "range")

    def _of_host(self, pid: str | None, what: str) -> str:
        if pid is None:
            return self.key
        if pid not in self._of_pid:
            if len(self._of_pid) >= MOST:
                return self.key
            own = f"{self.key}:{pid}" if self._begun[what] else self.key
            self._of_pid[pid] = self._by_word(pid) or own
        self._begun[what] = True
        return self._of_pid[pid]

    def _by_word(self, pid: str | None) -> str | None:
        found = _WORD.match(pid or "")
        return f"{self.key}:{found[1]}" if found else None
