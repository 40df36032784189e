"""The states of shards at a log offset in their history: where it will be reduced, and where a log was cut back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.history.checkpoints import kept_checkpoints, usable_checkpoints
from kgroups_spark.history.stored import Stored, task_shards
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger_rows import records_read, what_was_read
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.replay_shard import Night
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.replay.stored_tables import TaskShards
from kgroups_spark.tables.internal import KEEP, NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS
from kgroups_spark.tasks.replay_stage import ShardTask
from kgroups_spark.tasks.sinks import sink_of


def history_below(
    lake: Lake, stored: Stored, horizon: Mapping[int, int], release_version: str, shards: Collection[int] = ()
) -> tuple[StoredHistory, TaskShards]:
    """The history up to H of each partition, from its newest checkpoint on if that is usable; all of it must be of
    finished audits; and its tasks. `shards`: additional shards for them."""
    records = records_read(what_was_read(lake, LakeAsOfAudit.last_finished(lake).audit_id))
    tasks = task_shards({number: records[number] for number in {*horizon, *shards}}, lake.runner.slots)
    history = StoredHistory(
        stored.tables(),
        replaced=lake.replaced,
        begins=usable_checkpoints(kept_checkpoints(lake), release_version),
        horizons=dict(horizon),
    )
    return history, tasks


def state_task(history: StoredHistory, release_version: str, audit_id: int, *, reason: str = NIGHT) -> ShardTask:
    """The task that returns the states at the end of a history, as rows of checkpoints."""
    night = Night(audit_id, release_version, None, Topics())
    ends = dict(history.horizons or {})
    return ShardTask(night, ends, stored=history, reason=reason, tables=frozenset({CHECKPOINTS}))


def keep_states(writer: LakeWriter, horizon: Mapping[int, int], release_version: str) -> None:
    """Adds the state at H of each partition to checkpoints."""
    stored = Stored(writer.lake)
    history, tasks = history_below(writer.lake, stored, horizon, release_version)
    task = state_task(history, release_version, writer.audit_id, reason=KEEP)
    with sink_of(writer) as sink:
        stored.run(sink, tasks, task)
        sink.append(writer, CHECKPOINTS)
