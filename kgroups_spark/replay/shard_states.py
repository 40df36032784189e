"""The states of shards at the log offset up to which their history will be reduced, and history for tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from kgroups_spark.coordinator.releases import RULES_VERSION, Topics
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import records_read, what_was_read
from kgroups_spark.lake.writer import LakeWriter, rows_of_state
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.sinks import Given, Made, Sink, TaskOutput, sink_of
from kgroups_spark.replay.stages import ShardTask, Task, replay_shards
from kgroups_spark.replay.stored_history import (
    Checkpoint,
    PartReader,
    StoredFile,
    StoredHistory,
    StoredTable,
    TaskShards,
    part_schema,
    shards_in_file,
)
from kgroups_spark.tables.columns import Condition, all_may_hold
from kgroups_spark.tables.definitions import KEEP, REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, arrow_schema
from kgroups_spark.words import by_weight

# The start of reduced history: states that `kgroups maintain --keep` saved before it reduced the history below them.
# Each such partition has rows of a state, even of an empty one, because all states have state_entries.MARK.


# A log (None: __consumer_offsets) and a partition of it.
Place = tuple[str | None, int]
# The H of partitions: history below it is old.
Horizons = Mapping[Place, int]
PLACE = ("offsets_partition", "audit_id", "log_offset")
RULES = ("release_version", "rules_version", "state_format")
# Without the state's offsets, of which there may be millions.
IS_KEPT = (Condition("reason", "==", KEEP), Condition("record_offset", "is null"))


class Rows(Protocol):
    """A lake, in its present state or as an audit left it."""

    def rows(self, name: str, *, columns: list[str], conditions: list[Condition]) -> pa.Table: ...


def kept_checkpoints(lake: Rows) -> pa.Table:
    """The places of a lake's kept states, and the rules that made them: columns PLACE and RULES, each row once."""
    columns, is_one = [*PLACE, *RULES], [*IS_KEPT, Condition("log", "is null")]
    return lake.rows(CHECKPOINTS, columns=columns, conditions=is_one).group_by(columns).aggregate([])


def usable_checkpoints(kept: pa.Table, release_version: str) -> dict[int, Checkpoint]:
    """The newest checkpoint of each offsets partition, if the present rules made it. A replay cannot start from any
    other state; it then replays the remaining history, as a broker loads a compacted log."""
    newest = {row["offsets_partition"]: row for row in kept.sort_by([(n, "ascending") for n in PLACE]).to_pylist()}
    return {
        number: Checkpoint(row["log_offset"], row["audit_id"])
        for number, row in newest.items()
        if tuple(row[name] for name in RULES) == (release_version, RULES_VERSION, STATE_FORMAT)
    }


def of_groups(horizons: Horizons) -> dict[int, int]:
    return {number: at for (log, number), at in horizons.items() if log is None}


def reduced_to(lake: Rows) -> dict[Place, int]:
    """The log offset below which each partition is, or may be, reduced, whatever the rules of its checkpoint."""
    columns = ["log", "offsets_partition", "log_offset"]
    kept = lake.rows(CHECKPOINTS, columns=columns, conditions=[*IS_KEPT]).group_by(columns[:2])
    rows = kept.aggregate([("log_offset", "max")]).to_pylist()
    return {(row["log"], row["offsets_partition"]): row["log_offset_max"] for row in rows}


HISTORY = (*LOG_TABLES, CHECKPOINTS)
# A replay of history starts from no night's state.
OF_HISTORY = {CHECKPOINTS: (Condition("reason", "in", [REREAD, KEEP]),)}
# Fewer records are not worth their own task: each task opens nearly all files of a lake with small nights.
RECORDS_OF_A_TASK = 250_000


@dataclass
class Stored:
    """Tables of a lake for tasks. `given`: those that tasks have got."""

    lake: Lake
    given: list[StoredTable] = field(default_factory=list)

    def tables(self, then: LakeAsOfAudit | None = None) -> dict[str, StoredTable]:
        """The tables of history with a replay's columns: their newest versions, or as an audit left them."""
        found = {}
        for name in HISTORY:
            schema = arrow_schema(name) if name == CHECKPOINTS else part_schema(name)
            columns = [*dict.fromkeys(["audit_id", *schema.names])]  # audit_id decides whether a row counts
            version = None if then is None else then.version(name)
            found[name] = self.table(name, name, columns, version, OF_HISTORY.get(name, ()))
        return found

    def table(
        self,
        label: str,
        name: str,
        columns: Sequence[str],
        version: int | None = None,
        conditions: Sequence[Condition] = (),
    ) -> StoredTable:
        """A version of a table (None: the newest), without files that cannot meet the conditions; some rows may not."""
        log = self.lake.table(name)
        files = [file for file in log.files(version) if all_may_hold(conditions, file.bound)]
        in_files = tuple(StoredFile(file.path, shards_in_file(name, file.stats)) for file in files)
        self.given.append(StoredTable(label, name, log.path, tuple(columns), in_files))
        return self.given[-1]

    def left_by(self, then: LakeAsOfAudit, name: str, written_by: int | None = None) -> dict[str, StoredTable]:
        """A table as an audit left it; empty if the audit had none. `written_by`: only the files of checkpoints with
        the state of that audit, which may have other rows, too."""
        version = then.version(name)
        if version is None:
            return {}
        conditions = [] if written_by is None else rows_of_state(name, written_by)
        return {name: self.table(f"{name} left", name, part_schema(name).names, version, conditions)}

    def run(self, sink: Sink, tasks: TaskShards, task: Task) -> Made:
        """Runs a task on all shards. It may read the tables that were asked for here."""
        return sink.run(self.given_to(tasks), partial(replay_shards, task, tasks))

    def given_to(self, tasks: TaskShards) -> Given:
        """The shards of each task, and the files that it may read."""
        files = [{*itertools.chain(*(each.uris(shards) for each in self.given))} for shards in tasks.shards]
        return Given(tasks.rows, files)

    def facts(self, tasks: TaskShards, task: Task) -> list[Any]:
        """The facts of a task that returns no rows, for all shards."""
        return self.run(Sink(self.lake.runner, {}, audit_id=0), tasks, task).facts


def task_shards(records: Mapping[int, int], slots: int, of_groups: Mapping[int, int] | None = None) -> TaskShards:
    """The shards of each task, given the number of records of each shard; a small history is one task. `of_groups`: the
    records of groups among them; replaying one takes as long as a hundred commits."""
    weights = {shard: count + 100 * (of_groups or {}).get(shard, 0) for shard, count in records.items()}
    tasks = max(1, min(2 * slots, sum(weights.values()) // RECORDS_OF_A_TASK))
    return TaskShards(tuple(map(tuple, by_weight(sorted(weights), weights.__getitem__, tasks))), dict(records))


def states_alone(replay: ShardTask, reader: PartReader) -> Iterator[TaskOutput]:
    return (output for output in replay.outputs(reader) if output[0] == CHECKPOINTS)


def states_at(
    stored: Stored, horizon: Mapping[int, int], release_version: str, audit_id: int
) -> tuple[TaskShards, Task]:
    """The tasks that return the state at H of each partition, as rows of checkpoints that stay. They replay its
    history, all of finished audits, from its newest checkpoint on if that is usable."""
    lake, ends = stored.lake, dict(horizon)
    records = records_read(what_was_read(lake, LakeAsOfAudit.last_finished(lake).audit_id))
    begins = usable_checkpoints(kept_checkpoints(lake), release_version)
    history = StoredHistory(stored.tables(), replaced=lake.replaced, begins=begins, horizons=ends)
    tasks = task_shards({number: records[number] for number in horizon}, lake.runner.slots)
    night = Night(audit_id, release_version, None, Topics())
    return tasks, partial(states_alone, ShardTask(night, ends, stored=history, reason=KEEP))


def keep_states(writer: LakeWriter, horizon: Mapping[int, int], release_version: str) -> None:
    """Adds the state at H of each partition to checkpoints."""
    stored = Stored(writer.lake)
    with sink_of(writer) as sink:
        stored.run(sink, *states_at(stored, horizon, release_version, writer.audit_id))
        sink.append(writer, CHECKPOINTS)
