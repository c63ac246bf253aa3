"""What is known of a run while it is ingested, from its files to its tables."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from trueput.ingest.folders import Claim, RunFolder, file_sha256
from trueput.ingest.read import FileResult
from trueput.ingest.run_toml import RunToml
from trueput.ingest.store import Store, encode
from trueput.source_api import Problem

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


@dataclass
class Work:
    """One run while it is ingested: filled by `plan`, then by `read_all`, then by `finish`."""

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
        """Return where the part of a table goes that is made of the file `name`."""
        return (
            self.store.table_folder(table, self.run_id)
            / f"{encode(name)}-{self.generation}-0.parquet"
        )
