"""`python -m simulator OUT_DIR --config tiny --seed 1`: writes simulated runs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from simulator import SCENARIOS, simulate, write_run
from simulator.files import PROFILES
from simulator.truth import run_truth


def _change(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def main(words: list[str] | None = None) -> int:
    """Writes the wanted runs and says what they are."""
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--config", nargs="+", default=["tiny"], choices=[*SCENARIOS, "all"],
                        metavar="SCENARIO", help=", ".join([*SCENARIOS, "all"]))  # fmt: skip
    parser.add_argument("--seed", nargs="+", type=int, default=[1])
    parser.add_argument("--profiles", default="kineto",
                        help=f"comma-separated: {', '.join(PROFILES)}, or none")  # fmt: skip
    parser.add_argument("--set", nargs="*", type=_change, default=[], metavar="FIELD=JSON",
                        help="change a field, e.g. async_scheduling=true")  # fmt: skip
    parser.add_argument("--no-truth", action="store_true")
    options = parser.parse_args(words)
    wanted = SCENARIOS if "all" in options.config else options.config
    profiles = [] if options.profiles == "none" else options.profiles.split(",")
    for name in wanted:
        for seed in options.seed:
            run = simulate(SCENARIOS[name].replace(**dict(options.set)), seed)
            base = options.out_dir / f"{name}_s{seed}"
            for profile in profiles or [None]:
                folder = base if len(profiles) <= 1 else Path(f"{base}_{profile}")
                write_run(
                    run, folder, profiles=[profile] if profile else [],
                    with_truth=not options.no_truth,
                )  # fmt: skip
                sys.stdout.write(f"{folder}\n")
            sys.stderr.write(json.dumps(run_truth(run)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
