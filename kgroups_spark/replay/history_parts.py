"""Parts of history: rows of one table in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgroups_spark.expiry.clean_up import DECIDED_BY, HELD_GROUPS
from kgroups_spark.lake.parts_reader import DICTIONARIES
from kgroups_spark.lake.parts_writer import column_places
from kgroups_spark.offsets.ranges import EVERY_SLOT, FIRST, SLOT, Border, SlotRange, ranges_of
from kgroups_spark.offsets.records import HISTORY_COLUMNS
from kgroups_spark.replay.checkpoint_rows import ENTRIES
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.replay.stored_tables import ROWS_AT_ONCE, StoredTable, TaskShards, has_shard
from kgroups_spark.storage.files import file_system
from kgroups_spark.tables.rows import no_rows, where
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema

# The number of files that a reader keeps open.
FILES_KEPT = 64
# Row groups are read in lots of this many rows, so that a lot's memory is free once its rows have been used.
ROWS_OF_LOT = 8192
# The most rows that a reader keeps for the next range of slots, or the next offsets partition. Each sorted lot of a
# night, of which a file may have several, has one row group at most that goes on there.
ROWS_KEPT = 1 << 19
_COLUMNS: dict[str, list[str] | None] = {
    "offset_commits": ["offsets_partition", *HISTORY_COLUMNS],
    "transaction_markers": None,
    "group_records": None,
    "quarantine": None,
    "group_traffic": None,
    # The entries of saved states, with their audit and partition.
    CHECKPOINTS: ["audit_id", "offsets_partition", "reason", *ENTRIES.names],
    "offset_expiry": None,
    **{name: [*columns] for name, columns in DECIDED_BY.items() if name != HELD_GROUPS},
}
# The number of commits from parts that are folded together. A worker's memory grows by about 400 bytes with each.
COMMITS_AT_ONCE = 50_000


class HistoryPart(NamedTuple):
    """Rows of a table.

    place     URI of a Parquet file with rows of any offsets partitions
    is_again  the records were read before, so their rows go into no table
    shards    the least and the greatest offsets partition of the rows; None: not known
    """

    table: str
    place: str
    is_again: bool = False
    shards: tuple[int, int] | None = None

    def may_have(self, offsets_partition: int) -> bool:
        return has_shard(self.shards, offsets_partition)


class RowGroup(NamedTuple):
    """A row group of a file. `offsets_partitions`, `borders`: no row is before the first or after the second of them;
    None: without statistics."""

    number: int
    rows: int
    offsets_partitions: tuple[int, int] | None
    borders: tuple[Border, Border] | None

    def may_have(self, offsets_partition: int, slots: SlotRange = EVERY_SLOT) -> bool:
        """Whether the row group may have rows of these slots of the offsets partition."""
        if not has_shard(self.offsets_partitions, offsets_partition):
            return False
        return self.borders is None or slots.meets(*self.borders)

    def may_go_beyond(self, offsets_partition: int, slots: SlotRange) -> bool:
        """Whether the row group may have rows of later slots, or of a later offsets partition."""
        if self.offsets_partitions is None or self.offsets_partitions[1] > offsets_partition:
            return True
        if slots.high is None:
            return False
        return self.borders is None or self.borders[1] >= slots.high


class Kept(NamedTuple):
    """Lots of rows of a row group, with all of its rows from a slot of an offsets partition on."""

    lots: list[pa.Table]
    since: tuple[int, Border]

    @property
    def rows(self) -> int:
        return sum(map(len, self.lots))


class PartFile:
    """An open file with rows of a table."""

    def __init__(self, table: str, uri: str) -> None:
        storage, path = file_system(uri)
        self._table, self._columns = table, _COLUMNS[table]
        self._file = pq.ParquetFile(
            storage.open_input_file(path),
            read_dictionary=DICTIONARIES.get(table),
            coerce_int96_timestamp_unit="us",  # as Spark writes times
        )
        metadata = self._file.metadata
        places = column_places(metadata)
        self.row_groups = [_row_group(metadata.row_group(n), n, places) for n in range(metadata.num_row_groups)]

    def read(self, number: int) -> Iterator[pa.Table]:
        """The rows of row group `number` in lots, with the columns of `part_schema`."""
        for rows in self._lots(number, self._columns):
            rows = _completed(rows, part_schema(self._table))
            yield rows if self._table in DICTIONARIES else _of_schema(rows, part_schema(self._table))

    def columns_of(self, number: int, offsets_partition: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of row group `number` in the rows of an offsets partition."""
        for rows in self._lots(number, ["offsets_partition", *columns]):
            yield of_partition(rows, offsets_partition)

    def _lots(self, number: int, columns: list[str] | None) -> Iterator[pa.Table]:
        # A task has one core, and each thread would keep memory of its own.
        batches = self._file.iter_batches(ROWS_OF_LOT, row_groups=[number], columns=columns, use_threads=False)
        return (pa.Table.from_batches([batch]) for batch in batches)


def _completed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the schema's columns, in its order; null where a file of an older layout lacks a column."""
    if rows.column_names == schema.names:
        return rows
    there = {*rows.column_names}
    columns = [rows[each.name] if each.name in there else pa.nulls(len(rows), each.type) for each in schema]
    return pa.table(columns, schema.names)


def _of_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    if rows.schema.equals(schema):
        return rows
    return pa.table([rows[each.name].cast(each.type) for each in schema], schema)


def _row_group(metadata: pq.RowGroupMetaData, number: int, places: dict[str, int]) -> RowGroup:
    def bounds(name: str) -> tuple[Any, Any] | None:
        statistics = metadata.column(places[name]).statistics if name in places else None
        return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None

    of_slot = [found for name in SLOT if (found := bounds(name)) is not None]
    borders = None
    if len(of_slot) == len(SLOT):
        lowest, highest = zip(*of_slot, strict=True)
        borders = Border(*lowest), Border(*highest)
    return RowGroup(number, metadata.num_rows, bounds("offsets_partition"), borders)


class PartReader:
    """Reads parts and stored tables; each task has one. Shards must be asked for in ascending order."""

    def __init__(self) -> None:
        self._file = lru_cache(maxsize=FILES_KEPT)(PartFile)
        # By table, URI and number, the rows of row groups that go beyond the rows read last; the oldest one is first.
        self._kept: dict[tuple[str, str, int], Kept] = {}
        self._rows_kept = 0
        # By stored table: the shards that were read last, and their rows.
        self._together: dict[str, tuple[tuple[int, ...], dict[int, pa.Table]]] = {}

    def history(self, parts: Sequence[HistoryPart], offsets_partition: int) -> ShardHistory:

        def rows(table: str, slots: SlotRange = EVERY_SLOT) -> pa.Table:
            return self.rows([part for part in parts if part.table == table], table, offsets_partition, slots)

        return ShardHistory.of(
            lambda slots: rows("offset_commits", slots),
            rows("group_records"),
            rows("transaction_markers"),
            rows("quarantine"),
        )

    def rows(
        self, parts: Sequence[HistoryPart], table: str, offsets_partition: int, slots: SlotRange = EVERY_SLOT
    ) -> pa.Table:
        """Rows of a table and of some slots of an offsets partition in the parts."""
        found = [some for part in parts for some in self._lots(part, offsets_partition, slots)]
        return pa.concat_tables(found) if found else encoded(no_rows(part_schema(table)), table)

    def _lots(self, part: HistoryPart, offsets_partition: int, slots: SlotRange) -> Iterator[pa.Table]:
        """The part's rows of some slots of an offsets partition."""
        for row_group in self._file(part.table, part.place).row_groups:
            if row_group.may_have(offsets_partition, slots):
                yield from self._of_row_group(part.table, part.place, row_group, offsets_partition, slots)

    def _of_row_group(
        self, table: str, uri: str, row_group: RowGroup, offsets_partition: int, slots: SlotRange
    ) -> Iterator[pa.Table]:
        """The same of a row group. Lots with rows of later slots are kept; if there are none, that is kept."""
        place = table, uri, row_group.number
        kept = self._forget(place)
        if kept is not None and kept.since > (offsets_partition, slots.low or FIRST):
            kept = None
        goes_on = row_group.may_go_beyond(offsets_partition, slots)
        later = list[pa.Table]()
        for rows in kept.lots if kept else self._file(table, uri).read(row_group.number):
            found, has_later_slots = slots.divided(of_partition(rows, offsets_partition))
            yield found
            if goes_on and (has_later_slots or _has_later_partitions(rows, offsets_partition)):
                later.append(rows)
        if goes_on:
            since = (offsets_partition + 1, FIRST) if slots.high is None else (offsets_partition, slots.high)
            self._keep(place, Kept(later, since))

    def _keep(self, place: tuple[str, str, int], kept: Kept) -> None:
        """Keeps the rows if there is room for them without others of the same offsets partition: each range of slots
        asks for all of these, one after the other, so those that are there should stay."""
        self._kept[place] = kept
        self._rows_kept += kept.rows
        while self._rows_kept > ROWS_KEPT:
            oldest = next(iter(self._kept))
            self._forget(oldest if self._kept[oldest].since[0] < kept.since[0] else place)

    def _forget(self, place: tuple[str, str, int]) -> Kept | None:
        kept = self._kept.pop(place, None)
        self._rows_kept -= 0 if kept is None else kept.rows
        return kept

    def ranges(self, parts: Sequence[HistoryPart], offsets_partition: int) -> list[SlotRange]:
        """Ranges of slots with about COMMITS_AT_ONCE commits each."""
        commits = [part for part in parts if part.table == "offset_commits"]
        if sum(self._most_rows(part, offsets_partition) for part in commits) <= COMMITS_AT_ONCE:
            return [EVERY_SLOT]

        def read(slots: SlotRange, columns: Sequence[str]) -> Iterator[pa.Table]:
            return (rows for part in commits for rows in self._columns_of(part, offsets_partition, slots, columns))

        return ranges_of(read, COMMITS_AT_ONCE)

    def _most_rows(self, part: HistoryPart, offsets_partition: int) -> int:
        """The most rows of an offsets partition that a part may have."""
        row_groups = self._file(part.table, part.place).row_groups
        return sum(row_group.rows for row_group in row_groups if row_group.may_have(offsets_partition))

    def _columns_of(
        self, part: HistoryPart, offsets_partition: int, slots: SlotRange, columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Some columns of the part's rows of some slots of an offsets partition."""
        file = self._file(part.table, part.place)
        for row_group in file.row_groups:
            if row_group.may_have(offsets_partition, slots):
                yield from map(slots.of, file.columns_of(row_group.number, offsets_partition, columns))

    def stored(
        self,
        table: StoredTable,
        tasks: TaskShards,
        offsets_partition: int,
        slots: SlotRange | None = None,
    ) -> pa.Table:
        """Rows of a stored table and an offsets partition; `slots` None: of all slots."""
        if slots is not None and tasks.is_large(offsets_partition):
            return table.of_slots(offsets_partition, slots)
        lot = self._of_lot(table, tasks.lot_of(offsets_partition))
        found = lot.get(offsets_partition, encoded(no_rows(table.schema), table.name))
        return found if slots is None else slots.of(found)

    def _of_lot(self, table: StoredTable, lot: tuple[int, ...]) -> dict[int, pa.Table]:
        if table.label not in self._together or self._together[table.label][0] != lot:
            self._together.pop(table.label, None)  # frees the memory before the next lot is read
            self._together[table.label] = (lot, by_shard(table.of_shards(lot), table.shard))
        return self._together[table.label][1]

    def ranges_of_stored(self, commits: StoredTable, tasks: TaskShards, offsets_partition: int) -> list[SlotRange]:
        """Ranges of slots with about ROWS_AT_ONCE stored commits each."""
        if not tasks.is_large(offsets_partition):
            return [EVERY_SLOT]

        def read(slots: SlotRange, columns: Sequence[str]) -> Iterator[pa.Table]:
            return iter([commits.of_slots(offsets_partition, slots, columns)])

        return ranges_of(read, ROWS_AT_ONCE)


def of_partition(rows: pa.Table, offsets_partition: int) -> pa.Table:
    return where(rows, rows.column("offsets_partition").to_numpy() == offsets_partition)


def _has_later_partitions(rows: pa.Table, offsets_partition: int) -> bool:
    return bool((rows.column("offsets_partition").to_numpy() > offsets_partition).any())


def by_shard(rows: pa.Table, shard: str = "offsets_partition") -> dict[int, pa.Table]:
    """The rows by the value of the column `shard`."""
    in_order = rows.take(pc.sort_indices(rows.column(shard)))
    numbers = in_order.column(shard).to_numpy()
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()] if len(numbers) else []
    ends = [*starts[1:], len(numbers)]
    return {int(numbers[start]): in_order.slice(start, end - start) for start, end in zip(starts, ends, strict=False)}


def part_schema(table: str) -> pa.Schema:
    """The columns of a table that are read from its parts."""
    columns = _COLUMNS[table]
    return arrow_schema(table) if columns is None else pa.schema(map(arrow_schema(table).field, columns))


def encoded(rows: pa.Table, table: str) -> pa.Table:
    """The rows with dictionary columns where rows from files have them."""
    for name in set(DICTIONARIES.get(table, ())).intersection(rows.column_names):
        at, texts = rows.schema.get_field_index(name), rows.column(name).dictionary_encode()
        rows = rows.set_column(at, rows.field(at).with_type(texts.type), texts)
    return rows
