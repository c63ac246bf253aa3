"""Every `$ trueput` block of the README is run on the sample runs, and compared.

A line `...` in a block stands for any lines. `--update-goldens` writes the blocks anew: whole, or
as many lines as there were above a closing `...`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cli.program import CHECKOUT, Program

README = CHECKOUT / "README.md"
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ trueput "
ANY = "..."


def blocks(text: str) -> list[str]:
    """Return the fenced blocks that run the program."""
    return [found for found in FENCE.findall(text) if found.startswith(PROMPT)]


def runs(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a block with the lines it should print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
        else:
            found[-1][1].append(line)
    return found


def fits(expected: list[str], printed: list[str]) -> bool:
    """Whether what was printed is what is expected, `...` being any lines."""
    if not expected:
        return not printed
    if expected[0] == ANY:
        return any(fits(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and printed[0] == expected[0] and fits(expected[1:], printed[1:])


def printed_by(command: str, store: Path) -> list[str]:
    done = Program(store)(*shlex.split(command, comments=True))
    assert done.code in {0, 1, 3}, done.stderr
    lines = done.stdout.splitlines()
    while lines and not lines[-1]:
        lines.pop()
    return lines


def rewritten(block: str, store: Path) -> str:
    parts = []
    for command, expected in runs(block):
        lines = printed_by(command, store)
        if ANY in expected[:-1]:
            lines = expected  # too free to be written by a program
        elif expected[-1:] == [ANY]:
            lines = [*lines[: len(expected) - 1], ANY]
        parts += [f"{PROMPT}{command}", *lines]
    return "".join(f"{line}\n" for line in parts)


def test_every_block_prints_what_it_shows(store: Path, update_goldens: bool) -> None:
    text = README.read_text(encoding="utf-8")
    found = blocks(text)
    assert found, "the README runs nothing"
    if update_goldens:
        for block in found:
            text = text.replace(block, rewritten(block, store))
        README.write_text(text, encoding="utf-8")
    for block in blocks(text):
        for command, expected in runs(block):
            printed = printed_by(command, store)
            while expected and not expected[-1]:
                expected.pop()
            assert fits(expected, printed), "\n".join([f"{PROMPT}{command}", *printed])


def test_no_command_is_shown_outside_of_a_block_that_is_run() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count("\n" + PROMPT) == sum(len(runs(block)) for block in blocks(text))


def test_a_block_is_compared_line_by_line() -> None:
    assert fits(["a", ANY, "c"], ["a", "b", "b", "c"])
    assert fits(["a", ANY], ["a"])
    assert not fits(["a", ANY, "c"], ["a", "b"])
    assert not fits(["a"], ["a", "b"])
    assert runs("$ trueput runs\nx\n$ trueput tables\n") == [("runs", ["x"]), ("tables", [])]
