"""CSV and JSON-lines files as records: maps from column name to text or JSON value."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from trueput.scan import Damage, text_blocks

Record: TypeAlias = dict[str, Any]
_DECODER: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_UNREADABLE: Final = (ValueError, RecursionError, ArithmeticError)


@dataclass(frozen=True)
class Malformed:
    """A line that is no record."""

    text: str
    line: int


def json_records(path: Path) -> Iterator[Record | Malformed | Damage]:
    """Yield one record per line. Numbers with a fraction are Decimal, so that no digit is lost."""
    for block in text_blocks(path):
        if isinstance(block, Damage):
            yield block
            return
        for offset, line in enumerate(block.data.split(b"\n")):
            stripped = line.strip(b" \t\r\xef\xbb\xbf\x1e")
            if not stripped:
                continue
            record = _json_record(stripped)
            number = block.first_line + offset
            yield Malformed("no JSON object", number) if record is None else record


def _json_record(line: bytes) -> Record | None:
    try:
        return _DECODER.decode(line)
    except _UNREADABLE:
        pass
    try:  # bare NaN and Infinity, odd escapes
        record = json.loads(line.decode("utf-8", "replace"), parse_float=Decimal, strict=False)
    except _UNREADABLE:
        return None
    return record if isinstance(record, dict) else None


def csv_records(path: Path, delimiter: str) -> Iterator[Record | Malformed | Damage]:
    """Yield one record per row under the header of the first row. Empty cells are absent."""
    damage: list[Damage] = []
    rows = csv.reader(_lines(path, damage), delimiter=delimiter)
    header: list[str] | None = None
    while True:
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            yield Malformed(f"no CSV row: {error}"[:100], rows.line_num)
            continue
        if not any(cell.strip() for cell in row):
            continue
        if header is None:
            header = [cell.strip() for cell in row]
            continue
        if len(row) > len(header):
            yield Malformed(f"{len(row)} cells under {len(header)} headings", rows.line_num)
            continue
        yield {key: text for key, cell in zip(header, row, strict=False) if (text := cell.strip())}
    yield from damage


def _lines(path: Path, damage: list[Damage]) -> Iterator[str]:
    first = True
    for block in text_blocks(path):
        if isinstance(block, Damage):
            damage.append(block)
            return
        text = block.data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        if first:
            text = text.removeprefix("\N{BOM}")
            first = False
        yield from text.splitlines(keepends=True)
