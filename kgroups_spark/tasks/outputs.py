"""The outputs of tasks, and how their rows are brought together: into few Parquet parts, or into bounded batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.parts_writer import ROWS_PER_GROUP, Part, PartWriter
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema

Rows: TypeAlias = "pa.Table | pa.RecordBatch"
TaskOutput: TypeAlias = "tuple[str, Rows] | ForReplay | Fact | ShardBegins | ShardLost"
# A table's rows in lots -> the same in the order of a part.
InOrder: TypeAlias = "Callable[[str, list[pa.Table]], Iterable[pa.Table]]"
# By table, and of checkpoints by reason: a night finds the files of a state without a look at their rows.
Mark: TypeAlias = "dict[tuple[str, str | None], list[Lot]]"

# Rows and bytes that a part holds at most, roughly: what a task keeps before it writes.
ROWS_PER_PART = 1 << 20
BYTES_PER_PART = 32 << 20
# Kinds of what leaves a task: rows that a table gets, rows that only the replay gets, of which some were read before,
# facts, and shards of which nothing counts.
ROWS, PASSED_ON, AGAIN, FACT, LOST = "rows", "passed_on", "again", "fact", "lost"
# The most rows and bytes of a batch on its way to Spark.
ROWS_PER_BATCH = 1 << 16
BYTES_PER_BATCH = 8 << 20

# Most tables are sorted by those of these that they have.
IN_ORDER_OF = ("offsets_partition", "state_partition", "group_id", "transactional_id", "log_offset")

AS_THEY_COME = ("offset_commits", CHECKPOINTS, "previous_offset_expiry")


class Lot(NamedTuple):
    """Rows, and how many bytes they take: to ask Arrow again for each lot that comes is quadratic."""

    rows: pa.Table
    size_bytes: int


class ForReplay(NamedTuple):
    """Rows that no table gets: only the replay completes them, or they were read before."""

    table: str
    rows: Rows
    is_again: bool = False


class Fact(NamedTuple):
    """A fact for the driver, of what JSON can hold."""

    reported: Any


class ShardBegins(NamedTuple):
    """The shard of the outputs that follow, up to the next one."""

    shard: str


class ShardLost(NamedTuple):
    """Nothing of the shard that has begun counts. The outputs that follow are of no shard."""


def kind_of(rows: tuple[str, Rows] | ForReplay) -> tuple[str, str, Rows]:
    """The kind of rows, their table, and the rows."""
    if isinstance(rows, ForReplay):
        return AGAIN if rows.is_again else PASSED_ON, rows.table, rows.rows
    return ROWS, *rows


def in_order_of_shards(name: str, lots: list[pa.Table]) -> Iterable[pa.Table]:
    """Rows of offset_commits come in sorted lots, one offsets partition after the other, and stay in that order, as do
    those of a saved state, of which nobody asks for one group; those of other tables are sorted here."""
    return _row_groups(lots) if name in AS_THEY_COME else [_by_group(pa.concat_tables(lots))]


@dataclass
class PartCollector:
    """Packs the rows of a task into few parts per table, each of them `in_order`."""

    lake_uri: str
    audit_id: int
    in_order: InOrder = in_order_of_shards
    _waiting: Mark = field(default_factory=dict)

    def add(self, name: str, rows: Rows) -> Iterator[Part]:
        """Takes rows in; gives a part when it is full."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        if not table.num_rows:
            return
        kind = name, table.column("reason")[0].as_py() if name == CHECKPOINTS else None
        waiting = self._waiting.setdefault(kind, [])
        waiting.append(Lot(table, table.nbytes))
        if (
            sum(t.rows.num_rows for t in waiting) >= ROWS_PER_PART
            or sum(t.size_bytes for t in waiting) >= BYTES_PER_PART
        ):
            yield from self._write(kind)

    def mark(self) -> Mark:
        """The rows that are waiting now, for `back_to`."""
        return {kind: list(lots) for kind, lots in self._waiting.items()}

    def back_to(self, mark: Mark) -> None:
        """Forgets what was taken in since; parts that were given since must not be used."""
        self._waiting = mark

    def rest(self) -> Iterator[Part]:
        """The parts of what is left."""
        for kind in list(self._waiting):
            yield from self._write(kind)

    def _write(self, kind: tuple[str, str | None]) -> Iterator[Part]:
        name = kind[0]
        lots = self.in_order(name, [lot.rows for lot in self._waiting.pop(kind)])
        part = PartWriter(name, self.lake_uri, self.audit_id).write_batches(lots)
        if part is not None:
            yield part


def _row_groups(lots: list[pa.Table]) -> Iterator[pa.Table]:
    """The rows in tables of at least a row group each: a small offsets partition is not worth one of its own."""
    few: list[pa.Table] = []
    for lot in lots:
        few.append(lot)
        if sum(each.num_rows for each in few) >= ROWS_PER_GROUP:
            yield pa.concat_tables(few).unify_dictionaries()
            few = []
    if few:
        yield pa.concat_tables(few).unify_dictionaries()


def _by_group(rows: pa.Table) -> pa.Table:
    columns = [name for name in IN_ORDER_OF if name in rows.column_names]
    order = pc.sort_indices(rows, [(name, "ascending") for name in columns]).to_numpy()
    # To copy every column costs eight times the sort, and shard after shard most tables are in order.
    return rows if np.array_equal(order, np.arange(len(order))) else rows.take(order)


def plain_batches(name: str, rows: Rows) -> Iterator[pa.RecordBatch]:
    """Rows of one table in batches of bounded size, with plain texts where there were dictionaries."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    schema = arrow_schema(name)
    at_once = max(1, min(ROWS_PER_BATCH, table.num_rows * BYTES_PER_BATCH // max(table.nbytes, 1)))
    for start in range(0, table.num_rows, at_once):
        lot = table.slice(start, at_once).select(schema.names)
        yield from lot.cast(schema).combine_chunks().to_batches()
