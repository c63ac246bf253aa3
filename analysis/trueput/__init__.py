"""trueput: trace analysis and regression gate for LLM serving.

The verbs of the command line are functions of the same names here:

    import trueput
    trueput.ingest(["runs/friday"])
    trueput.sql("FROM goodput").dicts()

They are loaded when first used, so that `import trueput` loads no data library.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trueput.errors import ExitCode, TrueputError
    from trueput.verbs import baseline, policy
    from trueput.verbs.compare import compare
    from trueput.verbs.demo import demo
    from trueput.verbs.doctor import doctor
    from trueput.verbs.explain import explain
    from trueput.verbs.gate import gate
    from trueput.verbs.history import history
    from trueput.verbs.ingest import ingest
    from trueput.verbs.kv import kv
    from trueput.verbs.noise import noise
    from trueput.verbs.opening import Reading
    from trueput.verbs.runs import runs
    from trueput.verbs.show import show
    from trueput.verbs.sources import sources
    from trueput.verbs.sql import db, sql, tables
    from trueput.verbs.sweep import sweep

__version__ = "0.1.0"

_HOME = {
    "ExitCode": "errors",
    "Reading": "verbs.opening",
    "TrueputError": "errors",
    "baseline": "verbs.baseline",
    "compare": "verbs.compare",
    "db": "verbs.sql",
    "demo": "verbs.demo",
    "doctor": "verbs.doctor",
    "explain": "verbs.explain",
    "gate": "verbs.gate",
    "history": "verbs.history",
    "ingest": "verbs.ingest",
    "kv": "verbs.kv",
    "noise": "verbs.noise",
    "policy": "verbs.policy",
    "runs": "verbs.runs",
    "show": "verbs.show",
    "sources": "verbs.sources",
    "sql": "verbs.sql",
    "sweep": "verbs.sweep",
    "tables": "verbs.sql",
}

__all__ = [
    "ExitCode", "Reading", "TrueputError", "baseline", "compare", "db", "demo", "doctor", "explain",
    "gate", "history", "ingest", "kv", "noise", "policy", "runs", "show", "sources", "sql", "sweep",
    "tables",
]  # fmt: skip


class _Library(ModuleType):
    """This module: a verb keeps its name although a package inside has the same (gate, sources).

    Importing `trueput.gate.policy` would else put the package `gate` in the place of the verb.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Library


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'trueput' has no attribute {name!r}")
    module = importlib.import_module(f"trueput.{_HOME[name]}")
    return getattr(module, name, module)  # a verb with verbs below it is its module


def __dir__() -> list[str]:
    return sorted(__all__)
