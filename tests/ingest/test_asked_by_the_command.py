"""What a load client's command in run.toml asks: read as settings, and compared by the gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gate.bench_runs import bench, write

from trueput.gate.verdict import Verdict
from trueput.ingest.run_toml import read_run_toml
from trueput.load_command import fixed_length
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

#: A command's options -> the settings asked for, by vLLM's names.
ASKED: dict[str, dict[str, Any]] = {
    "vllm bench serve --seed 7 --temperature 0": {"seed": 7, "temperature": 0},
    "vllm bench serve --temperature=0.7 --top-p 0.9": {"temperature": 0.7, "top_p": 0.9},
    "vllm bench serve --random-output-len 128": {"random_output_len": 128},
    "vllm bench serve --sharegpt-output-len 64": {"sharegpt_output_len": 64},
    "vllm bench serve --custom-output-len 32": {"custom_output_len": 32},
    "vllm bench serve --hf-output-len 16 --output-len 8": {"hf_output_len": 16, "output_len": 8},
    """vllm bench serve --extra-body '{"max_tokens": 99, "temperature": 0.2, "user": "x"}'""": {
        "max_tokens": 99, "temperature": 0.2,
    },
    "python -m sglang.bench_serving --random-output-len 32 --seed 3": {
        "random_output_len": 32, "seed": 3,
    },
    "aiperf profile --osl 220 --random-seed 7 --extra-inputs ignore_eos:true temperature:0.0": {
        "output_len": 220, "seed": 7, "ignore_eos": "true", "temperature": "0.0",
    },
    "genai-perf profile --output-tokens-mean 50 --random-seed 1": {"output_len": 50, "seed": 1},
    "vllm serve model --seed 5": {},
}  # fmt: skip


def toml(*commands: str) -> str:
    return "".join(f'[[steps]]\nname = "load"\ncommand = {json.dumps(c)}\n' for c in commands)


@pytest.mark.parametrize("command", ASKED)
def test_settings_of_a_command(tmp_path: Path, command: str) -> None:
    (tmp_path / "run.toml").write_text(toml(command))
    assert read_run_toml(tmp_path / "run.toml").asked() == ASKED[command]


def test_commands_that_do_not_agree_tell_what_they_agree_on(tmp_path: Path) -> None:
    one, other = ("vllm bench serve --seed 7 --temperature " + t for t in ("0", "1"))
    (tmp_path / "run.toml").write_text(toml(one, other))
    assert read_run_toml(tmp_path / "run.toml").asked() == {"seed": 7}


@pytest.mark.parametrize(
    ("flags", "length"),
    [
        ({"random-output-len": 128}, None),
        ({"random-output-len": 128, "random-range-ratio": 0}, 128),
        ({"random-output-len": 128, "random-range-ratio": 0.25}, None),
        ({"dataset-name": "random", "random-output-len": 128, "random-range-ratio": "0"}, 128),
        ({"dataset-name": "sharegpt", "sharegpt-output-len": 64}, 64),
        ({"dataset-name": "sharegpt", "custom-output-len": 64}, None),
        ({"dataset-name": "custom", "output-len": 9, "custom-output-len": 64}, 9),
        ({"osl": 220}, 220),
        ({"dataset-name": "custom", "custom-output-len": -1}, None),
        ({}, None),
    ],
)
def test_the_length_that_a_command_fixes(flags: dict[str, Any], length: int | None) -> None:
    assert fixed_length(flags) == length


COMMAND = (
    "vllm bench serve --dataset-name {data} --num-prompts 10 --request-rate 1 --seed {seed} "
    "--temperature {temperature} {length}"
)
USUAL = {
    "data": "random",
    "seed": "7",
    "temperature": "0",
    "length": "--random-output-len 5 --random-range-ratio 0",
}
#: What the candidate's command asks otherwise -> what blocks, and what is listed beside it.
OTHER: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "nothing": ({}, [], []),
    "seed": ({"seed": "8"}, [], ["asked.seed"]),
    "temperature": ({"temperature": "0.7"}, ["asked.temperature"], []),
    "a length that is fixed": (
        {"length": "--random-output-len 4 --random-range-ratio 0"},
        ["asked_output_lengths", "asked.random_output_len"], [],
    ),
    "a length that varies": (
        {"length": "--random-output-len 5 --random-range-ratio 0.5"},
        ["asked.random_range_ratio"], ["asked_output_lengths"],
    ),
}  # fmt: skip


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("what", OTHER)
def test_what_stands_only_in_the_command_is_compared(tmp_path: Path, what: str) -> None:
    change, blocking, listed = OTHER[what]
    commands = (USUAL, USUAL | change)
    sides = [
        str(write(tmp_path / name, bench([ttft] * 10), toml(COMMAND.format(**asked))))
        for name, ttft, asked in zip("ab", (0.2, 0.21), commands, strict=True)
    ]
    reading = Reading(store=tmp_path / "store", slo="ttft=500ms,tpot=50ms")
    (found,) = gate(sides[0], sides[1:], reading=reading).candidates
    assert [d.aspect for d in found.comparability if d.blocks] == blocking
    assert [d.aspect for d in found.comparability if not d.blocks] == listed
    assert (found.verdict is Verdict.NOT_COMPARABLE) == bool(blocking)


def test_the_store_has_the_settings_and_the_length(tmp_path: Path) -> None:
    gate_side = write(tmp_path / "a", bench([0.2] * 10), toml(COMMAND.format(**USUAL)))
    how = Reading(store=tmp_path / "store")
    gate(str(gate_side), [str(gate_side)], reading=how)
    (row,) = sql("SELECT client_json FROM runs", how).dicts()
    asked = json.loads(row["client_json"])
    assert (asked["seed"], asked["temperature"], asked["random_output_len"]) == (7, 0, 5)
    (load,) = sql("SELECT asked_output_tokens FROM load_sessions", how).dicts()
    assert load["asked_output_tokens"] == 5
