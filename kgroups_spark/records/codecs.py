"""Decompression of records, with a bound on the result.

Codec ids (Kafka: CompressionType.java 4.3.1): 1 gzip, 2 snappy, 3 lz4, 4 zstd (magic 2 only).

- snappy: xerial's stream, 8 bytes magic | version i32 | compatible version i32 | { length i32 | raw block }; clients
  that are not written in Java may send one raw block alone.
- gzip and zstd: one stream, or several one after the other, as Java reads them. So may xerial's streams be.
- lz4: one frame. In magic 0 (Kafka 0.8 and 0.9) the checksum of its header is of other bytes, by mistake (KAFKA-3160).
  Such a batch is refused, and so goes to quarantine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import lz4.frame
import pyarrow as pa
import zstandard

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
# The most bytes of a decompressed batch. Brokers take about a megabyte before compression; this stops a bomb.
LARGEST_BODY = 64 << 20
ZSTD_STEP = LARGEST_BODY >> 15  # a zstd block of 4 bytes can become 128 KiB, so a step gives LARGEST_BODY at most
LZ4_RATIO = 255  # one byte becomes at most so many
SNAPPY_RATIO = 64  # a copy of 64 bytes takes at least 2
GZIP_STEP = 1 << 16  # one byte becomes at most 1,032
GZIP_HEADER = 16 + zlib.MAX_WBITS
GZIP_MAGIC = b"\x1f\x8b"
# The first bytes of a frame, and those of a frame that holds no data (RFC 8878: 16 numbers).
ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *(bytes([number]) + b"\x2a\x4d\x18" for number in range(0x50, 0x60)))
XERIAL_MAGIC = b"\x82SNAPPY\x00"
LZ4_CONTENT_SIZE = 0x08  # a bit of an lz4 frame's first descriptor byte
_ZSTD, _SNAPPY = zstandard.ZstdDecompressor(), pa.Codec("snappy")


class Undecompressable(Exception):
    """Bytes that do not match their codec id, or that would become more than LARGEST_BODY."""


def decompress(codec: int, data: bytes | memoryview, magic: int = 2) -> bytes:
    """The decompressed records, LARGEST_BODY bytes at most. Raises Undecompressable, and nothing else.

    Bytes after the end of the compressed streams are ignored, as in Kafka.
    """
    try:
        if codec == GZIP:
            return _streams(data, partial(zlib.decompressobj, GZIP_HEADER), GZIP_STEP, (GZIP_MAGIC,))
        if codec == SNAPPY:
            return _unsnappy(data)
        if codec == LZ4 and magic > 0:
            return _unlz4(data)
        if codec == ZSTD and magic == 2:
            return _streams(data, _ZSTD.decompressobj, ZSTD_STEP, ZSTD_MAGICS)
    except (zlib.error, zstandard.ZstdError, pa.ArrowException, OSError, RuntimeError, ValueError, MemoryError) as err:
        raise Undecompressable(f"{len(data)} bytes do not decompress as codec {codec}: {err}") from err
    known = ", ".join(("1 gzip", "2 snappy", "3 lz4", "4 zstd")[: magic + 2])
    raise Undecompressable(f"codec {codec} is unknown in magic {magic} (0 none, {known} are known)")


def _streams(data: bytes | memoryview, begin: Callable[[], Any], step: int, magics: tuple[bytes, ...]) -> bytes:
    """The bytes of all streams, each decompressed by a new object of `begin`, `step` bytes at once."""
    parts: list[bytes] = []
    total = at = 0
    while True:
        stream = begin()
        while at < len(data) and total <= LARGEST_BODY and not stream.eof:
            piece = data[at : at + step]
            parts.append(stream.decompress(piece))
            total += len(parts[-1])
            at += len(piece) - len(stream.unused_data)
        if not stream.eof or not bytes(data[at : at + 4]).startswith(magics):
            return _whole(parts[0] if len(parts) == 1 else b"".join(parts), stream.eof)


def _unlz4(data: bytes | memoryview) -> bytes:
    # The one-shot call is many times faster, but it believes a claimed size and has no bound.
    if len(data) > 4 and len(data) * LZ4_RATIO <= LARGEST_BODY and not data[4] & LZ4_CONTENT_SIZE:
        body: bytes = lz4.frame.decompress(data)
        return body
    stream = lz4.frame.LZ4FrameDecompressor()
    return _whole(stream.decompress(data, LARGEST_BODY), stream.eof)


def _whole(body: bytes, is_whole: bool) -> bytes:
    if len(body) > LARGEST_BODY or (len(body) == LARGEST_BODY and not is_whole):
        raise ValueError(f"more than {LARGEST_BODY} bytes come out")
    if not is_whole:
        raise ValueError(f"the stream ends after {len(body)} bytes, without its end mark")
    return body


def _unsnappy(data: bytes | memoryview) -> bytes:
    if data[:8] != XERIAL_MAGIC:
        return _unsnappy_block(data, LARGEST_BODY)
    parts: list[bytes] = []
    pos, room = 16, LARGEST_BODY
    while pos < len(data):
        if data[pos : pos + 8] == XERIAL_MAGIC:
            pos += 16
            continue
        length = int.from_bytes(data[pos : pos + 4], "big", signed=True)
        pos += 4
        if not 0 <= length <= len(data) - pos:
            raise ValueError(f"a block of {length} bytes at byte {pos}, {len(data) - pos} are left")
        parts.append(_unsnappy_block(data[pos : pos + length], room))
        room -= len(parts[-1])
        pos += length
    return b"".join(parts)


def _unsnappy_block(data: bytes | memoryview, room: int) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > room or size > SNAPPY_RATIO * len(data):
        raise ValueError(f"a block of {len(data)} bytes claims to hold {size}")
    body: bytes = _SNAPPY.decompress(data, size, asbytes=True)
    return body
