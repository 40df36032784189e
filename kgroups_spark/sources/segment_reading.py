"""A partition's records from its segment files, while a broker's cleaner works on them.

A plan names files and positions in them. Before and while they are read, the cleaner may replace a segment by a smaller
one of the same name, merge several into one, rename and delete. An opened file on a local disk stays readable. After
any other change the partition is planned again: it is listed, and read on from the first offset not yet returned, up to
the end of its log at that listing.

That end is needed because the cleaner drops a record for a newer one of the same key, which may be after the planned
end. It never cleans the active segment, and never drops a record for one that is not in the log yet. So the records
read from earlier files, together with those listed now, include every record of the log at this listing, and the result
is a state that existed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kgroups_spark.records.bounds import Bounds
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.records.headers import MARK_BYTES, BatchMark
from kgroups_spark.records.scan import RAW_BYTES
from kgroups_spark.records.segment import ANYWHERE, CHUNK_BYTES, read_segment
from kgroups_spark.sources.partition_log import SegmentPiece
from kgroups_spark.sources.segment_file import CheckedFile, SegmentChanged, SegmentFile, UnreadableSegment, open_segment
from kgroups_spark.sources.segment_log import SegmentLog
from kgroups_spark.sources.segments import keeps_changing, list_partition, settled
from kgroups_spark.storage.files import folder_of, open_file

# The most plans of a piece without a record read from it.
MOST_PLANS = 20

Damage = tuple[str, int]  # name of a segment file, and a position in it


@dataclass(frozen=True)
class Span:
    """Offsets `start_offset` .. `end_offset` - 1 of a partition (None: to the log's end), in the files of `pieces`.

    `end_moves`: the end is the committed offset (None: unknown) at the last listing. `ends_log`: the last piece is the
    log's last, which may have a half-written end. `known_corrupt`: damage to leave out.
    """

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
        """Records and corrupt batches with the path of their file, in log order. Raises UnreadableSegment,
        KeepsChanging, and FolderNotFound if the whole partition is gone."""
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
                raise UnreadableSegment(f"{piece.path} cannot be read: {err}") from err

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
                    yield piece.path, item
            self.size_bytes += reader.position - piece.position
            if reader.stopped == "end offset":
                self._pieces, self.is_cut_short = [], True
                return
            is_tail = self._span.ends_log and not self._pieces
            if reader.why_unconfirmed is not None:
                self.unconfirmed = f"{piece.path}, byte {reader.position}: {reader.why_unconfirmed}"
                bounds = replace(self._bounds(piece), ends_log=False)
                self.held_back = replace(piece, position=reader.position, mark=None, bounds=bounds)
            if is_tail and reader.stopped in ("partial batch", "zeros"):
                self.half_written = piece.path, reader.position, reader.stopped
            if reader.position < piece.end and not is_tail:
                cut_off = _cut_off(file, reader.position, piece.end)
                if self._is_new(cut_off, piece):
                    yield piece.path, cut_off

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
    detail = f"{size} bytes at the end of a segment that is not the log's last are no whole batch"
    return CorruptBatch(position, size, None, None, 1, detail, file.read(min(size, RAW_BYTES)))
