"""History for tasks: references to its files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kgroups_spark.balance import by_weight
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.saved_states import rows_of_state
from kgroups_spark.replay.history_parts import part_schema
from kgroups_spark.replay.stored_tables import StoredFile, StoredTable, TaskShards, shards_in_file
from kgroups_spark.runner import numbers
from kgroups_spark.tables.conditions import Condition, all_may_hold
from kgroups_spark.tables.internal import KEEP, REREAD
from kgroups_spark.tables.schemas import CHECKPOINTS, LOG_TABLES, arrow_schema
from kgroups_spark.tasks.replay_stage import Task, replay_shards
from kgroups_spark.tasks.sinks import Given, Made, Sink

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

    def tables(self) -> dict[str, StoredTable]:
        """The newest versions of the tables of history, with the columns that a replay takes."""
        return {name: self._history(name, None) for name in HISTORY}

    def tables_as_of(self, then: LakeAsOfAudit) -> dict[str, StoredTable]:
        """The same as an audit left them."""
        return {name: self._history(name, then.version(name)) for name in HISTORY}

    def _history(self, name: str, version: int | None) -> StoredTable:
        return self.table(name, name, _columns(name), version, OF_HISTORY.get(name, ()))

    def table(
        self,
        label: str,
        name: str,
        columns: Sequence[str],
        version: int | None = None,
        conditions: Sequence[Condition] = (),
    ) -> StoredTable:
        """A version of a table (None: the newest). Files that cannot meet the conditions are left out; rows that do not
        meet them may be there."""
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
        """The number of each task, and the files that it may read."""
        files = [{*itertools.chain(*(each.uris(shards) for each in self.given))} for shards in tasks.shards]
        return Given(numbers(len(tasks.shards)), files)

    def facts(self, tasks: TaskShards, task: Task) -> list[Any]:
        """The facts of a task that returns no rows, for all shards."""
        return self.run(Sink(self.lake.runner, {}, audit_id=0), tasks, task).facts


def _columns(name: str) -> list[str]:
    """The columns for a replay, and those that decide whether a row counts."""
    schema = arrow_schema(name) if name == CHECKPOINTS else part_schema(name)
    return [*dict.fromkeys(["audit_id", *schema.names])]


def task_shards(records: Mapping[int, int], slots: int) -> TaskShards:
    """The shards of each task, given the number of records of each shard; a small history is one task."""
    tasks = max(1, min(2 * slots, sum(records.values()) // RECORDS_OF_A_TASK))
    return TaskShards(tuple(map(tuple, by_weight(sorted(records), records.__getitem__, tasks))), dict(records))
