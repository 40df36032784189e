"""Offsets that an audit did not read because their records may be lost: those at or above the high watermark of their
partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kgroups_spark.counts import counted
from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.durations import UNITS_MS
from kgroups_spark.number_ranges import number_ranges
from kgroups_spark.plan.audit_plan import AuditPlan, PartitionPlan
from kgroups_spark.sources.high_watermarks import HIGH_WATERMARKS
from kgroups_spark.sources.partition_log import PartitionLog, SegmentPiece

# A broker writes the file every five seconds, and drops a follower that is 30 seconds behind (replica.lag.time.max.ms).
STALE_MS = UNITS_MS["m"]


class Uncommitted(NamedTuple):
    """Offsets of a partition that were not read: their number, and the log time from the first to the last batch of
    them, ms."""

    offsets: int
    log_ms: int

    @property
    def is_stale(self) -> bool:
        """Whether no broker leaves so much uncommitted: the checkpoint is older than the log."""
        return self.log_ms > STALE_MS


def uncommitted_offsets(plan: AuditPlan, progress: Sequence[RangeProgress], latest_ms: int) -> dict[int, Uncommitted]:
    """Such offsets by offsets partition; partitions without any are absent. Log times after `latest_ms` do not
    count."""
    found = {}
    for partition in plan.partitions:
        committed = partition.log.readable_to
        if committed is None or not _goes_on(partition, progress):
            continue
        first = max(committed, partition.start_offset)
        hidden = partition.log.asked(lambda log, first=first: _hidden(log, first, latest_ms))  # type: ignore[misc]
        if hidden.offsets > 0:
            found[partition.offsets_partition] = hidden
    return found


def _hidden(log: PartitionLog, first: int, latest_ms: int) -> Uncommitted:
    offsets, last_ms = log.end_offset - first, log.newest_timestamp
    if offsets <= 0 or last_ms is None or last_ms > latest_ms:
        return Uncommitted(offsets, 0)
    headers = log.headers_at(first)
    times = headers.max_timestamp[np.flatnonzero(headers.last_offset >= first)[:1]].tolist()
    return Uncommitted(offsets, max(0, *(last_ms - ms for ms in times if ms >= 0), 0))


def _goes_on(partition: PartitionPlan, progress: Sequence[RangeProgress]) -> bool:
    """Whether records may follow the planned range; if not, the log's end need not be looked up."""
    if partition.new is None:
        return True
    last = partition.new.pieces[-1]
    if isinstance(last, SegmentPiece) and last.file is not None and not last.file.is_last:
        return True
    return any(each.is_cut_short for each in progress if each.offsets_partition == partition.offsets_partition)


def uncommitted_notes(found: Mapping[int, Uncommitted]) -> list[str]:
    """A note for the ledger; empty if there are no such offsets."""
    if not found:
        return []
    stale = [number for number, each in found.items() if each.is_stale]
    why = (
        f"it is older than the log of {counted(len(stale), 'partition')} ({number_ranges(sorted(stale))}): copy it "
        "again with the log, or delete it"
        if stale
        else "so what is there may vanish when a leader fails"
    )
    return [
        f"{counted(sum(each.offsets for each in found.values()), 'offset')} of {counted(len(found), 'partition')} "
        f"({number_ranges(sorted(found))}) not read: at or above the high watermark in {HIGH_WATERMARKS}, {why}"
    ]
