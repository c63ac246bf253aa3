"""A discrete-event simulator of a serving engine: makes runs whose truth is known, for tests.

from simulator import SCENARIOS, simulate, write_run
write_run(simulate(SCENARIOS["tiny"], seed=1), folder)
"""

from simulator.config import SCENARIOS, Config
from simulator.engine import Run, simulate
from simulator.files import write_run

__all__ = ["SCENARIOS", "Config", "Run", "simulate", "write_run"]
