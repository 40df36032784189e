"""Lookup of rows of one table in another by equal columns, without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Column: TypeAlias = "pa.ChunkedArray | pa.Array"
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOWHERE = -1


def columns_of(table: pa.Table, names: Sequence[str]) -> list[pa.ChunkedArray]:
    return [table[name] for name in names]


def rows_among(wanted: Sequence[Column], among: Sequence[Column]) -> Rows:
    """The index of a row of the columns `among` with the same values, for each row of `wanted`; NOWHERE: there is none.

    A null equals nothing, as in SQL.
    """
    if not len(wanted[0]) or not len(among[0]):
        return np.full(len(wanted[0]), NOWHERE)
    of_wanted, of_among = np.zeros(len(wanted[0]), np.int64), np.zeros(len(among[0]), np.int64)
    for column, other in zip(wanted, among, strict=True):
        values = pc.unique(other)
        of_wanted = _numbered(of_wanted, column, values)
        # Makes the numbers dense again, because the next column multiplies them.
        known, of_among = np.unique(_numbered(of_among, other, values), return_inverse=True)
        of_wanted = _places(of_wanted, known)
    rows = np.full(len(of_among) + 1, NOWHERE)
    rows[of_among] = np.arange(len(of_among))
    return rows[of_wanted]


def are_among(wanted: Sequence[Column], among: Sequence[Column]) -> Flags:
    """Whether there is such a row."""
    is_there: Flags = rows_among(wanted, among) != NOWHERE
    return is_there


def unmatched(one: pa.Table, other: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of each table that the other does not have. Both have the same columns and distinct rows; a null equals
    a null, and dictionaries become texts."""
    names = one.column_names
    sides = [
        plain(each).append_column("is_other", pa.repeat(is_other, len(each)))
        for each, is_other in ((one, False), (other, True))
    ]
    rows = pa.concat_tables(sides).group_by(names).aggregate([("is_other", "count"), ("is_other", "any")])
    rows = rows.filter(pc.equal(rows["is_other_count"], 1))
    is_other = rows["is_other_any"]
    return rows.filter(pc.invert(is_other)).select(names), rows.filter(is_other).select(names)


def plain(table: pa.Table) -> pa.Table:
    """The table with dictionaries as texts."""
    types = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(zip(table.column_names, types, strict=True)))


def _numbered(so_far: Rows, column: Column, values: pa.Array) -> Rows:
    """One number for the earlier columns' number and this column's value; NOWHERE if either is missing."""
    codes = pc.index_in(column, value_set=values, skip_nulls=True).fill_null(NOWHERE).to_numpy(zero_copy_only=False)
    return np.where((so_far == NOWHERE) | (codes == NOWHERE), NOWHERE, so_far * len(values) + codes)


def _places(wanted: Rows, known: Rows) -> Rows:
    """The index of each number in `known`, which is sorted; NOWHERE: it is not there."""
    if not len(known):
        return np.full(len(wanted), NOWHERE)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((wanted != NOWHERE) & (known[places] == wanted), places, NOWHERE)
