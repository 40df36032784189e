"""Rows of `group_records`, `transaction_markers` and `quarantine` from one chunk of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.decoding.markers import Marker
from kgroups_spark.decoding.transaction_outcomes import OUTCOME_NAMES
from kgroups_spark.messages.coordinator_records import CoordinatorRecord
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.tables.quarantine import LOAD_WOULD_FAIL, MISREAD_COLUMNS
from kgroups_spark.tables.rows import table_batch
from kgroups_spark.tables.schemas import arrow_schema


@dataclass(frozen=True)
class HistoryRows:
    """Makes rows from the records of one chunk, which are given by their index in the chunk."""

    audit_id: int
    offsets_partition: int
    records: RecordColumns

    def group_records(self, decoded: list[tuple[int, CoordinatorRecord]]) -> pa.RecordBatch:
        # Read once: the properties compute these arrays on each access.
        is_transactional, offset_delta = self.records.is_transactional, self.records.offset_delta
        rows = [
            (
                *self._place(row),
                None if offset_delta[row] < 0 else int(offset_delta[row]),
                record.record_type,
                record.record_name,
                record.group_id,
                record.member_id,
                record.regular_expression,
                record.value_version,
                record.value_json(),
                self._producer_id(row),
                bool(is_transactional[row]),
                self.records.key(row) if record.keeps_raw else None,
                self.records.value(row) if record.keeps_raw else None,
            )
            for row, record in decoded
        ]
        return self._batch("group_records", None, rows)

    def markers(self, markers: list[Marker]) -> pa.RecordBatch:
        """Rows of markers, without the transaction that they ended, which the replay adds."""
        return self._batch("transaction_markers", None, [marker_row(marker) for marker in markers])

    def quarantine(self, bad: list[tuple[int, Undecodable]], path: str | None, release: Release) -> pa.RecordBatch:
        # A control record never begins a transaction.
        is_transactional = self.records.is_transactional & ~self.records.is_control
        rows = [
            (
                *self._place(row),
                1,
                what.record_type,
                what.record_name,
                what.group_id,
                what.topic,
                what.partition,
                what.value_version,
                self._producer_id(row),
                bool(is_transactional[row]),
                what.reason,
                what.detail,
                load_fails(what, release),
                path,
                None if path is None else int(self.records.batches.position[self.records.batch[row]]),
                self.records.key(row),
                self.records.value(row),
            )
            for row, what in bad
        ]
        return self._batch("quarantine", None, rows, resolved_by=None)

    def load_failures(self, misread: list[tuple[int, CoordinatorRecord]], release: Release) -> pa.RecordBatch:
        """Rows of quarantine for records in group_records that a coordinator of the release cannot read, because it has
        another layout for the same version (T58)."""
        rows = [
            (
                *self._place(row),
                record.record_type,
                record.record_name,
                record.group_id,
                record.value_version,
                self._producer_id(row),
                misread_detail(record.record_name, record.layout, release),
            )
            for row, record in misread
        ]
        return self._batch("quarantine", MISREAD_COLUMNS, rows, **LOAD_WOULD_FAIL)

    def _place(self, row: int) -> tuple[int, int | None]:
        timestamp = int(self.records.timestamp[row])
        return int(self.records.offset[row]), None if timestamp < 0 else timestamp

    def _producer_id(self, row: int) -> int | None:
        producer_id = int(self.records.batches.producer_id[self.records.batch[row]])
        return None if producer_id < 0 else producer_id

    def _batch(
        self, name: str, columns: tuple[str, ...] | None, rows: list[tuple[Any, ...]], **more: Any
    ) -> pa.RecordBatch:
        constants = {"audit_id": self.audit_id, "offsets_partition": self.offsets_partition, **more}
        return table_batch(name, columns, rows, **constants)


def marker_row(marker: Marker) -> tuple[Any, ...]:
    """A row of transaction_markers, without the transaction that the marker ended."""
    return (
        marker.log_offset,
        None if marker.log_timestamp < 0 else marker.log_timestamp,
        None if marker.producer_id < 0 else marker.producer_id,
        None if marker.producer_id < 0 else marker.producer_epoch,
        marker.coordinator_epoch,
        marker.control_type,
        OUTCOME_NAMES.get(marker.outcome),
        None,
        None,
        None,
    )


def load_fails(what: Undecodable, release: Release) -> bool:
    """Whether the load of a coordinator of the release would fail at the record.

    It skips a type that it does not know, whatever the value (KIP-915). Any other record that it cannot decode ends its
    load.
    """
    if what.record_type is None or what.record_type in release.record_types | release.unreplayable_types:
        return True
    return release.fails_to_read(what.record_type, what.value_version)


def misread_detail(record_name: str, layout: str, release: Release) -> str:
    """The reason for which the release's load fails at a value in that early-access layout."""
    return f"{record_name}Value has the early-access layout of Kafka {layout}, which {release.name} does not read"


def is_misread(record: CoordinatorRecord, release: Release) -> bool:
    """Whether a coordinator of the release knows the record's type but not the layout of its value."""
    is_known = record.record_type in release.record_types and not record.is_tombstone
    return is_known and not release.reads_layout(record.layout)


def corrupt_batch_rows(
    audit_id: int, offsets_partition: int, log_offset: int, batch: CorruptBatch, path: str | None
) -> pa.RecordBatch:
    """The row of quarantine for a batch that cannot be read, with its bytes in raw_value. `path`: of its segment; None:
    it was fetched from a cluster."""
    known = {
        "audit_id": audit_id,
        "offsets_partition": offsets_partition,
        "log_offset": log_offset,
        "record_count": batch.record_count,
        "reason": "corrupt_batch",
        "detail": batch.detail,
        "coordinator_fails": True,
        "file": path,
        "file_position": None if path is None else batch.position,
        "raw_value": batch.raw,
    }
    return table_batch("quarantine", (), [()], **dict.fromkeys(arrow_schema("quarantine").names) | known)
