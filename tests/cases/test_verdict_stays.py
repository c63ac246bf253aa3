"""What must change no verdict, through real files: order of rows, unit, runs that are not named."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate.served import SLO, Served, changed, kept, recorded, usual

from trueput.gate.render import to_json
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading

LATE = changed(usual(), 5, ttft_s=0.8)
LOSSY = changed(LATE, 7, ttft_s=0.0, tokens=0, error="Service Unavailable")


def told(root: Path, base: str, cand: str, name: str) -> str:
    """Return the gate's JSON, whatever the runs are called."""
    reading = Reading(store=root / "store", slo=SLO)
    text = to_json(gate(base, [cand], reading=reading))
    return text.replace(name, "cand")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stays")


@pytest.fixture(scope="module")
def base(root: Path) -> str:
    return recorded(root, "base", usual(), 2)


@pytest.fixture(scope="module")
def plain(root: Path, base: str) -> str:
    return told(root, base, recorded(root, "plain", LOSSY, 2), "plain")


def test_order_of_lines(root: Path, base: str, plain: str) -> None:
    order = [*range(1, len(LOSSY), 2), *range(0, len(LOSSY), 2)[::-1]]
    turned = recorded(root, "turned", LOSSY, 2, order=order)
    assert told(root, base, turned, "turned") == plain


@pytest.mark.parametrize("per_s", [1, 10**6])
def test_unit_of_times(root: Path, base: str, plain: str, per_s: int) -> None:
    name = f"per{per_s}_"
    assert told(root, base, recorded(root, name, LOSSY, 2, per_s=per_s), name) == plain


@pytest.mark.long
def test_runs_that_are_not_named(root: Path, base: str, plain: str) -> None:
    """The store fills with runs that are far better and far worse; nothing is asked of them."""
    noise = [Served(ttft_s=0.01), Served(ttft_s=9.0)]
    for place, request in enumerate(noise):
        kept(root, f"noise{place}_", [request] * 30, 2)
        Reading(store=root / "store")
        gate(str(root / f"noise{place}_0"), [str(root / f"noise{place}_1")],
             reading=Reading(store=root / "store", slo=SLO))  # fmt: skip
    cand = ",".join(str(root / f"plain{i}") for i in range(2))
    assert told(root, base, cand, "plain") == plain
    assert '"verdict": "flagged"' in plain
