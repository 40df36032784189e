"""The rule for the header of a log's last batch, and the bounds of the batches of a segment.

A batch's CRC covers neither its base offset nor its leader epoch (magic 0 and 1: not the offset). Between two batches a
wrong offset shows in the order. Nothing follows the log's last batch, so one rule decides:

- Its offset is confirmed by the batch before it, if it follows without a gap; by the name of its segment, if it is the
  first batch there; or if it ends at the name of the next segment or at the high watermark. Any other last batch is
  held back until another one follows.
- Its epoch is confirmed if the batch before it has the same, or by the broker's leader-epoch-checkpoint. The batch is
  read with or without that.
- An epoch or offset that is not confirmed proves nothing: neither that a log was cut back, nor which copy is newer, nor
  that it is another log.

A batch that begins before its segment's name, ends after the next segment's name, or ends more than 2^31 - 1 offsets
after its own segment's (Kafka: LogSegment.canConvertToRelativeOffset) is corrupt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kgroups_spark.records.columns import BatchColumns

LARGEST_SPAN = 1 << 31  # offsets of one segment
NO_EPOCH = -1
UNCONFIRMED_EPOCH = -2


def confirmed_epoch(epoch: int | None, before: int | None, by_checkpoint: int | None) -> int | None:
    """The leader epoch of the last batch, if the batch before it or the checkpoint has the same; else None."""
    return epoch if epoch is not None and epoch >= 0 and epoch in (before, by_checkpoint) else None


@dataclass(frozen=True)
class Bounds:
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
        return replace(self, floor=int(batches.last_offset[-1]) + 1) if len(batches) else self

    def unconfirmed(self, first_offset: int, last_offset: int, damaged_to: int | None = None) -> str | None:
        """The reason why the log's last batch, of these offsets, is held back; None: its offset is confirmed.
        `damaged_to`: the next offset by the header of a damaged batch right before it; None: there is none."""
        if first_offset in (self.floor, damaged_to) or last_offset + 1 in (self.below, self.committed_to):
            return None
        after = (
            f", {first_offset - self.floor} after the end of the batch before it" if first_offset > self.floor else ""
        )
        return f"it says offset {first_offset}{after}, and nothing confirms that"
