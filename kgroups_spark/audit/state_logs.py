"""`__share_group_state` and `__transaction_state` in an audit: one Spark action, then their tables are committed.

    saved state, or all history --+
    ranges to read ---------------+--> a task per partition: read, decode, replay --> rows of STATE_LOG_TABLES

A partition is a shard, and one task reads and replays it (state_logs/partition.py). By `parts` tasks read the stored
files themselves, write Parquet, and the manifest is committed; by `spark` stored rows come in the frame, and the packed
rows that come out are committed. An audit without such logs, in a lake that never saw any, does nothing here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kgroups_spark.audit.saved_state import state_files
from kgroups_spark.coordinator.state_rows import StateRow
from kgroups_spark.counts import counted
from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.lake.parts_reader import dataset_of
from kgroups_spark.lake.parts_writer import Part
from kgroups_spark.messages.coordinator_logs import SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER, LeaderLost
from kgroups_spark.state_logs.partition import Place, StateShardRead, StateShardWork, left_as_it_was, read_and_replay
from kgroups_spark.state_logs.range_decoder import RECORDS, Output
from kgroups_spark.state_logs.replay import KEPT, Settings, StateRecord
from kgroups_spark.storage.s3 import with_storage
from kgroups_spark.tables.schemas import STATE_LOG_TABLES, TABLES
from kgroups_spark.tasks.outputs import MANIFEST, PartCollector, manifest_batch, part_line
from kgroups_spark.tasks.packed_rows import PACKED, packed, packed_outputs, row_counts, unpacked
from kgroups_spark.tasks.read_stage import progress_from_json, progress_to_json, require_read_once

if TYPE_CHECKING:
    from kgroups_spark.audit.work import AuditWork
    from kgroups_spark.decoding.range_decoder import ReadContext

STATE_TABLE = "state_log_state"
# The columns of a record's key, by log.
NAMES = {SHARE_LOG.topic: ("group_id", "topic_id", "partition"), TRANSACTION_LOG.topic: ("transactional_id",)}
HISTORY = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "history")
STORED = "share_partitions"
NOW = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "current" and name != STORED)
READ = "read"
READ_TEXT = StructType([StructField(READ, StringType(), False)])

# What a task gets of a partition: a row that names it, then, by Spark's writer, its saved state and its history.
WORK, STATE, RECORD = range(3)
INPUT = (
    "log string, state_partition int, kind int, log_offset bigint, log_timestamp bigint, record_type int, "
    "entry_type string, group_id string, topic_id string, partition int, transactional_id string, value_version int, "
    "payload string, layout string"
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
    """Reads and replays what is new, and commits it; `from_history`: the state is rebuilt from history.

    Every known partition is replayed, so that the current tables are whole.
    """
    shards = work.states.shards
    if not shards:
        return StateLogsResult()
    work.progress(f"reading and replaying {counted(len(shards), 'partition')} of share-group and transaction state")
    with ExitStack() as stack:
        write = _by_parts if work.writer.name == "parts" else _by_spark
        given = _Input(work, {shard.place: shard for shard in shards}, from_history)
        reads, rows_added, stored = write(work, given, stack)
    return StateLogsResult(
        tuple(work.states.entries(reads)),
        rows_added,
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
    """The work of tasks, and what they get for it."""

    work: AuditWork
    shards: dict[Place, StateShardWork]
    from_history: bool

    @property
    def saved_audit_id(self) -> int | None:
        """The audit whose state there is; None: no audit's."""
        before = self.work.before
        written = state_files(self.work.lake, STATE_TABLE) if before else {}
        return max((audit_id for audit_id in written if before and audit_id <= before.audit_id), default=None)

    def names(self) -> DataFrame:
        """Rows of INPUT that name the partitions, dealt to tasks."""
        return self._dealt(self._names())

    def files(self) -> _StoredFiles:
        """Where tasks find what is stored of these partitions."""
        lake, before = self.work.lake, self.work.before
        tables = [STATE_TABLE, *(RECORDS.values() if self.from_history and before else ())]
        found = {name: (lake.table(name).path, [file.path for file in lake.table(name).files()]) for name in tables}
        return _StoredFiles(found, self.saved_audit_id, before.audit_id if before else 0, self.from_history)

    def frame(self) -> DataFrame:
        """Rows of INPUT, a partition's all in one task, in the order of their kinds and places."""
        rows = self._names()
        if (saved := self._state()) is not None:
            rows = rows.unionByName(saved, allowMissingColumns=True)
        if self.from_history and self.work.before is not None:
            for topic, name in RECORDS.items():
                rows = rows.unionByName(self._history(topic, name), allowMissingColumns=True)
        return self._dealt(rows)

    def _names(self) -> DataFrame:
        names = [(topic, number, WORK, *[None] * 11) for topic, number in self.shards]
        return self.work.spark.createDataFrame(names, INPUT)

    def _dealt(self, rows: DataFrame) -> DataFrame:
        tasks = min(len(self.shards), FETCHERS_PER_BROKER if self.work.is_live else 2 * self.work.slots)
        placed = rows.repartition(tasks, "log", "state_partition")
        return placed.sortWithinPartitions("log", "state_partition", "kind", "log_offset")

    def _state(self) -> DataFrame | None:
        audit_id = self.saved_audit_id
        if audit_id is None:
            return None
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


@dataclass(frozen=True)
class _StoredFiles:
    """These partitions as the lake has them, read by tasks: the saved state of one audit, and in a rebuild the history
    up to the last finished one. `tables`: their paths and files."""

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
        """The stored records of the partition, in the order of its log; none but in a rebuild."""
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


# Progress of each partition, rows added by table, and the rows of share_partitions as stored.
Written = tuple[list[StateShardRead], Counter[str], pa.Table]
Records = Iterator[StateRecord]
# How a task gives away what it made of a partition: (work, state, context, settings, records) -> rows.
Emit = Callable[[StateShardWork, list[StateRow], "ReadContext", Settings | None, Records], Iterator[pa.RecordBatch]]


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


def _task(
    given: _Input, emit: Emit, stored: _StoredFiles | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    shards, context, settings = given.shards, given.work.read_context(), given.work.settings.states

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with context.connected() as reading:
            for work, state, records in _each(shards, batches):
                if stored is not None:
                    state, records = stored.state(work.place), stored.records(work.place)
                yield from emit(work, state, reading, settings, records)

    return with_storage(task)


def _to_json(read: StateShardRead) -> dict[str, Any]:
    return {"topic": read.topic, "gone": read.gone, "progress": [progress_to_json(each) for each in read.progress]}


def _from_json(payload: dict[str, Any]) -> StateShardRead:
    progress = [progress_from_json(each) for each in payload["progress"]]
    return StateShardRead(payload["topic"], progress, payload["gone"])


def _by_parts(work: AuditWork, given: _Input, _: ExitStack) -> Written:
    lake_uri, audit_id = work.lake.uri, work.audit_id

    def emit(
        shard: StateShardWork, state: list[StateRow], context: ReadContext, settings: Settings | None, records: Records
    ) -> Iterator[pa.RecordBatch]:
        collector, read = PartCollector(lake_uri, audit_id), StateShardRead(shard.topic)
        history = list(records) if context.fetcher is not None else records
        try:
            lines = _lines(collector, read_and_replay(shard, state, context, settings, read, history))
        except LeaderLost as err:
            context.lose_patience()
            # Parts that have left with rows of this partition are named by nobody.
            collector = PartCollector(lake_uri, audit_id)
            outputs, read = left_as_it_was(shard, state, context, settings, str(err), history)
            lines = _lines(collector, outputs)
        yield manifest_batch([*lines, *map(part_line, collector.rest()), (READ, _to_json(read))])

    told = given.names().mapInArrow(_task(given, emit, given.files()), MANIFEST).collect()
    parts = [Part(**json.loads(line.payload)) for line in told if line.kind == "part"]
    by_table: dict[str, list[Part]] = {name: [] for name in STATE_LOG_TABLES}
    for part in parts:
        by_table[part.table].append(part)
    for name in HISTORY:
        work.writer.append_parts(name, by_table[name])
    for name in NOW:
        work.writer.replace_parts(name, by_table[name])
    work.writer.replace_parts(STATE_TABLE, by_table[STATE_TABLE], given.saved_audit_id)
    rows_added = Counter({name: sum(part.records for part in by_table[name]) for name in HISTORY})
    stored = dataset_of(STORED, work.lake.table(STORED).path, [part.path for part in by_table[STORED]]).to_table()
    return [_from_json(json.loads(line.payload)) for line in told if line.kind == READ], rows_added, stored


def _lines(collector: PartCollector, outputs: Iterable[Output]) -> list[tuple[str, Any]]:
    return [part_line(part) for name, rows in outputs if rows.num_rows for part in collector.add(name, rows)]


def _by_spark(work: AuditWork, given: _Input, stack: ExitStack) -> Written:
    def emit(
        shard: StateShardWork, state: list[StateRow], context: ReadContext, settings: Settings | None, records: Records
    ) -> Iterator[pa.RecordBatch]:
        read = StateShardRead(shard.topic)
        history = list(records) if context.fetcher is not None else records
        rows = packed_outputs(read_and_replay(shard, state, context, settings, read, history))
        try:
            # A leader can be lost only where there is one.
            yield from list(rows) if context.fetcher is not None else rows
        except LeaderLost as err:
            context.lose_patience()
            outputs, read = left_as_it_was(shard, state, context, settings, str(err), history)
            yield from packed_outputs(outputs)
        text = json.dumps(_to_json(read))
        yield packed(READ, pa.RecordBatch.from_arrays([pa.array([text])], names=READ_TEXT.names))

    frame = given.frame().mapInArrow(_task(given, emit), PACKED).persist()
    stack.callback(frame.unpersist)
    told = _texts(frame)
    counts = row_counts(frame, STATE_LOG_TABLES)
    for name in HISTORY:
        if counts[name]:
            work.writer.append(name, unpacked(frame, name))
    for name in NOW:
        if counts[name] or work.lake.table(name).files():
            work.writer.replace(name, unpacked(frame, name))
    work.writer.replace(STATE_TABLE, unpacked(frame, STATE_TABLE), given.saved_audit_id)
    stored = unpacked(frame, STORED).toArrow().select(TABLES[STORED].columns.names)
    require_read_once(told, _texts(frame))
    rows_added = Counter({name: counts[name] for name in HISTORY})
    return [_from_json(json.loads(text)) for text in told], rows_added, stored


def _texts(frame: DataFrame) -> list[str]:
    return sorted(row.read for row in unpacked(frame, READ, READ_TEXT).collect())
