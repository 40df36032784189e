"""Records of a log, one by one; and segment files read record by record: slow and obvious."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Literal, NamedTuple

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder, Undecodable
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.slow_messages import slow_offset_commit

OUTCOMES = {0: "aborted", 1: "committed"}


class OffsetAndMetadata(NamedTuple):
    """The value of an offset commit (record types 0 and 1). Times are milliseconds; None: the value has none."""

    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    expire_timestamp: int | None
    topic_id: str | None
    value_version: int


class ReplayRow(NamedTuple):
    """One record of the log. Fields that its kind has no use for are left at their default.

    kind            what it is                                  what counts
    offset_commit   type 0 or 1, decoded; value None: tombstone group, topic, partition, value
    group_record    types 2 to 23, decoded; None: tombstone     group, member or regular expression, value
    marker          control record                              outcome (committed, aborted; None: neither)
    undecodable     anything that cannot be used                group where its key can be read
    """

    log_offset: int
    log_timestamp: int | None
    kind: Literal["offset_commit", "group_record", "marker", "undecodable"]
    record_type: int | None = None
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    member_id: str | None = None
    regular_expression: str | None = None
    commit: OffsetAndMetadata | None = None
    value: dict[str, Any] | None = None
    value_version: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    outcome: Literal["committed", "aborted"] | None = None
    batch_offset: int | None = None


def replay_rows(segments: Iterable[BinaryIO]) -> Iterator[ReplayRow]:
    """All records of one partition in log order, from its segment files in their order."""
    decoder = GroupRecordDecoder()
    for segment in segments:
        for records in read_segment(segment):
            if isinstance(records, CorruptBatch):
                raise ValueError(f"{segment.name}: {records.detail}")
            for i in range(len(records)):
                yield _row(records, i, decoder)


def _row(records: RecordColumns, i: int, decoder: GroupRecordDecoder) -> ReplayRow:
    timestamp = int(records.timestamp[i])
    place = {
        "log_offset": int(records.offset[i]),
        "log_timestamp": None if timestamp == -1 else timestamp,
        "producer_id": int(records.producer_id[i]),
        "producer_epoch": int(records.producer_epoch[i]),
        "is_transactional": bool(records.is_transactional[i]),
        "batch_offset": None if records.offset_delta[i] < 0 else int(records.offset[i] - records.offset_delta[i]),
    }
    key, value = records.key(i), records.value(i)
    if records.is_control[i]:
        (control_type,) = struct.unpack_from(">h", key, 2)
        return ReplayRow(kind="marker", outcome=OUTCOMES.get(control_type), **place)
    if key is not None and len(key) >= 2 and key[:2] in (b"\0\0", b"\0\1"):
        return _offset_commit(key, value, place)
    record = decoder.decode(key, value)
    if isinstance(record, Undecodable):
        return ReplayRow(kind="undecodable", record_type=record.record_type, group_id=record.group_id, **place)
    names = {"member_id": record.member_id, "regular_expression": record.regular_expression}
    return ReplayRow(
        kind="group_record",
        record_type=record.record_type,
        group_id=record.group_id,
        value=record.value,
        value_version=record.value_version,
        **names,
        **place,
    )


def _offset_commit(key: bytes, value: bytes | None, place: dict) -> ReplayRow:
    found = slow_offset_commit(key, value)
    names = {name: found[name] for name in ("group_id", "topic", "partition") if name in found}
    if found["outcome"] not in ("ok", "tombstone"):
        return ReplayRow(kind="undecodable", record_type=found["record_type"], **names, **place)
    commit = None if value is None else _value(found)
    return ReplayRow(kind="offset_commit", record_type=found["record_type"], commit=commit, **names, **place)


def _value(found: dict) -> OffsetAndMetadata:
    topic_id = found["topic_id"]
    return OffsetAndMetadata(
        found["offset"],
        None if found["leader_epoch"] == -1 else found["leader_epoch"],
        found["metadata"],
        found["commit_timestamp"],
        None if found["expire_timestamp"] == -1 else found["expire_timestamp"],
        base64.urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else None,
        found["version"],
    )
