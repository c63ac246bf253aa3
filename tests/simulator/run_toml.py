"""run.toml: what no other file says."""

from __future__ import annotations

import json

from simulator.clocks import MONOTONIC_NS, decimal_seconds, unix_ns, wall
from simulator.commands import VERSION, bench_command, server_command
from simulator.config import NS_PER_MS
from simulator.engine import FIRST_SEND, READY_AT, Run


def run_toml(run: Run, prefix: str, *, profiled: bool) -> str:
    """The file."""
    config = run.config
    quoted = json.dumps
    lines = [
        f"name = {quoted(f'{config.name}_s{run.seed}')}",
        f"purpose = {quoted(config.purpose)}",
        'engine = "vllm"',
        f'engine_version = "{VERSION}"',
        'kind = "simulated by tests/simulator; no engine and no GPU ran"',
        "simulated = true",
        f"profiled = {str(profiled).lower()}",
        f"gpu_count = {config.devices}",
        'timezone = "UTC"',
        f"year = {wall(0):%Y}",
        f"planned_requests = {config.requests}",
        f"server_command = {quoted(server_command(config))}",
        "",
        "[labels]",
        f"scenario = {quoted(config.name)}",
        f"simulator_seed = {run.seed}",
    ]
    anchors = [
        ("server_start", 0),
        ("server_ready", READY_AT),
        ("before_shutdown", run.ended_at),
        ("end", run.ended_at + 1000 * NS_PER_MS),
    ]
    for what, at in anchors:
        lines += [
            "",
            "[[clock_anchors]]",
            f"what = {quoted(what)}",
            f"unix = {decimal_seconds(unix_ns(at))}",
            f"monotonic = {decimal_seconds(MONOTONIC_NS + at)}",
        ]
    lines += [
        "",
        "[[steps]]",
        'name = "bench"',
        f"command = {quoted(bench_command(config, prefix))}",
        f"start_unix = {decimal_seconds(unix_ns(FIRST_SEND))}",
        f"end_unix = {decimal_seconds(unix_ns(run.ended_at))}",
        "exit_code = 0",
    ]
    return "\n".join(lines) + "\n"
