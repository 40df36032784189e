"""Decoded offset commits -> rows of `offset_commits`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.lake.parts import ROWS_PER_GROUP
from kgroups_spark.messages.coordinator_records import CoordinatorRecord, Undecodable
from kgroups_spark.messages.offset_commits import OffsetCommitColumns, OffsetKeys
from kgroups_spark.messages.schema import uuid_text
from kgroups_spark.offsets.columns import (
    ABORT,
    ALONE,
    COMMIT,
    I64,
    LARGEST_KEY,
    NEITHER,
    JoinedLog,
    Markers,
    next_marker,
)
from kgroups_spark.records import columns as control
from kgroups_spark.records.batches import PADDING
from kgroups_spark.records.columns import TRANSACTIONAL, BatchColumns, CorruptBatch, RecordColumns, ranks
from kgroups_spark.tables.rows import constant, in_one_chunk, out_of_range, table_of_rows, timestamps, with_columns
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.words import to_epoch_ms

# The outcomes of transactional rows of a range: rows wait here until their producer's next marker is read.
#
# A row of a transaction that is open at the end of the range keeps a null outcome. So one pass over the bytes is
# enough, and memory holds only the rows of open transactions.


OUTCOME_NAMES = {COMMIT: "committed", ABORT: "aborted"}
OUTCOMES_OF_ROWS = pa.array([OUTCOME_NAMES[COMMIT], OUTCOME_NAMES[ABORT]])


# Rows in one sorted lot. This bounds a worker's memory; larger lots are no faster to read.
ROWS_AT_ONCE = 1 << 17
# Bytes of a log that make a lot, more or less, and the most row groups of one.
LOT_BYTES, MOST_ROW_GROUPS = 14 << 20, 8


class CommitBatches:
    """Rows of `offset_commits` of a log, sorted by offsets partition, group, topic, partition and log offset, some
    ROWS_AT_ONCE at a time. `log`: of the chunks so far.

    The row groups of all lots of a partition begin with the same groups: a replay reads so many commits by ranges of
    groups, and each range only its own row groups. `size_bytes`: of the log.
    """

    def __init__(self, audit_id: int, log: JoinedLog, size_bytes: int) -> None:
        self._audit_id, self.log = audit_id, log
        self._row_groups = min(size_bytes // LOT_BYTES + 1, MOST_ROW_GROUPS)
        self._borders = list[str]()
        # Rows in transactions without a marker so far, with their producers.
        self._held: list[tuple[pa.RecordBatch, NDArray[np.int64]]] = []
        self._waiting: list[pa.RecordBatch] = []

    def add(self, records: RecordColumns, commits: OffsetCommitColumns, keys: OffsetKeys, markers: Markers) -> None:
        """Adds a chunk (codes are of `keys`)."""
        of_rows = (each[commits.rows] for each in (records.producer_id, records.is_transactional))
        given = [(self._batch(records, commits, keys), *of_rows)]
        if self._held and len(markers):
            held, self._held = self._held, []
            (whole,) = pa.Table.from_batches([each for each, _ in held]).combine_chunks().to_batches()
            producers = np.concatenate([producer_id for _, producer_id in held])
            given.insert(0, (whole, producers, np.ones(len(producers), np.bool_)))
        for batch, producer_id, is_transactional in given:
            if is_transactional.any():
                row, marker = np.flatnonzero(is_transactional), np.full(len(producer_id), -1)
                marker[row] = next_marker(producer_id[row], batch.column("log_offset").to_numpy()[row], markers)
                has_ended, waits = marker >= 0, is_transactional & (marker < 0)
                if waits.any():
                    self._held.append((batch.take(pa.array(np.flatnonzero(waits))), producer_id[waits]))
                if has_ended.any():
                    is_abort = pa.array((markers.outcome[marker] == ABORT).astype(np.int8), mask=~has_ended)
                    outcome = pa.DictionaryArray.from_arrays(is_abort, OUTCOMES_OF_ROWS)
                    offset = pa.array(markers.log_offset[marker], mask=~has_ended)
                    batch = with_columns(batch, outcome=outcome, marker_offset=offset)
                batch = batch.take(pa.array(np.flatnonzero(~waits))) if waits.any() else batch
            self._waiting.append(batch)

    def lot(self, *, is_end: bool = False) -> Iterator[pa.Table]:
        """A sorted lot, if enough rows have an outcome, or need none; at the end of the range all remaining rows. It
        comes row group by row group, so that there is no second copy of it as a whole."""
        self._waiting += [batch for batch, _ in self._held] if is_end else ()
        if sum(batch.num_rows for batch in self._waiting) < (1 if is_end else ROWS_AT_ONCE):
            return
        waiting, self._waiting = [pa.Table.from_batches(self._waiting)], []
        table = in_one_chunk(waiting.pop())  # without a name, so that each column is freed once it is copied
        group_id, topic = (ranks(table.column(name).chunk(0)) for name in ("group_id", "topic"))
        partition, log_offset = (table.column(name).to_numpy() for name in ("partition", "log_offset"))
        order = pa.array(_order((self.log.number_at(log_offset), group_id, topic, partition, log_offset)))
        names = arrow_schema("offset_commits").names
        ends = self._ends(table["group_id"].chunk(0), order, group_id[order])
        for start, end in itertools.pairwise(ends.tolist()):
            rows = order.slice(start, end - start)
            taken = pa.table([_taken(each.chunk(0), rows) for each in table.columns], table.column_names)
            audit_id = constant(self._audit_id, len(rows), pa.int64())
            yield pa.table(self.log.parted(taken) | {"audit_id": audit_id}).select(names)

    def _ends(self, groups: pa.DictionaryArray, order: pa.Array, in_order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the row groups of a lot begin, and the end. `in_order`: the groups' ranks."""
        count = max(math.ceil(len(order) / ROWS_PER_GROUP), self._row_groups)
        ends = np.linspace(0, len(order), count + 1, dtype=np.int64)
        if self._row_groups > 1:
            self._borders = self._borders or groups.take(order.take(pa.array(ends[1:-1]))).to_pylist()
            before = [pc.sum(pc.less(groups.dictionary, each)).as_py() for each in self._borders]
            ends = np.unique([0, *np.searchsorted(in_order, before), len(order)])
        return ends

    def _batch(self, records: RecordColumns, commits: OffsetCommitColumns, keys: OffsetKeys) -> pa.RecordBatch:
        """The rows of the commits, without audit and offsets partition."""
        n, tombstone, of = len(commits), commits.is_tombstone, commits.rows
        timestamp, offset_delta, producer_id = records.timestamp[of], records.offset_delta[of], records.producer_id[of]
        columns = {
            "log_offset": pa.array(records.offset[of]),
            "log_timestamp": timestamps(timestamp, timestamp < 0),
            "offset_delta": _masked(offset_delta, offset_delta < 0),
            "group_id": _used(keys.group_id.indices.to_numpy()[commits.code], keys.group_id.dictionary),
            "topic": _used(keys.topic.indices.to_numpy()[commits.code], keys.topic.dictionary),
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
            "producer_epoch": _masked(records.producer_epoch[of], producer_id < 0),
            "is_transactional": pa.array(records.is_transactional[of]),
            "outcome": pa.DictionaryArray.from_arrays(pa.nulls(n, pa.int8()), OUTCOMES_OF_ROWS),
            "marker_offset": pa.nulls(n, pa.int64()),
            "raw_key": pa.nulls(n, pa.binary()),
            "raw_value": pa.nulls(n, pa.binary()),
        }
        # A client may choose its times: microseconds, say, or "never expire". Expiry needs them as they are.
        has_odd_time = out_of_range(commits.commit_timestamp) | out_of_range(commits.expire_timestamp)
        odd = np.flatnonzero(commits.keeps_raw | has_odd_time).tolist()
        if odd:
            # The columns of these rows do not have all of the record.
            for name, read in (("raw_key", records.key), ("raw_value", records.value)):
                raw: list[bytes | None] = [None] * n
                for row in odd:
                    raw[row] = read(int(of[row]))
                columns[name] = pa.array(raw, pa.binary())
        return pa.RecordBatch.from_pydict(columns)


def _order(columns: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
    """The order of rows by these columns, the first one first; equal rows keep theirs.

    If they fit into 63 bits, they become the digits of one number, the last one as the row's place by it: to sort such
    numbers takes a fifth of the time of sorting by each column.

        group [1, 0, 1], log offset [7, 9, 8]  ->  keys [1 * 4 + 0, 0 * 4 + 2, 1 * 4 + 1]  ->  order [1, 0, 2]
    """
    lowest = [int(column.min()) for column in columns[:-1]]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=False)]
    by_last, bits = np.argsort(columns[-1], kind="stable"), len(columns[-1]).bit_length()
    if math.prod(spans) << bits >= LARGEST_KEY:
        return np.lexsort(columns[::-1])
    keys = np.zeros(len(by_last), np.int64)
    for column, low, span in zip(columns, lowest, spans, strict=False):
        keys *= span  # in place: malloc would clear pages for each new array
        keys += column
        keys -= low
    keys = (keys[by_last] << bits) + np.arange(len(keys))
    keys.sort()
    order: NDArray[np.int64] = by_last[keys & ((1 << bits) - 1)]
    return order


def _taken(values: pa.Array, rows: pa.Array) -> pa.Array:
    """These rows of a column. A column without values is not copied."""
    if values.null_count == len(values):
        return values.slice(0, len(rows))
    if not pa.types.is_dictionary(values.type):
        return pc.take(values, rows, boundscheck=False)
    index, texts = _taken(values.indices, rows), values.dictionary
    if len(texts) > len(rows) // 32 and not index.null_count:
        return _used(index.to_numpy(), texts)
    return pa.DictionaryArray.from_arrays(index, texts)


def _used(index: NDArray[np.integer], texts: pa.StringArray) -> pa.DictionaryArray:
    """The text of each index. The dictionary has only these, each once: a file has it in each row group."""
    is_used = np.zeros(len(texts), np.bool_)
    is_used[index] = True
    place = (np.cumsum(is_used) - 1).astype(index.dtype)
    return pa.DictionaryArray.from_arrays(place[index], texts.filter(pa.array(is_used)))


def _masked(values: NDArray[np.generic], none: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, mask=none if none.any() else None)


def _topic_id_texts(topic_id: NDArray[np.uint8]) -> pa.Array:
    """Kafka's text of each row's topic id (16 bytes); null where it is zero."""
    halves = np.ascontiguousarray(topic_id).view(np.uint64)
    is_given = (halves[:, 0] | halves[:, 1]) != 0  # any() costs ten times as much on so short an axis
    given = np.flatnonzero(is_given)
    if not len(given):
        return pa.nulls(len(is_given), pa.dictionary(pa.int32(), pa.string()))
    raw = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(given), [None, pa.py_buffer(topic_id[given])])
    encoded, index = raw.dictionary_encode(), np.zeros(len(is_given), np.int32)
    index[given] = encoded.indices.to_numpy()
    texts = pa.array([uuid_text(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(index, mask=~is_given), texts)


OUTCOMES = {control.ABORT: ABORT, control.COMMIT: COMMIT}


class Marker(NamedTuple):
    """A control record. Time in ms; -1: no time, no producer. `outcome` is COMMIT, ABORT or NEITHER."""

    log_offset: int
    log_timestamp: int
    producer_id: int
    producer_epoch: int
    control_type: int
    coordinator_epoch: int | None
    outcome: int


def read_markers(records: RecordColumns, rows: I64) -> tuple[list[Marker], list[tuple[int, Undecodable]]]:
    """The control records at `rows`, and (row, reason) of those with an unreadable key."""
    markers: list[Marker] = []
    unreadable: list[tuple[int, Undecodable]] = []
    for row in rows.tolist():
        key, value = records.key(row), records.value(row)
        kind = control.control_type(key)
        if kind is None:
            reason = "null_key" if key is None else "truncated"
            detail = f"key of a control record has {0 if key is None else len(key)} bytes, 4 are needed"
            unreadable.append((row, Undecodable(reason=reason, detail=detail)))
        else:
            batch = int(records.batch[row])
            place = int(records.offset[row]), int(records.timestamp[row])
            producer = int(records.batches.producer_id[batch]), int(records.batches.producer_epoch[batch])
            outcome = OUTCOMES.get(kind, NEITHER)
            markers.append(Marker(*place, *producer, kind, control.coordinator_epoch(value), outcome))
    return markers, unreadable


def ends(markers: list[Marker], log: JoinedLog = ALONE) -> Markers:
    """The markers of a log that commit or abort, as arrays."""
    facts = [(each.log_offset, each.log_timestamp, each.producer_id, each.outcome) for each in markers]
    return Markers(log, *np.array(facts, np.int64).reshape(-1, 4).T).ends()


# The columns of quarantine that an undecodable record has, as far as it is known.
OF_RECORD = ("record_type", "record_name", "group_id", "topic", "partition", "value_version")


class HistoryRows(NamedTuple):
    """Makes rows from the records of one chunk, which are given by their index in the chunk."""

    audit_id: int
    log: JoinedLog
    records: RecordColumns

    def group_records(self, decoded: list[tuple[int, CoordinatorRecord]]) -> pa.Table:
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
                None,
                self._producer_id(row),
                bool(is_transactional[row]),
                self.records.key(row) if record.keeps_raw else None,
                self.records.value(row) if record.keeps_raw else None,
            )
            for row, record in decoded
        ]
        none = pa.nulls(1, pa.string())
        value = pa.concat_arrays([none if each.content is None else each.content.column() for _, each in decoded])
        return with_columns(table_of_rows("group_records", None, rows, audit_id=self.audit_id), value=value)

    def markers(self, markers: list[Marker]) -> pa.Table:
        """Rows of markers, without the transaction that they ended, which the replay adds."""
        rows = [
            (
                *self.log.place_at(marker.log_offset),
                None if marker.log_timestamp < 0 else marker.log_timestamp,
                None if marker.producer_id < 0 else marker.producer_id,
                None if marker.producer_id < 0 else marker.producer_epoch,
                marker.coordinator_epoch,
                marker.control_type,
                OUTCOME_NAMES.get(marker.outcome),
                *(None, None, None),
            )
            for marker in markers
        ]
        return table_of_rows("transaction_markers", None, rows, audit_id=self.audit_id)

    def quarantine(self, bad: list[tuple[int, Undecodable]], path: str | None, release: Release) -> pa.Table:
        # A control record never begins a transaction.
        is_transactional = self.records.is_transactional & ~self.records.is_control
        rows = [
            (
                *self._place(row),
                1,
                *(getattr(what, name) for name in OF_RECORD),
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
        return table_of_rows("quarantine", None, rows, audit_id=self.audit_id, resolved_by=None)

    def _place(self, row: int) -> tuple[int, int, int | None]:
        timestamp = int(self.records.timestamp[row])
        return *self.log.place_at(int(self.records.offset[row])), None if timestamp < 0 else timestamp

    def _producer_id(self, row: int) -> int | None:
        producer_id = int(self.records.batches.producer_id[self.records.batch[row]])
        return None if producer_id < 0 else producer_id


def load_fails(what: Undecodable, release: Release) -> bool:
    """Whether the load of a coordinator of the release would fail at the record.

    It skips a type that it does not know, whatever the value (KIP-915). Any other record that it cannot decode ends its
    load.
    """
    if what.record_type is None or what.record_type in release.record_types | release.unreplayable_types:
        return True
    return release.fails_to_read(what.record_type, what.value_version)


def corrupt_batch_rows(
    audit_id: int, offsets_partition: int, log_offset: int, batch: CorruptBatch, path: str | None
) -> pa.Table:
    """Quarantine's row for a batch that cannot be read. `path`: of its segment; None: it was fetched."""
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
    return table_of_rows("quarantine", (), [()], **dict.fromkeys(arrow_schema("quarantine").names) | known)


# Undecodable records in quarantine, decoded again by software that knows more types and versions.
#
# A record that now decodes becomes a row of its table under the audit that decodes it; its row of quarantine names that
# audit (`resolved_by`) and no longer counts. Quarantine has no producer epoch, so it is null.


# The tables for a record that now decodes, and for its counts.
DECODED_TABLES = ("offset_commits", "group_records", "group_traffic")
# Columns needed to decode.
COLUMNS = ["log_offset", "log_timestamp", "producer_id", "is_transactional", "raw_key", "raw_value"]

ROWS_PER_DECODE = 10_000


def decodable(quarantine: pa.Table) -> pa.Table:
    """Rows that may decode some day: they still count, are one record each, and have its key."""
    is_one = (pc.field("record_count") == 1) & pc.field("raw_key").is_valid()
    return quarantine.filter(pc.field("resolved_by").is_null() & (pc.field("reason") != "corrupt_batch") & is_one)


def record_columns(rows: Sequence[dict[str, Any]]) -> RecordColumns:
    """The records as if each had its own batch."""
    contents = [row[name] for row in rows for name in ("raw_key", "raw_value")]
    length = np.array([-1 if content is None else len(content) for content in contents], np.int64)
    start = np.cumsum(np.maximum(length, 0)) - np.maximum(length, 0)
    offset = np.array([row["log_offset"] for row in rows], np.int64)
    times = (row["log_timestamp"] for row in rows)
    timestamp = np.array([-1 if each is None else to_epoch_ms(each) for each in times], np.int64)
    producer_id = np.array([-1 if row["producer_id"] is None else row["producer_id"] for row in rows], np.int64)
    is_transactional = np.array([row["is_transactional"] for row in rows], np.bool_)
    none, zeros = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
    batches = BatchColumns(
        base_offset=none,  # quarantine does not have it
        last_offset=offset,
        leader_epoch=none.astype(np.int32),
        magic=np.full(len(rows), 2, np.int8),
        crc=zeros,
        attributes=np.where(is_transactional, TRANSACTIONAL, 0).astype(np.int16),
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=none.astype(np.int16),
        record_count=np.ones(len(rows), np.int32),
        position=zeros,
        size=zeros,
    )
    return RecordColumns(
        np.frombuffer(b"".join(content or b"" for content in contents) + bytes(PADDING), np.uint8),
        batches,
        np.arange(len(rows), dtype=np.int32),
        offset,
        timestamp,
        *(start[::2], length[::2], start[1::2], length[1::2]),
    )


def coordinator_fails(quarantine: pa.Table, release: Release) -> pa.ChunkedArray:
    """Whether the release's load would fail at each undecodable record (replay/history_rows.py)."""
    types = quarantine.column("record_type")
    if not release.skips_unknown_types:
        return pa.chunked_array([pa.repeat(True, len(types))])
    known = pa.array(sorted(release.record_types | release.unreplayable_types), types.type)
    return pc.or_(pc.is_in(types, known), pc.is_null(types))
