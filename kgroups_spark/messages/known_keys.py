"""Record keys that a decoder has read: most records of a log have a key that was seen before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kgroups_spark.messages.outcome import Undecodable

K = TypeVar("K")

# The cache is emptied when it exceeds either bound. Bytes are bounded, too, because names may be long.
MOST_KEYS = 1 << 16
MOST_BYTES = 16 << 20

_NO_KEY = Undecodable("null_key", "The record has no key, so nothing says what it is about")


class KnownKeys(Generic[K]):
    """Keys by their bytes. `read`: record type and all of the key's bytes, type included -> the key."""

    def __init__(self, read: Callable[[int, bytes], K | Undecodable]) -> None:
        self._read = read
        self._known: dict[bytes, K | Undecodable] = {}
        self._bytes = 0

    def of(self, key: bytes | None) -> K | Undecodable:
        """The key, or the reason why it cannot be used."""
        if key is None:
            return _NO_KEY
        known = self._known.get(key)
        if known is None:
            known = self._read_new(key)
            self._bytes += len(key)
            if len(self._known) >= MOST_KEYS or self._bytes > MOST_BYTES:
                self._known.clear()
                self._bytes = len(key)
            self._known[key] = known
        return known

    def _read_new(self, key: bytes) -> K | Undecodable:
        if len(key) < 2:
            return Undecodable("truncated", f"The key has {len(key)} bytes, too few for a record type")
        return self._read(int.from_bytes(key[:2], "big", signed=True), key)
