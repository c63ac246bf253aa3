"""One run's parsed parts -> its derived rows: sessions, clocks, links, recompute, objective.

A pure function of the run's files and of what they say (`RunInput`): picklable in and out, no
store, no SQL. It reads only the columns it needs, and leaves out what would not fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from trueput.arrow import arrow_schema
from trueput.attribution import clocks
from trueput.attribution.engine.record import EngineRecord, attribute_engine
from trueput.attribution.run_io import Row, RunInput, RunOutput
from trueput.attribution.sessions import Sessions, merge_sessions
from trueput.errors import UsageError
from trueput.slo import Slo, parse_slo
from trueput.source_api import Problem, Severity

if TYPE_CHECKING:
    from trueput.attribution.reused.told import Told

__all__ = ["PROBLEM_CODES", "RunInput", "RunOutput", "attribute_run", "slo_row"]

PROBLEM_CODES = {
    "ATTR001": "Client rows that no engine record matches; their phases stay unattributed.",
    "ATTR002": "An objective in run.toml or in the client's command cannot be read.",
    "ATTR003": "Too many records, or ways they fit together, to name all victims of preemption.",
    "ATTR004": "The attribution of recompute failed; recompute stays unknown for this run.",
    "ATTR005": "Dividing the GPU time of steps failed; GPU work stays unattributed.",
    "ATTR006": "Uniting the operations of devices failed; each question does it again.",
    "ATTR007": "Two profiles hold the same operations; they are counted once.",
    "ATTR008": "Nothing ties the clock of a profile to that of the others; it is not counted.",
    "ATTR009": "A profile lies outside the run's requests and iterations: none of it is counted.",
    "ATTR010": "The steps of a profile are at other times than the same steps elsewhere.",
    "ATTR011": "The steps of a profile are no stretch of the log's iterations, or may be several.",
    "ATTR012": "Grouping the events of requests failed; each question does it again.",
    "ATTR013": "Ids that name several requests; they are told apart by what the files hold.",
    "ATTR014": "Records of requests that stand in the files twice; each is counted once.",
    "ATTR015": "Iterations that stand in the engine's log twice; each is counted once.",
    "ATTR016": "Two profiles share a part of their operations; both are counted.",
    "ATTR017": "The engine's counters do not cover its iterations or load; recompute is bounded.",
    "ATTR018": "Loads that fit the same requests of the engine; they are joined to none.",
    "ATTR020": "Lengths in step annotations that fit no account of requests, or contradict.",
}


def attribute_run(run: RunInput, write: Callable[[Told], None] | None = None) -> RunOutput:
    """Return all derived rows of one run.

    `write` puts into the parts what tells requests of one id apart, before they are read by id;
    without it an id names one request.
    """
    out = RunOutput()
    _without_repeats(run, out, write)
    tied: Any = None
    if run.parts.get("requests"):
        from trueput.attribution.requests import tying

        records = tying.records_of(run)
        out.sessions = _sessions(run, tying.client_files(records))
        tied = tying.tie(run, records, out, write)
    else:
        out.sessions = _sessions(run, [])
        ended = {row["source_id"]: row.get("ended_local_at_ns") for row in out.sessions.rows}
        known = {s: clocks.ClockFacts(c, None, None, ended.get(s)) for s, c in run.clocks.items()}
        out.clock_fits = clocks.align_all(known, run.anchors, run.timezone)
        _logged_apart(run, out, write)
    out.rows["load_sessions"] = out.sessions.rows
    out.rows["slo_policy"] = [_objective(run, out)]
    counted = run
    if run.parts.get("gpu_ops"):
        from trueput.attribution.gpu.time.axis import choose_axis

        axis = choose_axis(
            run.parts,
            run.clocks,
            out.clock_fits,
            run.formats,
            has_requests=any(run.parts.get(t) for t in ("requests", "request_events")),
        )
        out.aside = axis.aside
        out.of_files += axis.problems
        counted = replace(run, parts=axis.counted(run.parts))
    engine_record = EngineRecord(
        run.run_id, run.parts, run.config, tied, out.clock_fits, _shapes(counted, out)
    )
    attribute_engine(engine_record, out.rows, out.problems)
    _instants(run, out)
    run = counted
    if run.parts.get("gpu_ops"):
        from trueput.attribution.gpu.time.outside import profiles_outside

        out.of_files += profiles_outside(run.parts, run.clocks, out.clock_fits)
    _gpu_steps(run, out, engine_record)
    _gpu_union(run, out)
    return out


def _without_repeats(run: RunInput, out: RunOutput, write: Callable[[Told], None] | None) -> None:
    """Leave out the iterations that stand in the engine's log twice."""
    if write is None or not run.parts.get("engine_steps"):
        return
    from trueput.attribution.engine.repeats import repeated

    if (found := repeated(run.parts)) is not None:
        told, problems = found
        write(told)
        out.of_files += problems


def _logged_apart(run: RunInput, out: RunOutput, write: Callable[[Told], None] | None) -> None:
    """Tell requests of one id apart of which only a log tells."""
    if write is None or not run.parts.get("request_events"):
        return
    from trueput.attribution.reused import apart as reuse
    from trueput.attribution.reused import named_twice

    if ids := named_twice.reused_ids(run.parts, None):
        told = reuse.tell_apart(run.parts, ids, None, lambda _: out.clock_fits)
        if told is not None:
            write(told)
            out.problems += told.problems


def _instants(run: RunInput, out: RunOutput) -> None:
    """Add request_instants, made when the parts are on the clock of the store.

    Where records of the requests are there to be joined with: of an engine's log alone fewer
    questions are asked, and it is grouped when they are.
    """
    parts = run.parts.get("request_events")
    if not parts or not run.parts.get("requests"):
        return
    from trueput.attribution.requests.instants import request_instants

    out.rows["request_instants"] = lambda: request_instants(run.run_id, parts)
    out.made_while_written["request_instants"] = _not_grouped


def _not_grouped(error: Exception) -> Problem:
    text = f"{type(error).__name__} while grouping events of requests; questions do it each time"
    return Problem("ATTR012", Severity.WARNING, text)


def _gpu_steps(run: RunInput, out: RunOutput, record: EngineRecord) -> None:
    """Add gpu_steps where a profile has step annotations; a failure becomes a problem.

    And what the profiles lack of the steps that their annotations, or a log, tell.
    """
    has_log = run.parts.get("gpu_ops") and run.parts.get("engine_steps")
    if not (run.parts.get("gpu_ranges") or has_log):
        return
    offsets = {s: f.offset_ns or 0 for s, f in out.clock_fits.items()}
    try:
        from trueput.attribution.gpu.losses.lost_steps import LostSteps
        from trueput.attribution.gpu.steps.division import gpu_steps, speculated_tokens
        from trueput.attribution.gpu.time.axis import is_dated
        from trueput.attribution.iterations.log import log_iterations

        iterations = log_iterations(run.parts, out.rows.get("step_work"))
        iterations = _with_kv(iterations, out.rows.get("request_steps"), record)
        spec = speculated_tokens(run.config)
        told: list[tuple[str, Problem]] = []
        dated = {s for s in run.clocks if is_dated(s, run.clocks, out.clock_fits)}
        lost: list[LostSteps] = []
        least = _least_recomputed(out.rows.get("run_recompute"))
        rows = gpu_steps(run.run_id, run.parts, iterations, spec, offsets, told, lost, dated, least)
    except Exception as error:  # noqa: BLE001  the run must not be lost with its attribution
        out.problems.append(_undivided(error))
        return
    out.lost_steps = lost
    outside = {source for source, problem in out.of_files if problem.code == "ATTR009"}
    out.of_files += [(source, problem) for source, problem in told if source not in outside]
    if rows is not None:
        out.rows["gpu_steps"] = rows
        out.made_while_written["gpu_steps"] = _undivided


def _shapes(run: RunInput, out: RunOutput) -> dict[Any, Any]:
    """What the step annotations tell of the log's iterations beyond their counts.

    A failure becomes a problem: the replay then has the log alone.
    """
    if not (run.parts.get("gpu_ranges") and run.parts.get("engine_steps")):
        return {}
    from trueput.attribution.gpu.steps.shapes import shapes_of_iterations
    from trueput.attribution.gpu.time.axis import is_dated
    from trueput.attribution.iterations.log import printed_iterations

    offsets = {s: f.offset_ns or 0 for s, f in out.clock_fits.items()}
    dated = {s for s in run.clocks if is_dated(s, run.clocks, out.clock_fits)}
    printed = partial(printed_iterations, run.parts)
    try:
        return shapes_of_iterations(run.parts, printed, offsets, dated)
    except Exception as error:  # noqa: BLE001  the run must not be lost with its attribution
        text = f"{type(error).__name__} while reading lengths from step annotations; none is used"
        out.problems.append(Problem("ATTR020", Severity.WARNING, text))
        return {}


def _with_kv(iterations: Any, told: Any, record: EngineRecord) -> Any:
    """Add what each work of each iteration read of the KV cache, as far as `told` who ran in it."""
    if not told or not iterations.num_rows:
        return iterations
    from trueput.attribution.engine.streams import streams_of
    from trueput.attribution.iterations.kv import with_kv

    return with_kv(iterations, told, {x.request_id: x.prompt_tokens for x in streams_of(record)})


def _least_recomputed(rows: Any) -> int | None:
    """Return how many tokens a run computed again at least; None where nothing says."""
    found = rows[0].get("recomputed_tokens_low") if isinstance(rows, list) and rows else None
    return None if found is None else int(found)


def _undivided(error: Exception) -> Problem:
    text = f"{type(error).__name__} while dividing the GPU time of steps; it stays whole"
    return Problem("ATTR005", Severity.ERROR, text)


def _gpu_union(run: RunInput, out: RunOutput) -> None:
    """Add gpu_busy and gpu_op_totals, made when the parts are on the clock of the store."""
    if not (parts := run.parts.get("gpu_ops")):
        return
    from trueput.attribution.gpu.time.union import GpuUnion

    union = GpuUnion(run.run_id, parts)
    out.rows["gpu_busy"] = union.stretches
    out.rows["gpu_op_totals"] = union.totals
    out.made_while_written.update(gpu_busy=_not_united, gpu_op_totals=_not_united)


def _not_united(error: Exception) -> Problem:
    text = f"{type(error).__name__} while uniting operations; questions do it each time"
    return Problem("ATTR006", Severity.WARNING, text)


def _sessions(run: RunInput, clients: list[str]) -> Sessions:
    rows = [
        row
        for part in run.parts.get("load_sessions", ())
        for row in pq.read_table(part).to_pylist()
    ]
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
