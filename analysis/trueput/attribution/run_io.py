"""What the attribution of one run is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueput.attribution.sessions import Load, Sessions
from trueput.clock import ClockAnchor, ClockFit
from trueput.source_api import Clock, Problem

if TYPE_CHECKING:
    from trueput.attribution.gpu.losses.lost_steps import LostSteps

Row = dict[str, Any]


@dataclass(frozen=True)
class RunInput:
    """What attribution is given: parts on their own clocks, and what the files said."""

    run_id: str
    parts: Mapping[str, Sequence[Path]]
    clocks: Mapping[str, Clock]
    facts: Mapping[str, Mapping[str, Any]]
    anchors: Sequence[ClockAnchor] = ()
    timezone: str | None = None
    loads: Sequence[Load] = ()
    slo: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    """File -> name of the source that read it."""


@dataclass
class RunOutput:
    """What attribution gives back: derived rows by table, clock fits and sessions by file."""

    rows: dict[str, Any] = field(default_factory=dict)
    """Table -> rows: dicts, a DataFrame, an iterator of frames or tables, or a function called
    last."""
    made_while_written: dict[str, Callable[[Exception], Problem]] = field(default_factory=dict)
    """Tables whose rows are made while they are written, with what a failure then means: the run
    keeps everything else."""
    clock_fits: dict[str, ClockFit] = field(default_factory=dict)
    sessions: Sessions = field(default_factory=Sessions)
    problems: list[Problem] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)
    """Profiler files whose operations are not counted -> the word of gpu_ops.quality for them."""
    of_files: list[tuple[str, Problem]] = field(default_factory=list)
    """Problems of single files."""
    lost_steps: list[LostSteps] = field(default_factory=list)
    """What single profiles lack of the steps that ran while they watched."""
