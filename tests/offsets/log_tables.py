"""Rows of a log as the history tables hold them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pyarrow as pa

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.lake.parts import DICTIONARIES
from kgroups_spark.offsets.columns import ALONE, JoinedLog
from kgroups_spark.offsets.replay import ALL_SLOTS, OffsetHistory, replay_offsets
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.tables.rows import FIRST_MS
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.words import LAST_MS
from tests.coordinator.log_rows import OffsetAndMetadata, ReplayRow

Row = dict[str, Any]


def history_of(rows: Sequence[ReplayRow]) -> OffsetHistory:
    """The history of these records alone."""
    return shard_history(history_tables(rows)).offsets()


def shard_history(tables: Iterable[pa.Table], log: JoinedLog = ALONE) -> ShardHistory:
    """The rows of the four tables that hold a log."""
    commits, *others = tables
    return ShardHistory.of(log, lambda slots: slots.of(commits), *others)


def history_tables(rows: Sequence[ReplayRow]) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
    """offset_commits, group_records, transaction_markers and quarantine of these records."""
    return (
        table("offset_commits", [commit_row(row) for row in rows if row.kind == "offset_commit"]),
        table("group_records", [_record_row(row) for row in rows if row.kind == "group_record"]),
        table("transaction_markers", [_marker_row(row) for row in rows if row.kind == "marker"]),
        table("quarantine", [_quarantine_row(row) for row in rows if row.kind == "undecodable"]),
    )


def table(name: str, rows: Sequence[Row]) -> pa.Table:
    """Rows as a table of the lake, texts as dictionaries where Parquet gives them so."""
    columns = {each.name: pa.array([row.get(each.name) for row in rows], each.type) for each in arrow_schema(name)}
    return pa.table(columns | {each: columns[each].dictionary_encode() for each in DICTIONARIES.get(name, ())})


def commit_row(row: ReplayRow) -> Row:
    value, raw = row.commit, None
    fields: Row = {}
    if value is not None:
        times = (value.commit_timestamp, value.expire_timestamp)
        fields = {**value._asdict(), "commit_timestamp": _timestamp(times[0]), "expire_timestamp": _timestamp(times[1])}
        raw = value_bytes(value) if any(ms is not None and not FIRST_MS <= ms <= LAST_MS for ms in times) else None
    slot = {"group_id": row.group_id, "topic": row.topic, "partition": row.partition}
    return {**_place(row), **slot, **fields, "record_type": row.record_type, "raw_value": raw}


def value_bytes(value: OffsetAndMetadata) -> bytes:
    """An OffsetCommitValue without a topic id, versions 0 to 4."""
    version, metadata = value.value_version, value.metadata.encode()
    text = bytes([len(metadata) + 1]) + metadata if version == 4 else struct.pack(">h", len(metadata)) + metadata
    epoch = -1 if value.leader_epoch is None else value.leader_epoch
    expire = -1 if value.expire_timestamp is None else value.expire_timestamp
    return b"".join(
        [
            struct.pack(">hq", version, value.committed_offset),
            struct.pack(">i", epoch) if version >= 3 else b"",
            text,
            struct.pack(">q", value.commit_timestamp),
            struct.pack(">q", expire) if version == 1 else b"",
            b"\0" if version == 4 else b"",
        ]
    )


def _place(row: ReplayRow) -> Row:
    return {
        "audit_id": 1,
        "offsets_partition": 0,
        "log_offset": row.log_offset,
        "log_timestamp": _timestamp(row.log_timestamp),
        "offset_delta": None if row.batch_offset is None else row.log_offset - row.batch_offset,
        "producer_id": None if row.producer_id < 0 else row.producer_id,
        "producer_epoch": None if row.producer_id < 0 else row.producer_epoch,
        "is_transactional": row.is_transactional,
    }


def _timestamp(ms: int | None) -> int | None:
    return None if ms is None or ms == -1 or not FIRST_MS <= ms <= LAST_MS else ms * 1000


def _marker_row(row: ReplayRow) -> Row:
    return {**_place(row), "control_type": 0, "outcome": row.outcome}


def _record_row(row: ReplayRow) -> Row:
    fields = {"record_type": row.record_type, "group_id": row.group_id, "value_version": row.value_version}
    value = None if row.value is None else orjson.dumps(row.value).decode()
    names = {"member_id": row.member_id, "regular_expression": row.regular_expression}
    return {**_place(row), **fields, **names, "value": value}


def _quarantine_row(row: ReplayRow) -> Row:
    return {**_place(row), "record_count": 1, "reason": "truncated", "group_id": row.group_id}


# Offsets replayed as columns.


def replayed(rows: Sequence[ReplayRow], rules: Release, state: OffsetState | None = None, ranges=ALL_SLOTS):
    return replay_offsets(state or OffsetState.empty(), history_of(rows), rules, ranges)
