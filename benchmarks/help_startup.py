"""`trueput --help` against a bare Typer app with the same commands and options.

Bars: at most 1.3 times its CPU, and none of the data libraries is loaded.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from measure import Report, arguments, cost, environment, in_turns, least_cpu, python, trueput

HEAVY = ("duckdb", "polars", "pyarrow", "altair", "scipy", "numpy")
RATIO = 1.3

LIST_COMMANDS = """
import json
import typer
from trueput.cli.app import build
root = typer.main.get_command(build())

def told(command):
    options = [
        {"flags": p.opts, "help": getattr(p, "help", None) or ""}
        for p in command.params if p.param_type_name == "option"
    ]
    return {"help": command.help or "", "options": options,
            "commands": {n: told(c) for n, c in getattr(command, "commands", {}).items()}}

print(json.dumps(told(root)))
"""
LOADED = f"""
import json, sys
from trueput.__main__ import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(m for m in {HEAVY!r} if m in sys.modules)), file=sys.stderr)
"""


def function(name: str, told: dict[str, object], app: str) -> list[str]:
    """Return the source of one bare command."""
    lines = [f"@{app}.command({name!r}, help={told['help']!r})", f"def c_{name.replace('-', '_')}("]
    for index, option in enumerate(told["options"]):  # type: ignore[arg-type, var-annotated]
        flags = [f for f in option["flags"] if f.startswith("-") and f != "--help"]
        if flags:
            shown = ", ".join(repr(f) for f in flags)
            lines.append(f"    o{index}: str = typer.Option('', {shown}, help={option['help']!r}),")
    return [*lines, "): ..."]


def bare_app(told: dict[str, object]) -> str:
    """Return the source of a Typer app that has the commands and options and does nothing."""
    lines = [
        "import typer",
        f"app = typer.Typer(help={told['help']!r}, add_completion=False, rich_markup_mode=None)",
    ]
    for name, command in told["commands"].items():  # type: ignore[attr-defined]
        if command["commands"]:
            inner = f"app_{name.replace('-', '_')}"
            lines.append(f"{inner} = typer.Typer(help={command['help']!r})")
            for below, its in command["commands"].items():
                lines += function(below, its, inner)
            lines.append(f"app.add_typer({inner}, name={name!r})")
        else:
            lines += function(name, command, "app")
    return "\n".join([*lines, "app()"]) + "\n"


def main() -> int:
    """Run the benchmark."""
    options = arguments(__doc__).parse_args()
    rounds = 5 if options.quick else 15
    report = Report("start-up: --help")
    env = environment(NO_COLOR="1", COLUMNS="100")
    with tempfile.TemporaryDirectory(prefix="trueput-bench-") as folder:
        told = json.loads(cost(python("-c", LIST_COMMANDS), env).output)
        bare = Path(folder) / "bare.py"
        bare.write_text(bare_app(told), encoding="utf-8")
        cost(trueput("--help"), env)  # compiles what was not yet compiled
        found = in_turns(
            {
                "trueput": lambda: cost(trueput("--help"), env),
                "bare": lambda: cost(python(bare, "--help"), env),
            },
            rounds,
        )
    loaded = cost(python("-c", LOADED, "--help"), env).output.strip().splitlines()[-1]
    for name in found:
        costs = found[name]
        report.note(
            f"{name:10} {least_cpu(costs):.3f} CPU s, {min(c.peak_mib for c in costs):.0f} MiB"
        )
    report.note(f"{len(told['commands'])} commands")
    report.bar("CPU, trueput / bare Typer app", least_cpu(found["trueput"]) /
               least_cpu(found["bare"]), RATIO)  # fmt: skip
    report.holds(f"no data library is loaded (found: {loaded})", loaded == "[]")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
