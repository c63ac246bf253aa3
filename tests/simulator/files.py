"""Everything a run leaves behind, by file name; and the folder they are written to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from simulator import bench, kineto, metrics, nsys, server_log, spans, telemetry, truth
from simulator.config import Config
from simulator.engine import Run
from simulator.run_toml import run_toml

PROFILES = ("kineto", "nsys_eager", "nsys_node", "nsys_graph")


def id_prefix(config: Config) -> str:
    """Beginning of the request ids of a scenario."""
    return "".join(word[0] for word in config.name.split("_")) + "-"


def engine_files(run: Run, *, compresslevel: int = 9) -> dict[str, bytes]:
    """What engine, client and scraper write."""
    prefix = id_prefix(run.config)
    found = {
        "server.log.gz": server_log.write(run, prefix),
        "bench.json.gz": bench.write(run, prefix),
        "otlp.jsonl.gz": spans.write(run, prefix),
        "metrics.prom.gz": metrics.write(run),
    }
    return {
        name: gzip.compress(text.encode(), compresslevel, mtime=0) for name, text in found.items()
    }


def truth_files(run: Run) -> dict[str, bytes]:
    """What no product code may read."""
    prefix = id_prefix(run.config)
    found = {
        "truth_run.json": truth.run_truth(run),
        "truth_ledger.json": truth.ledger_truth(run),
        "truth_requests.json": truth.request_truth(run, prefix),
        "truth_preemptions.json": truth.preemption_truth(run, prefix),
    }
    return {name: (json.dumps(value, indent=1) + "\n").encode() for name, value in found.items()}


def write_run(
    run: Run,
    folder: Path,
    *,
    profiles: Sequence[str] = ("kineto",),
    with_telemetry: bool = True,
    with_truth: bool = True,
    compresslevel: int = 9,
) -> Path:
    """Writes a run folder: engine files, the wanted profiles, telemetry, run.toml and the truth.

    A low `compresslevel` writes larger files in less time.
    More than one profile in a folder is one run captured by several profilers at once: for the
    same run through different profilers write it to several folders.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = engine_files(run, compresslevel=compresslevel)
    for profile in profiles:
        if profile == "kineto":
            found |= kineto.write(run, compresslevel=compresslevel)
        elif profile in PROFILES:
            nsys.write(run, folder / f"{profile}.sqlite", profile.removeprefix("nsys_"))
        else:
            raise ValueError(f"{profile}: not one of {', '.join(PROFILES)}")
    if with_telemetry:
        found["nvidia_smi.csv"] = telemetry.write(run).encode()
    if with_truth:
        found |= truth_files(run)
    found["run.toml"] = run_toml(run, id_prefix(run.config), profiled=bool(profiles)).encode()
    for name, content in found.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return folder
