"""The result of reading a log: columns of batches, columns of records, and corrupt batches.

Arrays of one object are in log order and have one element for each batch (m) or record (n).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
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
        return BatchColumns(*(getattr(self, f.name)[index] for f in fields(self)))

    @staticmethod
    def concat(parts: list[BatchColumns]) -> BatchColumns:
        """All parts as one, in the given order."""
        parts = parts or [BatchColumns.empty()]
        return BatchColumns(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(BatchColumns)))

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
        """Each record's offset minus its batch's base offset; -1: not known, or a message of magic 0 or 1, which may
        be one of a set."""
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


@dataclass(frozen=True)
class CorruptBatch:
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
