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
CODED = pa.dictionary(pa.int32(), pa.string())


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


_REPEATED_IDS = ("run_id", "source_id", "device_key")


@cache
def word_columns(table: str) -> tuple[str, ...]:
    """Return the columns that are kept as dictionaries: words, of which there are few.

    Other ids and numbers hardly repeat: building dictionaries for them costs time, memory, space.
    """
    return tuple(
        item.name
        for item in arrow_schema(table)
        if item.type == pa.string()
        and (item.name in _REPEATED_IDS or (item.metadata or {}).get(b"type") != b"id")
    )


@cache
def coded_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table with its word columns as dictionaries."""
    words = word_columns(table)
    fields = [f.with_type(CODED) if f.name in words else f for f in arrow_schema(table)]
    metadata: Any = arrow_schema(table).metadata
    return pa.schema(fields, metadata=metadata)


class InvalidRowsError(Exception):
    """Rows that break their table's schema: a defect of a source, not of the input."""


def conform(
    table: str,
    rows: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]],
    constants: Mapping[str, Any],
    *,
    coded: bool = False,
) -> pa.Table:
    """Return `rows` as a Table with exactly the schema of `table`, or with `coded` its coded one.

    Missing columns become NULL, `constants` fill whole columns (run_id, source_id), types are
    cast. Raises InvalidRowsError for unknown columns, a NULL where none may be, or an unknown enum.
    """
    schema = coded_schema(table) if coded else arrow_schema(table)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        rows = _from_dicts(table, rows, arrow_schema(table))
    if unknown := set(rows.column_names) - set(schema.names):
        raise InvalidRowsError(f"{table}: unknown columns {sorted(unknown)}")
    arrays: list[Any] = []
    for item in schema:
        if item.name in constants:
            arrays.append(constant(constants[item.name], rows.num_rows, item.type))
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


def constant(value: Any, count: int, kind: pa.DataType) -> Any:
    """Return a column of `count` times the same value."""
    if kind != CODED:
        one: Any = pa.scalar(value, kind)
        return pa.repeat(one, count)
    indices = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def _cast(table: str, array: Any, item: Any) -> Any:
    if array.type == item.type and not _has_null_word(array):
        return array
    try:
        if item.type == CODED and (array.type == CODED or not pa.types.is_dictionary(array.type)):
            return array.cast(pa.string()).dictionary_encode()
        return array.cast(item.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRowsError(f"{table}.{item.name}: {error}") from error


def _has_null_word(array: Any) -> bool:
    """Return whether a NULL stands among the words of a dictionary: no row of it counts as NULL."""
    return array.type == CODED and any(chunk.dictionary.null_count for chunk in array.chunks)


def _validate(definition: Table, rows: pa.Table) -> None:
    for column in definition.columns:
        values = rows.column(column.name)
        if not column.null and values.null_count:
            raise InvalidRowsError(f"{definition.name}.{column.name}: {values.null_count} NULLs")
        if pa.types.is_dictionary(values.type) and _all_known(values, column.enum):
            continue
        if column.enum and rows.num_rows:
            values = values.cast(pa.string())
            allowed = pa.array(list(column.enum), pa.string())
            bad = pc.invert(pc.is_in(pc.drop_null(values), value_set=allowed))
            if pc.any(bad).as_py():
                odd = pc.drop_null(values).filter(bad)[0].as_py()
                raise InvalidRowsError(f"{definition.name}.{column.name}: unknown word `{odd}`")


def _all_known(values: Any, allowed: Any) -> bool:
    """Return whether every entry of every dictionary is an allowed word, or any word is."""
    if not allowed:
        return True
    return all(set(chunk.dictionary.to_pylist()) <= set(allowed) for chunk in values.chunks)
