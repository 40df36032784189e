"""The plan of an audit: where to go on in each offsets partition, if the log still is the lake's (same_log.py).
Planning writes nothing: a wrong log is refused first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np

from kgroups_spark.audit.same_log import (
    AnotherLog,
    CutBack,
    KnownReadings,
    may_go_on,
    require_same_topic,
)
from kgroups_spark.errors import KgroupsError, NotReadable
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress, Reading, readings_backwards
from kgroups_spark.replay.ranges import CLOCKS_DIFFER_MS, LogRange, RangeProgress
from kgroups_spark.sources.partition_log import LeaderLost, PartitionLog, SegmentPiece
from kgroups_spark.sources.segments import HIGH_WATERMARKS
from kgroups_spark.tables.columns import Condition
from kgroups_spark.words import DAY_MS, UNITS_MS, counted, format_duration, named_partitions, number_ranges, to_epoch_ms

# When a partition must be read again from its start, because the log may have lost tombstones or markers (R6).
#
# Kafka's cleaner drops a tombstone, or the marker of a transaction without records, `delete.retention.ms` after it has
# first cleaned it (LogCleaner, `deleteHorizonMs`; before 3.1 that long after its segment was last written). One that
# was written after our last read can only be gone if that read is longer ago. The log does not show whether one is
# gone; but if no offset is missing, none is.


# Kafka's default of delete.retention.ms; __consumer_offsets is created without its own value.
DEFAULT_DELETE_RETENTION_MS = DAY_MS


class TooOld(NamedTuple):
    """A partition last read (`age`, ms) longer ago than `delete.retention.ms`: lost offsets may be tombstones."""

    offsets_partition: int
    age: int
    delete_retention_ms: int

    def why_read_again(self, gone: int, span: int) -> str | None:
        """The reason as a sentence; None if no record is missing (`gone`) of the `span` of new offsets."""
        if gone <= 0:
            return None
        return (
            f"partition {self.offsets_partition} was read again from its start: last read {format_duration(self.age)} "
            f"ago, longer than delete.retention.ms ({format_duration(self.delete_retention_ms)}), and {gone:,} of "
            f"{span:,} offsets were gone"
        )


@dataclass
class DeleteRetention:
    """`delete.retention.ms` with the clock (`now`, epoch ms) and the last reads: of the `last` finished audit, and in
    `readings` of those before it, newest first; only as many are taken as needed."""

    delete_retention_ms: int
    last: AuditRow
    readings: Iterator[Reading]
    now: int = field(default_factory=lambda: to_epoch_ms(datetime.now(UTC)))
    _read_by: dict[int, Reading] = field(default_factory=dict)

    @classmethod
    def since(cls, lake: Lake, last: AuditRow, delete_retention_ms: int, topic: str | None = None) -> DeleteRetention:
        """Measured now, after the audit `last`. `topic`: of another log than the offsets log."""
        return cls(delete_retention_ms, last, readings_backwards(lake, last.audit_id - 1, topic))

    def too_old(self, before: PartitionProgress, end_offset: int, newest: int | None) -> TooOld | None:
        """None if reading the new span is enough, even with missing offsets. `before`: how far it was read.
        `end_offset`, `newest`: the end of the log, and the time of its last batch (epoch ms; None: unknown)."""
        is_new = end_offset > before.end_offset
        age = self._last_read_ago(before.offsets_partition, newest) if is_new else 0
        too_old = age > self.delete_retention_ms
        return TooOld(before.offsets_partition, age, self.delete_retention_ms) if too_old else None

    def _last_read_ago(self, offsets_partition: int, newest: int | None) -> int:
        """Milliseconds since the last read, by the ledger's clock or by log time, whichever is longer: a copy of a log
        may be read long after it was made. A time a day ahead does not count (replay/ranges.py); other wrong ones do,
        because reading again without need does no harm."""
        read = self._last_read(offsets_partition)
        if read is None:
            return 0
        ages, latest = [self.now - to_epoch_ms(read.started_at)], self.now + CLOCKS_DIFFER_MS
        if newest is not None and newest <= latest and read.newest_log_timestamp is not None:
            ages.append(newest - to_epoch_ms(read.newest_log_timestamp))
        return max(ages)

    def _last_read(self, offsets_partition: int) -> AuditRow | Reading | None:
        """The last audit that read records of the partition; None: the ledger has none."""
        progress = self.last.progress(offsets_partition)
        if progress is not None and (progress.records or progress.bytes):
            return self.last
        while offsets_partition not in self._read_by:
            reading = next(self.readings, None)
            if reading is None:
                return None
            self._read_by = dict.fromkeys(reading.offsets_partitions, reading) | self._read_by
        return self._read_by[offsets_partition]


class PartitionPlan(NamedTuple):
    """The plan of one offsets partition; `new` is None if it has no new records. `read_again`: its whole log is read;
    `reread` is the part before the new records (None: there is none)."""

    log: PartitionLog
    log_start_offset: int
    start_offset: int
    new: LogRange | None
    reread: LogRange | None = None
    lost_from: int | None = None
    before: PartitionProgress | None = None
    read_again: bool = False
    # The reason, as a sentence; None: only the user asked for it.
    why_read_again: str | None = None
    # `reread` is needed only if offsets turn out to be missing in `new`.
    undecided: TooOld | None = None
    # The log was cut back, and the lake's rows from there on are replaced; None: it was not.
    cut: CutBack | None = None

    @property
    def offsets_partition(self) -> int:
        return self.log.partition

    @property
    def lost_to(self) -> int | None:
        return None if self.lost_from is None else self.start_offset

    def decided(self, progress: Sequence[RangeProgress]) -> PartitionPlan:
        """The plan after the partition was read, without `undecided`."""
        mine = [each for each in progress if each.offsets_partition == self.offsets_partition]
        if self.undecided is None:
            return self
        if not any(each.is_reread for each in mine):
            return self._replace(reread=None, undecided=None)
        new = [each for each in mine if not each.is_reread]
        span = max(each.next_offset for each in new) - self.start_offset
        why = self.undecided.why_read_again(span - sum(each.records for each in new), span)
        return self._replace(read_again=True, why_read_again=why, undecided=None)


@dataclass(frozen=True)
class AuditPlan:
    """The plans of all given partitions, by number."""

    partitions: list[PartitionPlan]
    cluster_id: str | None
    notes: list[str] = field(default_factory=list)
    # Partitions that are left to the next audit, and why. They are not among `partitions`.
    left: Mapping[int, NotReadable] = field(default_factory=dict)

    @property
    def is_new(self) -> bool:
        return bool(self.new_ranges or self.read_again or self.replaced)

    @property
    def new_ranges(self) -> list[LogRange]:
        return [p.new for p in self.partitions if p.new is not None]

    @property
    def reread_ranges(self) -> list[LogRange]:
        return [p.reread for p in self.partitions if p.reread is not None]

    @property
    def replaced(self) -> dict[int, CutBack]:
        """The partitions whose log was cut back, and where."""
        return {p.offsets_partition: p.cut for p in self.partitions if p.cut is not None}

    @property
    def read_again(self) -> list[PartitionPlan]:
        return [p for p in self.partitions if p.read_again]

    @property
    def losses(self) -> list[str]:
        """Notes on offsets that were gone before they were read."""
        lost = [p for p in self.partitions if p.lost_from is not None]
        notes = [
            f"offsets {p.lost_from} to {p.log_start_offset - 1} of partition {p.offsets_partition} were gone before "
            f"they were read: the log starts at {p.log_start_offset} now"
            for p in lost
            if p.lost_from
        ]
        # The cleaner merges segments into the first one, which keeps its name.
        if of_first_segment := [p.offsets_partition for p in lost if p.lost_from == 0]:
            notes.append(
                f"the first offsets of {named_partitions(of_first_segment)} were gone before they were read: a "
                "compacted log keeps its first segment, so segments are missing, or the topic's cleanup.policy has "
                "delete; groups and offsets that were only there are missing"
            )
        return notes

    @property
    def left_notes(self) -> list[str]:
        """A note for each reason to leave partitions to the next audit."""
        by_reason: dict[str, list[int]] = {}
        for number, why in sorted(self.left.items()):
            by_reason.setdefault("leader lost" if isinstance(why, LeaderLost) else str(why), []).append(number)
        return [
            f"{named_partitions(numbers)} {'is' if len(numbers) == 1 else 'are'} left to the next audit: "
            f"{self.left[numbers[0]]}"
            + ("; the leaders of the others were lost, too" if why == "leader lost" and len(numbers) > 1 else "")
            for why, numbers in by_reason.items()
        ]

    def settled(self, progress: Sequence[RangeProgress]) -> AuditPlan:
        """The plan that readers could carry out: without given-up partitions, and with a decision if only reading shows
        whether a partition has to be read again. Raises KgroupsError if a partition that was cut back was given up."""
        given_up = {
            p.offsets_partition: (LeaderLost if p.leader_lost else NotReadable)(p.given_up)
            for p in progress
            if p.given_up is not None
        }
        if not given_up and not any(p.undecided for p in self.partitions):
            return self
        for each in self.partitions:
            if each.cut is not None and each.offsets_partition in given_up:
                raise KgroupsError(f"{each.log.where} was cut back, and {given_up[each.offsets_partition]}: try again")
        left = [p.decided(progress) for p in self.partitions if p.offsets_partition not in given_up]
        said = {p.offsets_partition for p in self.partitions if p.why_read_again}
        notes = [p.why_read_again for p in left if p.why_read_again and p.offsets_partition not in said]
        return AuditPlan(left, self.cluster_id, [*self.notes, *notes], {**self.left, **given_up})


def plan_audit(
    logs: Sequence[PartitionLog],
    last: AuditRow | None,
    *,
    full: bool = False,
    known_corrupt: Mapping[int, Collection[tuple[str, int]]] | None = None,
    delete_retention: DeleteRetention | None = None,
    readings: KnownReadings | None = None,
) -> AuditPlan:
    """The new part of the logs since the last finished audit (`last`; None: the lake is empty).

    A partition is read again from its start if all are (`full`), or if `delete_retention` has a reason.
    `known_corrupt`: by offsets partition, file name and position of the corrupt batches already in quarantine.
    `readings`: they identify a log that was cut back (None: it is refused). Raises AnotherLog if the logs are of
    another cluster. A partition that is refused or cannot be read is left to the next audit.
    """
    cluster_ids = {log.cluster_id for log in logs if log.cluster_id}
    if last and last.cluster_id and cluster_ids and last.cluster_id not in cluster_ids:
        raise AnotherLog(
            f"this is another log: the lake holds cluster {last.cluster_id}, and this log is of cluster "
            f"{min(cluster_ids)}; use a new lake"
        )
    known = known_corrupt or {}
    plans, left = list[PartitionPlan](), dict[int, NotReadable]()
    for log in logs:
        ask = partial(
            _plan_partition,
            before=last.progress(log.partition) if last else None,
            full=full,
            known_corrupt=known.get(log.partition, ()),
            delete_retention=delete_retention,
            readings=readings,
        )
        try:
            plans.append(log.asked(ask))
        except NotReadable as why:
            left[log.partition] = why
    cluster_id = next(iter(cluster_ids), last.cluster_id if last else None)
    notes = [p.cut.note(p.offsets_partition, p.log) for p in plans if p.cut is not None and p.cut.to_offset]
    notes += [p.why_read_again for p in plans if p.why_read_again is not None]
    return AuditPlan(plans, cluster_id, notes, left)


def require_readable(plans: Iterable[AuditPlan]) -> None:
    """Raises the reason if no partition of any log can be read now."""
    given = list(plans)
    reasons = [why for plan in given for why in plan.left.values()]
    if reasons and not any(plan.partitions for plan in given):
        if all(isinstance(why, AnotherLog) for why in reasons):
            raise AnotherLog(str(reasons[0]))
        raise KgroupsError(f"no partition can be read now: {next(note for plan in given for note in plan.left_notes)}")


def _plan_partition(
    log: PartitionLog,
    before: PartitionProgress | None,
    full: bool,
    known_corrupt: Collection[tuple[str, int]],
    delete_retention: DeleteRetention | None,
    readings: KnownReadings | None,
) -> PartitionPlan:
    if before is None:
        return _plan_new(log)
    try:
        require_same_topic(log, before)
        if not may_go_on(log, before):
            return PartitionPlan(log, log.log_start_offset, before.end_offset, None, before=before)
    except AnotherLog as refused:
        if readings is None:
            raise
        return _plan_cut(log, readings.cut(log, before, refused))
    log_start = log.log_start_offset
    start = max(before.end_offset, log_start)
    new = _new_range(log, start, known_corrupt)
    why, undecided = (None, None) if full else _why_read_again(log, before, delete_retention)
    read_again = full or why is not None
    reread = _reread(log, log_start, start) if read_again or undecided else None
    return PartitionPlan(
        log,
        log_start,
        start,
        new,
        reread and reread._replace(only_if_missing=undecided is not None),
        before.end_offset if before.end_offset < log_start else None,
        before,
        read_again,
        why,
        undecided,
    )


def _plan_new(log: PartitionLog, cut: CutBack | None = None) -> PartitionPlan:
    start = log.log_start_offset
    return PartitionPlan(log, start, start, _new_range(log, start), lost_from=0 if start > 0 else None, cut=cut)


def _plan_cut(log: PartitionLog, cut: CutBack) -> PartitionPlan:
    """Reads the log whole: the cleaner may already have removed the tombstones and markers of its new end."""
    if cut.before is None:
        return _plan_new(log, cut)
    log_start = log.log_start_offset
    start = max(cut.from_offset, log_start)
    new, reread = _new_range(log, start), _reread(log, log_start, start)
    return PartitionPlan(log, log_start, start, new, reread, before=cut.before, read_again=True, cut=cut)


def _why_read_again(
    log: PartitionLog, before: PartitionProgress, delete_retention: DeleteRetention | None
) -> tuple[str | None, TooOld | None]:
    """The reason to read the partition again, as a sentence (None: there is none, or not yet), and the question that
    only reading can answer (None: there is none)."""
    if delete_retention is None:
        return None, None
    too_old = delete_retention.too_old(before, log.end_offset, log.newest_timestamp)
    if too_old is None:
        return None, None
    gone = log.missing_from(before.end_offset)
    if gone is None and log.log_start_offset <= before.end_offset:
        return None, too_old
    if gone is None:
        gone = log.log_start_offset - before.end_offset
    return too_old.why_read_again(gone, log.end_offset - before.end_offset), None


def _new_range(log: PartitionLog, start: int, known_corrupt: Collection[tuple[str, int]] = ()) -> LogRange | None:
    pieces = log.new_pieces(start, known_corrupt)
    if not pieces:
        return None
    return LogRange(log.partition, 0, start, pieces, frozenset(known_corrupt), end_offset=log.readable_to)


def _reread(log: PartitionLog, log_start: int, start: int) -> LogRange | None:
    pieces = log.pieces_before(start)
    if not pieces or log_start >= start:
        return None
    return LogRange(log.partition, -1, log_start, pieces, is_reread=True, end_offset=start)


def read_now(plan: PartitionPlan, ranges: list[RangeProgress]) -> PartitionProgress:
    """The entry after this audit. `ranges`: in log order; those read again add only to `records` and `bytes`."""
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
    return before._replace(
        start_offset=before.end_offset,
        records=0,
        records_reread=0,
        bytes=0,
        offsets_missing=0,
        lost_from=None,
        lost_to=None,
    )


# Ranges to read last: if files changed during a read, the log's end that another range saw may be too early.


def read_on(plan: AuditPlan, progress: Sequence[RangeProgress]) -> list[LogRange]:
    """One more range for each partition in which a range with its own end was listed again and found the log longer
    than the last range had read it. A record that the cleaner dropped there may have its newer record after that end
    (sources/segment_log.py). One more range is enough, because it continues to the log's end by itself."""
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


# Offsets at or above the high watermark were not read, because their records may be lost.


# A broker writes the file every five seconds, and drops a follower that is 30 seconds behind (replica.lag.time.max.ms).
STALE_MS = UNITS_MS["m"]


class Uncommitted(NamedTuple):
    """Offsets of a partition that were not read: their number, and the log time that they span, ms."""

    offsets: int
    log_ms: int

    @property
    def is_stale(self) -> bool:
        """Whether no broker leaves so much uncommitted: the checkpoint is older than the log."""
        return self.log_ms > STALE_MS


def uncommitted_offsets(plan: AuditPlan, progress: Sequence[RangeProgress], latest_ms: int) -> dict[int, Uncommitted]:
    """Such offsets by offsets partition, if any. Log times after `latest_ms` do not count."""
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


def missing_files_note(plan: AuditPlan) -> Iterator[str]:
    """A note on committed offsets after the end of the segment files, if there are any."""
    short = Counter[int]()
    for partition in plan.partitions:
        if (committed := partition.log.readable_to) is not None:
            short[partition.offsets_partition] = committed - partition.log.asked(lambda log: log.end_offset)
    if short := +short:
        where = f"{counted(len(short), 'partition')} ({number_ranges(sorted(short))})"
        are = "is" if short.total() == 1 else "are"
        yield (
            f"{counted(short.total(), 'offset')} of {where} {are} not in the segment files, and below the high "
            f"watermark in {HIGH_WATERMARKS}: the files were copied before it, or some are missing"
        )


KnownCorrupt = dict[int, set[tuple[str, int]]]


def known_corrupt(lake: Lake, topic: str | None = None) -> KnownCorrupt:
    """File names and positions of corrupt batches in quarantine, by partition. `topic` None: the offsets log."""
    conditions = [Condition("reason", "==", "corrupt_batch"), Condition("file", "is not null")]
    table, partition = "quarantine", "offsets_partition"
    if topic is not None:
        table, partition = "state_quarantine", "state_partition"
        conditions.append(Condition("log", "==", topic))
    known: KnownCorrupt = {}
    if lake.table(table).files():
        for row in lake.rows(table, columns=[partition, "file", "file_position"], conditions=conditions).to_pylist():
            known.setdefault(row[partition], set()).add((row["file"].rsplit("/", 1)[-1], row["file_position"]))
    return known
