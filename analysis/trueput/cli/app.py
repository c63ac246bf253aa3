"""Assembles the commands, runs one, and turns errors into exit codes."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import pkgutil
import sys
import traceback
from types import ModuleType
from typing import Any, NoReturn

import typer

from trueput.cli import commands
from trueput.cli.options import say, say_error
from trueput.cli.output import printable
from trueput.errors import ExitCode, TrueputError, bug

_EPILOG = "Exit codes: 0 pass, 1 flagged, 2 usage or input, 3 inconclusive, 70 bug of trueput."


def build() -> typer.Typer:
    """Return the application with every command of `cli/commands`, in their stated order.

    A module has a function `command`, or functions by name in `COMMANDS` and a `SUMMARY`. `KIND` is
    a class of its own for the command.
    """
    app = typer.Typer(
        name="trueput",
        help="Where did the time go, which work kept its promise, did this change buy anything?",
        epilog=_EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    names = [m.name for m in pkgutil.iter_modules(commands.__path__)]
    modules = [importlib.import_module(f"{commands.__name__}.{n}") for n in names]
    for module in sorted(modules, key=lambda m: (m.ORDER, m.__name__)):
        name = module.__name__.rpartition(".")[2].removesuffix("_")
        if hasattr(module, "COMMANDS"):
            app.add_typer(_group(module), name=name, help=module.SUMMARY)
            continue
        hidden = getattr(module, "HIDDEN", False)
        summary = (module.command.__doc__ or "").strip()
        kind = getattr(module, "KIND", None)
        app.command(name=name, cls=kind, hidden=hidden, short_help=summary)(module.command)
    app.callback(invoke_without_command=True)(_root)
    return app


def _group(module: ModuleType) -> typer.Typer:
    """Return a command with commands below it: a module's COMMANDS by name."""
    made = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    for name, function in module.COMMANDS.items():
        made.command(name=name, short_help=(function.__doc__ or "").strip())(function)
    return made


def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from trueput import __version__

        sys.stdout.write(f"trueput {__version__}\n")
        raise typer.Exit


def run() -> None:
    """Run the program on sys.argv and exit with its code."""
    # the libraries' many objects stay; to look for dead ones among them costs a tenth of a run
    gc.set_threshold(100_000, 50, 100)
    try:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # what it cannot encode must not be a crash
                stream.reconfigure(errors="backslashreplace")
        sys.exit(build()(prog_name="trueput", standalone_mode=False) or 0)
    except TrueputError as error:
        say_error(error)
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # the reader of a pipe has left; nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        with contextlib.suppress(OSError):
            say(f"error: {where}{error.strerror or error}")
        sys.exit(int(ExitCode.UNUSABLE))
    except typer.Abort:
        say("Aborted!")
        sys.exit(1)
    except Exception as error:  # noqa: BLE001  the one place where every error has an exit code
        if hasattr(error, "format_message") and hasattr(error, "show"):
            _say_misread(error)
        if os.environ.get("TRUEPUT_DEBUG"):
            for line in traceback.format_exc().split("\n"):
                say(line)
        say_error(bug(error))
        sys.exit(int(ExitCode.BUG))


def _say_misread(error: Any) -> NoReturn:
    """Say that the command line cannot be understood, and leave; its words may hold anything."""
    if type(error).__name__ != "NoArgsIsHelpError":  # that one's message is the help
        error.message = printable(error.message)
    error.show()
    sys.exit(error.exit_code)
