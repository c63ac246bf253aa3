"""The planned requests of a run as columns: a gate over many runs must not hold a million objects.

Columns are float64 arrays of one length, NaN where a value was not observed; spans and offsets are
whole nanoseconds, exact up to 2**53 (104 days). Offsets count from the first send of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]
    Mask: TypeAlias = NDArray[np.bool_]

OUTCOMES = (
    "good", "late", "rejected", "failed", "aborted", "unfinished", "not_sent", "unknown",
)  # fmt: skip
"""Outcomes of planned requests; a request's code is its place here, -1 where it has none."""

NUMBERS = (
    "sent_ns", "end_ns", "ttft_ns", "tpot_ns", "e2e_ns", "prompt_tokens", "asked_output_tokens",
    "output_tokens", "cached_prompt_tokens", "client_delay_ns", "client_queue_ns", "longest_gap_ns",
    "client_prompt_tokens",
)  # fmt: skip
_OFFSETS = ("sent_ns", "end_ns")
_COMPLETE = (OUTCOMES.index("good"), OUTCOMES.index("late"))


@dataclass(frozen=True)
class Request:
    """One planned request, as a row; offsets in ns from the first send of the run."""

    outcome: str | None = None
    complete: bool | None = None
    sent_ns: int | None = None
    end_ns: int | None = None
    ttft_ns: int | None = None
    tpot_ns: float | None = None
    e2e_ns: int | None = None
    prompt_tokens: int | None = None
    asked_output_tokens: int | None = None
    output_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    client_delay_ns: int | None = None
    client_queue_ns: int | None = None
    longest_gap_ns: int | None = None
    client_prompt_tokens: int | None = None


@dataclass(frozen=True)
class ClassCount:
    """Planned requests of a run that are of one class of the objective, and that may be.

    ``unknown`` are those whose label or prompt length is not known; ``planned`` are all.
    """

    requests: int
    unknown: int
    planned: int


@dataclass(frozen=True, eq=False)
class Requests:
    """Planned requests, one place each in every column."""

    outcome: NDArray[np.int8]
    survived: Mask
    numbers: Mapping[str, Numbers]

    @classmethod
    def of(cls, rows: Iterable[Request]) -> Requests:
        """Return the columns of these rows; a request that ended as asked survived."""
        import numpy as np

        held = list(rows)
        outcome = np.array(
            [OUTCOMES.index(row.outcome) if row.outcome in OUTCOMES else -1 for row in held],
            dtype=np.int8,
        )
        told = [row.complete for row in held]
        survived = np.where(
            [done is None for done in told],
            np.isin(outcome, _COMPLETE),
            np.array([done is True for done in told], dtype=bool),
        )
        numbers = {
            name: np.array(
                [math.nan if (v := getattr(row, name)) is None else v for row in held], dtype=float
            )
            for name in NUMBERS
        }
        return cls(outcome, survived.astype(bool), numbers)

    @classmethod
    def of_columns(
        cls, outcome: NDArray[np.int8], survived: Mask, numbers: Mapping[str, Numbers]
    ) -> Requests:
        """Return requests from whole columns; a column that is not given was not observed."""
        import numpy as np

        codes = np.asarray(outcome, dtype=np.int8)
        unknown = np.full(len(codes), math.nan)
        held = {name: np.asarray(numbers.get(name, unknown), dtype=float) for name in NUMBERS}
        return cls(codes, np.asarray(survived, dtype=bool), held)

    def __len__(self) -> int:
        return len(self.outcome)

    def __iter__(self) -> Iterator[Request]:
        """Yield the requests as rows: for cases that fit on a screen, not for whole runs."""
        whole = {field.name for field in fields(Request)} - {"outcome", "complete", "tpot_ns"}
        for place, code in enumerate(self.outcome):
            row: dict[str, float | int | None] = {}
            for name, column in self.numbers.items():
                value = float(column[place])
                missing = math.isnan(value)
                row[name] = None if missing else int(value) if name in whole else value
            yield Request(
                OUTCOMES[code] if code >= 0 else None,
                bool(self.survived[place]),
                **row,  # type: ignore[arg-type]  # the names are those of the fields
            )

    def column(self, name: str) -> Numbers:
        """Return one column, NaN where it was not observed."""
        return self.numbers[name]

    def known(self, name: str, among: Mask | None = None) -> Numbers:
        """Return the observed values of a column, in the order of the requests."""
        import numpy as np

        column = self.numbers[name] if among is None else self.numbers[name][among]
        found: Numbers = column[~np.isnan(column)]
        return found

    def is_outcome(self, name: str) -> Mask:
        """Return which requests have this outcome."""
        import numpy as np

        found: Mask = np.equal(self.outcome, OUTCOMES.index(name))
        return found

    def within(self, name: str, from_ns: int, to_ns: int) -> Requests:
        """Return the requests whose instant ``name`` lies in a window.

        Offsets of the found ones count from its begin. A request without that instant is in no
        window that cuts the load, as in the view `goodput`.
        """
        at = self.numbers[name]
        chosen = (at >= from_ns) & (at <= to_ns)
        numbers = {
            column: values[chosen] - (from_ns if column in _OFFSETS else 0)
            for column, values in self.numbers.items()
        }
        return Requests(self.outcome[chosen], self.survived[chosen], numbers)

    def lost(self) -> int:
        """Return how many sent requests did not end as asked."""
        import numpy as np

        counted = (self.outcome >= 0) & ~self.is_outcome("not_sent") & ~self.survived
        return int(np.count_nonzero(counted))


def none() -> Requests:
    """Return no requests."""
    return Requests.of(())
