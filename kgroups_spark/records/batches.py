"""Records of batches of all formats as columns: sizes checked, batches decompressed, records framed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from kgroups_spark.records.codecs import Undecompressable, decompress
from kgroups_spark.records.columns import (
    CODEC_MASK,
    INT_BYTES,
    LOG_APPEND_TIME,
    LONG_BYTES,
    BatchColumns,
    RecordColumns,
    read_varint,
    read_varints,
    unaligned,
)

# Records of uncompressed magic-2 batches, all batches at once.
#
#     record:  length varint | attributes i8 | timestampDelta varlong | offsetDelta varint
#              | keyLength varint (-1 null) | key | valueLength varint (-1 null) | value
#              | headerCount varint | headers { keyLength varint | key | valueLength varint (-1 null) | value }
#
# Kafka: DefaultRecord.java 4.3.1. All varints are zigzag. `length` counts the bytes after itself, at least 6.
# A record can only be found from the one before it. The batches therefore go in lock-step: the first record of every
# batch, then the second of every batch that has one, and so on. Each step is a few NumPy operations over all batches.


SMALLEST_RECORD = 7  # bytes, length included
FEW_BATCHES = 48  # below this a plain loop over the rest of a batch is faster than lock-step


def find_records(
    data: NDArray[np.uint8], first: NDArray[np.int64], end: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Where each of the counts[i] records between first[i] and end[i] starts (after its length) and stops, in log
    order, and which batches are not filled exactly. `data` needs 32 readable bytes after the last end.

    The caller must check that every count is believable (0 <= 7 * count <= bytes), because that bounds the memory.
    """
    total = int(counts.sum())
    start, stop = np.empty(total, np.int64), np.empty(total, np.int64)
    by_count = np.argsort(-counts, kind="stable")
    count = counts[by_count]
    pos, limit = first[by_count].copy(), end[by_count]
    slot = (np.cumsum(counts) - counts)[by_count]
    longest = int(count[0]) if len(count) else 0
    running = np.searchsorted(-count, -np.arange(longest), side="left")  # batches that have an i-th record
    is_bad = np.zeros(len(counts), np.bool_)
    step = 0
    while step < longest and running[step] >= FEW_BATCHES:
        k = int(running[step])
        length, body, endless = read_varints(data, pos[:k], INT_BYTES)
        after = body + length
        wrong = (after > limit[:k]) | (length < 0)
        wrong[endless] = True
        if wrong.any():  # such a batch stays at its end, where every next read is wrong, too
            is_bad[by_count[:k][wrong]] = True
            body, after = np.where(wrong, limit[:k], body), np.where(wrong, limit[:k], after)
        at = slot[:k] + step
        start[at], stop[at] = body, after
        pos[:k] = after
        step += 1
    view = data.data
    for lane in range(int(running[step]) if step < longest else 0):
        rows = slice(int(slot[lane]) + step, int(slot[lane]) + int(count[lane]))
        pos[lane], is_whole = _find_rest(view, int(pos[lane]), int(limit[lane]), start[rows], stop[rows])
        is_bad[by_count[lane]] |= not is_whole
    is_bad[by_count[pos != limit]] = True
    return start, stop, is_bad


def _find_rest(
    data: memoryview, pos: int, limit: int, start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[int, bool]:
    """Fills start and stop of a batch's other records. Returns the position after them, and whether all are there."""
    starts, stops = [], []
    try:
        for _ in range(len(start)):
            number, body = data[pos], pos + 1
            if number >= 0x80 and data[body] < 0x80:
                number, body = number & 0x7F | data[body] << 7, pos + 2
            elif number >= 0x80:
                number = 1
            # An odd number is negative, or longer than that.
            length, body = read_varint(data, pos, limit) if number & 1 else (number >> 1, body)
            pos = body + length
            if length < 0 or pos > limit:
                raise ValueError(f"a record of {length} bytes at byte {body}, {limit - body} are left")
            starts.append(body)
            stops.append(pos)
    except ValueError:
        start[:] = stop[:] = limit
        return limit, False
    start[:], stop[:] = starts, stops
    return pos, True


def is_whole_record(data: memoryview, start: int, stop: int) -> bool:
    """Whether the bytes after a record's length are exactly one record with its headers."""
    try:
        pos = read_varint(data, start + 1, stop, LONG_BYTES)[1]
        pos = read_varint(data, pos, stop)[1]
        pos = skip_bytes(data, pos, stop)
        pos = skip_bytes(data, pos, stop)
        headers, pos = read_varint(data, pos, stop)
        if not 0 <= headers <= stop - pos:
            return False
        for _ in range(headers):
            pos = skip_bytes(data, pos, stop, may_be_null=False)
            pos = skip_bytes(data, pos, stop)
    except ValueError:
        return False
    return pos == stop


def skip_bytes(data: memoryview, pos: int, stop: int, *, may_be_null: bool = True) -> int:
    length, pos = read_varint(data, pos, stop)
    if pos + length > stop or (length < 0 and not may_be_null):
        raise ValueError(f"{length} bytes at byte {pos}, {stop - pos} are left")
    return pos + max(length, 0)


# Batches in a buffer: their positions, headers and checksums.
#
#     every magic:  baseOffset i64 | batchLength i32, the bytes after it | ... | magic i8 at byte 16
#     magic 2:      0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32
#                   | 21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64 | 43
#                   producerId i64
#                   | 51 producerEpoch i16 | 53 baseSequence i32 | 57 recordCount i32 | 61 records
#     magic 0, 1:   0 offset i64 | 8 size i32 | 12 crc u32 | 16 magic i8 | 17 attributes i8 | 18 timestamp i64 (magic
#     1) | key | value
#
# Kafka: DefaultRecordBatch.java, LegacyRecord.java 4.3.1. The crc of magic 2 is CRC-32C from the attributes to the end
# (offset, length, leader epoch and magic are not covered); of magic 0 and 1 CRC-32 from the magic to the end.


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
# Longer is damage: brokers take about 1 MiB unless they are configured for more. It bounds the memory.
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


def read_headers(
    data: NDArray[np.uint8], edges: NDArray[np.int64], position: int
) -> tuple[BatchColumns, NDArray[np.int64]]:
    """Headers of the batches at edges[:-1] and their base timestamps (ms); `position` is the buffer's position in the
    file.

    The header of a compressed message of magic 0 or 1 has neither its first offset nor its count. Base offset and count
    are those of its last message then.
    """
    starts = edges[:-1]
    # One gather of packed structs is many times cheaper than one of each field.
    header = unaligned(data, f"V{HEADER_BYTES}")[starts].view(HEADER)
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
        old = header[legacy].view(LEGACY_HEADER)
        batches.last_offset[legacy] = old["offset"]
        batches.leader_epoch[legacy] = -1
        batches.crc[legacy] = old["crc"]
        batches.attributes[legacy] = old["attributes"]
        batches.max_timestamp[legacy] = np.where(old["magic"] == 1, old["timestamp"], -1)
        batches.producer_id[legacy] = batches.producer_epoch[legacy] = -1
        batches.record_count[legacy] = 1
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


def next_batch(buffer: memoryview, pos: int, filled: int, *, whole: bool = True) -> int | None:
    """The end of the batch at `pos` by its length; None: an impossible one, or (`whole`) after `filled`."""
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


# Bytes of records decompressed together. A chunk of compressed batches that becomes larger is returned in pieces.
OPENED_BYTES = 32 << 20


# No coordinator writes more records in one batch: ten times the default of message.max.bytes (1,048,588), at 21 bytes a
# record. The smallest record is that of an offset: 7 bytes around it, a key with the type, two names of one letter and
# a partition, and no value. Kafka limits a batch before compression (CoordinatorRuntime.java 4.3.1, maxBatchSize).
MOST_RECORDS = 10 * 1_048_588 // 21


class BadBatches(Exception):
    """Some batches hold no sound records. `details`: (index into the batches, reason)."""

    def __init__(self, details: dict[int, str]) -> None:
        super().__init__(f"{len(details)} batches cannot be read")
        self.details = details


def _refuse(batches: NDArray[np.integer], why: Callable[[int], str]) -> None:
    """Raises BadBatches for these batches, if there are any."""
    if batches.size:
        raise BadBatches({i: why(i) for i in batches.tolist()})


@dataclass(frozen=True, eq=False)
class Bodies:
    """Uncompressed records of m batches: those of batch i are first[i] .. end[i] of `data`, which is padded."""

    data: NDArray[np.uint8]
    first: NDArray[np.int64]
    end: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


def require_believable_counts(batches: BatchColumns) -> None:
    """Raises BadBatches for batches that claim more than MOST_RECORDS records, before any is decompressed."""
    _refuse(np.flatnonzero(batches.record_count > MOST_RECORDS), lambda i: too_many(int(batches.record_count[i])))


def too_many(count: int) -> str:
    """The reason why a batch of so many records is not read."""
    return f"the header claims {count} records, more than the {MOST_RECORDS} that a coordinator ever writes at once"


def require_order(batches: BatchColumns, above: int) -> None:
    """Raises BadBatches for batches that begin at or below an offset that was read before. `above`: the last offset
    before the first batch.

    The headers are in order already. But the first offset of a compressed message of magic 0 or 1 is known only after
    decompression.
    """
    before = np.maximum.accumulate(np.concatenate([[above], batches.last_offset[:-1]]))
    _refuse(
        np.flatnonzero(batches.base_offset <= before),
        lambda i: f"its records begin at offset {batches.base_offset[i]}, the ones before it end at {before[i]}",
    )


def open_bodies(data: NDArray[np.uint8], edges: NDArray[np.int64], batches: BatchColumns) -> Bodies:
    """The records of the batches at edges[i] .. edges[i + 1]: in place if none is compressed, else in a new buffer.

    The new buffer ends after OPENED_BYTES, so it may hold fewer batches, but at least one. Raises BadBatches.
    """
    bodies, codecs = Bodies(data, edges[:-1] + HEADER_BYTES, edges[1:]), batches.attributes & CODEC_MASK
    if not codecs.any():
        return bodies
    view = data.data

    def opened(codec: int, first: int, end: int) -> bytes | memoryview:
        return decompress(codec, view[first:end]) if codec and first < end else view[first:end]

    data, ends = _in_one_buffer(map(opened, codecs.tolist(), bodies.first.tolist(), bodies.end.tolist()))
    return Bodies(data, ends[:-1], ends[1:])


def _in_one_buffer(parts: Iterator[bytes | memoryview]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The parts up to OPENED_BYTES, and m + 1 positions. Raises BadBatches for parts that cannot be opened."""
    opened: list[bytes | memoryview] = []
    ends, details = [0], dict[int, str]()
    while ends[-1] < OPENED_BYTES:
        try:
            opened.append(next(parts))
        except StopIteration:
            break
        except (Undecompressable, ValueError) as err:
            details[len(opened)] = str(err)
            opened.append(b"")
        ends.append(ends[-1] + len(opened[-1]))
    if details:
        raise BadBatches(details)
    return np.frombuffer(b"".join([*opened, bytes(PADDING)]), np.uint8), np.array(ends, np.int64)


def decode_batches(bodies: Bodies, batches: BatchColumns, base_timestamp: NDArray[np.int64]) -> RecordColumns:
    """The records of batches of magic 2. Raises BadBatches if any batch is unsound."""
    data, first, end = bodies.data, bodies.first, bodies.end
    counts = batches.record_count.astype(np.int64)
    _refuse(
        np.flatnonzero((counts < 0) | (counts * SMALLEST_RECORD > end - first)),
        lambda i: f"the header claims {counts[i]} records, more than {end[i] - first[i]} bytes can hold",
    )
    start, stop, is_bad = find_records(data, first, end, counts)
    batch = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    timestamp_delta, pos, endless_a = read_varints(data, start + 1, LONG_BYTES)
    offset_delta, pos, endless_b = read_varints(data, pos, INT_BYTES)
    key_length, key_start, endless_c = read_varints(data, pos, INT_BYTES)
    pos = np.minimum(key_start + np.maximum(key_length, 0), stop)
    value_length, value_start, endless_d = read_varints(data, pos, INT_BYTES)
    pos = np.minimum(value_start + np.maximum(value_length, 0), stop)
    # Without headers, as in all records of a coordinator, one zero byte is left. The others are read one by one.
    unusual = [np.flatnonzero((pos + 1 != stop) | (data[pos] != 0)), endless_a, endless_b, endless_c, endless_d]
    view = data.data
    for row in np.unique(np.concatenate(unusual)).tolist():
        if not is_whole_record(view, int(start[row]), int(stop[row])):
            is_bad[batch[row]] = True
    np.maximum(key_length, -1, out=key_length)
    np.maximum(value_length, -1, out=value_length)
    offset = np.repeat(batches.base_offset, counts) + offset_delta
    _refuse(
        np.flatnonzero(is_bad),
        lambda i: f"{end[i] - first[i]} bytes are not exactly the {counts[i]} records that the header claims",
    )
    offset = in_order_of_records(offset, batch, batches)
    is_append_time = batches.attributes & LOG_APPEND_TIME != 0
    timestamp = np.repeat(np.where(is_append_time, batches.max_timestamp, base_timestamp), counts)
    timestamp += np.where(is_append_time[batch], 0, timestamp_delta) if is_append_time.any() else timestamp_delta
    return RecordColumns(data, batches, batch, offset, timestamp, key_start, key_length, value_start, value_length)


def in_order_of_records(
    offset: NDArray[np.int64], batch: NDArray[np.int32], batches: BatchColumns
) -> NDArray[np.int64]:
    """The offsets; in batches with odd ones (KAFKA-8722) the records are numbered from the batch's first offset on.

    Kafka's loader looks at no order: it applies the records as they follow each other. Raises BadBatches for batches
    with odd offsets that have no room for their records.
    """
    odd = _with_odd_offsets(offset, batch, batches)
    if not odd.size:
        return offset
    rooms = batches.last_offset - batches.base_offset + 1
    _refuse(odd[batches.record_count[odd] > rooms[odd]], lambda i: _odd_offsets(batches, i))
    rows = np.flatnonzero(np.isin(batch, odd))
    offset[rows] = batches.base_offset[batch[rows]] + rows - np.searchsorted(batch, batch[rows])
    return offset


def _with_odd_offsets(offset: NDArray[np.int64], batch: NDArray[np.int32], batches: BatchColumns) -> NDArray[np.int32]:
    """The batches whose records' offsets do not increase within the claimed range. The batches must be in order."""
    is_odd = offset < batches.base_offset[batch]
    is_odd |= offset > batches.last_offset[batch]
    is_odd[1:] |= (offset[1:] <= offset[:-1]) & (batch[1:] == batch[:-1])
    return np.unique(batch[is_odd])


def _odd_offsets(batches: BatchColumns, i: int) -> str:
    return f"offsets of records leave or repeat within {batches.base_offset[i]} to {batches.last_offset[i]}"


# Checksums of batches in a file that is read forward, at a cost that stays linear, however large claimed lengths are.
#
# Sound batches are summed once, each by itself. In a damaged file, thousands of headers may claim the same megabytes.
# Beyond some times the bytes that the file gave so far, a larger claim counts as wrong without a sum.

SMALL_BYTES = 1 << 10  # that are always summed
MOST_SUMMED = 16  # times the bytes seen so far
CRC_FROM = 21  # of a batch of magic 2: its attributes


class Bytes(Protocol):
    """The bytes that are summed: a window (records/segment.py), or a buffer that does not change."""

    position: int
    filled: int
    view: memoryview


class Buffer:
    """Bytes that do not change."""

    position = 0

    def __init__(self, view: memoryview) -> None:
        self.view, self.filled = view, len(view)


class Checksums:
    """Sums of byte ranges of the window, by the magic that a batch claims. `summed`: bytes summed so far."""

    def __init__(self, window: Bytes) -> None:
        self._window = window
        self.summed = 0

    def of(self, start: int, end: int) -> int:
        """The checksum of the bytes start .. end of the window as a batch; -1, which no batch claims, if the magic is
        unknown, the header is cut, or too many bytes were summed."""
        view, size = self._window.view, end - start
        magic = view[start + 16]
        if magic > 2 or (magic == 2 and size < HEADER_BYTES) or (size > SMALL_BYTES and size > self._left):
            return -1
        self.summed += size
        return crc32c(view[start + CRC_FROM : end]) if magic == 2 else zlib.crc32(view[start + 16 : end])

    def match(self, edges: NDArray[np.int64], batches: BatchColumns) -> NDArray[np.bool_]:
        """Whether each batch has a known magic, room for its header and the checksum that it claims."""
        edge, size = edges.tolist(), int(edges[-1] - edges[0])
        if (batches.magic == 2).all() and (batches.size >= HEADER_BYTES).all() and size <= self._left:
            self.summed += size
            view = self._window.view
            found = [crc32c(view[a + CRC_FROM : b]) for a, b in pairwise(edge)]
        else:
            found = [self.of(a, b) for a, b in pairwise(edge)]
        return np.equal(np.array(found, np.int64), batches.crc)

    @property
    def _left(self) -> int:
        return MOST_SUMMED * (self._window.position + self._window.filled) - self.summed


# Messages of the old formats, magic 0 (0.8) and magic 1 (0.10).
#
#     message:  offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | [timestamp i64: magic 1]
#               | keyLength i32 (-1 null) | key | valueLength i32 (-1 null) | value
#
# A compressed message holds messages in its value and has the offset of the last one. Their offsets are absolute in
# magic 0. In magic 1 they count from 0, unless the cleaner removed some, and the last one has the wrapper's offset. A
# wrapper with log append time gives its timestamp to all its messages. Kafka:
# AbstractLegacyRecordBatch.DeepRecordsIterator 3.9.


KEY_AT = (18, 26)  # position of the key's length, by magic


class Messages(NamedTuple):
    """Uncompressed messages: start[i] .. stop[i] of `data`; batch[i] is the outer message that contained them."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    batch: NDArray[np.int32]


def decode_legacy(
    data: NDArray[np.uint8], edges: NDArray[np.int64], batches: BatchColumns
) -> tuple[RecordColumns, int]:
    """The records of outer messages at edges[i] .. edges[i + 1], and the number of those messages: compressed ones stop
    after OPENED_BYTES.

    Raises BadBatches if any is unsound.
    """
    messages = open_messages(data, edges, batches)
    count = int(messages.batch[-1]) + 1
    return decode_messages(messages, batches[:count]), count


def open_messages(data: NDArray[np.uint8], edges: NDArray[np.int64], batches: BatchColumns) -> Messages:
    """The messages, decompressed: in place if none is compressed, else all in a new buffer."""
    is_compressed = batches.attributes & CODEC_MASK != 0
    if not is_compressed.any():
        return Messages(data, edges[:-1], edges[1:], np.arange(len(batches), dtype=np.int32))
    view = data.data
    inner: list[NDArray[np.int64]] = []

    def opened(codec: int, start: int, stop: int) -> bytes | memoryview:
        if not codec:
            inner.append(np.array([0, stop - start], np.int64))
            return view[start:stop]
        body = decompress(codec, wrapped(view, start, stop), view[start + 16])
        inner.append(inner_edges(body))
        return body

    codecs = (batches.attributes & CODEC_MASK).tolist()
    data, ends = _in_one_buffer(map(opened, codecs, edges[:-1].tolist(), edges[1:].tolist()))
    found = [part + at for part, at in zip(inner, ends[:-1], strict=True)]
    batch = np.repeat(np.arange(len(found), dtype=np.int32), [len(part) - 1 for part in found])
    return Messages(data, np.concatenate([part[:-1] for part in found]), np.concatenate([p[1:] for p in found]), batch)


def wrapped(view: memoryview, start: int, stop: int) -> memoryview:
    """The value of a compressed message. Raises ValueError if it has none."""
    pos = start + KEY_AT[view[start + 16]]
    for _ in ("key", "value"):
        length = int.from_bytes(view[pos : pos + 4], "big", signed=True)
        value_at = pos + 4
        pos = value_at + max(length, 0)
        if pos > stop:
            raise ValueError(f"a key or value of {length} bytes, {stop - value_at} are left")
    if length < 0 or pos != stop:
        raise ValueError(f"a compressed message with a value of {length} bytes, {stop - value_at} are left")
    return view[value_at:stop]


def inner_edges(body: bytes | memoryview) -> NDArray[np.int64]:
    """Where the messages in a compressed one begin, and the end. Raises ValueError unless they fill it."""
    edges, _ = walk(memoryview(body), len(body))
    if len(edges) > MOST_RECORDS:
        raise ValueError(too_many(len(edges) - 1))
    if len(edges) < 2 or edges[-1] != len(body):
        raise ValueError(f"a compressed message holds {len(edges) - 1} messages in {edges[-1]} of {len(body)} bytes")
    return edges


def decode_messages(messages: Messages, batches: BatchColumns) -> RecordColumns:
    """The records. Raises BadBatches if a message is unsound, compressed twice, or out of order."""
    data, start, stop, batch = messages.data, messages.start, messages.stop, messages.batch
    header = unaligned(data, f"V{HEADER_BYTES}")[start].view(LEGACY_HEADER)
    magic = header["magic"]
    length_at = unaligned(data, ">i4")
    key_at = start + np.where(magic == 1, KEY_AT[1], KEY_AT[0])
    key_length = length_at[key_at].astype(np.int64)
    value_at = np.minimum(key_at + 4 + np.maximum(key_length, 0), stop)
    value_length = length_at[value_at].astype(np.int64)
    is_bad = value_at + 4 + np.maximum(value_length, 0) != stop
    is_bad |= magic >> 1 != 0
    is_bad |= header["attributes"] & CODEC_MASK != 0
    if is_bad.any():
        raise BadBatches(
            {
                int(batch[row]): f"{stop[row] - start[row]} bytes are not one uncompressed message of magic 0 or 1"
                for row in np.flatnonzero(is_bad).tolist()
            }
        )
    offset = header["offset"].astype(np.int64)
    batches, offset = with_inner_offsets(batches, batch, offset)
    _refuse(_with_odd_offsets(offset, batch, batches), lambda i: _odd_offsets(batches, i))
    timestamp = np.where(magic == 1, header["timestamp"], -1)
    by_wrapper = (magic == 1) & (batches.attributes & LOG_APPEND_TIME != 0)[batch] & (batches.magic == 1)[batch]
    timestamp = np.where(by_wrapper, batches.max_timestamp[batch], timestamp).astype(np.int64)
    places = (key_at + 4, np.maximum(key_length, -1), value_at + 4, np.maximum(value_length, -1))
    return RecordColumns(data, batches, batch, offset, timestamp, *places)


def with_inner_offsets(
    batches: BatchColumns, batch: NDArray[np.int32], offset: NDArray[np.int64]
) -> tuple[BatchColumns, NDArray[np.int64]]:
    """Batches with their first offset and number of messages, and the absolute offsets of the messages."""
    counts = np.bincount(batch, minlength=len(batches))
    last = np.cumsum(counts) - 1
    is_relative = (batches.magic == 1) & (batches.attributes & CODEC_MASK != 0)
    # Some releases of librdkafka sent 0 as the wrapper's offset: then the messages' own offsets count.
    base = np.where(is_relative & (batches.last_offset != 0), batches.last_offset - offset[last], 0)
    offset = offset + base[batch]
    opened = replace(
        batches,
        base_offset=offset[last - counts + 1],
        last_offset=np.where(is_relative, offset[last], batches.last_offset),
        record_count=counts.astype(np.int32),
    )
    return opened, offset
