"""Parts of history: rows of one table in a file, or, where tasks cannot reach the store, the rows themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroups_spark.offsets.records import HISTORY_COLUMNS
from kgroups_spark.offsets.state import GroupRange, group_ranges
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.tables.parts_writer import lake_file_system
from kgroups_spark.tables.schemas import arrow_schema

# Row groups that a reader keeps: neighbouring offsets partitions share one.
ROW_GROUPS_KEPT = 8
# Commits of a shard that are folded at once, some 90 bytes each and as many again while they are.
ROWS_AT_ONCE = 2_000_000
# Texts that repeat from row to row.
_DICTIONARIES = {"offset_commits": ["group_id", "topic", "topic_id"]}
_COLUMNS: dict[str, list[str] | None] = {
    "offset_commits": ["offsets_partition", *HISTORY_COLUMNS],
    "transaction_markers": None,
    "group_records": None,
    "quarantine": None,
    "group_traffic": None,
    "coordinator_state": None,
}


class HistoryPart(NamedTuple):
    """Rows of a table.

    place     URI of a Parquet file, of which each offsets partition takes its own, or the rows of one as Arrow's stream
    is_again  they are of records that were read before, and no table gets them
    """

    table: str
    place: str | bytes
    is_again: bool = False


class PartReader:
    """Reads parts; one in each task. Shards are asked for in ascending order."""

    def __init__(self) -> None:
        self._file = lru_cache(maxsize=64)(_open)
        self._row_group = lru_cache(maxsize=ROW_GROUPS_KEPT)(self._read_row_group)

    def history(self, parts: Sequence[HistoryPart], offsets_partition: int) -> ShardHistory:
        """The history that the parts hold of an offsets partition."""

        def rows(table: str, groups: GroupRange | None = None) -> pa.Table:
            return self.rows([part for part in parts if part.table == table], table, offsets_partition, groups)

        return ShardHistory(
            lambda groups: rows("offset_commits", groups),
            rows("group_records"),
            rows("transaction_markers").sort_by("log_offset"),
            rows("quarantine"),
        )

    def rows(
        self, parts: Sequence[HistoryPart], table: str, offsets_partition: int, groups: GroupRange | None = None
    ) -> pa.Table:
        """Rows of a table that the parts hold of an offsets partition, and of a range of groups."""
        found = [
            some if groups is None else groups.of(some)
            for part in parts
            for some in self._lots(part, offsets_partition, groups)
        ]
        return pa.concat_tables(found) if found else _encoded(_schema(table).empty_table(), table)

    def _lots(self, part: HistoryPart, offsets_partition: int, groups: GroupRange | None) -> Iterator[pa.Table]:
        """The part's rows of an offsets partition, of these groups and maybe of others."""
        if isinstance(part.place, bytes):
            yield _encoded(pa.ipc.open_stream(part.place).read_all().select(_schema(part.table).names), part.table)
            return
        for number in _row_groups(self._file(part.table, part.place), offsets_partition, groups):
            rows = self._row_group(part.place, part.table, number)
            yield rows.filter(pc.equal(rows.column("offsets_partition"), offsets_partition))

    def ranges(self, parts: Sequence[HistoryPart], offsets_partition: int) -> list[GroupRange]:
        """Ranges of groups with some ROWS_AT_ONCE commits each, as far as the parts' row groups let tell them apart."""
        sizes: Counter[str] = Counter()
        for part in parts:
            if part.table == "offset_commits" and isinstance(part.place, str):
                file = self._file(part.table, part.place)
                for number in _row_groups(file, offsets_partition):
                    bounds = _bounds(file, number, "group_id")
                    if bounds is not None:
                        sizes[bounds[0]] += file.metadata.row_group(number).num_rows
        borders, rows = [], 0
        for group_id in sorted(sizes):
            if rows and rows + sizes[group_id] > ROWS_AT_ONCE:
                borders.append(group_id)
                rows = 0
            rows += sizes[group_id]
        return group_ranges(borders)

    def _read_row_group(self, uri: str, table: str, number: int) -> pa.Table:
        return self._file(table, uri).read_row_group(number, columns=_COLUMNS[table])


def _open(table: str, uri: str) -> pq.ParquetFile:
    storage, path = lake_file_system(uri)
    return pq.ParquetFile(storage.open_input_file(path), read_dictionary=_DICTIONARIES.get(table))


def _schema(table: str) -> pa.Schema:
    """Of the columns that are read."""
    columns = _COLUMNS[table]
    return arrow_schema(table) if columns is None else pa.schema(map(arrow_schema(table).field, columns))


def _encoded(rows: pa.Table, table: str) -> pa.Table:
    """The rows with dictionaries where those of files have them."""
    for name in _DICTIONARIES.get(table, ()):
        at, encoded = rows.schema.get_field_index(name), rows.column(name).dictionary_encode()
        rows = rows.set_column(at, rows.field(at).with_type(encoded.type), encoded)
    return rows


def _row_groups(file: pq.ParquetFile, offsets_partition: int, groups: GroupRange | None = None) -> list[int]:
    """Row groups that may have rows of the offsets partition, and of the range of groups."""
    found = []
    for number in range(file.metadata.num_row_groups):
        partitions = _bounds(file, number, "offsets_partition")
        if partitions is not None and not partitions[0] <= offsets_partition <= partitions[1]:
            continue
        names = None if groups is None else _bounds(file, number, "group_id")
        if groups is None or names is None or groups.meets(*names):
            found.append(number)
    return found


def _bounds(file: pq.ParquetFile, number: int, column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column in a row group; None: the file does not say them."""
    names = [file.metadata.schema.column(index).path for index in range(file.metadata.num_columns)]
    statistics = file.metadata.row_group(number).column(names.index(column)).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None
