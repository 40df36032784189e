"""Keys of offset commits (types 0 and 1), each decoded once.

Layout: int16 record type, int16-length group, int16-length topic, int32 partition; no version, never flexible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.messages.outcome import Undecodable
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.messages.schema import Truncated, reader
from kgroups_spark.records.slices import binary_slices, unaligned

BAD_KEY = -1
_PADDING = bytes(16)
# Columns of _Keys.
_ARROW = ("group_id", "topic", "raw")
_NUMPY = ("partition", "record_type", "is_exact", "group")


class OffsetKeys:
    """Codes 0, 1, ... of the keys seen, and their contents. Arrays have one element per code. `size_bytes`: of all
    cached keys, including those that cannot be decoded."""

    def __init__(self) -> None:
        self._bad: set[bytes] = set()
        self.size_bytes = 0
        self._groups: dict[str, int] = {}
        self._parts: list[_Keys] = []
        self._merged = _Keys.empty()

    def __len__(self) -> int:
        return len(self.merged())

    @property
    def group_id(self) -> pa.StringArray:
        return self.merged().group_id

    @property
    def topic(self) -> pa.StringArray:
        return self.merged().topic

    @property
    def partition(self) -> NDArray[np.int32]:
        return self.merged().partition

    @property
    def record_type(self) -> NDArray[np.int16]:
        return self.merged().record_type

    @property
    def group(self) -> NDArray[np.int32]:
        """For each key, the index of its group in `groups`."""
        return self.merged().group

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """For each key, whether its decoded fields give back all of its bytes."""
        return self.merged().is_exact

    @property
    def raw(self) -> pa.BinaryArray:
        return self.merged().raw

    @property
    def groups(self) -> list[str]:
        """The group ids, without repetition, in the order of their first key."""
        return list(self._groups)

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
            self._add([key for key in encoded.dictionary.to_pylist() if key not in self._bad])
            codes[unseen] = self._look_up(encoded.dictionary)[encoded.indices.to_numpy()]
        return codes

    def _look_up(self, keys: pa.BinaryArray) -> NDArray[np.int32]:
        """The code of each key; BAD_KEY if it has none, or none yet."""
        found = pc.index_in(keys, value_set=self.raw)
        codes: NDArray[np.int32] = found.fill_null(BAD_KEY).to_numpy(zero_copy_only=False)
        return codes if codes.flags.writeable else codes.copy()

    def merged(self) -> _Keys:
        """The contents of all keys so far."""
        if self._parts:
            self._merged = _Keys.concat([self._merged, *self._parts])
            self._parts = []
        return self._merged

    def _add(self, keys: list[bytes]) -> None:
        """Gives codes to new keys; those that cannot be decoded are cached, too."""
        self.size_bytes += sum(map(len, keys))
        regular, irregular = _decode_regular(keys)
        if regular is not None:
            self._append(regular)
        for key in irregular:
            decoded = _decode_one(key)
            if isinstance(decoded, Undecodable):
                self._bad.add(key)
            else:
                self._append(decoded)

    def _append(self, keys: _Keys) -> None:
        keys.group = self._group_codes(keys.group_id)
        self._parts.append(keys)

    def _group_codes(self, group_ids: pa.StringArray) -> NDArray[np.int32]:
        encoded = group_ids.dictionary_encode()
        codes = [self._groups.setdefault(name, len(self._groups)) for name in encoded.dictionary.to_pylist()]
        return _taken(codes, encoded)


@dataclass(eq=False)
class _Keys:
    """Decoded keys as columns. OffsetKeys sets `group`."""

    group_id: pa.StringArray
    topic: pa.StringArray
    raw: pa.BinaryArray
    partition: NDArray[np.int32]
    record_type: NDArray[np.int16]
    is_exact: NDArray[np.bool_]
    group: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        return len(self.raw)

    @staticmethod
    def empty() -> _Keys:
        text, raw = pa.array([], pa.string()), pa.array([], pa.binary())
        return _Keys(text, text, raw, np.zeros(0, np.int32), np.zeros(0, np.int16), np.zeros(0, np.bool_))

    @staticmethod
    def concat(parts: list[_Keys]) -> _Keys:
        merged = _Keys.empty()
        for name in _ARROW:
            setattr(merged, name, pa.concat_arrays([getattr(part, name) for part in parts]))
        for name in _NUMPY:
            setattr(merged, name, np.concatenate([getattr(part, name) for part in parts]))
        return merged


def _taken(codes: list[int], encoded: pa.DictionaryArray) -> NDArray[np.int32]:
    """The code of each element of a dictionary-encoded array. `codes`: those of its dictionary."""
    taken: NDArray[np.int32] = np.array(codes, np.int32)[encoded.indices.to_numpy()]
    return taken


def _decode_regular(keys: list[bytes]) -> tuple[_Keys | None, list[bytes]]:
    """The keys whose lengths add up and whose text is UTF-8, decoded together; and the others."""
    raw = pa.array(keys, pa.binary())
    data = np.frombuffer(b"".join(keys) + _PADDING, np.uint8)
    ends = np.cumsum(np.array([len(key) for key in keys], np.int64))
    starts = ends - np.diff(ends, prepend=0)
    last = data.size - len(_PADDING)
    int16, int32 = unaligned(data, ">i2"), unaligned(data, ">i4")
    group_length = int16[np.minimum(starts + 2, last)].astype(np.int64)
    topic_at = starts + 4 + group_length
    topic_length = int16[np.clip(topic_at, 0, last)].astype(np.int64)
    is_regular = (group_length >= 0) & (topic_length >= 0) & (topic_at + topic_length + 6 == ends)
    at = np.flatnonzero(is_regular)
    others = [keys[i] for i in np.flatnonzero(~is_regular).tolist()]
    try:
        group_id = binary_slices(data, starts[at] + 4, group_length[at]).cast(pa.string())
        topic = binary_slices(data, topic_at[at] + 2, topic_length[at]).cast(pa.string())
    except pa.ArrowInvalid:  # some text is not UTF-8: one by one
        return None, keys
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


def explain_bad_key(key: bytes) -> Undecodable:
    """Why a key that got BAD_KEY cannot be decoded."""
    found = _decode_one(key)
    if not isinstance(found, Undecodable):
        raise ValueError(f"The key {key.hex()} can be decoded")
    return found
