"""A partition's log in segment files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kgroups_spark.errors import NotReadable
from kgroups_spark.records.batches import MARK_BYTES, BatchMark
from kgroups_spark.records.columns import BatchColumns, CorruptBatch, RecordColumns
from kgroups_spark.records.damage import NO_EPOCH, UNCONFIRMED_EPOCH, Bounds, confirmed_epoch
from kgroups_spark.records.segment import ANYWHERE, CHUNK_BYTES, RAW_BYTES, read_segment
from kgroups_spark.sources.files import folder_of, open_file
from kgroups_spark.sources.partition_log import (
    LARGEST_OFFSET,
    Answer,
    CheckedFile,
    PartitionLog,
    SegmentChanged,
    SegmentFile,
    SegmentPiece,
    open_segment,
    scan_segment,
)
from kgroups_spark.sources.segments import (
    PartitionCopy,
    epoch_by_checkpoint,
    keeps_changing,
    list_partition,
    settled,
)
from kgroups_spark.words import named_partitions

NO_SEGMENTS = "no segment file (*.log)"


@dataclass(frozen=True)
class SegmentLog(PartitionLog):
    """One listed copy of a partition. Its methods may scan segments, each at most once for an answer. They raise
    NotReadable, and SegmentChanged if a segment is now another file: `asked` then lists it again."""

    copy: PartitionCopy
    _scanned: dict[str, BatchColumns] = field(init=False, default_factory=dict, compare=False, repr=False)
    _held_back: dict[str, BatchColumns] = field(init=False, default_factory=dict, compare=False, repr=False)

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
        try:
            return settled(self.copy, lambda copy: ask(self if copy is self.copy else SegmentLog(copy)))[1]
        finally:
            # 70 bytes for each batch of the last segments of all partitions would stay in the driver.
            self._scanned.clear()

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
        """See PartitionLog. The active segment may be empty after removed batches, so its base offset counts."""
        ends: list[int] = (self.last_batch.last_offset + 1).tolist()
        return max([self.copy.segments[-1].base_offset, *ends])

    @property
    def readable_to(self) -> int | None:
        return self.copy.committed_to

    @property
    def held_back(self) -> BatchColumns:
        return self._tail[1]

    @property
    def newest_epoch(self) -> int:
        """The newest confirmed leader epoch at the log's end; -1: none is."""
        epochs = self._tail[0].leader_epoch
        confirmed = epochs[1:][epochs[1:] == epochs[:-1]]
        return max(int(confirmed[-1]) if len(confirmed) else NO_EPOCH, self.leader_epoch_after(0), NO_EPOCH)

    def leader_epoch_after(self, offset: int) -> int:
        at_the_end = len(self.last_batch) and int(self.last_batch.base_offset[0]) >= offset
        return int(self.last_batch.leader_epoch[0]) if at_the_end else NO_EPOCH

    @property
    def newest_timestamp(self) -> int | None:
        return int(self.last_batch.max_timestamp[0]) if len(self.last_batch) else None

    def headers_at(self, base_offset: int) -> BatchColumns:
        return self._with_last_epoch(self.copy.segments_from(base_offset)[0])

    def headers_back_from(self, end: int) -> Iterator[BatchColumns]:
        for segment in reversed(self.copy.segments):
            if segment.base_offset < end:
                headers = self._with_last_epoch(segment)
                yield headers[headers.base_offset < end]

    def goes_on_from(self, base_offset: int, crc: int, end_offset: int) -> bool:
        """See PartitionLog. From that batch on its segment must be sound to the end: so it is no copy of the batch in
        a later record, and damage is looked at as a whole."""
        segment = self.copy.segments_from(base_offset)[0]
        headers, _ = scan_segment(segment, (base_offset, crc))
        is_sound = base_offset in headers.base_offset[:1] and headers.position[0] + headers.size.sum() == segment.size
        if not is_sound or headers.last_offset[-1] + 1 < end_offset:
            return False
        self._scanned[segment.path], self._held_back[segment.path] = headers, BatchColumns.empty()
        return True

    def missing_from(self, offset: int) -> int:
        return self.end_offset - offset - int(self._headers_from(offset).record_count.sum())

    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[SegmentPiece, ...]:
        end = self.readable_to
        if end is not None and end <= start_offset:
            return ()
        segments, position = self.copy.segments_from(start_offset), self._position_after(start_offset)
        before = self.copy.segments[: len(self.copy.segments) - len(segments)]
        if before and len(segments) > 1:  # the cleaner leaves the last segment alone
            self.merged_at(before[-1])
        segments = tuple(segment for segment in segments if end is None or segment.base_offset < end)
        # Damage after the last batch is found by each audit until there is a sound batch after it.
        is_known = len(segments) == 1 and (segments[0].path.rsplit("/", 1)[-1], position) in known_corrupt
        if is_known and not len(self._headers_from(start_offset)):
            return ()
        return self._pieces(segments, position)

    def merged_at(self, segment: SegmentFile) -> int | None:
        """The position from which on a segment has what the cleaner merged into it from segments that are still there:
        a copy keeps the files that the broker deleted. None: there is nothing. Raises NotReadable if they lack it."""
        later = [each for each in self.copy.segments if each.base_offset > segment.base_offset]
        starts = np.array([each.base_offset for each in later], np.int64)
        batches, _ = scan_segment(segment._replace(next_base_offset=None))
        merged = batches[batches.base_offset >= starts.min(initial=LARGEST_OFFSET)]
        if not len(merged):
            return None
        end = int(merged.last_offset[-1]) + 1
        kept = [self._scan(each) for each in later if each.base_offset < end]
        # Where an offset is damaged, no segment has that batch, and none begins after it.
        if end not in starts[1:] and _offsets_and_sums(merged).isdisjoint(_offsets_and_sums(BatchColumns.concat(kept))):
            return None
        ends = np.array([int(headers.last_offset[-1]) + 1 if len(headers) else 0 for headers in kept])
        its_segment = np.searchsorted(starts, merged.base_offset, "right") - 1
        if (lacking := its_segment[merged.last_offset >= ends[its_segment]]).size:
            raise NotReadable(
                f"{later[int(lacking[0])].path} is left over: {segment.path} goes on to offset {end - 1}, so the "
                "broker has merged and deleted it. Delete it, or copy the folder again without what the broker deleted "
                "(rsync --delete)"
            )
        return int(merged.position[0])

    def pieces_before(self, start_offset: int) -> tuple[SegmentPiece, ...]:
        (first, *_), position = self.copy.segments_from(start_offset), self._position_after(start_offset)
        earlier = [segment for segment in self.copy.segments if segment.base_offset < first.base_offset]
        pieces = [SegmentPiece(segment.path, 0, segment.size, segment) for segment in earlier]
        if not position:
            return tuple(pieces)
        read_before = first.bounds._replace(ends_log=False)
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
        """The first segment from the position on, and the others, without a mark: they are read from their starts."""
        pieces = []
        for segment in segments:
            if segment.size > position:
                headers = self._scanned.get(segment.path, BatchColumns.empty())
                rows = np.flatnonzero(headers.position == position)
                mark = BatchMark.of(headers, int(rows[0])) if len(rows) else None
                bounds = segment.bounds.after(headers[headers.position < position])
                pieces.append(SegmentPiece(segment.path, position, segment.size, segment, mark, bounds))
            position = 0
        return tuple(pieces)

    @property
    def _tail(self) -> tuple[BatchColumns, BatchColumns]:
        """The headers of the last segment that has batches, and of those that are held back."""
        for segment in reversed(self.copy.segments):
            batches = self._scan(segment)
            held_back = self._held_back[segment.path]
            if len(batches) or len(held_back):
                return self._with_last_epoch(segment), held_back
        return BatchColumns.empty(), BatchColumns.empty()

    @cached_property
    def last_batch(self) -> BatchColumns:
        """The header of the last batch that is not held back; empty if there is none."""
        for segment in reversed(self.copy.segments):
            if len(self._scan(segment)):
                return self._with_last_epoch(segment)[np.array([-1])]
        return BatchColumns.empty()

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


def _offsets_and_sums(batches: BatchColumns) -> set[tuple[int, int]]:
    return set(zip(batches.base_offset.tolist(), batches.crc.tolist(), strict=True))


# A partition's records from its segment files, while a broker's cleaner works on them.
#
# A plan names files and positions in them. Before and while they are read, the cleaner may replace a segment by a
# smaller one of the same name, merge several into one, rename and delete. An opened file on a local disk stays
# readable. After any other change the partition is planned again: it is listed, and read on from the first offset not
# yet returned, up to the end of its log at that listing.
#
# That end is needed because the cleaner drops a record for a newer one of the same key, which may be after the planned
# end. It never cleans the active segment, and never drops a record for one that is not in the log yet. So the records
# read from earlier files, together with those listed now, include every record of the log at this listing, and the
# result is a state that existed.


# The most plans of a piece without a record read from it.
MOST_PLANS = 20

Damage = tuple[str, int]  # name of a segment file, and a position in it


class Span(NamedTuple):
    """Offsets `start_offset` .. `end_offset` - 1 of a partition (None: to the log's end), in `pieces`. `end_moves`:
    with the committed offset (None: unknown) at each listing. `ends_log`: the last piece is the log's last, maybe half-
    written. `known_corrupt`: damage to leave out."""

    topic: str
    partition: int
    pieces: Sequence[SegmentPiece]
    start_offset: int = 0
    end_offset: int | None = None
    ends_log: bool = True
    known_corrupt: Collection[Damage] = ()
    end_moves: bool = False


class SegmentReading:
    """Reads one span, once, forward. After the last item:

    next_offset   one more than the last offset of the sound batches read
    size_bytes    bytes read
    listed_to     the log's end when its files were listed again (None: they never were, or the end moves)
    is_cut_short  whether a batch was found at or above the end
    damage        the corrupt batches that were returned
    unconfirmed   position of the log's last batch, and why it was held back; None: it was not
    held_back     that batch as a piece that can be read, if it was held back
    half_written  path, position and kind of the log's tail, if it is not a whole batch
    """

    def __init__(self, span: Span, opener: Callable[[str], Any] = open_file, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.next_offset = span.start_offset
        self.size_bytes = 0
        self.listed_to: int | None = None
        self.damage: list[Damage] = []
        self.unconfirmed: str | None = None
        self.held_back: SegmentPiece | None = None
        self.half_written: tuple[str, int, str] | None = None
        self._span = span
        self._opener = opener
        self._chunk_bytes = chunk_bytes
        self._wanted = span.start_offset
        self._end_offset = span.end_offset
        self.is_cut_short = False
        self._pieces = list(span.pieces)

    def items(self) -> Iterator[tuple[str, RecordColumns | CorruptBatch]]:
        """Records and corrupt batches with the path of their file, in log order. Raises NotReadable,
        and FolderNotFound if the whole partition is gone."""
        plans = 0
        while self._pieces:
            piece = self._pieces.pop(0)
            try:
                yield from self._read(piece)
            except SegmentChanged:
                plans = 0 if self.next_offset > self._wanted else plans + 1
                if plans > MOST_PLANS:
                    raise keeps_changing(folder_of(piece.path)) from None
                self._plan_again(folder_of(piece.path))
            except OSError as err:
                raise NotReadable(f"{piece.path} cannot be read: {err}") from err

    def _plan_again(self, folder: str) -> None:
        span, self._wanted = self._span, self.next_offset
        copy = list_partition(folder, span.topic, span.partition, None)
        copy, pieces = settled(copy, lambda copy: SegmentLog(copy).new_pieces(self._wanted, self._known))
        if span.end_moves:
            self._end_offset = copy.committed_to
        end = self._end_offset
        self._pieces = [piece for piece in pieces if end is None or _base_offset(piece) < end]
        if not span.end_moves:
            copy, listed_to = settled(copy, lambda copy: SegmentLog(copy).end_offset)
            self.listed_to = listed_to if copy.committed_to is None else min(listed_to, copy.committed_to)

    @property
    def _known(self) -> set[Damage]:
        return {*self._span.known_corrupt, *self.damage}

    def _read(self, piece: SegmentPiece) -> Iterator[tuple[str, RecordColumns | CorruptBatch]]:
        with open_piece(piece, self._opener) as file:
            reader = read_segment(
                file,
                position=piece.position,
                end=piece.end,
                from_offset=self._wanted,
                end_offset=self._end_offset,
                bounds=self._bounds(piece),
                chunk_bytes=self._chunk_bytes,
            )
            for item in reader:
                if isinstance(item, RecordColumns):
                    if len(item.batches):
                        self.next_offset = max(self.next_offset, int(item.batches.last_offset[-1]) + 1)
                    yield piece.path, item
                elif self._is_new(item, piece):
                    if (end := self._merged_at(piece)) is not None:
                        self.damage.pop()
                        self._wanted = self.next_offset
                        self._pieces.insert(0, piece._replace(end=end))
                        return
                    yield piece.path, item
            self.size_bytes += reader.position - piece.position
            if reader.stopped == "end offset":
                self._pieces, self.is_cut_short = [], True
                return
            is_tail = self._span.ends_log and not self._pieces
            if reader.why_unconfirmed is not None:
                self.unconfirmed = f"{piece.path}, byte {reader.position}: {reader.why_unconfirmed}"
                bounds = self._bounds(piece)._replace(ends_log=False)
                self.held_back = piece._replace(position=reader.position, mark=None, bounds=bounds)
            if is_tail and reader.stopped in ("partial batch", "zeros"):
                self.half_written = piece.path, reader.position, reader.stopped
            if reader.position < piece.end and not is_tail:
                cut_off = _cut_off(file, reader.position, piece.end)
                if self._is_new(cut_off, piece):
                    yield piece.path, cut_off

    def _merged_at(self, piece: SegmentPiece) -> int | None:
        """See SegmentLog.merged_at; None also for a piece that ends before."""
        if piece.file is None or piece.file.next_base_offset is None or piece.end < piece.file.size:
            return None
        copy = list_partition(folder_of(piece.path), self._span.topic, self._span.partition, None)
        return SegmentLog(copy).merged_at(piece.file)

    def _bounds(self, piece: SegmentPiece) -> Bounds:
        return piece.bounds or (piece.file.bounds if piece.file is not None else ANYWHERE)

    def _is_new(self, batch: CorruptBatch, piece: SegmentPiece) -> bool:
        place = (piece.path.rsplit("/", 1)[-1], batch.position)
        is_new = place not in self._known
        if is_new:
            self.damage.append(place)
        return is_new


def _base_offset(piece: SegmentPiece) -> int:
    return piece.file.base_offset if piece.file is not None else 0


@contextmanager
def open_piece(piece: SegmentPiece, opener: Callable[[str], Any] = open_file) -> Iterator[CheckedFile]:
    """The piece's file, opened and checked for the batch at the piece's start. Raises SegmentChanged, OSError."""
    segment = piece.file or SegmentFile(piece.path, 0, piece.end)
    with open_segment(segment, opener) as file:
        if piece.mark is not None:
            file.seek(piece.position)
            if BatchMark.read(file.read(MARK_BYTES)) != piece.mark:
                raise SegmentChanged(f"{piece.path} has another batch at byte {piece.position} than it had")
        yield file


def _cut_off(file: CheckedFile, position: int, end: int) -> CorruptBatch:
    """Damage at the end of a segment that is not the log's last: only the log's tail may be half-written."""
    file.seek(position)
    size = end - position
    detail = f"{size} bytes at the end of a segment that is not the log's last are no whole batch: was the copy cut?"
    return CorruptBatch(position, size, None, None, 1, detail, file.read(min(size, RAW_BYTES)))


# Which of several copies of a partition is read.


class Choice(NamedTuple):
    """One copy per partition, by partition; `notes` has sentences about the copies left out: one for all equal ones."""

    copies: list[PartitionCopy]
    notes: list[str]


class _Looked(NamedTuple):
    """A copy, the newest confirmed leader epoch at its end (-1: none), and its last batch (empty: it has none)."""

    log: SegmentLog
    epoch: int
    end: int
    last: BatchColumns

    @property
    def is_readable(self) -> bool:
        return self.log.copy.unreadable is None and bool(self.log.copy.segments)

    def equals(self, other: _Looked) -> bool:
        mine, others = (each.last.crc.tolist() for each in (self, other))
        return self.is_readable and other.is_readable and self.end == other.end and mine == others

    def __str__(self) -> str:
        copy = self.log.copy
        if not self.is_readable:
            return f"{copy.folder} ({copy.unreadable or NO_SEGMENTS})"
        return f"{copy.folder} (leader epoch {self.epoch}, ends before offset {self.end})"


def choose_copies(copies: Iterable[PartitionCopy]) -> Choice:
    """Among several copies of a partition the one with the newest confirmed leader epoch at its end (KIP-101: a
    follower can lag, or have a tail that was never committed), then the furthest end, then the first given. A copy that
    cannot be read is only chosen if no other one can."""
    by_partition: dict[tuple[str, int], list[PartitionCopy]] = defaultdict(list)
    for copy in copies:
        by_partition[copy.topic, copy.partition].append(copy)
    chosen: list[PartitionCopy] = []
    notes: list[str] = []
    equal: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for (topic, partition), candidates in sorted(by_partition.items()):
        if len(candidates) == 1:
            chosen += candidates
            continue
        looked_at = [_look(copy) for copy in candidates]
        readable = [each for each in looked_at if each.is_readable]
        best = max(readable or looked_at, key=lambda each: (each.epoch, each.end))
        chosen.append(best.log.copy)
        for each in looked_at:
            if each is not best and each.equals(best):
                equal[topic, folder_of(best.log.copy.folder), folder_of(each.log.copy.folder)].append(partition)
        if others := [str(each) for each in looked_at if each is not best and not each.equals(best)]:
            notes.append(f"{topic}-{partition} is read from {best}; not from {', '.join(others)}")
    notes += [
        f"{topic}: {named_partitions(numbers)} in {folder} and in {other} end with the same batch: read from {folder}"
        for (topic, folder, other), numbers in equal.items()
    ]
    return Choice(chosen, notes)


def _look(copy: PartitionCopy) -> _Looked:
    """The end of a copy; without one if it cannot be read."""
    nothing = BatchColumns.empty()
    if copy.unreadable is not None or not copy.segments:
        return _Looked(SegmentLog(copy), -1, 0, nothing)
    try:
        return settled(copy, _end)[1]
    except NotReadable as error:
        return _Looked(SegmentLog(copy._replace(segments=(), unreadable=str(error))), -1, 0, nothing)


def _end(copy: PartitionCopy) -> _Looked:
    log = SegmentLog(copy)
    last = log.last_batch
    return _Looked(log, log.newest_epoch, int(last.last_offset[0]) + 1 if len(last) else 0, last)
