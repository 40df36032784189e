"""Which partition of __consumer_offsets a group belongs to (semantics section 8)."""

from __future__ import annotations

INT_MIN = -(2**31)


def java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 code units, signed 32 bits."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def offsets_partition_of(group_id: str, offsets_partitions: int) -> int:
    """The partition of the group's records, of `offsets_partitions`. A hash of INT_MIN counts as 0 (T50)."""
    value = java_hash(group_id)
    return (0 if value == INT_MIN else abs(value)) % offsets_partitions
