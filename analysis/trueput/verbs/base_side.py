"""What BASE names: runs or paths like any side, `@NAME`, or `@last:K`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from trueput.errors import InputError, UsageError
from trueput.gate.figures import RunFigures
from trueput.gate.measurements import same
from trueput.ingest.store import Store
from trueput.verbs import baseline_file
from trueput.verbs.baseline import LAST, state
from trueput.verbs.baseline_file import Member
from trueput.verbs.config_key import run_keys
from trueput.verbs.figures import measurements
from trueput.verbs.opening import Configuration, Reading, configuration

_LAST = re.compile(r"@last:([1-9][0-9]{0,3})", re.ASCII)


def base_side(
    argument: str, candidates: Sequence[Configuration], reading: Reading
) -> Configuration:
    """Return the baseline's configuration; `candidates` decide which series `@last:K` means.

    A path that exists wins over the `@`. Raises InputError where a baseline does not exist, was
    replaced since, or holds a candidate.
    """
    if not argument.startswith("@") or Path(argument).exists():
        return configuration(argument, reading)
    if argument.partition(":")[0] == f"@{LAST}":
        return _last(argument, candidates, reading)
    return _named(argument, candidates, reading.open_store())


def _named(argument: str, candidates: Sequence[Configuration], store: Store) -> Configuration:
    held = baseline_file.read(store)
    members = held.named.get(argument[1:])
    if members is None:
        near = difflib.get_close_matches(argument[1:], held.named, 1, 0.5)
        hint = f"did you mean `@{near[0]}`?" if near else "`trueput baseline list` shows them"
        raise InputError(f"the store has no baseline `{argument}`", hint)
    for member in members:
        found = state(member, store)
        if found != "current":
            raise InputError(
                f"baseline `{argument}`: its run `{member.run}` is {found} in the store",
                f"`trueput baseline set {argument[1:]} RUN...` sets it again",
            )
    judged = {run for side in candidates for run in side.runs}
    both = [member.run for member in members if member.run in judged]
    if both:
        raise InputError(
            f"`{both[0]}` is a candidate and part of the baseline `{argument}`",
            "name other candidates, or set the baseline to other runs",
        )
    return Configuration(argument, tuple(member.run for member in members))


def _last(argument: str, candidates: Sequence[Configuration], reading: Reading) -> Configuration:
    match = _LAST.fullmatch(argument)
    if match is None:
        raise UsageError(f"`{argument}` does not say how many runs", "write `@last:5`")
    store, count = reading.open_store(), int(match[1])
    judged = {run for side in candidates for run in side.runs}
    contents = {m.content_sha256 for r in judged if (m := store.manifest(r)) is not None}
    accepted = baseline_file.read(store).accepted
    others = [m for m in accepted if m.run not in judged and m.content_sha256 not in contents]
    held = [m for m in others if state(m, store) == "current"]
    if len(held) < len(others):
        reading.note(f"accepted runs that were replaced or are missing: {len(others) - len(held)}")
    known = run_keys(sorted(judged | {m.run for m in held}), reading)
    keys = {known[run].key for run in judged if run in known}
    if len(keys) > 1:
        raise InputError(
            f"the candidates have {len(keys)} configurations: {', '.join(sorted(keys))}",
            "`@last:K` stands for one; judge them one by one, or set a named baseline",
        )
    current = [m for m in held if m.run in known and known[m.run].key in keys]
    chosen, own = _newest(current, sorted(judged), count, reading)
    if not chosen and (own or _all_own([m for m in accepted if m.key in keys], others)):
        raise InputError(
            f"`{argument}`: all accepted runs of this configuration are the candidate's own",
            "accept runs from before the change, or name the baseline's runs",
        )
    if not chosen:
        raise InputError(
            f"`{argument}`: the store has no accepted run of configuration {', '.join(keys)}",
            "`trueput baseline accept RUN` accepts one; `[labels] series` in run.toml names a "
            "series that goes on when the configuration changes",
        )
    if len(chosen) < count:
        reading.note(f"`{argument}`: accepted runs of this configuration: {len(chosen)}")
    return Configuration(argument, tuple(m.run for m in chosen))


def _newest(
    accepted: Sequence[Member], judged: Sequence[str], count: int, reading: Reading
) -> tuple[list[Member], bool]:
    """Return the newest accepted runs, each measurement once, and whether any is a candidate's."""
    taken: list[RunFigures] = list(measurements(judged, reading).values())
    chosen: list[Member] = []
    own = False
    left = list(accepted)
    while left and len(chosen) < count:
        first = max(0, len(left) - (count - len(chosen)))
        some, left = left[first:], left[:first]
        known = measurements([m.run for m in some], reading)
        for member in reversed(some):
            one = known[member.run]
            found = next((other for other in taken if same(one, other)), None)
            if found is None:
                taken.append(one)
                chosen.insert(0, member)
            else:
                own = own or found.run_id in judged
                reading.note(f"accepted run {member.run} is the same measurement as {found.run_id}")
    return chosen, own


def _all_own(accepted: Sequence[Member], others: Sequence[Member]) -> bool:
    """Tell whether there are accepted runs, and none of them is of another side."""
    return bool(accepted) and not any(member in others for member in accepted)
