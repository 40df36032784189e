"""The partition of `__consumer_offsets` that a group belongs to."""

from __future__ import annotations

_SIGN = 0x80000000


def java_hash(text: str) -> int:
    """String.hashCode, signed 32 bit, over UTF-16 code units: a character beyond the BMP counts as two surrogates."""
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for i in range(0, len(units), 2):
        result = (31 * result + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return result - 0x100000000 if result & _SIGN else result


def offsets_partition(group_id: str, partition_count: int) -> int:
    """The group's partition. Utils.abs turns Integer.MIN_VALUE into 0 (T50; partitionFor, every release)."""
    value = java_hash(group_id)
    return 0 if value == -_SIGN else abs(value) % partition_count
