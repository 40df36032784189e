"""`--keep`: the state at H is saved, then the history below H is reduced, table by table, each in one commit.

A kept state counts once its audit has finished; only then is history reduced to it, by the next audit number. A kill at
any time loses nothing that a rebuild needs, and the next maintenance reduces the rest.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from kgroups_spark.audit.log_source import silent
from kgroups_spark.audit.optimize import columns_of_order, replace_files
from kgroups_spark.audit.state_log_keep import (
    STATE_RULES,
    STATE_TABLES,
    StateHorizons,
    columns_of_place,
    kept_places,
    state_horizons_of,
    states_reduced_to,
)
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.findings.finders import FINDINGS, has_looked
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.hadoop_storage import reported_in_one_line
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import FINISHED, IS_FINISHED, REBUILD_APP_ID, is_of_log
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.parts import Part, dataset_of
from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.lake.store import TableFile, total_rows
from kgroups_spark.lake.writer import LakeWriter, is_of_night
from kgroups_spark.offsets.columns import I64, Flags
from kgroups_spark.records.columns import list_offsets
from kgroups_spark.replay.horizons import Horizons, horizons, looked_up
from kgroups_spark.replay.reduction import (
    MARKER_COLUMNS,
    PRODUCER_COLUMNS,
    RULES,
    Lot,
    NextMarkers,
    markers_that_stay,
    producers_left,
    rows_that_stay,
    topic_offsets_that_stay,
    traffic_that_stays,
)
from kgroups_spark.replay.shard_states import IS_KEPT, keep_states, reduced_to
from kgroups_spark.replay.sinks import ROWS, Fact, Given, Sink, TaskOutput
from kgroups_spark.replay.table_scan import lots_of, scan_files
from kgroups_spark.spark.runner import Line, numbers_in
from kgroups_spark.spark.runner import numbers as task_numbers
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.rows import flags, numbers, with_columns
from kgroups_spark.tables.rows import numbers as column_numbers
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, arrow_schema
from kgroups_spark.words import DAY_MS, by_weight, to_epoch_ms

# The ledger after `maintain --keep`: the rows of old audits that later audits, readers and rebuilds still need.
#
# An audit is old if its `as_of` is before the moment and it is not the last one. Its entry of a partition (column
# `partitions`) is old if it ends at or below H, so that history of all its records is reduced. Consecutive old entries
# become one entry with their sums, in the row of the last of them:
#
#     audit     start  end  records                audit     start  end  records
#       1          0   100      90
#       2        100   120      20       ->          3          0   150     140
#       3        120   150      30
#       4        150   170      20                   4        150   170      20    the last one that read something
#       5        170   170       0
#
# These entries stay separate, because readers look them up one by one: the first entry of a partition that was empty;
# the last old entry with records (R6 needs the time of the last read); the last entry that read the partition again
# from its start (log_totals); entries with lost offsets (report). The last entry with missing offsets is the last one
# in a sum, because it shows up to when the log was compacted. A row without entries goes, except that of the last audit
# that looked for findings. Each rule can be applied again to its own result.


SUMS = ("records", "records_reread", "bytes", "offsets_missing")


@dataclass(frozen=True)
class OldAudits:
    """`numbers`: the old finished audits; `looked_last`: the last of all audits that looked for findings, 0: none
    has."""

    numbers: frozenset[int]
    looked_last: int

    @property
    def newest(self) -> int:
        """The newest old audit; 0: there is none."""
        return max(self.numbers, default=0)

    @property
    def without_findings(self) -> list[int]:
        """The audits with findings to remove, sorted."""
        return sorted(self.numbers - {self.looked_last})


def old_audits(finished: pa.Table, moment_ms: int, decided_by: int | None) -> OldAudits:
    """The old audits, from the ledger's rows of finished audits (audit_id, as_of, rows_added).

    `decided_by`: the audit with the decisions that the view expiry_outcomes compares with later records; it and all
    later audits stay. None: there are no such decisions.
    """
    rows = finished.select(["audit_id", "as_of", "rows_added"]).to_pylist(maps_as_pydicts="strict")
    last = max((row["audit_id"] for row in rows), default=0)
    before = last if decided_by is None else min(last, decided_by)
    numbers = (
        row["audit_id"]
        for row in rows
        if row["audit_id"] < before and row["as_of"] is not None and to_epoch_ms(row["as_of"]) < moment_ms
    )
    return OldAudits(frozenset(numbers), max((row["audit_id"] for row in rows if has_looked(row)), default=0))


def reduced_ledger(rows: pa.Table, old: OldAudits, horizons: Mapping[int, int]) -> pa.Table:
    """The rows of `audits` that stay, in no order; `rows` are all up to the newest old audit, or more."""
    rows = rows.combine_chunks()
    audit_ids = rows["audit_id"].to_numpy()
    is_finished = flags(pc.equal(rows["status"], FINISHED))
    is_old = is_finished & np.isin(audit_ids, list(old.numbers))
    partitions, counts = _reduced_entries(rows["partitions"].combine_chunks(), audit_ids, is_old, horizons)
    rows = _no_longer_looked(with_columns(rows, partitions=partitions), is_old, old)
    goes = is_old & (counts == 0) & (audit_ids != old.looked_last)
    # Also removes the rows `running` and `abandoned` of audits that go, and of audits that never finished.
    stays = set(audit_ids[is_finished & ~goes].tolist())
    gone = (audit_ids < old.newest + 1) & ~np.isin(audit_ids, list(stays))
    return rows.filter(pa.array(~gone))


def _no_longer_looked(rows: pa.Table, is_old: Flags, old: OldAudits) -> pa.Table:
    """The rows without `findings` in rows_added for old audits that stay, because their findings are removed."""
    audit_ids, added = rows["audit_id"].to_pylist(), rows["rows_added"].to_pylist()
    for at in np.flatnonzero(is_old).tolist():
        if audit_ids[at] != old.looked_last and added[at] is not None:
            added[at] = [each for each in added[at] if each[0] != FINDINGS]
    return with_columns(rows, rows_added=pa.array(added, rows["rows_added"].type))


def _reduced_entries(
    lists: pa.ListArray, audit_ids: I64, is_old: Flags, horizons: Mapping[int, int]
) -> tuple[pa.ListArray, I64]:
    """The lists with fewer entries, and the number of entries of each."""
    entries = pc.list_flatten(lists)
    parents = pc.list_parent_indices(lists).to_numpy()
    columns = {field.name: pc.struct_field(entries, field.name) for field in entries.type}
    names = ("offsets_partition", "start_offset", "end_offset", *SUMS)
    numbers = {name: column_numbers(columns[name]).copy() for name in names}
    ends_at = np.array([horizons.get(number, -1) for number in numbers["offsets_partition"].tolist()], np.int64)
    of_groups = flags(is_of_log(entries))
    reducible = np.flatnonzero(of_groups & is_old[parents] & (numbers["end_offset"] <= ends_at))
    kept = np.ones(len(entries), bool)
    kept[reducible] = False
    in_order = reducible[np.lexsort((audit_ids[parents[reducible]], numbers["offsets_partition"][reducible]))]
    partition = numbers["offsets_partition"][in_order]
    is_first = np.append(True, partition[1:] != partition[:-1])[: len(in_order)]
    in_order = in_order[is_first | ~_is_idle(numbers, columns, in_order)]
    firsts, lasts = _runs(numbers, columns, in_order)
    kept[in_order[lasts]] = True
    numbers["start_offset"][in_order[lasts]] = numbers["start_offset"][in_order[firsts]]
    for name in SUMS:
        ends = np.cumsum(numbers[name][in_order])
        numbers[name][in_order[lasts]] = np.diff(ends[lasts], prepend=0)
    for name in ("start_offset", *SUMS):
        columns[name] = pa.array(numbers[name]).cast(columns[name].type)
    left = pa.StructArray.from_arrays(list(columns.values()), fields=list(entries.type)).filter(pa.array(kept))
    counts = np.bincount(parents[kept], minlength=len(lists)).astype(np.int64)
    return pa.ListArray.from_arrays(list_offsets(counts), left, type=lists.type, mask=pc.is_null(lists)), counts


def _is_idle(numbers: Mapping[str, I64], columns: Mapping[str, pa.Array], at: I64) -> Flags:
    """Whether the audit read no records of the partition, and there were none to read and none lost."""
    is_empty: Flags = numbers["start_offset"][at] == numbers["end_offset"][at]
    return is_empty & ~_has_read(numbers, at) & ~_has_lost(columns, at)


def _has_read(numbers: Mapping[str, I64], at: I64) -> Flags:
    found: Flags = (numbers["records"][at] > 0) | (numbers["bytes"][at] > 0)
    return found


def _has_lost(columns: Mapping[str, pa.Array], at: I64) -> Flags:
    return flags(pc.is_valid(columns["lost_from"]))[at]


def _runs(numbers: Mapping[str, I64], columns: Mapping[str, pa.Array], at: I64) -> tuple[I64, I64]:
    """The first and the last of the entries that become one; `at` is sorted by partition, then by audit."""
    if not len(at):
        return at, at
    partition = numbers["offsets_partition"][at]
    start, end = numbers["start_offset"][at], numbers["end_offset"][at]
    has_read, reread = _has_read(numbers, at), numbers["records_reread"][at] > 0
    is_missing = end - start > numbers["records"][at] - numbers["records_reread"][at]
    alone = _has_lost(columns, at) | ~has_read
    alone[_last_of_each(partition, reread)] = True
    alone[_last_of_each(partition, has_read)] = True
    breaks = np.ones(len(at), bool)  # before the entry
    breaks[1:] = (partition[1:] != partition[:-1]) | (start[1:] != end[:-1]) | alone[1:] | alone[:-1]
    after = _last_of_each(partition, is_missing) + 1
    breaks[after[after < len(at)]] = True
    firsts = np.flatnonzero(breaks)
    return firsts, np.append(firsts[1:], len(at)) - 1


def _last_of_each(partition: I64, holds: Flags) -> I64:
    """The index of the last entry of each partition for which `holds` is true."""
    where = np.flatnonzero(holds)
    of = partition[where]
    return where[np.append(of[1:] != of[:-1], True)] if len(where) else where


# The reduction of history as Spark runs it: a task takes some partitions, and writes parts with the rows that stay.
#
# look which files have rows below H, and their number of rows of each partition a file, one task weigh which task takes
# which partitions, by rows reduce spark.range(tasks).mapInArrow(reduce) some partitions, one task
#
# From these files a task reads the keys of its partitions' rows, and then the rows themselves, in lots.


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


# The tables in the order of their commits: markers stay with the remaining records of the others. The ledger comes
# last, because it decides which audits are old.
IN_ORDER = (
    *("offset_commits", "group_records", "quarantine", "group_versions", "group_member_versions", "group_events"),
    *("group_traffic", "topic_offsets", MARKERS, *STATE_TABLES, CHECKPOINTS, "findings", "audits"),
)
# Kinds of tables whose removed rows are reported to people.
COUNTED = ("history", "ledger")
# Rows that a task should have to reduce.
ROWS_PER_TASK = 1 << 20


def new_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[int, int]:
    """H of each offsets partition whose H is above the offset to which it is already reduced."""
    known = reduced_to(lake)
    found = horizons(lake, audit, moment_ms)
    return {p: at for p, at in found.items() if at > known.get(p, 0)}


def save_states(writer: LakeWriter, audit: AuditRow, of: Horizons, of_states: StateHorizons) -> None:
    """Adds the state at H of these partitions to checkpoints, and the offsets to which the two other logs will be
    reduced. Neither counts before the audit has finished."""
    assert audit.release_version is not None
    if of:
        # An audit writes to a table once under each application id.
        keep_states(replace(writer, app_id=REBUILD_APP_ID), of, audit.release_version)
    if of_states:
        writer.append_table(CHECKPOINTS, kept_places(of_states, audit.release_version, writer.audit_id))


@dataclass
class TableLeft:
    """The outcome for a table: its number of rows before and after, the files to remove and the parts to add; for the
    ledger, the rows that stay."""

    seen: int = 0
    left: int = 0
    files: list[TableFile] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    rows: pa.Table | None = None

    @property
    def gone(self) -> int:
        return self.seen - self.left


@dataclass(frozen=True)
class Reduction:
    """The reduction of a lake's history below `of`, of the two other logs below `of_states` (and of traffic up to the
    moment)."""

    lake: Lake
    of: Horizons
    of_states: StateHorizons
    moment_ms: int

    def apply(self, writer: LakeWriter, say: Callable[[str], None]) -> dict[str, int]:
        """Reduces every table; returns the number of removed rows by table."""
        say("reducing old history")
        removed = {}
        for name, table in self._outcomes(writer.audit_id):
            if table.gone:
                say(f"reducing {name}")
                self._commit(writer, name, table)
                if TABLES[name].kind in COUNTED:
                    removed[name] = table.gone
        return removed

    def foreseen(self) -> dict[str, int]:
        """The number of rows that would be removed, by table, counting only those of finished audits."""
        return {name: table.gone for name, table in self._outcomes(None) if table.gone and TABLES[name].kind in COUNTED}

    @cached_property
    def old(self) -> OldAudits:
        """The audits with findings and ledger rows to reduce."""
        columns = ["audit_id", "as_of", "rows_added"]
        then = LakeAsOfAudit.last_finished(self.lake)
        decided_by = pc.min(then.rows("previous_offset_expiry", ["decided_by"])["decided_by"]).as_py()
        return old_audits(
            self.lake.rows("audits", columns=columns, conditions=[IS_FINISHED]), self.moment_ms, decided_by
        )

    @cached_property
    def _names(self) -> list[str]:
        """The tables to reduce."""
        names = list(IN_ORDER)
        left_out = {*(() if self.of_states else STATE_TABLES), *(() if self.old.newest else ("findings", "audits"))}
        return [name for name in names if name not in left_out]

    @cached_property
    def _reduced(self) -> Reduced:
        return Reduced(dict(self.of), dict(self.of_states), self.lake.replaced)

    @cached_property
    def _filters(self) -> dict[str, RowFilter]:
        """The tables, except the ledger, in which the decision on a row does not depend on other rows."""
        seen = self.lake.rows("topic_offsets", columns=["audit_id"]) if "topic_offsets" in self._names else None
        newest = (seen is not None and pc.max(seen["audit_id"]).as_py()) or 0
        found = {
            "group_traffic": RowFilter(("hour",), partial(traffic_that_stays, moment_ms=self.moment_ms)),
            "topic_offsets": RowFilter(
                ("seen_at", "audit_id"),
                partial(topic_offsets_that_stay, moment_ms=self.moment_ms, newest_audit_id=newest),
            ),
            CHECKPOINTS: RowFilter(
                ("audit_id", "offsets_partition", "log", "log_offset", "reason"),
                partial(_checkpoints_that_stay, newest=_newest_kept(self.lake), reduced=self._reduced),
            ),
            "findings": RowFilter(("audit_id",), partial(_not_of_audits, audit_ids=self.old.without_findings)),
        }
        for name in ("group_events", "state_events"):
            found[name] = RowFilter(self._reduced.place(name), partial(_not_old, name=name, reduced=self._reduced))
        return {name: each for name, each in found.items() if name in self._names}

    def _outcomes(self, audit_id: int | None) -> Iterator[tuple[str, TableLeft]]:
        """The outcomes, with the parts that this audit's tasks have written; `audit_id` None: rows are only counted."""
        files = {name: self._files(name) for name in self._names if name != "audits"}
        old, rows_of = self._old_files({name: files[name] for name in SHARD_OF if name in files})
        chosen = old | {name: files[name] for name in self._filters}
        tasks = min(1 + rows_of.total() // ROWS_PER_TASK, 2 * self.lake.runner.slots)
        work = ReducedFiles(
            self.lake.uri,
            self._reduced,
            self._filters,
            {name: [file.path for file in some] for name, some in chosen.items()},
            [file.path for file in files[MARKERS]],
            by_weight(sorted(rows_of), rows_of.__getitem__, tasks),
            is_dry=audit_id is None,
        )
        sink = Sink(self.lake.runner, {ROWS: self.lake.uri}, audit_id or 0, columns_of_order)
        with reported_in_one_line("a task could not reduce old history"):
            given = Given(
                task_numbers(len(work.shards)), [self._uris({**chosen, MARKERS: files[MARKERS]})] * len(work.shards)
            )
            facts = sink.run(given, work.outputs).facts if any(chosen.values()) else []
        outcomes = _outcomes(facts, chosen)
        for _, part in sink.parts:
            outcomes[part.table].parts.append(part)
        for name, some in old.items():
            if some and outcomes[name].seen != total_rows(some):
                raise KgroupsError(
                    f"table {name}: {outcomes[name].seen} of {total_rows(some)} rows were found; nothing was changed"
                )
        for name in self._names:
            yield name, self._ledger() if name == "audits" else outcomes.get(name, TableLeft())

    def _uris(self, files: Mapping[str, Sequence[TableFile]]) -> list[str]:
        return [f"{self.lake.uri}/{name}/{unquote(file.path)}" for name, some in files.items() for file in some]

    def _files(self, name: str) -> list[TableFile]:
        files = self.lake.table(name).files()
        return [file for file in files if not is_of_night(file)] if name == CHECKPOINTS else files

    def _old_files(
        self, files: Mapping[str, Sequence[TableFile]]
    ) -> tuple[dict[str, list[TableFile]], Counter[tuple[str, int]]]:
        """The files with a row below H, by table (other files stay as they are), and their number of rows of each shard
        (its column and number)."""
        candidates = {name: [file for file in some if self._may_be_old(name, file)] for name, some in files.items()}
        columns = {name: self._reduced.place(name) for name in candidates}
        old, rows_of = dict[str, set[str]](), Counter[tuple[str, int]]()
        for _, (name, path, counts) in scan_files(
            self.lake, candidates, columns, partial(_look_for_old, self._reduced)
        ):
            old.setdefault(name, set()).add(path)
            rows_of.update({(SHARD_OF[name], number): rows for number, rows in counts})
        return {name: [file for file in files[name] if file.path in paths] for name, paths in old.items()}, rows_of

    def _may_be_old(self, name: str, file: TableFile) -> bool:
        """Whether the file may have rows below H, by its statistics."""
        first, last = (file.bound(which, SHARD_OF[name]) for which in ("minValues", "maxValues"))
        oldest = file.bound("minValues", "log_offset")
        if first is None or last is None or oldest is None:
            return True
        of = self.of.items() if name not in STATE_TABLES else [(p, at) for (_, p), at in self.of_states.items()]
        return any(first <= p <= last and oldest < at for p, at in of)

    def _ledger(self) -> TableLeft:
        """The rows up to the newest old audit, and those of them that stay."""
        rows = self.lake.rows("audits", conditions=[Condition("audit_id", "<=", self.old.newest)])
        left = reduced_ledger(rows, self.old, self.of)
        return TableLeft(len(rows), len(left), rows=left)

    def _commit(self, writer: LakeWriter, name: str, table: TableLeft) -> None:
        if name == "audits":
            assert table.rows is not None
            self._commit_ledger(writer, table.rows)
        else:
            replace_files(writer, name, table.files, table.parts)

    def _commit_ledger(self, writer: LakeWriter, left: pa.Table) -> None:
        newest, name = self.old.newest, "audits"
        files = [file for file in self.lake.table(name).files() if (file.bound("minValues", "audit_id") or 0) <= newest]
        rows = self.lake.rows(name, files=files)
        newer = rows.filter(pc.greater(rows["audit_id"], newest))
        part = self.lake.write(name, [pa.concat_tables([left, newer]).sort_by("audit_id")], writer.audit_id)
        replace_files(writer, name, files, [part] if part else [])


def _outcomes(facts: Iterable[Any], files: Mapping[str, Sequence[TableFile]]) -> dict[str, TableLeft]:
    found = {name: TableLeft(files=[*some] if name in SHARD_OF else []) for name, some in files.items()}
    by_path = {name: {file.path: file for file in some} for name, some in files.items()}
    for name, path, seen, left in facts:
        found[name].seen += seen
        found[name].left += left
        if path is not None:
            found[name].files.append(by_path[name][path])
    return found


def _look_for_old(reduced: Reduced, name: str, path: str, lots: Iterator[pa.Table]) -> Iterator[Line]:
    counts, has_old = Counter[int](), False
    for rows in lots:
        has_old = has_old or bool(reduced.is_old(name, rows).any())
        for each in rows[SHARD_OF[name]].value_counts().to_pylist():
            counts[each["values"]] += each["counts"]
    if has_old:
        yield "old", [name, path, [*counts.items()]]


def _not_of_audits(rows: pa.Table, audit_ids: Sequence[int]) -> Flags:
    return ~np.isin(numbers(rows["audit_id"]), audit_ids)


def _not_old(rows: pa.Table, name: str, reduced: Reduced) -> Flags:
    """Which events stay: those at or above H, because no current table depends on events."""
    return ~reduced.is_old(name, rows)


# (log, partition) -> the newest audit that kept a state of it.
_Newest = Mapping[tuple[str | None, int], int]


def _newest_kept(lake: Lake) -> _Newest:
    columns = ["log", "offsets_partition"]
    rows = lake.rows(CHECKPOINTS, columns=[*columns, "audit_id"], conditions=[*IS_KEPT])
    newest = rows.group_by(columns).aggregate([("audit_id", "max")]).to_pylist()
    return {(row["log"], row["offsets_partition"]): row["audit_id_max"] for row in newest}


def _checkpoints_that_stay(rows: pa.Table, newest: _Newest, reduced: Reduced) -> Flags:
    """Which rows of checkpoints stay: all except kept states with a newer one of the same partition of the same log,
    and except replaced rows below H."""
    rows, is_replaced = reduced.replaced.parted(CHECKPOINTS, rows)
    goes = is_replaced & reduced.is_old(CHECKPOINTS, rows)
    kept = flags(pc.equal(rows["reason"], KEEP)) & ~is_replaced
    partition, audit_id = numbers(rows["offsets_partition"]), numbers(rows["audit_id"])
    for (log, number), at in newest.items():
        is_of_log = pc.is_null(rows["log"]) if log is None else pc.fill_null(pc.equal(rows["log"], log), False)
        goes |= kept & (partition == number) & (audit_id != at) & flags(is_of_log)
    return ~goes


def reduction(
    lake: Lake,
    moment_ms: int,
    further: Horizons | None = None,
    further_states: StateHorizons | None = None,
) -> Reduction:
    """The reduction to the newest kept states, or further, to `further` and `further_states` (only for a dry run)."""
    of_states = {**states_reduced_to(lake), **(further_states or {})}
    return Reduction(lake, {**reduced_to(lake), **(further or {})}, of_states, moment_ms)


# The options of maintenance.


# Delta's own limit. Younger files may still be needed: by a running query, by time travel, or as the last finished
# audit's tables while another audit rewrites the current tables.
LEAST_VACUUM_MS = 7 * DAY_MS


@dataclass(frozen=True)
class MaintainOptions:
    """The options of `kgroups maintain`; durations in ms. `keep_ms` None: history is not reduced."""

    lake: str
    optimize: bool = True
    vacuum_ms: int = LEAST_VACUUM_MS
    keep_ms: int | None = None
    dry_run: bool = False
    take_over: bool = False
    progress: Callable[[str], None] = silent


def require_vacuum_allowed(vacuum_ms: int) -> None:
    """Raises UsageError below LEAST_VACUUM_MS."""
    if vacuum_ms < LEAST_VACUUM_MS:
        raise UsageError(
            "--vacuum below 7d is refused: readers may still use files that young, and a running audit keeps the "
            "files of the last finished one until it finishes"
        )
