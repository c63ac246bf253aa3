"""A client's times in wrong units contradict the engine's record or each other, and are not judged.

Recorded runs with their client's times multiplied or divided by 1,000, beside each kind of engine
record alone; closed loops, whose times must fill their slots; and every recorded run as it is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from cases.conftest import Ask
from gate.bench_runs import bench, write

from trueput.gate.verdict import CandidateResult, Verdict
from trueput.verbs.doctor import doctor
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading, runs_of
from trueput.verbs.sql import sql

Result = dict[str, Any]
LATENCIES = ("ttfts", "latencies", "itls")
ALL = (*LATENCIES, "start_times", "duration", "queue_times")
SLO = "ttft=5000ms,tpot=20ms"
RECORDS = {"spans": ("otlp.jsonl.gz",), "log": ("server.log.gz",), "metrics": ("metrics.prom.gz",)}


def times(result: Result, factor: float, keys: Iterable[str]) -> Result:
    """Return a client's result with some of its times multiplied, its printed means too."""

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(item) for item in value]
        return value * factor if isinstance(value, (int, float)) else value

    means = [key for key in result if key.endswith("_ms")] if "ttfts" in keys else []
    return {**result, **{key: moved(result[key]) for key in (*keys, *means) if key in result}}


def judged(root: Path, base: Path, *cands: Path, slo: str = SLO) -> list[CandidateResult]:
    reading = Reading(store=root / "store", slo=slo)
    return list(gate(str(base), [str(cand) for cand in cands], reading=reading).candidates)


def codes(root: Path, *runs: Path) -> list[set[str]]:
    """Return the codes of problems with times that each of some runs has."""
    how = Reading(store=root / "store")
    names = [name for run in runs for name in runs_of(str(run), how)]
    query = "SELECT run_id, code FROM problems WHERE code LIKE 'TIME%'"
    found = sql(query, how, names).dicts()
    return [{row["code"] for row in found if row["run_id"] == name} for name in names]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("times")


@pytest.fixture(scope="module")
def right(fixtures: Path, root: Path) -> dict[str, Path]:
    """Return the run as it was recorded, once with each kind of engine record."""
    return {name: copied(fixtures, root, name, files) for name, files in RECORDS.items()}


def copied(fixtures: Path, root: Path, name: str, files: Iterable[str], **change: Any) -> Path:
    """Copy a recorded run with only some of its files, and its client's times changed."""
    source, folder = fixtures / "vllm_cpu" / "regress_baseline", root / name
    folder.mkdir()
    for file in ("run.toml", *files):
        shutil.copy(source / file, folder / file)
    result = json.loads((source / "bench.json").read_text())
    if change:
        result = times(result, **change)
        if "duration" in change["keys"]:  # a rate per second goes with its seconds
            for key in ("request_throughput", "output_throughput"):
                result[key] /= change["factor"]
    (folder / "bench.json").write_text(json.dumps(result))
    return folder


# --- beside an engine's record -------------------------------------------------------------------

#: The engine's record -> factor and times changed, and the code of what contradicts.
BESIDE = {
    "spans, all / 1000": ("spans", 0.001, ALL, "TIME001"),
    "spans, latencies / 1000": ("spans", 0.001, LATENCIES, "TIME001"),
    "spans, a third too short": ("spans", 0.67, LATENCIES, "TIME001"),
    "spans, all x 1000": ("spans", 1000, ALL, "TIME002"),
    "spans, latencies x 1000": ("spans", 1000, LATENCIES, "TIME004"),
    "log, all / 1000": ("log", 0.001, ALL, "TIME002"),
    "log, all x 1000": ("log", 1000, ALL, "TIME002"),
    "metrics, all / 1000": ("metrics", 0.001, ALL, "TIME003"),
    "metrics, all x 1000": ("metrics", 1000, ALL, "TIME002"),
    "metrics, latencies / 1000": ("metrics", 0.001, LATENCIES, "TIME003"),
}


@pytest.mark.parametrize("record", RECORDS)
def test_times_that_the_engine_contradicts(
    fixtures: Path, root: Path, right: dict[str, Path], record: str
) -> None:
    cases = {"".join(filter(str.isalnum, name)): case for name, case in BESIDE.items()}
    cases = {name: case for name, case in cases.items() if case[0] == record}
    wrong = [
        copied(fixtures, root, name, RECORDS[record], factor=factor, keys=keys)
        for name, (_, factor, keys, _) in cases.items()
    ]
    found = judged(root, right[record], *wrong)
    for (name, (*_, code)), one in zip(cases.items(), found, strict=True):
        assert one.verdict is Verdict.UNUSABLE, name
        assert one.reason.startswith(f"candidate: {name} has client times that cannot be")
        assert code in one.reason


def test_a_baseline_is_not_believed_either(
    fixtures: Path, root: Path, right: dict[str, Path]
) -> None:
    wrong = copied(fixtures, root, "base", RECORDS["spans"], factor=0.001, keys=ALL)
    (found,) = judged(root, wrong, right["spans"])
    assert found.reason.startswith("baseline: base has client times that cannot be")
    (told,) = doctor(str(wrong), Reading(store=root / "store"))
    (problem,) = (p for p in told.problems if p["code"] == "TIME001")
    assert (problem["severity"], problem["occurrences"]) == ("warning", 60)


def test_an_early_first_chunk_that_the_engine_never_sent(
    fixtures: Path, root: Path, right: dict[str, Path]
) -> None:
    """A chunk without content, counted as the first token, is earlier than the engine's first."""
    early = copied(fixtures, root, "early", RECORDS["spans"])
    result = json.loads((early / "bench.json").read_text())
    result["itls"] = [
        [ttft * 0.9, *gaps] for ttft, gaps in zip(result["ttfts"], result["itls"], strict=True)
    ]
    result["ttfts"] = [ttft * 0.1 for ttft in result["ttfts"]]
    (early / "bench.json").write_text(json.dumps(result))
    (found,) = judged(root, right["spans"], early)
    assert (found.verdict, "TIME001" in found.reason) == (Verdict.UNUSABLE, True)


# --- without an engine ---------------------------------------------------------------------------


def closed_loop(limit: int = 4, count: int = 40) -> Result:
    """Return a closed loop: each of `limit` slots sends again when its last request has ended."""
    result = bench([0.2 + 0.01 * (i % 7) for i in range(count)], every_s=1)
    free = [100.0] * limit
    starts = []
    for latency in result["latencies"]:  # type: ignore[attr-defined]  # a list of seconds
        start = min(free)
        starts.append(start)
        free[free.index(start)] = start + latency
    duration = max(free) - 100
    return {
        **result, "start_times": starts, "duration": duration, "request_rate": "inf",
        "max_concurrency": limit, "request_throughput": count / duration,
        "mean_ttft_ms": None, "output_throughput": None,
    }  # fmt: skip


def _parts(result: Result) -> Result:
    return times(result, 0.001, ("latencies",))


def _no_means(result: Result, **change: Any) -> Result:
    return {**times(result, **change), "mean_ttft_ms": None, "mean_e2el_ms": None}


def _share(result: Result, many: int) -> Result:
    """Return a result whose `many` slowest requests are in wrong units; its means stay."""
    worst = sorted(range(len(result["ttfts"])), key=lambda i: -result["latencies"][i])[:many]
    for key in LATENCIES:
        for place in worst:
            value = result[key][place]
            small = [x / 1000 for x in value] if isinstance(value, list) else value / 1000
            result[key] = [*result[key][:place], small, *result[key][place + 1 :]]
    return result


def _gaps(result: Result, change: Callable[[list[float]], list[float]]) -> Result:
    return {**result, "itls": [change(gaps) for gaps in result["itls"]]}


ALONE: dict[str, tuple[Callable[[], Result], Callable[[Result], Result], str]] = {
    "a closed loop, latencies / 1000": (
        closed_loop, lambda r: times(r, 0.001, LATENCIES), "a closed loop keeps 4 requests",
    ),
    "a closed loop, latencies x 1000": (
        closed_loop, lambda r: times(r, 1000, LATENCIES), "at most 4 requests were in flight",
    ),
    "latencies x 1000": (
        lambda: bench([0.2] * 30), lambda r: times(r, 1000, LATENCIES), "its whole load 29",
    ),
    "end-to-end / 1000, its parts not": (lambda: bench([0.2] * 30), _parts, "the parts of 30"),
    "latencies / 1000, printed means not": (
        lambda: bench([0.2] * 30, mean_ttft_ms=200.0, mean_e2el_ms=280.0),
        lambda r: times(r, 0.001, LATENCIES) | {"mean_ttft_ms": 200.0, "mean_e2el_ms": 280.0},
        "claims a mean TTFT of 200 ms",
    ),
    # 3 of 60 are no more than a twentieth: their means tell
    "3 requests of 60 / 1000": (
        lambda: bench([0.2] * 60, mean_e2el_ms=280.0), lambda r: _share(r, 3),
        "claims a mean TTFT of 200 ms, and that of its requests is 190.01 ms",
    ),
    "gaps / 1000": (
        lambda: bench([0.2] * 30), lambda r: times(r, 0.001, ("itls",)),
        "the gaps between chunks of 30 of 30 requests do not make up their time after the first: "
        "at the median 0.08 ms of 80 ms",
    ),
    # 4 of 20 ms and one of 200 ms: 200 > 280 / 5 + 5 + 5.6
    "the longest gap left out": (
        lambda: bench([0.2] * 30, tokens=6, slow_gap_s=0.2),
        lambda r: _gaps(r, lambda gaps: gaps[:-1]), "at the median 80 ms of 280 ms",
    ),
    "gaps left out, printed means not": (
        lambda: bench([0.2] * 30, mean_itl_ms=20.0), lambda r: _gaps(r, lambda _: []),
        "claims a mean gap between chunks of 20 ms, and that of its requests is 0 ms",
    ),
    "TPOT otherwise than printed": (
        lambda: bench([0.2] * 30, mean_tpot_ms=20.0),
        lambda r: {**r, "output_lens": [6] * 30},
        "claims a mean TPOT of 20 ms, and that of its requests is 16 ms",
    ),
    "all / 1000, printed rates not": (
        lambda: bench([0.2] * 30), lambda r: times(r, 0.001, ALL), "its throughput says 29.28 s",
    ),
}  # fmt: skip


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("case", ALONE)
def test_times_that_contradict_each_other(tmp_path: Path, case: str) -> None:
    make, change, why = ALONE[case]
    base = write(tmp_path / "right", make())
    wrong = write(tmp_path / "wrong", change(make()))
    assert codes(tmp_path, base, wrong) == [set(), {"TIME004"}]
    (found,) = judged(tmp_path, base, wrong)
    assert found.verdict is Verdict.UNUSABLE
    assert why in found.reason


# --- what is right never contradicts -------------------------------------------------------------


def test_no_recorded_run_is_disbelieved(ask: Ask) -> None:
    assert ask("SELECT run_id, code, text FROM problems WHERE code LIKE 'TIME%'") == []


def test_no_recorded_client_file_is_disbelieved(fixtures: Path, tmp_path: Path) -> None:
    """Results of a client under faults, without an engine; and summaries without requests."""
    files = [
        *(fixtures / "clients" / "generated_faults" / "vllm_0.33.0").glob("*.json"),
        *(fixtures / "clients" / "inferencex_vllm_summary").glob("*.json"),
    ]
    assert len(files) > 6
    folders = []
    for file in files:
        folders.append(tmp_path / file.stem)
        folders[-1].mkdir()
        shutil.copy(file, folders[-1] / "bench.json")
    found = codes(tmp_path, *folders)
    assert dict(zip(files, found, strict=True)) == {file: set() for file in files}
