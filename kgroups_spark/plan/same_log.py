"""Whether the log that an audit was given still is the lake's (R8): the same topic, read up to the same last batch.

A log that differs may have been cut back (cut_back.py); any other one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.plan.cut_back import AnotherLog, MaybeCutBack, is_untouched
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.sources.partition_log import PartitionLog


def require_same_topic(log: PartitionLog, before: PartitionProgress) -> None:
    if before.topic_id and log.topic_id and before.topic_id != log.topic_id:
        raise AnotherLog(
            f"this is another log: {log.where} has topic id {log.topic_id}, the lake holds topic id "
            f"{before.topic_id}; use a new lake"
        )


def require_nothing_was_read(log: PartitionLog, before: PartitionProgress) -> None:
    """Raises AnotherLog if records were read before: a broker always keeps a segment, so a folder without one is not
    the log that was read."""
    if before.last_batch_crc is not None:
        raise AnotherLog(
            f"{log.where} has no segments, the lake has read it up to {before.end_offset}: give its log again, or use "
            "a new lake"
        )


def require_same_log(log: PartitionLog, before: PartitionProgress) -> None:
    """Raises AnotherLog if the log ends before the offset read last, has lower leader epochs, was rewritten from some
    offset on, has a batch across the borders of the last one, or has another last batch."""
    if log.end_offset < before.end_offset and before.last_batch_crc is not None:
        raise MaybeCutBack(
            f"this is another log, or one that was cut back: {log.where} ends at offset "
            f"{log.end_offset}, the lake has read it up to {before.end_offset}; use a new lake"
        )
    epoch = log.leader_epoch_after(before.last_batch_offset or 0)
    if before.last_leader_epoch is not None and 0 <= epoch < before.last_leader_epoch:
        raise AnotherLog(
            f"this is another log: {log.where} ends in leader epoch {epoch}, the lake has read epoch "
            f"{before.last_leader_epoch}; use a new lake"
        )
    if before.last_batch_offset is None or before.last_batch_crc is None:
        return
    found = log.headers_at(before.last_batch_offset)
    _require_not_rewritten(log, before, found)
    _require_same_borders(log, (before.last_batch_offset, before.end_offset), found)
    crc = found.crc[found.base_offset == before.last_batch_offset]
    if len(crc) and int(crc[0]) != before.last_batch_crc and is_untouched(found, before):
        raise AnotherLog(
            f"this is another log: the batch at offset {before.last_batch_offset} of {log.where} has checksum "
            f"{int(crc[0])}, the lake has read one with {before.last_batch_crc}; use a new lake"
        )


def as_the_log_has_it(log: PartitionLog, before: PartitionProgress) -> PartitionProgress:
    """The progress with the last batch's leader epoch from the log. The batch is known by its checksum, which covers
    neither its offset nor its epoch. One of the two readings was damaged, and the log can be read again."""
    if before.last_batch_offset is None or before.last_batch_crc is None:
        return before
    found = log.headers_at(before.last_batch_offset)
    same = np.flatnonzero(found.crc == before.last_batch_crc)
    if not len(same):
        return before
    row = int(same[-1])
    offset, epoch = int(found.base_offset[row]), int(found.leader_epoch[row])
    if offset != before.last_batch_offset or epoch < 0:
        return before
    return replace(before, last_leader_epoch=epoch)


def _require_same_borders(log: PartitionLog, borders: Sequence[int], found: BatchColumns) -> None:
    """Raises MaybeCutBack if a batch lies across the start or the end of the last one that was read. The cleaner keeps
    a batch's first and last offset; old messages that became a batch have no leader epoch."""
    for border in borders:
        is_across = (found.base_offset < border) & (found.last_offset >= border) & (found.leader_epoch >= 0)
        across = found[np.flatnonzero(is_across)[:1]]
        if len(across):
            raise MaybeCutBack(
                f"this is another log, or one that was cut back and written again: {log.where} has a batch from "
                f"offset {int(across.base_offset[0])} to {int(across.last_offset[0])}, where one that the lake has "
                f"read ends before offset {border}; use a new lake"
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
            f"up to {before.end_offset} in epoch {before.last_leader_epoch}; use a new lake"
        )
