"""Plain rows and columns -> the lake's tables in Arrow: the one place where milliseconds become TIMESTAMPs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.tables.columns import TIMESTAMP
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.words import LAST_MS

# Spark can show a TIMESTAMP of the years 1 to 9999.
FIRST_MS = -62_135_596_800_000

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
# Tables with a row for each offset: texts that come as dictionaries go to Parquet files as they are.
OF_OFFSETS = {"committed_offsets", "offset_expiry", "checkpoints"}


def table_of_rows(
    name: str, columns: Sequence[str] | None, rows: Sequence[Sequence[Any]], **constants: Any
) -> pa.Table:
    """Rows of the table in the order of `columns` (None: the table's), with the `constants`. Times are epoch ms; None
    and -1 become null; one out of range becomes the nearest: a commit from the year 50,000 must not expire today."""
    if columns is None:
        columns = [name for name in arrow_schema(name).names if name not in constants]
    values = dict(zip(columns, zip(*rows, strict=True), strict=True)) if rows else {}
    arrays = [
        constant(constants[field.name], len(rows), field.type)
        if field.name in constants
        else column(values.get(field.name, ()), field.type)
        for field in arrow_schema(name)
    ]
    return pa.table(arrays, schema=arrow_schema(name))


def table_of(name: str, columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int, **constants: Any) -> pa.Table:
    """The same from columns in any order: others are left out, and a missing one is null unless constant."""
    arrays = []
    for field in arrow_schema(name):
        values = None if field.name in constants else columns.get(field.name)
        if values is None:
            is_text = name in OF_OFFSETS and field.type == pa.string()
            kind = pa.dictionary(pa.int32(), field.type) if is_text else field.type
            arrays.append(constant(constants.get(field.name), rows, kind))
        elif values.type == field.type or (name in OF_OFFSETS and pa.types.is_dictionary(values.type)):
            arrays.append(values)
        else:
            arrays.append(nearest_timestamps(values) if field.type == TIMESTAMP else values.cast(field.type))
    return pa.table(arrays, pa.schema(f.with_type(a.type) for f, a in zip(arrow_schema(name), arrays, strict=True)))


def plain(table: pa.Table) -> pa.Table:
    """The table with dictionaries as texts."""
    types = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(zip(table.column_names, types, strict=True)))


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows, in a hundredth of the time of Schema.empty_table: a replay makes many for each shard."""
    return pa.Table.from_batches([], schema=schema)


def column(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """The values as a column of a table; times are epoch ms."""
    if data_type == TIMESTAMP:
        return nearest_timestamps(pa.array(values, pa.int64()))
    if pa.types.is_map(data_type):
        return pa.array([None if entries is None else list(entries.items()) for entries in values], data_type)
    return pa.array(values, data_type)


def nearest_timestamps(ms: pa.Array | pa.ChunkedArray) -> pa.Array:
    """TIMESTAMPs of epoch ms, the nearest one for a time out of range; -1 and null become null."""
    values = ms.fill_null(-1).to_numpy(zero_copy_only=False)
    # By numpy, because pyarrow would need eight calls, which cost more than a small shard's few values.
    micros = np.clip(values, FIRST_MS, LAST_MS) * 1000
    return pa.array(micros.view("datetime64[us]"), TIMESTAMP, mask=values == -1)


def timestamps(ms: NDArray[np.int64], none: NDArray[np.bool_] | None = None) -> pa.Array:
    """TIMESTAMPs of epoch ms; null if `none`, or if the time is out of range."""
    missing = out_of_range(ms)
    if none is not None:
        missing |= none
    return pa.array(ms * 1000, mask=missing if missing.any() else None).cast(TIMESTAMP)


def out_of_range(ms: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which epoch ms no TIMESTAMP column holds."""
    return np.asarray((ms < FIRST_MS) | (ms > LAST_MS))


def where(rows: pa.Table, chosen: NDArray[np.bool_]) -> pa.Table:
    """The chosen rows. Consecutive rows, such as a shard's in a file, are not copied."""
    at = np.flatnonzero(chosen)
    if len(at) and at[-1] - at[0] + 1 > len(at):
        return rows.filter(pa.array(chosen))
    return rows.slice(at[0], len(at)) if len(at) else rows.slice(0, 0)


def by_name(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(rows.column_names, rows.columns, strict=True))


def sorted_by(rows: pa.Table, *columns: str) -> pa.Table:
    """The rows in the order of the columns, the first one first; equal rows keep theirs. Rows that are in order are not
    copied: that costs eight times the sort."""
    order = pc.sort_indices(rows.select(columns), [(column, "ascending") for column in columns]).to_numpy()
    return rows if np.array_equal(order, np.arange(len(order))) else rows.take(order)


def with_columns(rows: Rows, **columns: pa.Array | pa.ChunkedArray) -> Rows:
    """The rows with these values in the columns of those names."""
    for name, values in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows


def constant(value: Any, rows: int, data_type: pa.DataType) -> pa.Array:
    """The same value `rows` times."""
    if value is not None and pa.types.is_integer(data_type):  # Arrow takes ten times as long
        values = pa.py_buffer(np.full(rows, value, data_type.to_pandas_dtype()))  # pa.array would import numpy.ma
        return pa.Array.from_buffers(data_type, rows, [None, values])
    return pa.nulls(rows, data_type) if value is None else pa.repeat(pa.scalar(value, data_type), rows)


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array; ChunkedArray.combine_chunks would copy even a column of one chunk."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()


def in_one_chunk(*parts: pa.Table) -> pa.Table:
    """The rows of all parts with one chunk a column. A column's chunks are freed before the next column is copied, if
    the caller has no names for the parts."""
    columns, rows = [], pa.concat_tables([each for each in parts if len(each)] or parts)
    del parts
    schema = rows.schema
    while rows.num_columns:
        columns.append(pa.chunked_array([one_array(rows.column(0))]))
        rows = rows.remove_column(0)
    return pa.table(columns, schema=schema)


def numbers(column: pa.Array | pa.ChunkedArray, *, none: int = 0) -> NDArray[np.int64]:
    """A column of integers as int64, with `none` for null."""
    column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, none)
    return np.asarray(column.to_numpy())


def flags(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A boolean column; null is false."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False))


def is_given(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether a value is not null."""
    return np.asarray(column.is_valid().to_numpy())
