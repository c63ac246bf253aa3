"""The command reference as Markdown, from the commands' own declarations."""

from __future__ import annotations

from typing import Any

import typer

from trueput.cli.app import build


def cli_reference() -> str:
    """Return one section per visible command: usage, arguments, options with their defaults."""
    group: Any = typer.main.get_command(build())
    parts = []
    for name, command in group.commands.items():
        if command.hidden:
            continue
        below = getattr(command, "commands", None)
        if below is not None:
            parts.append(f"## {name}\n\n{command.help or ''}\n")
            parts += [_section(f"{name} {inner}", it, "###") for inner, it in below.items()]
            continue
        parts.append(_section(name, command, "##"))
    return "\n".join(parts)


def _section(name: str, command: Any, marks: str) -> str:
    words = [f"trueput {name}"]
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        is_argument = parameter.param_type_name == "argument"
        shown = parameter.name.upper() if is_argument else ", ".join(parameter.opts)
        if is_argument:
            many = "..." if parameter.nargs == -1 else ""
            words.append(f"{shown}{many}" if parameter.required else f"[{shown}{many}]")
        default = "" if is_argument or parameter.default in (None, False) else parameter.default
        rows.append(f"| `{shown}` | {parameter.help or ''} | {default or ''} |")
    text = [f"{marks} {name}", "", command.help or "", "", f"    {' '.join(words)} [OPTIONS]", ""]
    text += ["| argument or option | what it does | default |", "|---|---|---|", *rows, ""]
    return "\n".join(text)
