"""The batches of one answer of a broker, and those after which the read can go on."""

from __future__ import annotations

import io
import struct

import numpy as np

from kgroups_spark.records.checksums import Buffer, Checksums
from kgroups_spark.records.columns import CODEC_MASK, CorruptBatch
from kgroups_spark.records.damage import diagnose, find_batch, in_order
from kgroups_spark.records.headers import claimed_checksum, walk
from kgroups_spark.records.segment import read_segment
from kgroups_spark.records.slices import unaligned

LOOK_BACK = 8  # batches at the end of an answer whose CRC and order are checked before the read goes on after them

_read_i64 = struct.Struct(">q").unpack_from
_read_i32 = struct.Struct(">i").unpack_from


class FetchedBatches:
    """The whole batches of an answer, and the damage between them, by number.

    `trusted`: the number of batches up to the last one after which the read can go on: sound, with a possible offset. A
    damaged batch may claim an offset far beyond its own, and the records between would be skipped.
    """

    def __init__(self, records: bytes, next_offset: int, high_watermark: int) -> None:
        self._view = memoryview(records)
        self._sums = Checksums(Buffer(self._view))
        self._next_offset = next_offset
        self._high_watermark = high_watermark
        edges, self._may_go_on = walk(self._view, len(records))
        self._edges: list[int] = edges.tolist()
        self._is_left = False
        self._before_last: int | None = None  # the sound batch in order before the last trusted one
        self._damage: set[int] = set()  # numbers of parts without a credible header
        self.trusted = self._count_trusted()

    @property
    def leaves_gap(self) -> bool:
        """Whether offsets are missing before the last trusted batch, with which the answer ends: no later batch
        confirms its offset, and no CRC covers it. After damage a gap is normal."""
        last = self.trusted - 1
        if self.trusted != len(self._edges) - 1 or (last and self._before_last != last - 1):
            return False
        return self.base_offset(last) > (self.last_offset(last - 1) + 1 if last else self._next_offset)

    def leave_last(self) -> int:
        """`trusted` without the last batch, which is left to the next answer, together with the batches after it."""
        self.trusted -= 1
        self._is_left = True
        return self.trusted

    def look_past_cut(self) -> int:
        """`trusted`, if the batch that seems cut at the end is not a batch: its length is too large."""
        if self._may_go_on and self._find_next():
            self.trusted = self._count_trusted()
        return self.trusted

    def claimed_next(self) -> int | None:
        """The offset after the last whole batch, if its header has a possible one."""
        number = len(self._edges) - 2
        if number < 0 or number in self._damage or self._view[self._edges[number] + 16] > 2:
            return None
        after = self.last_offset(number) + 1
        return after if self._next_offset < after <= self._high_watermark else None

    @property
    def doubtful(self) -> bytes:
        """The bytes after the trusted batches; empty if they are only the beginning of a batch, or if a sound batch was
        left to the next answer."""
        is_cut_batch = self._may_go_on and self.trusted == len(self._edges) - 1
        return b"" if is_cut_batch or self._is_left else bytes(self._view[self._edges[self.trusted] :])

    @property
    def diagnosis(self) -> str:
        end = self._edges[1] if len(self._edges) > 1 else len(self._view)
        return diagnose(self._view, 0, end, self._next_offset - 1, self._sums)

    def between(self, start: int, stop: int) -> memoryview:
        return self._view[self._edges[start] : self._edges[stop]]

    def base_offset(self, i: int) -> int:
        """The base offset. For a compressed message of magic 0 or 1, whose header has only the last offset, its first
        record's; for damage, one that is not above any later batch's."""
        if i in self._damage:
            return self._next_offset
        pos, reported = self._edges[i], self._reported_offset(i)
        is_compressed_message = self._view[pos + 16] < 2 and self._view[pos + 17] & CODEC_MASK
        return self._first_offset(i, reported) if is_compressed_message else reported

    def first_after(self, offset: int) -> int:
        """The trusted ones from this number on have a base offset of at least `offset`."""
        at = np.array(self._edges[: self.trusted], np.int64)
        reported = unaligned(np.frombuffer(self._view, np.uint8), ">i8")[at]
        before = np.flatnonzero(reported < offset)
        first = int(before[-1]) + 1 if before.size else 0
        return first + (first < self.trusted and self.base_offset(first) < offset)

    def last_offset(self, i: int) -> int:
        if i in self._damage:
            return self._next_offset - 1
        pos, reported = self._edges[i], self._reported_offset(i)
        return reported + int(_read_i32(self._view, pos + 23)[0]) if self._view[pos + 16] == 2 else reported

    def span(self, i: int) -> int:
        """The number of its offsets."""
        return self.last_offset(i) - self.base_offset(i) + 1

    def leader_epoch(self, i: int) -> int | None:
        """The leader epoch; None: a message of magic 0 or 1 has none."""
        pos = self._edges[i]
        return int(_read_i32(self._view, pos + 12)[0]) if self._view[pos + 16] == 2 else None

    def _count_trusted(self) -> int:
        while not self._may_go_on and self._find_next():
            pass
        stop = len(self._edges) - 1
        while stop:
            start = max(stop - LOOK_BACK, 0)
            sound = [i for i in range(start, stop) if self._is_sound(i)]
            # The very first batch has the requested offset, and may begin before it.
            first = np.array([self._reported_offset(i) if i else self._next_offset for i in sound], np.int64)
            last = np.array([self.last_offset(i) for i in sound], np.int64)
            if len(sound) > 1 and first[-1] <= last[-2]:
                # Without a batch after these two it is unknown which of them is wrong.
                first, last = first[:-2], last[:-2]
            if (kept := np.flatnonzero(in_order(first, last, self._next_offset - 1))).size:
                self._before_last = sound[int(kept[-2])] if kept.size > 1 else None
                return sound[int(kept[-1])] + 1
            stop = start
        return 0

    def _find_next(self) -> bool:
        """Continues at the next sound batch after an impossible header."""
        pos = self._edges[-1]
        above = self.last_offset(len(self._edges) - 2) if len(self._edges) > 1 else self._next_offset - 1
        data = np.frombuffer(self._view, np.uint8)
        found = find_batch(data, pos + 1, len(data), above, at_end=True, sums=self._sums)
        if found is None:
            return False
        self._damage.add(len(self._edges) - 1)
        edges, self._may_go_on = walk(self._view, len(data), found.position)
        self._edges += edges.tolist()
        return True

    def _is_sound(self, i: int) -> bool:
        """Whether its CRC is correct, and it is before the high watermark."""
        start, end = self._edges[i], self._edges[i + 1]
        if i in self._damage or self.last_offset(i) >= self._high_watermark:
            return False
        return self._sums.of(start, end) == claimed_checksum(self._view, start)

    def _reported_offset(self, i: int) -> int:
        return int(_read_i64(self._view, self._edges[i])[0])

    def _first_offset(self, i: int, last_offset: int) -> int:
        one = self.between(i, i + 1)
        first = next(read_segment(io.BytesIO(one), chunk_bytes=len(one)))
        return last_offset if isinstance(first, CorruptBatch) else int(first.offset[0])
