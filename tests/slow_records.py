"""The slow, obvious twin of the segment reader: one loop, one record at a time. For sound logs only. It decompresses by
the product's codecs, which tests/records/test_codecs.py compares with those that compressed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kgroups_spark.records.codecs import decompress


class SlowRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    magic: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    timestamp_type: int
    batch: tuple[int, int]  # first and last offset


def read_log(data: bytes) -> list[SlowRecord]:
    """All records. Raises AssertionError, struct.error or IndexError if the log is not sound."""
    records: list[SlowRecord] = []
    pos = 0
    while pos < len(data):
        (length,) = struct.unpack_from(">i", data, pos + 8)
        batch = data[pos : pos + 12 + length]
        assert len(batch) == 12 + length, "cut batch"
        records += read_batch(batch) if batch[16] == 2 else read_message(batch)
        pos += 12 + length
    return records


def read_batch(batch: bytes) -> Iterator[SlowRecord]:
    base, _, epoch, magic, crc, attributes, delta, base_ts, max_ts, producer, producer_epoch, _, count = struct.unpack(
        ">qiibIhiqqqhii", batch[:61]
    )
    assert crc32c(batch[21:]) == crc
    body = decompress(attributes & 7, batch[61:]) if attributes & 7 and len(batch) > 61 else batch[61:]
    pos = 0
    for _ in range(count):
        length, pos = varint(body, pos)
        end = pos + length
        ts, pos = varint(body, pos + 1)
        offset, pos = varint(body, pos)
        key, pos = nullable(body, pos)
        value, pos = nullable(body, pos)
        headers, pos = varint(body, pos)
        for _ in range(headers):
            _, pos = nullable(body, pos)
            _, pos = nullable(body, pos)
        assert pos == end
        yield SlowRecord(
            base + offset,
            max_ts if attributes & 8 else base_ts + ts,
            key,
            value,
            magic,
            epoch,
            producer,
            producer_epoch,
            attributes & 16 != 0,
            attributes & 32 != 0,
            attributes >> 3 & 1,
            (base, base + delta),
        )
    assert pos == len(body)


def read_message(message: bytes) -> list[SlowRecord]:
    offset, _, crc, magic, attributes = struct.unpack_from(">qiIbb", message)
    assert zlib.crc32(message[16:]) == crc
    assert magic in (0, 1)
    timestamp = struct.unpack_from(">q", message, 18)[0] if magic else -1
    timestamp_type = attributes >> 3 & 1 if magic else -1
    key, pos = nullable_i32(message, 26 if magic else 18)
    value, pos = nullable_i32(message, pos)
    assert pos == len(message)
    none = (magic, -1, -1, -1, False, False, timestamp_type)
    if not attributes & 7:
        return [SlowRecord(offset, timestamp, key, value, *none, (offset, offset))]
    assert value is not None
    inner = read_log(decompress(attributes & 7, value))
    base = offset - inner[-1].offset if magic and offset else 0
    return [
        SlowRecord(
            base + record.offset,
            timestamp if timestamp_type == 1 else record.timestamp,
            record.key,
            record.value,
            *none,
            (base + inner[0].offset, base + inner[-1].offset),
        )
        for record in inner
    ]


def varint(data: bytes, pos: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[pos]
        number |= (byte & 127) << shift
        pos += 1
        shift += 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), pos


def nullable(data: bytes, pos: int) -> tuple[bytes | None, int]:
    length, pos = varint(data, pos)
    return (None, pos) if length < 0 else (data[pos : pos + length], pos + length)


def nullable_i32(data: bytes, pos: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", data, pos)
    return (None, pos + 4) if length < 0 else (data[pos + 4 : pos + 4 + length], pos + 4 + length)
