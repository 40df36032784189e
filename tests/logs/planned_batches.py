"""Batches for tests of planning."""

from __future__ import annotations

from tests.records.build import KeyValue, batch

KEY = b"\0\1\0\1g\0\1t\0\0\0\0"
TOPIC_ID, OTHER_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def commits(count: int, committed_offset: int = 5) -> list[KeyValue]:
    """Records of offset commits, values of version 3."""
    value = b"\0\3" + committed_offset.to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0" + bytes(8)
    return [(KEY, value)] * count


def marker(offset: int, epoch: int) -> bytes:
    """A COMMIT of a producer that wrote nothing."""
    record = b"\0\0\0\1", b"\0\0\0\0\0\4"
    return batch(offset, [record], attributes=0x30, producer_id=7, producer_epoch=0, leader_epoch=epoch)


def damaged(data: bytes) -> bytes:
    """The batch with its last byte changed, so that its checksum is wrong."""
    return data[:-1] + bytes([data[-1] ^ 1])
