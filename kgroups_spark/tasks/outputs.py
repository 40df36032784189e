"""The outputs of tasks, and how their rows are collected: into few Parquet parts, or into bounded batches."""

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
# By table, and for checkpoints also by reason, so that a night finds the files of a state without reading rows.
Mark: TypeAlias = "dict[tuple[str, str | None], list[Lot]]"

# The rough limits for rows and bytes of a part, which a task keeps in memory before it writes them.
ROWS_PER_PART = 1 << 20
BYTES_PER_PART = 32 << 20
# Kinds of outputs of a task: rows for a table, rows only for the replay, such rows that were read before, facts, and
# shards without any output that counts.
ROWS, PASSED_ON, AGAIN, FACT, LOST = "rows", "passed_on", "again", "fact", "lost"
# The most rows and bytes of a batch on its way to Spark.
ROWS_PER_BATCH = 1 << 16
BYTES_PER_BATCH = 8 << 20

# Most tables are sorted by these columns, if they have them.
IN_ORDER_OF = ("offsets_partition", "state_partition", "group_id", "transactional_id", "log_offset")

AS_THEY_COME = ("offset_commits", CHECKPOINTS, "previous_offset_expiry")


class Lot(NamedTuple):
    """Rows, and their bytes: asking Arrow again with each new lot would take quadratic time."""

    rows: pa.Table
    size_bytes: int


class ForReplay(NamedTuple):
    """Rows that do not go to a table: the replay completes them first, or an earlier audit read them (`is_again`)."""

    table: str
    rows: Rows
    is_again: bool = False


class Fact(NamedTuple):
    """A fact for the driver; it must be a JSON value."""

    reported: Any


class ShardBegins(NamedTuple):
    """The following outputs are of this shard, up to the next ShardBegins."""

    shard: str


class ShardLost(NamedTuple):
    """No output of the shard that has begun counts. The following outputs are not of a shard."""


def kind_of(rows: tuple[str, Rows] | ForReplay) -> tuple[str, str, Rows]:
    """The kind of rows, their table, and the rows."""
    if isinstance(rows, ForReplay):
        return AGAIN if rows.is_again else PASSED_ON, rows.table, rows.rows
    return ROWS, *rows


def in_order_of_shards(name: str, lots: list[pa.Table]) -> Iterable[pa.Table]:
    """A table's rows in the order of a part. Rows of offset_commits come in sorted lots, one offsets partition after
    the other, and stay in that order. So do those of a saved state, which no query reads by group. Rows of other tables
    are sorted here."""
    return _row_groups(lots) if name in AS_THEY_COME else [_by_group(pa.concat_tables(lots))]


@dataclass
class PartCollector:
    """Packs the rows of a task into few parts per table, each of them `in_order`."""

    lake_uri: str
    audit_id: int
    in_order: InOrder = in_order_of_shards
    _waiting: Mark = field(default_factory=dict)

    def add(self, name: str, rows: Rows) -> Iterator[Part]:
        """Adds rows; yields a part once it is full."""
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
        """The rows that wait now, for `back_to`."""
        return {kind: list(lots) for kind, lots in self._waiting.items()}

    def back_to(self, mark: Mark) -> None:
        """Drops the rows added since the mark. Parts that were yielded since then must not be used."""
        self._waiting = mark

    def rest(self) -> Iterator[Part]:
        """The parts of the remaining rows."""
        for kind in list(self._waiting):
            yield from self._write(kind)

    def _write(self, kind: tuple[str, str | None]) -> Iterator[Part]:
        name = kind[0]
        lots = self.in_order(name, [lot.rows for lot in self._waiting.pop(kind)])
        part = PartWriter(name, self.lake_uri, self.audit_id).write_batches(lots)
        if part is not None:
            yield part


def _row_groups(lots: list[pa.Table]) -> Iterator[pa.Table]:
    """The rows in tables of at least one row group each, because a small offsets partition is not worth its own."""
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
    # Copying every column costs eight times the sort, and most tables are already in order, shard after shard.
    return rows if np.array_equal(order, np.arange(len(order))) else rows.take(order)


def plain_batches(name: str, rows: Rows) -> Iterator[pa.RecordBatch]:
    """Rows of one table in batches of bounded size, with dictionaries as plain texts."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    schema = arrow_schema(name)
    at_once = max(1, min(ROWS_PER_BATCH, table.num_rows * BYTES_PER_BATCH // max(table.nbytes, 1)))
    for start in range(0, table.num_rows, at_once):
        lot = table.slice(start, at_once).select(schema.names)
        yield from lot.cast(schema).combine_chunks().to_batches()
