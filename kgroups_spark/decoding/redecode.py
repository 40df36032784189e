"""Undecodable records in quarantine, decoded again by software that knows more types and versions.

A record that now decodes becomes a row of its table under the audit that decodes it; its row of quarantine names that
audit (`resolved_by`) and no longer counts. Quarantine has no producer epoch, so it is null. Rows from before layout 5
have no is_transactional either: there a record with a producer counts as transactional, because Kafka's coordinators
write no other records with a producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.decoding.commit_rows import CommitBatches
from kgroups_spark.decoding.group_traffic import GroupTraffic
from kgroups_spark.decoding.markers import ends
from kgroups_spark.decoding.record_rows import HistoryRows
from kgroups_spark.messages.coordinator_records import CoordinatorRecord
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.messages.offset_commits import OffsetCommitDecoder, classify
from kgroups_spark.records.columns import TRANSACTIONAL, BatchColumns, RecordColumns
from kgroups_spark.records.headers import PADDING
from kgroups_spark.tables.rows import with_columns
from kgroups_spark.times import to_epoch_ms

# The tables for a record that now decodes, and for its counts.
DECODED_TABLES = ("offset_commits", "group_records", "group_traffic")
# Columns needed to decode.
COLUMNS = ["log_offset", "log_timestamp", "producer_id", "is_transactional", "raw_key", "raw_value"]

ROWS_AT_ONCE = 10_000


def decodable(quarantine: pa.Table) -> pa.Table:
    """Rows that may decode some day: they still count, are one record each, and have its key."""
    is_one = (pc.field("record_count") == 1) & pc.field("raw_key").is_valid()
    return quarantine.filter(pc.field("resolved_by").is_null() & (pc.field("reason") != "corrupt_batch") & is_one)


def decoded_again(
    quarantine: pa.Table, offsets_partition: int, audit_id: int
) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
    """Rows of DECODED_TABLES for the records in an offsets partition's quarantine that decode now. An hour of a group
    may have several rows of group_traffic, which the caller adds up."""
    rows = quarantine.select(COLUMNS).sort_by("log_offset")
    for start in range(0, rows.num_rows, ROWS_AT_ONCE):
        records = _record_columns(rows.slice(start, ROWS_AT_ONCE).to_pylist())
        yield from _decoded_records(records, offsets_partition, audit_id)


def _decoded_records(
    records: RecordColumns, offsets_partition: int, audit_id: int
) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
    commit_rows, other_rows, _ = classify(records)
    commit_decoder, traffic = OffsetCommitDecoder(), GroupTraffic()
    commits = commit_decoder.decode(records, commit_rows)
    batches = CommitBatches(audit_id, offsets_partition)
    for lot in (*batches.add(records, commits, commit_decoder.keys, ends([])), *batches.rest()):
        yield "offset_commits", with_columns(lot, producer_epoch=pa.nulls(lot.num_rows, pa.int16()))
    decoded = [
        (row, what)
        for row, what in zip(other_rows.tolist(), GroupRecordDecoder().decode_rows(records, other_rows), strict=True)
        if isinstance(what, CoordinatorRecord)
    ]
    if decoded:
        yield "group_records", HistoryRows(audit_id, offsets_partition, records).group_records(decoded)
    traffic.add_chunk(records, commits, commit_decoder.keys, decoded)
    counted = traffic.batch(audit_id=audit_id, offsets_partition=offsets_partition)
    if counted.num_rows:
        yield "group_traffic", counted


def _record_columns(rows: Sequence[dict[str, Any]]) -> RecordColumns:
    """The records as if each had its own batch."""
    key_start, key_length, value_start, value_length = (np.zeros(len(rows), np.int64) for _ in range(4))
    data = bytearray()
    for at, row in enumerate(rows):
        for start, length, content in (
            (key_start, key_length, row["raw_key"]),
            (value_start, value_length, row["raw_value"]),
        ):
            start[at], length[at] = len(data), -1 if content is None else len(content)
            data += content or b""
    offset = np.array([row["log_offset"] for row in rows], np.int64)
    timestamp = np.array(
        [-1 if row["log_timestamp"] is None else to_epoch_ms(row["log_timestamp"]) for row in rows], np.int64
    )
    producer_id = np.array([-1 if row["producer_id"] is None else row["producer_id"] for row in rows], np.int64)
    return RecordColumns(
        np.frombuffer(bytes(data) + bytes(PADDING), np.uint8),
        _batch_columns(offset, timestamp, producer_id, np.array(list(map(_is_transactional, rows)))),
        np.arange(len(rows), dtype=np.int32),
        offset,
        timestamp,
        key_start,
        key_length,
        value_start,
        value_length,
    )


def _is_transactional(row: dict[str, Any]) -> bool:
    known = row["is_transactional"]
    return row["producer_id"] is not None if known is None else bool(known)


def _batch_columns(
    offset: np.ndarray[Any, Any],
    timestamp: np.ndarray[Any, Any],
    producer_id: np.ndarray[Any, Any],
    is_transactional: np.ndarray[Any, Any],
) -> BatchColumns:
    rows = len(offset)
    none, zeros = np.full(rows, -1), np.zeros(rows, np.int64)
    return BatchColumns(
        base_offset=none,  # quarantine does not have it
        last_offset=offset,
        leader_epoch=none.astype(np.int32),
        magic=np.full(rows, 2, np.int8),
        crc=zeros,
        attributes=np.where(is_transactional, TRANSACTIONAL, 0).astype(np.int16),
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=none.astype(np.int16),
        record_count=np.ones(rows, np.int32),
        position=zeros,
        size=zeros,
    )
