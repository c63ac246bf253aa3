"""Warehouses that stay open between questions, so that each view is planned and built once.

To open a store and to plan its views takes most of what a command on a small run costs. Tests ask
the same few runs over and over. A warehouse that was closed is handed out again for the same files,
the same objective and window, and the same SQL; a file that was written anew, cut or removed
makes another selection. Only what is as it was opened is handed out: after an error, after
anything but a SELECT, and of large selections, a warehouse is closed for good.

TRUEPUT_LONG_TESTS=1 switches this off: each question then opens the store as a command does.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

from trueput.verbs import opening
from trueput.warehouse import session
from trueput.warehouse.connect import Selection
from trueput.warehouse.models import macros, models, reads
from trueput.warehouse.session import Answer, Warehouse

MOST = 8
_idle: OrderedDict[object, Warehouse] = OrderedDict()


class Kept(Warehouse):
    """A warehouse that is put aside when it is closed."""

    key: object = None
    _is_as_opened = True

    def query(self, sql: str) -> Answer:
        """Run a user's SQL, as ever."""
        try:
            reads(self._connection, sql)
        except ValueError:  # no SELECT: it may change what others see
            self._is_as_opened = False
        try:
            return super().query(sql)
        except BaseException:
            self._is_as_opened = False
            raise

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is not None:
            self._is_as_opened = False
        self.close()

    def close(self) -> None:
        if not self._is_as_opened:
            super().close()
            return
        _idle[self.key] = self
        while len(_idle) > MOST:
            Warehouse.close(_idle.popitem(last=False)[1])


def warehouse(selection: Selection, input_rows: int = 0) -> Warehouse:
    """Return a warehouse on a selection: one that was closed, else a new one."""
    key = _key(selection)
    if key is None or input_rows >= session.MATERIALISE_BELOW_ROWS:
        return Warehouse(selection, input_rows)
    found = _idle.pop(key, None)
    if found is None:
        found = Kept(selection, input_rows)
        found.key = key
    return found


def _key(selection: Selection) -> object:
    """Return what decides what is answered; None where a file cannot be looked at."""
    try:
        files = tuple(
            (table, tuple(_state(path) for path in paths))
            for table, paths in sorted(selection.files.items())
        )
    except OSError:
        return None
    how = (selection.slo, selection.slo_origin, selection.judging, selection.window)
    return files, repr(how), selection.mixed, tuple(models().values()), tuple(macros().values())


def _state(path: Path) -> tuple[str, Any]:
    held = path.stat()
    return str(path), (held.st_ino, held.st_size, held.st_mtime_ns)


def close_all() -> None:
    """Close what is kept."""
    while _idle:
        Warehouse.close(_idle.popitem()[1])


def switch_on() -> None:
    """Let every verb of this process open warehouses here."""
    opening.Warehouse = warehouse  # type: ignore[assignment, misc]
