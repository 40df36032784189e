"""The log of an offsets partition after its saved state: rows of the four tables that hold the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.group_snapshots import DecodedRecord, GroupSnapshots
from kgroups_spark.offsets.history import group_ends, markers_of, other_records
from kgroups_spark.offsets.ranges import SlotRange
from kgroups_spark.offsets.records import milliseconds
from kgroups_spark.offsets.replay import OffsetHistory
from kgroups_spark.tables.rows import no_rows, sorted_by
from kgroups_spark.tables.schemas import LOG_TABLES, arrow_schema

# The number of group records that become objects together.
ROWS_AT_ONCE = 4096


class PlacedRecord(NamedTuple):
    """A record of types 2 to 23 with its log offset; the time is in epoch ms, None: none."""

    log_offset: int
    log_timestamp: int | None
    batch_offset: int | None
    producer_id: int | None
    record: DecodedRecord


@dataclass(frozen=True, eq=False)
class ShardHistory:
    """Rows of one offsets partition. Group records and markers are sorted by log offset.

    commits  a range of slots -> its rows of `offset_commits`
    """

    commits: Callable[[SlotRange], pa.Table]
    group_records: pa.Table
    markers: pa.Table
    quarantine: pa.Table

    @classmethod
    def of(
        cls,
        commits: Callable[[SlotRange], pa.Table],
        group_records: pa.Table,
        markers: pa.Table,
        quarantine: pa.Table,
    ) -> ShardHistory:
        """The history of rows in any order."""
        return cls(commits, sorted_by(group_records, "log_offset"), sorted_by(markers, "log_offset"), quarantine)

    @classmethod
    def of_tables(
        cls, commits: pa.Table, group_records: pa.Table, markers: pa.Table, quarantine: pa.Table
    ) -> ShardHistory:
        """The rows of the four tables, all in memory."""
        return cls.of(lambda slots: slots.of(commits), group_records, markers, quarantine)

    @classmethod
    def empty(cls) -> ShardHistory:
        return cls.of_tables(*(no_rows(arrow_schema(name)) for name in LOG_TABLES))

    def offsets(self) -> OffsetHistory:
        """The part that a replay of offsets needs."""
        return OffsetHistory(
            self.commits,
            markers_of(self.markers),
            other_records(self.group_records, self.quarantine),
            group_ends(self.group_records),
        )

    def records(self, snapshots: GroupSnapshots) -> Iterator[PlacedRecord]:
        """The group records in log order, decoded by `snapshots`."""
        for batch in self.group_records.to_batches(ROWS_AT_ONCE):
            table = pa.Table.from_batches([batch])
            times = milliseconds(table.column("log_timestamp")).to_pylist()
            decoded = snapshots.records(table)
            offsets, producers = table.column("log_offset"), table.column("producer_id").to_pylist()
            batches = pc.subtract(offsets, table.column("offset_delta")).to_pylist()
            yield from map(PlacedRecord, offsets.to_pylist(), times, batches, producers, decoded)

    def between(self, start: int | None, end: int | None) -> ShardHistory:
        """The rows with start <= log offset < end; None: without that bound."""

        def some(rows: pa.Table) -> pa.Table:
            offsets = rows.column("log_offset")
            rows = rows if start is None else rows.filter(pc.greater_equal(offsets, start))
            return rows if end is None else rows.filter(pc.less(rows.column("log_offset"), end))

        return ShardHistory(
            lambda slots: some(self.commits(slots)),
            some(self.group_records),
            some(self.markers),
            some(self.quarantine),
        )

    def after(self, earlier: ShardHistory) -> ShardHistory:
        """The rows of both."""
        return ShardHistory.of(
            lambda slots: pa.concat_tables([earlier.commits(slots), self.commits(slots)]),
            pa.concat_tables([earlier.group_records, self.group_records]),
            pa.concat_tables([earlier.markers, self.markers]),
            pa.concat_tables([earlier.quarantine, self.quarantine]),
        )
