"""A log segment read from front to back: its records, and the bytes that cannot be read.

The scan returns sound batches. Their records must fill them exactly: a batch whose records do not is
returned as CorruptBatch, never in part. Reading always ends, and never raises because of the content.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.batches import (
    HEADER_BYTES,
    LARGEST_BATCH,
    LENGTH_END,
    MAGIC_END,
    PADDING,
    BadBatches,
    Checksums,
    decode_batches,
    decode_legacy,
    next_batch,
    open_bodies,
    read_headers,
    require_believable_counts,
    require_order,
    walk,
)
from kgroups_spark.records.columns import CODEC_MASK, BatchColumns, CorruptBatch, RecordColumns, unaligned
from kgroups_spark.records.damage import Bounds, diagnose, find_batch, in_order, read_claim

# A part of a file in one reused buffer that moves forward.


class BinaryFile(Protocol):
    """The methods that a file must have; Python's binary files and pyarrow's NativeFile have them."""

    def seek(self, position: int, /) -> object: ...

    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Window:
    """The bytes `position` .. `position + filled` of a file as `data` (with padding after) and `view`.

    Bytes are moved to the buffer's front only when half of it is free.
    """

    def __init__(self, file: BinaryFile, position: int, end: int | None, size: int) -> None:
        self._file = file
        self._end = end
        self.position = position
        self.filled = 0
        self.at_end = False  # the file has no bytes after these
        self._start = 0
        self._buffer = np.zeros(0, np.uint8)
        file.seek(position)
        self._enlarge(size if end is None else min(size, max(end - position, 0)))

    def drop(self, size: int) -> None:
        """Drops the first bytes and reads on."""
        self.position += size
        self.filled -= size
        self._start += size
        if 2 * self._start >= self._room:
            self._fill(self._buffer)
        else:
            self._show()

    def grow(self) -> None:
        """Shows more: of the file, or in a buffer of twice the size."""
        if self._start:
            self._fill(self._buffer)
        else:
            self._enlarge(2 * self._room)

    def _enlarge(self, size: int) -> None:
        old, self._room, self._buffer = self._buffer, size, np.empty(size + PADDING, np.uint8)
        self._fill(old)

    def _fill(self, source: NDArray[np.uint8]) -> None:
        """Moves the bytes, which are in `source`, to the buffer's front, and reads on."""
        self._buffer[: self.filled] = source[self._start : self._start + self.filled]
        self._start = 0
        room = self._room
        if self._end is not None:
            room = min(room, max(self._end - self.position, 0))
        view = self._buffer.data
        while self.filled < room and not self.at_end:
            got = self._file.readinto(view[self.filled : room])
            self.filled += got or 0
            self.at_end = not got
        if self._end is not None and self.position + self.filled >= self._end:
            self.at_end = True
        self._show()

    def _show(self) -> None:
        self.data = self._buffer[self._start :]
        self.view = self.data.data


# A log segment's sound batches, in runs, and the bytes that are none, in log order. Records are not read here.
#
# The file is read in chunks of whole batches. Each batch is checked: length, magic, CRC, order of offsets. A batch that
# fails is returned as CorruptBatch. The scan goes on at the next sound batch: at the damaged one's own end if batches
# from there on lead to a sound one, else at the first position where one starts: all that is skipped is one
# CorruptBatch. It always ends, and never raises because of the content.


SMALLEST_CHUNK = 1 << 8
RAW_BYTES = 1 << 20  # of a corrupt batch are kept at most
LOOK_AHEAD = 2  # batches that wait, because the next ones show whether their offsets are in order
# Zeros at the end of the file's last batch that show that its end was never written. Two are enough where zeros follow:
# its last record ends with one, the number of its headers.
TORN_BYTES = 16


@dataclass(frozen=True, eq=False)
class Run:
    """Consecutive sound batches at edges[i] .. edges[i + 1] of the buffer; their records are not read yet."""

    data: NDArray[np.uint8]
    edges: NDArray[np.int64]
    batches: BatchColumns
    base_timestamp: NDArray[np.int64]  # ms

    def __getitem__(self, part: slice) -> Run:
        start, stop, _ = part.indices(len(self.batches))
        return Run(self.data, self.edges[start : stop + 1], self.batches[start:stop], self.base_timestamp[start:stop])

    def __len__(self) -> int:
        return len(self.batches)


class SegmentScan:
    """Reads once, forward. At the end, `stopped` is the reason, and `position` the first byte that is not finished."""

    def __init__(self, file: BinaryFile, position: int, end: int | None, bounds: Bounds, chunk_bytes: int) -> None:
        self.stopped: str | None = None  # "end", "partial batch", "zeros" or "unconfirmed"; None while reading
        self.why_unconfirmed: str | None = None  # the reason why the last batch is held back
        self.held_back = BatchColumns.empty()  # the last batch, and before it one that it contradicts, if held back
        self._bounds = bounds
        self._last_offset = bounds.floor - 1
        self._raw = b""  # the first bytes of the damage through which the search goes
        self._zeros = 0  # bytes before the window's position that are a zero-filled tail
        self._window = Window(file, position, end, max(chunk_bytes, SMALLEST_CHUNK))
        self._sums = Checksums(self._window)

    @property
    def position(self) -> int:
        return self._window.position - self._zeros

    def runs(self) -> Iterator[Run | CorruptBatch]:
        """Runs of consecutive sound batches, as long as possible, and corrupt batches, in log order."""
        window = self._window
        while self.stopped is None:
            if window.filled == 0 and window.at_end:
                self.stopped = "end"
                break
            edges, may_go_on = walk(window.view, window.filled)
            run = Run(window.data, edges, *read_headers(window.data, edges, window.position))
            # A known magic and the right CRC; and an offset that is possible and in order, too.
            is_sound = self._sums.match(edges, run.batches)
            is_good = is_sound.copy()
            if self._bounds.below is not None:
                is_good &= run.batches.last_offset < self._bounds.below
            good = run.batches[is_good]
            is_good[is_good] = in_order(good.base_offset, good.last_offset, self._last_offset)
            take = self._settled(run, is_sound, is_good, may_go_on)
            if window.at_end and self._bounds.ends_log:
                take = self._confirmed(run, is_sound, is_good, take)
                if not take and self.why_unconfirmed is not None:
                    self.stopped, self.held_back = "unconfirmed", run.batches[np.flatnonzero(is_sound)]
                    break
            # Damage is kept until its lengths lead to a sound batch, but not all of a file.
            has_room = is_good.all() or window.filled <= LARGEST_BATCH + LENGTH_END
            if take:
                changes = np.flatnonzero(np.diff(is_good[:take])) + 1
                for start, stop in pairwise([0, *changes.tolist(), take]):
                    part = run[start:stop]
                    if is_good[start]:
                        yield part
                        self._last_offset = int(part.batches.last_offset[-1])
                        self._bounds = self._bounds.after(part.batches)
                        continue
                    next_offset = int(run.batches.base_offset[stop]) if stop < len(run) else None
                    for pos, end in pairwise(part.edges.tolist()):
                        yield self._corrupt(pos, end, next_offset)
                window.drop(int(edges[take]))
            elif not window.at_end and may_go_on and self._may_go_on_at(int(edges[-1])) and has_room:
                window.grow()
            else:
                yield from self._search()

    def _settled(self, run: Run, is_sound: NDArray[np.bool_], is_good: NDArray[np.bool_], may_go_on: bool) -> int:
        """How many batches end for certain, because a sound batch or the file's end follows."""
        window, count, end = self._window, len(run), int(run.edges[-1])
        if window.at_end and end == window.filled:
            return count - (count > 0 and not is_sound[-1] and self._is_torn(int(run.edges[-2]), end))
        good = np.flatnonzero(is_good)
        certain = int(good[-1]) + 1 if good.size else 0
        if window.at_end or not may_go_on or not self._may_go_on_at(end):
            return certain
        waiting = np.flatnonzero(is_sound[max(count - LOOK_AHEAD, 0) :])
        return min(certain, max(count - LOOK_AHEAD, 0) + int(waiting[0])) if waiting.size else certain

    def _confirmed(self, run: Run, is_sound: NDArray[np.bool_], is_good: NDArray[np.bool_], take: int) -> int:
        """The number of the first batches of the run that can be believed, `take` if nothing else is said: the log's
        last batch is held back if its offset is not in order or not confirmed (`Bounds`), down to 0 batches.

        With it goes a batch right before it that is not in order with it. If a sound batch follows after damage, it
        confirms or refutes the last one.
        """
        sound, good = np.flatnonzero(is_sound), np.flatnonzero(is_good)
        if not sound.size or is_good[take:].any():
            return take
        last = int(sound[-1])
        first_offset = int(run.batches.base_offset[last])
        if run.batches.magic[last] < 2 and run.batches.attributes[last] & CODEC_MASK:
            # The header of a compressed message of magic 0 or 1 has its last record's offset.
            with suppress(BadBatches):
                one = run[last : last + 1]
                first_offset = int(decode_legacy(one.data, one.edges, one.batches)[0].offset[0])
        last_offset = int(run.batches.last_offset[last])
        before = self._bounds.after(run.batches[good[good < last]])
        damaged_to = int(run.batches.last_offset[last - 1]) + 1 if last else None
        why = before.unconfirmed(first_offset, last_offset, damaged_to) if is_good[last] else ""
        if why is None:
            return take
        window, after = self._window, int(run.edges[last + 1])
        found = find_batch(window.data, after, window.filled, before.floor - 1, at_end=True, sums=self._sums)
        if found is not None:
            is_good[last] &= int(unaligned(window.data, ">i8")[found.position]) > last_offset
            return take
        self.why_unconfirmed = why or f"it says offset {first_offset}, which is impossible there"
        while last and is_sound[last - 1] and not is_good[last - 1]:
            last -= 1
        return last

    def _is_torn(self, start: int, end: int) -> bool:
        """Whether there are zeros from the inside of the batch start .. end to the file's end: it is half-written."""
        window = self._window
        zeros = max(start + HEADER_BYTES, end - (TORN_BYTES if end == window.filled else 2))
        return window.at_end and zeros < end and not window.data[zeros : window.filled].any()

    def _may_go_on_at(self, pos: int) -> bool:
        """Whether a batch that is not in the window as a whole can start at `pos`, by its length and magic alone."""
        window = self._window
        if pos + MAGIC_END > window.filled:
            return True
        return window.view[pos + 16] <= 2 and next_batch(window.view, pos, window.filled, whole=False) is not None

    def _search(self) -> Iterator[CorruptBatch]:
        """The window starts with damage of unknown size: moves it to the next sound batch, or to the file's end."""
        window, begin, start = self._window, self._window.position, 1
        # The whole batch that the damage claims to be is shown, if the file has it, for the detail.
        while not window.at_end and next_batch(window.view, 0, window.filled, whole=False) is not None:
            if next_batch(window.view, 0, window.filled) is not None:
                break
            window.grow()
        first = self._corrupt(0, window.filled, keeps_raw=False)
        claimed = next_batch(window.view, 0, window.filled, whole=False)
        self._raw = b""
        while True:
            found = find_batch(
                window.data, start, window.filled, self._last_offset, at_end=window.at_end, sums=self._sums
            )
            if found and found.is_whole:
                self._let_go(found.position)
                self._zeros = 0
                break
            if window.at_end and window.position == begin:
                yield from self._tail()
                return
            if window.position == begin and window.filled <= LARGEST_BATCH + LENGTH_END:
                # Only all of the bytes show whether this is the file's tail, and of which kind.
                start = found.position if found else max(window.filled - HEADER_BYTES, start)
                window.grow()
                continue
            if window.at_end:
                self._let_go(window.filled)
                self._zeros = self._zeros if self._zeros >= HEADER_BYTES else 0  # fewer may be a batch's own
                self.stopped = "zeros" if self._zeros else "end"
                break
            if found and found.position < window.filled // 2 - HEADER_BYTES:
                window.grow()
                start = found.position
                continue
            self._let_go(found.position if found else max(window.filled - HEADER_BYTES, 1))
            start = 0
        if size := self.position - begin:
            # If a damaged batch ends where its header claims, the detail does not mention the size.
            what = first.detail if size == claimed else f"{size} bytes are not a batch: {first.detail}"
            yield first._replace(size=size, raw=self._raw[:size], detail=what)

    def _let_go(self, size: int) -> None:
        """Drops bytes of damage. Keeps the first bytes of the whole damage, and counts the zeros at its end."""
        self._raw += bytes(self._window.view[: min(size, RAW_BYTES - len(self._raw))])
        others = np.flatnonzero(self._window.data[:size])
        self._zeros = size - 1 - int(others[-1]) if others.size else self._zeros + size
        self._window.drop(size)

    def _tail(self) -> Iterator[CorruptBatch]:
        """The window holds the rest of the file, without a sound batch."""
        window = self._window
        edges = walk(window.view, window.filled)[0].tolist()
        is_torn = len(edges) > 1 and self._is_torn(*edges[-2:])
        edges = edges[:-1] if is_torn else edges
        for pos, end in pairwise(edges):
            yield self._corrupt(pos, end)
        window.drop(edges[-1])
        if is_torn:
            self.stopped = "partial batch"
        elif not window.data[: window.filled].any():
            self.stopped = "zeros" if window.filled else "end"
        elif (
            window.filled < HEADER_BYTES
            or not window.data[LENGTH_END : window.filled].any()
            or read_claim(window.view, 0, window.filled, self._last_offset)
        ):
            self.stopped = "partial batch"
        else:
            yield self._corrupt(0, window.filled)
            window.drop(window.filled)
            self.stopped = "end"

    def _corrupt(self, start: int, end: int, next_offset: int | None = None, *, keeps_raw: bool = True) -> CorruptBatch:
        """The bytes start .. end of the window as a corrupt batch, with the believable fields of its header."""
        window = self._window
        claim = read_claim(window.view, start, window.filled, self._last_offset)
        if next_offset is None:
            next_offset = self._bounds.below
        if claim and next_offset is not None and claim.last_offset >= next_offset:
            claim = None
        return CorruptBatch(
            position=window.position + start,
            size=end - start,
            base_offset=claim.base_offset if claim else None,
            last_offset=claim.last_offset if claim else None,
            record_count=claim.record_count if claim else 1,
            detail=diagnose(window.view, start, end, self._last_offset, self._sums),
            raw=bytes(window.view[start : min(end, start + RAW_BYTES)]) if keeps_raw else b"",
        )


CHUNK_BYTES = 8 << 20
# The most records returned together, however many a batch holds: one that cannot be decoded may cost a kilobyte.
RECORDS_AT_ONCE = 1 << 17
# The same for the bytes of large values: decoded, one of a MB may cost 140 MB.
LARGE_VALUE = 1 << 16
LARGE_BYTES_AT_ONCE = 2 << 20
ANYWHERE = Bounds()


def read_segment(
    file: BinaryFile,
    *,
    position: int = 0,
    end: int | None = None,
    from_offset: int = 0,
    end_offset: int | None = None,
    bounds: Bounds = ANYWHERE,
    chunk_bytes: int = CHUNK_BYTES,
) -> SegmentReader:
    """The records of a segment from byte `position` (a batch border) to byte `end`, in chunks, and its corrupt
    batches, in log order.

    Records below from_offset are left out, as are corrupt batches wholly below it. Reading ends before the first sound
    batch that is not wholly below end_offset. `bounds`: where its batches can be. The data of each RecordColumns
    is valid until the next is requested. A half-written or zero-filled tail ends the reading: see `stopped`.
    """
    scan = SegmentScan(file, position, end, bounds, chunk_bytes)
    return SegmentReader(scan, from_offset, end_offset, bounds.floor - 1)


def scan_batches(file: BinaryFile, **how: Any) -> BatchColumns:
    """Headers of all sound batches, without their records. Compressed messages of magic 0 and 1 are not decompressed:
    their base offset and count are those of their last message."""
    return scan_headers(file, **how)[0]


def scan_headers(
    file: BinaryFile,
    *,
    position: int = 0,
    end: int | None = None,
    bounds: Bounds = ANYWHERE,
    chunk_bytes: int = CHUNK_BYTES,
) -> tuple[BatchColumns, BatchColumns]:
    """The same, and the headers of batches that are held back at the log's end."""
    scan = SegmentScan(file, position, end, bounds, chunk_bytes)
    found = [run.batches for run in scan.runs() if isinstance(run, Run)]
    return BatchColumns.concat(found), scan.held_back


class SegmentReader:
    """Reads once, forward. After the last item, `position` is where reading stopped, and `stopped` the reason."""

    def __init__(self, scan: SegmentScan, from_offset: int, end_offset: int | None, decoded_to: int) -> None:
        """`decoded_to`: every record's offset is above it."""
        self._scan = scan
        self._from_offset = from_offset
        self._end_offset = end_offset
        self._decoded_to = decoded_to
        self._past_end_at: int | None = None  # the position of the first batch that ends at or after end_offset

    @property
    def position(self) -> int:
        """The position in the file of the first byte that is not finished."""
        return self._scan.position if self._past_end_at is None else self._past_end_at

    @property
    def stopped(self) -> str | None:
        """`end`, `partial batch`, `zeros`, `end offset` or `unconfirmed`; None while reading."""
        return "end offset" if self._past_end_at is not None else self._scan.stopped

    @property
    def why_unconfirmed(self) -> str | None:
        """The reason why the last batch is held back; None: it is not."""
        return self._scan.why_unconfirmed

    def __iter__(self) -> Iterator[RecordColumns | CorruptBatch]:
        for run in self._scan.runs():
            if isinstance(run, Run):
                start = int(np.searchsorted(run.batches.last_offset, self._from_offset))
                stop = len(run)
                if self._end_offset is not None:
                    stop = int(np.searchsorted(run.batches.last_offset, self._end_offset))
                    self._past_end_at = int(run.batches.position[stop]) if stop < len(run) else None
                yield from self._decode(run[start:stop])
                if self._past_end_at is not None:
                    return
            elif self._end_offset is not None and run.base_offset is not None and run.base_offset >= self._end_offset:
                continue
            elif run.last_offset is None or run.last_offset >= self._from_offset:
                yield run

    def _decode(self, run: Run) -> Iterator[RecordColumns | CorruptBatch]:
        """The records of sound batches of any magic."""
        while len(run):
            # Batches that are all of magic 2, or all of the old formats.
            is_old = run.batches.magic < 2
            alike = run[: int(np.argmin(is_old == is_old[0])) or len(run)]
            try:
                require_believable_counts(alike.batches)
                if is_old[0]:
                    records, count = decode_legacy(alike.data, alike.edges, alike.batches)
                else:
                    bodies = open_bodies(alike.data, alike.edges, alike.batches)
                    some = alike[: len(bodies)]
                    records, count = decode_batches(bodies, some.batches, some.base_timestamp), len(some)
                require_order(records.batches, self._decoded_to)
            except BadBatches as err:
                yield from self._decode_around(alike, err.details)
                run = run[len(alike) :]
                continue
            self._decoded_to = int(records.batches.last_offset[-1])
            if records.batches.base_offset[0] < self._from_offset:
                records = records.take(records.offset >= self._from_offset)
            length = records.value_length
            large = np.cumsum(np.where(length > LARGE_VALUE, length, 0), dtype=np.int64)
            piece = np.arange(len(records)) // RECORDS_AT_ONCE + large // LARGE_BYTES_AT_ONCE
            for start, stop in pairwise([0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(records)]):
                yield records if stop - start == len(records) else records.take(slice(start, stop))
            run = run[count:]

    def _decode_around(self, run: Run, details: dict[int, str]) -> Iterator[RecordColumns | CorruptBatch]:
        start = 0
        for bad in sorted(details):
            yield from self._decode(run[start:bad])
            batches, count = run.batches, int(run.batches.record_count[bad])
            room = int(batches.last_offset[bad] - batches.base_offset[bad]) + 1
            yield CorruptBatch(
                position=int(batches.position[bad]),
                size=int(batches.size[bad]),
                base_offset=int(batches.base_offset[bad]),
                last_offset=int(batches.last_offset[bad]),
                record_count=count if 0 <= count <= room else 1,
                detail=details[bad],
                raw=run.data[run.edges[bad] : run.edges[bad + 1]][:RAW_BYTES].tobytes(),
            )
            start = bad + 1
        yield from self._decode(run[start:])
