"""Compressed records, opened with a bound on what may come out."""

from __future__ import annotations


class Undecompressable(Exception):
    """Bytes that are not what their codec id says, or that would become too many."""


def decompress(codec: int, data: memoryview) -> bytes:
    raise Undecompressable(f"codec {codec} is unknown (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd are known)")
