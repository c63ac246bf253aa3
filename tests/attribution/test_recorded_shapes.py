"""Lengths that a recorded engine wrote into its step annotations, against the replay of its log."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace

import numpy as np
from attribution.recorded_runs import fixtures_root, load_run

from trueput.attribution.preemption import attribute
from trueput.attribution.records import SHAPE_NUMBERS, UNTOLD, Ints

NAME = re.compile(
    r"execute_\d+_context_(\d+)\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
    r"_generation_(\d+)\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
)


def annotated() -> list[tuple[int, ...]]:
    """The numbers of each step annotation of the recorded profile, in order of time."""
    [path] = (fixtures_root() / "torch_profile" / "torch_profile").glob("*.pt.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    found = [(event["ts"], match) for event in events
             if event.get("cat") == "user_annotation"
             and (match := NAME.fullmatch(event["name"]))]  # fmt: skip
    return [tuple(map(int, match.groups())) for _, match in sorted(found, key=lambda x: x[0])]


def test_the_replay_and_the_engine_agree_on_the_lengths_of_all_requests() -> None:
    run = load_run(fixtures_root() / "torch_profile")
    [steps] = run.steps
    names = annotated()
    printed = [*zip(steps.context_requests.tolist(), steps.context_tokens.tolist(),
                    steps.generation_requests.tolist(), steps.generation_tokens.tolist(),
                    strict=True)]  # fmt: skip
    counts = [(n[0], n[1], n[5], n[6]) for n in names]
    places = [k for k in range(len(printed)) if printed[k : k + len(counts)] == counts]
    assert len(places) == 1
    assert len(counts) == 90

    shapes: Ints = np.full((len(printed), len(SHAPE_NUMBERS)), UNTOLD, np.int64)
    for at, n in enumerate(names, places[0]):
        shapes[at] = [n[3], n[2], n[4], n[8], n[7], n[9]]
    told = replace(steps, shapes=shapes)
    found = attribute([told], run.streams, run.limits, run.totals)
    plain = attribute([steps], run.streams, run.limits, run.totals)
    assert found.unreproduced_steps == plain.unreproduced_steps == 0
    assert found.totals == plain.totals

    # lengths of other requests: one token less in the first of the steps, whatever does it
    assert not found.denied_shapes
    first = shapes.copy()
    first[places[0], [4, 5]] -= 1
    other = attribute([replace(steps, shapes=first)], run.streams, run.limits, run.totals)
    assert other.denied_shapes
    assert other.unreproduced_steps == 0
    assert other.requests == plain.requests

    # all lengths are of other requests: the log is believed
    shapes[:, [4, 5]] = np.where(shapes[:, [4, 5]] == UNTOLD, UNTOLD, shapes[:, [4, 5]] + 7)
    wrong = attribute([replace(steps, shapes=shapes)], run.streams, run.limits, run.totals)
    assert wrong.denied_shapes
    assert wrong.requests == plain.requests
    assert wrong.unreproduced_steps == 0
