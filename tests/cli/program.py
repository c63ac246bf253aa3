"""Runs the command line in this process: arguments in; stdout, stderr and exit code out."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.main import get_command

CHECKOUT = Path(__file__).resolve().parents[2]


class Screen(io.StringIO):
    """Text that a program printed; a terminal where told so."""

    def __init__(self, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@cache
def _commands(build: Callable[[], Typer]) -> Any:
    """Return the commands, put together once: each process of a user does so once."""
    return get_command(build())


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Program:
    """`trueput` on one store, run from the root of the checkout."""

    store: Path | None = None
    columns: int = 80
    folder: Path = CHECKOUT

    def __call__(
        self,
        *arguments: str,
        stdin: str = "",
        terminal: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """Run one command; `terminal` makes its stdout one."""
        from trueput.cli import app

        out, err = Screen(terminal), Screen()
        with self._surroundings(arguments, environment or {}) as patch:
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(app, "build", partial(_commands, app.build))
            try:
                app.run()
                code = 0
            except SystemExit as stopped:
                code = stopped.code if isinstance(stopped.code, int) else int(bool(stopped.code))
        return Done(code, out.getvalue(), err.getvalue())

    @contextmanager
    def _surroundings(
        self, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> Iterator[pytest.MonkeyPatch]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("TRUEPUT_STORE", "TRUEPUT_DEBUG", "NO_COLOR", "FORCE_COLOR"):
                patch.delenv(name, raising=False)
            if self.store is not None:
                patch.setenv("TRUEPUT_STORE", os.fspath(self.store))
            patch.setenv("COLUMNS", str(self.columns))
            patch.setenv("TERM", "xterm-256color")
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["trueput", *arguments])
            patch.chdir(self.folder)
            yield patch
