"""A fake cluster of one partition: answers as its leader would, or first as the script says."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.cluster import cluster
from kgroups_spark.cluster.cluster import EARLIEST
from kgroups_spark.cluster.fetch import FetchedLog, FetchLimits
from kgroups_spark.cluster.requests import FetchAnswer, OffsetAnswer, PartitionMetadata, TopicMetadata
from kgroups_spark.sources.partition_log import FetchPiece
from tests.records.build import KeyValue, batch

TOPIC_ID = "t" * 22


class FakeTime:
    """Time that passes when the code sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    time = FakeTime()
    for module in ("connection", "cluster", "fetch"):
        monkeypatch.setattr(f"kgroups_spark.cluster.{module}.time", time)
    return time


@dataclass(frozen=True)
class Request:
    offset: int
    max_bytes: int
    topic_id: str | None
    last_epoch: int | None


@dataclass
class FakeCluster:
    """`batches`: the log. `high_watermark`: None: the log's end. `script`: what comes instead of the next answers: an
    error's name, an answer, or a function that changes the cluster, or gives an answer. `lasts`: the last offsets of
    batches with damaged headers and of all others."""

    batches: list[bytes]
    log_start: int = 0
    high_watermark: int | None = None
    topic_id: str | None = TOPIC_ID
    topic_error: str | None = None
    script: list[str | FetchAnswer | Callable[[FakeCluster], object]] = field(default_factory=list)
    always: str | None = None
    cluster_id: str | None = "one"
    timeout_ms: int = 60_000
    requests: list[Request] = field(default_factory=list)
    refreshed: int = 0
    lasts: Sequence[int] | None = None

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int,
        topic_id: str | None = None,
        last_epoch: int | None = None,
    ) -> FetchAnswer:
        assert (topic, partition) == ("t", 0)
        self.requests.append(Request(offset, max_bytes, topic_id, last_epoch))
        step = self.script.pop(0) if self.script else self.always
        if isinstance(step, str):
            return FetchAnswer(b"", -1, step)
        if isinstance(step, FetchAnswer):
            return step
        if step is not None and isinstance(answer := step(self), FetchAnswer):
            return answer
        if not self.log_start <= offset <= self.end:
            return FetchAnswer(b"", -1, "OFFSET_OUT_OF_RANGE")
        found = [
            each
            for each, last in self.spans()
            if last >= offset and (self.lasts is not None or base_of(each) < self.watermark)
        ]
        # Cut in the middle of a batch as brokers do, here even in the first one.
        return FetchAnswer(b"".join(found)[:max_bytes], self.watermark, None)

    def spans(self) -> Iterable[tuple[bytes, int]]:
        """The batches and their last offsets."""
        return zip(self.batches, self.lasts or map(last_of, self.batches), strict=True)

    @property
    def end(self) -> int:
        return max([self.log_start, *(last + 1 for _, last in self.spans())])

    @property
    def watermark(self) -> int:
        return self.end if self.high_watermark is None else self.high_watermark

    def topics(self, names: Sequence[str] | None = None) -> dict[str, TopicMetadata]:
        self.refreshed += 1
        return {"t": TopicMetadata("t", self.topic_id, {0: PartitionMetadata(1, 5, None)}, self.topic_error)}

    def list_offsets(self, partitions: Iterable[tuple[str, int]], at: int, **_: Any) -> dict[Any, OffsetAnswer]:
        offset = self.log_start if at == EARLIEST else self.watermark
        return {place: OffsetAnswer(offset, None) for place in partitions}

    def as_cluster(self) -> cluster.Cluster:
        return self  # type: ignore[return-value]


def base_of(batch: bytes) -> int:
    return int(struct.unpack_from(">q", batch)[0])


def last_of(batch: bytes) -> int:
    return base_of(batch) + (int(struct.unpack_from(">i", batch, 23)[0]) if batch[16] == 2 else 0)


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


# The file in which brokers keep high watermarks.
TOPIC = "__consumer_offsets"


def write_checkpoint(folder: Path, *offsets: int, name: str = "replication-offset-checkpoint") -> None:
    lines = [f"{TOPIC} {number} {offset}" for number, offset in enumerate(offsets)]
    (folder / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
