"""A task's work on shards of `__share_group_state` and `__transaction_state`: it reads, decodes and replays them.

    saved state, or all history, and the new part of the log -> rows of STATE_LOG_TABLES; the progress as a fact

Both logs' partitions of one number are a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.decoding.range_progress import ReadContext
from kgroups_spark.errors import NotReadable
from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.messages.coordinator_logs import COORDINATOR_LOGS, SHARE_LOG, TRANSACTION_LOG
from kgroups_spark.offsets.records import milliseconds
from kgroups_spark.replay.history_parts import PartReader
from kgroups_spark.replay.stored_tables import StoredTable, TaskShards
from kgroups_spark.runner import numbers_in
from kgroups_spark.sources.partition_log import LeaderLost, LogStartMoved
from kgroups_spark.state_logs.partition import Place, StateShardRead, StateShardWork, left_as_it_was, read_and_replay
from kgroups_spark.state_logs.range_decoder import RECORDS
from kgroups_spark.state_logs.replay import KEPT, Settings, StateRecord
from kgroups_spark.tasks.outputs import Fact, ShardBegins, ShardLost, TaskOutput
from kgroups_spark.tasks.read_stage import progress_from_json, progress_to_json

STATE_TABLE = "state_log_state"
# The columns of a record's key, by log.
NAMES = {SHARE_LOG.topic: ("group_id", "topic_id", "partition"), TRANSACTION_LOG.topic: ("transactional_id",)}


@dataclass(frozen=True)
class StateLogHistory:
    """The stored rows of these logs for tasks: the state that an audit saved (None: there is none), and in a rebuild
    the records up to the last finished audit."""

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
            is_it &= pc.field("entry_type").isin(KEPT)
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


@dataclass(frozen=True)
class StateTask:
    """All settings of a task besides its shards. `works`: the work on each partition of either log."""

    works: tuple[StateShardWork, ...]
    context: ReadContext
    settings: Settings | None
    history: StateLogHistory


def read_and_replay_shards(
    task: StateTask, tasks: TaskShards, batches: Iterable[pa.RecordBatch]
) -> Iterator[TaskOutput]:
    """Numbers of tasks -> rows of tables, and the progress in each partition as a fact."""
    reader = PartReader(tasks)
    with task.context.connected() as context:
        for number in (shard for each in numbers_in(batches) for shard in tasks.shards[each]):
            for work in [each for each in task.works if each.partition == number]:
                state = task.history.state(reader, work.place)
                records = partial(task.history.records, reader, work.place)
                yield from _read_and_replay(work, state, records, context, task.settings)


def _read_and_replay(
    work: StateShardWork,
    state: list[StateRow],
    records: Callable[[], Iterator[StateRecord] | None],
    context: ReadContext,
    settings: Settings | None,
) -> Iterator[TaskOutput]:
    read = StateShardRead(work.topic)
    first = min((each.start_offset for each in work.ranges), default=0)
    yield ShardBegins(f"{work.topic}-{work.partition} from {first}")
    try:
        yield from read_and_replay(work, state, context, settings, read, records())
    except NotReadable as err:
        yield ShardLost()
        if isinstance(err, LogStartMoved) and COORDINATOR_LOGS[work.topic].clean_up_policy == "delete":
            left = work.without_deleted(err.log_start_offset)
            yield from _read_and_replay(left, state, records, context, settings)
            return
        if isinstance(err, LeaderLost):
            context.live.lose_patience()
        outputs, read = left_as_it_was(work, state, context, settings, str(err), records())
        yield from outputs
    yield Fact(_to_json(read))


def _to_json(read: StateShardRead) -> dict[str, Any]:
    return {"topic": read.topic, "gone": read.gone, "progress": [progress_to_json(each) for each in read.progress]}


def read_from_json(payload: dict[str, Any]) -> StateShardRead:
    """The progress in one partition, from the fact that its task reported."""
    progress = [progress_from_json(each) for each in payload["progress"]]
    return StateShardRead(payload["topic"], progress, payload["gone"])
