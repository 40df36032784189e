"""The plan of an audit: where to go on in each offsets partition, if the log still is the lake's (same_log.py).

Planning writes nothing, so a wrong log is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.errors import KgroupsError, NotReadable
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.number_ranges import named_partitions
from kgroups_spark.plan.cut_back import AnotherLog, CutBack, KnownReadings
from kgroups_spark.plan.delete_retention import DeleteRetention, TooOld
from kgroups_spark.plan.same_log import is_known_end, require_same_log, require_same_topic
from kgroups_spark.sources.partition_log import LeaderLost, PartitionLog


@dataclass(frozen=True)
class PartitionPlan:
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
            return replace(self, reread=None, undecided=None)
        new = [each for each in mine if not each.is_reread]
        span = max(each.next_offset for each in new) - self.start_offset
        why = self.undecided.why_read_again(span - sum(each.records for each in new), span)
        return replace(self, read_again=True, why_read_again=why, undecided=None)


@dataclass(frozen=True)
class AuditPlan:
    """The plans of all given partitions, by number."""

    partitions: list[PartitionPlan]
    cluster_id: str | None
    notes: list[str] = field(default_factory=list)
    # Partitions that are refused or cannot be read to their ends, and why. They are left to the next audit, and are not
    # among `partitions`.
    left: Mapping[int, NotReadable] = field(default_factory=dict)

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
        whether a partition has to be read again. Raises KgroupsError if nothing could be read to its end, or if a
        partition that was cut back was given up."""
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
        if given_up and all(r.offsets_partition in given_up for r in (*self.new_ranges, *self.reread_ranges)):
            raise KgroupsError(f"nothing could be read to its end: {next(iter(given_up.values()))}")
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
    # Older versions recorded ids from meta.properties with Java's backslashes, which no id has itself.
    lakes_cluster = (last.cluster_id or "").replace("\\", "") if last else ""
    if lakes_cluster and cluster_ids and lakes_cluster not in cluster_ids:
        raise AnotherLog(
            f"this is another log: the lake holds cluster {lakes_cluster}, what was given is of cluster "
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
    cluster_id = next(iter(cluster_ids), lakes_cluster or None)
    notes = [p.cut.note(p.offsets_partition, p.log) for p in plans if p.cut is not None]
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
        if is_known_end(log, before):
            return PartitionPlan(log, log.log_start_offset, before.end_offset, None, before=before)
        require_same_log(log, before)
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
        reread and replace(reread, only_if_missing=undecided is not None),
        before.end_offset if before.end_offset < log_start else None,
        before,
        read_again,
        why,
        undecided,
    )


def _plan_new(log: PartitionLog, cut: CutBack | None = None) -> PartitionPlan:
    """The plan of a log of which the lake has nothing."""
    start = log.log_start_offset
    whole = _new_range(log, start)
    lost_from = 0 if start > 0 else None
    return PartitionPlan(log, start, start, whole, lost_from=lost_from, cut=cut)


def _plan_cut(log: PartitionLog, cut: CutBack) -> PartitionPlan:
    """A log that was cut back is read whole again, because the cleaner may already have removed the tombstones and
    markers of its new end."""
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
