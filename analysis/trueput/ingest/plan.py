"""Which source reads each file of a run, and which files are not read, and why."""

from __future__ import annotations

from trueput.ingest.folders import RUN_TOML, Claim, claim, plain_sha256
from trueput.ingest.read import FileTask
from trueput.ingest.run_toml import RunToml
from trueput.ingest.work import UNREADABLE, Work
from trueput.scan import plain_name
from trueput.source_api import Problem, ReadOptions, Severity
from trueput.sources import all_sources


def plan(work: Work) -> list[FileTask]:
    """Claim every file of a run, and return those to read; what is not read is told in `work`."""
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
    there = {plain_name(name) for name in names}
    for name in described:
        if plain_name(name) not in there:
            text = f"`[columns]` describes `{name}`, which is not in the run"
            work.problems.append((RUN_TOML, Problem("RUN004", Severity.WARNING, text)))
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
