"""What was read of a run -> attribution -> all its tables, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from trueput.attribution.run import attribute_run
from trueput.ingest.attributed import tie_every_record, to_utc, write_told
from trueput.ingest.captures import (
    gpus_unseen,
    mark_bare,
    mark_every_operation,
    mark_off_clock,
    mark_unmade,
    mark_waits,
    overheads,
    tell_losses,
)
from trueput.ingest.derived import write_derived
from trueput.ingest.losses import losses_of_steps
from trueput.ingest.run_input import facts_of, merge_facts, run_input
from trueput.ingest.run_rows import is_usable, problem_rows, run_row, source_rows
from trueput.ingest.store import READER_VERSION, Manifest
from trueput.ingest.work import Work


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


def finish(work: Work, digest: str) -> tuple[Manifest, Ingested]:
    """Attribute a run whose files are read, write its tables, and return what to put in place.

    `digest` is that of the run's bytes. Nothing of the run is seen in the store before the manifest
    is committed. Raises OSError where the store cannot be written.
    """
    parts: dict[str, list[Path]] = {}
    for result in work.results:
        for table, path in result.parts.items():
            parts.setdefault(table, []).append(path)
    facts = merge_facts(facts_of(work))
    pa.default_memory_pool().release_unused()
    mark_every_operation(work)
    pa.default_memory_pool().release_unused()
    output = attribute_run(run_input(work, parts, facts), lambda told: write_told(work, told))
    work.problems += [(None, p) for p in output.problems]
    work.problems += output.of_files
    tell_losses(work, losses_of_steps(work.results, output.lost_steps))
    mark_off_clock(work, output.of_files)
    to_utc(work, output)
    tie_every_record(work, output)
    for path in parts.pop("load_sessions", []):
        path.unlink()  # the merged rows of attribution take their place
    counts = {t: sum(r.rows.get(t, 0) for r in work.results) for t in parts}
    usable = is_usable(work)

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
    work.problems += gpus_unseen(work, parts.get("gpu_op_totals", []), facts)
    mark_bare(work, output.aside)
    mark_waits(work, parts, output.aside)
    mark_unmade(work, parts, output, facts)
    counts.update(overheads(work, parts))
    put("runs", [run_row(work, digest, facts, output, usable)])
    put("sources", source_rows(work, output))
    put("problems", problem_rows(work))
    files = {
        t: sorted(p.relative_to(work.store.root).as_posix() for p in paths)
        for t, paths in sorted(parts.items())
    }
    where = str(work.folder.root.resolve())
    sizes = work.store.sizes_of(files)
    manifest = Manifest(work.run_id, digest, READER_VERSION, where, files, counts, sizes)
    return manifest, _done(work, counts, usable=usable)


def _done(work: Work, counts: Mapping[str, int], *, usable: bool) -> Ingested:
    unread = [n for n, c in work.claims.items() if c.source is None]
    return Ingested(
        run_id=work.run_id,
        state="new",
        files=len(work.results),
        unclaimed=tuple(n for n in unread if n not in work.copies),
        rows=counts,
        problems=sum(p.count for _, p in work.problems if p.code != "INGEST002"),
        usable=usable,
        copies=tuple(n for n in unread if n in work.copies),
    )
