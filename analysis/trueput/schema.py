"""The tables, views and glossary terms, read from `schemas/*.toml`.

This is the only module that knows where those files lie: in the wheel they are
`trueput/schemas`, in a checkout the folder `schemas` beside `analysis`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

TYPES: Final[dict[str, tuple[str, str]]] = {
    # semantic type: (storage type, unit)
    "string": ("string", ""),
    "id": ("string", ""),
    "enum": ("string", ""),
    "basis": ("string", ""),
    "bool": ("bool", ""),
    "int64": ("int64", ""),
    "count": ("int64", "count"),
    "tokens": ("int64", "tokens"),
    "bytes": ("int64", "bytes"),
    "time": ("int64", "ns"),
    "span": ("int64", "ns"),
    "spans": ("list<int64>", "ns"),
    "ratio": ("float64", "0..1"),
    "float64": ("float64", ""),
    "per_s": ("float64", "1/s"),
    "sum_ns": ("hugeint", "ns"),
}
"""The closed list of semantic column types; each fixes storage and unit."""

BASIS_MEMBERS: Final = {
    "measured": "timestamps of this very request or step",
    "reported": "a duration or count that a file states",
    "inferred": "computed from step or token records; the method is named",
    "bounded": "low and high are given",
    "unknown": "these files cannot tell",
}
"""The five bases of a figure."""


@dataclass(frozen=True)
class Column:
    """One column: name, semantic type, whether it may be NULL and what NULL then means."""

    name: str
    type: str
    doc: str
    null: bool = True
    null_means: str = ""
    unit: str = ""
    enum: dict[str, str] = field(default_factory=dict)

    @property
    def storage(self) -> str:
        """The storage type: string, bool, int64, float64, hugeint or list<int64>."""
        return TYPES[self.type][0]

    @property
    def shown_unit(self) -> str:
        """The unit, from the semantic type unless the column states a finer one."""
        return self.unit or TYPES[self.type][1]


@dataclass(frozen=True)
class Table:
    """One ingested table or public view, with its columns in order."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    version: int = 1
    kind: str = "table"
    null_rule: str = ""

    def column(self, name: str) -> Column:
        """Return the column of that name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


@dataclass(frozen=True)
class Term:
    """One glossary entry."""

    name: str
    definition: str
    formula: str = ""
    elsewhere: str = ""


_NO_TABLES = frozenset({"glossary", "remedies"})


def schema_folder() -> Path:
    """Return the folder that holds the schema files, in a wheel or in a checkout."""
    here = Path(__file__).resolve().parent
    for candidate in (here / "schemas", here.parent.parent / "schemas"):
        if (candidate / "glossary.toml").is_file():
            return candidate
    raise FileNotFoundError(
        "the schema files of trueput are missing; reinstall it with `pip install --force-reinstall`"
    )


def _column(raw: dict[str, Any], where: str) -> Column:
    known = {"name", "type", "doc", "null", "null_means", "unit", "enum"}
    if unknown := set(raw) - known:
        raise ValueError(f"{where}: unknown column keys {sorted(unknown)}")
    column = Column(**raw)
    if column.type not in TYPES:
        raise ValueError(f"{where}: column `{column.name}` has unknown type `{column.type}`")
    if column.null and not column.null_means:
        raise ValueError(f"{where}: column `{column.name}` may be NULL and does not say when")
    if column.type == "basis" and not column.enum:
        return Column(**{**raw, "enum": BASIS_MEMBERS})
    return column


def _load(path: Path, kind: str) -> Table:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    columns = tuple(_column(c, path.name) for c in raw["columns"])
    if raw["name"] != path.stem:
        raise ValueError(f"{path.name}: its name says `{raw['name']}`")
    return Table(
        name=raw["name"],
        doc=raw["doc"],
        columns=columns,
        key=tuple(raw.get("key", ())),
        version=raw.get("version", 1),
        kind=kind,
        null_rule=raw.get("null_rule", ""),
    )


@cache
def tables() -> dict[str, Table]:
    """Return the ingested tables by name."""
    paths = sorted(schema_folder().glob("*.toml"))
    return {p.stem: _load(p, "table") for p in paths if p.stem not in _NO_TABLES}


@cache
def views() -> dict[str, Table]:
    """Return the public views by name."""
    return {p.stem: _load(p, "view") for p in sorted((schema_folder() / "views").glob("*.toml"))}


@cache
def glossary() -> dict[str, Term]:
    """Return the glossary terms by name."""
    raw = tomllib.loads((schema_folder() / "glossary.toml").read_text(encoding="utf-8"))
    return {t["name"]: Term(**t) for t in raw["term"]}


@cache
def remedies() -> dict[str, str]:
    """Return what to do about a problem, by its code; `source` for the codes of formats."""
    raw = tomllib.loads((schema_folder() / "remedies.toml").read_text(encoding="utf-8"))
    return {code: str(text) for code, text in raw.items()}
