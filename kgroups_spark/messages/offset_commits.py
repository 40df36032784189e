"""Records of types 0 and 1, the offset commits, by columns: no Python loop over records.

A value that is not plain (bytes left over, unknown tags, anything malformed) is found by the columns. It is then read
by itself with the compiled readers of schema.py, and added to the same columns or to the undecodable records.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.messages.definition import definition
from kgroups_spark.messages.offset_keys import BAD_KEY, OffsetKeys, explain_bad_key
from kgroups_spark.messages.offset_values import OffsetValues, read_offset_values
from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.messages.schema import Truncated, reader
from kgroups_spark.messages.text import decode_text
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.slices import binary_slices, unaligned

_VERSIONS = definition("OffsetCommitValue").versions
_TYPE_MASK = np.frombuffer(b"\xff\xfe", "<u2")[0]  # of a key's first two bytes: types 0 and 1 alike


def classify(records: RecordColumns) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the offset commits, of all other records (null and odd keys among them), and of control records."""
    is_control = records.is_control if records.batches.is_control.any() else np.zeros(len(records), np.bool_)
    first_two = unaligned(records.data, "<u2")[np.where(records.key_length < 0, 0, records.key_start)]
    is_commit = (first_two & _TYPE_MASK == 0) & (records.key_length >= 2) & ~is_control
    return np.flatnonzero(is_commit), np.flatnonzero(~is_commit & ~is_control), np.flatnonzero(is_control)


@dataclass
class Texts:
    """Texts of n rows, nearly all empty: the texts that are not, and their rows (ascending)."""

    row_count: int
    rows: NDArray[np.int64]
    values: pa.StringArray

    def array(self) -> pa.StringArray:
        """One text per row; '' for all rows not in `rows`."""
        ends = np.frombuffer(self.values.buffers()[1], np.int32)
        lengths = np.diff(ends[self.values.offset : self.values.offset + len(self.values) + 1])
        offsets = np.zeros(self.row_count + 1, np.int32)
        offsets[self.rows + 1] = lengths
        np.cumsum(offsets, out=offsets)
        offsets += ends[self.values.offset]
        return pa.StringArray.from_buffers(self.row_count, pa.py_buffer(offsets), self.values.buffers()[2])

    def with_others(self, others: dict[int, str]) -> Texts:
        """These texts and those of rows that had none."""
        if not others:
            return self
        rows = np.concatenate([self.rows, np.array(list(others), np.int64)])
        values = pa.concat_arrays([self.values, pa.array(list(others.values()), pa.string())])
        order = np.argsort(rows)
        return Texts(self.row_count, rows[order], values.take(pa.array(order)))

    def filter(self, keep: NDArray[np.bool_]) -> Texts:
        """The texts of the rows to keep, renumbered."""
        number = np.cumsum(keep) - 1
        kept = keep[self.rows]
        return Texts(int(keep.sum()), number[self.rows[kept]], self.values.filter(pa.array(kept)))


@dataclass
class OffsetCommitColumns:
    """Decoded offset commits in log order. The decoder's `keys` have the contents of their keys, by code.

    A tombstone has 0, -1, '' or zeros in all columns after value_version.
    """

    rows: NDArray[np.int64]  # indices into the records
    code: NDArray[np.int32]
    is_tombstone: NDArray[np.bool_]
    value_version: NDArray[np.int16]  # -1: tombstone
    committed_offset: NDArray[np.int64]
    leader_epoch: NDArray[np.int32]  # -1: none
    commit_timestamp: NDArray[np.int64]  # ms
    expire_timestamp: NDArray[np.int64]  # ms, -1: none
    topic_id: NDArray[np.uint8]  # (n, 16); zeros: none
    keeps_raw: NDArray[np.bool_]  # key or value bytes have more than the columns
    texts: Texts
    undecodable: list[tuple[int, Undecodable]]  # (index into the records, why), in log order

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def metadata(self) -> pa.StringArray:
        """The metadata of each row, never null."""
        return self.texts.array()

    def filter(self, keep: NDArray[np.bool_]) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            if isinstance(column, np.ndarray):
                setattr(self, field.name, column[keep])
        self.texts = self.texts.filter(keep)


class OffsetCommitDecoder:
    """Decodes offset commits chunk by chunk; keeps their keys."""

    def __init__(self) -> None:
        self.keys = OffsetKeys()

    def decode(self, records: RecordColumns, rows: NDArray[np.int64]) -> OffsetCommitColumns:
        """The records `rows`, whose keys begin with type 0 or 1 (see classify). Does not keep a view of their
        buffer."""
        starts, lengths = records.value_start[rows], records.value_length[rows]
        code = self.keys.encode(records.data, records.key_start[rows], records.key_length[rows])
        values = read_offset_values(records.data, starts, lengths)
        columns = _columns(rows, code, lengths < 0, values)
        columns.keeps_raw |= ~self.keys.is_exact[code] if len(self.keys) else False
        columns.texts = _texts(records.data, values, columns.keeps_raw)
        self._read_irregular(records, columns, np.flatnonzero(values.is_irregular | (code == BAD_KEY)))
        return columns

    def _read_irregular(self, records: RecordColumns, columns: OffsetCommitColumns, rows: NDArray[np.int64]) -> None:
        """Reads the rows that are irregular for the columns: each gets its fields or becomes undecodable."""
        if not rows.size:
            return
        keep = np.ones(len(columns), np.bool_)
        metadata: dict[int, str] = {}
        for row in rows.tolist():
            index = int(columns.rows[row])
            found = self._read_one(records, index, int(columns.code[row]))
            if isinstance(found, Undecodable):
                keep[row] = False
                columns.undecodable.append((index, found))
            else:
                _put_one(columns, row, found)
                metadata[row] = found["metadata"]
        columns.texts = columns.texts.with_others(metadata)
        if not keep.all():
            columns.filter(keep)

    def _read_one(self, records: RecordColumns, index: int, code: int) -> dict[str, Any] | Undecodable:
        """The fields of one value, with `version` and `is_exact`; or why it cannot be decoded."""
        key, value = records.key(index), records.value(index)
        if code == BAD_KEY:
            return explain_bad_key(key or b"")
        if not value:
            return self._undecodable(code, "empty_value", "has a value of no bytes, which is not a tombstone", None)
        if len(value) < 2:
            return self._undecodable(code, "truncated", "has a value of 1 byte, too few for a version", None)
        version = int.from_bytes(value[:2], "big", signed=True)
        if version not in _VERSIONS:
            detail = f"has a value of version {version}, unknown (0 to {_VERSIONS[-1]} are known)"
            return self._undecodable(code, "unknown_value_version", detail, version)
        notes: list[str] = []
        try:
            found, end = reader("OffsetCommitValue", version).read(value, 2, notes)
        except Truncated as error:
            return self._undecodable(code, "truncated", f"cannot be used: {error}", version)
        return {**found, "version": version, "is_exact": end == len(value) and not notes}

    def _undecodable(self, code: int, reason: str, detail: str, version: int | None) -> Undecodable:
        """Why a value cannot be decoded, with the fields of its key."""
        keys = self.keys
        group_id, topic, partition = keys.group_id[code].as_py(), keys.topic[code].as_py(), int(keys.partition[code])
        kind = CONSUMER_OFFSETS[int(keys.record_type[code])]
        detail = f"The {kind.name} of group {group_id}, topic {topic}, partition {partition} {detail}"
        return Undecodable(reason, detail, kind.number, kind.name, group_id, None, topic, partition, version)


def _columns(
    rows: NDArray[np.int64], code: NDArray[np.int32], is_tombstone: NDArray[np.bool_], values: OffsetValues
) -> OffsetCommitColumns:
    """The regular rows and the tombstones, without texts."""
    for column, absent in (
        (values.version, -1),
        (values.committed_offset, 0),
        (values.leader_epoch, -1),
        (values.metadata_length, 0),
        (values.commit_timestamp, -1),
        (values.expire_timestamp, -1),
        (values.topic_id, 0),
    ):
        column[is_tombstone] = absent
    return OffsetCommitColumns(
        rows=rows,
        code=code,
        is_tombstone=is_tombstone,
        value_version=values.version,
        committed_offset=values.committed_offset,
        leader_epoch=values.leader_epoch,
        commit_timestamp=values.commit_timestamp,
        expire_timestamp=values.expire_timestamp,
        topic_id=values.topic_id,
        keeps_raw=np.zeros(len(rows), np.bool_),
        texts=Texts(len(rows), np.zeros(0, np.int64), pa.array([], pa.string())),
        undecodable=[],
    )


def _texts(data: NDArray[np.uint8], values: OffsetValues, keeps_raw: NDArray[np.bool_]) -> Texts:
    """The metadata that is not empty. Sets keeps_raw for texts that are not UTF-8."""
    rows = np.flatnonzero(values.metadata_length)
    raw = binary_slices(data, values.metadata_start[rows], values.metadata_length[rows])
    try:
        texts = raw.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [decode_text(one) for one in raw.to_pylist()]
        keeps_raw[rows] |= np.array([not is_proper for _, is_proper in decoded])
        texts = pa.array([text for text, _ in decoded], pa.string())
    return Texts(len(values.version), rows, texts)


def _put_one(columns: OffsetCommitColumns, row: int, found: dict[str, Any]) -> None:
    columns.value_version[row] = found["version"]
    columns.committed_offset[row] = found["offset"]
    columns.leader_epoch[row] = found["leaderEpoch"]
    columns.commit_timestamp[row] = found["commitTimestamp"]
    columns.expire_timestamp[row] = found["expireTimestamp"]
    columns.topic_id[row] = np.frombuffer(urlsafe_b64decode(found["topicId"] + "=="), np.uint8)
    columns.keeps_raw[row] |= not found["is_exact"]
