"""Values of offset commits, by columns. OffsetCommitValue after its int16 version; numbers are byte positions:

    v0, v2   offset int64 @2, metadata int16 length @10 + text, commitTimestamp int64
    v1       the same, then expireTimestamp int64
    v3       offset @2, leaderEpoch int32 @10, metadata int16 length @14 + text, commitTimestamp
    v4       offset @2, leaderEpoch @10, metadata uvarint(length + 1) @14 + text, commitTimestamp, tags
             (none: one byte 0; a topic id: 01 00 10 and 16 bytes)

Nearly all values are v3 or v4 with empty metadata, so everything is in their first 26 bytes: one gather of 26 bytes per
row, viewed as a packed struct for each version. A row counts as read only if its layout fills the value to the last
byte. All others (other tags, bytes left over, malformed values) are `irregular` and are read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.slices import unaligned

HEAD_BYTES = 26
_FIELDS = {
    "version": (">i2", 0),
    "offset": (">i8", 2),
    "leader_epoch": (">i4", 10),
    "length_v0": (">i2", 10),
    "time_v0": (">i8", 12),
    "length_v3": (">i2", 14),
    "time_v3": (">i8", 16),
    "length_v4": ("u1", 14),
    "time_v4": (">i8", 15),
    "tags_v4": ("V3", 23),
}
_HEAD = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [f for f, _ in _FIELDS.values()],
        "offsets": [o for _, o in _FIELDS.values()],
        "itemsize": HEAD_BYTES,
    }
)
_NO_TAGS = b"\x00"
_TOPIC_ID_TAG = b"\x01\x00\x10"
_TOPIC_ID_BYTES = len(_TOPIC_ID_TAG) + 16


@dataclass
class OffsetValues:
    """One element per row, meaningless if the row is a tombstone or irregular."""

    version: NDArray[np.int16]
    committed_offset: NDArray[np.int64]
    leader_epoch: NDArray[np.int32]
    metadata_start: NDArray[np.int64]
    metadata_length: NDArray[np.int64]  # bytes
    commit_timestamp: NDArray[np.int64]
    expire_timestamp: NDArray[np.int64]
    topic_id: NDArray[np.uint8]  # 16 bytes a row
    is_irregular: NDArray[np.bool_]


def read_offset_values(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> OffsetValues:
    """The values data[start : start + length]. Length -1 is a tombstone, which is not irregular."""
    safe = np.where(lengths < 0, 0, starts)
    heads = unaligned(data, f"V{HEAD_BYTES}")[safe]
    head = heads.view(_HEAD)
    version = head["version"].astype(np.int16)
    n = len(safe)
    values = OffsetValues(
        version=version,
        committed_offset=head["offset"].astype(np.int64),
        leader_epoch=head["leader_epoch"].astype(np.int32),
        metadata_start=safe + 16,
        metadata_length=np.zeros(n, np.int64),
        commit_timestamp=np.zeros(n, np.int64),
        expire_timestamp=np.full(n, -1, np.int64),
        topic_id=np.zeros((n, 16), np.uint8),
        is_irregular=lengths >= 0,
    )
    for rows, read in (
        (np.flatnonzero(version == 3), _read_v3),
        (np.flatnonzero(version == 4), _read_v4),
        (np.flatnonzero((version >= 0) & (version <= 2)), _read_v0_to_v2),
    ):
        if rows.size:
            read(values, _Rows(data, rows, safe[rows], lengths[rows], heads[rows].view(_HEAD)))
    return values


@dataclass
class _Rows:
    """Rows of one layout: index, value and head of each."""

    data: NDArray[np.uint8]
    index: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    head: NDArray

    def gather(self, dtype: str, positions: NDArray[np.int64]) -> NDArray:
        """The `dtype` at each position; any number if a wrong length led beyond the buffer."""
        view = unaligned(self.data, dtype)
        return view[np.clip(positions, 0, len(view) - 1)]


def _read_v3(values: OffsetValues, rows: _Rows) -> None:
    length = rows.head["length_v3"].astype(np.int64)
    time = rows.head["time_v3"].astype(np.int64)
    _read_times(rows, length, rows.starts + 16, time)
    is_regular = (length >= 0) & (length + 24 == rows.lengths)
    _put(values, rows, is_regular, length, time)


def _read_v0_to_v2(values: OffsetValues, rows: _Rows) -> None:
    length = rows.head["length_v0"].astype(np.int64)
    time = rows.head["time_v0"].astype(np.int64)
    _read_times(rows, length, rows.starts + 12, time)
    has_expiry = rows.head["version"] == 1
    is_regular = (length >= 0) & (length + np.where(has_expiry, 28, 20) == rows.lengths)
    _put(values, rows, is_regular, length, time)
    values.leader_epoch[rows.index] = -1
    values.metadata_start[rows.index] = rows.starts + 12
    expiry = np.flatnonzero(has_expiry & is_regular)
    values.expire_timestamp[rows.index[expiry]] = rows.gather(">i8", rows.starts + length + 20)[expiry]


def _read_v4(values: OffsetValues, rows: _Rows) -> None:
    length = rows.head["length_v4"].astype(np.int64) - 1
    start = rows.starts + 15
    _read_two_byte_lengths(rows, length, start)
    time = rows.head["time_v4"].astype(np.int64)
    _read_times(rows, length, start, time)
    tags = rows.head["tags_v4"].copy()
    long = np.flatnonzero(length)
    tags_at = start + length + 8
    tags[long] = rows.gather("V3", tags_at[long])
    first, second, third = tags.view(np.uint8).reshape(-1, 3).T
    left = rows.starts + rows.lengths - tags_at
    has_topic_id = (first == 1) & (second == 0) & (third == 16) & (left == _TOPIC_ID_BYTES)  # _TOPIC_ID_TAG
    has_no_tags = (first == 0) & (left == len(_NO_TAGS))
    is_regular = (length >= 0) & (has_no_tags | has_topic_id)
    _put(values, rows, is_regular, length, time)
    values.metadata_start[rows.index] = start
    ids = np.flatnonzero(has_topic_id)
    values.topic_id.view("V16").ravel()[rows.index[ids]] = rows.gather("V16", tags_at[ids] + len(_TOPIC_ID_TAG))


def _read_two_byte_lengths(rows: _Rows, length: NDArray[np.int64], start: NDArray[np.int64]) -> None:
    """Replaces lengths by uvarints of two bytes; longer ones (a text above 16 KB) become -1, which is irregular."""
    long = np.flatnonzero(length >= 127)
    if long.size:
        second = rows.gather("u1", start[long]).astype(np.int64)
        length[long] = np.where(second < 128, (length[long] + 1 & 127) + (second << 7) - 1, -1)
        start[long] += 1


def _read_times(rows: _Rows, length: NDArray[np.int64], start: NDArray[np.int64], time: NDArray[np.int64]) -> None:
    """Replaces the commit timestamps of rows with metadata, which they follow."""
    long = np.flatnonzero(length)
    if long.size:
        time[long] = rows.gather(">i8", start[long] + length[long])


def _put(
    values: OffsetValues, rows: _Rows, is_regular: NDArray[np.bool_], length: NDArray[np.int64], time: NDArray[np.int64]
) -> None:
    values.metadata_length[rows.index] = np.where(is_regular, length, 0)
    values.commit_timestamp[rows.index] = time
    values.is_irregular[rows.index] &= ~is_regular
