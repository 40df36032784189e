"""The log of one partition for planning, in segments of a folder or on a live broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from kgroups_spark.errors import NotReadable
from kgroups_spark.records.bounds import Bounds
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.headers import BatchMark
from kgroups_spark.sources.segment_file import SegmentFile


class LeaderLost(NotReadable):
    """The leader returned nothing for longer than a reader may wait."""


class LogStartMoved(NotReadable):
    """Planned records are no longer in the log: retention or DeleteRecords removed them."""

    def __init__(self, message: str, log_start_offset: int) -> None:
        super().__init__(message)
        self.log_start_offset = log_start_offset


@dataclass(frozen=True)
class SegmentPiece:
    """Bytes `position` to `end` of one segment file; both are batch borders.

    `file`: the identity of the file (None: any file at the path). `mark`: the batch at `position` (None: there was
    none, or the segment was not scanned). `bounds`: the offsets that batches from `position` on can have (None: by
    `file`).
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

    `keep_first`: the batch with start_offset belongs to the piece, too, wherever it begins. `leader`: the id of the
    partition's leader at planning; None: it had none. `bytes_per_offset` is an estimate, for balancing work.
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
        """The estimated number of bytes."""
        return max(1, int((self.end_offset - self.start_offset) * self.bytes_per_offset))

    def after(self, start: int, end: int) -> FetchPiece:
        """The next piece of the same partition: batches that begin in start .. end - 1."""
        return replace(self, start_offset=start, end_offset=end, keep_first=False)

    def without_deleted(self, log_start: int) -> FetchPiece:
        """The piece without offsets before `log_start`; it may be empty."""
        start = max(self.start_offset, log_start)
        return replace(self, start_offset=start, end_offset=max(self.end_offset, start))

    def cut(self, parts: int) -> list[FetchPiece]:
        """The piece cut into `parts` spans of about equal length, or fewer if it has fewer offsets."""
        span = self.end_offset - self.start_offset
        parts = max(1, min(parts, span))
        ends = [self.start_offset + span * number // parts for number in range(parts + 1)]
        return [
            replace(self, start_offset=start, end_offset=end, keep_first=self.keep_first and start == self.start_offset)
            for start, end in pairwise(ends)
        ]


Piece = SegmentPiece | FetchPiece

Answer = TypeVar("Answer")

# The most tasks that read from one broker at a time, so that reading does not disturb it.
FETCHERS_PER_BROKER = 2


class PartitionLog(ABC):
    """One partition's log. Offsets are log offsets; headers are those of sound batches, in log order, without a last
    batch that is held back (`records/bounds.py`). A last leader epoch that nothing confirms is UNCONFIRMED_EPOCH."""

    @property
    @abstractmethod
    def partition(self) -> int: ...

    def now(self) -> PartitionLog:
        """The log in its present state, if it can change."""
        return self

    def asked(self, ask: Callable[[PartitionLog], Answer]) -> Answer:
        """The answer of `ask`, about one moment of the log."""
        return ask(self)

    @property
    @abstractmethod
    def topic_id(self) -> str | None:
        """The topic id in Kafka's text form, 22 characters; None: unknown."""

    @property
    @abstractmethod
    def cluster_id(self) -> str | None: ...

    @property
    def held_back(self) -> BatchColumns:
        """The log's last batch, if its offset is not confirmed, after one that it contradicts; else empty."""
        return BatchColumns.empty()

    def epoch_by_checkpoint(self, offset: int) -> int | None:
        """The leader epoch of that offset as the broker's leader-epoch-checkpoint has it; None: not known."""
        return None

    @property
    @abstractmethod
    def where(self) -> str:
        """`partition 3 in /data/__consumer_offsets-3`: for messages."""

    @property
    @abstractmethod
    def log_start_offset(self) -> int: ...

    @property
    @abstractmethod
    def end_offset(self) -> int:
        """One more than the last offset of the log, whether its record is still there or not."""

    @property
    def readable_to(self) -> int | None:
        """The offset at which reading must end; None: everything may be read."""
        return None

    @abstractmethod
    def leader_epoch_after(self, offset: int) -> int:
        """The leader epoch of the last batch, if it begins at or after `offset`; negative: unknown."""

    @property
    def newest_timestamp(self) -> int | None:
        """The newest timestamp of the last batch, epoch ms; None: unknown."""
        return None

    @abstractmethod
    def headers_at(self, base_offset: int) -> BatchColumns:
        """Headers, including that of the batch with this base offset if it exists."""

    @abstractmethod
    def headers_back_from(self, end: int) -> Iterator[BatchColumns]:
        """The headers of all batches that begin before `end`, in lots, the newest lot first; each in log order."""

    def missing_from(self, offset: int) -> int | None:
        """The number of offsets from `offset` on that no longer have a record; None: finding out would read everything
        twice."""
        return None

    @abstractmethod
    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[Piece, ...]:
        """The pieces to read from `start_offset` on; empty: nothing is new. `known_corrupt`: file name and position of
        damage that quarantine has already."""

    @abstractmethod
    def pieces_before(self, start_offset: int) -> tuple[Piece, ...]:
        """The pieces before those of new_pieces(start_offset)."""
