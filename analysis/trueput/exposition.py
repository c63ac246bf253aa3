"""What all readers of Prometheus text share: when a scrape was taken, names and labels of series.

A scrape's instant stands in a marker line (`# SCRAPE <unix>`), in another comment or bare line that
holds a time, in the file's name, or on each sample.
"""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass
from decimal import Decimal

from trueput.units import to_ns

EARLIEST_NS = 946_684_800 * 1_000_000_000
"""The year 2000: an earlier instant is some other number."""
LATEST_NS = 4_102_444_800 * 1_000_000_000
"""The year 2100."""

_EPOCH = re.compile(r"(?<![\w.:-])(\d{10}(?:\.\d{1,9})?|\d{13}|\d{16}|\d{19})(?![\w:])")
_EPOCH_IN_NAME = re.compile(r"(?<!\d)(\d{10}\.\d{1,9}|\d{19}|\d{16}|\d{13}|\d{10})(?!\d)")
_ISO = re.compile(
    r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)[T _-](\d\d)[:-]?(\d\d)[:-]?(\d\d)(?:[.,](\d{1,9}))?"
    r"(?!\d)\s?(Z|UTC|[+-]\d\d:?\d\d)?"
)
_NAME = re.compile(rb"[A-Za-z_:][\w:]*")
_QUOTED_NAME = re.compile(rb'\{\s*"([A-Za-z_:][\w:]*)"\s*,?')
_LABEL = re.compile(rb'\s*([A-Za-z_][\w.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')
_STAMPED = re.compile(rb"[\s}]\S*\d\S*\s+\d{13}\s*$")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n"}
_UNITS = {10: "s", 13: "ms", 16: "us", 19: "ns"}
_MARKER = re.compile(rb"#\s*SCRAPE(_ERROR)?\b\s*(.*)")
_WORDS = (b"# HELP", b"# TYPE", b"# UNIT", b"# EOF")
_MAX_MARKER_BYTES = 200


@dataclass(frozen=True)
class Marker:
    """A line that begins a scrape: its instant (None where unreadable), and whether it failed."""

    at_ns: int | None
    failed: bool = False
    zone_assumed: bool = False


def marker(line: bytes) -> Marker | None:
    """Return what a comment line, or a bare line holding only a time, says of the next scrape."""
    if len(line) > _MAX_MARKER_BYTES or line.startswith(_WORDS):
        return None
    explicit = _MARKER.match(line)
    text = (explicit[2] if explicit else line.lstrip(b"# ")).decode("ascii", "replace")
    at_ns = _epoch_ns(_EPOCH, text)
    assumed = False
    if at_ns is None:
        at_ns, assumed = _iso_ns(text, zones=True)
    if explicit:
        return Marker(at_ns, bool(explicit[1]), assumed)
    return None if at_ns is None else Marker(at_ns, zone_assumed=assumed)


def bare_time(line: bytes) -> Marker | None:
    """Return the marker for a line that is nothing but a time, as `date +%s` prints it."""
    if len(line) > 40 or not line[:1].isdigit():
        return None
    text = line.decode("ascii", "replace").strip()
    if _EPOCH.fullmatch(text) or _ISO.fullmatch(text):
        return marker(b"# " + line)
    return None


def name_ns(name: str) -> tuple[int | None, bool]:
    """Return the instant in a file name, and whether UTC had to be assumed for it."""
    at_ns, assumed = _iso_ns(name, zones=False)
    if at_ns is not None:
        return at_ns, assumed
    return _epoch_ns(_EPOCH_IN_NAME, name), False


def sample_ns(text: bytes) -> int | None:
    """Return a sample's own timestamp: ms (Prometheus) or seconds (OpenMetrics), by its size."""
    try:
        number = Decimal(text.decode("ascii"))
        size = len(str(abs(int(number))))
    except (ArithmeticError, ValueError):
        return None
    unit = "s" if size <= 11 else "ms" if size <= 14 else "us" if size <= 17 else "ns"
    return to_ns(number, unit)


def is_whole(line: bytes) -> bool:
    """Return whether a last line without an end lacks nothing: it has a value and, behind it, an
    instant with all the digits of milliseconds. A number at the end may lack digits."""
    return _STAMPED.search(line) is not None


def split_name(key: bytes) -> tuple[str, bytes] | None:
    """Return the metric name and the text between the braces; None where `key` is no series."""
    found = _NAME.match(key)
    if found is None:
        quoted = _QUOTED_NAME.match(key)
        if quoted is None or not key.endswith(b"}"):
            return None
        return quoted[1].decode(), key[quoted.end() : -1]
    rest = key[found.end() :].strip()
    if not rest:
        return found[0].decode(), b""
    if not (rest.startswith(b"{") and rest.endswith(b"}")):
        return None
    return found[0].decode(), rest[1:-1]


def parse_labels(text: bytes) -> dict[str, str] | None:
    """Return the labels between the braces, unescaped; None where they are not well formed."""
    labels: dict[str, str] = {}
    at = 0
    text = text.strip()
    while at < len(text):
        found = _LABEL.match(text, at)
        if found is None:
            return None
        value = found[2].decode("utf-8", "replace")
        if "\\" in value:
            value = _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[1]), value)
        labels[found[1].decode()] = value
        at = found.end()
    return labels


def _epoch_ns(pattern: re.Pattern[str], text: str) -> int | None:
    for found in pattern.finditer(text):
        digits = found[1]
        at_ns = to_ns(digits, _UNITS[len(digits.partition(".")[0])])
        if at_ns is not None and EARLIEST_NS <= at_ns <= LATEST_NS:
            return at_ns
    return None


def _iso_ns(text: str, *, zones: bool) -> tuple[int | None, bool]:
    for found in _ISO.finditer(text):
        year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
        if not (2000 <= year < 2100 and 1 <= month <= 12 and 1 <= day <= 31):
            continue
        if hour > 23 or minute > 59 or second > 60:
            continue
        seconds = timegm((year, month, day, hour, minute, second))
        zone = found[8] or ""
        if zones and zone[:1] in "+-" and zone:
            shift = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
            seconds -= shift if zone[0] == "+" else -shift
        fraction = int((found[7] or "").ljust(9, "0"))
        return seconds * 1_000_000_000 + fraction, zone == ""
    return None, False
