"""Which paths are runs, which files belong to a run, and which source claims each file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from trueput.errors import InputError
from trueput.scan import byte_chunks, plain_name, read_head
from trueput.source_api import HEAD_BYTES, Source
from trueput.sources import all_sources

RUN_TOML = "run.toml"
FORMAT_SUFFIXES = (
    ".gz", ".zst", ".zip", ".json", ".jsonl", ".log", ".txt", ".prom", ".csv", ".out", ".sqlite",
    ".db", ".parquet",
)  # fmt: skip
SWEPT = re.compile(r"run=([0-9]{1,6})\.json(\.gz|\.zst)?")
"""Repeats of one combination of `vllm bench sweep`: each is a run of its own."""
AMBIGUOUS_WITHIN = 0.1
MIN_SCORE = 0.2


class UnclaimedError(InputError):
    """A path that exists holds no file of a known format."""


@dataclass(frozen=True)
class RunFolder:
    """One run as found on disk: its default id, its root, and its files by name within the run."""

    run_id: str
    root: Path
    files: dict[str, Path]

    def run_toml(self) -> Path | None:
        """Return the run's own run.toml, if it has one."""
        return self.files.get(RUN_TOML)


def as_text(name: str) -> str:
    """Return a name as proper text: bytes of a file name that are no UTF-8 are written out."""
    try:
        as_bytes = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        as_bytes = name.encode("utf-8", "surrogatepass")
    return as_bytes.decode("utf-8", "backslashreplace")


def _folder(path: Path) -> RunFolder:
    files = {as_text(p.relative_to(path).as_posix()): p for p in _walk(path)}
    return RunFolder(default_run_id(path), path, dict(sorted(files.items())))


def several_paths(run_id: str, paths: list[Path]) -> RunFolder:
    """Return one run made of several files and folders; equal names get their folder's name."""
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise InputError(f"`{path}`: no such file or folder")
        found = [path] if path.is_file() else list(_walk(path))
        for file in found:
            inner = as_text(file.name if path.is_file() else file.relative_to(path).as_posix())
            above = as_text(file.resolve().parent.name)
            name = inner if inner not in files else f"{above}/{inner}"
            count = 2
            while name in files:
                name, count = f"{count}/{inner}", count + 1
            files[name] = file
    return RunFolder(run_id, paths[0], dict(sorted(files.items())))


@dataclass(frozen=True)
class Claim:
    """Which source reads a file, how sure it is and why; `source` is None when none does."""

    source: Source | None
    score: float
    reason: str
    rival: str | None = None


def ignored(name: str) -> bool:
    """Return whether a file is never looked at: hidden files and ground truth (`truth_*`).

    One dot hides a file; a name that begins with two was not meant to be hidden.
    """
    return name.startswith("truth_") or (name.startswith(".") and not name.startswith(".."))


NEVER_DATA = (".md", ".rst", ".py", ".toml", ".html", ".sh", ".ipynb")
"""Documents and programs quote log lines; they are no record of a run."""


def claim(path: Path) -> Claim:
    """Ask every source about a file and return the best answer."""
    if path.name.lower().endswith(NEVER_DATA):
        return Claim(None, 0.0, "a document or program, not a record of a run")
    head = read_head(path, HEAD_BYTES)
    answers = []
    for source in all_sources():
        sniff = source.sniff(plain_name(path.name), head)
        answers.append((sniff.score, source.name, source, sniff.reason))
    answers.sort(key=lambda a: (-a[0], a[1]))
    if not answers or answers[0][0] < MIN_SCORE:
        by_reason: dict[str, list[str]] = {}
        for _, name, _, reason in answers:
            by_reason.setdefault(reason, []).append(name)
        tried = "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())
        return Claim(None, 0.0, tried)
    score, _, source, reason = answers[0]
    rival = answers[1] if len(answers) > 1 else None
    close = rival is not None and rival[0] > score - AMBIGUOUS_WITHIN
    return Claim(source, score, reason, rival[1] if rival and close else None)


def default_run_id(path: Path) -> str:
    """Return the run id that a path gives: the folder's name, or the file's without suffixes."""
    name = path.resolve().name
    if path.is_file():
        stripped = True
        while stripped:
            stripped = False
            for suffix in FORMAT_SUFFIXES:
                if name.lower().endswith(suffix) and len(name) > len(suffix):
                    name, stripped = name[: -len(suffix)], True
    return as_text(name)


def _walk(root: Path) -> tuple[Path, ...]:
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(d for d in subfolders if not d.startswith("."))
        found += [Path(folder) / n for n in names if not ignored(n)]
    return tuple(sorted(p for p in found if p.is_file()))


def _listed(folder: Path) -> list[Path]:
    """Return what lies in a folder; nothing where it cannot be listed."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def swept(folder: Path) -> list[RunFolder]:
    """Return the repeats in a folder of one swept combination, in the order of their numbers.

    `vllm bench sweep` writes `run=0.json`, `run=1.json`, ... for each combination of settings; what
    else lies there (a summary, warm-ups, failures) repeats them or is no measurement. A run.toml
    beside them, or one in the folder above for the whole sweep, holds for each of them.
    """
    found = []
    for path in _listed(folder):
        match = SWEPT.fullmatch(path.name)
        if match is not None and path.is_file():
            found.append((int(match[1]), path))
    beside = (folder / RUN_TOML, folder.parent / RUN_TOML)
    described = next((path for path in beside if path.is_file()), None)
    made = []
    for number, path in sorted(found):
        files = {as_text(path.name): path}
        if described is not None:
            files[RUN_TOML] = described
        name = as_text(f"{folder.resolve().name}/run={number}")
        made.append(RunFolder(name, path, dict(sorted(files.items()))))
    return made


def _is_run(folder: Path) -> bool:
    if any(swept(p) for p in folder.iterdir() if p.is_dir()):
        return False  # a sweep's own folder, whatever describes it
    names = sorted(p for p in folder.iterdir() if p.is_file() and not ignored(p.name))
    if any(p.name == RUN_TOML for p in names):
        return True
    return any(claim(p).source is not None for p in names)


def find_runs(path: Path) -> list[RunFolder]:
    """Return the runs at `path`: a file, a run folder, or the run folders below a folder.

    Raises InputError when the path does not exist, UnclaimedError when nothing in it is of a known
    format.
    """
    if not path.exists():
        raise InputError(f"`{path}`: no such file or folder")
    if path.is_file():
        for repeat in swept(path.parent) if SWEPT.fullmatch(path.name) else ():
            if repeat.root.name == path.name:
                return [repeat]
        return [RunFolder(default_run_id(path), path, {as_text(path.name): path})]
    if not path.is_dir():
        raise InputError(f"`{path}`: neither a file nor a folder")
    repeats = swept(path)
    if repeats:
        return repeats
    if _is_run(path):
        return [_folder(path)]
    found: list[RunFolder] = []
    for folder in sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")):
        found += _find_below(folder)
    if not found:
        raise UnclaimedError(
            f"`{path}`: no file in it or below it is of a known format",
            hint="`trueput sources` lists the formats; `trueput doctor` says what was tried",
        )
    return found


def passed_over(path: Path, runs: Collection[RunFolder]) -> list[Path]:
    """Return the folders below `path` that hold files which may be data, and no run.

    Of nested ones the outermost; what lies inside a run is the run's.
    """
    roots = {run.root for run in runs}
    if not path.is_dir() or path in roots:
        return []
    below: list[Path] = []
    for folder in sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")):
        if any(root.is_relative_to(folder) for root in roots):
            below += passed_over(folder, runs)
        elif any(p.suffix not in NEVER_DATA for p in _walk(folder)):
            below.append(folder)
    return below


def _find_below(folder: Path) -> list[RunFolder]:
    repeats = swept(folder)
    if repeats:
        return repeats
    if _is_run(folder):
        return [_folder(folder)]
    found = []
    for below in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        found += _find_below(below)
    return found


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def plain_sha256(path: Path, names: Collection[str], name: str) -> str | None:
    """Return the SHA-256 of a file's decompressed bytes where a twin of it may stand in the run.

    None where no other file of the run has its name but for a compression suffix: then nothing can
    be the same content, and the file is not decompressed for it.
    """
    plain = plain_name(name)
    if sum(plain_name(other) == plain for other in names) < 2:
        return None
    digest = hashlib.sha256()
    for piece in byte_chunks(path):
        if isinstance(piece, bytes):
            digest.update(piece)
    return digest.hexdigest()


def content_sha256(hashes: dict[str, str]) -> str:
    """Return one hash over the files of a run: relative name -> file hash."""
    digest = hashlib.sha256()
    for name, value in sorted(hashes.items()):
        digest.update(f"{name}\0{value}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
