"""Compressed messages of formats 0 and 1."""

from __future__ import annotations

from tests.records.build import compress, message


def wrapper(
    offset: int, inner: list[bytes], *, magic: int, codec: int = 1, attributes: int = 0, timestamp: int = 0
) -> bytes:
    value = compress(codec, b"".join(inner))
    return message(offset, None, value, magic=magic, attributes=attributes | codec, timestamp=timestamp)
