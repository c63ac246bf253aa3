"""One run: hash, claim, read its files in parallel, attribute, and swap it into the store."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from trueput.attribution.run import RunInput, RunOutput, attribute_run
from trueput.attribution.sessions import Load
from trueput.clock import ClockFit, ClockKind
from trueput.errors import InputError
from trueput.ingest.derived import write_derived
from trueput.ingest.folders import (
    RUN_TOML,
    Claim,
    RunFolder,
    as_text,
    claim,
    content_sha256,
    file_sha256,
    plain_sha256,
)
from trueput.ingest.losses import Losses, has_open_gaps, kernels_untraced, losses_of_steps
from trueput.ingest.marks import mark_all, mark_capture, mark_losses, mark_operations
from trueput.ingest.read import FileResult, FileTask, read_file, shift_instants
from trueput.ingest.rename import rename
from trueput.ingest.run_toml import RunToml, goodput_slo, read_run_toml
from trueput.ingest.store import READER_VERSION, Manifest, Store, encode
from trueput.ingest.twice import drop_doubled_samples
from trueput.source_api import Clock, Fact, Problem, ReadOptions, Severity
from trueput.sources import all_sources

if TYPE_CHECKING:
    from trueput.attribution.reuse import Told

PARALLEL_FROM_BYTES = 48 << 20
MAX_PROBLEM_SHARE = 0.5

PROBLEM_CODES = {
    "INGEST001": "A reader failed inside a file; what came before the failure is kept.",
    "INGEST002": "No source claims the file; it was not read.",
    "INGEST003": "Two sources are about equally sure of the file; the surer one read it.",
    "INGEST004": "The file changed while it was being read.",
    "INGEST005": "The same bytes stand twice in the run; the copy was not read.",
    "INGEST006": "The file cannot be read (its permissions, or it went away); the rest was.",
    "INGEST007": "Operations with times that cannot be; they are kept, marked, and not counted.",
    "INGEST008": "The file is of a known format and holds no record: it tells nothing.",
    "INGEST009": "Operations are missing, or many count nowhere: gaps are not known to be idle.",
    "INGEST010": "Operations that ran on one of several devices; kept, marked, and not counted.",
    "INGEST011": "Operations without a device or a process: on the only device it can have been.",
    "INGEST012": "Kernels of AMD devices that ran far into their successors; they are cut there.",
    "INGEST013": "A few operations are missing; gaps between the others are taken for idle.",
    "INGEST014": "Operations or samples that stand twice in one file; they count once.",
    "INGEST015": "The run has more GPUs than its profiles show: the others are unattributed.",
    "INGEST016": "Profiles show more devices than the run, or its engine, has.",
}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Ingested:
    """What came of one run."""

    run_id: str
    state: Literal["new", "replaced", "unchanged", "kept"]
    """kept: nothing was written, because a usable run would have been lost."""
    files: int
    unclaimed: tuple[str, ...]
    """Files of no known format, or that cannot be read."""
    rows: Mapping[str, int] = field(default_factory=dict)
    problems: int = 0
    usable: bool = True
    copies: tuple[str, ...] = ()
    """Files with the same content as another of the run."""


@dataclass
class _Work:
    folder: RunFolder
    run_id: str
    store: Store
    toml: RunToml
    hashes: dict[str, str]
    generation: str = field(default_factory=lambda: secrets.token_hex(4))
    claims: dict[str, Claim] = field(default_factory=dict)
    results: list[FileResult] = field(default_factory=list)
    problems: list[tuple[str | None, Problem]] = field(default_factory=list)
    copies: set[str] = field(default_factory=set)

    def target(self, table: str, name: str) -> Path:
        return (
            self.store.table_folder(table, self.run_id)
            / f"{encode(name)}-{self.generation}-0.parquet"
        )


UNREADABLE = ""
"""Stands for the hash of a file that cannot be read."""


def hash_run(folder: RunFolder) -> dict[str, str]:
    """Return the SHA-256 of every file of a run, by its name within the run; UNREADABLE where it
    cannot be read."""
    return {name: _hash(path) for name, path in folder.files.items()}


def _hash(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError:
        return UNREADABLE


def ingest_run(
    folder: RunFolder,
    run_id: str,
    store: Store,
    hashes: dict[str, str] | None = None,
    progress: Progress | None = None,
    *,
    needs_claim: bool = False,
    replace: bool = False,
    spare_usable: bool = False,
) -> Ingested:
    """Put one run into the store, replacing what it held under this run_id.

    With `needs_claim` a run of which no source claims a file raises InputError; else it is kept
    as an unusable run that says what was tried. With `spare_usable` such a run does not replace a
    usable one of other bytes: that one stays, and the state is `kept`.

    Same bytes as before, the same reader and all files of the run in place: nothing changes, unless
    `replace` asks for it. A kill at any point leaves the run as it was before. Waits while another
    process writes the same run. Raises OSError, which names the store where it names no file, when
    the store cannot be written.
    """
    with _naming(store.root):
        store.root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(store.lock_path(run_id))
    with lock, _naming(store.root):
        hashes = hashes if hashes is not None else hash_run(folder)
        digest = content_sha256(hashes)
        before = store.held(run_id)
        held = (before.content_sha256, before.reader_version) if before else None
        is_same = held == (digest, READER_VERSION)
        if before and is_same and not replace and not store.damaged(before):
            return Ingested(run_id, "unchanged", len(hashes), ())
        toml = read_run_toml(folder.run_toml())
        work = _Work(folder, run_id, store, toml, hashes)
        work.problems += [(RUN_TOML, p) for p in toml.problems]
        tasks = _plan(work)
        if needs_claim and UNREADABLE in hashes.values() and not tasks:
            raise InputError(f"`{folder.root}`: cannot be read")
        if needs_claim and not tasks:
            raise InputError(f"`{folder.root}`: no file of it is of a known format")
        _read_all(work, tasks, progress)
        manifest, done = _finish(work, digest)
        if spare_usable and before and not done.usable and _is_lost(store, before, digest):
            for name in (n for names in manifest.files.values() for n in names):
                (store.root / name).unlink(missing_ok=True)
            return Ingested(run_id, "kept", len(hashes), ())
        store.commit(manifest)
        return Ingested(
            run_id=run_id,
            state="replaced" if before else "new",
            files=done.files,
            unclaimed=done.unclaimed,
            copies=done.copies,
            rows=done.rows,
            problems=done.problems,
            usable=done.usable,
        )


def _is_lost(store: Store, before: Manifest, digest: str) -> bool:
    """Return whether a usable run of other bytes would be lost if it were replaced."""
    if before.content_sha256 == digest or store.damaged(before):
        return False
    parts = [store.root / name for name in before.files.get("runs", ())]
    try:
        return any(all(pq.read_table(part).column("usable").to_pylist()) for part in parts)
    except (OSError, KeyError, pa.ArrowException):  # no run that can be read
        return False


@contextmanager
def _naming(root: Path) -> Iterator[None]:
    """Let an error of the system that names no file (a full disk) name the store."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), str(root)) from error


def _plan(work: _Work) -> list[FileTask]:
    folder = work.folder
    seen: dict[str, str] = {}
    tasks: list[FileTask] = []
    described = _described_files(work.toml)
    names = tuple(folder.files)
    for name, path in folder.files.items():
        if name == RUN_TOML:
            continue
        if work.hashes[name] == UNREADABLE:
            text = "the file cannot be read; nothing of it is in the store"
            work.problems.append((name, Problem("INGEST006", Severity.ERROR, text)))
            work.claims[name] = Claim(None, 0.0, text)
            continue
        if name in described:
            source = next((s for s in all_sources() if s.name == described[name]), None)
            answer = Claim(source, 1.0, "named by [columns] in run.toml")
        else:
            answer = claim(path)
        work.claims[name] = answer
        if answer.source is None:
            text = "no source claims this file"
            work.problems.append((name, Problem("INGEST002", Severity.INFO, text)))
            continue
        if answer.rival:
            text = f"read as {answer.source.name}; {answer.rival} was about as sure"
            work.problems.append((name, Problem("INGEST003", Severity.INFO, text)))
        digest = plain_sha256(path, names, name) or work.hashes[name]
        if digest in seen:
            text = f"the same content as `{seen[digest]}`; not read again"
            work.problems.append((name, Problem("INGEST005", Severity.WARNING, text)))
            work.claims[name] = Claim(None, answer.score, text)
            work.copies.add(name)
            continue
        seen[digest] = name
        options = ReadOptions(
            run_toml=work.toml.raw,
            mtime_ns=path.stat().st_mtime_ns,
            year=work.toml.year,
            relative_path=name,
            siblings=names,
        )
        targets = {t: work.target(t, name) for t in answer.source.tables}
        tasks.append(FileTask(path, answer.source.name, work.run_id, name, options, targets))
    return tasks


def _described_files(toml: RunToml) -> dict[str, str]:
    """Return the files that `[columns]` describes, each with the name of the source for it."""
    columns = toml.raw.get("columns")
    entries = columns if isinstance(columns, list) else [columns]
    found: dict[str, str] = {}
    for entry in entries:
        name = entry.get("file") if isinstance(entry, dict) else None
        if isinstance(entry, dict) and isinstance(name, str):
            found[name] = "nvidia_smi_csv" if "telemetry" in entry else "generic_records"
    return found


def _read_all(work: _Work, tasks: list[FileTask], progress: Progress | None) -> None:
    sizes = {t.source_id: t.path.stat().st_size for t in tasks}
    workers = min(len(tasks), os.cpu_count() or 1)
    done = 0

    def note(name: str) -> None:
        if progress is not None:
            progress(name, done, len(tasks))

    if workers > 1 and sum(sizes.values()) >= PARALLEL_FROM_BYTES:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            largest_first = sorted(tasks, key=lambda t: -sizes[t.source_id])
            futures = [pool.submit(read_file, t) for t in largest_first]
            for future in as_completed(futures):
                result = future.result()
                done += 1
                work.results.append(result)
                note(result.source_id)
    else:
        for task in tasks:
            note(task.source_id)
            work.results.append(read_file(task))
            done += 1
    work.results.sort(key=lambda r: r.source_id)
    for result in work.results:
        work.problems += [(result.source_id, p) for p in result.problems]
        if result.says_nothing:
            text = f"no record in this {result.source_name} file; it tells nothing, not even idle"
            work.problems.append((result.source_id, Problem("INGEST008", Severity.INFO, text)))
        if file_size_changed(work.folder, result.source_id, sizes):
            text = "the file changed while it was being read"
            work.problems.append((result.source_id, Problem("INGEST004", Severity.ERROR, text)))


def file_size_changed(folder: RunFolder, name: str, sizes: Mapping[str, int]) -> bool:
    """Return whether a file has another size than when it was planned."""
    try:
        return folder.files[name].stat().st_size != sizes[name]
    except OSError:
        return True


def merge_facts(work_facts: list[tuple[str, Fact]]) -> dict[str, Any]:
    """Return one value per fact key; the first file that states it wins, run.toml first."""
    merged: dict[str, Any] = {}
    for _, fact in work_facts:
        if fact.value is not None and fact.key not in merged:
            merged[fact.key] = fact.value
    return merged


def _facts(work: _Work) -> list[tuple[str, Fact]]:
    found = [(RUN_TOML, f) for f in work.toml.facts if not f.key.startswith("config.")]
    found += [(r.source_id, f) for r in work.results for f in r.facts]
    return found + [(RUN_TOML, f) for f in work.toml.facts if f.key.startswith("config.")]


def _finish(work: _Work, digest: str) -> tuple[Manifest, Ingested]:
    parts: dict[str, list[Path]] = {}
    for result in work.results:
        for table, path in result.parts.items():
            parts.setdefault(table, []).append(path)
    facts = merge_facts(_facts(work))
    pa.default_memory_pool().release_unused()
    _mark_operations(work)
    pa.default_memory_pool().release_unused()
    output = attribute_run(_run_input(work, parts, facts), lambda told: _write_told(work, told))
    work.problems += [(None, p) for p in output.problems]
    work.problems += output.of_files
    _mark_losses(work, losses_of_steps(work.results, output.lost_steps))
    for result in work.results:
        told = {p.code for source, p in output.of_files if source == result.source_id}
        if (captured := result.parts.get("gpu_captures")) and "ATTR010" in told:
            mark_capture(captured, "off_clock", value=True)
    _to_utc(work, output)
    _tie_records(work, output)
    for path in parts.pop("load_sessions", []):
        path.unlink()  # the merged rows of attribution take their place
    counts = {t: sum(r.rows.get(t, 0) for r in work.results) for t in parts}
    usable = _usable(work)

    def put(table: str, rows: Any) -> None:
        path = work.target(table, "run")
        if written := write_derived(table, rows, work.run_id, path):
            parts.setdefault(table, []).append(path)
            counts[table] = counts.get(table, 0) + written

    for table, rows in output.rows.items():
        try:
            put(table, rows)
        except Exception as error:
            if table not in output.made_while_written:
                raise
            work.target(table, "run").unlink(missing_ok=True)
            work.problems.append((None, output.made_while_written[table](error)))
    work.problems += _gpus_unseen(work, parts.get("gpu_op_totals", []), facts)
    _mark_waits(work, parts, output.aside)
    counts.update(_place_overheads(work, parts))
    put("runs", [_run_row(work, digest, facts, output, usable)])
    put("sources", _source_rows(work, output))
    put("problems", _problem_rows(work))
    files = {
        t: sorted(p.relative_to(work.store.root).as_posix() for p in paths)
        for t, paths in sorted(parts.items())
    }
    where = str(work.folder.root.resolve())
    sizes = work.store.sizes_of(files)
    manifest = Manifest(work.run_id, digest, READER_VERSION, where, files, counts, sizes)
    unread = [n for n, c in work.claims.items() if c.source is None]
    done = Ingested(
        work.run_id,
        "new",
        len(work.results),
        tuple(n for n in unread if n not in work.copies),
        counts,
        sum(p.count for _, p in work.problems if p.code != "INGEST002"),
        usable,
        copies=tuple(n for n in unread if n in work.copies),
    )
    return manifest, done


def _mark_operations(work: _Work) -> None:
    """Put the GPU operations of every file right, and tell what does not count."""
    for result in work.results:
        work.problems += [(result.source_id, p) for p in mark_operations(result)]
        work.problems += [(result.source_id, p) for p in drop_doubled_samples(result)]
    _mark_losses(work, list(kernels_untraced(work.results).items()))


def _mark_losses(work: _Work, found: list[tuple[str, Losses]]) -> None:
    """Mark the captures that lack something, and tell it."""
    captures = {r.source_id: r.parts.get("gpu_captures") for r in work.results}
    for source, losses in found:
        if (captured := captures[source]) is not None:
            mark_losses(captured, losses)
        work.problems += [(source, p) for p in losses.problems()]


def _gpus_unseen(
    work: _Work, totals: list[Path], facts: Mapping[str, Any]
) -> list[tuple[str | None, Problem]]:
    """Tell of GPUs that run.toml counts and no profile shows, where some are shown; and of more
    devices than run.toml, or else the only engine, has."""
    count = work.toml.numbers.get("gpu_count")
    keys = [pq.read_table(part, columns=["device_key"]).column(0).to_pylist() for part in totals]
    shown = len({key for some in keys for key in some})
    whose = "gpu_count"
    if count is None:
        count, whose = _world_size(work, facts), "the engine's parallel sizes"
    if count is None or not shown or shown == count:
        return []
    if shown > count:
        text = (
            f"profiles show {shown} devices, and the run has {int(count)} ({whose}): all are "
            "counted; a profile may be a copy, or of another run"
        )
        found = Problem("INGEST016", Severity.WARNING, text, count=shown - int(count))
        return [(None, found)]
    if whose != "gpu_count":
        return []
    text = (
        f"profiles show {shown} of {int(count)} GPUs (gpu_count): the time of the others is "
        "unattributed; a file of a rank may be missing"
    )
    return [(None, Problem("INGEST015", Severity.INFO, text, count=int(count) - shown))]


def _world_size(work: _Work, facts: Mapping[str, Any]) -> int | None:
    """Return how many devices the only engine of a run works on, None where that is not told."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    told = [facts.get(f"config.{name}") for name in sizes]
    tellers = [r for r in work.results if any(f.key == f"config.{sizes[0]}" for f in r.facts)]
    if len(tellers) != 1 or not all(isinstance(n, int) and n > 0 for n in told):
        return None
    return math.prod(n for n in told if isinstance(n, int))


def _mark_waits(work: _Work, parts: Mapping[str, list[Path]], aside: Mapping[str, str]) -> None:
    """Mark the captures in which operations waited though their device did nothing."""
    if not parts.get("gpu_busy") or not parts.get("gpu_launches"):
        return
    from trueput.attribution.gpu_waits import waited

    busy, operations, launches = (parts[t] for t in ("gpu_busy", "gpu_ops", "gpu_launches"))
    told = [r for r in work.results if r.parts.get("gpu_captures") and has_open_gaps(r)]
    known = {r.source_id for r in told} | aside.keys()
    found = [one for path in busy for one in waited(path, operations, launches, known)]
    _mark_losses(work, losses_of_steps(work.results, found))


def _place_overheads(work: _Work, parts: Mapping[str, list[Path]]) -> dict[str, int]:
    """Give the work of profilers the devices that it held up; return how many rows there are."""
    with_some = [r for r in work.results if "gpu_overheads" in r.parts]
    if not with_some:
        return {}
    from trueput.ingest.overheads import TABLE, place_overheads

    totals, busy = (parts.get(table, []) for table in ("gpu_op_totals", "gpu_busy"))
    return {TABLE: sum(place_overheads(r, work.run_id, totals, busy) for r in with_some)}


def _to_utc(work: _Work, output: RunOutput) -> None:
    """Mark the profiles that are set aside, and move the instants of every file to UTC."""
    for result in work.results:
        if (word := output.aside.get(result.source_id)) and "gpu_ops" in result.parts:
            mark_all(result.parts["gpu_ops"], word)
        fit = output.clock_fits.get(result.source_id)
        if fit is not None and fit.offset_ns and not result.moved_ns:
            for table, path in result.parts.items():
                shift_instants(path, table, fit.offset_ns)


def _write_told(work: _Work, told: Told) -> None:
    """Write into the parts what tells requests of one id apart."""
    for result in work.results:
        for table, part in result.parts.items():
            ids, copies = told.ids.get((table, part), {}), told.copies.get((table, part), [])
            if ids or copies:
                result.rows[table] -= rename(part, table, ids, copies)


def _tie_records(work: _Work, output: RunOutput) -> None:
    """Write into every request record what attribution tied it to."""
    links = output.rows.get("request_links")
    if links is None:
        return
    from trueput.ingest.tie import tie_records

    by_source = links.partition_by("source_id", as_dict=True)
    for result in work.results:
        if path := result.parts.get("requests"):
            mine = by_source.get((result.source_id,), links.clear())
            tie_records(path, mine, output.sessions.of_source.get(result.source_id))


def _run_input(work: _Work, parts: dict[str, list[Path]], facts: dict[str, Any]) -> RunInput:
    by_source: dict[str, dict[str, Any]] = {}
    for source, fact in _facts(work):
        if fact.value is not None:
            by_source.setdefault(source, {}).setdefault(fact.key, fact.value)
    loads = [
        Load(c.name, c.flags, goodput_slo(c.flags["goodput"]) if "goodput" in c.flags else None)
        for c in work.toml.loads
    ]
    return RunInput(
        run_id=work.run_id,
        parts=parts,
        clocks={r.source_id: _clock_of_parts(r) for r in work.results},
        facts=by_source,
        anchors=work.toml.anchors,
        timezone=work.toml.timezone,
        loads=loads,
        slo=work.toml.slo,
        config=facts,
        formats={r.source_id: r.source_name for r in work.results},
    )


def _clock_of_parts(result: FileResult) -> Clock:
    """Return the clock that the parts are on: UTC where instants were moved while writing."""
    stated = result.clock
    if not result.moved_ns:
        return stated
    return Clock(ClockKind.UTC, 0, stated.uncertainty_ns, stated.method or "stated by the file")


def _usable(work: _Work) -> bool:
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


def _run_row(
    work: _Work, digest: str, facts: Mapping[str, Any], output: RunOutput, usable: bool
) -> dict[str, Any]:
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


def _source_rows(work: _Work, output: RunOutput) -> list[dict[str, Any]]:
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


def _problem_rows(work: _Work) -> list[dict[str, Any]]:
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
