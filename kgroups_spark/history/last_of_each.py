"""The last record of each key, among rows that come in lots."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kgroups_spark.offsets.numbers import I64, LARGEST_KEY, Flags, starts_of
from kgroups_spark.tables.arrays import flags, numbers

# The number of rows that wait for the comparison of their keys; at least the number of keys.
ROWS_AT_ONCE = 1 << 20


class Contest(NamedTuple):
    """The rows of a key from its last base on stay; without a base all of its rows stay.

    key           the key's columns, for each row
    is_in         rows that take part; the contest keeps no other row
    is_base       rows that are a base; None: all are, so only the last row of a key stays
    """

    key: pa.Table
    is_in: Flags
    is_base: Flags | None = None


class LastOfEach:
    """A contest among all added rows, by their numbers. Memory: one row for each key, and ROWS_AT_ONCE rows."""

    def __init__(self) -> None:
        self._lots: list[pa.Table] = []
        self._waiting, self._left = 0, 0

    def add(self, contest: Contest, log_offset: I64, number: I64) -> None:
        base = np.ones(len(number), np.bool_) if contest.is_base is None else contest.is_base
        key = {f"key_{n}": _encoded(column) for n, column in enumerate(contest.key.columns)}
        rows = pa.table(key | {"log_offset": log_offset, "number": number, "is_base": base})
        self._lots.append(rows.filter(pa.array(contest.is_in)))
        self._waiting += len(self._lots[-1])
        if self._waiting >= max(self._left, ROWS_AT_ONCE):
            self._compare()

    def numbers(self) -> I64:
        """The rows that stay."""
        self._compare()
        return numbers(self._lots[0]["number"])

    def _compare(self) -> None:
        rows = pa.concat_tables(self._lots).unify_dictionaries()
        left = rows.filter(pa.array(_from_last_base_on(rows))).combine_chunks()
        self._lots, self._waiting, self._left = [left], 0, len(left)


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, with texts and bytes as dictionaries, because keys repeat them."""
    is_number = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    return column if is_number or pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _from_last_base_on(rows: pa.Table) -> Flags:
    """Which rows are at or after the last base of their key."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    log_offset, key = numbers(rows["log_offset"]), _key_numbers(rows)
    base = np.where(flags(rows["is_base"]), log_offset, -1)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(starts_of(key[order]))
    last = np.repeat(np.maximum.reduceat(base[order], starts), np.diff(starts, append=len(order)))
    stays = np.empty(len(rows), np.bool_)
    stays[order] = log_offset[order] >= last
    return stays


def _key_numbers(rows: pa.Table) -> I64:
    """The same number for rows with the same key; null equals null."""
    key = np.zeros(len(rows), np.int64)
    for name in (name for name in rows.column_names if name.startswith("key_")):
        codes = _codes(rows[name])
        low, span = int(codes.min()), int(codes.max()) - int(codes.min()) + 1
        if (int(key.max()) + 1) * span >= LARGEST_KEY:
            key = np.unique(key, return_inverse=True)[1]
            codes, span = np.unique(codes, return_inverse=True)[1], len(codes)
            low = 0
        key = key * span + (codes - low)
    return key


def _codes(column: pa.ChunkedArray) -> I64:
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([chunk.indices for chunk in column.chunks], column.type.index_type)
        return numbers(column, none=-1)
    if not column.null_count:
        return numbers(column)
    return np.unique(numbers(column.dictionary_encode().combine_chunks().indices, none=-1), return_inverse=True)[1]
