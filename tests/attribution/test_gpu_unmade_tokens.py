"""Tokens that requests got, beside the steps that a profile annotates: by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueput.arrow import arrow_schema
from trueput.attribution.gpu.losses.served import served
from trueput.attribution.gpu.losses.unmade_tokens import unmade_tokens

MS = 1_000_000
PERIODS, STEPS = 15, 20
"""Of 200 ms each: a step every 10 ms, the first of which prefills two requests, while the others
decode them; each request gets 20 tokens, so that 600 come in all."""


@dataclass(frozen=True)
class Step:
    """A step that the engine ran, and what the profile shows of it."""

    number: int
    noted: bool = True
    launched: bool = True
    drafts: int = 0
    """Tokens that were speculated for each sequence."""

    @property
    def prefills(self) -> bool:
        return self.number % STEPS == 0


def whole(step: Step) -> Step:
    return step


def gone(which: Callable[[Step], bool]) -> Callable[[Step], Step]:
    """Steps that the profile lacks, with their annotations."""
    return lambda s: Step(s.number, noted=False, launched=False) if which(s) else s


def write(folder: Path, table: str, rows: list[dict[str, Any]]) -> Path:
    full = [{"run_id": "r", "source_id": "profile", **row} for row in rows]
    schema = arrow_schema(table)
    names = [n for n in schema.names if any(n in row for row in full)]
    columns = {n: pa.array([row.get(n) for row in full], schema.field(n).type) for n in names}
    pq.write_table(pa.table(columns), folder / f"{table}.parquet")
    return folder / f"{table}.parquet"


def profile(folder: Path, steps: Iterable[Step]) -> dict[str, Path]:
    """Each step is annotated for 4 ms, launches a kernel at once, and that runs for 8 ms."""
    ranges, launches, operations = [], [], []
    for step in steps:
        at, place = step.number * 10 * MS, {"process_key": "p", "thread_key": "t"}
        sequences = 0 if step.prefills else 2
        if step.noted:
            ranges.append(
                place
                | {"start_at_ns": at, "end_at_ns": at + 4 * MS, "dialect": "vllm",
                   "context_requests": 2 - sequences, "context_tokens": 50 * (2 - sequences),
                   "generation_requests": sequences,
                   "generation_tokens": sequences * (1 + step.drafts)}
            )  # fmt: skip
        if step.launched:
            call = {"correlation_id": step.number + 1, "api": "cudaLaunchKernel"}
            launches.append(place | call | {"start_at_ns": at + MS, "end_at_ns": at + 2 * MS})
            operations.append(
                {"process_key": "p", "device_key": "p:0", "kind": "kernel", "quality": None,
                 "start_at_ns": at + MS, "end_at_ns": at + 9 * MS}
            )  # fmt: skip
    tables = {"gpu_ranges": ranges, "gpu_launches": launches, "gpu_ops": operations}
    return {table: write(folder, table, rows) for table, rows in tables.items()}


def spans(replicas: int = 1, *, tokens_a_step: int = 1, **more: Any) -> list[dict[str, Any]]:
    """The requests of each period, one after another: two of each replica."""
    rows = []
    for number in range(PERIODS * 2 * replicas):
        begin = number // (2 * replicas) * STEPS * 10 * MS
        tokens = 1 + (STEPS - 1) * tokens_a_step
        rows.append(
            {"source_id": "spans", "vantage": "engine", "request_id": f"r{number}",
             "traffic": "load", "arrived_at_ns": begin, "first_token_at_ns": begin + 9 * MS,
             "ended_at_ns": begin + 199 * MS, "output_tokens": tokens,
             "output_tokens_source": "engine_usage", "queue_ns": 0} | more
        )  # fmt: skip
    return rows


def asked(
    folder: Path,
    shown: Callable[[Step], Step],
    requests: list[dict[str, Any]],
    uncertain_ns: int = 0,
) -> list[tuple[str, int, int]]:
    """The file, and how many tokens of how many no step made."""
    parts = profile(folder, [shown(Step(n)) for n in range(PERIODS * STEPS)])
    rows = [{c: row.get(c) for c in arrow_schema("requests").names} | row for row in requests]
    records = served([write(folder, "requests", rows)], {"spans": uncertain_ns})
    return [(f.source, f.lost, f.steps) for f in unmade_tokens({"profile": parts}, records)]


def test_steps_that_made_every_token_lack_nothing(tmp_path: Path) -> None:
    assert asked(tmp_path, whole, spans()) == []


def test_five_steps_of_two_sequences_lack_ten_tokens(tmp_path: Path) -> None:
    lost = gone(lambda s: 104 <= s.number < 109)
    assert asked(tmp_path, lost, spans()) == [("profile", 10, 600)]


def test_first_tokens_come_of_prompts(tmp_path: Path) -> None:
    """Thirty requests got one. The first pair begins 10 ms before the first step that is left, by
    which the clocks may differ."""
    lost = gone(lambda s: s.prefills)
    assert asked(tmp_path, lost, spans()) == [("profile", 30, 600)]


def test_a_second_without_a_step_and_without_a_request_is_idle(tmp_path: Path) -> None:
    quiet = gone(lambda s: s.number // STEPS in (4, 5, 6, 7, 8))
    there = [r for r in spans() if not 800 <= r["arrived_at_ns"] // MS < 1_800]
    assert len(there) == 20
    assert asked(tmp_path, quiet, there) == []


def test_a_second_without_a_step_in_which_requests_came_is_not(tmp_path: Path) -> None:
    quiet = gone(lambda s: s.number // STEPS in (4, 5, 6, 7, 8))
    assert asked(tmp_path, quiet, spans()) == [("profile", 200, 600)]


def test_a_profile_of_the_middle_lacks_nothing(tmp_path: Path) -> None:
    cut = gone(lambda s: not 107 <= s.number < 188)
    assert asked(tmp_path, cut, spans()) == []


def test_a_profile_of_one_of_two_replicas_is_not_asked(tmp_path: Path) -> None:
    """Half of the 1,200 tokens are of the other one."""
    assert asked(tmp_path, whole, spans(replicas=2)) == []


def test_drafts_make_several_tokens_a_step(tmp_path: Path) -> None:
    def drafting(step: Step) -> Step:
        return Step(step.number, drafts=3)

    assert asked(tmp_path, drafting, spans(tokens_a_step=3)) == []
    lost = gone(lambda s: 100 <= s.number < 200)
    # 95 steps of two sequences that got four tokens each, and the first tokens of five pairs
    found = asked(tmp_path, lambda s: lost(drafting(s)), spans(tokens_a_step=4))
    assert found == [("profile", 95 * 8 + 5 * 2, 30 * (1 + 19 * 4))]


def test_drafts_of_a_step_in_ten_make_their_tokens_too(tmp_path: Path) -> None:
    """As of an engine that looks for what it drafts in the prompt, and seldom finds it."""

    def seldom(step: Step) -> Step:
        return Step(step.number, drafts=3 if step.number % STEPS in (7, 13) else 0)

    assert asked(tmp_path, seldom, spans(output_tokens=STEPS + 2 * 3)) == []


@pytest.mark.parametrize("every", [5, 50])
def test_steps_that_lost_their_annotation_alone_made_their_tokens(
    tmp_path: Path, every: int
) -> None:
    def unnamed(step: Step) -> Step:
        return Step(step.number, noted=step.number % every != 3)

    assert asked(tmp_path, unnamed, spans()) == []


def test_records_that_tell_too_little_are_not_asked(tmp_path: Path) -> None:
    lost = gone(lambda s: 104 <= s.number < 109)
    assert asked(tmp_path, lost, spans(kv_transfer_ns=5)) == []
    assert asked(tmp_path, lost, spans(output_tokens_source="retokenised")) == []
    assert asked(tmp_path, lost, spans(), uncertain_ns=21 * MS) == []
