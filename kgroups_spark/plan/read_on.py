"""The ranges to read after all others: if files of one range changed during the read, the end of the log that another
range saw may be too early for it."""

from __future__ import annotations

from collections.abc import Sequence

from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.plan.audit_plan import AuditPlan, PartitionPlan


def read_on(plan: AuditPlan, progress: Sequence[RangeProgress]) -> list[LogRange]:
    """One more range for each partition in which a range with its own end was listed again and found the log longer
    than the last range had read it. A record that the cleaner dropped there may have its newer record after that end
    (segment_reading.py). One more range is enough, because it continues to the log's end by itself."""
    more = []
    for partition in plan.partitions:
        mine = [each for each in progress if each.offsets_partition == partition.offsets_partition]
        end = max([partition.start_offset, *(each.next_offset for each in mine if not each.is_reread)])
        if max((each.listed_to or 0 for each in mine), default=0) > end:
            more += _range_from(partition, end, mine)
    return more


def _range_from(partition: PartitionPlan, start: int, read: Sequence[RangeProgress]) -> list[LogRange]:
    known = partition.new.known_corrupt if partition.new is not None else frozenset()
    known |= {place for each in read for place in each.damage}
    pieces, end = partition.log.now().asked(lambda log: (log.new_pieces(start, known), log.readable_to))
    number = 1 + max((each.number for each in read), default=-1)
    return [LogRange(partition.offsets_partition, number, start, pieces, known, end_offset=end)] if pieces else []
