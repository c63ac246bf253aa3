"""`<store>/baselines.toml`: named baselines, and accepted runs in the order of their acceptance.

It is written by `trueput baseline` alone, under a lock and by a rename, so that two writers at once
lose nothing and a reader sees the file before or after. Each run stands with the hash of its
content: a run that was replaced since is no longer the baseline that someone chose.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from trueput.errors import StoreError
from trueput.ingest.store import Store

VERSION = 1
FILE = "baselines.toml"
_HEAD = "# Written by `trueput baseline`; do not edit while a job is running.\n"
_LOCK = "_baselines.lock"
_HINT = "repair it, or move it away and set the baselines again"


@dataclass(frozen=True)
class Member:
    """One run of a baseline: its name, the content it had, the key of its configuration, when."""

    run: str
    content_sha256: str
    key: str
    at: str


@dataclass(frozen=True)
class Baselines:
    """What the file holds."""

    named: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    accepted: tuple[Member, ...] = ()

    def holders(self, run: str) -> tuple[str, ...]:
        """Return what keeps a run: `@NAME` of each baseline, `accepted runs`."""
        found = [f"@{n}" for n, many in self.named.items() if any(m.run == run for m in many)]
        if any(member.run == run for member in self.accepted):
            found.append("accepted runs")
        return tuple(found)


def read(store: Store) -> Baselines:
    """Return the store's baselines; none without a file. Raises StoreError on a broken one."""
    path = store.root / FILE
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Baselines()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StoreError(f"`{path}` is damaged or cannot be read ({error})", _HINT) from error
    if "version" not in document:
        raise StoreError(f"`{path}` is damaged: it is empty, or its version is missing", _HINT)
    if document.get("version") != VERSION:
        raise StoreError(
            f"`{path}`: version {document.get('version')!r}, this trueput reads {VERSION}",
            "use the trueput that wrote it",
        )
    named: dict[str, tuple[Member, ...]] = {}
    for table in _tables(document, "named", path):
        name = table.pop("name", None)
        if not isinstance(name, str):
            raise StoreError(f"`{path}`: a [[named]] has no name", _HINT)
        named[name] = (*named.get(name, ()), _member(table, path))
    accepted = tuple(_member(table, path) for table in _tables(document, "accepted", path))
    return Baselines(named, accepted)


def change(store: Store, edit: Callable[[Baselines], Baselines]) -> Baselines:
    """Replace the store's baselines by what `edit` makes of them; one writer at a time."""
    lock = store.root / "_locks" / _LOCK
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        made = edit(read(store))
        target = store.root / FILE
        scratch = target.with_suffix(f".{os.getpid()}.tmp")
        with scratch.open("w", encoding="utf-8") as stream:
            stream.write(text(made))
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(target)
    return made


def text(baselines: Baselines) -> str:
    """Return the file's text; names in alphabetical order, accepted runs in theirs."""
    parts = [_HEAD, f"version = {VERSION}\n"]
    for name, members in sorted(baselines.named.items()):
        for member in members:
            parts.append(f"\n[[named]]\nname = {_quoted(name)}\n{_lines(member)}")
    parts += [f"\n[[accepted]]\n{_lines(member)}" for member in baselines.accepted]
    return "".join(parts)


def with_name(held: Baselines, name: str, members: tuple[Member, ...]) -> Baselines:
    """Return the baselines with one set anew."""
    return replace(held, named={**held.named, name: members})


def _lines(member: Member) -> str:
    keys = ("run", "content_sha256", "key", "at")
    return "".join(f"{key} = {_quoted(getattr(member, key))}\n" for key in keys)


def _quoted(value: str) -> str:
    """Return a TOML basic string: JSON's escapes are TOML's, DEL apart."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _tables(document: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    found = document.get(key, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise StoreError(f"`{path}`: {key} is no list of tables", _HINT)
    return [dict(item) for item in found]


def _member(table: Mapping[str, Any], path: Path) -> Member:
    keys = ("run", "content_sha256", "key", "at")
    if set(table) != set(keys) or not all(isinstance(table[key], str) for key in keys):
        raise StoreError(f"`{path}`: expected the texts {', '.join(keys)} of a run", _HINT)
    return Member(*(table[key] for key in keys))
