"""The bytes of one range of a log -> chunks of records, corrupt batches, and the progress of reading."""

from __future__ import annotations

from collections.abc import Iterator

from kgroups_spark.decoding.range_progress import RangeProgress, ReadContext
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.sources.partition_log import FetchPiece, SegmentPiece
from kgroups_spark.sources.segment_reading import SegmentReading, Span

# The path of the file (None: fetched), and a part of its content.
Item = tuple[str | None, RecordColumns | CorruptBatch]


class RangeReader:
    """Reads one range of the log `topic`; `progress` is complete when `items` has ended."""

    def __init__(self, log_range: LogRange, context: ReadContext, topic: str, progress: RangeProgress) -> None:
        self.topic = topic
        self.progress = progress
        self._range = log_range
        self._context = context
        self._damaged_to = log_range.start_offset
        self._places_of_damage: dict[int, int] = {}  # taken log offsets, each with the next one that may be free

    def items(self) -> Iterator[Item]:
        """Chunks of records in log order, and the damage between them. The caller adds each chunk to the progress
        (`RangeProgress.note`)."""
        for piece in self._range.pieces:
            if isinstance(piece, FetchPiece):
                yield from self._fetched(piece)
        yield from self._segments([piece for piece in self._range.pieces if isinstance(piece, SegmentPiece)])

    def _segments(self, pieces: list[SegmentPiece]) -> Iterator[Item]:
        log, progress = self._range, self.progress
        span = Span(
            self.topic,
            log.offsets_partition,
            pieces,
            log.start_offset,
            log.end_offset,
            log.ends_log,
            log.known_corrupt,
            end_moves=log.ends_log and not log.is_reread,
        )
        reading = SegmentReading(span, self._context.open_file, chunk_bytes=self._context.chunk_bytes)
        yield from reading.items()
        progress.size_bytes += reading.size_bytes
        progress.listed_to, progress.damage = reading.listed_to, reading.damage
        progress.is_cut_short, progress.unconfirmed = reading.is_cut_short, reading.unconfirmed

    def _fetched(self, piece: FetchPiece) -> Iterator[Item]:
        with self._context.live(piece) as file:
            reader = read_segment(file, from_offset=self._range.start_offset, chunk_bytes=self._context.chunk_bytes)
            for item in reader:
                yield None, item
            self.progress.size_bytes += reader.position
            if left := file.given_bytes - reader.position:
                detail = f"{left} bytes at the end of what the broker has are no whole batch"
                yield None, CorruptBatch(reader.position, left, None, None, 1, detail, b"")
        # A broker returns whole batches up to its high watermark. If there are none at the end, because the cleaner
        # took the last ones or because they are damaged, there is nothing to wait for.
        self.progress.next_offset = max(self.progress.next_offset, piece.end_offset)

    def place_of(self, batch: CorruptBatch, path: str | None) -> int | None:
        """The log offset under which a corrupt batch is quarantined; None: quarantine has it already."""
        progress = self.progress
        log_offset = max(progress.next_offset, self._damaged_to) if batch.base_offset is None else batch.base_offset
        log_offset = self._free_place(log_offset)
        # Only sound batches move next_offset: a broker that recovers truncates a damaged tail and writes there again.
        self._damaged_to = max(self._damaged_to, log_offset + 1 if batch.last_offset is None else batch.last_offset + 1)
        if path is not None and (path.rsplit("/", 1)[-1], batch.position) in self._range.known_corrupt:
            return None
        progress.records += batch.record_count
        progress.quarantined["corrupt_batch"] += 1
        return log_offset

    def _free_place(self, log_offset: int) -> int:
        """The first offset from this one on without damage so far, because keys of quarantine are unique: damage at an
        unknown offset takes the offset of the batch after it."""
        places, free = self._places_of_damage, log_offset
        while free in places:
            free = places[free]
        places[log_offset] = places[free] = free + 1
        return free
