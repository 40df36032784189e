"""Keys of offset commits (types 0 and 1), each decoded once.

Layout: int16 record type, int16-length group, int16-length topic, int32 partition; no version, never flexible.
"""

from __future__ import annotations

from typing import NamedTuple

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


class OffsetKeys:
    """Codes 0, 1, ... of the keys seen, and their contents. Arrays have one element per code.

    group       the index of the key's group in `groups`
    is_exact    whether the key's decoded fields give back all of its bytes
    size_bytes  bytes of all cached keys, including those that cannot be decoded
    """

    def __init__(self) -> None:
        self.group_id: pa.StringArray = pa.array([], pa.string())
        self.topic: pa.StringArray = pa.array([], pa.string())
        self.raw: pa.BinaryArray = pa.array([], pa.binary())
        self.partition = np.zeros(0, np.int32)
        self.record_type = np.zeros(0, np.int16)
        self.is_exact = np.zeros(0, np.bool_)
        self.group = np.zeros(0, np.int32)
        self.size_bytes = 0
        self._bad: set[bytes] = set()
        self._groups: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.raw)

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

    def _add(self, keys: list[bytes]) -> None:
        """Gives codes to new keys; those that cannot be decoded are cached, too."""
        self.size_bytes += sum(map(len, keys))
        regular, irregular = _decode_regular(keys)
        parts = [regular] if regular is not None else []
        for key in irregular:
            decoded = _decode_one(key)
            if isinstance(decoded, Undecodable):
                self._bad.add(key)
            else:
                parts.append(decoded)
        if not parts:
            return
        groups = pa.concat_arrays([part.group_id for part in parts]).dictionary_encode()
        codes = [self._groups.setdefault(name, len(self._groups)) for name in groups.dictionary.to_pylist()]
        self.group = np.append(self.group, np.array(codes, np.int32)[groups.indices.to_numpy()])
        for name in ("group_id", "topic", "raw"):
            setattr(self, name, pa.concat_arrays([getattr(self, name), *(getattr(part, name) for part in parts)]))
        for name in ("partition", "record_type", "is_exact"):
            setattr(self, name, np.concatenate([getattr(self, name), *(getattr(part, name) for part in parts)]))


class _Keys(NamedTuple):
    """Decoded keys as columns."""

    group_id: pa.StringArray
    topic: pa.StringArray
    raw: pa.BinaryArray
    partition: NDArray[np.int32]
    record_type: NDArray[np.int16]
    is_exact: NDArray[np.bool_]


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
