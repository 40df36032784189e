"""The log of one partition for planning, in segments of a folder or on a live broker."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from kgroups_spark.errors import KgroupsError, NotReadable
from kgroups_spark.records.batches import MAGIC_END, MARK_BYTES, BatchMark
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.damage import LARGEST_SPAN, Bounds
from kgroups_spark.records.segment import scan_headers
from kgroups_spark.sources.files import FileVersion, LocalFile, StoredFile, open_file

# A segment as it was listed: opened, and read only while it still is the listed file.


LARGEST_OFFSET = (1 << 63) - 1  # that Kafka can have
SEARCHED_AT_ONCE = 1 << 20  # bytes


class SegmentChanged(KgroupsError):
    """A segment that is no longer the listed file (cleaned, merged, renamed, cut, deleted): it is listed again."""


class SegmentFile(NamedTuple):
    """A listed segment. `is_last`: it is the last one of its log, so it may grow."""

    path: str  # opens in every process: an absolute path or a URI
    base_offset: int  # from the file's name
    size: int  # bytes
    version: FileVersion | None = None  # None: any file at the path
    is_last: bool = False
    next_base_offset: int | None = None  # from the next file's name
    ends_log: bool = False  # no batch is in a later segment
    committed_to: int | None = None  # the partition's high watermark

    @property
    def bounds(self) -> Bounds:
        """The offsets that its batches can have. Every batch has a next offset, which is an offset, too."""
        below = min(self.base_offset + LARGEST_SPAN, LARGEST_OFFSET)
        if self.next_base_offset is not None:
            below = min(below, self.next_base_offset)
        return Bounds(self.base_offset, below, self.ends_log, self.committed_to)


class CheckedFile:
    """An open segment. Bytes are returned only if it still was the listed file after the read."""

    def __init__(self, file: LocalFile | StoredFile, segment: SegmentFile) -> None:
        self._file, self._segment = file, segment
        self._expected = segment.version
        self.seek = file.seek
        self._check()

    def readinto(self, buffer: memoryview) -> int | None:
        """As Python's files. Raises SegmentChanged."""
        got = self._file.readinto(buffer)
        self._check()
        return got

    def read(self, size: int) -> bytes:
        """As Python's files. Raises SegmentChanged."""
        got = self._file.read(size)
        self._check()
        return got

    def _check(self) -> None:
        if self._expected is None:
            return
        try:
            now = self._file.version()
        except FileNotFoundError as err:
            raise SegmentChanged(f"{self._segment.path} is gone") from err
        if not self._expected.is_still(now, may_grow=self._segment.is_last):
            raise SegmentChanged(f"{self._segment.path} is another file than the one that was listed")
        self._expected = self._expected._replace(etag=now.etag)


@contextmanager
def open_segment(segment: SegmentFile, open_file: Callable[[str], Any] = open_file) -> Iterator[CheckedFile]:
    """The listed file, opened. Raises SegmentChanged, at once or at a read, if it is no longer that file; OSError."""
    try:
        file = open_file(segment.path)
    except FileNotFoundError as err:
        if segment.version is None:
            raise
        raise SegmentChanged(f"{segment.path} is gone") from err
    with closing(file):
        yield CheckedFile(file, segment)


def scan_segment(segment: SegmentFile, first: tuple[int, int] | None = None) -> tuple[BatchColumns, BatchColumns]:
    """Headers of sound batches, and of those held back at the log's end. Raises NotReadable, SegmentChanged. `first`:
    the base offset and CRC of the batch from which on they are wanted; without it there are none."""
    position, bounds = 0, segment.bounds
    try:
        with open_segment(segment) as file:
            if first is not None:
                position, bounds = _position_of(*first, file, segment.size), bounds._replace(floor=first[0])
            return scan_headers(file, position=position, end=segment.size, bounds=bounds)
    except OSError as err:
        raise NotReadable(f"{segment.path} cannot be read: {err}") from err


def _position_of(base_offset: int, crc: int, file: CheckedFile, end: int) -> int:
    """The position of the last bytes before `end` that look like the header of this batch of magic 2; `end`: of none.
    The search begins at the end, because little is after the last batch that was read."""
    offset, magic_and_crc = struct.pack(">q", base_offset), struct.pack(">bI", 2, crc)
    for stop in range(end, 0, -SEARCHED_AT_ONCE):
        start = max(stop - SEARCHED_AT_ONCE, 0)
        file.seek(start)
        data = file.read(stop - start + MARK_BYTES)
        at = len(data)
        while (at := data.rfind(offset, 0, at + len(offset) - 1)) >= 0:
            if data[at + MAGIC_END - 1 : at + MARK_BYTES] == magic_and_crc:
                return start + at
    return end


class LeaderLost(NotReadable):
    """The leader returned nothing for longer than a reader may wait."""


class LogStartMoved(NotReadable):
    """Planned records are no longer in the log: retention or DeleteRecords removed them."""

    def __init__(self, message: str, log_start_offset: int) -> None:
        super().__init__(message)
        self.log_start_offset = log_start_offset


class SegmentPiece(NamedTuple):
    """Bytes `position` to `end` of one segment file; both are batch borders. `file`: its identity (None: any file at
    the path). `mark`: the batch at `position`, if it was scanned. `bounds`: the offsets that batches from there on can
    have (None: by `file`)."""

    path: str
    position: int
    end: int
    file: SegmentFile | None = None
    mark: BatchMark | None = None
    bounds: Bounds | None = None

    @property
    def size_bytes(self) -> int:
        return self.end - self.position


class FetchPiece(NamedTuple):
    """Batches of a live partition with a base offset from start_offset to end_offset - 1; `keep_first`: and the one
    that has start_offset. `leader`: its id at planning; None: none. `bytes_per_offset`: an estimate, for balancing."""

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
        return max(1, int((self.end_offset - self.start_offset) * self.bytes_per_offset))

    def after(self, start: int, end: int) -> FetchPiece:
        """The next piece of the same partition: batches that begin in start .. end - 1."""
        return self._replace(start_offset=start, end_offset=end, keep_first=False)

    def without_deleted(self, log_start: int) -> FetchPiece:
        """The piece without offsets before `log_start`; it may be empty."""
        start = max(self.start_offset, log_start)
        return self._replace(start_offset=start, end_offset=max(self.end_offset, start))

    def cut(self, parts: int) -> list[FetchPiece]:
        """The piece cut into `parts` spans of about equal length, or fewer if it has fewer offsets."""
        span = self.end_offset - self.start_offset
        parts = max(1, min(parts, span))
        ends = [self.start_offset + span * number // parts for number in range(parts + 1)]
        return [
            self._replace(start_offset=start, end_offset=end, keep_first=self.keep_first and start == self.start_offset)
            for start, end in pairwise(ends)
        ]


Piece = SegmentPiece | FetchPiece

Answer = TypeVar("Answer")

# The most tasks that read from one broker at a time, so that reading does not disturb it.
FETCHERS_PER_BROKER = 2


class PartitionLog(ABC):
    """One partition's log. Offsets are log offsets; headers are those of sound batches, in log order, without a last
    batch that is held back (`records/damage.py`). A last leader epoch that nothing confirms is UNCONFIRMED_EPOCH."""

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

    def goes_on_from(self, base_offset: int, crc: int, end_offset: int) -> bool:
        """Whether it is cheap to see that the log has this batch, and ends at that offset or later. If so, headers may
        begin with the batch, in this answer."""
        return False

    def missing_from(self, offset: int) -> int | None:
        """The number of offsets from `offset` on without a record; None: one would have to read everything twice."""
        return None

    @abstractmethod
    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[Piece, ...]:
        """The pieces from `start_offset` on, if any. `known_corrupt`: file name and position of known damage."""

    @abstractmethod
    def pieces_before(self, start_offset: int) -> tuple[Piece, ...]:
        """The pieces before those of new_pieces(start_offset)."""
