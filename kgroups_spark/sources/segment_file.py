"""A segment as it was listed: opened, and read only while it still is the listed file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kgroups_spark.errors import KgroupsError, NotReadable
from kgroups_spark.records.bounds import LARGEST_SPAN, Bounds
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.segment import scan_headers
from kgroups_spark.storage.files import FileVersion, OpenFile, open_file

LARGEST_OFFSET = (1 << 63) - 1  # that Kafka can have


class UnreadableSegment(NotReadable):
    """A segment file that the file system cannot read."""


class SegmentChanged(KgroupsError):
    """A segment that is no longer the listed file: cleaned, merged, renamed, truncated or deleted. Its partition is
    listed again."""


@dataclass(frozen=True)
class SegmentFile:
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

    def __init__(self, file: OpenFile, segment: SegmentFile) -> None:
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
        if now is None:
            return
        if not self._expected.is_still(now, may_grow=self._segment.is_last):
            raise SegmentChanged(f"{self._segment.path} is another file than the one that was listed")
        self._expected = replace(self._expected, etag=now.etag)


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


def scan_segment(segment: SegmentFile) -> tuple[BatchColumns, BatchColumns]:
    """The headers of a segment's sound batches, and of those that are held back at the log's end. Raises
    UnreadableSegment, SegmentChanged."""
    try:
        with open_segment(segment) as file:
            return scan_headers(file, end=segment.size, bounds=segment.bounds)
    except OSError as err:
        raise UnreadableSegment(f"{segment.path} cannot be read: {err}") from err
