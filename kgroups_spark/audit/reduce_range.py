"""What stage 1 keeps of a range for the replay: candidates chunk by chunk, reduced again as they pile up.

`reduce_columns` may be applied to any contiguous range and again to what is left, so a worker holds the live slots and
the open transactions of its range, however long the range is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.audit.offset_moves import pinned_rows
from kgroups_spark.audit.replay_rows import FIRST_VALUE, MARKER, RECORD, TOMBSTONE, UNREADABLE, VALUE, replay_batch
from kgroups_spark.audit.topic_names import has_id
from kgroups_spark.coordinator.reduce_columns import (
    ABORT,
    COMMIT,
    CommitFacts,
    MarkerFacts,
    Reduced,
    ReduceRules,
    reduce_columns,
)
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.messages.group_records import GroupRecord
from kgroups_spark.messages.offset_keys import OffsetKeys
from kgroups_spark.messages.schema import uuid_text

# Candidates are reduced again when they have doubled since, and are at least as many as this.
REDUCE_AT_ROWS = 1 << 18

I64 = NDArray[np.int64]


def reduce_rules(release: Release) -> ReduceRules:
    """How far a range may be reduced for the replay of the release."""
    java_with_record_offsets = release.coordinator == "java" and release.commit_needs_newer_record
    return ReduceRules(
        resolve_transactions=java_with_record_offsets,
        keep_last_transaction=release.open_transactions_by == "group",
        scala_stretches=release.simple_groups_follow_offsets,
    )


def readable_versions(release: Release) -> NDArray[np.bool_]:
    """By record type (0, 1) and value version (0 to 4) whether the release, and every newer one, reads such values."""
    return np.array([[not release.fails_to_read(t, v) and (t == 1 or v == 0) for v in range(5)] for t in (0, 1)])


@dataclass(frozen=True, eq=False)
class Candidates:
    """n offset commits and tombstones in log order; times in ms, -1 for none. `code` indexes the keys."""

    log_offset: I64
    log_timestamp: I64
    code: I64
    producer_id: I64
    producer_epoch: I64
    is_transactional: NDArray[np.bool_]
    is_tombstone: NDArray[np.bool_]
    content: NDArray[np.bool_]
    value_version: I64
    committed_offset: I64
    leader_epoch: I64
    commit_timestamp: I64
    expire_timestamp: I64
    topic_id: NDArray[np.uint8]  # [n, 16]
    tells_climb: NDArray[np.bool_]
    metadata: pa.Array

    def __len__(self) -> int:
        return len(self.log_offset)

    def take(self, rows: I64) -> Candidates:
        columns = [getattr(self, f.name)[rows] for f in fields(self)[:-1]]
        return Candidates(*[*columns, self.metadata.take(pa.array(rows))])

    @staticmethod
    def concat(parts: list[Candidates]) -> Candidates:
        if len(parts) == 1:
            return parts[0]
        columns = [np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Candidates)[:-1]]
        return Candidates(*[*columns, pa.concat_arrays([p.metadata for p in parts])])


@dataclass(frozen=True)
class KeptRecord:
    """A record of types 2 to 23 that decodes: every one stays. Or (`record` None) one that does not decode and is part
    of a transaction: all that matters of it is that it is there.

    Its content is the value's JSON text, where that has been made for the history and is what the replay reads, else
    its bytes.
    """

    log_offset: int
    log_timestamp: int
    record: GroupRecord | None
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    text: str | None
    raw_key: bytes | None
    raw_value: bytes | None

    @property
    def group_id(self) -> str | None:
        return None if self.record is None else self.record.group_id


@dataclass(frozen=True)
class KeptMarker:
    """A control record."""

    log_offset: int
    log_timestamp: int
    producer_id: int
    producer_epoch: int
    control_type: int
    coordinator_epoch: int | None
    outcome: int  # COMMIT, ABORT, NEITHER


class RangeReducer:
    """Collects a range's records and gives the replay rows that are left of them."""

    def __init__(self, release: Release, keys: OffsetKeys, *, begins_log: bool = False, pins: bool = True) -> None:
        """`pins`: events are to be told of what is left (offset_moves.py)."""
        self._pins = pins
        self._rules = replace(reduce_rules(release), begins_log=begins_log)
        self._reads = readable_versions(release)
        self._keys = keys
        self._parts: list[Candidates] = []
        self._held = 0
        self._reduce_at = REDUCE_AT_ROWS
        # (number of the group, log offset, producer id) of the records of types 2 to 23; their bytes have left.
        self._records: list[NDArray[np.int64]] = []
        self._numbers: dict[str | None, int] = {}
        self._markers: list[KeptMarker] = []

    def add(
        self, chunk: Candidates | None, records: list[KeptRecord], markers: list[KeptMarker]
    ) -> Iterator[pa.RecordBatch]:
        """Takes the next chunk of the range in; gives the replay rows of its records of types 2 to 23, which all stay.

        The chunk's plain values are reduced at once, everything else when enough has come.
        """
        number = self._numbers
        facts = np.array(
            [(number.setdefault(r.group_id, len(number)), r.log_offset, r.producer_id) for r in records], np.int64
        ).reshape(-1, 3)
        if records:
            self._records.append(facts)
            yield _record_rows(records)
        if chunk is not None and len(chunk):
            own = chunk if self._rules.scala_stretches else self._reduced(chunk, facts, [])[0]
            self._parts.append(own)
            self._held += len(own)
        self._markers += markers
        if self._held >= self._reduce_at:
            self._reduce_held()

    def rest(self, deferred: set[int]) -> Iterator[pa.RecordBatch]:
        """The replay rows of the range's commits, tombstones and markers, by log offset.

        `deferred` are offsets of markers whose row of transaction_markers the replay writes.
        """
        parts = []
        if self._parts:
            self._reduce_held()
            parts.append(self._commit_rows(self._parts[0]))
        if self._markers:
            parts.append(_marker_rows(self._markers, deferred))
        if parts:
            table = pa.Table.from_batches(parts)
            by_offset = np.argsort(table.column("log_offset").to_numpy(), kind="stable")
            yield from table.take(pa.array(by_offset)).combine_chunks().to_batches(max_chunksize=65536)

    def _reduce_held(self) -> None:
        held = Candidates.concat(self._parts)
        records = np.concatenate([np.zeros((0, 3), np.int64), *self._records])
        self._records = [records]
        reduced, keep_marker = self._reduced(held, records, self._markers)
        self._parts, self._held = [reduced], len(reduced)
        self._markers = [m for m, keep in zip(self._markers, keep_marker.tolist(), strict=True) if keep]
        self._reduce_at = max(REDUCE_AT_ROWS, 2 * self._held)

    def _reduced(
        self, rows: Candidates, records: NDArray[np.int64], markers: list[KeptMarker]
    ) -> tuple[Candidates, NDArray[np.bool_]]:
        keys = self._keys
        facts = CommitFacts(
            rows.log_offset,
            keys.slot[rows.code].astype(np.int64),
            keys.group[rows.code].astype(np.int64),
            rows.producer_id,
            rows.is_transactional,
            rows.is_tombstone,
            rows.is_tombstone | self._reads[keys.record_type[rows.code], np.maximum(rows.value_version, 0)],
            rows.content,
        )
        ends = MarkerFacts(
            _ints(m.log_offset for m in markers),
            _ints(m.producer_id for m in markers),
            _ints(m.outcome for m in markers),
        )
        codes: dict[str | None, int] = {group_id: code for code, group_id in enumerate(keys.groups)}
        code_of = np.array([codes.setdefault(g, len(codes)) for g in self._numbers], np.int64)
        breaks = code_of[records[:, 0]] if len(records) else records[:, 0], records[:, 1]
        with_producer = records[records[:, 2] >= 0]
        spoilers = with_producer[:, 2], with_producer[:, 1]
        pinned = None
        if self._pins:
            pinned = pinned_rows(
                facts, rows.committed_offset, rows.topic_id, rows.tells_climb, ends, spoilers, self._rules
            )
            whole = np.flatnonzero(pinned & (rows.producer_id >= 0))
            spoilers = (
                np.concatenate([spoilers[0], rows.producer_id[whole]]),
                np.concatenate([spoilers[1], rows.log_offset[whole]]),
            )
        reduced = reduce_columns(facts, ends, breaks, spoilers, self._rules, pinned)
        return _applied(rows, reduced), reduced.keep_marker

    def _commit_rows(self, rows: Candidates) -> pa.RecordBatch:
        kind = np.where(rows.is_tombstone, TOMBSTONE, VALUE)
        kind[~rows.content] = FIRST_VALUE
        keys, code = self._keys, pa.array(rows.code)
        return replay_batch(
            len(rows),
            {
                "log_offset": pa.array(rows.log_offset),
                "kind": pa.array(kind),
                "log_timestamp": pa.array(rows.log_timestamp),
                "record_type": pa.array(keys.record_type[rows.code]),
                "value_version": pa.array(rows.value_version),
                "producer_id": pa.array(rows.producer_id),
                "producer_epoch": pa.array(rows.producer_epoch),
                "is_transactional": pa.array(rows.is_transactional),
                "group_id": keys.group_id.take(code),
                "topic": keys.topic.take(code),
                "partition": pa.array(keys.partition[rows.code]),
                "committed_offset": pa.array(rows.committed_offset),
                "leader_epoch": pa.array(rows.leader_epoch),
                "metadata": rows.metadata,
                "commit_timestamp": pa.array(rows.commit_timestamp),
                "expire_timestamp": pa.array(rows.expire_timestamp),
                "topic_id": topic_id_texts(rows.topic_id),
                "tells_climb": pa.array(rows.tells_climb),
            },
        )


def _applied(rows: Candidates, reduced: Reduced) -> Candidates:
    """The rows that stay: those that became plain without their producer, the first of a stretch without content."""
    stay = np.nonzero(reduced.keep | reduced.without_content)[0]
    left = rows.take(stay)
    plain = reduced.became_plain[stay] | reduced.without_content[stay]
    left.producer_id[plain] = -1
    left.producer_epoch[plain] = -1
    left.is_transactional[plain] = False
    left.content[reduced.without_content[stay]] = False
    return left


def _record_rows(records: list[KeptRecord]) -> pa.RecordBatch:
    return replay_batch(
        len(records),
        {
            "log_offset": pa.array([r.log_offset for r in records], pa.int64()),
            "kind": pa.array([UNREADABLE if r.record is None else RECORD for r in records], pa.int8()),
            "log_timestamp": pa.array([r.log_timestamp for r in records], pa.int64()),
            "record_type": pa.array([r.record and r.record.record_type for r in records], pa.int16()),
            "value_version": pa.array([r.record and r.record.value_version for r in records], pa.int16()),
            "producer_id": pa.array([r.producer_id for r in records], pa.int64()),
            "producer_epoch": pa.array([r.producer_epoch for r in records], pa.int16()),
            "is_transactional": pa.array([r.is_transactional for r in records], pa.bool_()),
            "group_id": pa.array([r.group_id for r in records], pa.string()),
            "member_id": pa.array([r.record and r.record.member_id for r in records], pa.string()),
            "regular_expression": pa.array([r.record and r.record.regular_expression for r in records], pa.string()),
            "text": pa.array([r.text for r in records], pa.string()),
            "raw_key": pa.array([r.raw_key for r in records], pa.binary()),
            "raw_value": pa.array([r.raw_value for r in records], pa.binary()),
        },
    )


def _marker_rows(markers: list[KeptMarker], deferred: set[int]) -> pa.RecordBatch:
    names = {COMMIT: "committed", ABORT: "aborted"}
    return replay_batch(
        len(markers),
        {
            "log_offset": pa.array([m.log_offset for m in markers], pa.int64()),
            "kind": pa.array([MARKER] * len(markers), pa.int8()),
            "log_timestamp": pa.array([m.log_timestamp for m in markers], pa.int64()),
            "producer_id": pa.array([m.producer_id for m in markers], pa.int64()),
            "producer_epoch": pa.array([m.producer_epoch for m in markers], pa.int16()),
            "outcome": pa.array([names.get(m.outcome) for m in markers], pa.string()),
            "coordinator_epoch": pa.array([m.coordinator_epoch for m in markers], pa.int32()),
            "control_type": pa.array([m.control_type for m in markers], pa.int16()),
            "is_deferred": pa.array([m.log_offset in deferred for m in markers], pa.bool_()),
        },
    )


def _ints(values: Iterator[int]) -> I64:
    return np.fromiter(values, np.int64)


def topic_id_texts(topic_id: NDArray[np.uint8]) -> pa.Array:
    """Kafka's text of each row's topic id (16 bytes); null where it is zero."""
    halves = np.ascontiguousarray(topic_id).view(np.uint64)
    none = ~has_id(halves)
    if none.all():
        return pa.nulls(len(none), pa.dictionary(pa.int32(), pa.string()))
    buffers = [None, pa.py_buffer(np.ascontiguousarray(topic_id))]
    raw = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(none), buffers)
    encoded = raw.dictionary_encode()
    texts = pa.array([uuid_text(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(encoded.indices.to_numpy(), mask=none), texts)
