"""One audit's work for both writers: what to read, from which state, into which lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kgroups_spark.audit.known_names import KnownNames, known_topics
from kgroups_spark.audit.log_source import LogSource
from kgroups_spark.audit.read_again import read_again
from kgroups_spark.audit.saved_state import SavedState
from kgroups_spark.audit.settings import AuditSettings
from kgroups_spark.counts import counted, sized
from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.decoding.range_progress import RangeProgress, ReadContext
from kgroups_spark.decoding.ranges import LogRange, cut, ranges_by_fetcher, ranges_by_task
from kgroups_spark.decoding.redecode import COLUMNS
from kgroups_spark.expiry.clean_up import CleanUp
from kgroups_spark.history.stored import Stored, task_shards
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.replaced import NOTHING, Replaced, ReplacedRange
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.plan.audit_plan import AuditPlan
from kgroups_spark.plan.read_to import not_read_now, read_now
from kgroups_spark.replay.replay_shard import Night
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.replay.stored_tables import OF_NIGHT, TaskShards
from kgroups_spark.state_logs.plan import StatePlan
from kgroups_spark.storage.files import open_file
from kgroups_spark.tasks.replay_stage import ShardTask

# The columns of quarantine that identify the records that an audit has decoded again.
DECODED_AGAIN = ["offsets_partition", "resolved_by", *COLUMNS]
# Fewer bytes are not worth their own task, whose start costs more.
SMALLEST_TASK_BYTES = 4 << 20


@dataclass(frozen=True)
class AuditWork:
    """The work of an audit, and its means.

    `source` is None for a rebuild, which reads no log. `chosen_partitions`: the user chose the partitions to read.
    `states`: the same for other logs (state_logs.py). `has_decoded_again`: its rebuild moved records out of quarantine
    that group_traffic does not count yet.
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
    has_decoded_again: bool = False
    states: StatePlan = field(default_factory=StatePlan)

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
        total = sum(log_range.size_bytes for log_range in ranges)
        return ranges_by_task(ranges, max(1, min(2 * self.slots, -(-total // SMALLEST_TASK_BYTES)))) if ranges else []

    @property
    def reading(self) -> str:
        """The progress line for stage 1. The rest of a live log is not known beforehand."""
        partitions = counted(len(self.plan.new_ranges), "partition")
        if self.is_live:
            return f"reading new records of {partitions}"
        return f"reading {sized(sum(r.size_bytes for ranges in self.ranges_by_task for r in ranges))} of {partitions}"

    def settled(self, progress: list[RangeProgress]) -> tuple[AuditWork, list[RangeProgress]]:
        """The work and its result, both without the partitions that stage 1 gave up."""
        plan = self.plan.settled(progress)
        if plan is self.plan:
            return self, progress
        given_up = {each.offsets_partition for each in progress if each.given_up is not None}
        return replace(self, plan=plan), [each for each in progress if each.offsets_partition not in given_up]

    @cached_property
    def shards(self) -> list[int]:
        """Every offsets partition that has or gets a state, also those that were not given this time."""
        known = {p.offsets_partition for p in self.before.partitions or ()} if self.before else set()
        return sorted(known | {p.offsets_partition for p in self.plan.partitions})

    def shards_by_task(self, progress: Iterable[RangeProgress] = ()) -> TaskShards:
        """The shards of each task. A shard's weight is the rows of its saved state plus the records read from it."""
        rows = Counter(self.state.rows)
        for each in progress:
            rows[each.offsets_partition] += each.records
        return replace(task_shards({shard: rows[shard] for shard in self.shards}, self.slots), at_once=OF_NIGHT)

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
        return replace(context, fetcher=Fetcher(client, limits))

    def night(self, progress: list[RangeProgress], as_of_ms: int | None = None) -> Night:
        """The facts of stage 1 for a replay. `as_of_ms`: the moment of its expiry decisions; None: it decides
        nothing."""
        return Night(
            self.audit_id,
            self.settings.release_version,
            self.names.partition_count(progress),
            known_topics(self.names.topics(progress)),
            self.settings.retention_ms,
            clean_up=None if as_of_ms is None else self.clean_up(as_of_ms),
        )

    def clean_up(self, as_of_ms: int) -> CleanUp:
        """The clean-up for this audit's expiry decisions."""
        return CleanUp(as_of_ms, self.settings.retention_ms, self.settings.release_version, self.audit_id)

    def shard_task(self, progress: list[RangeProgress], as_of_ms: int, new: StoredHistory, stored: Stored) -> ShardTask:
        """The facts for the tasks of stage 2; `stored`: how they get the stored rows of their shards."""
        again = read_again(self.plan, progress)
        night, of = self.night(progress, as_of_ms), self.state.audit_id
        task = ShardTask(night, self.ends(progress), new, is_night=True, state_of=of, read_again=again)
        if not self.has_decoded_again:
            return task
        quarantine = stored.table("decoded_again", "quarantine", DECODED_AGAIN)
        return replace(task, decoded_again=quarantine)

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
        """The end of reading, by offsets partition."""
        return {each.offsets_partition: each.end_offset for each in self.partitions_read(progress)}

    @cached_property
    def then(self) -> LakeAsOfAudit:
        """The tables of the last finished audit (empty if none has finished). A killed audit may have rewritten
        them."""
        return LakeAsOfAudit(self.lake, self.before.audit_id if self.before else 0)
