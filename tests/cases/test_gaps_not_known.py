"""Gaps between chunks that a file does not tell of are unknown, and hide no stall from a gate.

A candidate stalls for 200 ms in each answer. Its file tells so, or leaves the gaps out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gate.served import Served, bench, judged, kept

from trueput.gate.verdict import Verdict

Result = dict[str, Any]
GAPS = (0.02,) * 9 + (0.2,) + (0.02,) * 9
LIMITS = "itl_p99=100ms"
#: Of the gaps -> what the file says of them.
TOLD: dict[str, Callable[[Result], Result]] = {
    "empty": lambda r: {**r, "itls": [[] for _ in r["itls"]]},
    "null": lambda r: {**r, "itls": [None for _ in r["itls"]]},
    "absent": lambda r: {key: value for key, value in r.items() if key != "itls"},
    "empty, no end": lambda r: {
        **{key: value for key, value in r.items() if key != "latencies"},
        "itls": [[] for _ in r["itls"]],
    },
}


def load(gaps: tuple[float, ...] | None) -> list[Served]:
    return [Served(gaps_s=gaps) for _ in range(60)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gaps")


@pytest.fixture(scope="module")
def base(root: Path) -> str:
    return kept(root, "base", load(None))


@pytest.fixture(scope="module")
def stalled(root: Path) -> str:
    return kept(root, "stalled", load(GAPS))


@pytest.fixture(scope="module")
def silent(root: Path) -> dict[str, str]:
    """Return the stalled candidate, once for each way of not telling of its gaps."""
    found = {}
    for name, change in TOLD.items():
        folders = []
        for place in range(3):
            held = load(GAPS)
            held[-1] = Served(gaps_s=GAPS, sent_s=29.5 + 1e-6 * place)
            folder = root / f"{name.replace(' ', '_').replace(',', '')}{place}"
            folder.mkdir()
            result = change(bench(held, label=f"{name}{place}"))
            (folder / "bench.json").write_text(json.dumps(result), encoding="utf-8")
            folders.append(str(folder))
        found[name] = ",".join(folders)
    return found


def test_a_stall_that_is_told_is_flagged(root: Path, base: str, stalled: str) -> None:
    assert judged(root, base, stalled, LIMITS).verdict is Verdict.FLAGGED


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("way", TOLD)
def test_a_stall_that_is_not_told_is_unknown_under_a_limit(
    root: Path, base: str, silent: dict[str, str], way: str
) -> None:
    found = judged(root, base, silent[way], LIMITS)
    assert found.verdict is Verdict.UNUSABLE
    assert "tells of none of its 60 requests what its objective limits" in found.reason


@pytest.mark.long
def test_answers_of_which_some_tell_no_gaps_are_not_all_good(root: Path, base: str) -> None:
    """A fifth of the answers stall, and just these have no gaps in the file."""
    folders = []
    for place in range(3):
        held = [Served(gaps_s=GAPS if i % 5 == 0 else None) for i in range(60)]
        held[-1] = Served(sent_s=29.5 + 1e-6 * place)
        folder = root / f"some{place}"
        folder.mkdir()
        result = bench(held, label=f"some{place}")
        gaps = result["itls"]
        assert isinstance(gaps, list)
        result["itls"] = [[] if i % 5 == 0 else gap for i, gap in enumerate(gaps)]
        (folder / "bench.json").write_text(json.dumps(result), encoding="utf-8")
        folders.append(str(folder))
    cand = ",".join(folders)
    assert judged(root, base, cand, LIMITS).verdict is Verdict.INCONCLUSIVE
    assert judged(root, base, cand, "ttft=5000ms,tpot=50ms").verdict is Verdict.INCONCLUSIVE


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("way", TOLD)
def test_gaps_on_one_side_alone_do_not_pass_a_limit_on_tpot(
    root: Path, base: str, silent: dict[str, str], way: str
) -> None:
    """19 gaps of 29.5 ms on the mean are within 50 ms, and the stall is beyond it."""
    found = judged(root, base, silent[way], "ttft=5000ms,tpot=50ms")
    if way == "empty, no end":  # without an end there is no TPOT either
        assert found.verdict is Verdict.UNUSABLE
        return
    assert found.verdict is Verdict.INCONCLUSIVE
    (gap,) = (f for f in found.findings if f.metric == "longest_gap_ns_mean")
    assert "is not known in every run" in gap.conclusion


@pytest.mark.long
def test_answers_in_one_chunk_have_no_gap_beyond_the_limit(root: Path) -> None:
    """The whole answer came with its first chunk: no time is left in which to wait."""
    one = kept(root, "one", [Served(gaps_s=()) for _ in range(60)])
    more = kept(root, "more", [Served(gaps_s=()) for _ in range(60)], repeats=4)
    found = judged(root, one, more, "ttft=500ms,itl_p99=100ms")
    assert found.verdict is Verdict.PASS
