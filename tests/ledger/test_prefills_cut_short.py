"""A request that was preempted in the midst of its prompt, a part of which the prefix cache held.

It is printed as context both times. What it computes again shows only against what it computed
before, and that begins where the cache ended: likely where it ended for others.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulator import SCENARIOS, simulate, write_run

import trueput

CUT = SCENARIOS["tiny"].replace(workload_seed=1004)


@pytest.mark.long
def test_what_a_cut_prefill_computes_again_is_recompute(tmp_path: Path) -> None:
    folder, reading = tmp_path / "cut", trueput.Reading(store=tmp_path / "store")
    write_run(simulate(CUT, seed=15), folder, profiles=["kineto"], with_telemetry=False)
    truth = json.loads((folder / "truth_requests.json").read_text())
    cut = {r["request_id"] for r in json.loads((folder / "truth_preemptions.json").read_text())
           if r["output_tokens"] == 0}  # fmt: skip
    again = {r["request_id"]: r["recomputed_tokens"] for r in truth if r["recomputed_tokens"]}
    assert len(cut) == 1
    assert len(again) == 2
    assert cut < again.keys()
    trueput.ingest([folder], store=reading.store)
    rows = trueput.sql(
        "SELECT request_id, recomputed_tokens FROM raw.request_recompute "
        "WHERE recomputed_tokens > 0",
        reading,
    ).rows
    assert dict(rows) == again
    total = trueput.sql("SELECT recomputed_tokens, basis FROM recompute", reading).rows
    assert total == [(sum(again.values()), "inferred")]
    cells = json.loads((folder / "truth_ledger.json").read_text())
    room = 0.01 * cells["window_ns"] * cells["devices"]
    for outcome in ("good", "late"):
        want = sum(c["time_ns"] for c in cells["cells"]
                   if (c["work"], c["outcome"]) == ("recompute", outcome))  # fmt: skip
        found = trueput.sql(
            "SELECT sum(time_ns) FROM gpu_ledger "
            f"WHERE work = 'recompute' AND outcome = '{outcome}'",
            reading,
        ).rows
        assert abs(found[0][0] - want) <= room, outcome
