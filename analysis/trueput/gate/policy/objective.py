"""The objective of a policy: the table [slo], and the classes of requests with their own limits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from trueput.errors import UsageError
from trueput.gate.policy.keys import SLO_CHOICES, names
from trueput.slo import KEYS, METRICS, Slo, SloClass, parse_slo

_EXAMPLE = 'write limits as text: ttft = "500ms"'
_BAND = re.compile(r"([0-9]{1,12})?\.\.([0-9]{1,12})?")


def objective(slo: Mapping[str, object], where: str) -> Slo:
    """Return the limits of [slo], with where they start and what an undefined metric does."""
    known(slo, (*names("slo"), "class"), f"{where}: [slo]")
    return replace(
        _limits(slo, KEYS, f"{where}: [slo]"),
        measured_from=_choice(slo, "from", where),
        undefined_passes=_choice(slo, "undefined", where) == "pass",
        classes=_classes(slo.get("class", []), where),
    )


def _limits(table: Mapping[str, object], keys: Iterable[str], where: str) -> Slo:
    """Return the limits that a table names; none without any."""
    parts = []
    for key in keys:
        value = table.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise UsageError(f"{where} {key} = {value!r}, expected text", hint=_EXAMPLE)
        parts.append(f"{key}={value}")
    return parse_slo(",".join(parts), where) if parts else Slo()


def _classes(listed: object, where: str) -> tuple[SloClass, ...]:
    """Return the classes of requests with limits of their own; no request may be of two."""
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise UsageError(f"{where}: slo.class is no list of tables", hint="write [[slo.class]]")
    found: list[SloClass] = []
    for number, table in enumerate(listed, 1):
        place = f"{where}: [[slo.class]] number {number}"
        known(table, names("slo.class"), place)
        held = _class(table, place)
        for other, before in enumerate(found, 1):
            if held.meets(before):
                raise UsageError(
                    f"{place}: a request can be of this class and of number {other}",
                    hint="give them labels, or bands of prompt_tokens, that do not overlap",
                )
        found.append(held)
    return tuple(found)


def _class(table: Mapping[str, object], where: str) -> SloClass:
    label, band = table.get("label"), table.get("prompt_tokens")
    if label is None and band is None:
        raise UsageError(
            f"{where}: neither label nor prompt_tokens", hint='write label = "chat", or '
            'prompt_tokens = "0..1000"',
        )  # fmt: skip
    if label is not None and (not isinstance(label, str) or not label):
        raise UsageError(f"{where}: label = {label!r}, expected text", hint='write label = "chat"')
    limits = _limits(table, METRICS, where)
    if not limits.text():
        raise UsageError(f"{where}: no limit", hint=_EXAMPLE)
    first, last = (None, None) if band is None else _band(band, where)
    return SloClass(limits, label, first, last)


def _band(value: object, where: str) -> tuple[int | None, int | None]:
    """Return the ends of `FROM..TO`; either may be left out."""
    matched = _BAND.fullmatch(value) if isinstance(value, str) else None
    ends = tuple(int(end) if end else None for end in matched.groups()) if matched else ()
    if len(ends) != 2 or ends == (None, None) or not (ends[0] or 0) < (ends[1] or 10**12):
        raise UsageError(
            f"{where}: prompt_tokens = {value!r}, expected FROM..TO with FROM below TO",
            hint='write prompt_tokens = "0..1000", or "1000.."',
        )
    return ends[0], ends[1]


def _choice(slo: Mapping[str, object], key: str, where: str) -> str:
    choices = SLO_CHOICES[key]
    value = slo.get(key, choices[0])
    if not isinstance(value, str) or value not in choices:
        raise UsageError(
            f"{where}: [slo] {key} = {value!r}, expected one of {', '.join(choices)}",
            hint=f'write {key} = "{choices[0]}" (the default) or "{choices[1]}"',
        )
    return value


def known(table: Mapping[str, object], keys: Iterable[str], where: str) -> None:
    allowed = list(keys)
    for key in table:
        if key not in allowed:
            raise UsageError(f"{where}: unknown key `{key}`", hint=_nearest(key, allowed))


def _nearest(key: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"
