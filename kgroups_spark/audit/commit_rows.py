"""Decoded offset commits -> rows of `offset_commits`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.audit.outcomes import OpenRows
from kgroups_spark.audit.topic_names import has_id
from kgroups_spark.messages.offset_commits import OffsetCommitColumns
from kgroups_spark.messages.offset_keys import OffsetKeys
from kgroups_spark.messages.schema import uuid_text
from kgroups_spark.offsets.numbers import Markers
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.tables.rows import constant, timestamps
from kgroups_spark.tables.schemas import arrow_schema

# Rows that one sorted part holds. It bounds a worker's memory; larger parts read no faster.
ROWS_AT_ONCE = 1 << 17

Coded = tuple[pa.RecordBatch, NDArray[np.int64]]


class CommitBatches:
    """Rows of `offset_commits` of one range, sorted by group, topic, partition and log offset in lots of
    ROWS_AT_ONCE."""

    def __init__(self, audit_id: int, offsets_partition: int, keys: OffsetKeys) -> None:
        self._audit_id = audit_id
        self._offsets_partition = offsets_partition
        self._keys = keys
        self._open = OpenRows()
        self._waiting: list[Coded] = []
        self._rows = 0

    def add(self, records: RecordColumns, commits: OffsetCommitColumns, markers: Markers) -> Iterator[pa.Table]:
        """Takes in a chunk; gives a lot when enough rows are complete."""
        batch = self._batch(records, commits)
        codes = commits.code.astype(np.int64)
        rows = commits.rows
        settled = self._open.settle(batch, codes, records.producer_id[rows], records.is_transactional[rows], markers)
        for part in settled:
            self._waiting.append(part)
            self._rows += len(part[1])
        if self._rows >= ROWS_AT_ONCE:
            yield self._lot()

    def rest(self) -> Iterator[pa.Table]:
        """The rows left at the end of the range."""
        for part in self._open.rest():
            self._waiting.append(part)
            self._rows += len(part[1])
        if self._rows:
            yield self._lot()

    def _lot(self) -> pa.Table:
        table = pa.Table.from_batches([batch for batch, _ in self._waiting]).unify_dictionaries()
        codes = np.concatenate([codes for _, codes in self._waiting])
        self._waiting, self._rows = [], 0
        offsets = table.column("log_offset").to_numpy()
        return table.take(pa.array(np.lexsort((offsets, self._ranks()[codes]))))

    def _ranks(self) -> NDArray[np.int64]:
        """For each key's code its place among all keys by group, topic and partition."""
        keys = self._keys
        columns = {"group_id": keys.group_id, "topic": keys.topic, "partition": pa.array(keys.partition)}
        order = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])
        ranks = np.empty(len(order), np.int64)
        ranks[order.to_numpy()] = np.arange(len(order))
        return ranks

    def _batch(self, records: RecordColumns, commits: OffsetCommitColumns) -> pa.RecordBatch:
        rows, keys = commits.rows, self._keys
        n, tombstone = len(rows), commits.is_tombstone
        producer_id, producer_epoch = records.producer_id[rows], records.producer_epoch[rows]
        columns = {
            "audit_id": constant(self._audit_id, n, pa.int64()),
            "offsets_partition": constant(self._offsets_partition, n, pa.int32()),
            "log_offset": pa.array(records.offset[rows]),
            "log_timestamp": timestamps(records.timestamp[rows], records.timestamp[rows] < 0),
            "group_id": pa.DictionaryArray.from_arrays(commits.code, keys.group_id),
            "topic": pa.DictionaryArray.from_arrays(commits.code, keys.topic),
            "partition": pa.array(keys.partition[commits.code]),
            "committed_offset": _masked(commits.committed_offset, tombstone),
            "leader_epoch": _masked(commits.leader_epoch, tombstone | (commits.leader_epoch == -1)),
            "metadata": commits.metadata,
            "commit_timestamp": timestamps(commits.commit_timestamp, tombstone | (commits.commit_timestamp == -1)),
            "expire_timestamp": timestamps(commits.expire_timestamp, tombstone | (commits.expire_timestamp == -1)),
            "topic_id": _topic_id_texts(commits.topic_id),
            "record_type": pa.array(keys.record_type[commits.code].astype(np.int16)),
            "value_version": _masked(commits.value_version, tombstone),
            "producer_id": _masked(producer_id, producer_id < 0),
            "producer_epoch": _masked(producer_epoch, producer_id < 0),
            "is_transactional": pa.array(records.is_transactional[rows]),
            "outcome": pa.DictionaryArray.from_arrays(pa.nulls(n, pa.int8()), pa.array(["committed", "aborted"])),
            "marker_offset": pa.nulls(n, pa.int64()),
            **_raw(records, commits),
        }
        schema = arrow_schema("offset_commits")
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], names=schema.names)


def _masked(values: NDArray[np.generic], none: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=none if none.any() else None)


def _raw(records: RecordColumns, commits: OffsetCommitColumns) -> dict[str, pa.Array]:
    """raw_key and raw_value of the rows whose columns do not say everything."""
    keys: list[bytes | None] = [None] * len(commits.rows)
    values: list[bytes | None] = [None] * len(commits.rows)
    odd = commits.keeps_raw
    for row in np.nonzero(odd)[0].tolist():
        keys[row], values[row] = records.key(int(commits.rows[row])), records.value(int(commits.rows[row]))
    if not odd.any():
        return {name: pa.nulls(len(keys), pa.binary()) for name in ("raw_key", "raw_value")}
    return {"raw_key": pa.array(keys, pa.binary()), "raw_value": pa.array(values, pa.binary())}


def _topic_id_texts(topic_id: NDArray[np.uint8]) -> pa.Array:
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
