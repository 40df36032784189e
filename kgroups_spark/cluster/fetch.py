"""A range of one live partition's log, fetched from its leader as it is read: a binary file of whole batches as stored,
of any format. Retriable failures are retried as long as there is progress; others are errors."""

from __future__ import annotations

import io
import struct
import time
from typing import NamedTuple

import numpy as np

from kgroups_spark.cluster.cluster import EARLIEST, LATEST, Cluster
from kgroups_spark.cluster.connection import Patience
from kgroups_spark.cluster.requests import (
    PASSING,
    UNKNOWN_TOPIC,
    ClusterUnreachable,
    FetchAnswer,
    KafkaRefused,
    Throttled,
    not_authorized,
    said,
)
from kgroups_spark.errors import KgroupsError, NotReadable
from kgroups_spark.records.batches import LARGEST_BATCH, Buffer, Checksums, claimed_checksum, walk
from kgroups_spark.records.columns import CODEC_MASK, CorruptBatch, unaligned
from kgroups_spark.records.damage import diagnose, in_order
from kgroups_spark.records.segment import read_segment
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost, LogStartMoved

# The batches of one answer of a broker, and those after which the read can go on.


LOOK_BACK = 8  # batches at the end of an answer whose CRC and order are checked before the read goes on after them

_read_i64 = struct.Struct(">q").unpack_from
_read_i32 = struct.Struct(">i").unpack_from


class FetchedBatches:
    """The whole batches of an answer, by number. `trusted`: how many, up to the last sound one. A damaged batch may
    claim an offset far beyond its own and hide the records between, so it is passed on only if a sound one follows;
    else, or if its length is damaged, the partition is refused."""

    def __init__(self, records: bytes, next_offset: int, high_watermark: int) -> None:
        self._view = memoryview(records)
        self._sums = Checksums(Buffer(self._view))
        self._next_offset = next_offset
        self._high_watermark = high_watermark
        self._edges: list[int] = walk(self._view, len(records))[0].tolist()
        self.trusted = self._count_trusted()

    @property
    def diagnosis(self) -> str:
        end = self._edges[1] if len(self._edges) > 1 else len(self._view)
        return diagnose(self._view, 0, end, self._next_offset - 1, self._sums)

    def between(self, start: int, stop: int) -> memoryview:
        return self._view[self._edges[start] : self._edges[stop]]

    def base_offset(self, i: int) -> int:
        """The base offset. A compressed message of magic 0 or 1 has its last one in the header: its first record's."""
        pos, reported = self._edges[i], self._reported_offset(i)
        is_compressed_message = self._view[pos + 16] < 2 and self._view[pos + 17] & CODEC_MASK
        return self._first_offset(i, reported) if is_compressed_message else reported

    def first_after(self, offset: int) -> int:
        """The trusted ones from this number on have a base offset of at least `offset`."""
        at = np.array(self._edges[: self.trusted], np.int64)
        reported = unaligned(np.frombuffer(self._view, np.uint8), ">i8")[at]
        before = np.flatnonzero(reported < offset)
        first = int(before[-1]) + 1 if before.size else 0
        return first + (first < self.trusted and self.base_offset(first) < offset)

    def last_offset(self, i: int) -> int:
        pos, reported = self._edges[i], self._reported_offset(i)
        return reported + int(_read_i32(self._view, pos + 23)[0]) if self._view[pos + 16] == 2 else reported

    def leader_epoch(self, i: int) -> int | None:
        """The leader epoch; None: a message of magic 0 or 1 has none."""
        pos = self._edges[i]
        return int(_read_i32(self._view, pos + 12)[0]) if self._view[pos + 16] == 2 else None

    def _count_trusted(self) -> int:
        stop = len(self._edges) - 1
        while stop:
            start = max(stop - LOOK_BACK, 0)
            sound = [i for i in range(start, stop) if self._is_sound(i)]
            # The very first batch has the requested offset, and may begin before it.
            first = np.array([self._reported_offset(i) if i else self._next_offset for i in sound], np.int64)
            last = np.array([self.last_offset(i) for i in sound], np.int64)
            if len(sound) > 1 and first[-1] <= last[-2]:
                # Without a batch after these two it is unknown which of them is wrong.
                first, last = first[:-2], last[:-2]
            if (kept := np.flatnonzero(in_order(first, last, self._next_offset - 1))).size:
                return sound[int(kept[-1])] + 1
            stop = start
        return 0

    def _is_sound(self, i: int) -> bool:
        """Whether its CRC is correct, and it is before the high watermark."""
        start, end = self._edges[i], self._edges[i + 1]
        if self.last_offset(i) >= self._high_watermark:
            return False
        return self._sums.of(start, end) == claimed_checksum(self._view, start)

    def _reported_offset(self, i: int) -> int:
        return int(_read_i64(self._view, self._edges[i])[0])

    def _first_offset(self, i: int, last_offset: int) -> int:
        one = self.between(i, i + 1)
        first = next(iter(read_segment(io.BytesIO(one), chunk_bytes=len(one))))
        return last_offset if isinstance(first, CorruptBatch) else int(first.offset[0])


RESPONSE_BYTES = 8 << 20
SMALLEST_RESPONSE = 64 << 10
# The time for which a topic that existed at planning may be missing: brokers that start know no topics.
UNKNOWN_TOPIC_SECONDS = 15.0
# The number of times without progress that a broker may throttle us before its first records.
LONGEST_THROTTLED = 10
# Errors after which the same request may succeed.
RETRIED = PASSING | {"THROTTLING_QUOTA_EXCEEDED"}


class FetchLimits(NamedTuple):
    fetchers: int = 1  # that run at the same time
    max_bytes_per_second: int | None = None  # of all fetchers together; None: no limit
    timeout_ms: int = 60_000  # without progress

    def pace(self) -> Pace:
        rate = self.max_bytes_per_second
        return Pace(None if rate is None else rate / self.fetchers)


class Pace:
    """Limits fetched bytes a second; None: no limit. Logs that are read one after the other may share one."""

    def __init__(self, rate: float | None = None) -> None:
        """`response_bytes`: the bytes of a request, at most a second's share, so that the broker's load is even."""
        self._rate = rate
        self._ready_at = 0.0
        self.response_bytes = RESPONSE_BYTES if rate is None else max(SMALLEST_RESPONSE, min(int(rate), RESPONSE_BYTES))

    def ask_for_less(self) -> None:
        """An answer did not come in time: the network may be too slow for so many bytes."""
        self.response_bytes = min(self.response_bytes, max(SMALLEST_RESPONSE, self.response_bytes // 8))

    def note(self, size: int) -> None:
        if self._rate is not None:
            self._ready_at = max(self._ready_at, time.monotonic()) + size / self._rate

    def wait(self) -> None:
        time.sleep(max(0.0, self._ready_at - time.monotonic()))


class FetchedLog:
    """The batches of a piece, in log order, each whole: a BinaryFile for `read_segment`, to be read once from front to
    back; at most one answer is in memory.

    A topic id of None is that of the name at the first request. `skip_lost`: goes on at the log's start if it has
    moved, instead of raising LogStartMoved. `pace` None: not shared. readinto raises LogStartMoved, LeaderLost,
    NotReadable for a log that was truncated or is damaged, and KgroupsError.
    """

    def __init__(
        self,
        cluster: Cluster,
        piece: FetchPiece,
        limits: FetchLimits,
        *,
        skip_lost: bool = False,
        pace: Pace | None = None,
        response_bytes: int | None = None,
    ) -> None:
        self.given_bytes = 0
        self._cluster = cluster
        self._topic, self._partition, self._topic_id = piece.topic, piece.partition, piece.topic_id
        self._limits = limits
        self._skip_lost = skip_lost
        self._lowest_base = 0 if piece.keep_first else piece.start_offset
        self._next_offset = piece.start_offset  # everything below it has been read
        self._end_offset = piece.end_offset
        self._last_epoch: int | None = None
        self._tells_epoch = True
        self._pace = limits.pace() if pace is None else pace
        self._given_response_bytes = response_bytes
        self._max_bytes = self._response_bytes
        self._pending = memoryview(b"")
        self._is_done = piece.start_offset >= piece.end_offset

    def seek(self, position: int, /) -> int:
        """Only to the beginning, before the first read."""
        if position or self.given_bytes or self._pending:
            raise io.UnsupportedOperation("what is fetched is read once, from front to back")
        return 0

    def readinto(self, buffer: memoryview, /) -> int:
        """Fills some of the buffer; 0: the end."""
        while not self._pending and not self._is_done:
            try:
                self._pending = self._batches(self._next_answer())
            except (ClusterUnreachable, Throttled) as err:
                raise LeaderLost(str(err)) from err
        size = min(len(buffer), len(self._pending))
        buffer[:size] = self._pending[:size]
        self._pending = self._pending[size:]
        self.given_bytes += size
        return size

    @property
    def _response_bytes(self) -> int:
        return self._given_response_bytes or self._pace.response_bytes

    @property
    def _place(self) -> str:
        return f"{self._topic}-{self._partition}"

    def _next_answer(self) -> FetchAnswer:
        """The next answer that has records, or that shows that there are none up to the end."""
        self._pace.wait()
        patience = Patience(self._limits.timeout_ms)
        throttled = Patience(LONGEST_THROTTLED * self._limits.timeout_ms)
        while True:
            answer = self._cluster.fetch(
                self._topic,
                self._partition,
                self._next_offset,
                max_bytes=self._max_bytes,
                topic_id=self._topic_id,
                last_epoch=self._last_epoch,
            )
            self._pace.note(len(answer.records))
            if answer.error is None and answer.diverges_at is not None:
                raise self._truncated(f"its leader's log differs from offset {answer.diverges_at} on")
            if answer.error is None and (answer.records or answer.high_watermark >= self._end_offset):
                return answer
            if answer.error == "THROTTLING_QUOTA_EXCEEDED" and throttled.pause():
                patience = Patience(self._limits.timeout_ms)  # the broker answers, and throttles us
                continue
            if answer.error == "REQUEST_TIMED_OUT":
                self._pace.ask_for_less()
                self._max_bytes = self._response_bytes
            self._require_passing(answer, patience.elapsed)
            if not patience.pause():
                raise self._gave_up(answer, patience.elapsed)
            self._require_same_topic()

    def _require_passing(self, answer: FetchAnswer, elapsed: float) -> None:
        """Raises the error for failures that are not retriable."""
        error = answer.error
        if error is None or error in RETRIED:
            return
        if error == "OFFSET_OUT_OF_RANGE":
            self._find_range()
        elif error in UNKNOWN_TOPIC:
            if elapsed >= UNKNOWN_TOPIC_SECONDS:
                raise KgroupsError(f"{self._place} no longer exists: the cluster answered {error}")
        elif error == "TOPIC_AUTHORIZATION_FAILED":
            raise not_authorized("READ", f"topic {self._topic}")
        elif error == "CORRUPT_MESSAGE":
            raise NotReadable(
                f"{self._place}: the leader cannot read its own log at offset {self._next_offset} (CORRUPT_MESSAGE): "
                "move the leader to another replica, or restore the segment"
            )
        else:
            raise KafkaRefused(f"{self._place} cannot be fetched from offset {self._next_offset} on: {error}")

    def _require_same_topic(self) -> None:
        """Learns the current leader; raises KgroupsError if the name now belongs to another topic."""
        found = self._cluster.topics([self._topic])[self._topic].topic_id
        self._topic_id = self._topic_id or found
        if found is not None and found != self._topic_id:
            raise KgroupsError(
                f"topic {self._topic} was deleted and created again: its id was {self._topic_id} and is now {found}"
            )

    def _find_range(self) -> None:
        """The leader has no such offset: raises LogStartMoved or NotReadable, or goes on from the log's start."""
        self._require_same_topic()
        place = (self._topic, self._partition)
        start = self._cluster.list_offsets([place], EARLIEST)[place].offset
        end = self._cluster.list_offsets([place], LATEST)[place].offset
        if start is None or end is None:
            return
        if self._next_offset < start:
            if not self._skip_lost:
                raise LogStartMoved(
                    f"{self._place} starts at offset {start}: the records to read from offset {self._next_offset} on "
                    "have been deleted",
                    start,
                )
            self._next_offset, self._last_epoch = start, None
        elif self._next_offset > end:
            raise self._truncated(f"it ends before offset {end}, but was read up to offset {self._next_offset}")
        else:
            # The leader does not know the epoch: the log was restored, or the epoch, which no CRC covers, is damaged.
            self._tells_epoch, self._last_epoch = False, None

    def _truncated(self, found: str) -> NotReadable:
        return NotReadable(
            f"{self._place} was truncated: {found} (an unclean leader election, or a broker that lost its disk)"
        )

    def _gave_up(self, answer: FetchAnswer, elapsed: float) -> KgroupsError:
        if answer.error is None:
            return self._truncated(
                f"for {elapsed:.0f} s its leader has returned nothing after offset {self._next_offset}; its high "
                f"watermark is {answer.high_watermark}, and was {self._end_offset} before"
            )
        return LeaderLost(
            f"{self._place} has returned nothing from offset {self._next_offset} on for {elapsed:.0f} s: {said(answer)}"
        )

    def _batches(self, answer: FetchAnswer) -> memoryview:
        """The wanted part of an answer; moves on past it."""
        if not answer.records:
            self._is_done = True
            return memoryview(b"")
        found = FetchedBatches(answer.records, self._next_offset, answer.high_watermark)
        if not found.trusted and len(answer.records) >= self._max_bytes < LARGEST_BATCH:
            self._max_bytes *= 2
            return memoryview(b"")
        if not found.trusted:
            raise NotReadable(
                f"{self._place}: the leader's batch at offset {self._next_offset} is damaged ({found.diagnosis}): move "
                "the leader to another replica, restore the segment, or audit the broker's segments (--segments)"
            )
        self._max_bytes = self._response_bytes
        return self._wanted(found)

    def _wanted(self, found: FetchedBatches) -> memoryview:
        """The trusted batches that belong to this range."""
        # Only the very first batch can begin before the requested offset.
        start = int(found.base_offset(0) < self._lowest_base)
        self._lowest_base = 0
        count = found.trusted
        self._next_offset = found.last_offset(count - 1) + 1
        self._last_epoch = found.leader_epoch(count - 1) if self._tells_epoch else None
        self._is_done = self._next_offset >= self._end_offset
        return found.between(start, found.first_after(self._end_offset) if self._is_done else count)
