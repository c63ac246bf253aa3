"""Bytes of a log -> clean bytes.

Undecodable bytes and colour codes are replaced or removed here, and of a line that a progress bar
wrote over (bare carriage returns) only what stood last is kept.
"""

from __future__ import annotations

import json
import re
from typing import Final

import numpy as np

from trueput.sources.vllm_log.places import Text
from trueput.sources.vllm_log.problems import Problems

WRITTEN_OVER: Final = np.frombuffer(b"\x1b\r", np.uint8)
"""Control characters that are looked at here: the escape of colour codes, carriage returns."""
ANSI: Final = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


CRLF_SHARE: Final = 0.9
"""A file that went through Windows or a terminal may begin with a line that did not."""


def is_crlf(head: bytes) -> bool:
    """Return whether nearly every line of `head` ends in CR LF."""
    feeds = head.count(b"\n")
    return feeds > 1 and head.count(b"\r\n") >= CRLF_SHARE * feeds


def is_clean(text: Text) -> bool:
    """Return whether there is nothing to clean: no colour code, no carriage return, only ASCII."""
    return text.is_ascii() and not np.isin(text.controls[1], WRITTEN_OVER).any()


def clean(data: bytes, first_line: int, crlf: bool, problems: Problems) -> bytes:
    """Return `data` as UTF-8 without colour codes and without what was written over."""
    if not data.isascii():
        data = _valid_utf8(data, first_line, problems)
    if b"\x1b" in data:
        data = ANSI.sub(b"", data)
    if b"\r" in data:
        if crlf:
            data = data.replace(b"\r\n", b"\n")
        if data.count(b"\r") > data.count(b"\r\n"):
            data = b"\n".join([_last_written(line) for line in data.split(b"\n")])
    return data


def _valid_utf8(data: bytes, first_line: int, problems: Problems) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError:
        lines = data.split(b"\n")
        for index, line in enumerate(lines):
            try:
                line.decode()
            except UnicodeDecodeError:
                problems.add("VLOG002", first_line + index)
                lines[index] = line.decode(errors="replace").encode()
        return b"\n".join(lines)
    return data


def _last_written(line: bytes) -> bytes:
    """Return what follows the last carriage return; one at the end stays (it marks a message of
    several lines)."""
    body = line.rstrip(b"\r")
    shown = body.rpartition(b"\r")[2]
    return shown + b"\r" if len(body) < len(line) else shown


def is_broken_json(data: bytes) -> bool:
    """Return whether a line begins as an object and is none."""
    if not data.lstrip().startswith(b"{"):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return True
    return False
