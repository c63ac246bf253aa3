"""The database's type for each storage type of a table's columns."""

from __future__ import annotations

from typing import Final

SQL_TYPES: Final = {
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "list<int64>": "BIGINT[]",
    "hugeint": "HUGEINT",
}
