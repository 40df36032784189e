"""The result of reading a log: columns of batches, columns of records, and corrupt batches.

Arrays of one object are in log order and have one element for each batch (m) or record (n).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

# Kafka: RecordBatch.java 4.3.1, the bits of a batch's attributes.
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


@dataclass(frozen=True, eq=False)
class BatchColumns:
    """Headers of m batches. An uncompressed message of the old formats (magic 0 and 1) is a batch of its own."""

    base_offset: NDArray[np.int64]  # magic 0 and 1: the first message's offset; -1: not known
    last_offset: NDArray[np.int64]  # base offset + lastOffsetDelta, survives compaction; the next offset is one more
    leader_epoch: NDArray[np.int32]  # -1: none (magic 0 and 1)
    magic: NDArray[np.int8]
    crc: NDArray[np.int64]  # as stored: CRC-32C (magic 2) or CRC-32, unsigned
    attributes: NDArray[np.int16]
    max_timestamp: NDArray[np.int64]  # ms, -1: none
    producer_id: NDArray[np.int64]  # -1: none
    producer_epoch: NDArray[np.int16]  # -1: none
    record_count: NDArray[np.int32]  # magic 2: the header's; else the messages inside
    position: NDArray[np.int64]  # bytes, of the batch's first byte in its file
    size: NDArray[np.int64]  # bytes, with offset and length field

    def __len__(self) -> int:
        return len(self.base_offset)

    def __getitem__(self, index: slice | NDArray[np.int64] | NDArray[np.bool_]) -> BatchColumns:
        return BatchColumns(*(column[index] for column in vars(self).values()))

    @staticmethod
    def concat(parts: list[BatchColumns]) -> BatchColumns:
        """All parts as one, in the given order."""
        parts = parts or [BatchColumns.empty()]
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return parts[0] if len(parts) == 1 else BatchColumns(*map(np.concatenate, columns))

    @staticmethod
    def empty() -> BatchColumns:
        i64, i32 = np.zeros(0, np.int64), np.zeros(0, np.int32)
        i16, i8 = np.zeros(0, np.int16), np.zeros(0, np.int8)
        return BatchColumns(i64, i64, i32, i8, i64, i16, i64, i64, i16, i32, i64, i64)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        is_set: NDArray[np.bool_] = (self.magic >= 2) & (self.attributes & TRANSACTIONAL != 0)
        return is_set

    @property
    def is_control(self) -> NDArray[np.bool_]:
        is_set: NDArray[np.bool_] = (self.magic >= 2) & (self.attributes & CONTROL != 0)
        return is_set

    @property
    def timestamp_type(self) -> NDArray[np.int8]:
        """0: create time, 1: log append time, -1: none (magic 0)."""
        kind = (self.attributes & LOG_APPEND_TIME != 0).astype(np.int8)
        return np.where(self.magic == 0, np.int8(-1), kind)


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """Records of whole batches. Keys and values are slices of `data`: data[start : start + length].

    `data` may be reused: it is valid until the next columns are requested.
    """

    data: NDArray[np.uint8]  # padded: 32 bytes after any start are readable
    batches: BatchColumns
    batch: NDArray[np.int32]  # index into batches
    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]  # ms, -1: none
    key_start: NDArray[np.int64]
    key_length: NDArray[np.int64]  # -1: null
    value_start: NDArray[np.int64]
    value_length: NDArray[np.int64]  # -1: null

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> RecordColumns:
        """These records only; `batches` keeps all batches."""
        columns = (getattr(self, f.name)[rows] for f in fields(self)[2:])
        return RecordColumns(self.data, self.batches, *columns)

    def key(self, row: int) -> bytes | None:
        return _slice(self.data, int(self.key_start[row]), int(self.key_length[row]))

    def value(self, row: int) -> bytes | None:
        return _slice(self.data, int(self.value_start[row]), int(self.value_length[row]))

    @property
    def producer_id(self) -> NDArray[np.int64]:
        return self.batches.producer_id[self.batch]

    @property
    def producer_epoch(self) -> NDArray[np.int16]:
        return self.batches.producer_epoch[self.batch]

    @property
    def offset_delta(self) -> NDArray[np.int32]:
        """Record offset minus its batch's base offset; -1: not known (magic 0 and 1: it may be one of a set)."""
        batches = self.batches
        is_known = (batches.magic >= 2) & (batches.base_offset >= 0)
        return np.where(is_known[self.batch], self.offset - batches.base_offset[self.batch], -1).astype(np.int32)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        return self.batches.is_transactional[self.batch]

    @property
    def is_control(self) -> NDArray[np.bool_]:
        return self.batches.is_control[self.batch]

    @property
    def leader_epoch(self) -> NDArray[np.int32]:
        return self.batches.leader_epoch[self.batch]

    @property
    def timestamp_type(self) -> NDArray[np.int8]:
        return self.batches.timestamp_type[self.batch]


class CorruptBatch(NamedTuple):
    """Bytes that cannot be read as a batch. None of their records is returned; reading goes on after them."""

    position: int  # in the file
    size: int  # bytes
    base_offset: int | None  # None: the header is not believable
    last_offset: int | None
    record_count: int  # the header's claim if believable, else 1
    detail: str  # the values read, found and expected
    raw: bytes  # the first bytes, at most 1 MiB


def _slice(data: NDArray[np.uint8], start: int, length: int) -> bytes | None:
    return None if length < 0 else data[start : start + length].tobytes()


# Arrow arrays built and sorted without a Python loop: slices of one buffer, ranks of texts, list offsets.

# Arrow's views of texts that lie in buffers, 16 bytes each: int32 length, then the text if that is at most 12, else its
# first 4 bytes, int32 buffer, int32 position in it. First bytes, and zeros after short texts, are only for comparisons:
# a copy reads neither.
Views = NDArray[np.void]
_INLINE = 12
_SHORT = np.dtype([("length", "<i4"), ("text", f"V{_INLINE}")])


def binary_slices(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> pa.BinaryArray:
    """data[start : start + length] of each row, copied; null if the length is below 0. At most 2 GiB in all. 12 bytes
    after any start must be readable."""
    is_null = lengths < 0
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    return copy(views_of(data, starts, lengths), data, validity=validity)


def views_of(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Views:
    """The same as views of `data`, which is their first buffer; empty if the length is below 0."""
    views = np.empty((len(starts), 2), np.int64)
    np.maximum(lengths, 0, out=views[:, 0])
    np.left_shift(starts, 32, out=views[:, 1])
    short = np.flatnonzero(lengths <= _INLINE)
    if short.size:
        views.view(_SHORT)["text"][short, 0] = unaligned(data, f"V{_INLINE}")[starts[short]]
    return views.view("V16")[:, 0]


def view_of(text: bytes, more: bytearray) -> bytes:
    """The view of one text. A long one is added to `more`, their second buffer."""
    if len(text) <= _INLINE:
        return struct.pack("<i12s", len(text), text)
    more += text
    return struct.pack("<i4xii", len(text), 1, len(more) - len(text))


def copy(views: Views, *buffers: NDArray[np.uint8] | bytearray, validity: pa.Buffer | None = None) -> pa.BinaryArray:
    """The texts of the views."""
    parts = [validity, pa.py_buffer(views), *map(pa.py_buffer, buffers)]
    return pa.Array.from_buffers(pa.binary_view(), len(views), parts).cast(pa.binary())


def unaligned(data: NDArray[np.uint8], dtype: str) -> NDArray:
    """A view whose element i is the `dtype` that starts at byte i. Indexing it gathers: about 15 ns, up to 26 bytes."""
    width = np.dtype(dtype).itemsize
    return np.ndarray((data.size - width + 1,), dtype=dtype, buffer=data, strides=(1,))


def ranks(texts: pa.DictionaryArray) -> NDArray[np.int64]:
    """For each text, its index in the sorted list of all different texts, by bytes. The dictionary must have no
    duplicates. ["b", "a", "b"] -> [1, 0, 1]."""
    places = np.empty(len(texts.dictionary), np.int64)
    places[pc.sort_indices(texts.dictionary).to_numpy()] = np.arange(len(places))
    of_texts: NDArray[np.int64] = places[texts.indices.to_numpy()]
    return of_texts


def list_offsets(lengths: NDArray[np.integer]) -> pa.Int32Array:
    """Where lists of these lengths begin in their elements, and where the last one ends: [2, 0, 1] -> [0, 2, 2, 3]."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


# Control records. The key is version i16, type i16; the value of a transaction's marker is version i16, coordinator
# epoch i32 (Kafka: ControlRecordType.java, EndTransactionMarker.java 4.3.1).

ABORT, COMMIT = 0, 1
_NAMES = {ABORT: "ABORT", COMMIT: "COMMIT"}


def control_type(key: bytes | None) -> int | None:
    """The type; None: the key is too short to have one."""
    return None if key is None or len(key) < 4 else int(struct.unpack_from(">h", key, 2)[0])


def control_type_name(number: int) -> str:
    """ABORT, COMMIT, or another type's number as text."""
    return _NAMES.get(number, str(number))


def coordinator_epoch(value: bytes | None) -> int | None:
    """The epoch of the transaction coordinator that wrote the marker; None: the value is too short to have one."""
    return None if value is None or len(value) < 6 else int(struct.unpack_from(">i", value, 2)[0])


# Zigzag varints at many places of one buffer at once.
#
# Kafka: ByteUtils.readVarint and readVarlong 4.3.1: seven bits a byte, lowest first, at most 5 and 10 bytes.

INT_BYTES = 5
LONG_BYTES = 10


def read_varints(
    data: NDArray[np.uint8], pos: NDArray[np.int64], max_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The numbers at `pos`, the positions after them, and the rows whose number does not end within max_bytes.

    Reads up to max_bytes from each position, which the buffer must hold.
    """
    byte, after = data[pos], pos + 1
    # The first byte has the sign, so zigzag only flips the bits of the others.
    first = byte & 0x7F
    number = (first >> 1 ^ -(first & 1)).view(np.int8).astype(np.int64)
    rows = np.flatnonzero(byte > 0x7F)
    shift = 6
    while rows.size and shift < 7 * max_bytes - 1:
        at = after[rows]
        byte = data[at]
        # A tenth byte has one bit.
        number[rows] ^= (byte & (0x7F if shift < 62 else 1)).astype(np.int64) << shift
        after[rows] = at + 1
        rows = rows[byte > 0x7F]
        shift += 7
    return number, after, rows


def read_varint(data: memoryview, pos: int, end: int, max_bytes: int = INT_BYTES) -> tuple[int, int]:
    """The number and the position after it. Raises ValueError if it does not end before `end` or within max_bytes."""
    number = shift = 0
    for at in range(pos, min(end, pos + max_bytes)):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        shift += 7
    raise ValueError(f"varint at byte {pos} does not end")
