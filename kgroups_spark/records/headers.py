"""Batches in a buffer: their positions, headers and checksums.

    every magic:  baseOffset i64 | batchLength i32, the bytes after it | ... | magic i8 at byte 16
    magic 2:      0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32
                  | 21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64 | 43
                  producerId i64
                  | 51 producerEpoch i16 | 53 baseSequence i32 | 57 recordCount i32 | 61 records
    magic 0, 1:   0 offset i64 | 8 size i32 | 12 crc u32 | 16 magic i8 | 17 attributes i8 | 18 timestamp i64 (magic
    1) | key | value

Kafka: DefaultRecordBatch.java, LegacyRecord.java 4.3.1. The crc of magic 2 is CRC-32C from the attributes to the end
(offset, length, leader epoch and magic are not covered); of magic 0 and 1 CRC-32 from the magic to the end.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.slices import unaligned

PADDING = 64  # bytes after the data of a buffer, so that wide reads need no bounds
LENGTH_END = 12  # bytes up to batchLength; a batch has 12 + batchLength bytes
SMALLEST_LENGTH = 14  # an empty message of magic 0
MAGIC_END = 17
MARK_BYTES = 21  # up to the CRC
HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
HEADER_BYTES = HEADER.itemsize  # 61
LEGACY_HEADER = np.dtype(
    {
        "names": ["offset", "length", "crc", "magic", "attributes", "timestamp"],
        "formats": [">i8", ">i4", ">u4", "i1", "i1", ">i8"],
        "offsets": [0, 8, 12, 16, 17, 18],
        "itemsize": HEADER_BYTES,
    }
)
# A longer length is damage: brokers take batches of about 1 MiB unless they are configured for more. The bound limits
# the memory.
LARGEST_BATCH = 64 << 20

_read_length = struct.Struct(">i").unpack_from


def walk(buffer: memoryview, filled: int, start: int = 0) -> tuple[NDArray[np.int64], bool]:
    """Edges of the whole batches from `start`: m + 1 positions, the last one after the last batch.

    Also whether the bytes there can still become a batch with more data: false if their length is impossible.
    """
    edges: list[int] = []
    add, pos, may_go_on = edges.append, start, True
    while pos + LENGTH_END <= filled:
        length = _read_length(buffer, pos + 8)[0]
        if not SMALLEST_LENGTH <= length <= LARGEST_BATCH:
            may_go_on = False
            break
        after = pos + LENGTH_END + length
        if after > filled:
            break
        add(pos)
        pos = after
    add(pos)
    return np.array(edges, np.int64), may_go_on


def gather(data: NDArray[np.uint8], at: NDArray[np.int64], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """One packed struct of the given type per position: a single gather is many times cheaper than one per field."""
    return unaligned(data, f"V{dtype.itemsize}")[at].view(dtype)


def read_headers(
    data: NDArray[np.uint8], edges: NDArray[np.int64], position: int
) -> tuple[BatchColumns, NDArray[np.int64]]:
    """Headers of the batches at edges[:-1] and their base timestamps (ms); `position` is the buffer's position in the
    file.

    The header of a compressed message of magic 0 or 1 has neither its first offset nor its count. Base offset and count
    are those of its last message then.
    """
    starts = edges[:-1]
    header = gather(data, starts, HEADER)
    base_offset = header["base_offset"].astype(np.int64)
    batches = BatchColumns(
        base_offset=base_offset,
        last_offset=base_offset + header["last_offset_delta"],
        leader_epoch=header["leader_epoch"].astype(np.int32),
        magic=header["magic"].copy(),
        crc=header["crc"].astype(np.int64),
        attributes=header["attributes"].astype(np.int16),
        max_timestamp=header["max_timestamp"].astype(np.int64),
        producer_id=header["producer_id"].astype(np.int64),
        producer_epoch=header["producer_epoch"].astype(np.int16),
        record_count=header["record_count"].astype(np.int32),
        position=starts + position,
        size=np.diff(edges),
    )
    base_timestamp = header["base_timestamp"].astype(np.int64)
    legacy = np.flatnonzero(batches.magic < 2)
    if legacy.size:
        _fill_in_legacy(batches, legacy, header[legacy].view(LEGACY_HEADER))
    return batches, base_timestamp


class BatchMark(NamedTuple):
    """The facts that distinguish a batch from another at the same position."""

    base_offset: int  # magic 0 and 1: the last message's offset
    leader_epoch: int  # -1: none
    crc: int

    @classmethod
    def of(cls, batches: BatchColumns, row: int) -> BatchMark:
        return cls(int(batches.base_offset[row]), int(batches.leader_epoch[row]), int(batches.crc[row]))

    @classmethod
    def read(cls, header: bytes) -> BatchMark | None:
        """The mark of the batch that begins with these bytes; None: they are too few."""
        if len(header) < MARK_BYTES:
            return None
        base_offset, _, leader_epoch, magic, crc = struct.unpack_from(">qiibI", header)
        if magic >= 2:
            return cls(base_offset, leader_epoch, crc)
        return cls(base_offset, -1, struct.unpack_from(">I", header, LENGTH_END)[0])


def _fill_in_legacy(batches: BatchColumns, rows: NDArray[np.int64], header: NDArray[np.void]) -> None:
    batches.last_offset[rows] = header["offset"]
    batches.leader_epoch[rows] = -1
    batches.crc[rows] = header["crc"]
    batches.attributes[rows] = header["attributes"]
    batches.max_timestamp[rows] = np.where(header["magic"] == 1, header["timestamp"], -1)
    batches.producer_id[rows] = batches.producer_epoch[rows] = -1
    batches.record_count[rows] = 1


def next_batch(buffer: memoryview, pos: int, filled: int, *, whole: bool = True) -> int | None:
    """The end of the batch at `pos` by its own length; None: the length is impossible, or (`whole`) the end is after
    `filled`."""
    if pos + MAGIC_END > filled:
        return None
    length = _read_length(buffer, pos + 8)[0]
    after: int = pos + LENGTH_END + length
    return after if SMALLEST_LENGTH <= length <= LARGEST_BATCH and (after <= filled or not whole) else None


def claimed_checksum(buffer: memoryview, pos: int) -> int:
    """The checksum in the header at `pos`; -2, which no batch has, if its magic is unknown."""
    magic = buffer[pos + 16]
    if magic > 2:
        return -2
    return int.from_bytes(buffer[pos + 17 : pos + 21] if magic == 2 else buffer[pos + 12 : pos + 16])
