"""Whether the log that an audit was given still is the lake's (R8): the same topic, read up to the same last batch. One
that differs may have been cut back (KnownReadings.cut); any other is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from kgroups_spark.errors import NotReadable, UsageError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import finished_backwards
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.replaced import Replaced
from kgroups_spark.records.columns import DELETE_HORIZON, BatchColumns
from kgroups_spark.records.damage import NO_EPOCH
from kgroups_spark.replay.shard_states import reduced_to
from kgroups_spark.sources.partition_log import PartitionLog, SegmentPiece

# A log that was cut back: it ends before the last offset that the lake has read, or has a later leader's records
# there.
#
# After an unclean leader election, or after the loss of a tail that was read, the log continues from an earlier offset,
# in a later leader epoch. Each epoch has one leader, so a batch of that epoch at an offset is the same batch in every
# copy of the log, and so is everything before it (KIP-101). So the newest batch that both sides have ends at the cut,
# or before it if the cleaner removed batches in between.


# The number of audits whose last batches are searched in the log. Each may cost a request to a broker.
MOST_LOOKED_FOR = 64


class AnotherLog(UsageError, NotReadable):
    """The given log is not the lake's log."""


class MaybeCutBack(AnotherLog):
    """The given log differs from the lake's, but may be the same log after a cut."""


class CutBack(NamedTuple):
    """The range of a partition from `from_offset` to `to_offset` (exclusive) is replaced. `before`: how far the
    partition counts as read afterwards; None: nothing counts."""

    from_offset: int
    to_offset: int
    before: PartitionProgress | None

    def note(self, offsets_partition: int, log: PartitionLog) -> str:
        if self.before is None:
            return (
                f"partition {offsets_partition} is read again (--accept-log-change): all that was read of it up to "
                f"{self.to_offset} is replaced, the log now is {log.log_start_offset} to {log.end_offset}"
            )
        return (
            f"the log of partition {offsets_partition} was cut back: the range from {self.from_offset} to "
            f"{self.to_offset - 1} is replaced, the log now ends at {log.end_offset}; it was read again from its start"
        )


# The number of an audit, and how far it had read a partition.
Reading = tuple[int, PartitionProgress]


class KnownReadings(NamedTuple):
    """The lake's knowledge of its log, besides the last audit's entry.

    earlier      an offsets partition -> the readings of finished audits, newest first
    replaced     the replaced ranges of these
    reduced_to   an offsets partition -> the log offset below which its history is reduced; 0: it is not reduced
    accept       the user accepts another log (--accept-log-change)
    """

    earlier: Callable[[int], Iterator[Reading]]
    replaced: Replaced
    reduced_to: Callable[[int], int]
    accept: bool = False

    @classmethod
    def of(cls, lake: Lake, last: AuditRow, *, accept: bool) -> KnownReadings:
        return cls(
            partial(_readings, lake, last.audit_id),
            last.replaced,
            lambda offsets_partition: reduced_to(lake).get((None, offsets_partition), 0),
            accept,
        )

    def cut(self, log: PartitionLog, before: PartitionProgress, refused: AnotherLog) -> CutBack:
        """The cut of the log. Raises `refused`, or AnotherLog, if it may be another log."""
        found = self._found(log, before) if isinstance(refused, MaybeCutBack) else None
        if found is not None and found.from_offset < self.reduced_to(before.offsets_partition):
            refused = AnotherLog(
                f"{log.where} differs from offset {found.from_offset} on, in history that kgroups maintain --keep has "
                "reduced: use a new lake"
            )
            found = None
        if found is not None:
            return found
        if self.accept:
            return CutBack(0, before.end_offset, None)
        raise AnotherLog(
            f"{refused}; if the log has changed, --accept-log-change replaces what the lake has of it"
        ) from refused

    def _found(self, log: PartitionLog, before: PartitionProgress) -> CutBack | None:
        entries = (before, *self._counting(before.offsets_partition))
        epoch = next((entry.last_leader_epoch for entry in entries if entry.last_leader_epoch is not None), None)
        # Without a later leader this may be an older copy of the log.
        if epoch is None or not (self.accept or log.leader_epoch_after(0) > epoch):
            return None
        found = next(filter(None, (_common(log, entry) for entry in entries[1:])), None)
        if found is None or found.end_offset >= before.end_offset:
            return None
        found = found._replace(topic_id=before.topic_id)
        return CutBack(found.end_offset, before.end_offset, found) if self._is_same(log, found) else None

    def _is_same(self, log: PartitionLog, found: PartitionProgress) -> bool:
        """Whether the log before the cut is the lake's: by the CRC of a last batch, otherwise by the topic id."""
        for entry in self._counting(found.offsets_partition):
            if entry.end_offset <= found.end_offset and entry.last_batch_offset is not None:
                is_same = _has_batch(log.headers_at(entry.last_batch_offset), entry)
                if is_same is not None:
                    return is_same
        return found.topic_id is not None and found.topic_id == log.topic_id

    def _counting(self, offsets_partition: int) -> Iterator[PartitionProgress]:
        """The readings of audits that have not been replaced since, even partly; newest first."""
        for audit_id, entry in islice(self.earlier(offsets_partition), MOST_LOOKED_FOR):
            first_replaced = self.replaced.first_after(offsets_partition, audit_id)
            if first_replaced is None or entry.end_offset <= first_replaced:
                yield entry


def _readings(lake: Lake, newest: int, offsets_partition: int) -> Iterator[Reading]:
    for row in finished_backwards(partial(lake.rows, "audits"), ["partitions"], newest):
        for entry in row["partitions"] or ():
            if entry["offsets_partition"] == offsets_partition and entry["topic"] is None:
                yield row["audit_id"], PartitionProgress(**entry)


def _common(log: PartitionLog, entry: PartitionProgress) -> PartitionProgress | None:
    """How far the log is still as that audit read it; None: the log has no batch of the audit's last leader epoch."""
    epoch = entry.last_leader_epoch
    if epoch is None:
        return None
    for headers in log.headers_back_from(entry.end_offset):
        # An epoch that is lower than an earlier batch's is damaged.
        later = np.flatnonzero(headers.leader_epoch > epoch)
        headers = headers[: later[0]] if len(later) else headers
        older = np.flatnonzero((headers.leader_epoch >= 0) & (headers.leader_epoch <= epoch))
        if len(older):
            last = headers[older[-1:]]
            end = int(last.last_offset[0]) + 1
            if int(last.leader_epoch[0]) != epoch or end > entry.end_offset:
                return None
            base_offset, crc = int(last.base_offset[0]), int(last.crc[0])
            return entry._replace(end_offset=end, last_batch_offset=base_offset, last_batch_crc=crc)
    return None


def _has_batch(headers: BatchColumns, entry: PartitionProgress) -> bool | None:
    rows = np.flatnonzero(headers.base_offset == entry.last_batch_offset)
    if not len(rows):
        return None
    if int(headers.crc[rows[0]]) == entry.last_batch_crc:
        return True
    return False if is_untouched(headers, entry) else None


def is_untouched(headers: BatchColumns, before: PartitionProgress) -> bool:
    """Whether the cleaner has never rewritten the batch. A rewrite keeps the offsets and changes the CRC: if records
    are removed, if a tombstone or marker gets its delete horizon, or if old messages become a batch (without leader
    epoch)."""
    batch = np.flatnonzero(headers.base_offset == before.last_batch_offset)[0]
    is_converted = headers.leader_epoch[batch] == NO_EPOCH
    if headers.magic[batch] >= 2 and (headers.attributes[batch] & DELETE_HORIZON or is_converted):
        return False
    full = int(headers.last_offset[batch]) - int(headers.base_offset[batch]) + 1 == int(headers.record_count[batch])
    return full and int(headers.last_offset[batch]) + 1 == before.end_offset


def require_same_topic(log: PartitionLog, before: PartitionProgress) -> None:
    if before.topic_id and log.topic_id and before.topic_id != log.topic_id:
        raise AnotherLog(
            f"this is another log: {log.where} has topic id {log.topic_id}, the lake holds topic id "
            f"{before.topic_id}; use a new lake"
        )


def may_go_on(log: PartitionLog, before: PartitionProgress) -> bool:
    """Whether there may be something new; if not, the log's last batch, which is held back, is the lake's last one.
    Raises NotReadable if the offset of that batch is needed to tell whether this is the lake's log.

    Raises AnotherLog if the log ends before the offset read last, or if the last batch that was read is not there and
    the log has lower leader epochs, was rewritten from some offset on, has a batch across the borders of that batch,
    has it at a later offset, or another one in its place."""
    offset, crc = before.last_batch_offset, before.last_batch_crc
    if offset is None or crc is None or log.goes_on_from(offset, crc, before.end_offset):
        return True
    if log.end_offset < before.end_offset:
        held_back = log.held_back
        if not len(held_back):
            raise MaybeCutBack(
                f"{log.where} ends at offset {log.end_offset}, the lake has read it up to {before.end_offset}: if this "
                "is an older copy, give a newer one"
            )
        if int(held_back.crc[-1]) == crc:
            return False
        raise NotReadable(
            f"nothing confirms the offset of the last batch of {log.where}, which says "
            f"{int(held_back.base_offset[-1])}; the lake has read it up to {before.end_offset}"
        )
    found = log.headers_at(offset)
    at_offset = found[found.base_offset == offset]
    if (at_offset.crc == crc).any():
        return True  # the batch, and so all before it
    epoch = log.leader_epoch_after(offset)
    if before.last_leader_epoch is not None and 0 <= epoch < before.last_leader_epoch:
        raise AnotherLog(
            f"this is another log: {log.where} ends in leader epoch {epoch}, the lake has read epoch "
            f"{before.last_leader_epoch}; use a new lake"
        )
    _require_not_rewritten(log, before, found)
    _require_same_borders(log, (offset, before.end_offset), found)
    if log.log_start_offset <= offset:  # else that batch was deleted, and its bytes may have been written again
        _require_not_moved(log, offset, before, found)
    if len(at_offset) and is_untouched(found, before):
        raise AnotherLog(
            f"this is another log: the batch at offset {offset} of {log.where} has checksum "
            f"{int(at_offset.crc[0])}, the lake has read one with {crc}; use a new lake"
        )
    return True


def _require_not_moved(log: PartitionLog, offset: int, before: PartitionProgress, found: BatchColumns) -> None:
    """Raises AnotherLog if the last batch read has a later offset now: one of the two is damaged. Two batches may have
    the same bytes (written twice in a millisecond), but if the cleaner removed the first, the second is where the lake
    goes on, and not in the last segment, which is never cleaned."""
    is_moved = (found.crc == before.last_batch_crc) & (found.magic >= 2) & (found.base_offset > offset)
    moved = found.base_offset[is_moved]
    first = next(iter(log.new_pieces(before.end_offset, ())), None) if before.end_offset in moved else None
    may_be_a_second = first and not (isinstance(first, SegmentPiece) and first.file and first.file.is_last)
    if len(moved) and not may_be_a_second:
        raise AnotherLog(
            f"the last batch that the lake has read of {log.where} was at offset {offset}, and now "
            f"is at offset {moved[0]}: one of the two is damaged"
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
