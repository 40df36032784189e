"""The reduction of history as Spark runs it: a task takes some partitions, and writes parts with the rows that stay.

    look    which files have rows below H, and their number of rows of each partition          a file, one task
    weigh   which task takes which partitions, by rows
    reduce  spark.range(tasks).mapInArrow(reduce)                                              some partitions, one task

From these files a task reads the keys of its partitions' rows, and then the rows themselves, in lots.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from kgroups_spark.history.horizons import looked_up
from kgroups_spark.history.reduction import RULES, Lot, markers_that_stay, producers_left, rows_that_stay
from kgroups_spark.history.transaction_ends import MARKER_COLUMNS, PRODUCER_COLUMNS, NextMarkers
from kgroups_spark.lake.parts_reader import dataset_of
from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.offsets.numbers import I64, Flags
from kgroups_spark.runner import numbers_in
from kgroups_spark.state_logs.keep import STATE_RULES, STATE_TABLES, StateHorizons, columns_of_place, state_horizons_of
from kgroups_spark.tables.arrays import numbers
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.tasks.outputs import Fact, TaskOutput
from kgroups_spark.tasks.table_scan import lots_of

MARKERS = "transaction_markers"
# Tables of records: a marker stays while a record of its transaction stays.
OF_PRODUCERS = ("offset_commits", "group_records", "quarantine")
# Tables in which the decision on a row depends on other rows of its shard, by the column of the shard. A table comes
# after the tables that decide about it.
BY_SHARD: Mapping[str, tuple[str, ...]] = {
    "offsets_partition": (*RULES, MARKERS),
    "state_partition": (*STATE_RULES,),
}
SHARD_OF = {name: column for column, names in BY_SHARD.items() for name in names}


class Left(NamedTuple):
    """The rows of a table that stay, and the number of rows `seen`."""

    name: str
    seen: int
    rows: pa.Table


@dataclass(frozen=True)
class Reduced:
    """History reduced below these places; `replaced`: rows without any influence."""

    horizons: Mapping[int, int]
    state_horizons: StateHorizons = field(default_factory=dict)
    replaced: Replaced = NOTHING

    def place(self, name: str) -> tuple[str, ...]:
        """The columns of a table that decide whether a row is below H."""
        of = columns_of_place(name) if name in STATE_TABLES else ("offsets_partition",)
        return (*of, "log_offset", *(("audit_id",) if self.replaced.touches(name) else ()))

    def horizon(self, name: str, rows: pa.Table) -> I64:
        """The H of each row; -1: its partition is not reduced."""
        if "state_partition" in rows.column_names:
            return state_horizons_of(name, rows, self.state_horizons)
        return looked_up(self.horizons, numbers(rows["offsets_partition"]))

    def is_old(self, name: str, rows: pa.Table) -> Flags:
        """Which rows are below H."""
        found: Flags = numbers(rows["log_offset"]) < self.horizon(name, rows)
        return found

    def left(self, read: ShardFiles, names: Sequence[str], *, is_dry: bool = False) -> Iterator[Left]:
        """The rows of these tables of SHARD_OF that stay, with all columns, or (`is_dry`) with as few as possible."""
        records = [pa.schema(map(arrow_schema(MARKERS).field, PRODUCER_COLUMNS)).empty_table()]
        for name in (name for name in SHARD_OF if name in names):
            for lot, stays in self._decided(name, read, records, is_dry):
                rows = lot.rows.filter(pa.array(stays))
                if name in OF_PRODUCERS:
                    records.append(producers_left(rows, lot.horizon[stays]))
                yield Left(name, len(stays), rows)

    def _decided(
        self, name: str, read: ShardFiles, records: list[pa.Table], is_dry: bool
    ) -> Iterator[tuple[Lot, Flags]]:
        lots = self._lots(name, read.rows(name, self._columns_left(name, is_dry)))
        if name == MARKERS:
            needed = self._needed(read, pa.concat_tables(records))
            yield from ((lot, markers_that_stay(lot, needed)) for lot in lots)
            return
        rule = {**RULES, **STATE_RULES}[name]
        keys = self._lots(name, read.rows(name, [*dict.fromkeys((*self.place(name), *rule.columns))]))
        stays, start = rows_that_stay(rule, keys, lambda: self._ends(read)), 0
        for lot in lots:
            yield lot, stays[start : start + len(lot.rows)]
            start += len(lot.rows)

    def _needed(self, read: ShardFiles, records: pa.Table) -> dict[int, I64]:
        following = NextMarkers(records)
        for rows in self._ends(read):
            following.look(rows)
        return following.places()

    def _ends(self, read: ShardFiles) -> Iterator[pa.Table]:
        """All markers except replaced ones."""
        for lot in self._lots(MARKERS, read.markers([*dict.fromkeys((*MARKER_COLUMNS, *self.place(MARKERS)))])):
            yield lot.rows.filter(pa.array(~lot.is_replaced))

    def _lots(self, name: str, tables: Iterable[pa.Table]) -> Iterator[Lot]:
        for table in tables:
            rows, is_replaced = self.replaced.parted(name, table)
            yield Lot(rows, is_replaced, self.horizon(name, rows))

    def _columns_left(self, name: str, is_dry: bool) -> Sequence[str]:
        if not is_dry:
            names: list[str] = arrow_schema(name).names
            return names
        of_records = (*PRODUCER_COLUMNS, *(("record_count",) if name == "quarantine" else ()))
        more = MARKER_COLUMNS if name == MARKERS else of_records if name in OF_PRODUCERS else ()
        return [*dict.fromkeys((*self.place(name), *more))]


class RowFilter(NamedTuple):
    """The filter of a table in which the decision on a row depends only on its own `columns`."""

    columns: tuple[str, ...]
    stays: Callable[[pa.Table], Flags]


@dataclass(frozen=True)
class ReducedFiles:
    """The facts that tasks need to reduce files.

    files    the files to reduce, by table: paths as in its log
    markers  all files of transaction_markers
    shards   for each task its shards: (column, number)
    """

    lake_uri: str
    reduced: Reduced
    filters: Mapping[str, RowFilter]
    files: Mapping[str, Sequence[str]]
    markers: Sequence[str]
    shards: Sequence[Sequence[tuple[str, int]]]
    is_dry: bool = False

    def outputs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[TaskOutput]:
        """The rows that stay (`is_dry`: none), and facts [table, path or None, seen, left]; for tables in `filters`
        only the files from which rows go, with their paths."""
        for task in numbers_in(batches):
            seen, left = Counter[str](), Counter[str]()
            for name, count, rows in self.reduced.left(self._shards(task), [*self.files], is_dry=self.is_dry):
                seen[name] += count
                left[name] += len(rows)
                yield from self._written(name, rows)
            yield from (Fact([name, None, seen[name], left[name]]) for name in seen)
            for name, path in self._own_files(task):
                yield from self._filtered(name, path)

    def _shards(self, task: int) -> ShardFiles:
        mine = self.shards[task] if len(self.shards) > 1 else None
        return ShardFiles(self.lake_uri, self.files, self.markers, mine)

    def _own_files(self, task: int) -> Iterator[tuple[str, str]]:
        files = ((name, path) for name in self.filters for path in self.files.get(name, ()))
        return itertools.islice(files, task, None, len(self.shards))

    def _filtered(self, name: str, path: str) -> Iterator[TaskOutput]:
        dataset, (columns, stays) = dataset_of(name, f"{self.lake_uri}/{name}", [path]), self.filters[name]
        found = [stays(rows) for rows in lots_of(dataset, columns)]
        seen, left = sum(map(len, found)), sum(int(some.sum()) for some in found)
        if left == seen:
            return
        yield Fact([name, path, seen, left])
        for rows in lots_of(dataset, arrow_schema(name).names) if left and not self.is_dry else ():
            yield from self._written(name, rows.filter(pa.array(stays(rows))))

    def _written(self, name: str, rows: pa.Table) -> Iterator[TaskOutput]:
        if len(rows) and not self.is_dry:
            yield name, rows


@dataclass
class ShardFiles:
    """Rows of some shards, from files that may also have rows of others; `shards` None: all shards."""

    lake_uri: str
    files: Mapping[str, Sequence[str]]
    all_markers: Sequence[str]
    shards: Sequence[tuple[str, int]] | None
    _datasets: dict[tuple[str, int], pa.dataset.Dataset] = field(default_factory=dict)

    def rows(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of a table to reduce, in lots, and always in the same order."""
        return self._of(name, self.files[name], columns)

    def markers(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows of transaction_markers."""
        return self._of(MARKERS, self.all_markers, columns)

    def _of(self, name: str, paths: Sequence[str], columns: Sequence[str]) -> Iterator[pa.Table]:
        key = (name, len(paths))
        if key not in self._datasets:  # a dataset keeps the files' footers
            self._datasets[key] = dataset_of(name, f"{self.lake_uri}/{name}", paths)
        return lots_of(self._datasets[key], columns, self._is_mine(SHARD_OF[name]))

    def _is_mine(self, column: str) -> pc.Expression | None:
        if self.shards is None:
            return None
        return pc.field(column).isin([number for of, number in self.shards if of == column])
