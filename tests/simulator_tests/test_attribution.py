"""What trueput makes of simulated engine files, against their truth."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulator import write_run
from simulator.devices import COMPUTE, Op
from simulator_tests.runs import ledger, run_of

import trueput
from trueput.attribution.iterations.cost import StepWork, fit_step_cost, split_steps

NAMES = ["tiny", "regression_base", "regression_candidate", "overlapped", "troubled"]
PHASES = ("queue_ns", "prefill_ns", "decode_ns", "requeue_ns", "recompute_ns", "outside_ns")


class Reader:
    """Runs in one store, ingested when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read = cache(self._read)

    def _read(self, name: str) -> Path:
        made = write_run(
            run_of(name), self.folder / name, profiles=[], with_telemetry=False, compresslevel=1
        )
        trueput.ingest([made], store=self.folder / "store")
        return made

    def truth(self, name: str, what: str) -> Any:
        """A truth file."""
        return json.loads((self.read(name) / f"truth_{what}.json").read_text())

    def rows(self, name: str, view: str) -> list[dict[str, Any]]:
        """A run's rows of a view."""
        self.read(name)
        reading = trueput.Reading(store=self.folder / "store")
        return trueput.sql(f"SELECT * FROM {view}", reading, runs=[name]).dicts()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """One store for this module."""
    return Reader(tmp_path_factory.mktemp("simulated"))


@pytest.mark.long(besides=3)
@pytest.mark.parametrize("name", NAMES)
def test_outcomes_and_goodput(reader: Reader, name: str) -> None:
    truth = {row["request_id"]: row["outcome"] for row in reader.truth(name, "requests")}
    found = reader.rows(name, "request_outcomes")
    assert {row["request_id"]: row["outcome"] for row in found} == truth
    goodput = reader.rows(name, "goodput")[0]
    assert goodput["goodput_rps"] == pytest.approx(
        reader.truth(name, "run")["goodput_rps"], rel=0.01
    )
    problems = reader.rows(name, "problems")
    # a refused request has no engine record; overlapping iterations print more than the window
    assert {row["code"] for row in problems} <= {"ATTR001", "SUM002"}
    assert {row["severity"] for row in problems} <= {"info"}


@pytest.mark.parametrize("name", NAMES)
def test_scheduled_and_recomputed_tokens(reader: Reader, name: str) -> None:
    truth, found = reader.truth(name, "run"), reader.rows(name, "recompute")[0]
    assert found["scheduled_tokens"] == truth["scheduled_tokens"]
    assert found["preemptions"] == truth["preemptions"]
    assert found["recomputed_tokens_low"] <= truth["recomputed_tokens"]
    assert truth["recomputed_tokens"] <= found["recomputed_tokens_high"]
    assert found["recomputed_tokens"] == truth["recomputed_tokens"]


@pytest.mark.parametrize("name", NAMES)
def test_victims(reader: Reader, name: str) -> None:
    truth = {
        row["request_id"]: (row["preemptions"], row["recomputed_tokens"])
        for row in reader.truth(name, "requests")
        if row["preemptions"]
    }
    found = {
        row["request_id"]: (row["preemptions"], row["recomputed_tokens"])
        for row in reader.rows(name, "raw.request_recompute")
        if row["preemptions"]
    }
    assert found.keys() == truth.keys()
    same = sum(found[request] == truth[request] for request in truth)
    # which of several victims found how much in the prefix cache can stay open
    assert same >= 0.8 * len(truth)


@pytest.mark.parametrize("name", NAMES)
def test_phases(reader: Reader, name: str) -> None:
    truth = {row["request_id"]: row for row in reader.truth(name, "requests")}
    for row in reader.rows(name, "request_phases"):
        one = truth[row["request_id"]]
        if one["outcome"] not in ("good", "late"):
            continue  # who left or was refused has no span: nothing tells its phases
        assert row["e2e_ns"] == pytest.approx(one["e2e_ns"], abs=2_000)
        for phase in PHASES:
            assert row[phase] == pytest.approx(one[phase], abs=50_000_000), (
                row["request_id"],
                phase,
            )


@pytest.mark.parametrize("name", ["regression_candidate", "overlapped", "troubled"])
def test_the_linear_model_divides_a_roofline_nearly_as_its_truth(name: str) -> None:
    run, found = run_of(name), ledger(name)
    work = StepWork(
        elapsed_ns=np.array(
            [
                sum(op.end - op.start for op in step.device.ops if _computes(op)) // found.devices
                for step in run.steps
            ]
        ),
        prefill_tokens=np.array([step.amounts["prefill"].tokens for step in run.steps]),
        recomputed_tokens=np.array([step.amounts["recompute"].tokens for step in run.steps]),
        decode_sequences=np.array([step.amounts["decode"].tokens for step in run.steps]),
        kv_tokens=np.array(
            [step.kv_used * run.config.num_blocks * run.config.block_size for step in run.steps]
        ),
    )
    cost = fit_step_cost(work)
    assert cost.usable
    parts = split_steps(cost, work)
    window = (found.window[1] - found.window[0]) * found.devices
    for what, split in (
        ("prefill", parts.prefill_ns), ("decode", parts.decode_ns),
        ("recompute", parts.recompute_ns),
    ):  # fmt: skip
        truth = sum(cell for (work_of, _), cell in found.cells.items() if work_of == what)
        off = abs(int(split.sum()) * found.devices - truth)
        assert off <= max(0.05 * truth, 0.01 * window), what


def _computes(op: Op) -> bool:
    return op.kind == "kernel" and op.stream == COMPUTE
