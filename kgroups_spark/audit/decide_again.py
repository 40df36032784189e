"""A night in which nothing is new but the moment or the retention: the current tables stay, and are decided on again.

To replay the shards for it would load and save their states and write all current tables: several times as dear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from kgroups_spark.audit.outputs import PartCollector
from kgroups_spark.audit.packed_rows import packed_by_shard
from kgroups_spark.audit.replayed import Replayed, ReplayedParts, replayed
from kgroups_spark.audit.shard_stage import EXPIRY, PREVIOUS, STATE, shards_of
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
from kgroups_spark.replay.history_parts import HistoryPart, PartReader, part_schema
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.failures import told_in_one_line
from kgroups_spark.tables.parts_writer import Part

# The tables that it reads.
READ = (EXPIRY, *(name for name in DECIDED_BY if name != HELD_GROUPS))
WRITTEN = (PREVIOUS, *DECISIONS)


@dataclass(frozen=True)
class DecideTask:
    """A shard's current tables -> what is decided on them. `held_groups`: of all shards, as HELD_GROUPS."""

    lake_uri: str
    audit_id: int
    clean_up: CleanUp
    held_groups: pa.Table

    def outputs(self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]) -> Iterator[Output]:
        """(table, rows) of one shard."""

        def rows(name: str) -> pa.Table:
            return reader.rows([part for part in parts if part.table == name], name, offsets_partition)

        yield PREVIOUS, decided_before(rows(EXPIRY), self.audit_id)
        held = self.held_groups.filter(pc.equal(self.held_groups["offsets_partition"], offsets_partition))
        yield from self.clean_up.decided({**{name: rows(name) for name in READ}, HELD_GROUPS: held})


def decide_again(work: AuditWork, as_of_ms: int) -> None:
    """Commits previous_offset_expiry, offset_expiry and group_expiry."""
    clean_up = work.clean_up(as_of_ms)
    task = DecideTask(work.lake.uri, work.audit_id, clean_up, _held_groups(work, clean_up))
    if work.writer.name == "parts":
        with told_in_one_line("what expires could not be decided"):
            decided = _decided_here(work, task)
        _replace(work, decided)
        return
    with replayed(shards_of(work.spark, work.shard_hands, _frame(work)), task, work.writer) as rows:
        _replace(work, rows)


def _replace(work: AuditWork, decided: Replayed) -> None:
    for name in WRITTEN:
        decided.replace(work.writer, name)


def _decided_here(work: AuditWork, task: DecideTask) -> ReplayedParts:
    """By the driver, shard by shard: to start tasks costs more than most lakes have to decide."""
    reader, collector = PartReader(), PartCollector(task.lake_uri, task.audit_id)
    given = [HistoryPart(name, uri) for name in READ for uri in work.files_before(name)]
    written: dict[str, list[Part]] = {name: [] for name in WRITTEN}
    for shard in work.shards:
        for name, rows in task.outputs(reader, shard, given):
            written[name] += collector.add(name, rows)
    for part in collector.rest():
        written[part.table].append(part)
    return ReplayedParts(written)


def _frame(work: AuditWork) -> DataFrame:
    """The same tables as PACKED_BY_SHARD."""
    packed = [packed_by_shard(work.rows_before(name), name, part_schema(name)) for name in READ]
    return reduce(DataFrame.unionByName, packed)


def _held_groups(work: AuditWork, clean_up: CleanUp) -> pa.Table:
    """The groups for which the newest state has producers noted."""
    columns = columns_needed(HELD_GROUPS)
    if not clean_up.looks_at_held_groups:
        return columns.empty_table()
    noted = [Condition("entry_type", "==", "noted"), Condition("audit_id", "==", work.state.audit_id)]
    return work.lake.rows(STATE, columns=columns.names, conditions=noted)
