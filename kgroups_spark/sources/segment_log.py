"""A partition's log in segment files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgroups_spark.errors import NotReadable
from kgroups_spark.records.bounds import NO_EPOCH, UNCONFIRMED_EPOCH, Bounds, confirmed_epoch
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.headers import BatchMark
from kgroups_spark.sources.leader_epochs import epoch_by_checkpoint
from kgroups_spark.sources.partition_log import Answer, PartitionLog, SegmentPiece
from kgroups_spark.sources.segment_file import SegmentFile, scan_segment
from kgroups_spark.sources.segments import PartitionCopy, list_partition, settled

NO_SEGMENTS = "no segment file (*.log)"


@dataclass(frozen=True)
class SegmentLog(PartitionLog):
    """One listed copy of a partition. Its methods may scan segments, each at most once.

    They raise UnreadableSegment, and SegmentChanged if a segment is now another file: `asked` then lists it again.
    """

    copy: PartitionCopy

    @property
    def partition(self) -> int:
        return self.copy.partition

    def now(self) -> PartitionLog:
        copy = self.copy
        return SegmentLog(list_partition(copy.folder, copy.topic, copy.partition, copy.cluster_id))

    def asked(self, ask: Callable[[PartitionLog], Answer]) -> Answer:
        """See PartitionLog. Raises NotReadable, also for a folder without a segment: a broker's always has one."""
        if self.copy.unreadable is not None or not self.copy.segments:
            raise NotReadable(self.copy.unreadable or NO_SEGMENTS)
        return settled(self.copy, lambda copy: ask(self if copy is self.copy else SegmentLog(copy)))[1]

    @property
    def topic_id(self) -> str | None:
        return self.copy.topic_id

    @property
    def cluster_id(self) -> str | None:
        return self.copy.cluster_id

    def epoch_by_checkpoint(self, offset: int) -> int | None:
        return epoch_by_checkpoint(self.copy.folder, offset)

    @property
    def where(self) -> str:
        return f"partition {self.copy.partition} in {self.copy.folder}"

    @property
    def log_start_offset(self) -> int:
        return self.copy.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """See PartitionLog. The active segment may be empty, and the cleaner may have removed the last batches before
        it, so its base offset counts, too."""
        ends: list[int] = (self._last.last_offset + 1).tolist()
        return max([self.copy.segments[-1].base_offset, *ends])

    @property
    def readable_to(self) -> int | None:
        return self.copy.committed_to

    @property
    def held_back(self) -> BatchColumns:
        return self._tail[1]

    @property
    def last_batch(self) -> BatchColumns:
        """The header of the last batch that is not held back; empty if there is none."""
        return self._last

    @property
    def newest_epoch(self) -> int:
        """The newest confirmed leader epoch at the log's end; -1: none is."""
        epochs = self._tail[0].leader_epoch
        confirmed = epochs[1:][epochs[1:] == epochs[:-1]]
        return max(int(confirmed[-1]) if len(confirmed) else NO_EPOCH, self.leader_epoch_after(0), NO_EPOCH)

    def leader_epoch_after(self, offset: int) -> int:
        at_the_end = len(self._last) and int(self._last.base_offset[0]) >= offset
        return int(self._last.leader_epoch[0]) if at_the_end else NO_EPOCH

    @property
    def newest_timestamp(self) -> int | None:
        return int(self._last.max_timestamp[0]) if len(self._last) else None

    def headers_at(self, base_offset: int) -> BatchColumns:
        return self._with_last_epoch(self.copy.segments_from(base_offset)[0])

    def headers_back_from(self, end: int) -> Iterator[BatchColumns]:
        for segment in reversed(self.copy.segments):
            if segment.base_offset < end:
                headers = self._with_last_epoch(segment)
                yield headers[headers.base_offset < end]

    def missing_from(self, offset: int) -> int:
        return self.end_offset - offset - int(self._headers_from(offset).record_count.sum())

    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[SegmentPiece, ...]:
        end = self.readable_to
        if end is not None and end <= start_offset:
            return ()
        segments, position = self.copy.segments_from(start_offset), self._position_after(start_offset)
        segments = tuple(segment for segment in segments if end is None or segment.base_offset < end)
        # Damage after the last batch is found by each audit until there is a sound batch after it.
        is_known = len(segments) == 1 and (segments[0].path.rsplit("/", 1)[-1], position) in known_corrupt
        if is_known and not len(self._headers_from(start_offset)):
            return ()
        return self._pieces(segments, position)

    def pieces_before(self, start_offset: int) -> tuple[SegmentPiece, ...]:
        (first, *_), position = self.copy.segments_from(start_offset), self._position_after(start_offset)
        earlier = [segment for segment in self.copy.segments if segment.base_offset < first.base_offset]
        pieces = [SegmentPiece(segment.path, 0, segment.size, segment) for segment in earlier]
        if not position:
            return tuple(pieces)
        read_before = replace(first.bounds, ends_log=False)
        return (*pieces, SegmentPiece(first.path, 0, position, first, bounds=read_before))

    def _headers_from(self, offset: int) -> BatchColumns:
        """Headers of all batches that end at or after `offset`, which are new to a reader from there on."""
        headers = BatchColumns.concat([self._scan(segment) for segment in self.copy.segments_from(offset)])
        return headers[headers.last_offset >= offset]

    def _position_after(self, start_offset: int) -> int:
        """The position after the last sound batch entirely before `start_offset`, in the segment to resume in."""
        segments = self.copy.segments_from(start_offset)
        if not segments or segments[0].base_offset >= start_offset:
            return 0
        headers = self._scan(segments[0])
        passed = np.flatnonzero(headers.last_offset < start_offset)
        return int(headers.position[passed[-1]] + headers.size[passed[-1]]) if len(passed) else 0

    def _pieces(self, segments: Sequence[SegmentFile], position: int) -> tuple[SegmentPiece, ...]:
        starts = [position, *[0] * (len(segments) - 1)]
        return tuple(
            SegmentPiece(
                segment.path,
                start,
                segment.size,
                segment,
                self._mark_at(segment, start),
                self._bounds_at(segment, start),
            )
            for segment, start in zip(segments, starts, strict=False)
            if segment.size > start
        )

    def _mark_at(self, segment: SegmentFile, position: int) -> BatchMark | None:
        """The mark of the batch at the position; None if the segment was not scanned: a file that is read from its
        start needs no mark."""
        headers = self._scanned.get(segment.path, BatchColumns.empty())
        rows = np.flatnonzero(headers.position == position)
        return BatchMark.of(headers, int(rows[0])) if len(rows) else None

    def _bounds_at(self, segment: SegmentFile, position: int) -> Bounds:
        headers = self._scanned.get(segment.path, BatchColumns.empty())
        return segment.bounds.after(headers[headers.position < position])

    @cached_property
    def _tail(self) -> tuple[BatchColumns, BatchColumns]:
        """The headers of the last segment that has batches, and of those that are held back."""
        for segment in reversed(self.copy.segments):
            batches = self._scan(segment)
            held_back = self._held_back[segment.path]
            if len(batches) or len(held_back):
                return self._with_last_epoch(segment), held_back
        return BatchColumns.empty(), BatchColumns.empty()

    @cached_property
    def _last(self) -> BatchColumns:
        for segment in reversed(self.copy.segments):
            if len(self._scan(segment)):
                return self._with_last_epoch(segment)[-1:]
        return BatchColumns.empty()

    @cached_property
    def _scanned(self) -> dict[str, BatchColumns]:
        return {}

    @cached_property
    def _held_back(self) -> dict[str, BatchColumns]:
        return {}

    def _scan(self, segment: SegmentFile) -> BatchColumns:
        if segment.path not in self._scanned:
            self._scanned[segment.path], self._held_back[segment.path] = scan_segment(segment)
        return self._scanned[segment.path]

    def _with_last_epoch(self, segment: SegmentFile) -> BatchColumns:
        """The headers of a segment, without the epoch of the log's last batch if nothing confirms it."""
        batches = self._scan(segment)
        if not len(batches) or not segment.ends_log:
            return batches
        before = int(batches.leader_epoch[-2]) if len(batches) > 1 else None
        epoch, offset = int(batches.leader_epoch[-1]), int(batches.base_offset[-1])
        if epoch == NO_EPOCH or confirmed_epoch(epoch, before, None) is not None:
            return batches
        if confirmed_epoch(epoch, self.epoch_by_checkpoint(offset), None) is not None:
            return batches
        return replace(batches, leader_epoch=np.append(batches.leader_epoch[:-1], np.int32(UNCONFIRMED_EPOCH)))
