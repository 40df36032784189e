"""Batches and messages written byte by byte, with Kafka's layout and no code of the reader."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from functools import lru_cache

import lz4.frame
import pyarrow as pa
import zstandard
from crc32c import crc32c

KeyValue = tuple[bytes | None, bytes | None]


@lru_cache(1 << 16)
def varint(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    if number < 128:
        return bytes((number,))
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def nullable(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record(
    offset_delta: int, key: bytes | None, value: bytes | None, timestamp_delta: int = 0, headers: int = 0
) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + nullable(key) + nullable(value)
    body += varint(headers) + headers * (varint(1) + b"h" + varint(-1))
    return varint(len(body)) + body


def batch(
    base_offset: int,
    records: Sequence[KeyValue],
    *,
    body: bytes | None = None,
    codec: int = 0,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    count: int | None = None,
    base_timestamp: int = 1000,
    max_timestamp: int = 2000,
    producer_id: int = -1,
    producer_epoch: int = -1,
    leader_epoch: int = 3,
) -> bytes:
    """A batch of magic 2; `body` stands for the records' bytes as they are, compressed or not."""
    if body is None:
        body = compress(codec, b"".join(record(i, *pair) for i, pair in enumerate(records)))
    delta = max(len(records) - 1, 0) if last_offset_delta is None else last_offset_delta
    covered = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        -1,
        len(records) if count is None else count,
    )
    covered += body
    return struct.pack(">qiibI", base_offset, 9 + len(covered), leader_epoch, 2, crc32c(covered)) + covered


def message(
    offset: int, key: bytes | None, value: bytes | None, *, magic: int, attributes: int = 0, timestamp: int = 1000
) -> bytes:
    """A message of magic 0 or 1."""
    covered = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        covered += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


def wrapper(
    offset: int, inner: list[bytes], *, magic: int, codec: int = 1, attributes: int = 0, timestamp: int = 0
) -> bytes:
    value = compress(codec, b"".join(inner))
    return message(offset, None, value, magic=magic, attributes=attributes | codec, timestamp=timestamp)


def compress(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return gzip.compress(data, mtime=0)  # the same bytes in every process
    if codec == 2:
        half = len(data) // 2
        blocks = [pa.compress(part, "snappy", asbytes=True) for part in (data[:half], data[half:])]
        head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
        return head + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    if codec == 3:
        return lz4.frame.compress(data, store_size=False, block_linked=False)
    if codec == 4:
        writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        return writer.compress(data) + writer.flush()
    return data
