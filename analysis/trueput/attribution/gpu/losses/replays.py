"""Kernels that are missing from replays of a graph.

A launch of a graph runs every node of it. A node belongs to one graph only, so that launches that
share nodes are launches of the same graph, and one that ran fewer nodes than the others of its
graph lost some. The first and the last launch of a capture may have been cut by it. A graph of
which a node ran more than once in a launch has a loop, and may have branches: nothing is said of
it. A node that is missing from every launch is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.losses.unseen import Launched
from trueput.attribution.gpu.profile.marks import DUPLICATE, has_word, numbers, row_groups, words
from trueput.attribution.records import Ints

MOST_LAUNCHES: Final = 2_000_000
"""Of more launches of graphs nothing is said."""
_COLUMNS: Final = ("process_key", "correlation_id", "graph_node_id", "quality")


@dataclass
class _Process:
    """Graph launches of one process, nodes of each, and which nodes belong together."""

    pairs: list[Ints] = field(default_factory=list)
    """Rows of a node and the first node of its launch."""
    launches: list[Ints] = field(default_factory=list)
    """Rows of a launch, one node of it, and how many operations it has."""

    def add(self, launch: Ints, node: Ints) -> None:
        order = np.argsort(launch, kind="stable")
        launch, node = launch[order], node[order]
        first = np.flatnonzero(np.concatenate(([True], launch[1:] != launch[:-1])))
        count = np.diff(np.append(first, launch.size))
        self.launches.append(np.stack((launch[first], node[first], count), axis=1))
        self.pairs.append(
            np.unique(np.stack((node, np.repeat(node[first], count)), axis=1), axis=0)
        )
        if len(self.pairs) > 16:
            self.pairs = [np.unique(np.concatenate(self.pairs), axis=0)]

    def size(self) -> int:
        return sum(len(piece) for piece in self.launches)

    def replayed(self) -> tuple[Launched, Ints]:
        """Return how many operations the launches should have and how many are missing, with the
        launches that lack some."""
        pairs = np.concatenate(self.pairs)
        nodes, flat = np.unique(pairs, return_inverse=True)
        graph = _together(nodes.size, flat.reshape(-1, 2))
        rows = np.concatenate(self.launches)
        launch, at = np.unique(rows[:, 0], return_inverse=True)
        count = np.bincount(at, rows[:, 2]).astype(np.int64)
        of: Ints = np.zeros(launch.size, np.int64)
        of[at] = graph[np.searchsorted(nodes, rows[:, 1])]
        size = np.bincount(graph, minlength=nodes.size)
        loops = np.zeros(nodes.size, np.bool_)
        loops[of[count > size[of]]] = True
        known = ~loops[of]
        missing = np.where(known, size[of] - count, 0)
        missing[[0, -1]] = 0  # ids count up: these two may be cut by the capture
        whole = Launched(int(size[of][known].sum()), int(missing.sum()))
        return whole, launch[missing > 0]


@dataclass(frozen=True)
class Replays:
    """The operations that launches of graphs should have by their nodes, and the missing."""

    launched: Launched
    partial: Mapping[str | None, Ints] = field(default_factory=dict)
    """The launches that lack operations: sorted ids by process."""


def replayed(operations: Path) -> Replays:
    """Return what the replays of graphs in a part of gpu_ops lack."""
    found: dict[str | None, _Process] = {}
    for rows in row_groups(
        [operations], _COLUMNS, {"graph_node_id": [(1, np.iinfo(np.int64).max)]}
    ):
        node, launch = numbers(rows.column("graph_node_id")), numbers(rows.column("correlation_id"))
        process = words(rows.column("process_key"))
        codes = process.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        counted = (node > 0) & (launch > 0)
        doubt = rows.column("quality")
        if doubt.null_count < len(doubt):
            counted &= ~has_word(doubt, DUPLICATE)
        for code, name in enumerate(process.dictionary.to_pylist()):
            if (mine := counted & (codes == code)).any():
                found.setdefault(name, _Process()).add(launch[mine], node[mine])
        if sum(p.size() for p in found.values()) > MOST_LAUNCHES:
            return Replays(Launched())
    whole = {name: process.replayed() for name, process in found.items()}
    launched = [one for one, _ in whole.values()]
    return Replays(
        Launched(sum(w.launches for w in launched), sum(w.unseen for w in launched)),
        {name: ids for name, (_, ids) in whole.items() if ids.size},
    )


def _together(size: int, pairs: Any) -> Ints:
    """Return for each node the least node that it is tied to by pairs."""
    label: Ints = np.arange(size)
    while True:
        least = np.minimum(label[pairs[:, 0]], label[pairs[:, 1]])
        before = label.copy()
        for side in (0, 1):
            np.minimum.at(label, pairs[:, side], least)
        label = label[label]
        if (label == before).all():
            return label
