"""A task's work on shards of `__share_group_state` and `__transaction_state`: it reads, decodes and replays them.

    saved state, or all history, and the new part of the log -> rows of STATE_LOG_TABLES; the progress as a fact

Both logs' partitions of one number are a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import NEWEST, Release, ReplayFailure, release
from kgroups_spark.coordinator.share_shard import (
    ShareBatchRow,
    ShareCoordinatorShard,
    ShareEvent,
    SharePartitionKey,
    SharePartitionRow,
    ShareRules,
    share_rules,
)
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.coordinator.transaction_shard import (
    TRANSACTIONAL_ID_EXPIRATION_MS,
    TransactionalIdRow,
    TransactionCoordinatorShard,
    TransactionEvent,
    TransactionRules,
    transaction_rules,
)
from kgroups_spark.errors import NotReadable
from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.messages.coordinator_records import (
    COORDINATOR_LOGS,
    SHARE_LOG,
    TRANSACTION_LOG,
    CoordinatorLog,
    CoordinatorRecord,
    CoordinatorRecordDecoder,
    Undecodable,
)
from kgroups_spark.offsets.columns import milliseconds
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.replay.range_decoder import PartitionReading
from kgroups_spark.replay.ranges import (
    LogRange,
    LogTimes,
    RangeProgress,
    RangeReader,
    ReadContext,
    damaged_when_read_again,
)
from kgroups_spark.replay.sinks import Fact, ShardBegins, ShardLost, TaskOutput
from kgroups_spark.replay.stages import progress_from_json, progress_to_json
from kgroups_spark.replay.stored_history import PartReader, StoredTable, TaskShards
from kgroups_spark.sources.partition_log import LeaderLost, LogStartMoved
from kgroups_spark.spark.tasks import numbers_in
from kgroups_spark.tables.rows import table_of_rows
from kgroups_spark.words import JAVA_INT_MAX, java_number

# Replay of `__share_group_state` and `__transaction_state`: (state, records in log order) -> rows by table, new state.
#
# One partition is one shard, as in Kafka. This module uses no Spark, no files and no clock. R2 holds: a log that is cut
# anywhere, and saved and loaded there, gives the rows of the whole log.
#
# A state's rows are those of its shard (share_coordinator, transaction_coordinator), and
#
# gone a key that was no longer in the log when the partition was read again from its start (R6), or none for all keys
# of a log that began after the last offset read; and the log offset up to which it is gone: history still has its
# records, and a replay of history drops the key there


GONE = "gone"
Key = tuple[Any, ...]
ALL_KEYS: Key = ()


class StateRecord(NamedTuple):
    """A record of either log. `key`: its fields in order. `value` None: a tombstone. `log_timestamp`: epoch ms."""

    log_offset: int
    log_timestamp: int | None
    record_type: int
    key: Key
    value_version: int | None
    value: dict[str, Any] | None
    layout: str = ""


# Configurations of brokers and groups.
DELIVERY_COUNT_LIMIT, DELIVERY_COUNT_LIMIT_OF_GROUP = "group.share.delivery.count.limit", "share.delivery.count.limit"
TRANSACTIONAL_ID_EXPIRATION = "transactional.id.expiration.ms"


class ClusterFact(NamedTuple):
    """A row of `cluster_facts`."""

    kind: Literal["broker_config", "group_config", "feature", "leader"]
    name: str | None
    value: str | None
    source: Literal["set", "default", "option"] | None = None
    broker: int | None = None
    group_id: str | None = None

    @property
    def number(self) -> int | None:
        """The value as a positive int of Java."""
        return java_number(self.value or "", 1, JAVA_INT_MAX)


class Settings(NamedTuple):
    """The settings of both coordinators in the cluster's configuration; None: unknown. `limits_of_groups`: groups with
    a delivery count limit of their own, which may be unknown, too."""

    delivery_count_limit: int | None = None
    transactional_id_expiration_ms: int | None = None
    limits_of_groups: dict[str, int | None] | None = None

    @classmethod
    def of(cls, facts: Sequence[ClusterFact]) -> Settings:
        """From `cluster_facts`: the limit on which all brokers agree, if it is known which groups have their own, else
        the option's; the smallest expiration."""
        own = {
            each.group_id: each.number
            for each in facts
            if each.kind == "group_config" and each.name in (None, DELIVERY_COUNT_LIMIT_OF_GROUP)
        }
        options = {each.number for each in facts if each.source == "option"}
        limits = {each.number for each in facts if each.name == DELIVERY_COUNT_LIMIT and each.source != "option"}
        known = limits if len(limits) == 1 and None not in own else options
        expirations = [each.number for each in facts if each.name == TRANSACTIONAL_ID_EXPIRATION]
        return cls(
            next(iter(known), None),
            min((number for number in expirations if number is not None), default=None),
            {group_id: limit for group_id, limit in own.items() if group_id is not None},
        )

    def limit_of(self, group_id: str) -> int | None:
        """The most deliveries of a record to the group's consumers."""
        return (self.limits_of_groups or {}).get(group_id, self.delivery_count_limit)


def state_record(log_offset: int, log_timestamp: int | None, record: CoordinatorRecord) -> StateRecord:
    """The record in the form for a replay."""
    key = tuple(record.key.values())
    return StateRecord(
        log_offset, log_timestamp, record.record_type, key, record.value_version, record.value, record.layout
    )


def rules_of(log: CoordinatorLog, of: Release) -> ShareRules | TransactionRules:
    """The release's rules for the log; the newest release's if the release has no such log."""
    rules = share_rules if log is SHARE_LOG else transaction_rules
    found = rules(of) or rules(release(NEWEST))
    assert found is not None
    return found


class StateReplay:
    """One shard of either log, from its saved rows on. `reporting`: it records events."""

    def __init__(
        self,
        log: CoordinatorLog,
        of: Release,
        partition: int,
        state: Iterable[StateRow] = (),
        *,
        reporting: bool = True,
    ) -> None:
        self.log = log
        self.partition = partition
        rows = list(state)
        self._gone = [row for row in rows if row.entry_type == GONE]
        saved = [row for row in rows if row.entry_type != GONE]
        rules = rules_of(log, of)
        self._shard: ShareCoordinatorShard | TransactionCoordinatorShard
        if isinstance(rules, ShareRules):
            self._shard = ShareCoordinatorShard.load(rules, partition, saved, reporting=reporting)
        else:
            self._shard = TransactionCoordinatorShard.load(rules, partition, saved, reporting=reporting)

    def reporting(self) -> StateReplay:
        """The same shard, which records events from now on."""
        self._shard.reporting = True
        return self

    def replay(self, record: StateRecord) -> str | None:
        """Replays the record. Returns the reason if a coordinator's load fails at it; then nothing has changed."""
        offset, time, record_type, key, version, value, layout = record
        try:
            if isinstance(self._shard, ShareCoordinatorShard):
                group_id, topic_id, partition = key
                self._shard.replay(offset, time, record_type, group_id, topic_id, partition, value, layout)
            else:
                (transactional_id,) = key
                self._shard.replay(offset, time, transactional_id, version, value)
        except ReplayFailure as failure:
            return str(failure)
        return None

    def keys(self) -> set[Key]:
        if isinstance(self._shard, ShareCoordinatorShard):
            return {tuple(key) for key in self._shard.share_partitions}
        return {(key,) for key in self._shard.transactional_ids}

    def drop(self, key: Key) -> None:
        """Removes the state of a key that the log no longer has; of all keys: ()."""
        if key == ALL_KEYS:
            for each in self.keys():
                self.drop(each)
        elif isinstance(self._shard, ShareCoordinatorShard):
            self._shard.share_partitions.pop(SharePartitionKey(*key), None)
        else:
            self._shard.transactional_ids.pop(key[0], None)

    def report_gone(self, keys: Iterable[Key], log_offset: int) -> None:
        """Records that these keys were no longer in the log below that offset."""
        for key in sorted(keys):
            self._gone.append(StateRow(GONE, None, orjson.dumps([log_offset, *key]).decode()))

    def keep(self, other: StateReplay) -> None:
        """Takes over the facts that another replay of the partition keeps besides its state."""
        self._gone = list(other._gone)

    def gone(self) -> list[tuple[int, Key]]:
        """(log offset, key) of keys that were no longer in the log, in the log's order."""
        found = [orjson.loads(row.payload) for row in self._gone]
        return sorted((offset, tuple(key)) for offset, *key in found)

    def save(self) -> Iterator[StateRow]:
        yield from self._shard.save()
        yield from self._gone

    def tables(self, audit_id: int, settings: Settings) -> Iterator[tuple[str, pa.Table]]:
        """The rows of the current tables, and of the state. `share_partitions` lack topic and init_state,
        `share_batches` topic: audit/state_log_plan.py has them from the group coordinator's log."""
        if isinstance(self._shard, ShareCoordinatorShard):
            partitions = self._shard.share_partition_rows()
            yield "share_partitions", _rows("share_partitions", SharePartitionRow._fields, partitions, audit_id)
            batches = self._shard.share_batch_rows(settings.limit_of)
            yield "share_batches", _rows("share_batches", ShareBatchRow._fields, batches, audit_id, topic=None)
        else:
            expiration_ms = settings.transactional_id_expiration_ms or TRANSACTIONAL_ID_EXPIRATION_MS
            rows = self._shard.transactional_id_rows(expiration_ms)
            columns = TransactionalIdRow._fields
            yield "transactional_ids", _rows("transactional_ids", columns, map(_as_columns, rows), audit_id)
        place = {"log": self.log.topic, "state_partition": self.partition}
        yield "state_log_state", _rows("state_log_state", StateRow._fields, self.save(), audit_id, **place)

    def take_events(self, audit_id: int) -> pa.Table:
        """Rows of state_events since the last call."""
        is_share = self.log is SHARE_LOG
        fields, no_fields = (ShareEvent._fields, _OF_TRANSACTIONS) if is_share else (_TRANSACTION_EVENT, _OF_SHARES)
        events = ([getattr(event, name) for name in fields] for event in self._shard.take_events())
        place = {"log": self.log.topic, "state_partition": self.partition}
        return _rows("state_events", fields, events, audit_id, **place, **dict.fromkeys(no_fields))


# The columns of state_events that an event has, and those that it lacks.
_OF_TRANSACTIONS = ("transactional_id", "producer_id", "producer_epoch", "start_timestamp", "timeout_ms")
_OF_SHARES = tuple(name for name in ShareEvent._fields if name not in TransactionEvent._fields)
_TRANSACTION_EVENT = tuple(name for name in TransactionEvent._fields if name != "topic_partitions")


def _as_columns(row: TransactionalIdRow) -> list[Any]:
    columns = row._asdict()
    columns["topic_partitions"] = [each._asdict() for each in row.topic_partitions]
    return list(columns.values())


def _rows(name: str, columns: tuple[str, ...], rows: Iterable[Any], audit_id: int, **constants: Any) -> pa.Table:
    return table_of_rows(name, columns, list(rows), audit_id=audit_id, **constants)


# Replays a record; returns the reason if a load fails at it, None if it does not.
Take = Callable[[StateRecord], str | None]
Output = tuple[str, pa.Table]

RECORDS = {"__share_group_state": "share_group_state_records", "__transaction_state": "transaction_state_records"}
QUARANTINE = "state_quarantine"
_OF_UNDECODABLE = (
    *("record_type", "record_name", "group_id", "topic_id", "partition", "transactional_id"),
    *("value_version", "reason", "detail"),
)


class StateRangeDecoder:
    """Reads one range: `outputs()` yields (table name, rows); `progress` is complete when it has ended."""

    def __init__(
        self, log: CoordinatorLog, log_range: LogRange, context: ReadContext, records: CoordinatorRecordDecoder
    ) -> None:
        self.is_reread = log_range.is_reread
        self.progress = RangeProgress.of(log_range, log_times=LogTimes(context.latest_ms))
        self._log = log
        self._audit_id = context.audit_id
        self._reader = RangeReader(log_range, context, log.topic, self.progress)
        self._records = records
        self._rules = rules_of(log, release(context.release_version))
        detail = f"A control record: nobody writes to {log.topic} in transactions"
        self._control = Undecodable("unknown_record_type", detail)

    def outputs(self, take: Take) -> Iterator[Output]:
        """Rows of the log and of state_quarantine, none if it is read again. `take` gets each record in order."""
        for path, item in self._reader.items():
            rows = self._corrupt(item, path) if isinstance(item, CorruptBatch) else self._chunk(item, path, take)
            if not self.is_reread:
                yield from rows

    def _chunk(self, records: RecordColumns, path: str | None, take: Take) -> list[Output]:
        self.progress.note(records)
        sound, bad = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        # Read once: these properties compute whole columns on each access.
        facts = (records.offset, records.timestamp, records.is_control, records.batches.position[records.batch])
        for row, (offset, timestamp, is_control, position) in enumerate(zip(*(f.tolist() for f in facts), strict=True)):
            key, value = records.key(row), records.value(row)
            place = (offset, None if timestamp < 0 else timestamp)
            where = (path, None if path is None else position)
            record = self._control if is_control else self._records.decode(key, value)
            if isinstance(record, Undecodable):
                self.progress.quarantined[record.reason] += 1
                kind = (1, *(getattr(record, name) for name in _OF_UNDECODABLE))
                bad.append((*place, *kind, self._rules.fails_at(record.reason), *where, key, value))
                continue
            raw = (key, value) if record.keeps_raw else (None, None)
            layout = (record.layout or None,) if self._log is SHARE_LOG else ()
            of_value = (record.value_version, record.value_json(), *layout)
            sound.append((*place, record.record_type, record.record_name, *record.key.values(), *of_value, *raw))
            if why := take(state_record(*place, record)):
                self.progress.quarantined["load_would_fail"] += 1
                # The record is in its own table, which has its bytes and counts it.
                names = [record.key.get(name) for name in ("groupId", "topicId", "partition", "transactionalId")]
                kind = (record.record_type, record.record_name, *names, record.value_version)
                bad.append((*place, 0, *kind, "load_would_fail", why, True, *where, None, None))
        return [self._rows(RECORDS[self._log.topic], sound), self._rows(QUARANTINE, bad, log=self._log.topic)]

    def _corrupt(self, batch: CorruptBatch, path: str | None) -> list[Output]:
        log_offset = self._reader.place_of(batch, path)
        if log_offset is None:
            return []
        position = None if path is None else batch.position
        unknown = (None,) * 7  # type and name of the record, its key, the version of its value
        why = ("corrupt_batch", batch.detail, True)
        row = (log_offset, None, batch.record_count, *unknown, *why, path, position, None, batch.raw)
        return [self._rows(QUARANTINE, [row], log=self._log.topic)]

    def _rows(self, name: str, rows: list[tuple[Any, ...]], **more: Any) -> Output:
        place = {"audit_id": self._audit_id, "state_partition": self.progress.offsets_partition}
        return name, table_of_rows(name, None, rows, **place, **more)


# One partition of `__share_group_state` or `__transaction_state`, from its bytes to rows of all tables.
#
# One task reads a partition and replays it at the same time: no record is about a key of another partition, and there
# are no transactions, so there is nothing to combine, to sort or to wait for.


Place = tuple[str, int]


class StateShardWork(NamedTuple):
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
        """The work if DeleteRecords moved the log's start there after planning: for share state, every five minutes."""
        ranges = tuple(each.without_deleted(log_start) for each in self.ranges)
        is_gap = any(each.start_offset < log_start for each in self.ranges if not each.is_reread)
        return self._replace(ranges=ranges, starts_again=log_start if is_gap else self.starts_again)


@dataclass
class StateShardRead:
    """The progress in one partition after its outputs. `gone`: how many keys the log had lost."""

    topic: str
    progress: list[RangeProgress] = field(default_factory=list)
    gone: int = 0


class StateShard(NamedTuple):
    """A partition in a task. `state`: the saved one. `history`: in a rebuild the records before; it returns None in an
    audit, in whose state a key that was gone may be there again."""

    work: StateShardWork
    state: Iterable[StateRow]
    context: ReadContext
    settings: Settings
    history: Callable[[], Iterable[StateRecord] | None] = lambda: None

    def outputs(self) -> Iterator[TaskOutput]:
        """Rows of every table, and a fact. A partition not read to its end keeps the rows of the last audit."""
        work, read = self.work, StateShardRead(self.work.topic)
        first = min((each.start_offset for each in work.ranges), default=0)
        yield ShardBegins(f"{work.topic}-{work.partition} from {first}")
        try:
            yield from self.read_on(read)
        except NotReadable as err:
            yield ShardLost()
            if isinstance(err, LogStartMoved) and COORDINATOR_LOGS[work.topic].clean_up_policy == "delete":
                yield from self._replace(work=work.without_deleted(err.log_start_offset)).outputs()
                return
            if isinstance(err, LeaderLost):
                self.context.live.lose_patience()
            read = StateShardRead(work.topic, [RangeProgress.of(work.ranges[0], given_up=str(err))])
            yield from self._before().tables(self.context.audit_id, self.settings)
        yield Fact({**vars(read), "progress": [progress_to_json(each) for each in read.progress]})

    def read_on(self, read: StateShardRead) -> Iterator[Output]:
        """Rows of every table. Raises NotReadable: then none of these rows count."""
        work, context, shard = self.work, self.context, self._before()
        log = COORDINATOR_LOGS[work.topic]
        if work.starts_again is not None and shard.keys():
            # One entry for all keys, because brokers delete share state between any two audits.
            shard.report_gone([ALL_KEYS], work.starts_again)
            shard.drop(ALL_KEYS)
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
        yield from shard.tables(context.audit_id, self.settings)

    def _before(self) -> StateReplay:
        """The shard after the history of its partition, without events: earlier audits have written them."""
        work, is_replaced = self.work, self.work.is_replaced
        rules = release(self.context.release_version)
        state, history = ([], None) if is_replaced else (self.state, self.history())
        shard = StateReplay(COORDINATOR_LOGS[work.topic], rules, work.partition, state, reporting=False)
        if history is not None:
            # Keys that were gone are dropped at their log offsets.
            waiting = shard.gone()
            for record in history:
                while waiting and waiting[0][0] <= record.log_offset:
                    shard.drop(waiting.pop(0)[1])
                shard.replay(record)
            for _, key in waiting:
                shard.drop(key)
        return shard.reporting()


STATE_TABLE = "state_log_state"
# The columns of a record's key, by log.
NAMES = {SHARE_LOG.topic: ("group_id", "topic_id", "partition"), TRANSACTION_LOG.topic: ("transactional_id",)}


class StateLogHistory(NamedTuple):
    """The stored rows of these logs: the state that an audit saved (None: none), and in a rebuild the records."""

    tables: Mapping[str, StoredTable]
    saved_audit_id: int | None
    last_audit_id: int
    from_history: bool
    replaced: Replaced = NOTHING

    def state(self, reader: PartReader, place: Place) -> list[StateRow]:
        """The saved state of the partition; in a rebuild only the entries that history does not have."""
        topic, number = place
        if STATE_TABLE not in self.tables:
            return []
        is_it = (pc.field("audit_id") == self.saved_audit_id) & (pc.field("log") == topic)
        if self.from_history:
            is_it &= pc.field("entry_type") == GONE
        rows = reader.rows(self.tables[STATE_TABLE], number).filter(is_it)
        return [StateRow(**row) for row in rows.select(StateRow._fields).to_pylist()]

    def records(self, reader: PartReader, place: Place) -> Iterator[StateRecord] | None:
        """The stored records of the partition in log order; None outside a rebuild."""
        topic, number = place
        if not self.from_history:
            return None
        rows = self.replaced.counting(RECORDS[topic], reader.rows(self.tables[RECORDS[topic]], number))
        rows = rows.filter(pc.field("audit_id") <= self.last_audit_id).sort_by("log_offset")
        at = rows.schema.get_field_index("log_timestamp")
        rows = rows.set_column(at, "log_timestamp", milliseconds(rows["log_timestamp"]))
        return (_record(topic, row) for batch in rows.to_batches() for row in batch.to_pylist())


def _record(topic: str, row: dict[str, Any]) -> StateRecord:
    value = row["value"]
    return StateRecord(
        row["log_offset"],
        row["log_timestamp"],
        row["record_type"],
        tuple(row[name] for name in NAMES[topic]),
        row["value_version"],
        None if value is None else orjson.loads(value),
        row.get("layout") or "",
    )


class StateTask(NamedTuple):
    """All settings of a task besides its shards. `works`: the work on each partition of either log."""

    works: tuple[StateShardWork, ...]
    context: ReadContext
    settings: Settings
    history: StateLogHistory


def read_and_replay_shards(
    task: StateTask, tasks: TaskShards, batches: Iterable[pa.RecordBatch]
) -> Iterator[TaskOutput]:
    """Rows with a partition each -> rows of tables, and the progress in each partition as a fact."""
    with task.context.connected() as context:
        for reader in tasks.readers(numbers_in(batches)):
            for work in [each for each in task.works if each.partition in reader.shards]:
                state = task.history.state(reader, work.place)
                records = partial(task.history.records, reader, work.place)
                yield from StateShard(work, state, context, task.settings, records).outputs()


def read_from_json(payload: dict[str, Any]) -> StateShardRead:
    """The progress in one partition, from the fact that its task reported."""
    progress = [progress_from_json(each) for each in payload["progress"]]
    return StateShardRead(payload["topic"], progress, payload["gone"])
