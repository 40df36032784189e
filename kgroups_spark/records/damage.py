"""The search for sound batches among damaged ones.

A batch's CRC covers neither its position, its length, its offset nor its leader epoch. This module therefore answers
three questions about bytes of a log: is the offset in order, where does the next sound batch start, and which fields of
a damaged header can be believed.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.records.batches import (
    HEADER_BYTES,
    LARGEST_BATCH,
    LENGTH_END,
    MAGIC_END,
    SMALLEST_LENGTH,
    SMALLEST_RECORD,
    Checksums,
    claimed_checksum,
)
from kgroups_spark.records.columns import CODEC_MASK, BatchColumns, unaligned

FIRST_SEARCH_BYTES = 1 << 14  # positions searched in the first step: the next batch is mostly near; each step doubles
LARGEST_SEARCH_BYTES = 1 << 20


_unpack_offset_and_length = struct.Struct(">qi").unpack_from
_unpack_header = struct.Struct(">qiibIhiqqqhii").unpack_from
_unpack_length = struct.Struct(">i").unpack_from


class Claim(NamedTuple):
    """The fields of bytes that look like a header."""

    base_offset: int
    last_offset: int
    record_count: int
    size: int  # bytes
    crc: int


def in_order(first: NDArray[np.int64], last: NDArray[np.int64], before: int) -> NDArray[np.bool_]:
    """Which batches stay if offsets have to increase, and the first one has to be above `before`.

    If two batches are in the wrong order, the odd one is dropped: the later one if the batch after them fits after the
    earlier one, or if there is none; otherwise the earlier one. If only the removal of the earlier one leaves a gap
    that the removed offsets fit into, the earlier one is dropped in any case: in a log without gaps that is the damaged
    one.
    """
    stays = np.ones(len(first), np.bool_)
    if not len(first) or (first[0] > before and (first[1:] > last[:-1]).all() and (last >= first).all()):
        return stays
    firsts: list[int] = first.tolist()
    lasts: list[int] = last.tolist()
    kept: list[int] = []

    def span(i: int) -> int:
        return lasts[i] - firsts[i] + 1

    for i in range(len(firsts)):
        floor = lasts[kept[-1]] if kept else before
        floor_without_last = lasts[kept[-2]] if len(kept) > 1 else before
        if lasts[i] < firsts[i]:
            continue
        if firsts[i] > floor:
            kept.append(i)
        elif kept and firsts[i] > floor_without_last:
            has_next = i + 1 < len(firsts)
            follows = has_next and firsts[i + 1] > floor
            later_has_room = follows and firsts[i + 1] - floor > span(i)
            earlier_has_room = firsts[i] - floor_without_last > span(kept[-1])
            if (has_next and not follows) or (earlier_has_room and not later_has_room):
                kept[-1] = i
    stays[:] = False
    stays[kept] = True
    return stays


def read_claim(buffer: memoryview, pos: int, filled: int, above: int) -> Claim | None:
    """The header at `pos`; None if no batch with offsets above `above` has such a header. The CRC is not checked."""
    if pos + MAGIC_END > filled:
        return None
    offset, length = _unpack_offset_and_length(buffer, pos)
    if offset <= above or not SMALLEST_LENGTH <= length <= LARGEST_BATCH:
        return None
    size, magic = LENGTH_END + length, buffer[pos + 16]
    if magic == 2:
        if size < HEADER_BYTES or pos + HEADER_BYTES > filled:
            return None
        base, _, _, _, crc, attributes, delta, _, _, _, _, _, count = _unpack_header(buffer, pos)
        room = LARGEST_BATCH if attributes & CODEC_MASK else size - HEADER_BYTES
        is_believable = attributes >> 7 == 0 and 0 <= count <= delta + 1 and count * SMALLEST_RECORD <= room
        return Claim(base, base + delta, count, size, crc) if is_believable else None
    key_at = 26 if magic else 18
    if magic > 2 or size < key_at + 8 or pos + key_at + 4 > filled or buffer[pos + 17] & 0xF0:
        return None
    value_at = key_at + 4 + max(_unpack_length(buffer, pos + key_at)[0], 0)
    if value_at + 4 > size:
        return None
    crc = struct.unpack_from(">I", buffer, pos + LENGTH_END)[0]
    if pos + value_at + 4 <= filled and value_at + 4 + max(_unpack_length(buffer, pos + value_at)[0], 0) != size:
        return None
    return Claim(offset, offset, 1, size, crc)


def diagnose(buffer: memoryview, start: int, end: int, above: int, sums: Checksums) -> str:
    """The reason why the bytes start .. end are not a sound batch with offsets above `above`, in one sentence."""
    if end - start < MAGIC_END:
        return f"{end - start} bytes are too few for a batch"
    offset, length = _unpack_offset_and_length(buffer, start)
    magic = buffer[start + 16]
    if not SMALLEST_LENGTH <= length <= LARGEST_BATCH:
        return f"the batch claims a length of {length} bytes, {SMALLEST_LENGTH} to {LARGEST_BATCH} are possible"
    if magic > 2:
        return f"magic {magic} is unknown (0, 1 and 2 are known)"
    if magic == 2 and length + LENGTH_END < HEADER_BYTES:
        return f"the batch claims a length of {length} bytes, its header alone has {HEADER_BYTES - LENGTH_END}"
    if start + LENGTH_END + length > end:
        return f"the batch claims {LENGTH_END + length} bytes, {end - start} are there"
    claimed = claimed_checksum(buffer, start)
    found = sums.of(start, start + LENGTH_END + length)
    if found < 0:
        return f"{LENGTH_END + length} bytes claim to be a batch, in a file in which too many claims overlap"
    if found != claimed:
        return f"the CRC of {LENGTH_END + length} bytes is {found}, the header says {claimed}"
    return f"the CRC is right, but offset {offset} is out of order (the last one before it is {above})"


class Found(NamedTuple):
    position: int
    is_whole: bool  # false: the buffer ends before the batch that may be there


def find_batch(
    data: NDArray[np.uint8], start: int, filled: int, above: int, *, at_end: bool, sums: Checksums
) -> Found | None:
    """The first position from `start` of a batch with the right CRC and offsets above `above`, or of one that would
    need more data, unless the file ends with the buffer (`at_end`). None: there is none.

    The cost is linear in the bytes searched, over all searches with the same `sums`.
    """
    buffer, low, step, stop = data.data, start, FIRST_SEARCH_BYTES, filled - MAGIC_END + 1
    while low < stop:
        high = min(low + step, stop)
        for pos in _plausible(data, low, high, above):
            claim = read_claim(buffer, pos, filled, above)
            is_cut = pos + HEADER_BYTES > filled or (claim is not None and pos + claim.size > filled)
            if is_cut and not at_end:
                return Found(pos, False)
            if claim is not None and not is_cut and sums.of(pos, pos + claim.size) == claim.crc:
                return Found(pos, True)
        low, step = high, min(2 * step, LARGEST_SEARCH_BYTES)
    return None


def _plausible(data: NDArray[np.uint8], low: int, high: int, above: int) -> list[int]:
    """Positions low .. high - 1 with a known magic, a possible length and an offset above `above`."""
    if not data[low : high + 16].any():
        return []  # in the zeros of a preallocated file each byte is a magic, and no length is possible
    at = np.flatnonzero(data[low + 16 : high + 16] <= 2) + low
    length = unaligned(data, ">i4")[at + 8]
    at = at[(length >= SMALLEST_LENGTH) & (length <= LARGEST_BATCH)]
    positions: list[int] = at[unaligned(data, ">i8")[at] > above].tolist()
    return positions


# The rule for the header of a log's last batch, and the bounds of the batches of a segment.
#
# A batch's CRC covers neither its base offset nor its leader epoch (magic 0 and 1: not the offset). Between two batches
# a wrong offset shows in the order. Nothing follows the log's last batch, so one rule decides:
#
# - Its offset is confirmed by the batch before it, if it follows without a gap; by the name of its segment, if it is
#   the first batch there; or if it ends at the name of the next segment or at the high watermark. Any other last batch
#   is held back until another one follows.
# - Its epoch is confirmed if the batch before it has the same, or by the broker's leader-epoch-checkpoint. The batch is
#   read with or without that.
# - An epoch or offset that is not confirmed proves nothing: neither that a log was cut back, nor which copy is newer,
#   nor that it is another log.
#
# A batch that begins before its segment's name, ends after the next segment's name, or ends more than 2^31 - 1 offsets
# after its own segment's (Kafka: LogSegment.canConvertToRelativeOffset) is corrupt.


LARGEST_SPAN = 1 << 31  # offsets of one segment
NO_EPOCH = -1
UNCONFIRMED_EPOCH = -2


def confirmed_epoch(epoch: int | None, before: int | None, by_checkpoint: int | None) -> int | None:
    """The leader epoch of the last batch, if the batch before it or the checkpoint has the same; else None."""
    return epoch if epoch is not None and epoch >= 0 and epoch in (before, by_checkpoint) else None


class Bounds(NamedTuple):
    """The facts of a segment besides its bytes, at the offset where its reading begins.

    No batch begins below `floor`, and all end below `below` (None: not known). `ends_log`: no batch is after the
    segment. `committed_to`: the high watermark (None: not known).
    """

    floor: int = 0
    below: int | None = None
    ends_log: bool = False
    committed_to: int | None = None

    def after(self, batches: BatchColumns) -> Bounds:
        """The bounds after these batches, which are sound and in order."""
        return self._replace(floor=int(batches.last_offset[-1]) + 1) if len(batches) else self

    def unconfirmed(self, first_offset: int, last_offset: int, damaged_to: int | None = None) -> str | None:
        """The reason why the log's last batch, of these offsets, is held back; None: its offset is confirmed.
        `damaged_to`: the next offset by the header of a damaged batch right before it; None: there is none."""
        if first_offset in (self.floor, damaged_to) or last_offset + 1 in (self.below, self.committed_to):
            return None
        after = (
            f", {first_offset - self.floor} after the end of the batch before it" if first_offset > self.floor else ""
        )
        return f"it says offset {first_offset}{after}, and nothing confirms that"
