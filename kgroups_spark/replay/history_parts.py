"""Reads the rows of shards from the files of tables; each task has one reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.expiry.clean_up import DECIDED_BY, HELD_GROUPS
from kgroups_spark.lake.parts_reader import DICTIONARIES
from kgroups_spark.offsets.ranges import EVERY_SLOT, FIRST, SlotRange, ranges_of
from kgroups_spark.offsets.records import HISTORY_COLUMNS
from kgroups_spark.replay.checkpoint_rows import ENTRIES
from kgroups_spark.replay.stored_tables import StoredTable, TaskShards
from kgroups_spark.tables.rows import no_rows
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema

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
# The number of commits that are folded together. A worker's memory grows by about 400 bytes with each.
COMMITS_AT_ONCE = 200_000


class PartReader:
    """Reads tables for the shards of a task: those of a lot together, or a large shard by ranges of slots."""

    def __init__(self, tasks: TaskShards) -> None:
        self.tasks = tasks
        # By table: what was read last, and its rows by shard.
        self._last: dict[str, tuple[object, dict[int, pa.Table]]] = {}
        # The ranges of slots of large shards that are read at once.
        self._large: dict[int, list[SlotRange]] = {}

    def rows(self, table: StoredTable, number: int, slots: SlotRange | None = None) -> pa.Table:
        """Rows of a shard; `slots` None: of all slots."""
        if slots is None or number not in self._large:
            lot = self.tasks.lot_of(number)
            found = self._read(table, lot, lambda: by_shard(table.of_shards(lot), table.shard))
        else:
            large = next(each for each in self._large[number] if each.has(slots.low or FIRST))
            found = self._read(table, (number, large), lambda: {number: table.of_slots(number, large)})
        rows = found.get(number, encoded(no_rows(table.schema), table.name))
        return rows if slots is None else slots.of(rows)

    def _read(self, table: StoredTable, what: object, read: Callable[[], dict[int, pa.Table]]) -> dict[int, pa.Table]:
        if table.label not in self._last or self._last[table.label][0] != what:
            self._last.pop(table.label, None)  # frees the memory before the next lot is read
            self._last[table.label] = (what, read())
        return self._last[table.label][1]

    def ranges(self, commits: StoredTable, number: int) -> list[SlotRange]:
        """Ranges of slots with about COMMITS_AT_ONCE commits each."""
        if self.tasks.is_large(number):

            def read(slots: SlotRange, columns: Sequence[str]) -> Iterator[pa.Table]:
                yield commits.of_slots(number, slots, columns)

            self._large[number] = ranges_of(read, self.tasks.at_once)
        return [
            small for large in self._large.get(number, [EVERY_SLOT]) for small in self._small(commits, number, large)
        ]

    def _small(self, commits: StoredTable, number: int, large: SlotRange) -> list[SlotRange]:
        rows = self.rows(commits, number, large)
        if len(rows) <= COMMITS_AT_ONCE:
            return [large]
        small = ranges_of(lambda slots, _: [slots.of(rows)], COMMITS_AT_ONCE)
        return [large.both(each) for each in small]


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
