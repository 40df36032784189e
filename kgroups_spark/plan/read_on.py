"""The ranges to read after all others: where files changed under one range, the log's end as another range saw it
may be too early for it."""

from __future__ import annotations

from collections.abc import Sequence

from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.plan.audit_plan import AuditPlan, PartitionPlan


def read_on(plan: AuditPlan, progress: Sequence[RangeProgress]) -> list[LogRange]:
    """One more range for each partition of which a range with an end of its own was listed again, and found the log
    longer than its last range read it: what the cleaner dropped there may be after that end in a newer form
    (segment_reading.py). Once is enough: such a range goes on to the log's end by itself."""
    more = []
    for partition in plan.partitions:
        mine = [each for each in progress if each.offsets_partition == partition.offsets_partition]
        end = max([partition.start_offset, *(each.next_offset for each in mine if each.number >= 0)])
        if max((each.listed_to or 0 for each in mine), default=0) > end:
            more += _range_from(partition, end, mine)
    return more


def _range_from(partition: PartitionPlan, start: int, read: Sequence[RangeProgress]) -> list[LogRange]:
    known = partition.new.known_corrupt if partition.new is not None else frozenset()
    known |= {place for each in read for place in each.damage}
    pieces, end = partition.log.now().asked(lambda log: (log.new_pieces(start, known), log.readable_to))
    number = 1 + max((each.number for each in read), default=-1)
    return [LogRange(partition.offsets_partition, number, start, pieces, known, end_offset=end)] if pieces else []
