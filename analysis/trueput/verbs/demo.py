"""demo: the whole story on the recorded sample runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueput.errors import InputError
from trueput.gate.verdict import GateResult
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading
from trueput.verbs.show import show


@dataclass(frozen=True)
class Story:
    """What the demo shows: the regression pair, its control, and one run in detail."""

    regression: GateResult
    control: GateResult
    candidate: dict[str, list[dict[str, Any]]]
    data: Path
    store: Path | None = None
    """The store that was given; None for the usual one."""


def sample_data() -> Path:
    """Return the sample runs: of the current folder, else of the checkout this code runs from.

    Raises InputError where neither has them.
    """
    for root in (Path.cwd(), Path(__file__).resolve().parents[3]):
        folder = root / "sample_data"
        if (folder / "regress_baseline").is_dir():
            return folder
    raise InputError(
        "the sample runs are not part of the installed package",
        "run the demo in a checkout, or give their folder: `trueput demo --data sample_data`",
    )


def demo(data: Path | None = None, reading: Reading | None = None) -> Story:
    """Gate the recorded regression pair and the control pair, and show the flagged run."""
    folder = data or sample_data()
    how = reading or Reading()

    def side(*names: str) -> str:
        return ",".join(str(folder / n) for n in names)

    regression = gate(
        side("regress_baseline", "regress_baseline_r2"),
        [side("regress_candidate", "regress_candidate_r2")],
        reading=how,
    )
    control = gate(side("control_baseline"), [side("control_candidate")], reading=how)
    return Story(
        regression, control, show(str(folder / "regress_candidate"), how), folder, how.store
    )
