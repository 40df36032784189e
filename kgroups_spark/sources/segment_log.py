"""A partition's log in segment files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.sources.partition_log import PartitionLog, SegmentPiece
from kgroups_spark.sources.segments import PartitionCopy, SegmentFile, find_partitions, scan_segment


@dataclass(frozen=True)
class SegmentLog(PartitionLog):
    """One copy of a partition. What is asked of it may scan segments, each at most once; raises UnreadableSegment."""

    copy: PartitionCopy

    @property
    def partition(self) -> int:
        return self.copy.partition

    @property
    def topic_id(self) -> str | None:
        return self.copy.topic_id

    @property
    def cluster_id(self) -> str | None:
        return self.copy.cluster_id

    @property
    def where(self) -> str:
        return f"partition {self.copy.partition} in {self.copy.folder}"

    @property
    def is_there(self) -> bool:
        return bool(self.copy.segments)

    @property
    def log_start_offset(self) -> int:
        return self.copy.segments[0].base_offset if self.copy.segments else 0

    @property
    def end_offset(self) -> int:
        """The active segment may be empty, and the cleaner may have taken the last batches before it."""
        ends: list[int] = (self._last.last_offset + 1).tolist()
        return max([self.copy.segments[-1].base_offset, *ends])

    def leader_epoch_behind(self, offset: int) -> int:
        at_the_end = len(self._last) and int(self._last.base_offset[0]) >= offset
        return int(self._last.leader_epoch[0]) if at_the_end else -1

    @property
    def newest_timestamp(self) -> int | None:
        return int(self._last.max_timestamp[0]) if len(self._last) else None

    def headers_at(self, base_offset: int) -> BatchColumns:
        return self._scan(self.copy.segments_from(base_offset)[0])

    def missing_from(self, offset: int) -> int:
        return self.end_offset - offset - int(self._headers_from(offset).record_count.sum())

    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[SegmentPiece, ...]:
        segments, position = self.copy.segments_from(start_offset), self._position_after(start_offset)
        # Damage behind the last batch is met at each reading, until there is a sound batch behind it.
        is_known = len(segments) == 1 and (segments[0].path.rsplit("/", 1)[-1], position) in known_corrupt
        if is_known and not len(self._headers_from(start_offset)):
            return ()
        return _pieces(segments, position)

    def pieces_before(self, start_offset: int) -> tuple[SegmentPiece, ...]:
        (first, *_), position = self.copy.segments_from(start_offset), self._position_after(start_offset)
        earlier = [segment for segment in self.copy.segments if segment.base_offset < first.base_offset]
        pieces = [SegmentPiece(segment.path, 0, segment.size) for segment in earlier]
        return (*pieces, SegmentPiece(first.path, 0, position)) if position else tuple(pieces)

    def _headers_from(self, offset: int) -> BatchColumns:
        """Headers of all batches that end at `offset` or behind it: what a reader would find new there."""
        headers = BatchColumns.concat([self._scan(segment) for segment in self.copy.segments_from(offset)])
        return headers[headers.last_offset >= offset]

    def _position_after(self, start_offset: int) -> int:
        """Where the last sound batch that lies wholly before `start_offset` ends, in the segment to read on in."""
        segments = self.copy.segments_from(start_offset)
        if not segments or segments[0].base_offset >= start_offset:
            return 0
        headers = self._scan(segments[0])
        passed = np.flatnonzero(headers.last_offset < start_offset)
        return int(headers.position[passed[-1]] + headers.size[passed[-1]]) if len(passed) else 0

    @cached_property
    def _last(self) -> BatchColumns:
        """The header of the last sound batch; empty if there is none."""
        for segment in reversed(self.copy.segments):
            headers = self._scan(segment)
            if len(headers):
                return headers[-1:]
        return BatchColumns.empty()

    @cached_property
    def _scanned(self) -> dict[str, BatchColumns]:
        return {}

    def _scan(self, segment: SegmentFile) -> BatchColumns:
        if segment.path not in self._scanned:
            self._scanned[segment.path] = scan_segment(segment)
        return self._scanned[segment.path]


def _pieces(segments: Sequence[SegmentFile], position: int) -> tuple[SegmentPiece, ...]:
    starts = [position, *[0] * (len(segments) - 1)]
    return tuple(
        SegmentPiece(segment.path, start, segment.size)
        for segment, start in zip(segments, starts, strict=False)
        if segment.size > start
    )


def segment_logs(folders: Sequence[str]) -> list[PartitionLog]:
    """The logs of __consumer_offsets in these folders, every copy of every partition. Raises the errors of
    find_partitions."""
    return [SegmentLog(copy) for copy in find_partitions(folders)]
