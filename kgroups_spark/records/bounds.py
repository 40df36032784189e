"""Where the batches of a segment can be, and which last batch of a log is not to be believed yet.

A batch's CRC covers neither its base offset nor its leader epoch (magic 0 and 1: not the offset). Between two batches a
wrong offset shows by the order. After the last one there is nothing, so it is bounded by other things:

- It begins at its segment's name or behind, ends before the next segment's name, and at most 2^31 - 1 offsets after
  its own segment's (Kafka: LogSegment.canConvertToRelativeOffset). A batch that does not is corrupt.
- A broker never cleans the segment that it writes to, so no offset is missing there. After 16 batches without a gap, a
  gap before the last one is odd; after two, a gap of more than 64 offsets. A smaller one is normal where the cleaned
  segments of a log were copied without the active one. In a segment with gaps, or with one batch before its last one, a
  gap is odd if it is larger than a million offsets and than all of the segment before it. The next audit finds a wrong
  offset that was believed: the batch is in the log elsewhere then (plan/misread.py).
- A leader epoch goes up by one with each leader. More than a hundred leaders between two neighbouring batches are odd.
  One that goes back is not: no record is replayed by its epoch, and the next audit knows the batch by its CRC.

An odd batch is held back until a sound batch after it confirms it, or shows that it was wrong. Only the last batch of
the last segment is held back: all others have one after them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kgroups_spark.records.columns import CODEC_MASK, BatchColumns

PLAUSIBLE_GAP = 1 << 20
ENOUGH_BATCHES = 16  # without a gap, for any gap to be odd
SOME_BATCHES = 2  # for a gap of more than SMALL_GAP offsets to be odd
SMALL_GAP = 64
PLAUSIBLE_LEADERS = 100
LARGEST_SPAN = 1 << 31  # offsets of one segment
NO_EPOCH = -1


@dataclass(frozen=True)
class Bounds:
    """The facts of a segment besides its bytes, at the place where its reading begins.

    No batch begins below `floor`, all end below `below` (None: not known). `segment_start`: the segment's name.
    `leader_epoch`: of the batch before (-1: not known). `whole_batches`: so many are between the segment's name and
    `floor`, and no offset is missing there (None: one is). `ends_log`: nothing after the segment can confirm
    its last batch.
    """

    floor: int = 0
    below: int | None = None
    segment_start: int = 0
    leader_epoch: int = NO_EPOCH
    whole_batches: int | None = 0
    ends_log: bool = False

    def behind(self, batches: BatchColumns) -> Bounds:
        """The same for what follows these batches, which are sound and in order."""
        if not len(batches):
            return self
        follows = np.append(self.floor, batches.last_offset[:-1] + 1) == batches.base_offset
        before = self.whole_batches
        epochs = batches.leader_epoch[batches.leader_epoch >= 0]
        return replace(
            self,
            floor=int(batches.last_offset[-1]) + 1,
            leader_epoch=int(epochs[-1]) if len(epochs) else self.leader_epoch,
            whole_batches=None if before is None or not follows.all() else before + len(batches),
        )

    def behind_damage(self) -> Bounds:
        """The same where damaged batches may have had the next offsets."""
        return replace(self, whole_batches=None)

    def odd(self, batches: BatchColumns) -> str | None:
        """Why the first of the batches is not to be believed before another one follows; None: it is."""
        base_offset, epoch = int(batches.base_offset[0]), int(batches.leader_epoch[0])
        gap = base_offset - self.floor
        is_message_set = batches.magic[0] < 2 and bool(batches.attributes[0] & CODEC_MASK)  # has its last offset only
        whole = 0 if is_message_set else self.whole_batches or 0
        if whole >= ENOUGH_BATCHES:
            most = 0
        else:
            most = SMALL_GAP if whole >= SOME_BATCHES else max(PLAUSIBLE_GAP, self.floor - self.segment_start)
        if gap > most:
            return f"it says offset {base_offset}, {gap} after the end of the batch before it"
        if epoch < NO_EPOCH or epoch - max(self.leader_epoch, 0) > self._most_leaders:
            return f"it says leader epoch {epoch}, the batch before it {self.leader_epoch}"
        return None

    @property
    def _most_leaders(self) -> int:
        return PLAUSIBLE_LEADERS if self.leader_epoch >= 0 else 1 << 31
