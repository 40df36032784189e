"""Rows of `offset_commits` and of the saved state in one form, and the numbers of their slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.messages.schema import reader
from kgroups_spark.offsets.numbers import I64, Flags, sorted_order, starts_of
from kgroups_spark.tables import arrays

TEXT = pa.dictionary(pa.int32(), pa.string())

# A record of type 0 or 1. Times are epoch ms as in the record; history keeps the bytes of values with a time that does
# not fit a TIMESTAMP.
OFFSET_RECORDS = pa.schema(
    [
        ("log_offset", pa.int64()),
        ("log_timestamp", pa.int64()),  # null: none
        ("offset_delta", pa.int32()),  # after the base offset of its batch; null: not known
        ("group_id", TEXT),
        ("topic", TEXT),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),  # null: tombstone
        ("leader_epoch", pa.int32()),  # null: none
        ("metadata", pa.string()),  # null: tombstone
        ("commit_timestamp", pa.int64()),  # null: tombstone, or none
        ("expire_timestamp", pa.int64()),  # null: none
        ("topic_id", TEXT),  # null: none
        ("record_type", pa.int16()),
        ("value_version", pa.int16()),  # null: tombstone
        ("producer_id", pa.int64()),  # null: none; -1: none, in a transactional batch
        ("producer_epoch", pa.int16()),  # null: none
        ("is_transactional", pa.bool_()),
    ]
)
_TIMES = ("log_timestamp", "commit_timestamp", "expire_timestamp")
# Columns of offset_commits for `history_records`.
HISTORY_COLUMNS = (*OFFSET_RECORDS.names, "raw_value")


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots of some records, numbered by group, topic and partition: `group` and `topic` index the names."""

    group: I64
    topic: I64
    partition: I64
    groups: pa.Array
    topics: pa.Array

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True, eq=False)
class Commits:
    """n records of types 0 and 1 in any order, as the numbers that decide their outcome.

    `is_readable`: the release reads a value of that version (always true for tombstones). Producer -1: none.
    """

    log_offset: I64
    slot: I64
    producer_id: I64
    is_transactional: Flags
    is_tombstone: Flags
    is_readable: Flags
    slots: Slots

    def __len__(self) -> int:
        return len(self.log_offset)


def history_records(offset_commits: pa.Table, release: Release) -> pa.Table:
    """Rows of `offset_commits` as OFFSET_RECORDS. Releases before 4.1 do not read topic ids (KAFKA-19141)."""
    columns = {name: offset_commits.column(name) for name in OFFSET_RECORDS.names}
    for name in _TIMES:
        columns[name] = milliseconds(columns[name])
    if offset_commits.column("raw_value").null_count < len(offset_commits):
        columns |= _times_of_values(offset_commits, columns)
    # Scala's coordinator has such a value wait for a marker of producer -1, and a saved state has producers by id.
    without_producer = pc.if_else(columns["is_transactional"], pa.scalar(-1, pa.int64()), pa.scalar(None, pa.int64()))
    columns["producer_id"] = pc.coalesce(columns["producer_id"], without_producer)
    if not release.has_topic_ids:
        columns["topic_id"] = pa.nulls(len(offset_commits), TEXT)
    return pa.table([as_type(columns[field.name], field.type) for field in OFFSET_RECORDS], schema=OFFSET_RECORDS)


def numbers_of(records: pa.Table, slot: I64, slots: Slots, release: Release) -> Commits:
    """The numbers of rows of OFFSET_RECORDS, whose slots have been numbered."""
    version = column(records, "value_version", none=-1)
    # By record type and value version; no release writes versions above 15.
    reads = np.array([[not release.fails_to_read(t, v) for v in range(16)] for t in (0, 1)])
    is_tombstone = version < 0
    record_type = column(records, "record_type")
    is_readable = is_tombstone | (version < 16) & reads[record_type, np.clip(version, 0, 15)]
    return Commits(
        column(records, "log_offset"),
        slot,
        column(records, "producer_id", none=-1),
        flags(records, "is_transactional"),
        is_tombstone,
        is_readable,
        slots,
    )


def number_slots(records: pa.Table) -> tuple[I64, Slots]:
    """The slot number of each row with group_id, topic and partition, and the slots.

    Consecutive rows of one slot, which are usual in a part of history, are looked up once.

        (g, t, 1) (g, t, 1) (g, t, 0) (a, t, 0)  ->  [2, 2, 1, 0], slots (a, t, 0) (g, t, 0) (g, t, 1)
    """
    group, groups = numbered(records.column("group_id"))
    topic, topics = numbered(records.column("topic"))
    partition = column(records, "partition")
    heads = np.flatnonzero(starts_of(group, topic, partition))
    pair, pairs = _unique(group[heads].astype(np.int64) * max(len(topics), 1) + topic[heads])
    lowest = int(partition.min(initial=0))
    span = int(partition.max(initial=0)) - lowest + 1
    slot, slots = _unique(pair * span + (partition[heads] - lowest))
    of_pair = pairs[slots // span]
    numbers = Slots(
        of_pair // max(len(topics), 1), of_pair % max(len(topics), 1), slots % span + lowest, groups, topics
    )
    return np.repeat(slot, np.diff(np.append(heads, len(group)))), numbers


def column(records: pa.Table, name: str, *, none: int = 0) -> I64:
    """A column of integers as int64, with `none` for null."""
    return arrays.numbers(records.column(name), none=none)


def flags(records: pa.Table, name: str) -> Flags:
    """A boolean column; null is false."""
    return arrays.flags(records.column(name))


def codes(records: pa.Table, name: str) -> I64:
    """The dictionary index of each row of a text column; -1: null."""
    return arrays.numbers(_one_dictionary(records.column(name)).indices, none=-1)


def numbered(values: pa.ChunkedArray) -> tuple[I64, pa.Array]:
    """The index of each row's text in the sorted distinct texts, and these texts."""
    encoded = _one_dictionary(values)
    used = np.unique(encoded.indices.to_numpy())
    texts = encoded.dictionary.take(pa.array(used))
    order = pc.sort_indices(texts).to_numpy()
    place = np.zeros(len(encoded.dictionary), np.int64)
    place[used[order]] = np.arange(len(order))
    return place[encoded.indices.to_numpy()], texts.take(pa.array(order))


def _unique(numbers: I64) -> tuple[I64, I64]:
    """The index of each number in the sorted distinct numbers, and these numbers."""
    order = sorted_order(numbers)
    starts = starts_of(numbers[order])
    place = np.empty(len(numbers), np.int64)
    place[order] = np.cumsum(starts) - 1
    return place, numbers[order[starts]]


def _one_dictionary(values: pa.ChunkedArray) -> pa.DictionaryArray:
    chunks = values.unify_dictionaries().chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], TEXT)


def milliseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """TIMESTAMPs, which are exact to the millisecond, as epoch ms; nulls stay."""
    return pc.divide(times.cast(pa.int64()), 1000) if pa.types.is_timestamp(times.type) else times


def as_type(values: pa.ChunkedArray | pa.Array, data_type: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """The values cast to another type; texts may become dictionaries."""
    if values.type == data_type:
        return values
    if data_type == TEXT and not pa.types.is_dictionary(values.type):
        return values.cast(pa.string()).dictionary_encode()
    return values.cast(data_type)


def _times_of_values(offset_commits: pa.Table, columns: dict[str, pa.ChunkedArray]) -> dict[str, pa.Array]:
    """commit_timestamp and expire_timestamp in ms; those of values with kept bytes are read from the bytes."""
    rows = np.flatnonzero(arrays.is_given(offset_commits["raw_value"]))
    some = offset_commits.select(["value_version", "raw_value"]).take(pa.array(rows)).to_pydict()
    commit, expire = (
        arrays.numbers(columns[name], none=-1).copy() for name in ("commit_timestamp", "expire_timestamp")
    )
    for row, version, value in zip(rows.tolist(), some["value_version"], some["raw_value"], strict=True):
        fields, _ = reader("OffsetCommitValue", version).read(value, 2, [])
        commit[row], expire[row] = fields["commitTimestamp"], fields.get("expireTimestamp", -1)
    return {
        "commit_timestamp": pa.array(commit, mask=commit == -1),
        "expire_timestamp": pa.array(expire, mask=expire == -1),
    }
