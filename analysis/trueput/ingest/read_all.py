"""The files of a run read: in one process each where they are large."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from trueput.ingest.folders import RunFolder
from trueput.ingest.read import FileTask, read_file
from trueput.ingest.work import Work
from trueput.source_api import Problem, Severity

PARALLEL_FROM_BYTES = 48 << 20
"""Of all files together; starting processes takes longer than reading less."""

Progress = Callable[[str, int, int], None]
"""Told of the name of a file, how many files are read, and of how many."""


def read_all(work: Work, tasks: list[FileTask], progress: Progress | None) -> None:
    """Read the files into parts, and add what came of it, by name, and what is told to `work`."""
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
