"""A log segment's sound batches, in runs, and the bytes that are none, in log order. Records are not read here.

The file is read in chunks of whole batches. Each batch is checked: length, magic, CRC, order of offsets. A batch that
fails is returned as CorruptBatch. The scan goes on at the next sound batch: at the damaged one's own end if a sound
batch starts there, else at the first position where one does. It always ends, and never raises because of the content.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.batches import BadBatches
from kgroups_spark.records.bounds import Bounds
from kgroups_spark.records.checksums import Checksums
from kgroups_spark.records.columns import CODEC_MASK, BatchColumns, CorruptBatch
from kgroups_spark.records.damage import diagnose, find_batch, find_batches, in_order, read_claim
from kgroups_spark.records.headers import (
    HEADER_BYTES,
    LARGEST_BATCH,
    LENGTH_END,
    MAGIC_END,
    claimed_checksum,
    next_batch,
    read_headers,
    walk,
)
from kgroups_spark.records.legacy import decode_legacy
from kgroups_spark.records.slices import unaligned
from kgroups_spark.records.window import BinaryFile, Window

SMALLEST_CHUNK = 1 << 8
RAW_BYTES = 1 << 20  # of a corrupt batch are kept at most
# As many damaged batches in a row, or fewer, are reported one by one if their lengths lead to a sound one.
MOST_UNLINKED = 16
LOOK_AHEAD = 2  # batches that wait, because the next ones show whether their offsets are in order
TORN_BYTES = 16  # zeros at the end of a batch, and up to the file's end, that show that its end was never written


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


def _first_offset(run: Run, i: int) -> int:
    """The offset of a batch's first record. The header of a compressed message of magic 0 or 1 has the last one's."""
    if run.batches.magic[i] < 2 and run.batches.attributes[i] & CODEC_MASK:
        with suppress(BadBatches):
            one = run[i : i + 1]
            return int(decode_legacy(one.data, one.edges, one.batches)[0].offset[0])
    return int(run.batches.base_offset[i])


def _before_long_damage(is_good: NDArray[np.bool_], take: int) -> int:
    """How many of the first `take` batches come before more than MOST_UNLINKED damaged ones in a row that end at a
    sound one: lengths alone do not show batches."""
    changes = np.flatnonzero(np.diff(is_good[:take])) + 1
    for start, stop in pairwise([0, *changes.tolist()]):
        if not is_good[start] and stop - start > MOST_UNLINKED:
            return start
    return take


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
        # Damaged batches in a row whose lengths led from one to the next so far, and the last one's last offset.
        self._links_before, self._linked_to = 0, -1

    @property
    def position(self) -> int:
        return self._window.position - self._zeros

    def runs(self) -> Iterator[Run | CorruptBatch]:
        """Runs of consecutive sound batches, as long as possible, and corrupt batches, in log order."""
        window = self._window
        while self.stopped is None:
            edges, may_go_on = walk(window.view, window.filled)
            run = Run(window.data, edges, *read_headers(window.data, edges, window.position))
            is_sound, is_good = self._judge(run)
            take = _before_long_damage(is_good, self._settled(run, is_sound, is_good, may_go_on))
            if window.at_end and self._bounds.ends_log:
                take = self._confirmed(run, is_sound, is_good, take)
                if not take and self.why_unconfirmed is not None:
                    self.stopped, self.held_back = "unconfirmed", run.batches[np.flatnonzero(is_sound)]
                    break
            if take:
                self._links_before = 0
                yield from self._dealt_with(run, is_good, take)
            elif window.filled == 0 and window.at_end:
                self.stopped = "end"
            elif (
                (is_good.all() or (is_sound[0] and len(run) <= LOOK_AHEAD))
                and not window.at_end
                and may_go_on
                and self._may_go_on_at(int(edges[-1]))
            ):
                window.grow()
            else:
                yield from self._damage(run, is_good, may_go_on)

    def _dealt_with(self, run: Run, is_good: NDArray[np.bool_], take: int) -> Iterator[Run | CorruptBatch]:
        """Yields the first batches of the run and drops them from the window."""
        consumed = yield from self._take(run, is_good, take)
        self._window.got_on(consumed)
        self._window.drop(consumed)

    def _damage(self, run: Run, is_good: NDArray[np.bool_], may_go_on: bool) -> Iterator[Run | CorruptBatch]:
        """The window starts with damage, and no sound batch follows at the end that its header claims."""
        window, end = self._window, int(run.edges[-1])
        damaged = int(np.argmax(is_good)) if is_good.any() else len(run)
        may_show_more = may_go_on and not window.at_end and self._may_go_on_at(end)
        if damaged == len(run) <= MOST_UNLINKED and may_show_more:
            window.grow()
            return
        ends = self._linked_ends(run.edges[: damaged + 1])
        links = len(ends)
        # Two in a row can be chance, and the end of the last one is not confirmed.
        if links + self._links_before > LOOK_AHEAD and links > 1:
            self._links_before += links - 1
            self._linked_to = ends[links - 2]
            yield from self._dealt_with(run, is_good, links - 1)
        else:
            self._links_before = 0
            yield from self._search()

    def _linked_ends(self, edges: NDArray[np.int64]) -> list[int]:
        """The last offsets of the damaged batches at the window's start whose headers still lead from one to the next,
        with offsets in order. A log whose batches are all damaged, because their content was edited, say, is thus
        reported one batch at a time."""
        window, ends = self._window, list[int]()
        above = self._linked_to if self._links_before else self._last_offset
        for pos in edges[:-1].tolist():
            claim = read_claim(window.view, pos, window.filled, above)
            if claim is None:
                break
            above = claim.last_offset
            ends.append(above)
        return ends

    def _judge(self, run: Run) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For each batch, whether it has a known magic and the right CRC; and whether it has both, and its offset is
        possible and in order."""
        batches = run.batches
        is_sound = self._sums.match(run.edges, batches)
        is_good = is_sound.copy()
        if self._bounds.below is not None:
            is_good &= batches.last_offset < self._bounds.below
        good = np.flatnonzero(is_good)
        is_good[good] = in_order(batches.base_offset[good], batches.last_offset[good], self._last_offset)
        return is_sound, is_good

    def _settled(self, run: Run, is_sound: NDArray[np.bool_], is_good: NDArray[np.bool_], may_go_on: bool) -> int:
        """The number of batches that can be finished now: their end is certain, because a sound batch or the file's end
        follows."""
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
        last, first_offset = int(sound[-1]), _first_offset(run, int(sound[-1]))
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
        window, zeros = self._window, max(start + HEADER_BYTES, end - TORN_BYTES)
        return window.at_end and zeros < end and not window.data[zeros : window.filled].any()

    def _may_go_on_at(self, pos: int) -> bool:
        """Whether a batch that the window does not show completely can start at `pos`, by its length and magic alone:
        only a whole batch can be checked."""
        window = self._window
        if pos + MAGIC_END > window.filled:
            return True
        return window.view[pos + 16] <= 2 and next_batch(window.view, pos, window.filled, whole=False) is not None

    def _take(self, run: Run, is_good: NDArray[np.bool_], take: int) -> Generator[Run | CorruptBatch, None, int]:
        """Yields the first batches of the run; returns the number of bytes that are finished."""
        changes = np.flatnonzero(np.diff(is_good[:take])) + 1
        for start, stop in pairwise([0, *changes.tolist(), take]):
            part = run[start:stop]
            if is_good[start]:
                yield part
                self._last_offset = int(part.batches.last_offset[-1])
                self._bounds = self._bounds.after(part.batches)
                continue
            next_offset = int(run.batches.base_offset[stop]) if stop < len(run) else None
            edges = part.edges.tolist()
            leads_to_edge = dict.fromkeys(edges[1:], True)
            for pos, end in pairwise(edges):
                if sound := self._swallowed(pos, end, edges[-1], leads_to_edge):
                    yield self._corrupt(pos, sound)
                    return sound
                yield self._corrupt(pos, end, next_offset)
        return int(run.edges[take])

    def _swallowed(self, start: int, end: int, stretch_end: int, leads_to_edge: dict[int, bool]) -> int | None:
        """Where sound batches begin inside a damaged one whose length is too large, or which lost bytes; None: nowhere.

        They have to lead to the end of a batch in the damaged stretch. Otherwise bytes that a client stored in a record
        could pass as batches. The end may be another batch's, because the bytes there can look like a header by chance.
        """
        data, above = self._window.data, self._last_offset
        for found in find_batches(data, start + 1, stretch_end, above, at_end=True, before=end, sums=self._sums):
            if self._leads_to(found.position, stretch_end, leads_to_edge):
                return found.position
        return None

    def _leads_to(self, pos: int, end: int, known: dict[int, bool]) -> bool:
        """Whether sound batches lead from `pos` to `end`. `known` keeps the answer for each position on the way, so
        that none is checked twice."""
        way: list[int] = []
        while pos not in known:
            way.append(pos)
            after = next_batch(self._window.view, pos, end)
            if after is None or self._sums.of(pos, after) != claimed_checksum(self._window.view, pos):
                known[pos] = False
                break
            pos = after
        known.update(dict.fromkeys(way, known[pos]))
        return known[pos]

    def _search(self) -> Iterator[CorruptBatch]:
        """The window starts with damage of unknown size: moves it to the next sound batch, or to the file's end."""
        window, begin, start = self._window, self._window.position, 1
        self._show_claim()
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
            yield replace(first, size=size, raw=self._raw[:size], detail=what)

    def _show_claim(self) -> None:
        """Shows the whole batch that the damage at the window's start claims to be, if the file has it, for the
        detail."""
        window = self._window
        while not window.at_end and next_batch(window.view, 0, window.filled, whole=False) is not None:
            if next_batch(window.view, 0, window.filled) is not None:
                return
            window.grow()

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
        elif window.filled < HEADER_BYTES or read_claim(window.view, 0, window.filled, self._last_offset):
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
