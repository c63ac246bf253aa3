"""What attribution found, written into the parts that the files were read into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueput.attribution.run import RunOutput
from trueput.ingest.marks import mark_all
from trueput.ingest.read import shift_instants
from trueput.ingest.rename import rename
from trueput.ingest.work import Work

if TYPE_CHECKING:
    from trueput.attribution.reused.told import Told


def to_utc(work: Work, output: RunOutput) -> None:
    """Mark the profiles that are set aside, and move the instants of every file to UTC."""
    for result in work.results:
        if (word := output.aside.get(result.source_id)) and "gpu_ops" in result.parts:
            mark_all(result.parts["gpu_ops"], word)
        fit = output.clock_fits.get(result.source_id)
        if fit is not None and fit.offset_ns and not result.moved_ns:
            for table, path in result.parts.items():
                shift_instants(path, table, fit.offset_ns)


def write_told(work: Work, told: Told) -> None:
    """Write into the parts what tells requests of one id apart."""
    for result in work.results:
        for table, part in result.parts.items():
            ids, copies = told.ids.get((table, part), {}), told.copies.get((table, part), [])
            if ids or copies:
                result.rows[table] -= rename(part, table, ids, copies)


def tie_every_record(work: Work, output: RunOutput) -> None:
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
