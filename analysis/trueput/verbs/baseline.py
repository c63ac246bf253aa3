"""baseline: named baselines and accepted runs, kept in `<store>/baselines.toml`.

Nothing but these verbs changes a baseline: a gate reads it, and a run that is part of one is not
replaced by a later ingest of the same path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from trueput.errors import InputError, UsageError
from trueput.ingest.store import Store
from trueput.verbs import baseline_file
from trueput.verbs.baseline_file import Baselines, Member
from trueput.verbs.config_key import run_keys
from trueput.verbs.figures import measurements
from trueput.verbs.opening import Reading, configuration

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
LAST = "last"


@dataclass(frozen=True)
class Entry:
    """One run of a baseline, and whether the store still holds what was chosen.

    `state` is current, replaced (other content under that name) or missing.
    """

    baseline: str
    run: str
    state: str
    key: str
    at: str


def set_(
    name: str, runs: Sequence[str], reading: Reading | None = None, now: datetime | None = None
) -> tuple[Entry, ...]:
    """Make the given runs the baseline `@NAME`, in place of what it was."""
    if not _NAME.fullmatch(name) or name == LAST:
        raise UsageError(
            f"`{name}` cannot name a baseline",
            "use letters, digits, `.`, `_` and `-`, not `last`; it is called as `@NAME`",
        )
    how = reading or Reading()
    members = _members(runs, how, now)
    keys = {member.key for member in members}
    if len(keys) > 1:
        how.note(f"the runs of @{name} have {len(keys)} configurations: {', '.join(sorted(keys))}")
    store = how.open_store()
    made = baseline_file.change(store, lambda held: baseline_file.with_name(held, name, members))
    return _entries(made, store, f"@{name}")


def accept(
    run: str, reading: Reading | None = None, now: datetime | None = None
) -> tuple[Entry, ...]:
    """Accept runs as the newest of their configuration, for `@last:K`.

    It is a decision of its own, not of the gate: `trueput gate ... && trueput baseline accept ...`
    accepts what has passed. A run accepted before with the same content stays where it is.
    """
    how = reading or Reading()
    members = _members([run], how, now)
    store = how.open_store()

    def edit(held: Baselines) -> Baselines:
        known = {(m.run, m.content_sha256) for m in held.accepted}
        new = [m for m in members if (m.run, m.content_sha256) not in known]
        return replace(held, accepted=(*held.accepted, *new))

    made = baseline_file.change(store, edit)
    names = {member.run for member in members}
    return tuple(e for e in _entries(made, store, "accepted") if e.run in names)


def remove(name: str, reading: Reading | None = None) -> tuple[str, ...]:
    """Forget the baseline `@NAME`, or an accepted run; return what was forgotten."""
    how = reading or Reading()
    gone: list[str] = []

    def edit(held: Baselines) -> Baselines:
        if name.startswith("@"):
            gone.extend(n for n in held.named if f"@{n}" == name)
            return replace(held, named={n: m for n, m in held.named.items() if f"@{n}" != name})
        gone.extend(m.run for m in held.accepted if m.run == name)
        return replace(held, accepted=tuple(m for m in held.accepted if m.run != name))

    baseline_file.change(how.open_store(), edit)
    if not gone:
        raise InputError(
            f"`{name}` is neither a baseline (`@NAME`) nor an accepted run",
            "`trueput baseline list` shows both",
        )
    return tuple(gone)


def list_(reading: Reading | None = None) -> tuple[Entry, ...]:
    """Return the runs of every baseline, then the accepted ones, oldest first."""
    store = (reading or Reading()).open_store()
    held = baseline_file.read(store)
    named = [e for name in sorted(held.named) for e in _entries(held, store, f"@{name}")]
    return (*named, *_entries(held, store, "accepted"))


def _entries(held: Baselines, store: Store, which: str) -> tuple[Entry, ...]:
    members = held.accepted if which == "accepted" else held.named[which.removeprefix("@")]
    return tuple(Entry(which, m.run, state(m, store), m.key, m.at) for m in members)


def state(member: Member, store: Store) -> str:
    """Say whether the store still holds the content that was chosen."""
    manifest = store.manifest(member.run)
    if manifest is None:
        return "missing"
    return "current" if manifest.content_sha256 == member.content_sha256 else "replaced"


def _members(
    arguments: Sequence[str], reading: Reading, now: datetime | None
) -> tuple[Member, ...]:
    """Return runs that can be a baseline; raises InputError for one that cannot."""
    names = list(dict.fromkeys(r for a in arguments for r in configuration(a, reading).runs))
    if not names:
        raise UsageError("no run given", "`trueput baseline set NAME RUN...`")
    keys, store = run_keys(names, reading), reading.open_store()
    at = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = []
    for name in names:
        key, manifest = keys.get(name), store.manifest(name)
        if key is None or manifest is None or not key.usable:
            raise InputError(
                f"`{name}` cannot be a baseline: nothing, or too little, of it could be read",
                f"`trueput doctor {name}` says what is missing",
            )
        if key.profiled:
            raise InputError(
                f"`{name}` cannot be a baseline: a profiler was on",
                "a profiled run measures the profiler too; record one without it",
            )
        found.append(Member(name, manifest.content_sha256, key.key, at))
    for name, run in measurements(names, reading).items():
        if len(run.requests) and not run.requests.survived.any():
            reading.note(
                f"warning: none of the {len(run.requests)} requests of `{name}` ended as asked: "
                "a gate calls it unusable as a baseline (`trueput baseline remove` takes it out)"
            )
    return tuple(found)
