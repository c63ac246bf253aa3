"""Request lines and access lines -> rows of `request_events`: what lasts between blocks."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from trueput.sources.vllm_log.block import ABORTED, ADDED, RECEIVED, Events
from trueput.sources.vllm_log.places import Flags, only
from trueput.sources.vllm_log.problems import Problems

SUFFIX: Final = r"-[0-9a-f]{8}$"
CHILD: Final = r"^[0-9]+_((?:chat)?cmpl|embd|pool|score|resp|rerank|classify)"
REMEMBERED: Final = 4096
NEVER: Final = 1 << 62
"""Behind every line."""


@dataclass
class Requests:
    """What must be remembered between blocks.

    Whether the engine adds 8 hex digits to an external id is a property of its version: the first
    `Added` whose `Received` was seen tells it for the whole file.
    """

    problems: Problems
    suffixed: bool | None = None
    _received: OrderedDict[str, None] = field(default_factory=OrderedDict)
    prompt_tokens: OrderedDict[str, list[tuple[int, int]]] = field(default_factory=OrderedDict)

    def read(self, events: Events) -> dict[str, Any] | None:
        """Return the columns of `request_events` of a block without other request lines; None
        where its ids must be read with care."""
        if self.prompt_tokens:
            return None
        is_life = (events.kind >= ADDED) & (events.kind <= ABORTED)
        at, length = events.id_at, events.id_length
        if (is_life & (length > 0) & events.text.is_digit(np.maximum(at, 0))).any():
            return None
        told_at = 0
        if self.suffixed is None:
            known = events.kind == RECEIVED, events.kind == ADDED
            received, added = (list(zip(events.rows.line[k].tolist(), events.ids(k), strict=True))
                               for k in known)  # fmt: skip
            found = self.learn(received, added)
            told_at = NEVER if found is None else found
        unsure = is_life & (events.rows.line < told_at)
        external = np.where(self._suffixes(events, is_life & ~unsure), length - 9, length)
        external[unsure & ((events.noun != 0) | (events.kind == ADDED))] = -1
        same = np.array_equal(external, length)
        return {
            **events.columns(),
            "request_id": events.id_text if same else events.text.strings(at, external),
            "engine_request_id": only(events.id_text, is_life & (length >= 0)),
        }

    def _suffixes(self, events: Events, sure: Flags) -> Flags:
        """Return which ids end in what the engine adds."""
        ends = np.zeros(len(sure), np.bool_)
        if self.suffixed:
            index = np.flatnonzero(sure & (events.id_length >= 9))
            behind = events.id_at[index] + events.id_length[index] - 9
            ends[index] = events.text.has(behind, b"-") & events.text.is_hex_word(behind + 1)
        return ends

    def learn(self, received: list[tuple[int, str]], added: list[tuple[int, str]]) -> int | None:
        """Return the line from which on the form of ids is known; None while it is not."""
        if self.suffixed is not None:
            return 0
        pairs = [(*row, False) for row in received] + [(*row, True) for row in added]
        for line, name, is_added in sorted(pairs):
            if not is_added:
                self._received[name] = None
                if len(self._received) > REMEMBERED:
                    self._received.popitem(last=False)
                continue
            parent = re.sub(CHILD, r"\1", name)
            for external, suffixed in ((parent, False), (re.sub(SUFFIX, "", parent), True)):
                if external in self._received:
                    self.suffixed = suffixed
                    self._received.clear()
                    return int(line)
        return None
