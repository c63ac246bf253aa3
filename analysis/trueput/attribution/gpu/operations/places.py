"""Operations that do not say which device, or which process, they ran on.

Each would make a device of its own, with idle time of its own. An operation without an ordinal ran
on the only device that its process has in the file; one without a process on the only device of
its ordinal. Where several come into question it stays in the store and counts nowhere. Devices that
no other operation of the file names better are kept: some formats tell no process at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.profile.marks import row_groups, words

_COLUMNS: Final = ("device_key", "process_key", "device")
Told = tuple[str, str | None, int | None]
"""Key, process and ordinal of a device as an operation tells them."""


@dataclass(frozen=True)
class Meant:
    """Keys that name no device of their own -> the device meant, None where it is not known."""

    of: Mapping[str, Told | None]


def misplaced(part: Path) -> Meant | None:
    """Return the devices of a part of gpu_ops that are none; None where there are none."""
    if not any(_is_vague(key) for key in _keys(part)):
        return None
    told = _told(part)
    known = [t for t in told if t[1] is not None and t[2] is not None]
    found: dict[str, Told | None] = {}
    for key, process, ordinal in told:
        if not _is_vague(key):
            continue
        if ordinal is None:
            others = known or [t for t in told if t[2] is not None]
            near = [t for t in others if process is None or t[1] in (process, None)]
        elif process is None:
            others = near = [t for t in known if t[2] == ordinal]
        else:
            continue
        if others:
            found[key] = near[0] if len({t[0] for t in near}) == 1 else None
    return Meant(found) if found else None


def _is_vague(key: str) -> bool:
    return key.endswith(":?") or key.startswith("p?:")


def _keys(part: Path) -> set[str]:
    found: set[str] = set()
    for rows in row_groups([part], ("device_key",)):
        found.update(words(rows.column("device_key")).dictionary.to_pylist())
    return found


def _told(part: Path) -> list[Told]:
    """Return the devices that the operations of a part tell."""
    found: set[Told] = set()
    for rows in row_groups([part], _COLUMNS):
        plain = {
            column.name: rows.column(column.name).cast(pa.string())
            if pa.types.is_dictionary(column.type)
            else rows.column(column.name)
            for column in rows.schema
        }
        different: Any = pa.table(plain).group_by(list(_COLUMNS)).aggregate([])
        found.update(
            (row["device_key"], row["process_key"], row["device"]) for row in different.to_pylist()
        )
    return sorted(found, key=str)


def places_of(rows: Any, meant: Meant) -> Any:
    """Return for each row the position of its device key in `meant.of`, -1 where it has none."""
    order = {key: at for at, key in enumerate(meant.of)}
    keys = rows.column("device_key").to_pylist()
    return np.array([order.get(key, -1) for key in keys], np.int64)
