"""One run's parsed parts -> its derived rows: sessions, clocks, links, recompute, objective.

A pure function of the run's files and of what they say (`RunInput`): picklable in and out, no
store, no SQL. It reads only the columns it needs, and leaves out what would not fit in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from trueput.arrow import arrow_schema
from trueput.attribution import clocks, links
from trueput.attribution.engine_record import EngineRecord, attribute_engine
from trueput.attribution.gpu_steps import gpu_steps
from trueput.attribution.sessions import Load, Sessions, merge_sessions
from trueput.clock import ClockAnchor, ClockFit, ClockKind
from trueput.errors import UsageError
from trueput.slo import Slo, parse_slo
from trueput.source_api import Clock, Problem, Severity

Row = dict[str, Any]

MAX_RECORDS = 3_000_000
"""More request records than this are linked by their own ids only."""

PROBLEM_CODES = {
    "ATTR001": "Client rows that no engine record matches; their phases stay unattributed.",
    "ATTR002": "An objective in run.toml or in the client's command cannot be read.",
    "ATTR003": "Too many records to attribute preemption; it stays unknown for this run.",
    "ATTR004": "The attribution of recompute failed; recompute stays unknown for this run.",
    "ATTR005": "Dividing the GPU time of steps failed; GPU work stays unattributed.",
}


@dataclass(frozen=True)
class RunInput:
    """What attribution is given: parts on their own clocks, and what the files said."""

    run_id: str
    parts: Mapping[str, Sequence[Path]]
    clocks: Mapping[str, Clock]
    facts: Mapping[str, Mapping[str, Any]]
    anchors: Sequence[ClockAnchor] = ()
    timezone: str | None = None
    loads: Sequence[Load] = ()
    slo: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class RunOutput:
    """What attribution gives back: derived rows by table, clock fits and sessions by file."""

    rows: dict[str, Any] = field(default_factory=dict)
    """Table -> rows: dicts, a DataFrame, an iterator of frames or tables, or a function called
    last."""
    clock_fits: dict[str, ClockFit] = field(default_factory=dict)
    sessions: Sessions = field(default_factory=Sessions)
    problems: list[Problem] = field(default_factory=list)


def scan(parts: Mapping[str, Sequence[Path]], table: str) -> pl.LazyFrame:
    """Return a lazy frame over a table's parts; empty and typed without parts."""
    files = list(parts.get(table, ()))
    if files:
        return pl.scan_parquet(files)
    empty = pl.from_arrow(arrow_schema(table).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.lazy()


def attribute_run(run: RunInput) -> RunOutput:
    """Return all derived rows of one run."""
    out = RunOutput()
    records = _records(run.parts)
    out.sessions = _sessions(run, records)
    out.rows["load_sessions"] = out.sessions.rows
    records = _with_session(records, out.sessions)
    # without records there is nothing to tie, and a long log names many requests
    engine = _engine_ids(run.parts if records.height else {})
    prefixes = {
        (r["source_id"], r["session"]): r.get("request_id_prefix") for r in out.sessions.rows
    }
    tied = links.link(records.filter(pl.col("vantage") != "engine"), engine, prefixes)
    out.rows["request_links"] = tied.with_columns(pl.lit(run.run_id).alias("run_id"))
    out.clock_fits = _fit_clocks(run, records, tied, out.sessions)
    out.rows["slo_policy"] = [_objective(run, out)]
    _count_unmatched(tied, engine, records, out)
    engine_record = EngineRecord(run.run_id, run.parts, run.config, tied, out.clock_fits)
    attribute_engine(engine_record, out.rows, out.problems)
    _gpu_steps(run, out)
    return out


def _gpu_steps(run: RunInput, out: RunOutput) -> None:
    """Add gpu_steps where a profile has step annotations; a failure becomes a problem."""
    if not run.parts.get("gpu_ranges"):
        return
    spec = run.config.get("config.num_speculative_tokens")
    offsets = {s: f.offset_ns or 0 for s, f in out.clock_fits.items()}
    spec = spec if isinstance(spec, int) else 0
    try:
        iterations = _iterations(run, out).to_arrow(compat_level=pl.CompatLevel.oldest())
        rows = gpu_steps(run.run_id, run.parts, iterations, spec, offsets)
    except Exception as error:  # noqa: BLE001  the run must not be lost with its attribution
        text = f"{type(error).__name__} while dividing the GPU time of steps; it stays whole"
        out.problems.append(Problem("ATTR005", Severity.ERROR, text))
        return
    if rows is not None:
        out.rows["gpu_steps"] = rows


def _iterations(run: RunInput, out: RunOutput) -> pl.DataFrame:
    """The engine log's iterations in order, with what was computed again in each."""
    columns = ["source_id", "engine", "incarnation", "step_ix", "context_requests",
               "context_tokens", "generation_requests", "generation_tokens"]  # fmt: skip
    keys = ["source_id", "engine", "incarnation", "step_ix"]
    steps = scan(run.parts, "engine_steps").filter(
        ~pl.col("dummy") & pl.col("step_ix").is_not_null()
    )
    found = steps.select(columns).unique(keys, keep="first").sort(keys).collect()
    work = out.rows.get("step_work")
    if not isinstance(work, pl.DataFrame):
        # a log too long to replay: its iterations cannot say what was computed again
        return found.clear().with_columns(pl.lit(0).alias("recomputed_tokens"))
    again = work.select(*keys, "recomputed_tokens")
    return found.join(again, on=keys, how="left", maintain_order="left").with_columns(
        pl.col("recomputed_tokens").fill_null(0)
    )


_RECORD_COLUMNS = [
    "source_id", "row_ix", "vantage", "session", "request_id", "correlation_id", "traffic",
    "sent_at_ns", "arrived_at_ns", "ended_at_ns", "prompt_tokens", "output_tokens",
]  # fmt: skip


def _records(parts: Mapping[str, Sequence[Path]]) -> pl.DataFrame:
    return scan(parts, "requests").select(_RECORD_COLUMNS).collect(engine="streaming")


def _sessions(run: RunInput, records: pl.DataFrame) -> Sessions:
    rows = scan(run.parts, "load_sessions").collect().to_dicts()
    clients = records.filter(pl.col("vantage") == "client")["source_id"].unique().sort().to_list()
    facts = {
        source: known
        for source, known in run.facts.items()
        if any(k.startswith(("client.", "slo.")) for k in known)
    }
    if not rows:
        names = arrow_schema("load_sessions").names
        rows = [
            {**dict.fromkeys(names), "run_id": run.run_id, "source_id": s, "detailed": True,
             "claims_json": "{}"}
            for s in clients
        ]  # fmt: skip
    merged = merge_sessions(rows, clients, run.loads, facts)
    for row in merged.rows:
        row["run_id"] = run.run_id
    return merged


def _with_session(records: pl.DataFrame, sessions: Sessions) -> pl.DataFrame:
    """Give each client record the session of its file, or of its part of the file."""
    names = [
        (r["source_id"], (r["session"] or "").rpartition("#")[2] or None, r["session"])
        for r in sessions.rows
    ]
    inner = pl.DataFrame(
        {
            "source_id": [n[0] for n in names],
            "session": [n[1] for n in names],
            "named": [n[2] for n in names],
        },
        schema={"source_id": pl.String, "session": pl.String, "named": pl.String},
    )
    by_part = records.join(inner, on=["source_id", "session"], how="left", maintain_order="left")
    of_file = pl.DataFrame(
        {"source_id": list(sessions.of_source), "of_file": list(sessions.of_source.values())},
        schema={"source_id": pl.String, "of_file": pl.String},
    )
    joined = by_part.join(of_file, on="source_id", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("named", "of_file").alias("session")).drop(
        "named", "of_file"
    )


def _engine_ids(parts: Mapping[str, Sequence[Path]]) -> pl.DataFrame:
    """One row per request that the engine saw, by external id."""
    spans = scan(parts, "requests").filter(pl.col("vantage") == "engine")
    seen = spans.select("request_id", "arrived_at_ns", "prompt_tokens", "output_tokens")
    events = scan(parts, "request_events").filter(pl.col("request_id").is_not_null())
    logged = events.filter(pl.col("event").is_in(["received", "added", "queued"])).select(
        "request_id",
        pl.lit(None, dtype=pl.Int64).alias("arrived_at_ns"),
        "prompt_tokens",
        pl.lit(None, dtype=pl.Int64).alias("output_tokens"),
    )
    both = pl.concat([seen, logged]).drop_nulls("request_id")
    both = both.filter(~pl.col("request_id").str.starts_with("tokenize-"))
    return both.group_by("request_id").agg(pl.all().max()).sort("request_id").collect()


def _count_unmatched(
    tied: pl.DataFrame, engine: pl.DataFrame, records: pl.DataFrame, out: RunOutput
) -> None:
    if engine.is_empty() or tied.is_empty():
        return
    client = records.filter(pl.col("vantage") == "client").select("source_id", "row_ix")
    mine = tied.join(client, on=["source_id", "row_ix"], how="semi")
    lost = mine.join(engine, on="request_id", how="anti").height
    if lost:
        text = f"{lost} of {mine.height} client rows match no engine record"
        out.problems.append(Problem("ATTR001", Severity.INFO, text, count=lost))


def _fit_clocks(
    run: RunInput, records: pl.DataFrame, tied: pl.DataFrame, sessions: Sessions
) -> dict[str, ClockFit]:
    known: dict[str, clocks.ClockFacts] = {}
    spans = records.filter((pl.col("vantage") == "engine") & pl.col("arrived_at_ns").is_not_null())
    utc = {s for s, c in run.clocks.items() if c.kind is ClockKind.UTC}
    arrivals = spans.filter(pl.col("source_id").is_in(list(utc))).select(
        "request_id", pl.col("arrived_at_ns").alias("utc")
    )
    ended = {r["source_id"]: r.get("ended_local_at_ns") for r in sessions.rows}
    for source, clock in run.clocks.items():
        mine = records.filter(pl.col("source_id") == source)
        pairs = last = None
        if clock.kind is ClockKind.LOCAL:
            pairs = _log_pairs(run.parts, source, arrivals)
        elif clock.kind in {ClockKind.MONOTONIC, ClockKind.RELATIVE}:
            pairs = _send_pairs(mine, tied, arrivals)
            last = mine.select(pl.max_horizontal("ended_at_ns", "sent_at_ns").max()).item()
        known[source] = clocks.ClockFacts(clock, pairs, last, ended.get(source))
    first = clocks.align_all(known, run.anchors, run.timezone)
    return _second_round(run, records, tied, known, first)


def _second_round(
    run: RunInput,
    records: pl.DataFrame,
    tied: pl.DataFrame,
    known: dict[str, clocks.ClockFacts],
    first: dict[str, ClockFit],
) -> dict[str, ClockFit]:
    """Where the engine left only a log: fit its wall clock to a client that reached UTC."""
    unsure = [
        s
        for s, c in run.clocks.items()
        if c.kind is ClockKind.LOCAL and first[s].uncertainty_ns is None
    ]
    if not unsure:
        return first
    sends = []
    for source, fitted in first.items():
        sure = fitted.offset_ns is not None and fitted.uncertainty_ns is not None
        if sure and source not in unsure:
            rows = records.filter(
                (pl.col("source_id") == source) & (pl.col("vantage") == "client")
            ).join(tied.select("source_id", "row_ix", pl.col("request_id").alias("tied")),
                   on=["source_id", "row_ix"])  # fmt: skip
            sends.append(
                rows.select(
                    pl.col("tied").alias("request_id"),
                    (pl.col("sent_at_ns") + fitted.offset_ns).alias("utc"),
                )
            )
    if not sends:
        return first
    arrivals = pl.concat(sends).drop_nulls()
    for source in unsure:
        pairs = _log_pairs(run.parts, source, arrivals)
        facts = clocks.ClockFacts(known[source].clock, pairs)
        first[source] = clocks.fit(facts, run.anchors, run.timezone)
    return first


def _log_pairs(
    parts: Mapping[str, Sequence[Path]], source: str, arrivals: pl.DataFrame
) -> clocks.Pairs | None:
    if arrivals.is_empty():
        return None
    events = scan(parts, "request_events").filter(
        (pl.col("source_id") == source)
        & pl.col("event").is_in(["received", "added"])
        & pl.col("request_id").is_not_null()
        & pl.col("at_ns").is_not_null()
    )
    seen = events.group_by("request_id").agg(pl.col("at_ns").min()).head(MAX_RECORDS).collect()
    joined = seen.join(arrivals, on="request_id")
    if joined.is_empty():
        return None
    return clocks.Pairs(joined["at_ns"].to_numpy(), joined["utc"].to_numpy())


def _send_pairs(
    mine: pl.DataFrame, tied: pl.DataFrame, arrivals: pl.DataFrame
) -> clocks.Pairs | None:
    named = mine.drop("request_id").join(
        tied.select("source_id", "row_ix", "request_id"), on=["source_id", "row_ix"]
    )
    at = pl.coalesce("sent_at_ns", "arrived_at_ns").alias("mine")
    joined = named.select("request_id", at).drop_nulls().join(arrivals, on="request_id")
    if joined.is_empty():
        return None
    return clocks.Pairs(joined["mine"].to_numpy(), joined["utc"].to_numpy())


def _objective(run: RunInput, out: RunOutput) -> Row:
    """The objective that the files record: run.toml first, then the client's own command."""
    candidates = [("run.toml", run.slo)]
    texts = {r.get("slo") for r in out.sessions.rows if r.get("slo")}
    if len(texts) == 1:
        candidates.append(("client command", texts.pop()))
    for origin, text in candidates:
        if not text:
            continue
        try:
            return slo_row(run.run_id, parse_slo(text, where=origin), origin)
        except UsageError as error:
            out.problems.append(Problem("ATTR002", Severity.WARNING, error.message))
    return slo_row(run.run_id, None, "none")


def slo_row(run_id: str, slo: Slo | None, origin: str) -> Row:
    """Return one row of `slo_policy`."""
    limits = slo or Slo()
    return {
        "run_id": run_id,
        "slo": slo.text() if slo else None,
        "ttft_limit_ns": limits.ttft,
        "tpot_limit_ns": limits.tpot,
        "itl_p99_limit_ns": limits.itl_p99,
        "e2e_limit_ns": limits.e2e,
        "min_output_tokens": limits.min_output_tokens,
        "measured_from": limits.measured_from,
        "undefined_passes": limits.undefined_passes,
        "origin": origin,
    }
