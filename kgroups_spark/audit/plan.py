"""What an audit is to read: per offsets partition where to go on, and whether this still is the log we know (R8).

Nothing is written here, so that a wrong log is refused before anything is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from kgroups_spark.audit.delete_retention import DeleteRetention
from kgroups_spark.audit.ranges import LogRange, SegmentPiece
from kgroups_spark.errors import UsageError
from kgroups_spark.records.columns import DELETE_HORIZON, BatchColumns
from kgroups_spark.sources.segments import PartitionCopy, SegmentFile, scan_segment
from kgroups_spark.tables.ledger import AuditRow, PartitionProgress


class AnotherLog(UsageError):
    """The segments are not of the log that the lake holds."""


@dataclass(frozen=True)
class PartitionPlan:
    """One offsets partition: what is new in it. `read_again`: its whole log is read; `reread` is what lies before what
    is new (None: nothing does)."""

    copy: PartitionCopy
    log_start_offset: int
    start_offset: int
    new: LogRange | None
    reread: LogRange | None = None
    lost_from: int | None = None
    lost_to: int | None = None
    before: PartitionProgress | None = None
    read_again: bool = False
    # A sentence on why; None where nothing but the user asked for it.
    why_read_again: str | None = None

    @property
    def offsets_partition(self) -> int:
        return self.copy.partition


@dataclass(frozen=True)
class AuditPlan:
    """All partitions that were given, by number."""

    partitions: list[PartitionPlan]
    cluster_id: str | None
    notes: list[str] = field(default_factory=list)

    @property
    def new_ranges(self) -> list[LogRange]:
        return [p.new for p in self.partitions if p.new is not None]

    @property
    def reread_ranges(self) -> list[LogRange]:
        return [p.reread for p in self.partitions if p.reread is not None]

    @property
    def read_again(self) -> list[PartitionPlan]:
        return [p for p in self.partitions if p.read_again]


def plan_audit(
    copies: Sequence[PartitionCopy],
    last: AuditRow | None,
    *,
    full: bool = False,
    known_corrupt: Mapping[int, Collection[tuple[str, int]]] | None = None,
    delete_retention: DeleteRetention | None = None,
) -> AuditPlan:
    """What is new in the copies since the last finished audit (None: the lake is empty).

    A partition is read again from its start if all are (`full`), or where `delete_retention` has a reason.
    `known_corrupt`: per offsets partition the file name and position of corrupt batches that stand in quarantine
    already. Raises AnotherLog with the reason when the copies are not of the lake's log.
    """
    cluster_ids = {copy.cluster_id for copy in copies if copy.cluster_id}
    if last is not None and last.cluster_id and cluster_ids and last.cluster_id not in cluster_ids:
        raise AnotherLog(
            f"this is another log: the lake holds cluster {last.cluster_id}, the segments are of cluster "
            f"{min(cluster_ids)}; use a new lake"
        )
    known = known_corrupt or {}
    plans = [
        _plan_partition(
            copy,
            last.progress(copy.partition) if last else None,
            _Options(full, known.get(copy.partition, ()), delete_retention),
        )
        for copy in copies
    ]
    cluster_id = next(iter(cluster_ids), last.cluster_id if last else None)
    notes = [
        f"offsets {p.lost_from} to {(p.lost_to or 0) - 1} of partition {p.offsets_partition} were gone before they "
        f"were read: the log starts at {p.log_start_offset} now"
        for p in plans
        if p.lost_from is not None
    ]
    notes += [p.why_read_again for p in plans if p.why_read_again is not None]
    return AuditPlan(plans, cluster_id, notes)


@dataclass(frozen=True)
class _Options:
    full: bool
    known_corrupt: Collection[tuple[str, int]]
    delete_retention: DeleteRetention | None


Scan = Callable[[SegmentFile], BatchColumns]


def _plan_partition(copy: PartitionCopy, before: PartitionProgress | None, options: _Options) -> PartitionPlan:
    log_start = copy.segments[0].base_offset if copy.segments else (before.end_offset if before else 0)
    if before is None:
        whole = _range(copy, log_start, copy.segments, 0)
        return PartitionPlan(copy, log_start, log_start, whole and replace(whole, begins_log=True))
    _require_same_topic(copy, before)
    if not copy.segments:
        _require_nothing_was_read(copy, before)
        return PartitionPlan(copy, log_start, before.end_offset, None, before=before)
    start = max(before.end_offset, log_start)
    segments = copy.segments_from(before.end_offset)
    scan = cache(scan_segment)
    headers = scan(segments[0])
    _require_same_log(copy, before, scan)
    position = _position_after(headers, start)
    new = _range(copy, start, segments, position, options.known_corrupt)
    if len(segments) == 1 and not len(headers[headers.last_offset >= start]):
        new = _only_unknown_damage(new, headers, segments[0], options.known_corrupt)
    lost = before.end_offset < log_start
    why = None if options.full else _why_read_again(copy, before, segments, scan, options.delete_retention)
    read_again = options.full or why is not None
    return PartitionPlan(
        copy,
        log_start,
        start,
        new,
        _reread(copy, log_start, start, segments, position) if read_again else None,
        before.end_offset if lost else None,
        log_start if lost else None,
        before,
        read_again,
        why,
    )


def _why_read_again(
    copy: PartitionCopy,
    before: PartitionProgress,
    segments: Sequence[SegmentFile],
    scan: Scan,
    delete_retention: DeleteRetention | None,
) -> str | None:
    if delete_retention is None:
        return None
    last = _last_header(copy, scan)

    def new() -> BatchColumns:
        headers = BatchColumns.concat([scan(segment) for segment in segments])
        return headers[headers.last_offset >= before.end_offset]

    return delete_retention.why_read_again(before, _end_offset(copy, last), last, new)


def _range(
    copy: PartitionCopy,
    start: int,
    segments: Sequence[SegmentFile],
    position: int,
    known_corrupt: Collection[tuple[str, int]] = (),
) -> LogRange | None:
    pieces = [
        SegmentPiece(segment.path, position if number == 0 else 0, segment.size)
        for number, segment in enumerate(segments)
        if segment.size > (position if number == 0 else 0)
    ]
    return LogRange(copy.partition, 0, start, tuple(pieces), frozenset(known_corrupt)) if pieces else None


def _reread(
    copy: PartitionCopy, log_start: int, start: int, segments: Sequence[SegmentFile], position: int
) -> LogRange | None:
    earlier = [s for s in copy.segments if s.base_offset < segments[0].base_offset]
    pieces = [SegmentPiece(s.path, 0, s.size) for s in earlier]
    pieces += [SegmentPiece(segments[0].path, 0, position)] if position else []
    if not pieces or log_start >= start:
        return None
    return LogRange(copy.partition, -1, log_start, tuple(pieces), is_reread=True, begins_log=True)


def _position_after(headers: BatchColumns, start: int) -> int:
    """Where the last sound batch that lies wholly before `start` ends."""
    passed = np.flatnonzero(headers.last_offset < start)
    return int(headers.position[passed[-1]] + headers.size[passed[-1]]) if len(passed) else 0


def _only_unknown_damage(
    new: LogRange | None, headers: BatchColumns, segment: SegmentFile, known_corrupt: Collection[tuple[str, int]]
) -> LogRange | None:
    """Nothing sound is new in the only segment left. Damage behind its last batch is read if it is not known yet."""
    if new is None:
        return None
    name = segment.path.rsplit("/", 1)[-1]
    at = new.pieces[0].position
    return None if (name, at) in known_corrupt else new


def _require_same_topic(copy: PartitionCopy, before: PartitionProgress) -> None:
    if before.topic_id and copy.topic_id and before.topic_id != copy.topic_id:
        raise AnotherLog(
            f"this is another log: partition {copy.partition} has topic id {copy.topic_id} in {copy.folder}, the lake "
            f"holds topic id {before.topic_id}; use a new lake"
        )


def _require_nothing_was_read(copy: PartitionCopy, before: PartitionProgress) -> None:
    """A broker always keeps a segment: a folder without one is not the log that was read."""
    if before.last_batch_crc is not None:
        raise AnotherLog(
            f"partition {copy.partition} in {copy.folder} has no segments, the lake has read it up to "
            f"{before.end_offset}: give its log again, or use a new lake"
        )


def _require_same_log(copy: PartitionCopy, before: PartitionProgress, scan: Scan) -> None:
    """Raises AnotherLog where the log ends before what was read, goes back in leader epochs, or has another last
    batch."""
    where = f"partition {copy.partition} in {copy.folder}"
    last = _last_header(copy, scan)
    end = _end_offset(copy, last)
    if end < before.end_offset and before.last_batch_crc is not None:
        raise AnotherLog(
            f"this is another log, or one that was cut back: {where} ends at offset {end}, the lake has read it up to "
            f"{before.end_offset}; use a new lake"
        )
    at_the_end = len(last) and int(last.base_offset[0]) >= (before.last_batch_offset or 0)
    if at_the_end and before.last_leader_epoch is not None and 0 <= last.leader_epoch[0] < before.last_leader_epoch:
        raise AnotherLog(
            f"this is another log: {where} ends in leader epoch {int(last.leader_epoch[0])}, the lake has read epoch "
            f"{before.last_leader_epoch}; use a new lake"
        )
    if before.last_batch_offset is None or before.last_batch_crc is None:
        return
    found = scan(copy.segments_from(before.last_batch_offset)[0])
    crc = found.crc[found.base_offset == before.last_batch_offset]
    if len(crc) and int(crc[0]) != before.last_batch_crc and _untouched(found, before):
        raise AnotherLog(
            f"this is another log: the batch at offset {before.last_batch_offset} of {where} has checksum "
            f"{int(crc[0])}, the lake has read one with {before.last_batch_crc}; use a new lake"
        )


def _untouched(headers: BatchColumns, before: PartitionProgress) -> bool:
    """Whether the cleaner never rewrote the batch. It keeps the offsets and changes the checksum, where records go,
    where a tombstone or marker gets its delete horizon, and where old messages become a batch (of no leader epoch)."""
    batch = np.flatnonzero(headers.base_offset == before.last_batch_offset)[0]
    if headers.magic[batch] >= 2 and (headers.attributes[batch] & DELETE_HORIZON or headers.leader_epoch[batch] < 0):
        return False
    full = int(headers.last_offset[batch]) - int(headers.base_offset[batch]) + 1 == int(headers.record_count[batch])
    return full and int(headers.last_offset[batch]) + 1 == before.end_offset


def _end_offset(copy: PartitionCopy, last: BatchColumns) -> int:
    """Where the log ends: the active segment may be empty, and the cleaner may have taken the last batches before
    it."""
    ends: list[int] = (last.last_offset + 1).tolist()
    return max([copy.segments[-1].base_offset, *ends])


def _last_header(copy: PartitionCopy, scan: Scan) -> BatchColumns:
    for segment in reversed(copy.segments):
        headers = scan(segment)
        if len(headers):
            return headers[-1:]
    return BatchColumns.empty()
