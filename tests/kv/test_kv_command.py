"""`trueput kv`: the command's forms and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli.program import Program
from kv.configs import GEMMA_2_9B, JAMBA, LLAMA_3_8B, MINIMAX

WIDTH = 80
ASKED = ("--tokens", "8192", "--sequences", "32", "--memory", "80GiB", "--weights", "16GiB",
         "--reserve", "4GiB")  # fmt: skip


@pytest.fixture
def trueput() -> Program:
    return Program(columns=WIDTH)


@pytest.fixture
def llama(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_3_8B), encoding="utf-8")
    return str(tmp_path / "config.json")


def test_json(trueput: Program, llama: str) -> None:
    done = trueput("kv", llama, *ASKED, "--format", "json")
    assert (done.code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["bytes_per_token"] == 131_072
    assert found["bytes_per_sequence"] == 2**30
    assert found["bytes_total"] == 2**35
    assert found["sequences_that_fit"] == 60
    assert "131,072" in found["formula"]
    assert found["assumptions"]


def test_a_folder_with_a_config(trueput: Program, llama: str) -> None:
    done = trueput("kv", str(Path(llama).parent), "--format", "json")
    assert json.loads(done.stdout)["bytes_per_sequence"] is None


def test_table(trueput: Program, llama: str) -> None:
    done = trueput("kv", llama, *ASKED)
    assert done.code == 0
    assert "34,359,738,368" in done.stdout
    assert "32 GiB" in done.stdout
    assert "not a measurement" in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > WIDTH] == []


def test_markdown_and_csv(trueput: Program, llama: str, tmp_path: Path) -> None:
    page = trueput("kv", llama, *ASKED, "--format", "markdown").stdout
    assert "| bytes per token | 131,072 | 128 KiB |" in page
    assert "2 x 32 layers x 8 KV heads" in page
    target = tmp_path / "kv.csv"
    assert trueput("kv", llama, *ASKED, "-o", str(target)).stdout == ""
    head, row = target.read_text(encoding="utf-8").splitlines()
    assert head.startswith("bytes_per_token,")
    assert row.startswith("131072,")


def test_windows_and_state_are_shown(trueput: Program, tmp_path: Path) -> None:
    for config, shown in ((GEMMA_2_9B, "beyond windows"), (JAMBA, "state per sequence")):
        path = tmp_path / "other.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        assert shown in trueput("kv", str(path), "--tokens", "9").stdout


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("{", (), "no JSON"),
        ("[]", (), "expected a JSON object"),
        ('{"model_type": "unheard_of"}', (), "architecture `unheard_of` is unknown"),
        ("[" * 100_000, (), "no JSON"),
        (json.dumps(LLAMA_3_8B), ("--memory", "80 cows"), "80 cows"),
        (json.dumps(LLAMA_3_8B), ("--tokens", "many"), "--tokens"),
    ],
)
def test_errors(
    trueput: Program, tmp_path: Path, text: str, arguments: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, encoding="utf-8")
    done = trueput("kv", str(path), *arguments)
    assert done.code == 2
    assert done.stdout == ""
    assert message in done.stderr


def test_a_file_that_is_not_there_or_not_text(trueput: Program, tmp_path: Path) -> None:
    assert "cannot be read" in trueput("kv", str(tmp_path / "none.json")).stderr
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{")
    done = trueput("kv", str(tmp_path / "b.json"))
    assert done.code == 2
    assert "no JSON" in done.stderr


def test_the_library_and_no_heavy_import() -> None:
    code = (
        "import sys, trueput; f = trueput.kv({'model_type': 'llama', 'num_hidden_layers': 2, "
        "'num_key_value_heads': 1, 'head_dim': 64, 'dtype': 'float16'}); "
        "assert f.bytes_per_token == 512; "
        "assert not {'duckdb', 'polars', 'pyarrow', 'numpy'} & set(sys.modules)"
    )
    folder = Path(__file__).resolve().parents[2] / "analysis"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(folder)})


def test_a_sequence_without_its_state_is_a_lower_bound(trueput: Program, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MINIMAX), encoding="utf-8")
    asked = ("--tokens", "1000", "--sequences", "2", "--memory", "4096000000")
    page = trueput("kv", str(path), *asked).stdout
    for name, value in (("bytes per sequence", "at least 4,096,000"),
                        ("bytes in all", "at least 8,192,000"),
                        ("sequences that fit", "at most 1,000")):  # fmt: skip
        (line,) = [x for x in page.splitlines() if x.strip().startswith(name)]
        assert value in line
