"""The rows of a replay of stored history, in this process."""

from __future__ import annotations

import pyarrow as pa

from kgroups_spark.replay.shard_states import Stored
from kgroups_spark.replay.sinks import Fact, ForReplay, ShardBegins, ShardLost
from kgroups_spark.replay.stages import ShardTask, replay_shards
from kgroups_spark.replay.stored_history import TaskShards
from kgroups_spark.tables.schemas import arrow_schema


def replayed(stored: Stored, tasks: TaskShards, task: ShardTask, name: str) -> pa.Table:
    """The rows of a table."""
    found = [arrow_schema(name).empty_table()]
    numbers = pa.concat_tables(stored.given_to(tasks).tables).to_batches()
    for output in replay_shards(task, tasks, numbers):
        assert not isinstance(output, Fact | ForReplay | ShardBegins | ShardLost)
        if output[0] == name:
            rows = output[1] if isinstance(output[1], pa.Table) else pa.Table.from_batches([output[1]])
            found.append(rows.select(arrow_schema(name).names).cast(arrow_schema(name)))
    return pa.concat_tables(found)
