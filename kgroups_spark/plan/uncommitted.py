"""Offsets that an audit did not read because their records may be lost: those at or above the high watermark of their
partition."""

from __future__ import annotations

from collections.abc import Sequence

from kgroups_spark.counts import counted
from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.number_ranges import number_ranges
from kgroups_spark.plan.audit_plan import AuditPlan, PartitionPlan
from kgroups_spark.sources.high_watermarks import HIGH_WATERMARKS
from kgroups_spark.sources.partition_log import SegmentPiece


def uncommitted_offsets(plan: AuditPlan, progress: Sequence[RangeProgress]) -> dict[int, int]:
    """The number of such offsets by offsets partition; partitions without any are absent."""
    found = {}
    for partition in plan.partitions:
        committed = partition.log.readable_to
        if committed is None or not _goes_on(partition, progress):
            continue
        count = partition.log.asked(lambda log: log.end_offset) - max(committed, partition.start_offset)
        if count > 0:
            found[partition.offsets_partition] = count
    return found


def _goes_on(partition: PartitionPlan, progress: Sequence[RangeProgress]) -> bool:
    """Whether records may follow the planned range; if not, the log's end need not be looked up."""
    if partition.new is None:
        return True
    last = partition.new.pieces[-1]
    if isinstance(last, SegmentPiece) and last.file is not None and not last.file.is_last:
        return True
    return any(each.is_cut_short for each in progress if each.offsets_partition == partition.offsets_partition)


def uncommitted_notes(plan: AuditPlan, progress: Sequence[RangeProgress]) -> list[str]:
    """A note for the ledger; empty if there are no such offsets."""
    offsets = uncommitted_offsets(plan, progress)
    if not offsets:
        return []
    return [
        f"{counted(sum(offsets.values()), 'offset')} of {counted(len(offsets), 'partition')} "
        f"({number_ranges(sorted(offsets))}) not read: at or above the high watermark in {HIGH_WATERMARKS}, so what is "
        "there may vanish when a leader fails"
    ]
