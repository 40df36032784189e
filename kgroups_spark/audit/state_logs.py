"""`__share_group_state` and `__transaction_state` in an audit: one Spark action, then their tables are committed.

    saved state, or all history --+
    ranges to read ---------------+--> a task per shard: read, decode, replay --> rows of STATE_LOG_TABLES

Tasks get the stored rows as they do for the shards of `__consumer_offsets` (history/stored.py). An audit without such
logs, in a lake that never had any, does nothing here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from kgroups_spark.balance import by_weight
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.counts import counted
from kgroups_spark.decoding.range_progress import newly_quarantined
from kgroups_spark.history.stored import Stored
from kgroups_spark.lake.saved_states import newest_state, rows_of_state
from kgroups_spark.replay.stored_tables import StoredTable, TaskShards
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER
from kgroups_spark.state_logs.partition import StateShardRead
from kgroups_spark.state_logs.range_decoder import RECORDS
from kgroups_spark.state_logs.shard_task import (
    NAMES,
    STATE_TABLE,
    StateLogHistory,
    StateTask,
    read_and_replay_shards,
    read_from_json,
)
from kgroups_spark.state_logs.share_listing import SHARE_PARTITIONS
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.schemas import STATE_LOG_TABLES, TABLES
from kgroups_spark.tasks.sinks import sink_of

if TYPE_CHECKING:
    from kgroups_spark.audit.work import AuditWork

HISTORY = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "history")
NOW = tuple(name for name in STATE_LOG_TABLES if TABLES[name].kind == "current" and name != SHARE_PARTITIONS)


@dataclass(frozen=True)
class StateLogsResult:
    """The results of an audit of these logs; empty where there are none."""

    rows_added: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    reads: tuple[StateShardRead, ...] = ()
    share_partitions: pa.Table | None = None  # as stored, not committed: state_logs/share_listing.py completes them


def audit_state_logs(work: AuditWork, *, from_history: bool = False) -> StateLogsResult:
    """Reads, replays and commits new records; `from_history`: the state is rebuilt from history.

    Every known partition is replayed, so that the current tables are whole.
    """
    shards = work.states.shards
    if not shards:
        return StateLogsResult()
    work.progress(f"reading and replaying {counted(len(shards), 'partition')} of share-group and transaction state")
    stored, tasks = Stored(work.lake), _tasks(work)
    history = _history(work, stored, from_history=from_history)
    task = StateTask(tuple(shards), work.read_context(len(tasks.shards)), work.settings.states, history)
    with sink_of(work.writer) as sink:
        made = sink.run(stored.given_to(tasks), partial(read_and_replay_shards, task, tasks))
        reads = list(map(read_from_json, made.facts))
        work.states.require_replaced(reads)
        for name in HISTORY:
            sink.append(work.writer, name)
        for name in NOW:
            sink.replace(work.writer, name)
        sink.replace(work.writer, STATE_TABLE, history.saved_audit_id)
        share_partitions = sink.table(work.writer, SHARE_PARTITIONS)
    return StateLogsResult(
        Counter({name: made.rows[name] for name in HISTORY}),
        newly_quarantined(each for read in reads for each in read.progress),
        tuple(reads),
        share_partitions,
    )


def _tasks(work: AuditWork) -> TaskShards:
    """The shards of each task. A shard's weight is the bytes to read."""
    sizes, records = Counter[int](), Counter[int]()
    for each in work.states.shards:
        sizes[each.partition] += sum(log_range.size_bytes for log_range in each.ranges)
    for entry in work.before.state_partitions if work.before else ():
        records[entry.offsets_partition] += entry.end_offset  # at the most
    tasks = FETCHERS_PER_BROKER if work.is_live else 2 * work.slots
    of_each = by_weight(sorted(sizes), sizes.__getitem__, tasks)
    return TaskShards(tuple(map(tuple, of_each)), {number: records[number] for number in sizes})


def _history(work: AuditWork, stored: Stored, *, from_history: bool) -> StateLogHistory:
    """How tasks get the saved state, and in a rebuild the history up to the last finished audit."""
    last = work.before.audit_id if work.before else 0
    saved = newest_state(work.lake, STATE_TABLE, last)
    tables: dict[str, StoredTable] = {}
    if saved is not None:
        columns = ["audit_id", "log", "state_partition", *StateRow._fields]
        tables[STATE_TABLE] = stored.table(
            STATE_TABLE, STATE_TABLE, columns, conditions=rows_of_state(STATE_TABLE, saved)
        )
    for topic, name in RECORDS.items() if from_history else ():
        columns = ["audit_id", "state_partition", "log_offset", "log_timestamp", "record_type", *NAMES[topic]]
        columns += [each for each in ("value_version", "layout", "value") if each in TABLES[name].schema.names]
        tables[name] = stored.table(name, name, columns, conditions=[Condition("audit_id", "<=", last)])
    return StateLogHistory(tables, saved, last, from_history, work.lake.replaced)
