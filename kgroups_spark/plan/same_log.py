"""Whether the log that an audit was given still is the lake's (R8): the same topic, read up to the same last batch.

A log that differs may have been cut back (cut_back.py); any other one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgroups_spark.errors import NotReadable
from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.plan.cut_back import AnotherLog, MaybeCutBack, is_untouched
from kgroups_spark.records.bounds import NO_EPOCH
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.sources.partition_log import PartitionLog


def require_same_topic(log: PartitionLog, before: PartitionProgress) -> None:
    if before.topic_id and log.topic_id and before.topic_id != log.topic_id:
        raise AnotherLog(
            f"this is another log: {log.where} has topic id {log.topic_id}, the lake holds topic id "
            f"{before.topic_id}; use a new lake"
        )


def is_known_end(log: PartitionLog, before: PartitionProgress) -> bool:
    """Whether the log's last batch, which is held back, is the last one that the lake has: then nothing is new.

    Raises NotReadable if its offset is needed to tell whether this is the lake's log.
    """
    held_back = log.held_back
    if before.last_batch_crc is None or not len(held_back) or log.end_offset >= before.end_offset:
        return False
    if int(held_back.crc[-1]) != before.last_batch_crc:
        raise NotReadable(
            f"nothing confirms the offset of the last batch of {log.where}, which says "
            f"{int(held_back.base_offset[-1])}; the lake has read it up to {before.end_offset}"
        )
    return True


def require_same_log(log: PartitionLog, before: PartitionProgress) -> None:
    """Raises AnotherLog if the log ends before the offset read last, or if the last batch that was read is not there
    and the log has lower leader epochs, was rewritten from some offset on, has a batch across the borders of that
    batch, or another one in its place."""
    offset, crc = before.last_batch_offset, before.last_batch_crc
    if offset is None or crc is None:
        return
    if log.end_offset < before.end_offset:
        raise MaybeCutBack(
            f"{log.where} ends at offset {log.end_offset}, the lake has read it up to {before.end_offset}: if this is "
            "an older copy, give a newer one"
        )
    found = log.headers_at(offset)
    at_offset = found[found.base_offset == offset]
    if (at_offset.crc == crc).any():
        return  # the batch, and so all before it
    epoch = log.leader_epoch_after(offset)
    if before.last_leader_epoch is not None and 0 <= epoch < before.last_leader_epoch:
        raise AnotherLog(
            f"this is another log: {log.where} ends in leader epoch {epoch}, the lake has read epoch "
            f"{before.last_leader_epoch}; use a new lake"
        )
    _require_not_rewritten(log, before, found)
    _require_same_borders(log, (offset, before.end_offset), found)
    if len(at_offset) and is_untouched(found, before):
        raise AnotherLog(
            f"this is another log: the batch at offset {offset} of {log.where} has checksum "
            f"{int(at_offset.crc[0])}, the lake has read one with {crc}; use a new lake"
        )


def _require_same_borders(log: PartitionLog, borders: Sequence[int], found: BatchColumns) -> None:
    """Raises MaybeCutBack if a batch lies across the start or the end of the last one that was read. The cleaner keeps
    a batch's first and last offset; old messages that became a batch have no leader epoch."""
    for border in borders:
        is_across = (found.base_offset < border) & (found.last_offset >= border) & (found.leader_epoch != NO_EPOCH)
        across = found[np.flatnonzero(is_across)[:1]]
        if len(across):
            raise MaybeCutBack(
                f"this is another log, or one that was cut back and written again: {log.where} has a batch from "
                f"offset {int(across.base_offset[0])} to {int(across.last_offset[0])}, where one that the lake has "
                f"read ends before offset {border}"
            )


def _require_not_rewritten(log: PartitionLog, before: PartitionProgress, found: BatchColumns) -> None:
    """Raises MaybeCutBack if a batch that was read has a later leader epoch: the log was cut back, and a later leader
    filled the gap. The cleaner keeps a batch's epoch."""
    if before.last_leader_epoch is None:
        return
    # If the epoch is lower after a batch, the batch's header is damaged there.
    epochs = np.where(found.leader_epoch < 0, np.iinfo(np.int32).max, found.leader_epoch)
    epochs = np.minimum(found.leader_epoch, np.minimum.accumulate(epochs[::-1])[::-1])
    later = np.flatnonzero((found.base_offset < before.end_offset) & (epochs > before.last_leader_epoch))
    if len(later):
        raise MaybeCutBack(
            f"this is another log, or one that was cut back and written again: {log.where} has a batch of leader epoch "
            f"{int(found.leader_epoch[later[0]])} at offset {int(found.base_offset[later[0]])}, the lake has read it "
            f"up to {before.end_offset} in epoch {before.last_leader_epoch}"
        )
