"""An audit with a new moment or retention, but without new records: the current tables stay, and expiry is judged
again.

A replay of the shards would load and save their states and write all current tables, which costs several times as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.audit.work import AuditWork
from kgroups_spark.expiry.clean_up import (
    DECIDED_BY,
    DECISIONS,
    HELD_GROUPS,
    CleanUp,
    Output,
    columns_needed,
    decided_before,
)
from kgroups_spark.history.stored import Stored
from kgroups_spark.lake.failures import reported_in_one_line
from kgroups_spark.replay.history_parts import PartReader, part_schema
from kgroups_spark.replay.stored_tables import StoredTable
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.internal import NIGHT
from kgroups_spark.tables.schemas import CHECKPOINTS
from kgroups_spark.tasks.replay_stage import EXPIRY, PREVIOUS
from kgroups_spark.tasks.sinks import sink_of

# The tables that it reads.
READ = (EXPIRY, *(name for name in DECIDED_BY if name != HELD_GROUPS))
WRITTEN = (PREVIOUS, *DECISIONS)
# The driver decides on fewer committed offsets than this: for most lakes, starting tasks costs more than the decisions.
SMALL_ROWS = 1 << 18


@dataclass(frozen=True)
class DecideTask:
    """A shard's current tables -> the decisions on them. `held_groups`: HELD_GROUPS of all shards."""

    clean_up: CleanUp
    held_groups: pa.Table
    tables: Mapping[str, StoredTable] = field(default_factory=dict)

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[Output]:
        found = {name: reader.rows(table, offsets_partition) for name, table in self.tables.items()}
        held = self.held_groups.filter(pc.equal(self.held_groups["offsets_partition"], offsets_partition))
        yield from self.decided({**found, HELD_GROUPS: held})

    def decided(self, tables: Mapping[str, pa.Table]) -> Iterator[Output]:
        """(table, rows) of the shards whose rows are in the tables (READ, HELD_GROUPS)."""
        yield PREVIOUS, decided_before(tables[EXPIRY], self.clean_up.audit_id)
        yield from self.clean_up.decided(tables)


def decide_again(work: AuditWork, as_of_ms: int) -> None:
    """Commits previous_offset_expiry, offset_expiry and group_expiry."""
    clean_up = work.clean_up(as_of_ms)
    task = DecideTask(clean_up, _held_groups(work, clean_up))
    with reported_in_one_line("expiry could not be decided"):
        if _offsets(work) < SMALL_ROWS:
            _by_driver(work, task)
        else:
            _by_tasks(work, task)


def _by_driver(work: AuditWork, task: DecideTask) -> None:
    tables = {name: work.lake.rows(name, columns=part_schema(name).names) for name in READ}
    for name, rows in task.decided({**tables, HELD_GROUPS: task.held_groups}):
        work.writer.replace_table(name, pa.table(rows))


def _by_tasks(work: AuditWork, task: DecideTask) -> None:
    stored = Stored(work.lake)
    tables = {name: table for each in READ for name, table in stored.left_by(work.then, each).items()}
    with sink_of(work.writer) as sink:
        stored.run(sink, work.shards_by_task(), replace(task, tables=tables))
        for name in WRITTEN:
            sink.replace(work.writer, name)


def _offsets(work: AuditWork) -> int:
    """The number of committed offsets; an upper bound if a file's statistics lack it."""
    files = work.lake.table("committed_offsets").files()
    return sum(int(file.stats.get("numRecords", file.size)) for file in files)


def _held_groups(work: AuditWork, clean_up: CleanUp) -> pa.Table:
    """The groups for which the newest state has producers noted."""
    columns = columns_needed(HELD_GROUPS)
    if not clean_up.looks_at_held_groups:
        return columns.empty_table()
    noted = [Condition("entry_type", "==", "noted"), Condition("audit_id", "==", work.state.audit_id)]
    noted.append(Condition("reason", "==", NIGHT))
    return work.lake.rows(CHECKPOINTS, columns=columns.names, conditions=noted)
