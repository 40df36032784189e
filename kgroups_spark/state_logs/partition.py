"""One partition of `__share_group_state` or `__transaction_state`, from its bytes to rows of all tables.

One task reads a partition and replays it at the same time: no record is about a key of another partition, and there are
no transactions, so there is nothing to combine, to sort or to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.decoding.partition_reading import PartitionReading
from kgroups_spark.decoding.range_progress import RangeProgress, ReadContext, damaged_when_read_again
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.messages.coordinator_logs import COORDINATOR_LOGS
from kgroups_spark.messages.coordinator_records import CoordinatorRecordDecoder
from kgroups_spark.state_logs.range_decoder import Output, StateRangeDecoder
from kgroups_spark.state_logs.replay import SETTINGS, Settings, StateRecord, StateReplay, replay_history

Place = tuple[str, int]


@dataclass(frozen=True)
class StateShardWork:
    """The work of an audit on one partition. `starts_again`: the offset at which the log now begins, if that is
    after the last one read, because DeleteRecords removed records that newer snapshots replace; keys that it no longer
    has are dropped. `is_replaced`: nothing that was read of it counts any longer."""

    topic: str
    partition: int
    ranges: tuple[LogRange, ...] = ()
    starts_again: int | None = None
    is_replaced: bool = False

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    def without_deleted(self, log_start: int) -> StateShardWork:
        """The work if DeleteRecords moved the log's start there after planning."""
        ranges = tuple(each.without_deleted(log_start) for each in self.ranges)
        is_gap = any(each.start_offset < log_start for each in self.ranges if not each.is_reread)
        return replace(self, ranges=ranges, starts_again=log_start if is_gap else self.starts_again)


@dataclass
class StateShardRead:
    """The progress in one partition, complete when its outputs have ended. `gone`: the number of keys that the log had
    lost when it was read again."""

    topic: str
    progress: list[RangeProgress] = field(default_factory=list)
    gone: int = 0


def read_and_replay(
    work: StateShardWork,
    state: Iterable[StateRow],
    context: ReadContext,
    settings: Settings | None,
    read: StateShardRead,
    history: Iterable[StateRecord] | None,
) -> Iterator[Output]:
    """Rows of every table of the partition, read on from the saved `state`, or in a rebuild from the state after its
    `history`.

    Raises NotReadable: then none of these rows count. `left_as_it_was` returns the valid ones.
    """
    shard, log = _before(work, state, context, history), COORDINATOR_LOGS[work.topic]
    if work.starts_again is not None:
        shard.start_again(work.starts_again)
    records, again = CoordinatorRecordDecoder(log), list[StateRecord]()
    is_kept = any(each.is_reread for each in work.ranges)

    def take(record: StateRecord) -> str | None:
        if is_kept:
            again.append(record)
        return shard.replay(record)

    if work.ranges:
        reading = PartitionReading(
            work.partition, work.ranges, context, lambda r: StateRangeDecoder(log, r, context, records)
        )
        for decoder in reading.decoders():
            yield from decoder.outputs(again.append if decoder.is_reread else take)
            read.progress.append(decoder.progress)
    events = shard.take_events(context.audit_id)
    if events.num_rows:
        yield "state_events", events
    if any(each.is_reread for each in read.progress) and not damaged_when_read_again(read.progress):
        fresh = StateReplay(log, release(context.release_version), work.partition, reporting=False)
        for record in sorted(again, key=attrgetter("log_offset")):
            fresh.replay(record)
        gone = shard.keys() - fresh.keys()
        fresh.keep(shard)
        fresh.report_gone(gone, max(each.next_offset for each in read.progress))
        shard, read.gone = fresh, len(gone)
    yield from shard.tables(context.audit_id, settings)


def _before(
    work: StateShardWork, state: Iterable[StateRow], context: ReadContext, history: Iterable[StateRecord] | None
) -> StateReplay:
    """The shard after the history of its partition, without events: earlier audits have written them. None: it is the
    saved state, in which a key that was gone may be there again."""
    log, rules = COORDINATOR_LOGS[work.topic], release(context.release_version)
    if work.is_replaced:
        state, history = [row for row in state if row.entry_type == SETTINGS], None
    shard = StateReplay(log, rules, work.partition, state, reporting=False)
    if history is not None:
        replay_history(shard, history, shard.gone())
    return shard.reporting()


def left_as_it_was(
    work: StateShardWork,
    state: Iterable[StateRow],
    context: ReadContext,
    settings: Settings | None,
    why: str,
    history: Iterable[StateRecord] | None,
) -> tuple[list[Output], StateShardRead]:
    """The rows of a partition that could not be read to its end: those of the last audit."""
    shard = _before(work, state, context, history)
    lost = RangeProgress.of(work.ranges[0], given_up=why)
    return list(shard.tables(context.audit_id, settings)), StateShardRead(work.topic, [lost])
