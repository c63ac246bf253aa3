"""Which engine request a client's row is: by its place in order of sending."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fixture_folder import fixture_folder

from trueput.attribution.requests.links import link
from trueput.gate.figures import RunFigures
from trueput.verbs.figures import figures
from trueput.verbs.opening import Reading, configuration

MS = 1_000_000
ENGINE = pl.DataFrame(
    {
        "request_id": [f"cmpl-x{place}-0" for place in range(4)],
        "arrived_at_ns": [None] * 4,
        "prompt_tokens": [None] * 4,
        "output_tokens": [None] * 4,
    },
    schema_overrides=dict.fromkeys(("arrived_at_ns", "prompt_tokens", "output_tokens"), pl.Int64),
)


def linked(sends: list[int | None]) -> list[str]:
    """Return the engine requests of a client's rows, which were sent then."""
    count = len(sends)
    rows = {
        "source_id": ["bench.json"] * count, "row_ix": list(range(7, 7 + count)),
        "vantage": ["client"] * count, "session": [None] * count, "request_id": [None] * count,
        "correlation_id": [None] * count, "sent_at_ns": sends, "prompt_tokens": [100] * count,
        "output_tokens": [5] * count,
    }  # fmt: skip
    kinds = {"sent_at_ns": pl.Int64} | dict.fromkeys(
        ("session", "request_id", "correlation_id"), pl.String
    )
    found = link(pl.DataFrame(rows, schema_overrides=kinds), ENGINE, {("bench.json", None): "x"})
    return found.sort("row_ix")["request_id"].to_list()


@pytest.mark.parametrize(
    ("sends", "places"),
    [
        ([10, 20, 30, 40], [0, 1, 2, 3]),
        ([40, 10, 30, 20], [3, 0, 2, 1]),
        # sent within a millisecond of each other: as the rows are
        ([10, 10.4, 10.2, 30], [0, 1, 2, 3]),
        ([30, 10.4, 10.2, 40], [2, 0, 1, 3]),
        # not all sends are known: as the rows are
        ([40, None, 30, 20], [0, 1, 2, 3]),
        ([40, 0, 30, 20], [0, 1, 2, 3]),
    ],
)
def test_the_place_in_order_of_sending(sends: list[float | None], places: list[int]) -> None:
    in_ns = [None if send is None else round(send * MS) for send in sends]
    assert linked(in_ns) == [f"cmpl-x{place}-0" for place in places]


def test_the_order_of_a_results_rows_changes_nothing(tmp_path: Path) -> None:
    """A recorded result with its rows in another order, beside the engine's own files."""
    found: list[RunFigures] = []
    for name in ("as_it_was", "turned"):
        folder = Path(shutil.copytree(fixture_folder("vllm_cpu") / "baseline_low", tmp_path / name))
        result = json.loads((folder / "bench.json").read_text())
        starts = result["start_times"]
        assert starts == sorted(starts)
        if name == "turned":
            order = np.random.default_rng(5).permutation(len(starts))
            for key, values in result.items():
                if isinstance(values, list) and len(values) == len(starts):
                    result[key] = [values[place] for place in order]
            (folder / "bench.json").write_text(json.dumps(result))
        reading = Reading(store=tmp_path / "store", slo="ttft=5s,tpot=25ms")
        (run,) = configuration(str(folder), reading).runs
        found.append(figures([run], reading)[run])
    one, other = found
    assert other.unusable is None
    for name, column in one.requests.numbers.items():
        np.testing.assert_array_equal(column, other.requests.column(name))
    assert one.goodput is not None
    assert other.goodput is not None
    assert {**one.goodput, "run_id": ""} == {**other.goodput, "run_id": ""}
