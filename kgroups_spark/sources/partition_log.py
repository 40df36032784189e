"""The log of one partition as a reader plans over it, whether its segments lie in a folder or a broker has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, TypeVar

from kgroups_spark.errors import KgroupsError
from kgroups_spark.records.bounds import Bounds
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.headers import BatchMark
from kgroups_spark.sources.segments import SegmentFile


class LeaderLost(KgroupsError):
    """The leader of a live partition gives nothing, for longer than a reader may wait. Another time it may."""


@dataclass(frozen=True)
class SegmentPiece:
    """Bytes `position` to `end` of one segment file; both are batch borders.

    `file`: which file is meant (None: whichever has the path). `mark`: the batch at `position` (None: there was none,
    or nobody looked). `bounds`: where batches can be from `position` on (None: as `file` says).
    """

    path: str
    position: int
    end: int
    file: SegmentFile | None = None
    mark: BatchMark | None = None
    bounds: Bounds | None = None

    @property
    def size_bytes(self) -> int:
        return self.end - self.position


@dataclass(frozen=True)
class FetchPiece:
    """Batches of a live partition whose base offset is in start_offset .. end_offset - 1.

    `keep_first`: the batch that holds start_offset belongs to it as well, wherever it begins. `leader`: the broker that
    led the partition when the piece was planned; None: none did. `bytes_per_offset` is a guess, for sharing work out.
    """

    topic: str
    partition: int
    topic_id: str | None
    start_offset: int
    end_offset: int
    keep_first: bool
    leader: int | None
    bytes_per_offset: float

    @property
    def size_bytes(self) -> int:
        """About how much it is."""
        return max(1, int((self.end_offset - self.start_offset) * self.bytes_per_offset))

    def behind(self, start: int, end: int) -> FetchPiece:
        """The piece after it in the same partition: batches that begin in start .. end - 1."""
        return replace(self, start_offset=start, end_offset=end, keep_first=False)

    def cut(self, parts: int) -> list[FetchPiece]:
        """The same in so many spans of about equal length, as far as there are offsets."""
        span = self.end_offset - self.start_offset
        parts = max(1, min(parts, span))
        ends = [self.start_offset + span * number // parts for number in range(parts + 1)]
        return [
            replace(self, start_offset=start, end_offset=end, keep_first=self.keep_first and start == self.start_offset)
            for start, end in pairwise(ends)
        ]


Piece = SegmentPiece | FetchPiece

Answer = TypeVar("Answer")

# So many tasks at most read from one broker at a time: reading must not be felt there.
FETCHERS_PER_BROKER = 2


class PartitionLog(ABC):
    """One partition's log. Offsets are log offsets; headers are those of sound batches, in log order.

    `lots_in_passing`: so many of headers_back_from may be asked for where most likely nothing is found.
    """

    lots_in_passing: ClassVar[int] = 1

    @property
    @abstractmethod
    def partition(self) -> int: ...

    def now(self) -> PartitionLog:
        """The same log as it is now, as far as it can change."""
        return self

    def asked(self, ask: Callable[[PartitionLog], Answer]) -> Answer:
        """The answer of `ask`, all of it about one moment of the log."""
        return ask(self)

    @property
    @abstractmethod
    def topic_id(self) -> str | None:
        """As Kafka prints it, 22 characters; None: not known."""

    @property
    @abstractmethod
    def cluster_id(self) -> str | None: ...

    @property
    @abstractmethod
    def where(self) -> str:
        """`partition 3 in /data/__consumer_offsets-3`: for messages."""

    @property
    @abstractmethod
    def is_there(self) -> bool:
        """False: nothing of the log was given, not even an empty segment."""

    @property
    @abstractmethod
    def log_start_offset(self) -> int: ...

    @property
    @abstractmethod
    def end_offset(self) -> int:
        """One more than the last offset of the log, whether a record is left there or not."""

    @property
    def readable_to(self) -> int | None:
        """The offset at which reading must end; None: everything may be read."""
        return None

    @abstractmethod
    def leader_epoch_behind(self, offset: int) -> int:
        """The leader epoch of the last batch, if that begins at `offset` or behind it; -1: not known."""

    @property
    @abstractmethod
    def newest_timestamp(self) -> int | None:
        """The newest time of the last batch, ms; None: not known."""

    @abstractmethod
    def headers_at(self, base_offset: int) -> BatchColumns:
        """Some headers, that of the batch with this base offset among them if it is there."""

    @abstractmethod
    def headers_back_from(self, end: int) -> Iterator[BatchColumns]:
        """The headers of all batches that begin before `end`, in lots, the newest lot first; each in log order."""

    @abstractmethod
    def missing_from(self, offset: int) -> int | None:
        """How many offsets from `offset` on have no record any more; None: only reading tells."""

    @abstractmethod
    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[Piece, ...]:
        """The pieces to read from `start_offset` on; empty: nothing is new. `known_corrupt`: file name and position of
        damage that is known already."""

    @abstractmethod
    def pieces_before(self, start_offset: int) -> tuple[Piece, ...]:
        """The pieces before those that new_pieces(start_offset) gives."""
