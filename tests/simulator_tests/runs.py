"""Simulated runs, each made once per process."""

from __future__ import annotations

from functools import cache

from simulator import SCENARIOS, Run, simulate
from simulator.truth import Ledger, ledger_of

VARIED = ("tiny", "overlapped", "troubled")


@cache
def run_of(name: str, seed: int = 1) -> Run:
    """A scenario, served."""
    return simulate(SCENARIOS[name], seed)


@cache
def ledger(name: str, seed: int = 1) -> Ledger:
    """Its ledger."""
    return ledger_of(run_of(name, seed))
