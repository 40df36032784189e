"""`--keep`: the state at H is saved, then the history below H is reduced, table by table, each in one commit.

A kept state counts once its audit has finished; only then is history reduced to it, by the next audit number. A kill at
any time loses nothing that a rebuild needs, and the next maintenance reduces the rest.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession

from kgroups_spark.coordinator.state_entries import MARK, made_by
from kgroups_spark.errors import KgroupsError
from kgroups_spark.findings.finders import FINDINGS, has_looked
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.kernel import reported_in_one_line
from kgroups_spark.lake.lake import Lake, named_if_lost, parquet_of
from kgroups_spark.lake.last_finished import FINISHED, IS_FINISHED, REBUILD_APP_ID, is_of_log
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.parts import Part
from kgroups_spark.lake.replaced import STATE_LOGS, partition_of
from kgroups_spark.lake.store import ChangedMeanwhile, TableFile, total_rows
from kgroups_spark.lake.writer import LakeWriter, is_of_night
from kgroups_spark.offsets.columns import I64, Flags
from kgroups_spark.records.columns import list_offsets
from kgroups_spark.replay.log_times import believed_until
from kgroups_spark.replay.reduction import MARKERS, OF_RECORDS, RULES, STORED, Reduction
from kgroups_spark.replay.shard_states import Horizons, Place, keep_states, of_groups, reduced_to
from kgroups_spark.replay.sinks import parts_of
from kgroups_spark.sql.spark_sql import spark_sql
from kgroups_spark.tables.columns import Condition, all_may_hold
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.rows import flags, with_columns
from kgroups_spark.tables.rows import numbers as column_numbers
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, arrow_schema
from kgroups_spark.words import HOUR_MS, to_epoch_ms

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


# The tables in the order of their commits: markers stay with the remaining records of the others. The ledger comes
# last, because it decides which audits are old.
IN_ORDER = (
    *(name for name in RULES if name not in (MARKERS, *STATE_LOGS)),
    *("group_traffic", "topic_offsets", "cluster_facts", MARKERS, *STATE_LOGS, CHECKPOINTS, "findings", "audits"),
)
# Kinds of tables whose removed rows are reported to people.
COUNTED = ("history", "ledger")


def answer(lake: Lake, query: str, files: Mapping[str, Sequence[TableFile]]) -> DataFrame:
    """The answer to a query of DuckDB over these files of tables, by Spark."""
    frames = {}
    for name in {*re.findall(rf"\b{STORED}(\w+)", query)}:
        paths = [f"{lake.table(name).path}/{unquote(file.path)}" for file in files[name]]
        frames[f"{STORED}{name}"] = parquet_of(lake.spark, TABLES[name].schema, paths)
    return by_spark(lake.spark, query, frames)


def by_spark(spark: SparkSession, query: str, frames: Mapping[str, Any]) -> DataFrame:
    """The answer to a query of DuckDB over frames with names in STORED + table."""
    return spark.sql(re.sub(rf"\b{STORED}\w+", r"{\g<0>}", spark_sql(query)), **frames)


def new_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[Place, int]:
    """H of each partition whose H is above the offset to which it is already reduced.

    H is the log offset of the first record later than the moment (epoch ms), but never above the start of a transaction
    that is still open there, because Kafka's cleaner stops before one.
    """
    read = (*(audit.partitions or ()), *audit.state_partitions)
    found = {(each.topic, each.offsets_partition): each.end_offset for each in read}
    files = {name: lake.table(name).files() for name in OF_RECORDS}
    reduction = Reduction({}, lake.replaced, moment_ms)
    # Rows of an unfinished audit, which a dry run sees, may have the first record after the end of this audit's log.
    _lower(found, answer(lake, reduction.first_later(believed_until(audit)), files))
    _lower(found, answer(lake, replace(reduction, horizons=found).first_spanning(), files))
    for row in lake.rows("open_transactions", columns=["offsets_partition", "transaction_start_offset"]).to_pylist():
        place = None, row["offsets_partition"]
        if place in found:
            found[place] = min(found[place], row["transaction_start_offset"])
    known = reduced_to(lake)
    return {place: at for place, at in found.items() if at > known.get(place, 0)}


def _lower(found: dict[Place, int], first: DataFrame) -> None:
    for log, partition, log_offset in first.collect():
        place = log or None, partition
        found[place] = min(found.get(place, log_offset), log_offset)


def save_states(writer: LakeWriter, audit: AuditRow, of: Horizons) -> None:
    """Adds the state at H of these partitions to checkpoints; of the two other logs only the offset to which they will
    be reduced. Nothing of it counts before the audit has finished."""
    assert audit.release_version is not None
    if groups := of_groups(of):
        # An audit writes to a table once under each application id.
        keep_states(replace(writer, app_id=REBUILD_APP_ID), groups, audit.release_version)
    facts = {**made_by(writer.audit_id, KEEP, audit.release_version), **MARK._asdict()}
    rows = [{"log": log, "offsets_partition": p, "log_offset": at, **facts} for (log, p), at in of.items() if log]
    writer.append_table(CHECKPOINTS, pa.Table.from_pylist(rows, schema=arrow_schema(CHECKPOINTS)))


class Outcome(NamedTuple):
    """The number of a table's rows before and after."""

    seen: int
    staying: int

    @property
    def gone(self) -> int:
        return self.seen - self.staying


@dataclass(frozen=True)
class KeptHistory:
    """A lake's history, reduced below `of`, and traffic, findings and the like before the moment."""

    lake: Lake
    of: Horizons
    moment_ms: int

    def apply(self, writer: LakeWriter, say: Callable[[str], None]) -> dict[str, int]:
        """Reduces every table; returns the number of removed rows by table."""
        say("reducing old history")
        removed = {name: outcome for name, outcome in self._outcomes().items() if outcome.gone}
        for name, outcome in removed.items():
            say(f"reducing {name}")
            if name == "audits":
                self._commit_ledger(writer)
            else:
                self._commit(writer, name, outcome)
        return _counted(removed)

    def foreseen(self) -> dict[str, int]:
        """The number of rows that would be removed, by table."""
        return _counted(self._outcomes())

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
    def _files(self) -> dict[str, list[TableFile]]:
        """The files that may have rows to remove; others stay as they are."""
        names = [name for name in IN_ORDER if name != "audits"]
        return {
            name: [file for file in self.lake.table(name).files() if self._may_be_old(name, file)] for name in names
        }

    def _may_be_old(self, name: str, file: TableFile) -> bool:
        if name == CHECKPOINTS:
            return not is_of_night(file) and all_may_hold([Condition("reason", "==", KEEP)], file.bound)
        return name not in RULES or any(
            all_may_hold(
                [Condition(partition_of(name), "==", number), Condition("log_offset", "<=", at - 1)], file.bound
            )
            for (log, number), at in self.of.items()
            if (log or "") in STATE_LOGS.get(name, ("",))
        )

    @cached_property
    def _reduction(self) -> Reduction:
        return Reduction(self.of, self.lake.replaced, self.moment_ms, self.old.without_findings)

    def _outcomes(self) -> dict[str, Outcome]:
        names = [name for name in self._files if self._files[name]]
        with reported_in_one_line("old history could not be read"):
            counts = answer(self.lake, self._reduction.counts(names), self._files).collect() if names else []
        found = {name: Outcome(seen, staying) for name, seen, staying in counts}
        for name, (seen, _) in found.items():
            if seen != total_rows(self._files[name]):
                raise KgroupsError(
                    f"table {name}: {seen} of {total_rows(self._files[name])} rows were found; nothing was changed"
                )
        rows, left = self._ledger
        return {**{name: found[name] for name in names}, "audits": Outcome(len(rows), len(left))}

    @cached_property
    def _ledger(self) -> tuple[pa.Table, pa.Table]:
        """The rows up to the newest old audit, and those of them that stay."""
        rows = self.lake.rows("audits", conditions=[Condition("audit_id", "<=", self.old.newest)])
        return rows, reduced_ledger(rows, self.old, of_groups(self.of)) if self.old.newest else rows

    def _commit(self, writer: LakeWriter, name: str, outcome: Outcome) -> None:
        files = self._files[name]
        rows = answer(self.lake, self._reduction.rows_left(name), self._files)
        size = files_for(total_bytes(files) * outcome.staying // outcome.seen)
        parts = parts_of(self.lake.runner, in_order(rows, name, size), writer.part_writer(name))
        missing = outcome.staying - sum(part.records for part in parts)
        if missing:
            raise KgroupsError(
                f"table {name}: of {outcome.staying} rows {missing} would be missing; nothing was changed"
            )
        replace_files(writer, name, files, parts)

    def _commit_ledger(self, writer: LakeWriter) -> None:
        newest, name = self.old.newest, "audits"
        files = [file for file in self.lake.table(name).files() if (file.bound("minValues", "audit_id") or 0) <= newest]
        rows = self.lake.rows(name, files=files)
        newer = rows.filter(pc.greater(rows["audit_id"], newest))
        part = self.lake.write(name, [pa.concat_tables([self._ledger[1], newer]).sort_by("audit_id")], writer.audit_id)
        replace_files(writer, name, files, [part] if part else [])


def _counted(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    return {name: each.gone for name, each in outcomes.items() if each.gone and TABLES[name].kind in COUNTED}


def kept_history(lake: Lake, moment_ms: int, further: Horizons | None = None) -> KeptHistory:
    """History reduced to the newest kept states, or further, to `further` (only for a dry run)."""
    return KeptHistory(lake, {**reduced_to(lake), **(further or {})}, moment_ms)


# Upkeep of the tables: small files are compacted in an order that suits queries, and files that no version needs any
# more are deleted.
#
# An audit leaves a few small files in each table, with the rows of one night. They are rewritten in lots of consecutive
# nights, sorted by group, offsets partition, topic, partition and log offset. Then a query for "one group, last week"
# reads a few row groups of a few files, even without the group's offsets partition. Delta's own OPTIMIZE only
# concatenates files, and its ZORDER BY starts from the whole table each time and does not sort inside a file;
# benchmarks/README.md has the figures. Neither way needs more than reader version 1 and writer version 2.

# The size to aim for in a file, the size below which it is small, and the size of a lot of nights, sorted at once.
FILE_BYTES = 32 << 20
SMALL_BYTES = FILE_BYTES // 2
LOT_BYTES = 256 << 20

IN_ORDER_OF = ("group_id", "transactional_id", "offsets_partition", "topic", "partition", "hour", "log_offset")


@dataclass(frozen=True)
class Rewritten:
    """The outcome for a table's files, or the expected one (`bytes_after` None: not known before a run)."""

    table: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int | None


def is_optimized(name: str) -> bool:
    """Whether the table is optimized. Each audit rewrites current tables anyway, and a file of saved states must have
    those of one audit only."""
    return TABLES[name].kind in ("history", "ledger")


def lots(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """The small files, oldest audits first, in lots that are worth rewriting because the result has fewer files."""
    small = sorted(
        (file for file in files if file.size < SMALL_BYTES),
        key=lambda file: (file.bound("minValues", "audit_id") or 0, file.path),
    )
    found: list[list[TableFile]] = [[]]
    for file in small:
        if total_bytes(found[-1]) >= LOT_BYTES:
            found.append([])
        found[-1].append(file)
    return [lot for lot in found if len(lot) > files_for(total_bytes(lot))]


def files_for(size_bytes: int) -> int:
    """The number of files for that many bytes."""
    return max(1, -(-size_bytes // FILE_BYTES))


def total_bytes(files: Sequence[TableFile]) -> int:
    return sum(file.size for file in files)


def optimize(writer: LakeWriter, name: str) -> Rewritten:
    """Compacts the table's small files; one commit for each lot, and none if there is nothing to gain."""
    before = writer.lake.table(name).files()
    for lot in lots(before):
        rewrite(writer, name, lot)
    after = writer.lake.table(name).files()
    return Rewritten(name, len(before), len(after), total_bytes(before), total_bytes(after))


def foreseen(lake: Lake, name: str) -> Rewritten:
    """The work that `optimize` would do."""
    files = lake.table(name).files()
    fewer = sum(len(lot) - files_for(total_bytes(lot)) for lot in lots(files))
    return Rewritten(name, len(files), len(files) - fewer, total_bytes(files), None)


def rewrite(writer: LakeWriter, name: str, files: Sequence[TableFile]) -> None:
    """Rewrites the files' rows, sorted, into new files, in one commit.

    Raises KgroupsError, with nothing committed, if the number of rows differs, or if another process has replaced one
    of the files.
    """
    log = writer.lake.table(name)
    files_in_full = [f"{log.path}/{unquote(file.path)}" for file in files]
    rows = parquet_of(writer.lake.spark, TABLES[name].schema, files_in_full)
    parts = parts_of(writer.lake.runner, in_order(rows, name, files_for(total_bytes(files))), writer.part_writer(name))
    missing = total_rows(files) - sum(part.records for part in parts)
    if missing:
        raise KgroupsError(f"table {name}: of {total_rows(files)} rows {missing} would be missing; nothing was changed")
    replace_files(writer, name, files, parts, changes_rows=False)


def replace_files(
    writer: LakeWriter, name: str, files: Sequence[TableFile], parts: Sequence[Part], *, changes_rows: bool = True
) -> None:
    """Replaces the files by the parts, in one commit. Raises KgroupsError, with nothing committed, if a part is
    missing, or if another process has replaced one of the files."""
    log, paths = writer.lake.table(name), {file.path for file in files}
    missing = log.missing(parts)
    if missing:
        raise KgroupsError(f"table {name}: parts that tasks wrote are not there ({missing[0]}); nothing was changed")
    replace = partial(
        log.commit,
        parts,
        by=f"kgroups-spark maintain {writer.audit_id}",
        remove=lambda file: file.path in paths,
        removes=len(paths),
        changes_rows=changes_rows,
    )
    try:
        operation = "replace" if changes_rows else "optimize"
        writer.fence.commit(name, operation, lambda transaction: replace(transaction=transaction))
    except ChangedMeanwhile as meanwhile:
        raise KgroupsError(
            f"table {name}: another program rewrote its files at the same time ({meanwhile}): run maintain again"
        ) from meanwhile


def restore_files(writer: LakeWriter, name: str, version: int | None) -> None:
    """Restores the files of an earlier version of the table. Raises KgroupsError if they are gone."""
    log = writer.lake.table(name)
    then, now = ({file.path: file for file in log.files(at)} for at in (version, None))
    if then.keys() == now.keys():
        return
    parts = [
        Part(name, unquote(path), file.size, int(file.stats["numRecords"]), json.dumps(file.stats))
        for path, file in then.items()
        if path not in now
    ]
    missing = log.missing(parts)
    if missing:
        raise KgroupsError(f"table {name}: what the last finished audit left is gone ({missing[0]}): run kgroups audit")
    by = f"kgroups-spark maintain {writer.audit_id}, as of the last finished audit"
    replace = partial(log.commit, parts, by=by, remove=lambda file: file.path not in then)
    writer.fence.commit(name, "replace", lambda transaction: replace(transaction=transaction))


def in_order(rows: DataFrame, name: str, files: int) -> DataFrame:
    """The table's rows, sorted and cut into so many Spark partitions of about the same number of rows."""
    columns = [column for column in IN_ORDER_OF if column in TABLES[name].schema.names] or ["audit_id"]
    placed = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *columns)
    return placed.sortWithinPartitions(*columns)


def vacuum(writer: LakeWriter, name: str, retain_ms: int) -> int:
    """Deletes the files that no version within `retain_ms` needs, including those of failed tasks; returns the bytes
    freed."""
    lake = writer.lake
    before = _old_bytes(lake, name, retain_ms)
    if not before:
        return 0  # Delta's listing costs seconds a table
    statement = _vacuum(lake, name, retain_ms)
    # These files are needed by no version within that time, not even of an audit that has taken over meanwhile.
    with named_if_lost(writer.check_claim):
        lake.commit(name, "vacuum", lambda: _quietly(lake, statement))
    return before - _old_bytes(lake, name, retain_ms)


def vacuumable(lake: Lake, name: str, retain_ms: int) -> int:
    """The bytes that `vacuum` would free (in at most 1,000 files, because Delta lists no more)."""
    if not _old_bytes(lake, name, retain_ms):
        return 0
    named = {row.path.rsplit("/", 1)[-1] for row in _quietly(lake, f"{_vacuum(lake, name, retain_ms)} DRY RUN")}
    files = lake.store.files_in(lake.table(name).path)
    return sum(size for path, (size, _) in files.items() if path in named)


def _old_bytes(lake: Lake, name: str, retain_ms: int) -> int:
    """The bytes of files that no longer belong to the table, or never did, and are old enough to delete."""
    log, last_ms = lake.table(name), time.time() * 1000 - retain_ms
    live = {unquote(file.path) for file in log.files()}
    files = lake.store.files_in(log.path)
    return sum(size for path, (size, at_ms) in files.items() if path not in live and at_ms < last_ms)


def _vacuum(lake: Lake, name: str, retain_ms: int) -> str:
    return f"VACUUM {lake.identifier(name)} RETAIN {-(-retain_ms // HOUR_MS)} HOURS"


def _quietly(lake: Lake, statement: str) -> list[Row]:
    """Runs a VACUUM statement and returns its rows. Delta's own messages go to stderr: stdout is for rows."""
    with lake.store.telling_on_stderr():
        return lake.spark.sql(statement).collect()
