"""Bytes of record batches (magic 2) and of the records in `__consumer_offsets`, as the generator needs them.

It shares no code with the package's readers, so that both cannot be wrong in the same way. Layouts: Kafka 4.3,
DefaultRecordBatch, DefaultRecord and the coordinator's message definitions.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence

import lz4.frame
import zstandard
from crc32c import crc32c

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1

# name -> (bits of a batch's attributes, compressor)
CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (1, lambda body: gzip.compress(body, 6, mtime=0)),
    "lz4": (3, lambda body: lz4.frame.compress(body, block_linked=False)),
    "zstd": (4, zstandard.ZstdCompressor(3).compress),
}

_CRC_PART = struct.Struct(">hiqqqhii")
_HEAD = struct.Struct(">qiibI")


def varint(number: int) -> bytes:
    """A zigzag varint."""
    return uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


VARINTS = [varint(n) for n in range(1 << 15)]


def with_length(content: bytes | None) -> bytes:
    """The content of a record's key or value after its length; None is null."""
    return b"\x01" if content is None else varint(len(content)) + content


def batch(
    base_offset: int,
    timestamp: int,
    records: Sequence[bytes],
    codec: str = "none",
    producer_id: int = -1,
    flags: int = 0,
) -> bytes:
    """One batch. `records`: each record's key and value with their lengths; all have the batch's timestamp (ms)."""
    body = bytearray()
    for delta, record in enumerate(records):
        # attributes, timestamp delta, offset delta, key and value, no headers
        offset_delta = VARINTS[delta]
        body += (
            VARINTS[3 + len(offset_delta) + len(record)]
            if len(record) < 16000
            else varint(3 + len(offset_delta) + len(record))
        )
        body += b"\0\0"
        body += offset_delta
        body += record
        body += b"\0"
    bits, compress = CODECS[codec]
    is_producer = producer_id >= 0
    content = _CRC_PART.pack(
        bits | flags, len(records) - 1, timestamp, timestamp, producer_id, 0 if is_producer else -1, -1, len(records)
    ) + compress(bytes(body))
    return _HEAD.pack(base_offset, len(content) + 9, 3, 2, crc32c(content)) + content


def marker(base_offset: int, timestamp: int, producer_id: int, outcome: int) -> bytes:
    """A batch with the marker that ends a transaction."""
    record = with_length(struct.pack(">hh", 0, outcome)) + with_length(struct.pack(">hi", 0, 7))
    return batch(base_offset, timestamp, [record], producer_id=producer_id, flags=TRANSACTIONAL | CONTROL)


def string(text: str | None) -> bytes:
    """int16 length and UTF-8."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def sized(raw: bytes) -> bytes:
    """int32 length and bytes."""
    return struct.pack(">i", len(raw)) + raw


def compact(text: str | None) -> bytes:
    """uvarint length plus one, and UTF-8."""
    return b"\0" if text is None else uvarint(len(text.encode()) + 1) + text.encode()


def ints(numbers: Sequence[int]) -> bytes:
    """An array of int32 with an int32 length."""
    return struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def compact_ints(numbers: Sequence[int]) -> bytes:
    return uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)


def offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    return b"\0\1" + string(group) + string(topic) + struct.pack(">i", partition)


_V3_HEAD, _V4_HEAD = struct.Struct(">hqih"), struct.Struct(">hqi")
_TIME = struct.Struct(">q").pack


def offset_commit_v3(offset: int, leader_epoch: int, metadata: bytes, timestamp: int) -> bytes:
    return _V3_HEAD.pack(3, offset, leader_epoch, len(metadata)) + metadata + _TIME(timestamp)


def offset_commit_v4(offset: int, leader_epoch: int, metadata: bytes, timestamp: int, topic_id: bytes) -> bytes:
    """The value of an offset commit, version 4. `topic_id`: 16 bytes, or empty for none."""
    tags = b"\1\0\x10" + topic_id if topic_id else b"\0"
    return _V4_HEAD.pack(4, offset, leader_epoch) + uvarint(len(metadata) + 1) + metadata + _TIME(timestamp) + tags


Topics = Sequence[tuple[str, Sequence[int]]]


def topics(chosen: Topics) -> bytes:
    return struct.pack(">i", len(chosen)) + b"".join(string(topic) + ints(partitions) for topic, partitions in chosen)


def subscription(names: Sequence[str], owned: Topics, generation: int, rack: str) -> bytes:
    """A ConsumerProtocolSubscription v3 without user data."""
    texts = b"".join(string(name) for name in names)
    head = struct.pack(">hi", 3, len(names)) + texts + b"\xff\xff\xff\xff"
    return head + topics(owned) + struct.pack(">i", generation) + string(rack)


def assignment(owned: Topics) -> bytes:
    """A ConsumerProtocolAssignment v3 without user data."""
    return b"\0\3" + topics(owned) + b"\xff\xff\xff\xff"


def group_metadata(protocol: str, generation: int, leader: str, timestamp: int, members: Sequence[bytes]) -> bytes:
    """A GroupMetadataValue v3 of a consumer group."""
    head = b"\0\3" + string("consumer") + struct.pack(">i", generation) + string(protocol) + string(leader)
    return head + struct.pack(">qi", timestamp, len(members)) + b"".join(members)


def classic_member(
    member_id: str, instance: str | None, client: str, host: str, subscribed: bytes, assigned: bytes
) -> bytes:
    names = string(member_id) + string(instance) + string(client) + string(host)
    return names + struct.pack(">ii", 300_000, 45_000) + sized(subscribed) + sized(assigned)


def member_key(record_type: int, group: str, member: str) -> bytes:
    return struct.pack(">h", record_type) + string(group) + string(member)


def consumer_member(client: str, topic_names: Sequence[str]) -> bytes:
    """A ConsumerGroupMemberMetadataValue."""
    names = uvarint(len(topic_names) + 1) + b"".join(compact(name) for name in topic_names)
    texts = compact(None) + compact(None) + compact(client) + compact("/10.2.0.9") + names + compact(None)
    return b"\0\0" + texts + struct.pack(">i", 300_000) + compact("uniform") + b"\0"


def consumer_epoch(epoch: int, metadata_hash: int) -> bytes:
    """A ConsumerGroupMetadataValue."""
    return b"\0\0" + struct.pack(">i", epoch) + b"\1\0\x08" + struct.pack(">q", metadata_hash)


def owned_partitions(topic_id: bytes, partitions: Sequence[int]) -> bytes:
    return b"\2" + topic_id + compact_ints(partitions) + b"\0"


def target_assignment(topic_id: bytes, partitions: Sequence[int]) -> bytes:
    """A ConsumerGroupTargetAssignmentMemberValue."""
    return b"\0\0" + owned_partitions(topic_id, partitions) + b"\0"


def current_assignment(epoch: int, topic_id: bytes, partitions: Sequence[int]) -> bytes:
    """A ConsumerGroupCurrentMemberAssignmentValue of a stable member."""
    return b"\0\0" + struct.pack(">iib", epoch, epoch - 1, 0) + owned_partitions(topic_id, partitions) + b"\1\0"
