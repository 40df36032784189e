"""Records of types 0 and 1, the offset commits, by columns: no Python loop over records. A value that is not plain
(bytes left over, unknown tags, malformed) is then read by itself with the readers of schema.py."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS, Undecodable
from kgroups_spark.messages.schema import Truncated, decode_text, definition, reader
from kgroups_spark.records.columns import RecordColumns, binary_slices, unaligned

# Keys of offset commits (types 0 and 1), each decoded once.
#
# Layout: int16 record type, int16-length group, int16-length topic, int32 partition; no version, never flexible.


BAD_KEY = -1
_PADDING = bytes(16)


class OffsetKeys:
    """Codes 0, 1, ... of the keys seen, and their contents. Arrays have one element per code.

    group_id    dictionaries, without repetition, in the order of their first key; topic, too
    is_exact    whether the key's decoded fields give back all of its bytes
    size_bytes  bytes of all cached keys, including those that cannot be decoded
    """

    def __init__(self) -> None:
        self.group_id = self.topic = pa.array([], pa.dictionary(pa.int32(), pa.string()))
        self.raw: pa.BinaryArray = pa.array([], pa.binary())
        self.partition = np.zeros(0, np.int32)
        self.record_type = np.zeros(0, np.int16)
        self.is_exact = np.zeros(0, np.bool_)
        self.size_bytes = 0
        self._bad: set[bytes] = set()

    def __len__(self) -> int:
        return len(self.raw)

    def encode(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """The code of each key data[start : start + length]; BAD_KEY if it cannot be decoded."""
        if not len(starts):
            return np.zeros(0, np.int32)
        raw = binary_slices(data, starts, lengths)
        codes = self._look_up(raw)
        unseen = np.flatnonzero(codes == BAD_KEY)
        if unseen.size:
            encoded = raw.take(pa.array(unseen)).dictionary_encode()
            # New keys get codes; those that cannot be decoded are cached, too.
            keys = encoded.dictionary
            if self._bad:
                keys = keys.filter(pc.invert(pc.is_in(keys, pa.array(list(self._bad), pa.binary()))))
            self.size_bytes += pc.sum(pc.binary_length(keys)).as_py() or 0
            regular, irregular = _decode_regular(keys) if len(keys) else (None, [])
            parts = [regular] if regular is not None else []
            for key in irregular:
                decoded = _decode_one(key)
                if isinstance(decoded, Undecodable):
                    self._bad.add(key)
                else:
                    parts.append(decoded)
            if parts:
                for name in ("group_id", "topic"):
                    before, texts = getattr(self, name), [getattr(part, name) for part in parts]
                    all_texts = pa.concat_arrays([before.dictionary, *texts]).dictionary_encode()
                    index = pa.concat_arrays([before.indices, all_texts.indices[len(before.dictionary) :]])
                    setattr(self, name, pa.DictionaryArray.from_arrays(index, all_texts.dictionary))
                self.raw = pa.concat_arrays([self.raw, *(part.raw for part in parts)])
                for name in ("partition", "record_type", "is_exact"):
                    columns = [getattr(self, name), *(getattr(part, name) for part in parts)]
                    setattr(self, name, np.concatenate(columns))
            codes[unseen] = self._look_up(encoded.dictionary)[encoded.indices.to_numpy()]
        return codes

    def _look_up(self, keys: pa.BinaryArray) -> NDArray[np.int32]:
        """The code of each key; BAD_KEY if it has none, or none yet."""
        found = pc.index_in(keys, value_set=self.raw)
        codes: NDArray[np.int32] = found.fill_null(BAD_KEY).to_numpy(zero_copy_only=False)
        return codes if codes.flags.writeable else codes.copy()


class _Keys(NamedTuple):
    group_id: pa.StringArray
    topic: pa.StringArray
    raw: pa.BinaryArray
    partition: NDArray[np.int32]
    record_type: NDArray[np.int16]
    is_exact: NDArray[np.bool_]


def _decode_regular(raw: pa.BinaryArray) -> tuple[_Keys | None, list[bytes]]:
    """The keys whose lengths add up and whose text is UTF-8, decoded together; and the others."""
    _, offsets, values = raw.buffers()
    edges = np.frombuffer(offsets, np.int32)[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
    data = np.frombuffer(values.slice(0, int(edges[-1])).to_pybytes() + _PADDING, np.uint8)
    starts, ends = edges[:-1], edges[1:]
    last = data.size - len(_PADDING)
    int16, int32 = unaligned(data, ">i2"), unaligned(data, ">i4")
    group_length = int16[np.minimum(starts + 2, last)].astype(np.int64)
    topic_at = starts + 4 + group_length
    topic_length = int16[np.clip(topic_at, 0, last)].astype(np.int64)
    is_regular = (group_length >= 0) & (topic_length >= 0) & (topic_at + topic_length + 6 == ends)
    at = np.flatnonzero(is_regular)
    others = raw.filter(pa.array(~is_regular)).to_pylist()
    try:
        group_id = binary_slices(data, starts[at] + 4, group_length[at]).cast(pa.string())
        topic = binary_slices(data, topic_at[at] + 2, topic_length[at]).cast(pa.string())
    except pa.ArrowInvalid:  # some text is not UTF-8: one by one
        return None, raw.to_pylist()
    partition = int32[topic_at[at] + 2 + topic_length[at]].astype(np.int32)
    record_type = int16[starts[at]].astype(np.int16)
    return _Keys(group_id, topic, raw.take(pa.array(at)), partition, record_type, np.ones(len(at), np.bool_)), others


def _decode_one(key: bytes) -> _Keys | Undecodable:
    notes: list[str] = []
    number = key[1]
    try:
        fields, end = reader(CONSUMER_OFFSETS[number].key.name, 0).read(key, 2, notes)
    except Truncated as error:
        return Undecodable("truncated", str(error), number, CONSUMER_OFFSETS[number].name)
    is_exact = end == len(key) and not notes
    return _Keys(
        pa.array([fields["group"]], pa.string()),
        pa.array([fields["topic"]], pa.string()),
        pa.array([key], pa.binary()),
        np.array([fields["partition"]], np.int32),
        np.array([number], np.int16),
        np.array([is_exact]),
    )


# Values of offset commits, by columns. OffsetCommitValue after its int16 version; numbers are byte positions:
#
#     v0, v2   offset int64 @2, metadata int16 length @10 + text, commitTimestamp int64
#     v1       the same, then expireTimestamp int64
#     v3       offset @2, leaderEpoch int32 @10, metadata int16 length @14 + text, commitTimestamp
#     v4       offset @2, leaderEpoch @10, metadata uvarint(length + 1) @14 + text, commitTimestamp, tags
#              (none: one byte 0; a topic id: 01 00 10 and 16 bytes)
#
# Nearly all values are v3 or v4 with empty metadata, so everything is in their first 26 bytes: one gather of 26 bytes
# per row, viewed as a packed struct for each version. A row counts as read only if its layout fills the value to the
# last byte. All others (other tags, bytes left over, malformed values) are `irregular` and are read one by one.


_FIELDS: Any = {
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
_HEAD = np.dtype(_FIELDS)
HEAD_BYTES = _HEAD.itemsize
_NO_TAGS = b"\x00"
_TOPIC_ID_TAG = b"\x01\x00\x10"
_TOPIC_ID_BYTES = len(_TOPIC_ID_TAG) + 16


@dataclass
class _Rows:
    """Rows of one layout: value and head of each."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    head: NDArray

    def gather(self, dtype: str, positions: NDArray[np.int64]) -> NDArray:
        """The `dtype` at each position; any number if a wrong length led beyond the buffer."""
        view = unaligned(self.data, dtype)
        return view[np.clip(positions, 0, len(view) - 1)]


# Which rows are regular; the length, start and time as read_values needs them.
_Read = tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _read_v0_to_v3(
    rows: _Rows, version: NDArray[np.int16], leader_epoch: NDArray[np.int32], expire_timestamp: NDArray[np.int64]
) -> _Read:
    """Also fills expire_timestamp, and leader_epoch where a value has none. Rows of other versions are not regular."""
    head, has_epoch, has_expiry = rows.head, version >= 3, version == 1
    length = np.where(has_epoch, head["length_v3"], head["length_v0"]).astype(np.int64)
    time = np.where(has_epoch, head["time_v3"], head["time_v0"]).astype(np.int64)
    start = rows.starts + np.where(has_epoch, 16, 12)
    is_regular = (length >= 0) & (start + length + np.where(has_expiry, 16, 8) == rows.starts + rows.lengths)
    is_regular &= (version >= 0) & (version <= 3)
    leader_epoch[~has_epoch] = -1
    expiry = np.flatnonzero(has_expiry & is_regular)
    expire_timestamp[expiry] = rows.gather(">i8", (start + length + 8)[expiry])
    return is_regular, length, start, time


def _read_v4(rows: _Rows, at: NDArray[np.int64], topic_id: NDArray[np.uint8]) -> _Read:
    """Also fills topic_id, in which the rows are `at`."""
    length = rows.head["length_v4"].astype(np.int64) - 1
    start = rows.starts + 15
    # Uvarints of two bytes; longer ones (a text above 16 KB) become -1, which is irregular.
    two_bytes = np.flatnonzero(length >= 127)
    if two_bytes.size:
        second_byte = rows.gather("u1", start[two_bytes]).astype(np.int64)
        both = (length[two_bytes] + 1 & 127) + (second_byte << 7) - 1
        length[two_bytes] = np.where(second_byte < 128, both, -1)
        start[two_bytes] += 1
    tags = rows.head["tags_v4"].copy()
    long = np.flatnonzero(length)
    tags_at = start + length + 8
    tags[long] = rows.gather("V3", tags_at[long])
    first, second, third = tags.view(np.uint8).reshape(-1, 3).T
    left = rows.starts + rows.lengths - tags_at
    has_topic_id = (first == 1) & (second == 0) & (third == 16) & (left == _TOPIC_ID_BYTES)  # _TOPIC_ID_TAG
    has_no_tags = (first == 0) & (left == len(_NO_TAGS))
    is_regular = (length >= 0) & (has_no_tags | has_topic_id)
    ids = np.flatnonzero(has_topic_id)
    topic_id.view("V16").ravel()[at[ids]] = rows.gather("V16", tags_at[ids] + len(_TOPIC_ID_TAG))
    return is_regular, length, start, rows.head["time_v4"].astype(np.int64)


_VERSIONS = definition("OffsetCommitValue").versions
_IN_VALUES = {"value_version": "version", "committed_offset": "offset", "leader_epoch": "leaderEpoch"}
_IN_VALUES |= {"commit_timestamp": "commitTimestamp", "expire_timestamp": "expireTimestamp"}


def classify(records: RecordColumns) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the offset commits, of all other records (null and odd keys among them), and of control records."""
    is_control = records.is_control if records.batches.is_control.any() else np.zeros(len(records), np.bool_)
    data, start = records.data, records.key_start
    is_commit = (records.key_length >= 2) & (data[start] == 0) & (data[start + 1] < 2) & ~is_control
    return np.flatnonzero(is_commit), np.flatnonzero(~is_commit & ~is_control), np.flatnonzero(is_control)


@dataclass
class OffsetCommitColumns:
    """Decoded offset commits in log order. The decoder's `keys` have the contents of their keys, by code. A tombstone
    has 0, -1, '' or zeros in all columns after value_version."""

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
    text: NDArray[np.int32]  # index of the metadata in `texts`, which are distinct
    texts: pa.StringArray
    undecodable: list[tuple[int, Undecodable]]  # (index into the records, why), in log order

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def metadata(self) -> pa.DictionaryArray:
        """The metadata of each row, never null."""
        return pa.DictionaryArray.from_arrays(self.text, self.texts)

    def set_metadata(self, rows: NDArray[np.int64] | list[int], texts: pa.StringArray) -> None:
        encoded = pa.concat_arrays([self.texts, texts]).dictionary_encode()
        self.text[rows] = encoded.indices.to_numpy()[len(self.texts) :]
        self.texts = encoded.dictionary

    def filter(self, keep: NDArray[np.bool_]) -> None:
        for field in fields(self):
            column = getattr(self, field.name)
            if isinstance(column, np.ndarray):
                setattr(self, field.name, column[keep])


class OffsetCommitDecoder:
    """Decodes offset commits chunk by chunk; keeps their keys."""

    def __init__(self) -> None:
        self.keys = OffsetKeys()

    def decode(self, records: RecordColumns, rows: NDArray[np.int64]) -> OffsetCommitColumns:
        """The records `rows`, with keys of type 0 or 1 (see classify). Keeps no view of their buffer."""
        code = self.keys.encode(records.data, records.key_start[rows], records.key_length[rows])
        columns, start, length, is_irregular = read_values(records, rows, code)
        columns.keeps_raw |= ~self.keys.is_exact[code] if len(self.keys) else False
        # The metadata that is not empty.
        given = np.flatnonzero(length)
        raw = binary_slices(records.data, start[given], length[given])
        try:
            texts = raw.cast(pa.string())
        except pa.ArrowInvalid:
            decoded = [decode_text(one) for one in raw.to_pylist()]
            columns.keeps_raw[given] |= np.array([not is_proper for _, is_proper in decoded])
            texts = pa.array([text for text, _ in decoded], pa.string())
        columns.set_metadata(given, texts)
        irregular = np.flatnonzero(is_irregular | (code == BAD_KEY))
        if irregular.size:
            self._read_irregular(records, columns, irregular)
        return columns

    def _read_irregular(self, records: RecordColumns, columns: OffsetCommitColumns, rows: NDArray[np.int64]) -> None:
        """Reads the rows that are irregular for the columns: each gets its fields or becomes undecodable."""
        keep = np.ones(len(columns), np.bool_)
        metadata: dict[int, str] = {}
        for row in rows.tolist():
            index = int(columns.rows[row])
            found = self._read_one(records, index, int(columns.code[row]))
            if isinstance(found, Undecodable):
                keep[row] = False
                columns.undecodable.append((index, found))
                continue
            for name, field in _IN_VALUES.items():
                getattr(columns, name)[row] = found[field]
            columns.topic_id[row] = np.frombuffer(urlsafe_b64decode(found["topicId"] + "=="), np.uint8)
            columns.keeps_raw[row] |= not found["is_exact"]
            metadata[row] = found["metadata"]
        columns.set_metadata([*metadata], pa.array([*metadata.values()], pa.string()))
        if not keep.all():
            columns.filter(keep)

    def _read_one(self, records: RecordColumns, index: int, code: int) -> dict[str, Any] | Undecodable:
        """The fields of one value, with `version` and `is_exact`; or why it cannot be decoded."""
        key, value = records.key(index), records.value(index)
        if code == BAD_KEY:
            undecodable = _decode_one(key or b"")
            assert isinstance(undecodable, Undecodable)
            return undecodable
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


def read_values(
    records: RecordColumns, rows: NDArray[np.int64], code: NDArray[np.int32]
) -> tuple[OffsetCommitColumns, NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The commits `rows` without their metadata; where that begins, and its bytes; and which rows are irregular: their
    columns mean nothing."""
    lengths, n = records.value_length[rows], len(rows)
    is_tombstone = lengths < 0
    safe = np.where(is_tombstone, 0, records.value_start[rows])
    heads = unaligned(records.data, f"V{HEAD_BYTES}")[safe]
    head = heads.view(_HEAD)
    version, committed_offset = head["version"].astype(np.int16), head["offset"].astype(np.int64)
    leader_epoch, expire_timestamp = head["leader_epoch"].astype(np.int32), np.full(n, -1, np.int64)
    topic_id = np.zeros((n, 16), np.uint8)
    every, of_v4 = _Rows(records.data, safe, lengths, head), np.flatnonzero(version == 4)
    found = is_regular, length, start, time = _read_v0_to_v3(every, version, leader_epoch, expire_timestamp)
    if of_v4.size:
        some = _Rows(records.data, safe[of_v4], lengths[of_v4], heads[of_v4].view(_HEAD))
        for column, of_some in zip(found, _read_v4(some, of_v4, topic_id), strict=True):
            column[of_v4] = of_some
    length[is_tombstone | ~is_regular] = 0
    # The commit timestamp follows the metadata; `time` is that timestamp where there is none.
    long = np.flatnonzero(length)
    time[long] = every.gather(">i8", start[long] + length[long])
    committed_offset[is_tombstone] = topic_id[is_tombstone] = 0
    for of_none in (version, leader_epoch, time, expire_timestamp):
        of_none[is_tombstone] = -1
    columns = OffsetCommitColumns(
        *(rows, code, is_tombstone, version, committed_offset, leader_epoch, time, expire_timestamp, topic_id),
        keeps_raw=np.zeros(n, np.bool_),
        text=np.zeros(n, np.int32),
        texts=pa.array([""]),
        undecodable=[],
    )
    return columns, start, length, ~(is_tombstone | is_regular)
