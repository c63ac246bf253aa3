"""Files of a load client that a gate cannot go by: cut ones, and ones whose times cannot be.

A cut result leaves requests out that the server may have served; a comparison over the rest would
judge a smaller load. Only errors count: a file with warnings was read.
"""

from __future__ import annotations

from collections.abc import Mapping

from trueput.warehouse.session import Warehouse

_ERRORS = """
SELECT p.run_id, p.source_id, p.code, p.text, s.format
FROM raw.problems AS p
LEFT JOIN raw.sources AS s ON s.run_id = p.run_id AND s.source_id = p.source_id
WHERE p.severity = 'error' AND p.source_id IS NOT NULL
ORDER BY p.run_id, p.source_id, p.code, p.line
"""
_VANTAGES = """
SELECT DISTINCT run_id, source_id, vantage FROM raw.requests WHERE source_id IS NOT NULL
"""
_UNREADABLE = "INGEST006"


def broken_client_files(warehouse: Warehouse) -> dict[str, str]:
    """Return, for each run that has such a file, which it is and what became of it.

    A file is a load client's if its format is one, or if its requests are told by a client. A file
    that could not be opened at all may be one where no other file of the run is.
    """
    errors = warehouse.ask(_ERRORS).dicts()
    if not errors:
        return {}
    told: dict[str, dict[str, set[str]]] = {}
    for row in warehouse.ask(_VANTAGES).dicts():
        told.setdefault(row["run_id"], {}).setdefault(row["source_id"], set()).add(row["vantage"])
    found: dict[str, list[str]] = {}
    for row in errors:
        vantages = told.get(row["run_id"], {})
        if is_client(row, vantages):
            whose = "may be" if row["code"] == _UNREADABLE else "is"
            found.setdefault(row["run_id"], []).append(
                f"is not whole: `{row['source_id']}`, which {whose} its load client's "
                f"({row['code']}: {row['text']})"
            )
    return {run_id: ", ".join(dict.fromkeys(texts)) for run_id, texts in found.items()}


_TIMES = "SELECT run_id, code, text FROM int_client_times ORDER BY run_id, code, text"


def unbelievable_times(warehouse: Warehouse) -> dict[str, str]:
    """Return, for each run whose client's times contradict the engine's or each other, how."""
    found: dict[str, list[str]] = {}
    for row in warehouse.ask(_TIMES).dicts():
        found.setdefault(row["run_id"], []).append(f"{row['text']} ({row['code']})")
    return {
        run_id: f"has client times that cannot be: {'; '.join(texts)}"
        for run_id, texts in found.items()
    }


def is_client(row: Mapping[str, str | None], vantages: Mapping[str, set[str]]) -> bool:
    """Tell whether a file with an error is a load client's.

    `row` has its `source_id`, `format` and the error's `code`; `vantages` those of the requests
    that each file of its run told of.
    """
    told = vantages.get(row["source_id"] or "", set())
    if "client" in told or row["format"] in _client_formats():
        return True
    if row["format"] == "generic_records":
        return not told
    nobody = not any("client" in many for many in vantages.values())
    return row["code"] == _UNREADABLE and row["format"] is None and nobody


def _client_formats() -> tuple[str, ...]:
    """Return the formats that tell what a load client did."""
    from trueput.sources import all_sources

    return tuple(source.name for source in all_sources() if "load_sessions" in source.tables)
