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
    *,
    coded: bool = False,
) -> pa.Table:
    """Return `rows` as a Table with exactly the schema of `table`.

    Missing columns become NULL, `constants` fill whole columns (run_id, source_id), types are
    cast. With `coded` texts that come as a dictionary stay one, and constant texts become one.
    Raises InvalidRowsError for unknown columns, a NULL where none may be, or an unknown enum.
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
            arrays.append(_constant(constants[item.name], item.type, rows.num_rows, coded=coded))
        elif item.name in rows.column_names:
            column = rows.column(item.name)
            arrays.append(column if coded and _is_coded(column) else _cast(table, column, item))
        else:
            arrays.append(pa.nulls(rows.num_rows, item.type))
    result = pa.Table.from_arrays(arrays, schema=coded_schema(schema, arrays))
    _validate(tables()[table], result)
    return result


CODED = pa.dictionary(pa.int32(), pa.string())
"""The type of a text column as positions in a short list of its different texts."""


def coded_schema(schema: pa.Schema, arrays: Sequence[Any]) -> pa.Schema:
    """Return the schema with those texts as dictionaries that `arrays` holds so."""
    for at, array in enumerate(arrays):
        if array.type == CODED and schema.field(at).type != CODED:
            schema = schema.set(at, schema.field(at).with_type(CODED))
    return schema


def _is_coded(column: Any) -> bool:
    """Whether a column is texts by position, without a NULL among the texts themselves."""
    return column.type == CODED and not any(c.dictionary.null_count for c in column.chunks)


def _constant(value: Any, kind: pa.DataType, rows: int, *, coded: bool) -> Any:
    if coded and kind == pa.string() and isinstance(value, str):
        zeros: Any = pa.repeat(pa.scalar(0, pa.int32()), rows)
        return pa.DictionaryArray.from_arrays(zeros, pa.array([value], pa.string()))
    constant: Any = pa.scalar(value, kind)
    return pa.repeat(constant, rows)


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
            if values.type == CODED:
                chunks: list[Any] = values.chunks
                if all(_within(chunk.dictionary, allowed) for chunk in chunks):
                    continue
                values = values.cast(pa.string())  # a text that no row has is no fault
            bad = pc.invert(pc.is_in(pc.drop_null(values), value_set=allowed))
            if pc.any(bad).as_py():
                odd = pc.drop_null(values).filter(bad)[0].as_py()
                raise InvalidRowsError(f"{definition.name}.{column.name}: unknown word `{odd}`")


def _within(texts: Any, allowed: Any) -> bool:
    return bool(pc.all(pc.is_in(texts, value_set=allowed)).as_py())
