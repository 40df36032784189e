"""A night in which nothing is new but the moment or the retention: the current tables stay, and are decided on again.

To replay the shards for it would load and save their states and write all current tables: several times as dear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

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
from kgroups_spark.lake.failures import told_in_one_line
from kgroups_spark.lake.parts_writer import Part
from kgroups_spark.replay.history_parts import HistoryPart, PartReader, part_schema
from kgroups_spark.tables.conditions import Condition, partitions_in_lots
from kgroups_spark.tasks.outputs import PartCollector
from kgroups_spark.tasks.packed_rows import packed_by_shard
from kgroups_spark.tasks.replay_stage import EXPIRY, PREVIOUS, STATE, shards_of
from kgroups_spark.tasks.replayed import replayed

# The tables that it reads.
READ = (EXPIRY, *(name for name in DECIDED_BY if name != HELD_GROUPS))
WRITTEN = (PREVIOUS, *DECISIONS)
# About so many committed offsets are decided on at once; an offsets partition is never cut.
ROWS_AT_ONCE = 1 << 18
# Where Spark writes, fewer are decided on by the driver: to deal them to tasks costs more than all else.
SMALL_ROWS = 50_000


@dataclass(frozen=True)
class DecideTask:
    """A shard's current tables -> what is decided on them. `held_groups`: of all shards, as HELD_GROUPS."""

    lake_uri: str
    clean_up: CleanUp
    held_groups: pa.Table

    @property
    def audit_id(self) -> int:
        return self.clean_up.audit_id

    def outputs(self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]) -> Iterator[Output]:
        """(table, rows) of one shard."""
        found = {name: reader.rows(_parts_of(name, parts), name, offsets_partition) for name in READ}
        held = self.held_groups.filter(pc.equal(self.held_groups["offsets_partition"], offsets_partition))
        yield from self.decided({**found, HELD_GROUPS: held})

    def decided(self, tables: Mapping[str, pa.Table]) -> Iterator[Output]:
        """(table, rows) of the shards whose rows are in the tables (READ, HELD_GROUPS)."""
        yield PREVIOUS, decided_before(tables[EXPIRY], self.audit_id)
        yield from self.clean_up.decided(tables)


def _parts_of(name: str, parts: Sequence[HistoryPart]) -> list[HistoryPart]:
    return [part for part in parts if part.table == name]


def decide_again(work: AuditWork, as_of_ms: int) -> None:
    """Commits previous_offset_expiry, offset_expiry and group_expiry."""
    clean_up = work.clean_up(as_of_ms)
    task = DecideTask(work.lake.uri, clean_up, _held_groups(work, clean_up))
    if work.writer.name == "parts":
        _by_parts(work, task)
    elif _offsets(work) < SMALL_ROWS:
        for name, rows in _decided(work, task):
            work.writer.replace_table(name, pa.table(rows))
    else:
        _by_tasks(work, task)


def _decided(work: AuditWork, task: DecideTask, *where: Condition) -> Iterator[Output]:
    """By the driver, of all shards or of some: to start tasks costs more than most lakes have to decide."""
    tables = {name: work.lake.rows(name, columns=part_schema(name).names, conditions=where) for name in READ}
    return task.decided({**tables, HELD_GROUPS: task.held_groups})


def _by_parts(work: AuditWork, task: DecideTask) -> None:
    collector, written = PartCollector(task.lake_uri, task.audit_id), list[Part]()
    with told_in_one_line("what expires could not be decided"):
        for lot in _lots(work):
            for name, rows in _decided(work, task, lot):
                written += collector.add(name, rows)
        written += collector.rest()
    for name in WRITTEN:
        work.writer.replace_parts(name, [part for part in written if part.table == name])


def _lots(work: AuditWork) -> Iterator[Condition]:
    """Conditions that divide the shards, those with few offsets together."""
    column = work.lake.rows("committed_offsets", columns=["offsets_partition"])["offsets_partition"]
    rows = Counter(dict.fromkeys(work.shards, 0))
    rows.update({each["values"]: each["counts"] for each in column.value_counts().to_pylist()})
    return partitions_in_lots(rows, ROWS_AT_ONCE)


def _by_tasks(work: AuditWork, task: DecideTask) -> None:
    packed = [packed_by_shard(work.rows_before(name), name, part_schema(name)) for name in READ]
    shards = shards_of(work.spark, work.shard_hands, reduce(DataFrame.unionByName, packed))
    with replayed(shards, task, work.writer) as decided:
        for name in WRITTEN:
            decided.replace(work.writer, name)


def _offsets(work: AuditWork) -> int:
    """How many committed offsets there are; where a file does not say it, no fewer."""
    files = work.lake.table("committed_offsets").files()
    return sum(int(file.stats.get("numRecords", file.size)) for file in files)


def _held_groups(work: AuditWork, clean_up: CleanUp) -> pa.Table:
    """The groups for which the newest state has producers noted."""
    columns = columns_needed(HELD_GROUPS)
    if not clean_up.looks_at_held_groups:
        return columns.empty_table()
    noted = [Condition("entry_type", "==", "noted"), Condition("audit_id", "==", work.state.audit_id)]
    return work.lake.rows(STATE, columns=columns.names, conditions=noted)
