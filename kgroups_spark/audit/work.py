"""One audit's work for both writers: what to read, from which state, into which lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow.compute as pc

from kgroups_spark.audit.log_source import AuditSettings, LogSource
from kgroups_spark.audit.plan import AuditPlan, not_read_now, read_now
from kgroups_spark.audit.state_log_plan import StatePlan
from kgroups_spark.coordinator.releases import RULES_VERSION, Topics
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.claim import Claim
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import TABLES_ALONE
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.replaced import NOTHING, Replaced, ReplacedRange
from kgroups_spark.lake.writer import LakeWriter, newest_state, rows_of_state
from kgroups_spark.offsets.expiry import CleanUp
from kgroups_spark.replay.corrections import Correction
from kgroups_spark.replay.counts import CLUSTER, Sighting, TopicNames, counts_in_all, fitting_by_partition, sightings
from kgroups_spark.replay.ranges import (
    CLOCKS_DIFFER_MS,
    Judged,
    LogRange,
    LogTimes,
    RangeProgress,
    ReadContext,
    ahead_notes,
    cut,
    damaged_when_read_again,
    known_times,
    live_as_of,
    newest_time,
    ranges_by_fetcher,
    ranges_by_task,
)
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.shard_states import task_shards
from kgroups_spark.replay.sinks import Sink
from kgroups_spark.replay.stages import CURRENT, PREVIOUS
from kgroups_spark.replay.state_logs import ClusterFact
from kgroups_spark.replay.stored_history import OF_NIGHT, TaskShards
from kgroups_spark.sources.files import open_file
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.definitions import REREAD
from kgroups_spark.tables.rows import table_of_rows
from kgroups_spark.tables.schemas import CHECKPOINTS, GROUP
from kgroups_spark.words import counted, sized, to_epoch_ms

# The state from which an audit starts: the audit that saved it, and whether the rules have changed since (R7).

# Tables that do not follow from history, or not yet.
NOT_REBUILT = ("group_traffic", "topic_offsets", "cluster_facts", "previous_offset_expiry", "audits")


class SavedState(NamedTuple):
    """`audit_id`: the audit with the checkpoints to start from (None: there are none); `rows`: their rough number by
    offsets partition. `why_rebuilt`: why it must be rebuilt, as a sentence; None: it can be used.

    `kept_audit_id`: the audit with rows that stay until this one has finished, so that it can be repeated if killed.
    `topics`: names that a rebuild found and the table lacks. `has_decoded_again`: it moved records out of quarantine
    that group_traffic does not count yet.
    """

    audit_id: int | None
    why_rebuilt: str | None = None
    kept_audit_id: int | None = None
    topics: tuple[Sighting, ...] = ()
    rows: Mapping[int, int] = {}
    has_decoded_again: bool = False


def saved_state(lake: Lake, claim: Claim, release_version: str, recreated: Sequence[str] = ()) -> SavedState:
    """The state of the last finished audit, or an older one if that audit had no reason to rewrite it. `recreated`:
    tables that were deleted and have been created again."""
    before = claim.before
    if before is None:
        return SavedState(None)
    newest = newest_state(lake, CHECKPOINTS, before.audit_id)
    why = _gone(recreated) or _difference(before, release_version) or left_undone(claim, before)
    ends, rows = ({}, {}) if newest is None else _ends_and_rows(lake, newest)
    why = why or _missing(before, newest, ends)
    return SavedState(newest, why, kept_audit_id=newest, rows=rows)


def _ends_and_rows(lake: Lake, audit_id: int) -> tuple[dict[int, int], dict[int, int]]:
    """The end offset of an audit's state, and its number of rows, both by offsets partition."""
    columns = ["offsets_partition", "log_offset"]
    rows = lake.rows(CHECKPOINTS, columns=columns, conditions=rows_of_state(CHECKPOINTS, audit_id))
    found = rows.group_by("offsets_partition").aggregate([("log_offset", "max"), ([], "count_all")]).to_pydict()
    numbers = found["offsets_partition"]
    ends, counts = (dict(zip(numbers, found[name], strict=True)) for name in ("log_offset_max", "count_all"))
    return ends, counts


def _missing(before: AuditRow, newest: int | None, saved: Mapping[int, int]) -> str | None:
    """Why the newest state is not that of the last finished audit; None: it is. A state that ends at another log offset
    than that audit is an older one, restored or left as the only one."""
    if newest is None:
        return (
            f"state rebuilt from history: the lake has none of audit {before.audit_id}" if before.partitions else None
        )
    for each in before.partitions or ():
        number, end_offset = each.offsets_partition, each.end_offset
        if saved.get(number) != end_offset and (number in saved or each.last_batch_offset is not None):
            return (
                f"state rebuilt from history: audit {before.audit_id} had read partition {number} up to offset "
                f"{end_offset}, and its state is {f'that before {saved[number]}' if number in saved else 'gone'}"
            )
    return None


def intention(release_version: str, source: str, gone: Sequence[str]) -> dict[str, Any]:
    """The contents of the ledger's row `running`: the next audit sees whether this one may have rebuilt history."""
    return {
        "release_version": release_version,
        "rules_version": RULES_VERSION,
        "state_format": STATE_FORMAT,
        "source": source,
        "notes": (_gone(gone),) if _gone(gone) else None,
    }


def _gone(recreated: Sequence[str]) -> str | None:
    rebuilt = [name for name in recreated if name not in NOT_REBUILT]
    return f"state rebuilt from history: table {', '.join(rebuilt)} was missing" if rebuilt else None


def _difference(before: AuditRow, release_version: str) -> str | None:
    for name, then, now in (
        ("release", before.release_version, release_version),
        ("rules version", before.rules_version, RULES_VERSION),
        ("state format", before.state_format, STATE_FORMAT),
    ):
        if then != now:
            return f"state rebuilt from history: audit {before.audit_id} used {name} {then}, this one {now}"
    return None


def left_undone(claim: Claim, before: AuditRow) -> str | None:
    """Why version tables may not be those of the last finished audit: an unfinished one was rebuilding them."""
    for row in claim.unfinished_rows:
        meant = (row.release_version, row.rules_version)
        is_other = meant != (before.release_version, before.rules_version)
        is_other |= before.state_format != STATE_FORMAT
        if row.release_version is not None and (row.source == TABLES_ALONE or is_other or row.notes):
            return f"state rebuilt from history: audit {row.audit_id} began to, and did not finish"
    return None


# Names of topic ids, and the number of partitions of `__consumer_offsets`.
#
# Both come from the user, the cluster, earlier audits and the log just read.

SOME_NAMES = 100


@dataclass(frozen=True)
class KnownNames:
    """The names that an audit knows. `then`: the tables of the last finished audit (None: no audit has finished).
    `state`: the state that it saved. `given_count`: the partition count from the user; None: none was given."""

    lake: Lake
    then: LakeAsOfAudit | None
    state: SavedState
    source: LogSource | None
    given_count: int | None

    def partition_count(self, progress: list[RangeProgress]) -> int | None:
        """The partition count of the offsets topic: from the user, the cluster, or the only number that fits."""
        if self._reported_count is not None:
            return self._reported_count
        found = counts_in_all(self._fitting(progress))
        if len(found) > 1:
            found = counts_in_all([*self._fitting(progress), *self._counts_read])
        return found.pop() if len(found) == 1 else None

    def no_count_fits(self, progress: list[RangeProgress]) -> bool:
        """Whether the partition count is unknown because the groups of some partitions contradict each other."""
        if self._reported_count is not None:
            return False
        fitting = self._fitting(progress)
        return bool(fitting) and not counts_in_all(fitting)

    def topics(self, progress: list[RangeProgress]) -> TopicNames:
        """The names of topic ids that any audit has seen."""
        names = TopicNames()
        names.merge(self._topics_before)
        names.merge(self.source.topics if self.source is not None else ())
        for each in progress:
            names.merge(each.topics)
        return names

    @property
    def _reported_count(self) -> int | None:
        if self.given_count is not None:
            return self.given_count
        return None if self.source is None else self.source.offsets_partitions

    def _fitting(self, progress: list[RangeProgress]) -> list[list[int]]:
        """The possible partition counts by partition, by the groups of this audit and the last one."""
        return [*(each.partition_counts for each in progress), *self._counts_before]

    # Read once and before anything is committed: this audit rewrites both tables.

    @cached_property
    def _counts_before(self) -> list[list[int]]:
        """The possible partition counts of the offsets topic, by the groups of the last audit."""
        if self.then is None:
            return []
        groups = self.then.rows("groups", [*GROUP, "is_misplaced"])
        # If a few names of each partition leave one number, and none was misplaced, then all names fit this number.
        some = fitting_by_partition(groups, SOME_NAMES)
        is_known = pc.all(pc.equal(groups["is_misplaced"], False), skip_nulls=False, min_count=0).as_py()
        found = some if is_known and len(counts_in_all(some)) == 1 else fitting_by_partition(groups)
        return found or self._counts_read  # the table may have been lost

    @cached_property
    def _counts_read(self) -> list[list[int]]:
        """The same by all groups that any audit has read, including deleted ones."""
        if self.then is None:
            return []
        return fitting_by_partition(self.lake.rows("group_traffic", columns=GROUP))

    @cached_property
    def _topics_before(self) -> list[Sighting]:
        """The rows of `topics` that the last audit left, and those that a rebuild found."""
        return [*self.state.topics, *(sightings(self.then.rows("topics").to_pylist()) if self.then else ())]


def known_topics(names: TopicNames) -> Topics:
    """The names for a shard. A name's id is the cluster's, otherwise the one with the latest first sighting."""
    topics = Topics()
    for sighting in sorted(
        names.rows(), key=lambda each: (each[3] == CLUSTER, -1 if each[2] is None else each[2], each[0])
    ):
        topics.learn(*sighting)
    return topics


# The number of names in a note and on a line of the screen; the tables have all.
NAMES_REPORTED = 3
IN_ORDER = ("group", "noted", "producer")


def read_again(plan: AuditPlan, progress: Sequence[RangeProgress]) -> dict[int, int]:
    """By offsets partition, the end of a log that was read again, if that is reliable: a part that is now damaged
    proves nothing. Without a new record there is no log offset for versions: another audit corrects the partition."""
    damaged = damaged_when_read_again(progress)
    starts = {p.offsets_partition: p.start_offset for p in plan.read_again if p.offsets_partition not in damaged}
    ends = dict[int, int]()
    for each in progress:
        number = each.offsets_partition
        if not each.is_reread and number in starts and each.next_offset > starts[number]:
            ends[number] = max(ends.get(number, 0), each.next_offset)
    return ends


def correction_notes(lake: Lake, audit_id: int, plan: AuditPlan, progress: Sequence[RangeProgress]) -> list[str]:
    """A sentence for each partition whose log differed when it was read again, or that could not be corrected."""
    if not plan.read_again:
        return []
    in_vain = {each.offsets_partition for each in progress if each.is_reread} - damaged_when_read_again(progress).keys()
    in_vain &= {each.offsets_partition for each in plan.read_again if each.new is None}
    ours = [Condition("audit_id", "==", audit_id), Condition("reason", "==", REREAD)]
    rows = lake.rows(CHECKPOINTS, columns=["offsets_partition", *Correction._fields], conditions=ours)
    groups: dict[tuple[int, int, bool], list[str | None]] = {}
    for number, *entry in zip(*rows.to_pydict().values(), strict=True):
        correction = Correction(*entry)
        kind = number, IN_ORDER.index(correction.entry_type), not correction.is_gone
        groups.setdefault(kind, []).append(correction.group_id)
    by_partition: dict[int, list[str]] = {}
    for kind in sorted(groups):
        number, entry_type, stays = kind
        names = sorted(filter(None, groups[kind]))[:NAMES_REPORTED]
        by_partition.setdefault(number, []).append(_corrected(IN_ORDER[entry_type], stays, len(groups[kind]), names))
    return [f"partition {each} was read again, but has no new record: not corrected" for each in sorted(in_vain)] + [
        f"partition {number} was corrected: compaction removed records before we read them: {'; '.join(each)}"
        for number, each in by_partition.items()
    ]


def _corrected(entry_type: str, stays: bool, entries: int, names: Collection[str]) -> str:
    if entry_type == "producer":
        return f"{counted(entries, 'transaction')} {'changed' if stays else 'ended'}"
    more = f" and {entries - len(names):,} more" if entries > len(names) else ""
    groups = f"{counted(entries, 'group')} {{}} ({', '.join(names)}{more})"
    if entry_type == "noted":
        return groups.format("with other producers noted")
    return groups.format("changed" if stays else "gone")


# Fewer bytes are not worth their own task, whose start costs more.
SMALLEST_TASK_BYTES = 4 << 20


@dataclass
class AuditWork:
    """The work of an audit, and its means. A rebuild changes `state`, and reading the log settles `plan`.

    `source` is None for a rebuild, which reads no log. `chosen_partitions`: the user chose the partitions to read.
    `states`: the plans of the other logs. `facts`: the rows of `cluster_facts` to write.
    """

    lake: Lake
    writer: LakeWriter
    plan: AuditPlan
    before: AuditRow | None
    state: SavedState
    settings: AuditSettings
    progress: Callable[[str], None]
    source: LogSource | None = None
    chosen_partitions: bool = False
    max_bytes_per_second: int | None = None
    states: StatePlan = field(default_factory=StatePlan)
    facts: tuple[ClusterFact, ...] = ()

    @property
    def audit_id(self) -> int:
        return self.writer.audit_id

    @property
    def is_live(self) -> bool:
        """Whether brokers are read, not files."""
        return self.source is not None and self.source.client is not None

    @property
    def replaced(self) -> Replaced:
        """The parts of history that no longer count, for this audit and those after it."""
        known = self.before.replaced if self.before else NOTHING
        plans = [(None, self.plan), *self.states.plans.items()]
        return known.and_also(
            ReplacedRange(number, cut.from_offset, cut.to_offset, self.audit_id, topic)
            for topic, plan in plans
            for number, cut in plan.replaced.items()
        )

    @cached_property
    def names(self) -> KnownNames:
        """The names of topic ids and the partition count. It reads two tables once, before this audit rewrites them."""
        then = self.then if self.before else None
        return KnownNames(self.lake, then, self.state, self.source, self.settings.offsets_partitions)

    @cached_property
    def slots(self) -> int:
        return self.lake.runner.slots

    @cached_property
    def ranges_by_task(self) -> list[list[LogRange]]:
        return self.by_task([*self.plan.reread_ranges, *self.plan.new_ranges])

    def by_task(self, whole: Sequence[LogRange]) -> list[list[LogRange]]:
        """The ranges of each task; large ones are cut if that is worth it."""
        if self.is_live:
            return ranges_by_fetcher(whole)
        ranges = cut(whole, self.slots)
        return ranges_by_task(ranges, self.tasks_for(sum(log_range.size_bytes for log_range in ranges)))

    def tasks_for(self, size_bytes: int) -> int:
        """The number of tasks for a part of the log."""
        return max(1, min(2 * self.slots, -(-size_bytes // SMALLEST_TASK_BYTES)))

    @property
    def reading(self) -> str:
        """The progress line for stage 1. The rest of a live log is not known beforehand."""
        ranges = (*self.plan.new_ranges, *self.plan.reread_ranges)
        partitions = counted(len({each.offsets_partition for each in ranges}), "partition")
        if self.is_live:
            return f"reading new records of {partitions}"
        return f"reading {sized(sum(r.size_bytes for ranges in self.ranges_by_task for r in ranges))} of {partitions}"

    def settle(self, progress: list[RangeProgress]) -> list[RangeProgress]:
        """Takes the partitions that stage 1 gave up out of the plan; returns the progress of the others. Raises
        KgroupsError if nothing could be read to its end."""
        self.plan = self.plan.settled(progress)
        given_up = {each.offsets_partition: each.given_up for each in progress if each.given_up is not None}
        if given_up and not (self.plan.new_ranges or self.plan.reread_ranges):
            raise KgroupsError(f"nothing could be read to its end: {next(iter(given_up.values()))}")
        return [each for each in progress if each.offsets_partition not in given_up]

    @property
    def shards(self) -> list[int]:
        """Every offsets partition that has or gets a state, also those that were not given this time."""
        known = {p.offsets_partition for p in self.before.partitions or ()} if self.before else set()
        return sorted(known | {p.offsets_partition for p in self.plan.partitions})

    def shards_by_task(self, progress: Iterable[RangeProgress] = ()) -> TaskShards:
        """The shards of each task."""
        rows, of_groups = Counter(self.state.rows), Counter[int]()
        for each in progress:
            rows[each.offsets_partition] += each.records
            of_groups[each.offsets_partition] += sum(n for (kind, _), n in each.record_counts.items() if kind > 1)
        tasks = task_shards({shard: rows[shard] for shard in self.shards}, self.slots, of_groups)
        return tasks._replace(at_once=OF_NIGHT, alone={p.offsets_partition for p in self.plan.read_again})

    def read_context(self, tasks: int) -> ReadContext:
        """The context of reading with this number of tasks, which share the limit of bytes a second."""
        latest_ms = self.settings.clock_ms + CLOCKS_DIFFER_MS
        context = ReadContext(self.audit_id, self.settings.release_version, open_file, latest_ms=latest_ms)
        if self.source is None or self.source.client is None:
            return context
        from kgroups_spark.cluster.fetch import FetchLimits
        from kgroups_spark.cluster.live_log import Fetcher

        client = self.source.client
        limits = FetchLimits(min(tasks, self.slots), self.max_bytes_per_second, client.timeout_ms)
        return context._replace(fetcher=Fetcher(client, limits))

    def night(self, progress: list[RangeProgress], as_of_ms: int | None = None) -> Night:
        """The facts of stage 1 for a replay. `as_of_ms`: the moment of expiry; None: it decides nothing."""
        release_version, retention_ms = self.settings.release_version, self.settings.retention_ms
        return Night(
            self.audit_id,
            release_version,
            self.names.partition_count(progress),
            known_topics(self.names.topics(progress)),
            retention_ms,
            clean_up=None if as_of_ms is None else CleanUp(as_of_ms, retention_ms, release_version, self.audit_id),
        )

    def partitions_read(self, progress: list[RangeProgress]) -> list[PartitionProgress]:
        """The end of each partition's reading, by the ranges."""
        planned = {p.offsets_partition: p for p in self.plan.partitions}
        before = {p.offsets_partition: p for p in (self.before.partitions or ())} if self.before else {}
        ranges: dict[int, list[RangeProgress]] = {}
        for each in sorted(progress, key=lambda p: p.number):
            ranges.setdefault(each.offsets_partition, []).append(each)
        return [
            read_now(planned[number], ranges.get(number, [])) if number in planned else not_read_now(before[number])
            for number in sorted(planned.keys() | before.keys())
        ]

    def ends(self, progress: list[RangeProgress]) -> dict[int, int]:
        return {each.offsets_partition: each.end_offset for each in self.partitions_read(progress)}

    @cached_property
    def then(self) -> LakeAsOfAudit:
        """The tables as the last finished audit left them (empty: none has); a killed one may have rewritten them."""
        return LakeAsOfAudit(self.lake, self.before.audit_id if self.before else 0)


def replace_current(work: AuditWork, sink: Sink, progress: list[RangeProgress]) -> None:
    """The tables that each audit and each rebuild rewrites."""
    for name in (*CURRENT, PREVIOUS):
        sink.replace(work.writer, name)
    columns, rows = ("topic_id", "topic", "seen_log_timestamp", "source"), sorted(work.names.topics(progress).rows())
    work.writer.replace_table("topics", table_of_rows("topics", columns, rows, audit_id=work.audit_id))


class Moment(NamedTuple):
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
        """The moment from the options; otherwise the newest log time for segments, the present for a live cluster."""
        settings = work.settings
        known = known_times(work.before, settings.clock_ms)
        times = new_times(progress)
        newest_ms = newest_time((each for _, each in times), known.values())
        before = work.before.newest_log_timestamp if work.before else None
        notes = ahead_notes(times, settings.clock_ms, newest_ms, None if before is None else to_epoch_ms(before))
        now_ms, clock_notes = _now(work, newest_ms)
        if settings.as_of is None:
            return cls(now_ms, now_ms, newest_ms, known, (*notes, *clock_notes))
        return cls(settings.as_of, min(settings.as_of, now_ms), newest_ms, known, tuple(notes))


def new_times(progress: Sequence[RangeProgress]) -> list[tuple[int, LogTimes]]:
    """The times in ranges that were not read before, with their offsets partitions."""
    return [(each.offsets_partition, each.log_times) for each in progress if not each.is_reread]


def _now(work: AuditWork, newest_ms: int | None) -> Judged:
    clock_ms = work.settings.clock_ms
    if not work.is_live:
        return (clock_ms if newest_ms is None else newest_ms), ()
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
