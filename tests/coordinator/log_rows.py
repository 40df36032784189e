"""Segment files of a log directory as rows for the replay, read record by record: slow and obvious."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder, Undecodable
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.records.segment import read_segment
from tests.coordinator.replay_row import ReplayRow
from tests.twin.offset_metadata import OffsetAndMetadata

# Tag section with tag 0, one byte, null.
OUTCOMES = {0: "aborted", 1: "committed"}


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


class _Reader:
    """Big-endian fields of a message, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def number(self, form: str) -> int:
        (number,) = struct.unpack_from(form, self.data, self.position)
        self.position += struct.calcsize(form)
        return number

    def raw(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.position:
            raise struct.error("short")
        self.position += size
        return self.data[self.position - size : self.position]

    def string(self) -> str:
        return self.raw(self.number(">h")).decode("utf-8", "replace")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value


def _offset_commit(key: bytes, value: bytes | None, place: dict) -> ReplayRow:
    reader = _Reader(key)
    record_type = reader.number(">h")
    try:
        names = {"group_id": reader.string(), "topic": reader.string(), "partition": reader.number(">i")}
    except struct.error:
        return ReplayRow(kind="undecodable", record_type=record_type, **place)
    try:
        commit = None if value is None else _offset_commit_value(_Reader(value))
    except (struct.error, KeyError):
        return ReplayRow(kind="undecodable", record_type=record_type, **names, **place)
    return ReplayRow(kind="offset_commit", record_type=record_type, commit=commit, **names, **place)


def _offset_commit_value(reader: _Reader) -> OffsetAndMetadata:
    version = reader.number(">h")
    if not 0 <= version <= 4:
        raise KeyError(version)
    offset = reader.number(">q")
    epoch = reader.number(">i") if version >= 3 else -1
    metadata = reader.raw(reader.varint() - 1).decode("utf-8", "replace") if version == 4 else reader.string()
    committed = reader.number(">q")
    expire = reader.number(">q") if version == 1 else -1
    topic_id = None
    for _ in range(reader.varint() if version == 4 else 0):
        tag, size = reader.varint(), reader.varint()
        raw = reader.raw(size)
        if tag == 0:
            topic_id = base64.urlsafe_b64encode(raw[:16]).decode().rstrip("=") if any(raw[:16]) else None
    return OffsetAndMetadata(
        offset, None if epoch == -1 else epoch, metadata, committed, None if expire == -1 else expire, topic_id, version
    )
