"""The ledger: what each audit claimed, read and finished, as plain values.

An audit has one row `running` and, when everything it wrote counts, one row `finished`; nothing counts in between. One
that was taken over has a row `abandoned` instead. Heartbeats are transactions without rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.fence import Fence, Transaction, until_nobody_interferes
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import ABANDONED, HEARTBEAT_APP_ID, STATUSES
from kgroups_spark.lake.last_finished import FINISHED as FINISHED
from kgroups_spark.lake.last_finished import RUNNING as RUNNING
from kgroups_spark.lake.ledger_rows import newest_rows
from kgroups_spark.lake.parts_writer import PartWriter
from kgroups_spark.lake.replaced import Replaced, ReplacedRange
from kgroups_spark.lake.store import AlreadyWritten, TableFile, TableLog
from kgroups_spark.tables.layout import LAKE_VERSION
from kgroups_spark.tables.schemas import TABLES, arrow_schema

# Each row is a file at first; so many small files become one, until it has so many rows that it stays as it is. A row
# then is written three times in ten years of nights, and those who look for the newest one open 32 files at most.
MANY_FILES = 32
FULL_FILE_ROWS = 1024

# A heartbeat's transaction version: the audit's number above so many bits, in which there are seconds since 1970.
SECONDS_BITS = 34


@dataclass(frozen=True)
class PartitionProgress:
    """How far an audit read a partition of a log, and which log it was (column `partitions`). `offsets_partition` is
    the partition of `topic`; None: of __consumer_offsets."""

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


@dataclass(frozen=True)
class RecordCount:
    """How many records of a type and value version (None: tombstones) an audit read."""

    record_type: int
    value_version: int | None
    records: int


def record_counts(counts: Mapping[tuple[int, int | None], int]) -> tuple[RecordCount, ...]:
    """Counts by (record type, value version) as the ledger has them, in order."""
    in_order = sorted(counts.items(), key=lambda count: (count[0][0], count[0][1] or -1))
    return tuple(RecordCount(*kind, records) for kind, records in in_order)


@dataclass(frozen=True)
class AuditRow:
    """A row of `audits`; what only a finished audit knows is None before. Times are datetimes in UTC.

    The column `partitions` is in two fields: the entries of __consumer_offsets, and those of other logs.
    """

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
    state_partitions: tuple[PartitionProgress, ...] = ()

    @property
    def replaced(self) -> Replaced:
        """The rows of history that the log no longer bears out."""
        return Replaced(self.replaced_ranges or ())

    def of_state_log(self, topic: str) -> AuditRow:
        """The row as one of another log's audit: its entries are in `partitions`."""
        return replace(self, partitions=tuple(each for each in self.state_partitions if each.topic == topic))

    def progress(self, offsets_partition: int) -> PartitionProgress | None:
        """How far the partition is read; None: no audit has read it."""
        found = (each for each in self.partitions or () if each.offsets_partition == offsets_partition)
        return next(found, None)


class Ledger:
    """The table `audits` of a lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def rows(self) -> list[AuditRow]:
        """All rows, by audit, `running` before `finished`. Raises KgroupsError if newer software wrote one.

        For lakes of a few audits: after thousands this is a gigabyte (ledger_rows.py has what asks for less).
        """
        return self._in_order(self.lake.rows("audits"))

    def newest(self) -> list[AuditRow]:
        """The rows of the last finished audit and of those after it, as `rows`; all while none has finished.

        The facts that an audit needs, at the same cost after a thousand others.
        """
        return self._in_order(newest_rows(self.lake))

    def last_finished(self) -> AuditRow | None:
        """The newest audit whose rows count; None: none has finished yet."""
        return last_finished(self.newest())

    @property
    def log(self) -> TableLog:
        return self.lake.table("audits")

    def version(self) -> int:
        """Rises with each row."""
        return self.log.version()

    def append(self, row: AuditRow) -> None:
        """Adds the row. Raises kernel.AlreadyWritten if the audit's row of that status is there, or a later row."""
        self.lake.commit("audits", "append", partial(until_nobody_interferes, partial(self._append, row)))

    def abandon(self, fence: Fence, rows: Sequence[AuditRow]) -> None:
        """Adds a row `abandoned` for each of these rows `running` whose audit has none yet.

        The audits before that of the fence must have been shut out: one that stalled here could add the same row.
        """
        known = {row.audit_id for row in self.newest() if row.status == ABANDONED} if rows else set()
        note = f"did not finish: audit {fence.audit_id} took over"
        unknown = [row for row in rows if row.audit_id not in known]
        new = [replace(row, status=ABANDONED, notes=(*(row.notes or ()), note)) for row in unknown]
        if new:
            fence.commit("audits", "abandon", partial(self._add, fence.audit_id, new))

    def beat(self, audit_id: int, now: datetime) -> None:
        """Remembers that the audit was at work at that time; nothing if that or more is known."""
        log = self.lake.table("audits")
        by = f"kgroups-spark audit {audit_id}, heartbeat"
        transaction = (HEARTBEAT_APP_ID, audit_id << SECONDS_BITS | int(now.timestamp()))
        with suppress(AlreadyWritten):
            self.lake.commit("audits", "heartbeat", partial(log.commit, [], by=by, transaction=transaction))

    def heard_of(self, row: AuditRow) -> datetime:
        """When the audit of a row `running` was last known to be at work."""
        newest = self.lake.table("audits").last_transaction(HEARTBEAT_APP_ID) or 0
        if newest >> SECONDS_BITS != row.audit_id:
            return row.started_at
        beat = datetime.fromtimestamp(newest & ((1 << SECONDS_BITS) - 1), UTC)
        return max(beat, row.started_at)

    def _in_order(self, table: pa.Table) -> list[AuditRow]:
        rows = [_audit_row(row) for row in table.to_pylist(maps_as_pydicts="strict")]
        newer = [row for row in rows if row.lake_version > LAKE_VERSION]
        if newer:
            raise KgroupsError(
                f"audit {newer[0].audit_id} of the lake at {self.lake.location} was written with layout "
                f"{newer[0].lake_version}; this version of kgroups-spark knows up to {LAKE_VERSION}: use a newer one"
            )
        return sorted(rows, key=lambda row: (row.audit_id, STATUSES.index(row.status)))

    def _append(self, row: AuditRow) -> None:
        self._add(row.audit_id, [row], _transaction(row))

    def _add(self, audit_id: int, rows: Sequence[AuditRow], transaction: Transaction) -> None:
        add = self._add_file if self.lake.files_in_reach else self._add_by_spark
        add(audit_id, _arrow(rows), transaction)

    def _add_file(self, audit_id: int, rows: pa.Table, transaction: Transaction) -> None:
        log = self.lake.table("audits")
        small = [file for file in log.files() if file.stats.get("numRecords", 0) < FULL_FILE_ROWS]
        remove = None
        if len(small) >= MANY_FILES:
            rows = pa.concat_tables([self.lake.rows("audits", files=small), rows]).sort_by("audit_id")
            remove = partial(_is_one_of, {file.path for file in small})
        part = PartWriter("audits", self.lake.uri, audit_id).write(rows)
        assert part is not None
        by, removes = f"kgroups-spark audit {audit_id}", len(small) if remove else None
        log.commit([part], by=by, transaction=transaction, remove=remove, removes=removes)

    def _add_by_spark(self, audit_id: int, added: pa.Table, transaction: Transaction) -> None:
        app_id, version = transaction
        newest = self.lake.table("audits").last_transaction(app_id)
        if newest is not None and newest >= version:
            raise AlreadyWritten(f"{app_id} {newest}")
        rows = self.lake.spark.createDataFrame(added, TABLES["audits"].schema)
        options = {"txnAppId": app_id, "txnVersion": str(version)}
        self.lake.place.append("audits", rows, options)


def _transaction(row: AuditRow) -> Transaction:
    """Claims and ends are versions of one transaction: after the next claim, Delta itself refuses this audit's end.

    Were they two, an audit that is taken over while it finishes would count, and its rows be deleted as unfinished.
    """
    return "kgroups-ledger", 2 * row.audit_id + (row.status == FINISHED)


def _is_one_of(paths: set[str], file: TableFile) -> bool:
    """Whether the file is one whose rows were read."""
    return file.path in paths


def last_finished(rows: list[AuditRow]) -> AuditRow | None:
    """The newest finished one of the rows."""
    return max((row for row in rows if row.status == FINISHED), key=lambda row: row.audit_id, default=None)


def finished(running: AuditRow, **facts: Any) -> AuditRow:
    """The row `finished` of an audit: its row `running` and what it found out."""
    return replace(running, status=FINISHED, **facts)


def _arrow(rows: Sequence[AuditRow]) -> pa.Table:
    return pa.Table.from_pylist([_as_columns(asdict(row)) for row in rows], schema=arrow_schema("audits"))


def _as_columns(row: dict[str, Any]) -> dict[str, Any]:
    others = row.pop("state_partitions")
    if row["partitions"] is not None:
        row["partitions"] = [*row["partitions"], *others]
    for name in ("rows_added", "quarantined"):
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
