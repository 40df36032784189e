from __future__ import annotations

import gzip
import struct

import lz4.frame
import pyarrow as pa
import pytest

from kgroups_spark.records.codecs import LARGEST_BODY, Undecompressable, decompress
from tests.records.build import compress

BODIES = [b"a", b"abc" * 1000, bytes(range(256)) * 300, bytes(3 << 20)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("body", BODIES, ids=[str(len(body)) for body in BODIES])
def test_decompression_restores_the_bytes(codec: int, body: bytes) -> None:
    assert decompress(codec, memoryview(compress(codec, body))) == body


def test_a_raw_snappy_block_is_read_too() -> None:
    assert decompress(2, pa.compress(b"abc" * 50, "snappy", asbytes=True)) == b"abc" * 50


def test_an_lz4_frame_that_claims_its_size_is_read_too() -> None:
    assert decompress(3, lz4.frame.compress(b"abc" * 50, store_size=True)) == b"abc" * 50


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_bytes_cut_at_any_length_are_refused(codec: int) -> None:
    data = compress(codec, b"some records " * 20 + bytes(range(200)))
    whole = {b"some records " * 20 + bytes(range(200))}
    for length in range(len(data)):
        try:
            body = decompress(codec, data[:length])
        except Undecompressable:
            continue
        # A stream of snappy blocks has no end mark: cut between blocks it is a shorter one.
        assert codec == 2
        assert next(iter(whole)).startswith(body)
        assert len(body) in (0, 230)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_any_byte_changed_gives_bytes_or_a_refusal_and_no_other_error(codec: int) -> None:
    data = compress(codec, b"some records " * 20)
    refused = 0
    for at in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= mask
            try:
                assert isinstance(decompress(codec, bytes(damaged)), bytes)
            except Undecompressable as err:
                assert str(err)
                refused += 1
    assert refused > 10


def uvarint(number: int) -> bytes:
    return bytes([*(number >> shift & 127 | 128 for shift in (0, 7, 14)), number >> 21])


def bomb(codec: int, size: int = LARGEST_BODY) -> bytes:
    zeros = bytes(size + 1)
    if codec == 1:
        return gzip.compress(zeros, compresslevel=1)
    return compress(codec, zeros)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_decompression_bomb_is_refused(codec: int) -> None:
    with pytest.raises(Undecompressable, match=r"more than|claims to hold"):
        decompress(codec, bomb(codec))


def test_a_batch_may_decompress_to_at_most_64_mib() -> None:
    claims = {size: uvarint(size) + bytes(2 << 20) for size in (64 << 20, (64 << 20) + 1)}
    with pytest.raises(Undecompressable, match="claims to hold 67108865"):
        decompress(2, claims[(64 << 20) + 1])
    with pytest.raises(Undecompressable, match=r"[Cc]orrupt"):  # the claim itself is believed
        decompress(2, claims[64 << 20])


def test_a_snappy_block_that_lies_about_its_size_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(Undecompressable, match="a block of 5 bytes claims to hold 67108863"):
        decompress(2, bytes([0xFF, 0xFF, 0xFF, 0x1F, 0]))


@pytest.mark.parametrize(("codec", "magic"), [(5, 2), (7, 2), (4, 1), (4, 0), (3, 0)])
def test_an_unknown_codec_is_refused_by_name(codec: int, magic: int) -> None:
    with pytest.raises(Undecompressable, match=f"codec {codec} is unknown in magic {magic}"):
        decompress(codec, b"123", magic)


@pytest.mark.parametrize("codec", [1, 2, 4])
def test_streams_one_after_the_other_are_read_as_java_does(codec: int) -> None:
    parts = [b"some", b"", b"records" * 20_000, b"!"]
    assert decompress(codec, memoryview(b"".join(compress(codec, part) for part in parts))) == b"".join(parts)


def test_a_zstd_frame_without_data_is_skipped() -> None:
    assert decompress(4, b"\x50\x2a\x4d\x18\4\0\0\0abcd" + compress(4, b"records")) == b"records"


@pytest.mark.parametrize("codec", [1, 4])
def test_a_cut_or_too_large_second_stream_is_refused(codec: int) -> None:
    one = compress(codec, b"records")
    with pytest.raises(Undecompressable, match="without its end mark"):
        decompress(codec, one + one[:-1])
    half = bomb(codec, LARGEST_BODY // 2)
    with pytest.raises(Undecompressable, match="more than"):
        decompress(codec, half + half)


def test_gzip_with_bytes_after_the_stream_is_read() -> None:
    assert decompress(1, gzip.compress(b"abc") + struct.pack(">q", 0)) == b"abc"
