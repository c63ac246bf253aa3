"""Schema -> Arrow: schemas with metadata, building and validating batches at write time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trueput.schema import Column, Table, tables

_STORAGE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "list<int64>": pa.list_(pa.int64()),
}


def _field(column: Column) -> Any:
    meta = {"doc": column.doc, "unit": column.shown_unit, "type": column.type}
    return pa.field(column.name, _STORAGE[column.storage], nullable=column.null, metadata=meta)


@cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of an ingested table, docs and units as field metadata."""
    definition = tables()[table]
    meta: dict[bytes | str, bytes | str] = {
        "table": definition.name,
        "version": str(definition.version),
        "doc": definition.doc,
    }
    return pa.schema([_field(c) for c in definition.columns], metadata=meta)


class InvalidRowsError(Exception):
    """Rows that break their table's schema: a defect of a source, not of the input."""


def conform(
    table: str,
    rows: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]],
    constants: Mapping[str, Any],
) -> pa.Table:
    """Return `rows` as a Table with exactly the schema of `table`.

    Missing columns become NULL, `constants` fill whole columns (run_id, source_id), types are
    cast. Raises InvalidRowsError for unknown columns, a NULL where none may be, or an unknown enum.
    """
    schema = arrow_schema(table)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        rows = _from_dicts(table, rows, schema)
    if unknown := set(rows.column_names) - set(schema.names):
        raise InvalidRowsError(f"{table}: unknown columns {sorted(unknown)}")
    arrays: list[Any] = []
    for item in schema:
        if item.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[item.name], item.type), rows.num_rows))
        elif item.name in rows.column_names:
            arrays.append(_cast(table, rows.column(item.name), item))
        else:
            arrays.append(pa.nulls(rows.num_rows, item.type))
    result = pa.Table.from_arrays(arrays, schema=schema)
    _validate(tables()[table], result)
    return result


def _from_dicts(table: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    names = {name for row in rows for name in row}
    if unknown := names - set(schema.names):
        raise InvalidRowsError(f"{table}: unknown columns {sorted(unknown)}")
    columns: dict[str, Any] = {}
    for item in schema:
        if item.name in names:
            values = [row.get(item.name) for row in rows]
            try:
                columns[item.name] = pa.array(values, item.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise InvalidRowsError(f"{table}.{item.name}: {error}") from error
    if not columns:
        return pa.table({"_": pa.nulls(len(rows))}).select([])
    return pa.table(columns)


def _cast(table: str, array: Any, item: Any) -> Any:
    if array.type == item.type:
        return array
    try:
        return array.cast(item.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRowsError(f"{table}.{item.name}: {error}") from error


def _validate(definition: Table, rows: pa.Table) -> None:
    for column in definition.columns:
        values = rows.column(column.name)
        if not column.null and values.null_count:
            raise InvalidRowsError(f"{definition.name}.{column.name}: {values.null_count} NULLs")
        if column.enum and rows.num_rows:
            allowed = pa.array(list(column.enum), pa.string())
            bad = pc.invert(pc.is_in(pc.drop_null(values), value_set=allowed))
            if pc.any(bad).as_py():
                odd = pc.drop_null(values).filter(bad)[0].as_py()
                raise InvalidRowsError(f"{definition.name}.{column.name}: unknown word `{odd}`")
