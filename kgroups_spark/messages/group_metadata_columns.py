"""GroupMetadata values of consumer groups as columns: one row per value, one per member, no Python objects.

Only plain values are taken, as by json_columns.py: versions 0 to 3, protocol type `consumer`, plain text, blobs that
are read to their last byte or have none, no bytes left over. The others are for the record-by-record readers, which
say the same of the plain ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.messages.definition import Field, definition
from kgroups_spark.messages.lock_step import SPARE, WIDTH, LockStep, Positions, consecutive
from kgroups_spark.messages.slices import binary_slices, unaligned

PLAIN_START = np.frombuffer(b"\x00\x08consumer", np.uint8)
PLAIN_VERSIONS = range(4)

ASSIGNED = pa.list_(
    pa.struct(
        [("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()), ("assignment_epoch", pa.int32())]
    )
)
# The columns of members. `member` are the whole member's bytes: equal ones at one value version are equal members.
# Topics are sorted and there once; partitions are sorted by topic and number. No bytes: no topics known, no partitions.
MEMBER_COLUMNS = pa.schema(
    [
        ("member_id", pa.string()),
        ("group_instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("rebalance_timeout_ms", pa.int32()),  # -1: the version has none
        ("session_timeout_ms", pa.int32()),
        ("value_version", pa.int16()),
        ("rack_id", pa.string()),
        ("subscribed_topics", pa.list_(pa.string())),
        ("assigned_partitions", ASSIGNED),
        ("user_data", pa.binary()),
        ("member", pa.binary()),
    ]
)
_NO_TEXT = pa.scalar(None, pa.string())


@dataclass(frozen=True, eq=False)
class GroupMetadataColumns:
    """n values: their header fields (of those that are not plain they mean nothing) and their members.

    The members of value i are the rows first_member[i] to first_member[i] + member_count[i] of `members`.
    """

    is_plain: NDArray[np.bool_]
    value_version: NDArray[np.int64]
    generation: NDArray[np.int64]
    protocol: pa.Array
    leader: pa.Array
    current_state_timestamp: NDArray[np.int64]
    first_member: NDArray[np.int64]
    member_count: NDArray[np.int64]
    members: pa.RecordBatch


def plain_versions(data: NDArray[np.uint8], starts: Positions, lengths: Positions) -> NDArray[np.int64]:
    """The version of each value that begins as a plain one, -1 of all others."""
    head = unaligned(data, f"V{2 + len(PLAIN_START)}")[starts].view(np.uint8).reshape(-1, 2 + len(PLAIN_START))
    begins = (lengths >= 2 + len(PLAIN_START)) & (head[:, 2:] == PLAIN_START).all(axis=1) & (head[:, 0] == 0)
    return np.where(begins & (head[:, 1] < len(PLAIN_VERSIONS)), head[:, 1].astype(np.int64), -1)


def group_metadata_columns(data: NDArray[np.uint8], starts: Positions, lengths: Positions) -> GroupMetadataColumns:
    """The GroupMetadataValues data[start : start + length]. 32 bytes after any start must be readable."""
    versions, rows, read = plain_versions(data, starts, lengths), [], []
    for one in np.unique(versions[versions >= 0]).tolist():
        rows.append(np.flatnonzero(versions == one))
        read.append(_values(data, starts[rows[-1]] + 2, starts[rows[-1]] + lengths[rows[-1]], one))
    if len(read) == 1 and len(rows[0]) == len(starts):
        return read[0]
    place = np.concatenate([*rows, np.flatnonzero(versions < 0)])
    order = np.empty(len(place), np.int64)
    order[place] = np.arange(len(place))
    return _concatenated([*read, _none(len(starts) - sum(map(len, rows)))], order)


def _none(count: int) -> GroupMetadataColumns:
    """Values that are not plain."""
    zeros, nulls = np.zeros(count, np.int64), pa.nulls(count, pa.string())
    members = pa.RecordBatch.from_pylist([], MEMBER_COLUMNS)
    return GroupMetadataColumns(zeros > 0, zeros - 1, zeros, nulls, nulls, zeros, zeros, zeros, members)


def _concatenated(parts: Sequence[GroupMetadataColumns], order: Positions) -> GroupMetadataColumns:
    """The values of all parts in this order."""
    before = np.cumsum([0, *(part.members.num_rows for part in parts)])
    first = [part.first_member + start for part, start in zip(parts, before.tolist(), strict=False)]
    return GroupMetadataColumns(
        np.concatenate([part.is_plain for part in parts])[order],
        np.concatenate([part.value_version for part in parts])[order],
        np.concatenate([part.generation for part in parts])[order],
        pa.concat_arrays([part.protocol for part in parts]).take(pa.array(order)),
        pa.concat_arrays([part.leader for part in parts]).take(pa.array(order)),
        np.concatenate([part.current_state_timestamp for part in parts])[order],
        np.concatenate(first)[order],
        np.concatenate([part.member_count for part in parts])[order],
        pa.concat_batches([part.members for part in parts]),
    )


def _values(data: NDArray[np.uint8], starts: Positions, ends: Positions, version: int) -> GroupMetadataColumns:
    """The values of one version, from behind it on."""
    values = _Fields(data, starts, ends)
    found = values.struct([field for field in definition("GroupMetadataValue").fields if not field.is_array], version)
    (field,) = (field for field in definition("GroupMetadataValue").fields if field.is_array)
    count = values.length("int32", is_nullable=False)
    at, row = values.walk(field, version, count)
    members = _Fields(data, at, ends[row])
    batch = _members(members, field, version)
    values.is_plain[row[~members.is_plain]] = False
    return GroupMetadataColumns(
        values.is_plain & (values.position == ends),
        np.full(len(starts), version),
        found["generation"],
        found["protocol"],
        found["leader"],
        found.get("currentStateTimestamp", np.full(len(starts), -1)),
        np.cumsum(count) - count,
        count,
        batch,
    )


def _members(members: _Fields, field: Field, version: int) -> pa.RecordBatch:
    start = members.position
    found, none = members.struct(field.fields, version), pa.nulls(len(start), pa.string())
    size = np.where(members.is_plain, members.position - start, 0)
    topics = members.blob("ConsumerProtocolSubscription", _subscription, *found["subscription"])
    partitions = members.blob("ConsumerProtocolAssignment", _assignment, *found["assignment"])
    rebalance_timeout = found.get("rebalanceTimeout", np.full(len(start), -1))
    return pa.RecordBatch.from_arrays(
        [
            found["memberId"],
            found.get("groupInstanceId", none),
            found["clientId"],
            found["clientHost"],
            pa.array(rebalance_timeout.astype(np.int32)),
            pa.array(found["sessionTimeout"].astype(np.int32)),
            pa.array(np.full(len(start), version, np.int16)),
            topics["rack_id"],
            topics["subscribed_topics"],
            partitions["assigned_partitions"],
            topics["user_data"],
            binary_slices(members.data, start, size),
        ],
        schema=MEMBER_COLUMNS,
    )


class _Fields(LockStep):
    """Rows whose fields are read as columns."""

    def struct(self, fields: Sequence[Field], version: int) -> dict[str, Any]:
        """The fields that the version has; moves the position behind them."""
        return {field.name: self._field(field, version) for field in fields if version in field.versions}

    def _field(self, field: Field, version: int) -> Any:
        """Integers as NumPy's, text as Arrow's, bytes as (starts, lengths), arrays as (counts, elements)."""
        if field.is_array:
            return self._array(field, version)
        if field.element in WIDTH:
            return self.integer(field.element)
        length = self.length("int16" if field.element == "string" else "int32", version in field.nullable)
        size = np.maximum(length, 0)
        if field.element == "string":
            text, is_null = self.text(size), length < 0
            return pc.if_else(pa.array(is_null), _NO_TEXT, text) if is_null.any() else text
        start = self.position
        self.advance(size)
        return start, length

    def _array(self, field: Field, version: int) -> tuple[Positions, Any]:
        count = self.length("int32", is_nullable=False)
        if field.element in WIDTH:
            width = WIDTH[field.element]
            at, _ = consecutive(self.position, count, width)
            self.advance(count * width)
            return count, unaligned(self.data, f">i{width}")[np.minimum(at, self.data.size - SPARE)]
        at, row = self.walk(field, version, count)
        elements = _Fields(self.data, at, self.end[row])
        if field.fields:
            found: Any = elements.struct(field.fields, version)
        else:
            found = elements.text(elements.length("int16", is_nullable=False))
        self.is_plain[row[~elements.is_plain]] = False
        return count, found

    def blob(
        self,
        name: str,
        columns: Callable[[NDArray[np.uint8], dict[str, Any] | None, int], dict[str, pa.Array]],
        start: Positions,
        length: Positions,
    ) -> dict[str, pa.Array]:
        """`columns` of the fields (None: no bytes) of each row's blob."""
        message = definition(name)
        version = np.where(length >= 2, unaligned(self.data, ">i2")[start].astype(np.int64), -1)
        is_empty = length == 0
        self.is_plain &= is_empty | ((version >= 0) & (version < len(message.versions)))
        is_read = self.is_plain & ~is_empty
        rows = [np.flatnonzero(is_empty)]
        parts = [columns(self.data, None, len(rows[0]))]
        for one in np.unique(version[is_read]).tolist():
            rows.append(np.flatnonzero((version == one) & is_read))
            read = _Fields(self.data, start[rows[-1]] + 2, (start + length)[rows[-1]])
            found = read.struct(message.fields, one)
            parts.append(columns(self.data, found, len(rows[-1])))
            self.is_plain[rows[-1][~read.is_plain | (read.position != read.end)]] = False
        if len(parts) == 2 and len(rows[1]) == len(start):
            return parts[1]
        place = np.full(len(start), -1, np.int64)
        place[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
        taken = pa.array(place, mask=place < 0)
        return {name: pa.concat_arrays([part[name] for part in parts]).take(taken) for name in parts[0]}


def _subscription(data: NDArray[np.uint8], found: dict[str, Any] | None, rows: int) -> dict[str, pa.Array]:
    if found is None:
        types = {name: MEMBER_COLUMNS.field(name).type for name in ("subscribed_topics", "rack_id", "user_data")}
        return {name: pa.nulls(rows, data_type) for name, data_type in types.items()}
    count, topic = found["topics"]
    row = np.repeat(np.arange(rows), count)
    rank = _ranks(topic)
    if not _ascends(row, rank, strictly=True):
        order = np.lexsort((rank, row))
        row, rank = row[order], rank[order]
        is_first = np.ones(len(row), np.bool_)
        is_first[1:] = (row[1:] != row[:-1]) | (rank[1:] != rank[:-1])
        row, topic = row[is_first], topic.take(pa.array(order[is_first]))
        count = np.bincount(row, minlength=rows)
    return {
        "subscribed_topics": pa.ListArray.from_arrays(_offsets(count), topic),
        "rack_id": found.get("rackId", pa.nulls(rows, pa.string())),
        "user_data": _bytes(data, *found["userData"]),
    }


def _assignment(data: NDArray[np.uint8], found: dict[str, Any] | None, rows: int) -> dict[str, pa.Array]:
    if found is None:
        return {"assigned_partitions": pa.array([[]] * rows, ASSIGNED)}
    topic_count, topics = found["assignedPartitions"]
    count, partition = topics["partitions"]
    topic = np.repeat(np.arange(len(count)), count)
    row = np.repeat(np.arange(rows), topic_count)[topic]
    rank = _ranks(topics["topic"])[topic]
    if not _ascends(row, rank * (1 << 32) + partition, strictly=False):
        order = np.lexsort((partition, rank, row))
        topic, partition = topic[order], partition[order]
    none, number = pa.nulls(len(partition), pa.string()), pa.array(partition.astype(np.int32))
    epoch = pa.nulls(len(partition), pa.int32())
    assigned = [topics["topic"].take(pa.array(topic)), none, number, epoch]
    elements = pa.StructArray.from_arrays(assigned, fields=list(ASSIGNED.value_type))
    offsets = _offsets(np.bincount(row, minlength=rows))
    return {"assigned_partitions": pa.ListArray.from_arrays(offsets, elements, type=ASSIGNED)}


def _ranks(texts: pa.Array) -> Positions:
    """Of each text its place among all different ones, by bytes."""
    encoded = texts.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    of_texts: Positions = ranks[encoded.indices.to_numpy()]
    return of_texts


def _ascends(row: Positions, value: Positions, *, strictly: bool) -> bool:
    """Whether the values of each row ascend."""
    is_greater = value[1:] > value[:-1] if strictly else value[1:] >= value[:-1]
    return bool((is_greater | (row[1:] != row[:-1])).all())


def _offsets(count: Positions) -> pa.Array:
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    return pa.array(offsets)


def _bytes(data: NDArray[np.uint8], start: Positions, length: Positions) -> pa.Array:
    """Bytes, null where the length is negative."""
    raw, is_null = binary_slices(data, start, np.maximum(length, 0)), length < 0
    return pc.if_else(pa.array(is_null), pa.scalar(None, pa.binary()), raw) if is_null.any() else raw
