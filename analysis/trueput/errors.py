"""Errors that a user can act on, and the exit codes of the program.

TrueputError
├── UsageError        the command, a policy or an SLO text is not usable           (exit 2)
├── InputError        a file or folder cannot be used at all                       (exit 2)
├── StoreError        the store is missing, newer, or held by another process      (exit 2)
├── QueryError        the SQL text given by the user does not run                  (exit 2)
└── ViewError         one of trueput's own views cannot be computed               (exit 70)

Anything else that escapes is our bug (exit 70). Defects *inside* input files are no errors: they
are rows of the table `problems`.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says to a shell or a CI job."""

    PASS = 0
    """Done; a gate passed."""
    FLAGGED = 1
    """A gate flagged a candidate."""
    UNUSABLE = 2
    """The command or the input cannot be used."""
    INCONCLUSIVE = 3
    """A gate cannot tell, or the runs are not comparable."""
    BUG = 70
    """An error of trueput itself."""


class TrueputError(Exception):
    """What went wrong and where, with an optional hint that says what to do."""

    exit_code = ExitCode.UNUSABLE

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message


class UsageError(TrueputError):
    """The command, a policy or an SLO text is not usable."""


class InputError(TrueputError):
    """A file or folder cannot be used at all."""


class StoreError(TrueputError):
    """The store is missing, of another version, or held by another process."""


class QueryError(TrueputError):
    """A SQL text given by the user does not run."""


class ViewError(TrueputError):
    """One of trueput's own views cannot be computed; others can. That is our bug."""

    exit_code = ExitCode.BUG


def bug(error: Exception) -> TrueputError:
    """Return what to tell of an error that is ours."""
    told = TrueputError(
        f"trueput failed: {type(error).__name__}: {error}",
        "this is a bug of trueput; please report it with the output of the same command under "
        "TRUEPUT_DEBUG=1",
    )
    told.exit_code = ExitCode.BUG
    return told
