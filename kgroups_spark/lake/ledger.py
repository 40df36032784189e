"""The ledger as plain values. An audit has one row `running` and, once all its rows count, one row `finished`; nothing
counts in between. An audit that was taken over has a row `abandoned` instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.lake import Fence, Lake, Transaction, until_nobody_interferes
from kgroups_spark.lake.last_finished import (
    ABANDONED,
    LEDGER_APP_ID,
    STATUSES,
    claim_lost,
    is_of_log,
    lots_backwards,
    newest_audit,
)
from kgroups_spark.lake.last_finished import FINISHED as FINISHED
from kgroups_spark.lake.last_finished import RUNNING as RUNNING
from kgroups_spark.lake.replaced import Replaced, ReplacedRange
from kgroups_spark.lake.store import TableLog
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.schemas import LAKE_VERSION, arrow_schema

# Each row is a file at first. MANY_FILES small files become one; a file of FULL_FILE_ROWS rows stays as it is. So a row
# is written three times in ten years of nights, and a search for the newest row opens at most 32 files.
MANY_FILES = 32
FULL_FILE_ROWS = 1024

WAS_COMPLETE = (
    "although it had written all its rows: it was killed just then, or the ledger has lost its last row (a file in "
    "audits/_delta_log, as in a copy that was made during the audit)"
)

# Tables to which hardly any audit adds no row.
SELDOM_LEFT_OUT = ("offset_commits", "group_records", "groups", "findings")


class PartitionProgress(NamedTuple):
    """How far an audit read a partition of a log, and the identity of that log (an entry of the column `partitions`).
    `offsets_partition` is a partition of `topic`; `topic` None: of __consumer_offsets."""

    offsets_partition: int
    start_offset: int
    end_offset: int
    records: int = 0
    records_reread: int = 0
    bytes: int = 0
    offsets_missing: int = 0
    topic_id: str | None = None
    log_start_offset: int | None = None
    lost_from: int | None = None
    lost_to: int | None = None
    last_batch_offset: int | None = None
    last_leader_epoch: int | None = None
    last_batch_crc: int | None = None
    newest_log_timestamp: datetime | None = None
    topic: str | None = None


class RecordCount(NamedTuple):
    """The number of records of a type and value version (None: tombstones) that an audit read."""

    record_type: int
    value_version: int | None
    records: int


def record_counts(counts: Mapping[tuple[int, int | None], int]) -> tuple[RecordCount, ...]:
    """Counts by (record type, value version) as entries of the ledger, sorted."""
    in_order = sorted(counts.items(), key=lambda count: (count[0][0], count[0][1] or -1))
    return tuple(RecordCount(*kind, records) for kind, records in in_order)


class AuditRow(NamedTuple):
    """A row of `audits`; columns that only a finished audit can fill are None before. Times are datetimes in UTC.
    `partitions` becomes two fields: the entries of __consumer_offsets, and those of other logs."""

    audit_id: int
    status: str
    owner: str
    started_at: datetime
    finished_at: datetime | None = None
    as_of: datetime | None = None
    retention_ms: int | None = None
    retention_source: str | None = None
    release_version: str | None = None
    rules_version: int | None = None
    state_format: int | None = None
    source: str | None = None
    cluster_id: str | None = None
    software_version: str | None = None
    lake_version: int = LAKE_VERSION
    newest_log_timestamp: datetime | None = None
    partitions: tuple[PartitionProgress, ...] | None = None
    rows_added: dict[str, int] | None = None
    quarantined: dict[str, int] | None = None
    record_counts: tuple[RecordCount, ...] | None = None
    notes: tuple[str, ...] | None = None
    replaced_ranges: tuple[ReplacedRange, ...] | None = None
    newest_audits: dict[str, int] | None = None
    removed_up_to: int | None = None
    state_partitions: tuple[PartitionProgress, ...] = ()

    @property
    def replaced(self) -> Replaced:
        return Replaced(self.replaced_ranges or ())

    def of_state_log(self, topic: str) -> AuditRow:
        """The row with the entries of another log in `partitions`."""
        return self._replace(partitions=tuple(each for each in self.state_partitions if each.topic == topic))

    def progress(self, offsets_partition: int) -> PartitionProgress | None:
        """How far the partition has been read; None: no audit has read it."""
        found = (each for each in self.partitions or () if each.offsets_partition == offsets_partition)
        return next(found, None)


class Ledger:
    """The table `audits` of a lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def rows(self) -> list[AuditRow]:
        """All rows, by audit, `running` before `finished`. Raises KgroupsError if newer software wrote one.

        Only for lakes of a few audits: after thousands this takes a gigabyte (`readings_backwards` reads less).
        """
        return self._in_order(self.lake.rows("audits"))

    def newest(self) -> list[AuditRow]:
        """The rows of the last finished audit and of later ones, as `rows`; all if none has finished. An audit needs no
        others, however many there are."""
        return self._in_order(self.lake.ledgers_end())

    def last_finished(self) -> AuditRow | None:
        """The newest audit with rows that count; None: none has finished yet."""
        return last_finished(self.newest())

    @property
    def log(self) -> TableLog:
        return self.lake.table("audits")

    def append(self, row: AuditRow) -> None:
        """Adds the row. Raises AlreadyWritten if the ledger already has such a row, or a later one."""
        add = partial(self._add, row.audit_id, [row], _transaction(row))
        self.lake.commit("audits", "append", partial(until_nobody_interferes, add))

    def abandon(self, fence: Fence, rows: Sequence[AuditRow]) -> list[int]:
        """Adds a row `abandoned` for each row `running` whose audit, shut out before, has none yet: one that stalled
        here could add the same row. Returns the audits that had written all their rows."""
        known = {row.audit_id for row in self.newest() if row.status == ABANDONED} if rows else set()
        note = f"did not finish: audit {fence.audit_id} took over"
        unknown = [row for row in rows if row.audit_id not in known]
        complete = self._with_findings(unknown)
        new = [
            row._replace(
                status=ABANDONED,
                notes=(*(row.notes or ()), f"{note}, {WAS_COMPLETE}" if row.audit_id in complete else note),
            )
            for row in unknown
        ]
        if new:
            fence.commit("audits", "abandon", partial(self._add, fence.audit_id, new))
        return sorted(complete & {row.audit_id for row in unknown})

    def _with_findings(self, rows: Sequence[AuditRow]) -> set[int]:
        """The audits of these rows that have findings, the last rows that an audit writes."""
        if not rows or not self.lake.place.has("findings"):
            return set()
        conditions = [Condition("audit_id", ">=", min(row.audit_id for row in rows))]
        return set(self.lake.rows("findings", columns=["audit_id"], conditions=conditions)["audit_id"].to_pylist())

    def lost_audit(self) -> int | None:
        """The newest audit with rows, if the ledger's newest files are lost; None: they are not."""
        names = [name for name in SELDOM_LEFT_OUT if self.lake.place.has(name)]
        written_by = max((newest_audit(self.lake.table(name).snapshot().last_transaction) for name in names), default=0)
        return written_by if claim_lost(written_by, self.log.snapshot().last_transaction(LEDGER_APP_ID)) else None

    def _in_order(self, table: pa.Table) -> list[AuditRow]:
        rows = [_audit_row(row) for row in table.to_pylist(maps_as_pydicts="strict")]
        return sorted(rows, key=lambda row: (row.audit_id, STATUSES.index(row.status)))

    def _add(self, audit_id: int, added: Sequence[AuditRow], transaction: Transaction) -> None:
        rows, log = _arrow(added), self.lake.table("audits")
        small = [file for file in log.files() if file.stats.get("numRecords", 0) < FULL_FILE_ROWS]
        paths = {file.path for file in small} if len(small) >= MANY_FILES else set()
        if paths:
            rows = pa.concat_tables([self.lake.rows("audits", files=small), rows]).sort_by("audit_id")
        parts = self.lake.write("audits", [rows], audit_id)
        remove = (lambda file: file.path in paths) if paths else None
        by, removes = f"kgroups-spark audit {audit_id}", len(paths) if paths else None
        log.commit(parts, by=by, transaction=transaction, remove=remove, removes=removes)


def _transaction(row: AuditRow) -> Transaction:
    """Claims and ends are versions under one application id: after the next claim, Delta itself refuses this audit's
    end. Otherwise an audit that is taken over while it finishes would count, without its rows."""
    return LEDGER_APP_ID, 2 * row.audit_id + (row.status == FINISHED)


def last_finished(rows: list[AuditRow]) -> AuditRow | None:
    return max((row for row in rows if row.status == FINISHED), key=lambda row: row.audit_id, default=None)


def _arrow(rows: Sequence[AuditRow]) -> pa.Table:
    return pa.Table.from_pylist([_as_columns(row._asdict()) for row in rows], schema=arrow_schema("audits"))


def _as_columns(row: dict[str, Any]) -> dict[str, Any]:
    others = row.pop("state_partitions")
    if row["partitions"] is not None:
        row["partitions"] = [*row["partitions"], *others]
    for name in ("partitions", "record_counts", "replaced_ranges"):
        row[name] = None if row[name] is None else [each._asdict() for each in row[name]]
    for name in ("rows_added", "quarantined", "newest_audits"):
        row[name] = None if row[name] is None else list(row[name].items())
    return row


def _audit_row(row: dict[str, Any]) -> AuditRow:
    progress, counts, notes = row.pop("partitions"), row.pop("record_counts"), row.pop("notes")
    replaced = Replaced.of(row.pop("replaced_ranges")).ranges
    entries = [PartitionProgress(**each) for each in progress or ()]
    return AuditRow(
        **row,
        partitions=None if progress is None else tuple(each for each in entries if each.topic is None),
        state_partitions=tuple(each for each in entries if each.topic is not None),
        record_counts=None if counts is None else tuple(RecordCount(**each) for each in counts),
        notes=None if notes is None else tuple(notes),
        replaced_ranges=replaced or None,
    )


# Never all rows of the ledger: ten years of nights have 730,000 entries of partitions. So rows are read by number,
# from the newest back, and entries stay columns.


class Reading(NamedTuple):
    """A finished audit, and the partitions in which it read records."""

    started_at: datetime
    newest_log_timestamp: datetime | None
    offsets_partitions: frozenset[int]


def readings_backwards(lake: Lake, newest: int, topic: str | None = None) -> Iterator[Reading]:
    """The spans that finished audits read of the log (None: __consumer_offsets), audit `newest` first."""
    columns = ["started_at", "newest_log_timestamp", "partitions"]
    for rows in lots_backwards(partial(lake.rows, "audits"), columns, newest):
        for index in range(rows.num_rows):
            row = rows.slice(index, 1)
            entries = pc.list_flatten(row["partitions"].combine_chunks())
            entries = entries.filter(is_of_log(entries, topic))
            was_read = pc.or_(*(pc.greater(pc.struct_field(entries, name), 0) for name in ("records", "bytes")))
            numbers = pc.struct_field(entries, "offsets_partition").filter(was_read).to_pylist()
            started_at, newest_log_timestamp = (row[name][0].as_py() for name in columns[:2])
            yield Reading(started_at, newest_log_timestamp, frozenset(numbers))


def what_was_read(lake: Lake, newest: int) -> pa.Table:
    """The spans that each finished audit up to `newest` read, in no order: audit_id, retention_ms, offsets_partition,
    start_offset, end_offset, records; all int64, one row for each entry with anything to read."""
    columns = ["retention_ms", "partitions"]
    return pa.concat_tables(map(entries_of, lots_backwards(partial(lake.rows, "audits"), columns, newest)))


ENTRY = ("offsets_partition", "start_offset", "end_offset", "records")


def entries_of(rows: pa.Table) -> pa.Table:
    """The columns of `what_was_read` of rows of the ledger with audit_id, retention_ms and partitions."""
    rows = rows.combine_chunks()
    lists = rows["partitions"]
    entries, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    columns = {name: rows[name].take(parents).cast(pa.int64()) for name in ("audit_id", "retention_ms")}
    columns |= {name: pc.struct_field(entries, name).cast(pa.int64()) for name in ENTRY}
    table = pa.table(columns).filter(is_of_log(entries))
    return table.filter((pc.field("end_offset") > pc.field("start_offset")) | (pc.field("records") > 0))


def records_read(read: pa.Table) -> Counter[int]:
    """The number of records of each partition of __consumer_offsets, from rows of `what_was_read`."""
    sums = read.group_by("offsets_partition").aggregate([("records", "sum")])
    return Counter(dict(zip(sums["offsets_partition"].to_pylist(), sums["records_sum"].to_pylist(), strict=True)))
