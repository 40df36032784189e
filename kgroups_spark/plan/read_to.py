"""How far an audit read a partition: its entry of the ledger."""

from __future__ import annotations

from dataclasses import replace

from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.plan.audit_plan import PartitionPlan


def read_now(plan: PartitionPlan, ranges: list[RangeProgress]) -> PartitionProgress:
    """The entry after this audit. `ranges`: all of the partition's that were read, in log order; those read again count
    in `records` and `bytes` alone."""
    reread = sum(r.records for r in ranges if r.is_reread)
    new = [r for r in ranges if not r.is_reread]
    end = max([plan.start_offset, *(r.next_offset for r in new)])
    records = sum(r.records for r in new)
    last = next((r for r in reversed(new) if r.last_batch_offset is not None), None)
    before = plan.before
    return PartitionProgress(
        offsets_partition=plan.offsets_partition,
        start_offset=plan.start_offset,
        end_offset=end,
        records=records + reread,
        records_reread=reread,
        bytes=sum(r.size_bytes for r in ranges),
        offsets_missing=max(0, end - plan.start_offset - records),
        topic_id=plan.log.topic_id or (before.topic_id if before else None),
        log_start_offset=plan.log_start_offset,
        lost_from=plan.lost_from,
        lost_to=plan.lost_to,
        last_batch_offset=last.last_batch_offset if last else (before.last_batch_offset if before else None),
        last_leader_epoch=_epoch(plan, new),
        last_batch_crc=last.last_batch_crc if last else (before.last_batch_crc if before else None),
    )


def _epoch(plan: PartitionPlan, new: list[RangeProgress]) -> int | None:
    """The leader epoch of the last batch; None: it has none, or nothing confirms it. No checksum covers it, so the
    batch before has to have the same one, or the broker's leader-epoch-checkpoint."""
    before = plan.before.last_leader_epoch if plan.before else None
    with_batches = [r for r in new if r.last_batch_offset is not None]
    if not with_batches:
        return before
    last, *earlier = reversed(with_batches)
    epoch, neighbour = last.last_leader_epoch, last.epoch_before
    if neighbour is None:
        neighbour = earlier[0].last_leader_epoch if earlier else before
    if epoch is None or epoch < 0 or last.last_batch_offset is None:
        return None
    is_confirmed = epoch == neighbour or epoch == plan.log.epoch_by_checkpoint(last.last_batch_offset)
    return epoch if is_confirmed else None


def not_read_now(before: PartitionProgress) -> PartitionProgress:
    """The entry of a partition that the audit did not read: it has been read as far as before."""
    return replace(
        before,
        start_offset=before.end_offset,
        records=0,
        records_reread=0,
        bytes=0,
        offsets_missing=0,
        lost_from=None,
        lost_to=None,
    )
