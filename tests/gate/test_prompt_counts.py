"""A client's count of prompt tokens beside the engine's: the latter is compared, both are told."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fixture_folder import fixture_folder
from gate.made_up import run

from trueput.gate.comparability import compare_sides
from trueput.gate.figures import RunFigures
from trueput.gate.requests import Requests
from trueput.gate.verdict import Verdict
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading


def counted(name: str, client: int | None, engine: int, first: int = 50) -> RunFigures:
    """Return a run of 50 prompts; the client counts `client` tokens of the `first` of them."""
    made = run(name, prompt=engine)
    rows = [
        replace(r, client_prompt_tokens=client if place < first else engine)
        for place, r in enumerate(made.requests)
    ]
    return replace(made, requests=Requests.of(rows))


@pytest.mark.parametrize(
    ("base", "cand", "expected"),
    [
        pytest.param((100, 100), (100, 100), [], id="agreed"),
        pytest.param((99, 100), (101, 100), [], id="a token more or less"),
        pytest.param((100, 100), (90, 100), [("prompt_counts", True)], id="the client says less"),
        pytest.param(
            (100, 100), (100, 90), [("prompt_lengths", True), ("prompt_counts", True)],
            id="the engine got less",
        ),
        pytest.param((100, 130), (100, 130), [("prompt_counts", False)], id="a template on both"),
        pytest.param((None, 100), (90, 100), [("prompt_counts", False)], id="one side only"),
        pytest.param((None, 100), (None, 100), [], id="the client counts nothing"),
    ],
)  # fmt: skip
def test_who_counts_what(
    base: tuple[int | None, int], cand: tuple[int | None, int], expected: list[tuple[str, bool]]
) -> None:
    found = compare_sides([counted("a", *base)], [counted("b", *cand)])
    assert [(item.aspect, item.blocks) for item in found] == expected


def test_the_words_name_both_counts_and_their_ratio() -> None:
    (found,) = compare_sides([counted("a", 100, 100)], [counted("b", 90, 100)])
    assert found.baseline == "client 100.0, engine 100.0 tokens on the mean, median ratio 1.000"
    assert found.candidate == "client 90.0, engine 100.0 tokens on the mean, median ratio 0.900"
    assert found.difference == "the client's count over the engine's moved by -10.0%"


def test_a_part_of_the_requests_counts_by_its_tokens() -> None:
    """Half of the prompts 10 % shorter: 5 % of the tokens; a tenth of them: 1 %, as drift is."""
    base = counted("a", 100, 100)
    assert [d.blocks for d in compare_sides([base], [counted("b", 90, 100, first=25)])] == [True]
    assert compare_sides([base], [counted("b", 90, 100, first=5)]) == ()


def test_a_recorded_client_that_says_less_than_its_engine(tmp_path: Path) -> None:
    folders = []
    for name, repeat, share in (("as_it_was", "", 1.0), ("said_less", "_r2", 0.9)):
        source = fixture_folder("vllm_cpu") / f"regress_baseline{repeat}"
        folder = tmp_path / name
        folder.mkdir()
        for file in ("run.toml", "otlp.jsonl.gz"):
            shutil.copy(source / file, folder / file)
        result = json.loads((source / "bench.json").read_text())
        result["input_lens"] = [int(share * length) for length in result["input_lens"]]
        (folder / "bench.json").write_text(json.dumps(result))
        folders.append(str(folder))
    reading = Reading(store=tmp_path / "store", slo="ttft=5000ms,tpot=20ms")
    (found,) = gate(folders[0], folders[1:], reading=reading).candidates
    assert (found.verdict, found.reason) == (
        Verdict.NOT_COMPARABLE, "the sides differ in prompt_counts",
    )  # fmt: skip
