"""Doing less must not look better: each trick, through real files, with three repeats a side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gate.served import (
    BROKEN,
    REFUSED,
    SLO,
    Served,
    changed,
    judged,
    judged_together,
    kept,
    recorded,
    usual,
)

from trueput.gate.verdict import CandidateResult, Verdict

QUICK = Served(ttft_s=0.1)
TRICKS: dict[str, tuple[list[Served], Verdict, str]] = {
    # the hard quarter is refused at once, and the rest is faster for it
    "refused hard ones": (
        [replace(REFUSED, prompt=r.prompt) if r.prompt > 100 else QUICK for r in usual()],
        Verdict.FLAGGED, "hidden-failures",
    ),
    "everything refused fast": (
        [replace(REFUSED, prompt=r.prompt) for r in usual()], Verdict.FLAGGED, "hidden-failures",
    ),
    "all failed": (
        [replace(BROKEN, prompt=r.prompt) for r in usual()], Verdict.FLAGGED, "goodput-drop",
    ),
    "shorter outputs": (
        [replace(r, tokens=10) for r in usual()], Verdict.FLAGGED, "hidden-failures",
    ),
    # half of the answers are a tenth shorter: a mean of 0.95, which more of the same may undercut
    "some shorter outputs": (
        changed(usual(), 2, tokens=18), Verdict.INCONCLUSIVE, "hidden-failures",
    ),
    "easier prompts": (
        [replace(r, prompt=100) for r in usual()], Verdict.NOT_COMPARABLE, "prompt_lengths",
    ),
    # the last third breaks off in mid-stream: the client has partial tokens and no latency
    "aborted tail": (
        [*usual()[:40], *(replace(BROKEN, prompt=r.prompt, ttft_s=0.2, tokens=5)
                          for r in usual()[40:])],
        Verdict.FLAGGED, "hidden-failures",
    ),
    # all tokens are held until the end: token times look perfect, the first is late
    "held-back tokens": (
        [replace(r, ttft_s=r.ttft_s + 19 * 0.0199, gap_s=0.0001) for r in usual()],
        Verdict.FLAGGED, "goodput-drop",
    ),
    "fewer sends, more time": (
        [replace(r, sent_s=1.0 * i) for i, r in enumerate(usual())],
        Verdict.NOT_COMPARABLE, "arrival_gaps",
    ),
}  # fmt: skip


def why(result: CandidateResult) -> str:
    """Return the verdict's reason with what blocked, so that a case can name its cause."""
    return f"{result.reason} {[d.aspect for d in result.comparability if d.blocks]}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gamed")


@pytest.fixture(scope="module")
def base(root: Path) -> str:
    return kept(root, "base", usual())


def test_the_same_load_again_passes(root: Path, base: str) -> None:
    found = judged(root, base, kept(root, "again", usual()))
    assert found.verdict is Verdict.PASS, why(found)
    assert found.comparability == ()


@pytest.fixture(scope="module")
def tricks(root: Path, base: str) -> dict[str, CandidateResult]:
    """Gate all tricks at once."""
    candidates = {
        trick: kept(root, trick.replace(" ", "_").replace(",", ""), load)
        for trick, (load, _, _) in TRICKS.items()
    }
    return judged_together(root, base, candidates)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_never_passes(tricks: dict[str, CandidateResult], trick: str) -> None:
    _, verdict, cause = TRICKS[trick]
    found = tricks[trick]
    assert found.verdict is verdict, why(found)
    assert cause in why(found)


@pytest.mark.long
def test_shorter_than_asked_is_a_failure(root: Path) -> None:
    """Where the asked length is known and end-of-sequence ignored, a short answer is no answer."""
    whole, short = ([replace(r, tokens=tokens) for r in usual()] for tokens in (20, 10))
    base = recorded(root, "whole", whole)
    again = changed(whole, len(whole), ttft_s=0.4501)
    assert judged(root, base, recorded(root, "whole_again", again)).verdict is Verdict.PASS
    found = judged(root, base, recorded(root, "short", short))
    assert found.verdict is Verdict.FLAGGED
    lost = next(f for f in found.findings if f.metric == "lost_requests_ratio")
    assert (lost.baseline, lost.candidate) == (0.0, 1.0)


def test_requests_that_were_never_sent_are_lost(root: Path, base: str) -> None:
    easy = [r for r in usual() if r.prompt == 100]
    placed = [replace(r, sent_s=0.5 * (i // 3 * 4 + i % 3)) for i, r in enumerate(easy)]
    found = judged(root, base, kept(root, "unsent", placed, planned=60))
    assert found.verdict in {Verdict.FLAGGED, Verdict.NOT_COMPARABLE}, why(found)
    lost = next(f for f in found.findings if f.metric == "lost_requests_ratio")
    assert (lost.outcome, lost.candidate) == ("flagged", 0.25)


def test_null_metrics_are_unusable(root: Path, base: str) -> None:
    cand = kept(root, "null", usual(), drop=("ttfts", "latencies", "itls", "output_lens"))
    found = judged(root, base, cand)
    assert found.verdict is Verdict.UNUSABLE, why(found)


@pytest.mark.long
def test_an_empty_run_is_unusable(root: Path, base: str) -> None:
    assert judged(root, base, kept(root, "empty", [])).verdict is Verdict.UNUSABLE
    folder = root / "hollow"
    folder.mkdir()
    (folder / "bench.json").write_bytes(b"")
    (folder / "run.toml").write_text("planned_requests = 60\n")
    assert judged(root, base, str(folder)).verdict is Verdict.UNUSABLE


@pytest.mark.long
def test_a_missing_load_level_is_not_overlooked(root: Path) -> None:
    """Three levels as three runs of one configuration; the candidate's highest is not there."""
    levels = [[replace(r, sent_s=i * gap) for i, r in enumerate(usual(20))] for gap in (2, 1, 0.5)]
    base = ",".join(kept(root, f"level{i}_", load, 1) for i, load in enumerate(levels))
    cand = ",".join(kept(root, f"level_c{i}_", load, 1) for i, load in enumerate(levels[:2]))
    found = judged(root, base, cand)
    assert found.verdict is Verdict.NOT_COMPARABLE, why(found)
    assert "arrival_gaps" in why(found)


def test_late_ones_that_are_dropped_do_not_help(root: Path) -> None:
    """The baseline has a late quarter, the candidate drops it: as many are good, more are lost."""
    late = changed(usual(), 4, ttft_s=0.9)
    base = kept(root, "late", late)
    cand = kept(root, "dropped", changed(late, 4, ttft_s=0.0, tokens=0, error="Too Many Requests"))
    found = judged(root, base, cand, SLO)
    assert found.verdict is Verdict.FLAGGED, why(found)
    assert "hidden-failures" in found.reason
