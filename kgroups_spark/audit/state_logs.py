"""`__share_group_state` and `__transaction_state` in an audit: one Spark action, then their tables are committed.

    saved state, or all history --+
    ranges to read ---------------+--> a task per partition: read, decode, replay --> rows of STATE_LOG_TABLES

A partition is a shard, and one task reads and replays it (state_logs/partition.py). Tasks read the stored files
themselves, or get the stored rows in the frame if they cannot reach the files. An audit without such logs, in a lake
that never had any, does nothing here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.balance import by_weight
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.counts import counted
from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.lake.parts_reader import dataset_of
from kgroups_spark.lake.saved_states import newest_state
from kgroups_spark.messages.coordinator_logs import SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.runner import rows_by_task
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER, LeaderLost
from kgroups_spark.state_logs.partition import Place, StateShardRead, StateShardWork, left_as_it_was, read_and_replay
from kgroups_spark.state_logs.range_decoder import RECORDS
from kgroups_spark.state_logs.replay import KEPT, Settings, StateRecord
from kgroups_spark.tables.schemas import STATE_LOG_TABLES, TABLES
from kgroups_spark.tasks.outputs import Fact, ShardBegins, ShardLost, TaskOutput
from kgroups_spark.tasks.read_stage import progress_from_json, progress_to_json
from kgroups_spark.tasks.sinks import Given, Work, sink_of

if TYPE_CHECKING:
    from kgroups_spark.audit.work import AuditWork
    from kgroups_spark.decoding.range_progress import ReadContext

STATE_TABLE = "state_log_state"
# The columns of a record's key, by log.
NAMES = {SHARE_LOG.topic: ("group_id", "topic_id", "partition"), TRANSACTION_LOG.topic: ("transactional_id",)}
HISTORY = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "history")
STORED = "share_partitions"
NOW = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "current" and name != STORED)

# Kinds of a task's rows for a partition: its name; then, with Spark's writer, its saved state and its history.
WORK, STATE, RECORD = range(3)
INPUT = pa.schema(
    [
        ("log", pa.string()),
        ("state_partition", pa.int32()),
        ("kind", pa.int32()),
        ("log_offset", pa.int64()),
        ("log_timestamp", pa.int64()),
        ("record_type", pa.int32()),
        ("entry_type", pa.string()),
        ("group_id", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("transactional_id", pa.string()),
        ("value_version", pa.int32()),
        ("payload", pa.string()),
        ("layout", pa.string()),
    ]
)


@dataclass(frozen=True)
class StateLogsResult:
    """The results of an audit of these logs; empty where there are none."""

    entries: tuple[PartitionProgress, ...] = ()
    rows_added: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()
    share_partitions: pa.Table | None = None  # as stored, not committed: state_logs/share_listing.py completes them


def audit_state_logs(work: AuditWork, *, from_history: bool = False) -> StateLogsResult:
    """Reads, replays and commits new records; `from_history`: the state is rebuilt from history.

    Every known partition is replayed, so that the current tables are whole.
    """
    shards = work.states.shards
    if not shards:
        return StateLogsResult()
    work.progress(f"reading and replaying {counted(len(shards), 'partition')} of share-group and transaction state")
    given = _Input(work, {shard.place: shard for shard in shards}, from_history)
    with sink_of(work.writer) as sink:
        made = sink.run(given.rows(), given.task())
        for name in HISTORY:
            sink.append(work.writer, name)
        for name in NOW:
            sink.replace(work.writer, name)
        sink.replace(work.writer, STATE_TABLE, given.saved_audit_id)
        stored = sink.table(work.writer, STORED)
        sink.require_read_once()
    reads = list(map(_from_json, made.facts))
    return StateLogsResult(
        tuple(work.states.entries(reads)),
        Counter({name: made.rows[name] for name in HISTORY}),
        _quarantined(reads),
        tuple(work.states.notes(reads)),
        stored,
    )


def _quarantined(reads: Iterable[StateShardRead]) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for each in chain.from_iterable(read.progress for read in reads):
        if each.number >= 0:
            reasons.update(each.quarantined)
    return reasons


@dataclass(frozen=True)
class _Input:
    """The work of tasks, and their input."""

    work: AuditWork
    shards: dict[Place, StateShardWork]
    from_history: bool

    @property
    def saved_audit_id(self) -> int | None:
        """The audit that saved the state; None: no state."""
        before = self.work.before
        return newest_state(self.work.lake, STATE_TABLE, before.audit_id) if before else None

    @property
    def _by_reference(self) -> bool:
        """Whether tasks read the stored files themselves."""
        return self.work.writer.name == "parts"

    def task(self) -> Work:
        """The work of a task on rows of INPUT."""
        stored = self._files() if self._by_reference else None
        return partial(_read_and_replay, self.shards, self.work.read_context(), self.work.settings.states, stored)

    def _files(self) -> _StoredFiles:
        """The files with the stored rows of these partitions."""
        lake, before = self.work.lake, self.work.before
        tables = [STATE_TABLE, *(RECORDS.values() if self.from_history and before else ())]
        found = {name: (lake.table(name).path, [file.path for file in lake.table(name).files()]) for name in tables}
        return _StoredFiles(found, self.saved_audit_id, before.audit_id if before else 0, self.from_history)

    def rows(self) -> Given:
        """Rows of INPUT, in the order of their kinds and places; one task gets all rows of a partition."""
        tasks = FETCHERS_PER_BROKER if self.work.is_live else 2 * self.work.slots
        if self._by_reference:
            return list(map(_names, by_weight(sorted(self.shards), self._weight, tasks)))
        rows = rows_by_task(self.work.spark, [_names(self.shards)]).drop("task", "row")
        for stored in self._stored():
            rows = rows.unionByName(stored, allowMissingColumns=True)
        placed = rows.repartition(min(len(self.shards), tasks), "log", "state_partition")
        return placed.sortWithinPartitions("log", "state_partition", "kind", "log_offset")

    def _weight(self, place: Place) -> int:
        return sum(log_range.size_bytes for log_range in self.shards[place].ranges)

    def _stored(self) -> Iterator[DataFrame]:
        if (audit_id := self.saved_audit_id) is not None:
            yield self._state(audit_id)
        if self.from_history and self.work.before is not None:
            for topic, name in RECORDS.items():
                yield self._history(topic, name)

    def _state(self, audit_id: int) -> DataFrame:
        rows = self.work.lake.read(STATE_TABLE).where(F.col("audit_id") == audit_id)
        if self.from_history:
            rows = rows.where(F.col("entry_type").isin(*KEPT))
        return rows.drop("audit_id").withColumn("kind", F.lit(STATE))

    def _history(self, topic: str, name: str) -> DataFrame:
        assert self.work.before is not None
        rows = self.work.lake.read(name).where(F.col("audit_id") <= self.work.before.audit_id)
        there = ("record_type", "group_id", "topic_id", "partition", "transactional_id", "value_version", "layout")
        return rows.select(
            F.lit(topic).alias("log"),
            "state_partition",
            F.lit(RECORD).alias("kind"),
            "log_offset",
            F.unix_millis("log_timestamp").alias("log_timestamp"),
            *(column for column in there if column in rows.columns),
            F.col("value").alias("payload"),
        )


def _names(places: Iterable[Place]) -> pa.Table:
    """A row of INPUT for each partition."""
    return pa.Table.from_pylist([{"log": topic, "state_partition": n, "kind": WORK} for topic, n in places], INPUT)


@dataclass(frozen=True)
class _StoredFiles:
    """The stored rows of these partitions, read by tasks: the saved state of one audit, and in a rebuild the history up
    to the last finished audit. `tables`: their paths and files."""

    tables: Mapping[str, tuple[str, Sequence[str]]]
    saved_audit_id: int | None
    last_audit_id: int
    from_history: bool

    def state(self, place: Place) -> list[StateRow]:
        """The saved state of the partition; in a rebuild only the entries that history does not have."""
        if self.saved_audit_id is None:
            return []
        condition = pc.field("audit_id") == self.saved_audit_id
        if self.from_history:
            condition &= pc.field("entry_type").isin(KEPT)
        rows = self._rows(STATE_TABLE, StateRow._fields, condition & (pc.field("log") == place[0]), place)
        return [StateRow(**row) for row in rows.to_pylist()]

    def records(self, place: Place) -> Records:
        """The stored records of the partition in log order; none outside a rebuild."""
        topic, _ = place
        if not self.from_history or RECORDS[topic] not in self.tables:
            return iter(())
        columns = ["log_offset", "log_timestamp", "record_type", *NAMES[topic], "value_version", "layout", "value"]
        there = [name for name in columns if name in TABLES[RECORDS[topic]].schema.names]
        rows = self._rows(RECORDS[topic], there, pc.field("audit_id") <= self.last_audit_id, place)
        rows = rows.sort_by("log_offset").rename_columns({"value": "payload"})
        at = rows.schema.get_field_index("log_timestamp")
        floored = pc.floor_temporal(rows["log_timestamp"], unit="millisecond")
        rows = rows.set_column(at, "log_timestamp", floored.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()))
        return (_record({"log": topic, **row}) for batch in rows.to_batches() for row in batch.to_pylist())

    def _rows(self, table: str, columns: Iterable[str], condition: pc.Expression, place: Place) -> pa.Table:
        path, files = self.tables[table]
        condition &= pc.field("state_partition") == place[1]
        return dataset_of(table, path, files).to_table(columns=list(columns), filter=condition)


Records = Iterator[StateRecord]


def _each(
    shards: dict[Place, StateShardWork], batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[StateShardWork, list[StateRow], Records]]:
    rows = (row for batch in batches for row in batch.to_pylist())
    for place, of_one in groupby(rows, key=itemgetter("log", "state_partition")):
        kinds = groupby(of_one, key=itemgetter("kind"))
        state: list[StateRow] = []
        records: Records = iter(())
        for kind, some in kinds:
            if kind == STATE:
                state = [StateRow(row["entry_type"], row["group_id"], row["payload"]) for row in some]
            elif kind == RECORD:
                records = map(_record, some)
                break
        yield shards[place], state, records


def _record(row: dict[str, Any]) -> StateRecord:
    payload = row["payload"]
    return StateRecord(
        row["log_offset"],
        row["log_timestamp"],
        row["record_type"],
        tuple(row[name] for name in NAMES[row["log"]]),
        row["value_version"],
        None if payload is None else orjson.loads(payload),
        row.get("layout") or "",
    )


def _read_and_replay(
    shards: dict[Place, StateShardWork],
    context: ReadContext,
    settings: Settings | None,
    stored: _StoredFiles | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[TaskOutput]:
    """Rows of INPUT -> rows of tables, and the progress in each partition as a fact."""
    with context.connected() as reading:
        for work, state, records in _each(shards, batches):
            if stored is not None:
                state, records = stored.state(work.place), stored.records(work.place)
            # Only a live cluster's partition can lose its leader; then its history is replayed once more.
            history = records if context.fetcher is None else list(records)
            read = StateShardRead(work.topic)
            yield ShardBegins(f"{work.topic}-{work.partition}")
            try:
                yield from read_and_replay(work, state, reading, settings, read, history)
            except LeaderLost as err:
                reading.lose_patience()
                yield ShardLost()
                outputs, read = left_as_it_was(work, state, reading, settings, str(err), history)
                yield from outputs
            yield Fact(_to_json(read))


def _to_json(read: StateShardRead) -> dict[str, Any]:
    return {"topic": read.topic, "gone": read.gone, "progress": [progress_to_json(each) for each in read.progress]}


def _from_json(payload: dict[str, Any]) -> StateShardRead:
    progress = [progress_from_json(each) for each in payload["progress"]]
    return StateShardRead(payload["topic"], progress, payload["gone"])
