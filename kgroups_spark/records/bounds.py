"""Where the batches of a segment can be, and when the last batch of a log is not believed yet.

A batch's CRC covers neither its base offset nor its leader epoch (magic 0 and 1: not the offset). Between two batches a
wrong offset shows in the order. The last batch has none after it, so other rules bound it:

- It begins at its segment's name or later, ends before the next segment's name, and at most 2^31 - 1 offsets after
  its own segment's (Kafka: LogSegment.canConvertToRelativeOffset). Any other batch is corrupt.
- A broker never cleans the segment that it writes to, so no offset is missing there. After 16 batches without a gap,
  any gap before the last one is odd; after two, a gap of more than 64 offsets. A smaller one is normal if the cleaned
  segments of a log were copied without the active one. In a segment with gaps, or with one batch before its last one,
  a gap is odd if it is larger than a million offsets and than the whole segment before it. If a wrong offset was
  believed, the next audit finds it, because the batch is elsewhere in the log then (plan/misread.py).
- A leader epoch increases by one with each leader. More than a hundred leaders between two neighbouring batches are
  odd. A lower epoch is not: no record is replayed by its epoch, and the next audit identifies the batch by its CRC.

An odd batch is held back until a later sound batch confirms or refutes it. Only the last batch of the last segment is
held back, because all others have one after them.
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
    """The facts of a segment besides its bytes, at the offset where its reading begins.

    No batch begins below `floor`, and all end below `below` (None: not known). `segment_start`: the offset that names
    the segment. `leader_epoch`: that of the batch before (-1: not known). `whole_batches`: the number of batches from
    the segment's start to `floor`, if no offset is missing there (None: one is). `ends_log`: nothing after the segment
    can confirm its last batch.
    """

    floor: int = 0
    below: int | None = None
    segment_start: int = 0
    leader_epoch: int = NO_EPOCH
    whole_batches: int | None = 0
    ends_log: bool = False

    def after(self, batches: BatchColumns) -> Bounds:
        """The bounds after these batches, which are sound and in order."""
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

    def after_damage(self) -> Bounds:
        """The bounds after damaged batches, which may have had the next offsets."""
        return replace(self, whole_batches=None)

    def odd(self, batches: BatchColumns) -> str | None:
        """The reason why the first of the batches is not believed until another follows; None: it is believed."""
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
        most_leaders = PLAUSIBLE_LEADERS if self.leader_epoch >= 0 else 1 << 31
        if epoch < NO_EPOCH or epoch - max(self.leader_epoch, 0) > most_leaders:
            return f"it says leader epoch {epoch}, the batch before it {self.leader_epoch}"
        return None
