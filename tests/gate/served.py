"""Loads written down in a line and kept as the files of a client, for tests that ingest them.

A load is a list of requests; `kept` writes it as a result of `vllm bench serve`, several times for
repeats. As no two measurements are the same, each request of a repeat takes up to half a percent
longer or shorter, and the last one is sent up to 1 ms later.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trueput.gate.verdict import CandidateResult
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading

SLO = "ttft=500ms,tpot=50ms"
RECORDS = """
[columns]
file = "client.jsonl"
vantage = "client"

[columns.names]
request_id = "id"
sent_at = "sent"
first_token_at = "first"
ended_at = "end"
ttft = "ttft"
e2e = "e2e"
prompt_tokens = "prompt"
output_tokens = "tokens"
asked_output_tokens = "asked"
ignore_eos = "fixed"
status = "status"

[columns.units]
sent = "{unit}"
first = "{unit}"
end = "{unit}"
ttft = "{unit}"
e2e = "{unit}"

[columns.status]
done = "ok"
"""


@dataclass(frozen=True)
class Served:
    """One request as the client saw it; without tokens it failed with `error`.

    Its chunks come `gap_s` apart, one a token, or as `gaps_s` says.
    """

    prompt: int = 100
    ttft_s: float = 0.2
    gap_s: float = 0.02
    tokens: int = 20
    error: str = ""
    sent_s: float | None = None
    gaps_s: tuple[float, ...] | None = None

    @property
    def gaps(self) -> list[float]:
        """The gaps between its chunks."""
        return [self.gap_s] * (self.tokens - 1) if self.gaps_s is None else [*self.gaps_s]


_BASES = ("base", "whole")
REFUSED = Served(ttft_s=0, tokens=0, error="Service Unavailable")
BROKEN = Served(ttft_s=0, tokens=0, error="Traceback\nConnectionResetError: closed")


def usual(count: int = 60) -> list[Served]:
    """Return an easy load of which every fourth prompt is long and slow, yet within the limits."""
    return [
        Served(prompt=800, ttft_s=0.45) if place % 4 == 3 else Served() for place in range(count)
    ]


def bench(load: Sequence[Served], planned: int | None = None, label: str = "") -> dict[str, object]:
    """Return a load as a result of `vllm bench serve`, a request sent each half second."""
    starts = [100 + (0.5 * i if r.sent_s is None else r.sent_s) for i, r in enumerate(load)]
    gaps = [r.gaps for r in load]
    ends = [r.ttft_s + sum(gap) if not r.error else 0.0 for r, gap in zip(load, gaps, strict=True)]
    done = [r for r in load if not r.error]
    duration = max((s + e for s, e in zip(starts, ends, strict=True)), default=100.0) - 100
    return {
        "date": "20261129-134425", "endpoint_type": "vllm", "backend": "vllm", "label": label,
        "model_id": "tiny", "tokenizer_id": "tiny",
        "num_prompts": len(load) if planned is None else planned,
        "request_rate": 2.0, "burstiness": 1.0, "max_concurrency": None, "duration": duration,
        "completed": len(done), "failed": len(load) - len(done),
        "total_input_tokens": sum(r.prompt for r in done),
        "total_output_tokens": sum(r.tokens for r in done),
        "request_throughput": len(done) / max(duration, 1), "request_goodput": None,
        "input_lens": [r.prompt for r in load], "output_lens": [r.tokens for r in load],
        "ttfts": [r.ttft_s for r in load], "itls": gaps, "latencies": ends,
        "start_times": starts, "errors": [r.error for r in load],
        "generated_texts": [""] * len(load),
    }  # fmt: skip


def kept(
    root: Path, name: str, load: Sequence[Served], repeats: int = 3, *, planned: int | None = None,
    run_toml: str = "", drop: Iterable[str] = (),
) -> str:  # fmt: skip
    """Write a load as repeats; return the configuration as a user names it."""
    folders = []
    for place in range(repeats):
        folder = root / f"{name}{place}"
        folder.mkdir()
        moved = repeated(load, f"{name}{place}")
        result = bench(moved, planned, f"{name}{place}")
        for key in drop:
            result[key] = None
        (folder / "bench.json").write_text(json.dumps(result), encoding="utf-8")
        if run_toml:
            (folder / "run.toml").write_text(run_toml, encoding="utf-8")
        folders.append(str(folder))
    return ",".join(folders)


def repeated(load: Sequence[Served], name: str, *, micros: bool = False) -> list[Served]:
    """Return another measurement of a load, as its name gives it; of whole microseconds if asked.

    The gaps of a request stay in proportion, and so do their number and the tokens.
    """
    made = []
    for place, r in enumerate(load):
        first, rest = (
            1 + (zlib.crc32(f"{part}{name}/{place}".encode()) % 1000 / 500 - 1) / 200
            for part in ("first", "rest")
        )
        ttft, gap = r.ttft_s * first, r.gap_s * rest
        if micros:
            ttft, gap = round(ttft, 6), round(gap, 6)
        gaps = None if r.gaps_s is None else tuple(gap * rest for gap in r.gaps_s)
        made.append(replace(r, ttft_s=ttft, gap_s=gap, gaps_s=gaps))
    return [*made[:-1], *(_moved(r, name, len(load) - 1) for r in made[-1:])]


def _moved(request: Served, name: str, place: int) -> Served:
    """Return a request sent a little later, by a time that the repeat's name gives."""
    sent = 0.5 * place if request.sent_s is None else request.sent_s
    return replace(request, sent_s=sent + 1e-6 * (zlib.crc32(name.encode()) % 997))


def judged(root: Path, base: str, cand: str, slo: str = SLO) -> CandidateResult:
    """Gate one configuration against another, by way of a store."""
    return gate(base, [cand], reading=Reading(store=root / "store", slo=slo)).candidates[0]


def judged_together(
    root: Path, base: str, candidates: Mapping[str, str], slo: str = SLO
) -> dict[str, CandidateResult]:
    """Gate several configurations at once, which costs little more than one; each by its name."""
    found = gate(base, list(candidates.values()), reading=Reading(store=root / "store", slo=slo))
    return dict(zip(candidates, found.candidates, strict=True))


def changed(load: Sequence[Served], every: int, **change: object) -> list[Served]:
    """Return the load with each `every`-th request changed."""
    return [
        replace(r, **change) if i % every == every - 1 else r  # type: ignore[arg-type]
        for i, r in enumerate(load)
    ]


def recorded(
    root: Path, name: str, load: Sequence[Served], repeats: int = 3, *, order: Sequence[int] = (),
    per_s: int = 1000, run_toml: str = "",
) -> str:  # fmt: skip
    """Write a load as JSON lines of a client, in another order of lines or another unit.

    Whatever it is called, it was measured at the same times, but for a baseline.
    """
    folders = []
    unit = {1: "s", 1000: "ms", 10**6: "us"}[per_s]
    for place in range(repeats):
        folder = root / f"{name}{place}"
        folder.mkdir()
        moved = repeated(load, f"{'base' if name in _BASES else 'cand'}{place}", micros=True)
        lines = [_line(f"{name}{place}-{i}", i, r, per_s) for i, r in enumerate(moved)]
        kept_lines = [lines[i] for i in order] if order else lines
        (folder / "client.jsonl").write_text("\n".join(kept_lines) + "\n", encoding="utf-8")
        (folder / "run.toml").write_text(run_toml + RECORDS.format(unit=unit), encoding="utf-8")
        folders.append(str(folder))
    return ",".join(folders)


def _line(request_id: str, place: int, r: Served, per_s: int) -> str:
    start_us = 1_795_959_000_000_000
    sent = start_us + round(1e6 * (0.5 * place if r.sent_s is None else r.sent_s))
    ttft = round(1e6 * r.ttft_s)
    e2e = ttft + round(1e6 * r.gap_s) * (r.tokens - 1)
    row: dict[str, object] = {"id": request_id, "prompt": r.prompt, "asked": 20, "fixed": True}
    spans = {"sent": sent}
    if not r.error:
        row |= {"tokens": r.tokens, "status": "done"}
        spans |= {"first": sent + ttft, "end": sent + e2e, "ttft": ttft, "e2e": e2e}
    else:
        row |= {"status": "refused" if "Unavailable" in r.error else "failed"}
        spans |= {"end": sent + 1000}
    written = [f'"{key}": {_decimal(micros * per_s)}' for key, micros in spans.items()]
    return f"{json.dumps(row)[:-1]}, {', '.join(written)}}}"


def _decimal(millionths: int) -> str:
    """Return a whole number of millionths as an exact decimal number."""
    whole, part = divmod(millionths, 10**6)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")
