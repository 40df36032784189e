"""Records of types 2 to 23 from rows of `group_records`; GroupMetadata values of consumer groups in blocks.

Such a value is a snapshot of a whole group, perhaps with hundreds of members, and the next snapshot soon replaces it.
So a block of values is read into columns at once (messages/group_metadata.py). Groups and version rows refer to
members by their row in the block, and become rows of the tables by columns, too (replay/rows.py). Other
values, and small blocks, are read one by one; the rows are the same.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.messages.coordinator_records import JsonRecord
from kgroups_spark.messages.group_metadata import CONSUMER_GROUP, snapshot_columns
from kgroups_spark.records.columns import list_offsets
from kgroups_spark.tables.rows import flags

GROUP_METADATA = 2
# A block has values of about this many bytes, or one larger value. With half of it, the replay of snapshots takes 4 %
# longer, because each block makes tables of its own.
BLOCK_BYTES = 8 << 20
# Reading a block costs a millisecond, whatever its size: values of fewer bytes than this are read one by one.
BLOCK_AT_BYTES = 48 << 10
# `is_full` is true above this many bytes of blocks.
FULL_BYTES = 64 << 20
_ROW_BYTES = 256  # of a record without its value, roughly

_KEY_AND_VERSION = ("record_type", "group_id", "member_id", "regular_expression", "value_version")
_RECORD = pa.schema(
    zip((*_KEY_AND_VERSION, "value"), (pa.int16(), *[pa.string()] * 3, pa.int16(), pa.string()), strict=True)
)
Member = dict[str, Any]
# JSON escapes a quote inside a text with a backslash, so these bytes occur only where a member begins.
_MEMBER = b'{"memberId":'


class GroupSnapshots:
    """Decodes rows of `group_records`, and frees the memory of blocks that were replayed."""

    def __init__(self) -> None:
        self._replayed: list[SnapshotBlock] = []
        self._size_bytes = 0

    def records(self, rows: pa.Table) -> Iterator[JsonRecord]:
        """A record for each row, in the order of the rows. A block is read with its first record."""
        for lot in _in_lots(rows):
            block, records = _read(lot)
            if block is not None:
                self._size_bytes += block.size_bytes
            yield from records
            if block is not None:
                self._replayed.append(block)

    @property
    def is_full(self) -> bool:
        """Whether so much has been read that it is time for `shrink`."""
        return self._size_bytes > FULL_BYTES

    def shrink(self) -> None:
        """Drops the unused parts of blocks with only replayed records."""
        for block in self._replayed:
            block.shrink()
        self._replayed = []
        self._size_bytes = 0


class SnapshotBlock:
    """Texts of values and the rows of their members."""

    def __init__(self, texts: pa.StringArray, members: pa.RecordBatch) -> None:
        self.members = members
        self.size_bytes = texts.nbytes + members.nbytes
        self.texts = texts
        # Columns as Python lists: the replay of the block's values asks for all rows.
        self._lists: dict[str, list[Any]] | None = {}
        self._in_use: weakref.WeakSet[SnapshotMembers] = weakref.WeakSet()

    def members_of(self, value: int, first: int, count: int) -> SnapshotMembers:
        """The members of one value. The block keeps their rows as long as they are in use."""
        members = SnapshotMembers(self, value, first, count)
        self._in_use.add(members)
        return members

    def column(self, name: str, first: int, count: int) -> list[Any]:
        """Rows of a column, see SnapshotMembers.texts."""
        if self._lists is None:
            return _as_list(self.members.column(name).slice(first, count))
        if name not in self._lists:
            self._lists[name] = _as_list(self.members.column(name))
        return self._lists[name][first : first + count]

    def shrink(self) -> None:
        """Drops the unused rows, after the block's values have been replayed."""
        self._lists = None
        in_use = sorted(self._in_use, key=lambda members: members.value)
        for members in in_use:
            members.forget()
        if 2 * sum(map(len, in_use)) > self.members.num_rows:
            return
        rows = [np.zeros(0, np.int64), *(np.arange(m.first, m.first + len(m)) for m in in_use)]
        self.members = self.members.take(pa.array(np.concatenate(rows)))
        self.texts = self.texts.take(pa.array([members.value for members in in_use], pa.int64()))
        first = 0
        for number, members in enumerate(in_use):
            members.value, members.first = number, first
            first += len(members)


class SnapshotMembers:
    """Members of value number `value` of a block: `first` is their first row in it. As dicts they are decoded on each
    iteration. Every protocol blob is empty or can be parsed, so none of them fails a load."""

    __slots__ = ("__weakref__", "_count", "_fingerprints", "block", "first", "value")

    def __init__(self, block: SnapshotBlock, value: int, first: int, count: int) -> None:
        self.block = block
        self.value = value
        self.first = first
        self._count = count
        self._fingerprints: list[bytes] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Member]:
        return iter(orjson.loads(self.value_json())["members"])

    def texts(self, name: str) -> list[Any]:
        """A column of texts, such as `client_id`; assigned partitions as ClassicGroup.assignments has them."""
        return self.block.column(name, self.first, self._count)

    def fingerprints(self) -> list[bytes]:
        """The JSON text of each member, without the beginning and end that all share: equal for equal members, whatever
        the version of their value."""
        if self._fingerprints is None:
            _, _, members = self.value_json().removesuffix(b"}]}").partition(_MEMBER)
            self._fingerprints = members.split(b"}," + _MEMBER) if self._count else []
        return self._fingerprints

    def topics(self) -> set[str] | None:
        """The topics of all subscriptions; None: a member has none, so the coordinator does not know the topics."""
        topics = self.block.members.column("subscribed_topics").slice(self.first, self._count)
        return None if topics.null_count else set(topics.flatten().to_pylist())

    def value_json(self) -> bytes:
        """The JSON text of the value, in UTF-8."""
        return bytes(self.block.texts[self.value].as_buffer())

    def forget(self) -> None:
        """Drops what can be computed again."""
        self._fingerprints = None


def _as_list(column: pa.Array) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_list(column.type):
        # Assigned partitions as JSON texts, see ClassicGroup.assignments.
        partitions = column.flatten()
        topics = partitions.field("topic").dictionary_encode()
        names = pa.array([orjson.dumps(name).decode() for name in topics.dictionary.to_pylist()], pa.string())
        numbers = pc.cast(partitions.field("partition"), pa.string())
        texts = pc.binary_join_element_wise('{"topic":', names.take(topics.indices), ',"partition":', numbers, "}", "")
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        lists = pa.ListArray.from_arrays(list_offsets(lengths), texts)
        joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
        column = pc.if_else(pc.is_null(column), None, joined)
    found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return found


def values_of(texts: Sequence[str], value_versions: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The GroupMetadata values with these JSON texts, of these versions, such as those of a saved state."""
    rows = len(texts)
    columns = [[GROUP_METADATA] * rows, [""] * rows, [None] * rows, [None] * rows, value_versions, texts]
    table = pa.table([pa.array(each, kind) for each, kind in zip(columns, _RECORD.types, strict=True)], _RECORD)
    for lot in _in_lots(table) if rows else ():
        for record in _read(lot)[1]:
            assert record.value is not None
            yield record.value


def _in_lots(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in lots of about BLOCK_BYTES."""
    sizes = pc.fill_null(pc.binary_length(rows.column("value")), 0).to_numpy().astype(np.int64) + _ROW_BYTES
    lot = np.cumsum(sizes) // BLOCK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(lot)) + 1).tolist(), len(lot)]
    for start, end in itertools.pairwise(starts):
        yield rows.slice(start, end - start)


def _read(rows: pa.Table) -> tuple[SnapshotBlock | None, Iterator[JsonRecord]]:
    """The block of the values that can be read together (None: too few bytes), and the record of each row."""
    texts = rows.column("value").cast(pa.string())
    is_of_consumers = pc.starts_with(texts, CONSUMER_GROUP).fill_null(False)
    is_snapshot = pc.and_(is_of_consumers, pc.equal(rows.column("record_type"), GROUP_METADATA))
    # Without escapes. As a regular expression, because match_substring takes 25 times as long.
    is_snapshot = pc.and_not(is_snapshot, pc.match_substring_regex(texts, r"\\").fill_null(False))
    # Run by run, because a filter would copy them several times.
    runs = np.flatnonzero(np.diff(flags(is_snapshot), prepend=False, append=False)).reshape(-1, 2).tolist()
    chosen = pa.chunked_array([chunk for start, end in runs for chunk in texts[start:end].chunks], pa.string())
    if chosen.nbytes < BLOCK_AT_BYTES:
        return None, _one_by_one(rows)
    texts = chosen.combine_chunks()
    snapshots = rows.select(["group_id", "value_version"]).filter(is_snapshot)
    columns = snapshot_columns(texts, snapshots.column("value_version").combine_chunks().cast(pa.int16()))
    block = SnapshotBlock(texts, columns.members)
    found: list[JsonRecord | None] = [None] * rows.num_rows
    at = np.flatnonzero(flags(is_snapshot)), columns.first_member, columns.member_count, columns.is_readable
    lists = (each.to_pylist() for each in (*snapshots.columns, columns.values))
    facts = zip(itertools.count(), *(each.tolist() for each in at), *lists)
    for number, row, first, members, is_readable, group_id, version, value in facts:
        if is_readable:  # else the columns could not hold it
            value = {"protocolType": "consumer", **value, "members": block.members_of(number, first, members)}
            found[row] = JsonRecord(GROUP_METADATA, group_id, None, None, version, value)
    others = _one_by_one(rows.filter(pa.array([record is None for record in found])))
    return block, (next(others) if record is None else record for record in found)


def _one_by_one(rows: pa.Table) -> Iterator[JsonRecord]:
    return map(JsonRecord, *(rows.column(name).to_pylist() for name in (*_KEY_AND_VERSION, "value")))
