"""A client's times against the engine's iteration lines alone: how long steps took, not whose.

Loads whose steps are written down here, so that what must hold is plain; and a recorded log of
which only the iteration lines are kept.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gate.bench_runs import bench, write

from trueput.verbs.opening import Reading, runs_of
from trueput.verbs.sql import sql

ZERO = 1_795_959_800  # 2026-11-29 13:43:20, the first send
REQUESTS, TOKENS, STEP_S = 40, 51, 0.02
ANCHORS = f"""
[[clock_anchors]]
unix = {ZERO}.0
monotonic = 100.0
"""


@dataclass(frozen=True)
class Shape:
    """Requests of 51 tokens one after the other: 0.1 s of prefill, and 50 steps of 20 ms."""

    every_s: float = 1.25
    drafts: int = 0
    """Draft tokens of a step, all accepted."""
    printed: float = 1
    """Time that a step prints, of the time to the next."""
    warm_up: int = 0
    """Requests that no client recorded, before the load."""
    missing: int = 0
    """Every so manyth line is missing."""


def log_of(shape: Shape) -> str:
    lines, step = [], 0

    def line(at_s: float, counts: tuple[int, int, int, int], elapsed_s: float) -> None:
        nonlocal step
        stamp = datetime.fromtimestamp(ZERO + math.floor(at_s), UTC).strftime("%m-%d %H:%M:%S")
        context, prompt, generating, tokens = counts
        if not shape.missing or step % shape.missing:
            lines.append(
                f"(APIServer pid=1) INFO {stamp} [loggers.py:199] Engine 000: Iteration({step}): "
                f"{context} context requests, {prompt} context tokens, {generating} generation "
                f"requests, {tokens} generation tokens, iteration elapsed time: "
                f"{1000 * elapsed_s * shape.printed:.2f} ms, GPU KV cache usage: 1.0%"
            )
        step += 1

    made = 1 + shape.drafts
    for place in range(-shape.warm_up, REQUESTS):
        at = shape.every_s * place + 0.1
        line(at, (1, 100, 0, 0), 0.1)
        for _ in range(0, TOKENS - 1, made):
            at += STEP_S
            line(at, (0, 0, 1, made), STEP_S)
    return "\n".join(lines) + "\n"


def client_of(shape: Shape, slower: float = 1) -> dict[str, Any]:
    """Return what a client sees of it: 2 ms later than the engine, or slower."""
    steps = (TOKENS - 1) // (1 + shape.drafts)
    times = {"ttft": 0.102 * slower, "rest": steps * STEP_S * slower}
    result: dict[str, Any] = bench(
        [times["ttft"]] * REQUESTS, gap_s=times["rest"] / (TOKENS - 1), tokens=TOKENS,
        every_s=shape.every_s,
    )  # fmt: skip
    return result


def scaled(
    result: dict[str, Any], factor: float, *keys: str, many: int = REQUESTS
) -> dict[str, Any]:
    """Return a result whose last requests, `many` of them, have some times multiplied.

    The figures that the client prints follow, so that only the engine can contradict it.
    """
    told = dict(result)
    for key in ("ttfts", "latencies", *keys):
        told[key] = [
            value * factor if place >= REQUESTS - many else value
            for place, value in enumerate(result[key])
        ]
    told["itls"] = [
        [gap * factor for gap in gaps] if place >= REQUESTS - many else gaps
        for place, gaps in enumerate(result["itls"])
    ]
    starts, ends = told["start_times"], []
    ends = [start + latency for start, latency in zip(starts, told["latencies"], strict=True)]
    told["duration"] = max(ends) - min(starts)
    told["request_throughput"] = REQUESTS / told["duration"]
    told["mean_ttft_ms"] = 1000 * sum(told["ttfts"]) / REQUESTS
    return told


def told(root: Path, folders: Iterable[Path]) -> dict[str, list[str]]:
    """Return the problems with times of each run, by the name of its folder, as `code: text`."""
    how = Reading(store=root / "store")
    names = {runs_of(str(folder), how)[0]: folder.name for folder in folders}
    found: dict[str, list[str]] = {name: [] for name in names.values()}
    for row in sql("SELECT run_id, code, text FROM problems WHERE code LIKE 'TIME%'", how).dicts():
        found[names[row["run_id"]]].append(f"{row['code']}: {row['text']}")
    return found


WHOLE = Shape()
#: What the engine did -> what the client says of it, and what each reason says. By the log each
#: request took 50 x 20 ms to generate; of its 51 tokens, 48 steps need 960 ms even where a client
#: stops two tokens early, and at that the slack is 1.1 x and 5 ms.
WRONG: dict[str, tuple[Shape, Callable[[dict[str, Any]], dict[str, Any]], list[str]]] = {
    "latencies / 1000": (WHOLE, lambda r: scaled(r, 0.001), [
        "generated for the load's requests for at least 39.2 s in all, and the client's end-to-end "
        "times add up to 0.04408 s",
        "steps for the load took at least 39.2 s",
        "answers of 40 of 40 requests longer than the client says: at the median at least 960 ms "
        "against 1.102 ms",
    ]),
    "latencies / 2": (WHOLE, lambda r: scaled(r, 0.5), [
        "generated for the load's requests for at least 39.2 s in all, and the client's end-to-end "
        "times add up to 22.04 s",
        "steps for the load took at least 39.2 s",
        "answers of 40 of 40 requests longer",
    ]),
    "all / 2": (WHOLE, lambda r: scaled(r, 0.5, "start_times"), [
        "generated for the load over at least", "generated for the load's requests",
        "steps for the load took", "answers of 40 of 40 requests longer",
    ]),
    # 3 of 40 are more than a twentieth; the others hide them in every sum
    "3 requests / 1000": (WHOLE, lambda r: scaled(r, 0.001, many=3), [
        "answers of 3 of 40 requests",
    ]),
    # 10 steps of 20 ms make 50 tokens; 200 of 2,000 tokens are drafts' own, and 40 steps no one's
    "drafts, latencies / 1000": (Shape(drafts=4), lambda r: scaled(r, 0.001), [
        "generated for the load's requests", "answers of 40 of 40 requests longer",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_times_that_the_steps_contradict(of_loads: dict[str, list[str]], case: str) -> None:
    _, _, reasons = WRONG[case]
    found = of_loads[plain(case)]
    assert [reason for reason in reasons if not any(reason in text for text in found)] == []
    assert {text[:7] for text in found} == {"TIME005"}, found


#: What is right, or cannot be told from the log, is no contradiction.
RIGHT: dict[str, tuple[Shape, dict[str, Any]]] = {
    "as it was": (WHOLE, client_of(WHOLE)),
    "a client slower than its engine": (WHOLE, client_of(WHOLE, slower=1.1)),
    "2 requests / 1000": (WHOLE, scaled(client_of(WHOLE), 0.001, many=2)),
    "4 of 5 tokens are drafts": (Shape(drafts=4), client_of(Shape(drafts=4))),
    "steps that overlap": (Shape(printed=2), client_of(Shape(printed=2))),
    "40 requests of a warm-up": (Shape(warm_up=40), client_of(WHOLE)),
    "lines are missing": (Shape(missing=50), scaled(client_of(WHOLE), 0.5)),
}


@pytest.mark.long(besides=3)
@pytest.mark.parametrize("case", RIGHT)
def test_times_that_the_steps_leave(of_loads: dict[str, list[str]], case: str) -> None:
    assert of_loads[plain(case)] == []


def plain(case: str) -> str:
    return "".join(letter for letter in case if letter.isalnum())


@pytest.fixture(scope="module")
def of_loads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what is told of each load, all of them ingested once."""
    root = tmp_path_factory.mktemp("steps")
    loads = {case: (shape, change(client_of(shape))) for case, (shape, change, _) in WRONG.items()}
    folders = []
    for case, (shape, result) in {**loads, **RIGHT}.items():
        folder = write(root / plain(case), result, ANCHORS)
        (folder / "server.log").write_text(log_of(shape))
        folders.append(folder)
    return told(root, folders)


# --- a recorded engine ---------------------------------------------------------------------------

#: Factor of the client's latencies -> whether the lines contradict them.
RECORDED = {1: False, 0.5: True, 0.001: True}


def test_a_recorded_log_of_iteration_lines(fixtures: Path, tmp_path: Path) -> None:
    """A decode-bound recorded run, of which only the iteration lines are kept."""
    source = fixtures / "vllm_cpu" / "baseline_low"
    with gzip.open(source / "server.log.gz", "rt") as whole:
        kept = [line for line in whole if "Iteration(" in line or "Initializing a V1" in line]
    folders = []
    for factor in RECORDED:
        result = json.loads((source / "bench.json").read_text())
        for key in ("ttfts", "latencies"):
            result[key] = [value * factor for value in result[key]]
        result["itls"] = [[gap * factor for gap in gaps] for gaps in result["itls"]]
        for key in [key for key in result if key.endswith("_ms")]:
            result[key] *= factor
        folder = write(tmp_path / str(factor), result, (source / "run.toml").read_text())
        (folder / "server.log").write_text("".join(kept))
        folders.append(folder)
    found = told(tmp_path, folders)
    said = {f: any("TIME005" in text for text in found[str(f)]) for f in RECORDED}
    assert said == RECORDED


# --- the client alone ----------------------------------------------------------------------------


#: What a client says otherwise of 60 requests in a closed loop, the last of which ends 59.28 s
#: after the first send -> what it contradicts.
LASTS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"duration": 90.0}, "ends 59.28 s after the first send, its whole load after 90 s"),
    # 1.1 x 59.28 + 5 + 20 mean gaps of 1 s = 90.2 s
    ({"duration": 90.3, "request_rate": 1.0}, "its whole load after 90.3 s"),
    ({"duration": 90.1, "request_rate": 1.0}, None),
    ({"duration": 90.3, "request_rate": 1.0, "burstiness": 0.5}, None),
    ({"duration": 90.3, "request_rate": 1.0, "ramp_up_start_rps": 0.5}, None),
    # a request that failed, or that was not written down, may have lasted to the end
    ({"duration": 90.0, "errors": [*[""] * 59, "Bad Gateway"]}, None),
    ({"duration": 90.0, "num_prompts": 61}, None),
]


def test_a_load_that_lasts_beyond_its_last_answer(tmp_path: Path) -> None:
    closed: dict[str, Any] = {
        "request_rate": "inf", "request_throughput": None, "mean_ttft_ms": None,
        "output_throughput": None,
    }  # fmt: skip
    folders = [
        write(tmp_path / str(place), bench([0.2] * 60, **{**closed, **change}))
        for place, (change, _) in enumerate(LASTS)
    ]
    found = told(tmp_path, folders)
    for place, (change, why) in enumerate(LASTS):
        texts = found[str(place)]
        assert len(texts) == (why is not None), change
        assert all(why in text for text in texts if why), change
