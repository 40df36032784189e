"""Records of a segment as dicts for JSON, one for each record, as `kgroups dump` prints them. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.messages.coordinator_logs import GROUP_LOG, CoordinatorLog
from kgroups_spark.messages.coordinator_records import CoordinatorRecordDecoder
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.messages.offset_commits import OffsetCommitColumns, OffsetCommitDecoder, classify
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.schema import uuid_text
from kgroups_spark.records.columns import BatchColumns, CorruptBatch, RecordColumns
from kgroups_spark.records.control import control_type, control_type_name, coordinator_epoch
from kgroups_spark.times import format_time

Line = dict[str, Any]


class RecordLines:
    """Lines of one partition of a coordinator's log, segment by segment; its decoders keep their caches in between.
    `log` None: not known yet; it must be set before the first record."""

    def __init__(self, topic: str | None, partition: int | None, log: CoordinatorLog | None) -> None:
        self._place = {"topic": topic, "partition": partition}
        self.log = log
        self._commits = OffsetCommitDecoder()
        self._records: CoordinatorRecordDecoder | None = None

    def of_records(self, records: RecordColumns) -> Iterator[Line]:
        """A line for each record, in log order."""
        decoded, facts = self._decoded(records), _batch_facts(records.batches)
        places = zip(records.offset.tolist(), records.timestamp.tolist(), records.batch.tolist(), strict=True)
        for row, (offset, timestamp, batch) in enumerate(places):
            yield self._place | {"offset": offset, "timestamp": _time(timestamp)} | facts[batch] | decoded[row]

    def of_corrupt_batch(self, batch: CorruptBatch, file: str) -> Line:
        """The line of bytes that cannot be read."""
        return self._place | {
            "offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "record_count": batch.record_count,
            "reason": "corrupt_batch",
            "detail": batch.detail,
            "file": file,
            "file_position": batch.position,
            "size_bytes": batch.size,
        }

    def _decoded(self, records: RecordColumns) -> dict[int, Line]:
        """The contents of keys and values, by row."""
        assert self.log is not None
        if self.log is GROUP_LOG:
            commits, others, control = classify(records)
            lines = self._offset_commits(records, commits)
        else:
            others, control = (np.flatnonzero(records.is_control == is_control) for is_control in (False, True))
            lines = {}
        if self._records is None:
            self._records = GroupRecordDecoder() if self.log is GROUP_LOG else CoordinatorRecordDecoder(self.log)
        for row in others.tolist():
            lines[row] = _record(records, row, self._records)
        return lines | {row: _marker(records, row) for row in control.tolist()}

    def _offset_commits(self, records: RecordColumns, rows: NDArray[np.int64]) -> dict[int, Line]:
        columns = self._commits.decode(records, rows)
        lines = {row: _undecodable(records, row, outcome) for row, outcome in columns.undecodable}
        keys, code = self._commits.keys, columns.code
        names = zip(
            columns.rows.tolist(),
            keys.record_type[code].tolist(),
            keys.group_id.take(code).to_pylist(),
            keys.topic.take(code).to_pylist(),
            keys.partition[code].tolist(),
            columns.metadata.to_pylist(),
            strict=True,
        )
        for index, (row, record_type, group_id, topic, partition, metadata) in enumerate(names):
            lines[row] = {
                "record_type": record_type,
                "record_name": "OffsetCommit",
                "group_id": group_id,
                "key": {"group": group_id, "topic": topic, "partition": partition},
                **_commit_value(columns, index, metadata),
                **(_raw(records, row) if columns.keeps_raw[index] else {}),
            }
        return lines


def _record(records: RecordColumns, row: int, decoder: CoordinatorRecordDecoder) -> Line:
    outcome = decoder.decode(records.key(row), records.value(row))
    if isinstance(outcome, Undecodable):
        return _undecodable(records, row, outcome)
    key = outcome.key
    return {
        "record_type": outcome.record_type,
        "record_name": outcome.record_name,
        **_whose(key.get("groupId", key.get("group")), key.get("transactionalId")),
        "key": key,
        "value_version": outcome.value_version,
        "value": outcome.value,
        **(_raw(records, row) if outcome.keeps_raw else {}),
    }


def _whose(group_id: str | None, transactional_id: str | None) -> Line:
    return {"group_id": group_id} if transactional_id is None else {"transactional_id": transactional_id}


def _undecodable(records: RecordColumns, row: int, outcome: Undecodable) -> Line:
    return {
        "record_type": outcome.record_type,
        "record_name": outcome.record_name,
        **_whose(outcome.group_id, outcome.transactional_id),
        "value_version": outcome.value_version,
        "reason": outcome.reason,
        "detail": outcome.detail,
        **_raw(records, row),
    }


def _batch_facts(batches: BatchColumns) -> list[Line]:
    """The fields of each batch that its records have; Kafka's -1 for none is null."""
    columns = (
        batches.timestamp_type,
        batches.base_offset,
        batches.magic,
        batches.leader_epoch,
        batches.producer_id,
        batches.producer_epoch,
        batches.is_transactional,
    )
    return [
        {
            "timestamp_type": "LogAppendTime" if timestamp_type else "CreateTime",
            "batch_base_offset": base_offset,
            "batch_magic": magic,
            "leader_epoch": _known(leader_epoch),
            "producer_id": _known(producer_id),
            "producer_epoch": _known(producer_epoch),
            "is_transactional": is_transactional,
        }
        for timestamp_type, base_offset, magic, leader_epoch, producer_id, producer_epoch, is_transactional in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _commit_value(columns: OffsetCommitColumns, index: int, metadata: str | None) -> Line:
    """Value version and value, with Kafka's field names (OffsetCommitValue.json); nulls for a tombstone."""
    if columns.is_tombstone[index]:
        return {"value_version": None, "value": None}
    topic_id = columns.topic_id[index].tobytes()
    return {
        "value_version": int(columns.value_version[index]),
        "value": {
            "offset": int(columns.committed_offset[index]),
            "leaderEpoch": int(columns.leader_epoch[index]),
            "metadata": metadata,
            "commitTimestamp": int(columns.commit_timestamp[index]),
            "expireTimestamp": int(columns.expire_timestamp[index]),
            "topicId": uuid_text(topic_id) if any(topic_id) else None,
        },
    }


def _marker(records: RecordColumns, row: int) -> Line:
    number = control_type(records.key(row))
    return {
        "control_type": None if number is None else control_type_name(number),
        "coordinator_epoch": coordinator_epoch(records.value(row)),
    }


def _raw(records: RecordColumns, row: int) -> Line:
    """The bytes, if the decoded key and value lack some of their contents."""
    return {"raw_key": records.key(row), "raw_value": records.value(row)}


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _time(time_ms: int) -> str | int | None:
    """ISO 8601; a time beyond any calendar remains a number; -1 becomes null."""
    if time_ms == -1:
        return None
    try:
        return format_time(time_ms)
    except OverflowError:
        return time_ms
