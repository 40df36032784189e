"""The outputs of tasks, and how their rows are collected: into few Parquet parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from kgroups_spark.lake.parts_writer import ROWS_PER_GROUP, OpenPart, Part, PartWriter
from kgroups_spark.tables.rows import as_table, sorted_by
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES

Rows: TypeAlias = "pa.Table | pa.RecordBatch"
TaskOutput: TypeAlias = "tuple[str, Rows] | ForReplay | Fact | ShardBegins | ShardLost"
# A table -> the columns by which its rows are sorted.
Order: TypeAlias = "Callable[[str], Sequence[str]]"
# The rough limits for rows and bytes of a part.
ROWS_PER_PART = 1 << 20
BYTES_PER_PART = 32 << 20
# The rough limit for bytes of a table that a task keeps in memory to sort them.
BYTES_TO_SORT = 2 << 20
# Kinds of outputs of a task: rows for a table, rows only for the replay, such rows that were read before, and facts.
ROWS, PASSED_ON, AGAIN, FACT = "rows", "passed_on", "again", "fact"

# Most tables are sorted by these columns, if they have them.
IN_ORDER_OF = ("offsets_partition", "state_partition", "group_id", "transactional_id", "log_offset")
# Those of which a task's rows need no sorting: offset_commits come in sorted lots, one offsets partition after the
# other, and no query reads a saved state by group.
AS_THEY_COME = ("offset_commits", CHECKPOINTS, "previous_offset_expiry")


class Growing(NamedTuple):
    """Rows of a kind: those that wait, and the part that has the rows before them.

    rows, size_bytes   of those that wait: asking Arrow again with each new table would take quadratic time
    written            rows of the part: it may have got others since then
    """

    waiting: tuple[pa.Table, ...] = ()
    rows: int = 0
    size_bytes: int = 0
    part: OpenPart | None = None
    written: int = 0

    def plus(self, table: pa.Table) -> Growing:
        return self._replace(
            waiting=(*self.waiting, table), rows=self.rows + len(table), size_bytes=self.size_bytes + table.nbytes
        )


# A table, and for checkpoints also the reason, so that a night finds the files of a state without reading rows.
Parts: TypeAlias = "dict[tuple[str, str | None], Growing]"


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


def order_of_night(name: str) -> list[str]:
    """The columns by which a night's tasks sort a table's rows; none: they come in order."""
    columns = [] if name in AS_THEY_COME else IN_ORDER_OF
    return [column for column in columns if column in TABLES[name].schema.names]


class PartCollector:
    """Packs the rows of a task into few parts per table, row group by row group. `order_of`: columns to sort by.

    Rows that come in order wait only until they are worth a row group: a small offsets partition is not.
    """

    def __init__(self, lake_uri: str, audit_id: int, order_of: Order = order_of_night) -> None:
        self._lake_uri, self._audit_id, self._order_of = lake_uri, audit_id, order_of
        self._parts: Parts = {}

    def add(self, name: str, rows: Rows) -> Iterator[Part]:
        """Adds rows; yields a part once it is full."""
        table = as_table(rows)
        if not table.num_rows:
            return
        kind = name, table.column("reason")[0].as_py() if name == CHECKPOINTS else None
        self._parts[kind] = growing = self._parts.get(kind, Growing()).plus(table)
        # A lot of commits comes in tables of half a row group or more (CommitBatches): each is written at once.
        if growing.size_bytes >= BYTES_TO_SORT if self._order_of(name) else 2 * growing.rows >= ROWS_PER_GROUP:
            part = self._written(name, growing)
            self._parts[kind] = Growing(part=part, written=part.records)
            if part.records >= ROWS_PER_PART or part.size >= BYTES_PER_PART:
                del self._parts[kind]
                yield part.close()

    def mark(self) -> Parts:
        """The rows up to now, for `back_to`."""
        return dict(self._parts)

    def back_to(self, mark: Parts) -> None:
        """Drops the rows added since the mark. Parts that were yielded since then must not be used."""
        for kind, growing in self._parts.items():
            if growing.part is not None and (kind not in mark or mark[kind].part is not growing.part):
                growing.part.close()
        self._parts = {
            kind: was if was.part is None else was._replace(part=was.part.first(was.written))
            for kind, was in mark.items()
        }

    def rest(self) -> Iterator[Part]:
        """The parts of the remaining rows."""
        for kind in list(self._parts):
            yield self._written(kind[0], self._parts.pop(kind)).close()

    def _written(self, name: str, growing: Growing) -> OpenPart:
        """The part with the rows that waited, too."""
        part = growing.part
        if growing.waiting:
            rows = pa.concat_tables(growing.waiting).unify_dictionaries()
            columns = self._order_of(name)
            rows = sorted_by(rows, *columns) if columns else rows
            part = part or PartWriter(name, self._lake_uri, self._audit_id).open(rows.schema)
            part.write(rows)
        assert part is not None
        return part
