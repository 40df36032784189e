"""The moment for which an audit decides what expires: known as soon as the log has been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgroups_spark.audit.work import AuditWork
from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS, Judged, LogTimes, ahead_notes, live_as_of, newest_time
from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.errors import KgroupsError
from kgroups_spark.history.known_times import known_times
from kgroups_spark.times import to_epoch_ms


@dataclass(frozen=True)
class Moment:
    """The moment of an audit's decisions; times in epoch ms.

    known_until_ms  the time up to which the log is complete; not after as_of
    newest_ms       the newest time in the log that counts; None: none does
    known           the newest log times of earlier audits in the ledger, by offsets partition
    notes           on times that do not count, and on clocks
    """

    as_of_ms: int
    known_until_ms: int
    newest_ms: int | None
    known: Mapping[int, int]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, work: AuditWork, progress: Sequence[RangeProgress]) -> Moment:
        """The moment from the options; otherwise the newest time in the log for segments, the present time for a live
        cluster."""
        settings = work.settings
        known = known_times(work.before, settings.clock_ms)
        times = new_times(progress)
        newest_ms = newest_time((each for _, each in times), known.values())
        before = work.before.newest_log_timestamp if work.before else None
        notes = ahead_notes(times, settings.clock_ms, newest_ms, None if before is None else to_epoch_ms(before))
        now = _now(work, newest_ms)
        if settings.as_of is None:
            return cls(now.ms, now.ms, newest_ms, known, (*notes, *now.notes))
        return cls(settings.as_of, min(settings.as_of, now.ms), newest_ms, known, tuple(notes))


def new_times(progress: Sequence[RangeProgress]) -> list[tuple[int, LogTimes]]:
    """The times in ranges that were not read before, with their offsets partitions."""
    return [(each.offsets_partition, each.log_times) for each in progress if not each.is_reread]


def _now(work: AuditWork, newest_ms: int | None) -> Judged:
    clock_ms = work.settings.clock_ms
    if not work.is_live:
        return Judged(clock_ms if newest_ms is None else newest_ms)
    before = work.before.as_of if work.before else None
    return live_as_of(clock_ms, newest_ms, _newest_appended(work), None if before is None else to_epoch_ms(before))


def _newest_appended(work: AuditWork) -> int | None:
    """The newest time of records that a live log received while it was read, ms: the time by the brokers' clocks."""
    cluster = work.source.cluster if work.source is not None else None
    if work.source is None or cluster is None:
        return None
    # Imported here, like all code for a cluster, because kafka-python is slow to import.
    from kgroups_spark.cluster.live_log import LiveLog, times_appended

    try:
        times = times_appended(cluster, [log for log in work.source.logs if isinstance(log, LiveLog)])
    except KgroupsError:  # the records are read, whatever the cluster answers now
        return None
    latest = work.settings.clock_ms + CLOCKS_DIFFER_MS
    return max((ms for ms in times if 0 <= ms <= latest), default=None)
