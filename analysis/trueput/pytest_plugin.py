"""A fixture for pytest: a gate that a test asserts.

    def test_tonight(trueput_gate):
        trueput_gate("@nightly", "runs/tonight", policy="gate.toml", store="store").assert_passes()

pytest finds it by its entry point. Until a test asks for the fixture it imports no data library,
adds no option and changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from trueput.errors import TrueputError
    from trueput.gate.verdict import GateResult

Named: TypeAlias = str | os.PathLike[str]
"""A run, a path, or repeats joined with commas."""


@dataclass(frozen=True)
class Judged:
    """What a gate said, to be asserted."""

    result: GateResult

    @property
    def verdict(self) -> str:
        """The verdict over all candidates, such as `pass` or `flagged`."""
        return self.result.verdict.value

    @property
    def text(self) -> str:
        """The verdicts with the findings and differences that decided them."""
        from trueput.gate.render.plain import to_text

        return to_text(self.result)

    def assert_passes(self, *, skip_inconclusive: bool = False) -> None:
        """Fail the test, with the reasons, unless the verdict is pass.

        With `skip_inconclusive` a test whose gate cannot tell is skipped instead; runs that are not
        comparable, or cannot be read, fail it all the same.
        """
        __tracebackhide__ = True
        if self.verdict == "pass":
            return
        if skip_inconclusive and self.verdict == "inconclusive":
            pytest.skip(self.text)
        pytest.fail(self.text, pytrace=False)

    def assert_not_flagged(self) -> None:
        """Fail the test, with the reasons, where a regression is shown or input is unusable."""
        __tracebackhide__ = True
        if self.verdict in {"flagged", "unusable"}:
            pytest.fail(self.text, pytrace=False)


class Gate:
    """Judges candidates in a test; a store of its own unless one is named."""

    def __init__(self, own_store: Path) -> None:
        self._own_store = own_store

    def __call__(
        self,
        base: Named | Sequence[Named],
        candidates: Named | Sequence[Named | Sequence[Named]],
        *,
        policy: Named | None = None,
        slo: str | None = None,
        window: str = "all",
        store: Named | None = None,
    ) -> Judged:
        """Return the gate's result.

        `base` is one configuration: a name or path, `@NAME`, `@last:K`, or a sequence of repeats.
        `candidates` is one configuration, or a sequence of them, each a name or its repeats.
        Without `store` it is $TRUEPUT_STORE, else a temporary one of this session. Raises
        TrueputError where a run, a policy or an objective cannot be used; where a test does not
        catch it, the test fails with that error's text alone.
        """
        __tracebackhide__ = True
        from trueput.errors import TrueputError

        try:
            return self._judged(base, candidates, policy, slo, window, store)
        except TrueputError as error:
            raise _not_judged(error) from None

    def _judged(
        self,
        base: Named | Sequence[Named],
        candidates: Named | Sequence[Named | Sequence[Named]],
        policy: Named | None,
        slo: str | None,
        window: str,
        store: Named | None,
    ) -> Judged:
        from trueput.verbs.gate import gate
        from trueput.verbs.opening import Reading

        kept = store if store is not None else os.environ.get("TRUEPUT_STORE") or self._own_store
        several = [candidates] if isinstance(candidates, (str, os.PathLike)) else list(candidates)
        result = gate(
            _side(base),
            [_side(candidate) for candidate in several],
            None if policy is None else Path(policy),
            Reading(store=Path(kept), slo=slo, window=window),
        )
        return Judged(result)


def _not_judged(error: TrueputError) -> Exception:
    """Return the error as one of its own class that pytest shows as its text, without a trace."""
    from trueput.gate.render.failure import failure_text

    kind = type(error)
    told = failure_text(error).rstrip()
    body = {"__module__": kind.__module__, "__str__": lambda _: told, "msg": told, "pytrace": False}
    made: Exception = type(kind.__name__, (kind, pytest.fail.Exception), body)(
        error.message, error.hint
    )
    return made


def _side(named: Named | Sequence[Named]) -> str:
    """Return one configuration as the command line writes it."""
    if isinstance(named, (str, os.PathLike)):
        return os.fspath(named)
    parts = [os.fspath(part) for part in named]
    if len(parts) > 1 and any("," in part for part in parts):
        from trueput.errors import UsageError

        raise UsageError("a repeat has a comma in its name", "put the repeats into one folder")
    return ",".join(parts)


@pytest.fixture(scope="session")
def trueput_gate(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """Judge candidates against a baseline: `trueput_gate(base, candidates).assert_passes()`."""
    return Gate(tmp_path_factory.mktemp("trueput") / "store")
