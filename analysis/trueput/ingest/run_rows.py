"""What the store says of a run itself: the rows of runs, sources and problems."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueput.attribution.run import RunOutput
from trueput.clock import ClockFit, ClockKind
from trueput.ingest.captures import engine_devices
from trueput.ingest.folders import RUN_TOML, Claim, as_text
from trueput.ingest.work import Work
from trueput.source_api import Severity

MAX_PROBLEM_SHARE = 0.5
"""The most of the files read that may have errors in a run that is usable."""


def is_usable(work: Work) -> bool:
    """A run is unusable when nothing was read, or when errors outweigh what was read."""
    read = [r for r in work.results if sum(r.rows.values()) > 0]
    broken = {s for s, p in work.problems if p.severity is Severity.ERROR and s != RUN_TOML}
    if not read:
        return False
    return len(broken & {r.source_id for r in read}) <= MAX_PROBLEM_SHARE * len(read)


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)


def _section(facts: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {k[len(prefix) :]: v for k, v in facts.items() if k.startswith(prefix)}


def _model(facts: Mapping[str, Any], output: RunOutput) -> str | None:
    """The name that clients use, else the engine's, else what a client wrote down."""
    named = [r.get("model") for r in output.sessions.rows if r.get("model")]
    for value in (facts.get("config.served_model_name"), facts.get("model"), *named):
        if isinstance(value, str):
            return value
    return None


def run_row(
    work: Work, digest: str, facts: Mapping[str, Any], output: RunOutput, usable: bool
) -> dict[str, Any]:
    """Return the row of `runs`; `digest` is the SHA-256 of the run's bytes."""
    planned = [r.get("planned_requests") for r in output.sessions.rows]
    total = sum(p for p in planned if p is not None) if planned and None not in planned else None
    own = work.toml.numbers.get("planned_requests")
    config = _section(facts, "config.")
    config.update({f"kv_{k}": v for k, v in _section(facts, "kv.").items()})
    gpu_count, price = (
        work.toml.numbers.get("gpu_count"),
        work.toml.numbers.get("price_per_gpu_hour"),
    )
    profiled = facts.get("profiled")
    return {
        "run_id": work.run_id,
        "path": as_text(work.folder.root.name),
        "content_sha256": digest,
        "engine": facts.get("engine"),
        "engine_version": facts.get("engine_version"),
        "model": _model(facts, output),
        "hardware": facts.get("hardware"),
        "gpu_count": int(gpu_count) if gpu_count is not None and gpu_count > 0 else None,
        "engine_devices": engine_devices(work, facts),
        "price_per_gpu_hour": float(price) if price is not None and math.isfinite(price) else None,
        "planned_requests": int(own) if own is not None else total,
        "profiled": profiled if isinstance(profiled, bool) else None,
        "simulated": facts.get("simulated") is True,
        "config_json": _json(config),
        "client_json": _json({**work.toml.asked(), **_section(facts, "client.")}),
        "labels_json": _json(work.toml.labels),
        "quality_json": _json(work.toml.quality),
        "files": len(work.results),
        "unclaimed_files": sum(c.source is None for c in work.claims.values()),
        "problem_rows": sum(p.count for _, p in work.problems),
        "usable": usable,
    }


def source_rows(work: Work, output: RunOutput) -> list[dict[str, Any]]:
    """Return the rows of `sources`: one for each file of the run, read or not."""
    results = {r.source_id: r for r in work.results}
    rows = []
    for name, path in work.folder.files.items():
        answer = work.claims.get(name, Claim(None, 0.0, "read by ingest itself"))
        result = results.get(name)
        fit = output.clock_fits.get(name, ClockFit(None, None, ""))
        problems = sum(p.count for s, p in work.problems if s == name)
        rows.append(
            {
                "run_id": work.run_id,
                "source_id": name,
                "format": answer.source.name if answer.source and result else None,
                "sniff_score": answer.score if answer.source else None,
                "sniff_reason": answer.reason[:1000],
                "session": output.sessions.of_source.get(name),
                "sha256": work.hashes[name] or None,
                "size_bytes": _size(path),
                "clock_kind": (result.clock.kind if result else ClockKind.NONE).value,
                "clock_offset_ns": (result and result.moved_ns) or fit.offset_ns,
                "clock_uncertainty_ns": fit.uncertainty_ns,
                "clock_method": fit.method or None,
                "record_rows": sum(result.rows.values()) if result else 0,
                "problem_rows": problems,
            }
        )
    return rows


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def problem_rows(work: Work) -> list[dict[str, Any]]:
    """Return the rows of `problems`, in the order in which they were found."""
    return [
        {
            "run_id": work.run_id,
            "source_id": source,
            "line": p.line,
            "code": p.code,
            "severity": p.severity.value,
            "text": p.text[:500],
            "occurrences": p.count,
        }
        for source, p in work.problems
    ]
