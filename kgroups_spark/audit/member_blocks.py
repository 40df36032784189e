"""GroupMetadata values of a batch of replay rows, read together: a shard gets their members on demand.

A block holds the members of all plain values of a batch in columns. Groups and version rows refer to them by row, and
are made into rows of the tables by columns, too (member_columns.py). What is not plain, and batches of little, goes
record by record; the rows are the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.audit.replay_rows import RECORD
from kgroups_spark.audit.row_replay import Row, rows_of
from kgroups_spark.coordinator.group_snapshots import assignment_texts
from kgroups_spark.coordinator.members_on_demand import Member, MembersOnDemand
from kgroups_spark.messages.group_metadata_columns import GroupMetadataColumns, group_metadata_columns
from kgroups_spark.messages.group_records import GroupRecord, GroupRecordDecoder
from kgroups_spark.messages.json_columns import group_metadata_texts
from kgroups_spark.messages.lock_step import SPARE

GROUP_METADATA = 2
# To read a block costs some milliseconds, however little it holds: below so many bytes of values none is made.
BLOCK_AT_BYTES = 16 << 10
_KEY = b"\0\2\0\0"  # of any group: it says nothing about the value


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A GroupMetadata record whose value is in a block."""

    group_id: str
    value_version: int
    value: dict[str, Any]
    record_type: int = GROUP_METADATA
    record_name: str = "GroupMetadata"
    member_id: None = None
    regular_expression: None = None


class MemberBlock:
    """Plain values and the rows of their members (group_metadata_columns.py)."""

    def __init__(self, values: pa.Array, members: pa.RecordBatch, decoder: GroupRecordDecoder) -> None:
        self.members = members
        self._values = values
        self._decoder = decoder
        self._lists: dict[str, NDArray[np.object_]] | None = {}
        self._texts: dict[int, str | None] = {}
        self._in_use: weakref.WeakSet[BlockMembers] = weakref.WeakSet()

    def members_of(self, value: int, first: int, count: int, version: int) -> BlockMembers:
        """Members of one value, which keep their rows in the block as long as they are in use."""
        members = BlockMembers(self, value, first, count, version)
        self._in_use.add(members)
        return members

    def column(self, name: str, first: int, count: int) -> list[Any]:
        """Some rows of a column. As long as the block's values are replayed, all will be asked for."""
        column = self.members.column(name)
        if column.null_count == len(column):
            return [None] * count
        if self._lists is None:
            return column.slice(first, count).to_pylist()  # type: ignore[no-any-return]
        if name not in self._lists:
            self._lists[name] = column.to_numpy(zero_copy_only=False)
        return self._lists[name][first : first + count].tolist()  # type: ignore[no-any-return]

    def assignments(self, first: int, count: int) -> list[str | None]:
        """Assignments of some rows as JSON."""
        if self._lists is None:
            return assignment_texts(self.members.column("assigned_partitions").slice(first, count)).tolist()  # type: ignore[no-any-return]
        if "assignments" not in self._lists:
            self._lists["assignments"] = assignment_texts(self.members.column("assigned_partitions"))
        return self._lists["assignments"][first : first + count].tolist()  # type: ignore[no-any-return]

    def value_json(self, value: int) -> str:
        """The JSON text of a value. Those of all values in use are made when the first is asked for."""
        if value not in self._texts:
            numbers = sorted({members.value for members in self._in_use})
            made = group_metadata_texts(*_buffer(self._values.take(pa.array(numbers)))).to_pylist()
            self._texts = dict(zip(numbers, made, strict=True))
        text = self._texts.pop(value)
        return text or self.record(value).value_json() or ""

    def record(self, value: int) -> GroupRecord:
        """The value as the record-by-record reader has it."""
        record = self._decoder.decode(_KEY, self._values[value].as_py())
        assert isinstance(record, GroupRecord), record
        return record

    def shrink(self) -> None:
        """Drops what is no longer in use, after the block's values have been replayed."""
        self._lists = None
        in_use = sorted(self._in_use, key=lambda members: members.value)
        if 2 * sum(map(len, in_use)) > self.members.num_rows:
            return
        rows = [np.zeros(0, np.int64), *(np.arange(m.first, m.first + len(m)) for m in in_use)]
        self.members = self.members.take(pa.array(np.concatenate(rows)))
        self._values = self._values.take(pa.array([members.value for members in in_use], pa.int64()))
        first = 0
        for number, members in enumerate(in_use):
            members.value, members.first = number, first
            first += len(members)


class BlockMembers(MembersOnDemand):
    """Members of one value of a block: `first` is their first row in it."""

    __slots__ = ("__weakref__", "_count", "_version", "block", "first", "value")

    def __init__(self, block: MemberBlock, value: int, first: int, count: int, version: int) -> None:
        self.block = block
        self.value = value
        self.first = first
        self._count = count
        self._version = version

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> list[Member]: ...
    def __getitem__(self, index: int | slice) -> Member | list[Member]:
        found: Member | list[Member] = self._made()[index]
        return found

    def __iter__(self) -> Iterator[Member]:
        return iter(self._made())

    def _made(self) -> Any:
        value = self.block.record(self.value).value
        return [] if value is None else value["members"]

    @property
    def layout(self) -> object:
        return self._version

    def ids(self) -> list[str]:
        return self.block.column("member_id", self.first, self._count)

    def instance_ids(self) -> list[str | None]:
        return self.block.column("group_instance_id", self.first, self._count)

    def fingerprints(self) -> list[bytes]:
        return self.block.column("member", self.first, self._count)

    def assignments(self) -> list[str | None]:
        return self.block.assignments(self.first, self._count)

    def value_json(self) -> str:
        return self.block.value_json(self.value)


class MemberBlocks:
    """Makes blocks of batches of replay rows."""

    def __init__(self, decoder: GroupRecordDecoder) -> None:
        self._decoder = decoder
        self._replayed: list[MemberBlock] = []

    def rows_of(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """The batch's rows, with records decoded that a block can be made of."""
        values = _value_rows(batch)
        raw = batch.column("raw_value").take(pa.array(values)) if values.size else pa.array([], pa.binary())
        if raw.nbytes < BLOCK_AT_BYTES:
            yield from rows_of(batch)
            return
        columns = group_metadata_columns(*_buffer(raw))
        block = MemberBlock(raw, columns.members, self._decoder)
        group_ids = batch.column("group_id").take(pa.array(values)).to_pylist()
        yield from rows_of(batch, _records(block, columns, values, group_ids, batch.num_rows))
        self._replayed.append(block)

    def shrink(self) -> None:
        """Drops what is no longer in use of the blocks whose values have been replayed."""
        for block in self._replayed:
            block.shrink()
        self._replayed = []


def _value_rows(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Rows with the bytes of a GroupMetadata value."""
    raw = batch.column("raw_value")
    if raw.null_count == len(raw):
        return np.zeros(0, np.int64)
    is_record = pc.equal(batch.column("kind"), RECORD)
    is_value = pc.and_(pc.equal(batch.column("record_type"), GROUP_METADATA), pc.is_valid(raw))
    found: NDArray[np.int64] = np.flatnonzero(pc.and_(is_record, is_value).fill_null(False).to_numpy(False))
    return found


def _buffer(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Bytes, starts and lengths of values that stand one after the other in a new array of them."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[: len(values) + 1].astype(np.int64)
    padded = np.zeros(ends[-1] + SPARE, np.uint8)
    padded[: ends[-1]] = np.frombuffer(data, np.uint8)[: ends[-1]]
    return padded, ends[:-1], np.diff(ends)


def _records(
    block: MemberBlock, columns: GroupMetadataColumns, rows: NDArray[np.int64], group_ids: list[str], count: int
) -> list[BlockRecord | None]:
    """The records at their rows in the batch."""
    found: list[BlockRecord | None] = [None] * count
    facts = zip(
        range(len(rows)),
        rows.tolist(),
        group_ids,
        columns.is_plain.tolist(),
        columns.value_version.tolist(),
        columns.generation.tolist(),
        columns.protocol.to_pylist(),
        columns.leader.to_pylist(),
        columns.current_state_timestamp.tolist(),
        columns.first_member.tolist(),
        columns.member_count.tolist(),
        strict=True,
    )
    for number, row, group_id, is_plain, version, generation, protocol, leader, since, first, members in facts:
        if is_plain:
            value = {
                "protocolType": "consumer",
                "generation": generation,
                "protocol": protocol,
                "leader": leader,
                "currentStateTimestamp": since,
                "members": block.members_of(number, first, members, version),
            }
            found[row] = BlockRecord(group_id, version, value)
    return found
