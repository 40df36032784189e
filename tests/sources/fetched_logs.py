"""A log that a fake cluster serves."""

from __future__ import annotations

from kgroups_spark.cluster.fetch import FetchedLog, FetchLimits
from kgroups_spark.sources.partition_log import FetchPiece
from tests.records.build import KeyValue, batch
from tests.sources.fake_cluster import TOPIC_ID, FakeCluster


def records(count: int) -> list[KeyValue]:
    return [(b"key %d" % i, b"value") for i in range(count)]


def log_of(*spans: tuple[int, int]) -> list[bytes]:
    """A batch for each first and last offset."""
    return [batch(first, records(last - first + 1)) for first, last in spans]


LOG = log_of((0, 2), (3, 3), (4, 8), (12, 13), (14, 14))  # 9, 10 and 11 were compacted away


def open_log(
    cluster: FakeCluster, start: int, end: int, *, keep_first: bool = False, skip_lost: bool = False, **limits: int
) -> FetchedLog:
    piece = FetchPiece("t", 0, TOPIC_ID, start, end, keep_first, leader=None, bytes_per_offset=1.0)
    return FetchedLog(cluster.as_cluster(), piece, FetchLimits(**limits), skip_lost=skip_lost)


def read(log: FetchedLog, chunk: int = 50) -> bytes:
    buffer, out = bytearray(chunk), b""
    log.seek(0)
    while got := log.readinto(memoryview(buffer)):
        out += buffer[:got]
    assert log.readinto(memoryview(buffer)) == 0
    return out
