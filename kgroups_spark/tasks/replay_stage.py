"""Stage 2 as Spark runs it: a shard's task gets the parts of its history, and returns rows of tables.

shards = a row for each part: its task, its offsets partition, where the part is
shards.repartitionById(tasks, "task").mapInArrow(replay_shards, ...)      by the runner
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.state_entries import made_by
from kgroups_spark.decoding.group_traffic import summed
from kgroups_spark.decoding.redecode import decoded_again
from kgroups_spark.expiry.clean_up import decided_before
from kgroups_spark.replay.checkpoint_rows import checkpoint_rows, entries_of_night, loaded, saved
from kgroups_spark.replay.corrected_history import HistoryReplay
from kgroups_spark.replay.history_parts import HistoryPart, PartReader
from kgroups_spark.replay.read_again import CorrectedReplay, ReadAgain
from kgroups_spark.replay.read_by import ReadBy
from kgroups_spark.replay.replay_shard import Night, Output
from kgroups_spark.replay.stored_history import StoredHistory, StoredShard
from kgroups_spark.replay.stored_tables import StoredTable, TaskShards
from kgroups_spark.tables.internal import NIGHT
from kgroups_spark.tables.rows import as_table
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES
from kgroups_spark.tasks.cycle_collector import no_cycle_collector
from kgroups_spark.tasks.outputs import Fact, TaskOutput

# A row for each part of a shard; a shard without parts has one row with a null `part_table`.
SHARDS = pa.schema(
    [
        ("offsets_partition", pa.int32()),
        ("part_table", pa.string()),
        ("is_again", pa.bool_()),
        ("uri", pa.string()),
    ]
)
# The current tables that a replay makes.
CURRENT = (
    "groups",
    "group_members",
    "committed_offsets",
    "pending_offsets",
    "open_transactions",
    "offset_expiry",
    "group_expiry",
)
TRAFFIC = "group_traffic"
# The table with the previous audit's decisions, and the table to which this audit moves them.
EXPIRY, PREVIOUS = "offset_expiry", "previous_offset_expiry"


class Task(Protocol):
    """A task's work on each of its shards."""

    def outputs(self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]) -> Iterator[TaskOutput]:
        """The rows of tables of one shard, and facts."""


@dataclass(frozen=True)
class ShardTask:
    """All settings of a task besides its shards.

    ends          by offsets partition the end of the replayed history
    state_of      the audit with the saved state to start from; None: there is none
    read_again    by offsets partition the ranges that were read again
    stored        the replayed history, instead of parts
    decoded_again quarantine with records that this audit has decoded again and group_traffic does not count yet
    read_by       in a rebuild: the audit that read each record. Rows of history get its number; in a night, the night's
    reason        the reason in the saved state
    tables        the tables with wanted rows; None: all of them
    """

    night: Night
    ends: Mapping[int, int]
    state_of: int | None = None
    read_again: Mapping[int, ReadAgain] = field(default_factory=dict)
    stored: StoredHistory | None = None
    decoded_again: tuple[StoredTable, TaskShards] | None = None
    read_by: ReadBy | None = None
    reason: str = NIGHT
    tables: frozenset[str] | None = None

    @property
    def audit_id(self) -> int:
        return self.night.audit_id

    def outputs(self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]) -> Iterator[TaskOutput]:
        """The wanted (table, rows) of one shard, including its new state; a night adds its mixed commits as a fact."""
        read_by = self.read_by
        if read_by is not None and self.stored is not None:
            shard = self.stored.shard(reader, offsets_partition)
            read_by = read_by.and_corrected(shard.rows(CHECKPOINTS))
        for output in self._all(reader, offsets_partition, parts):
            if isinstance(output, Fact):
                yield output
                continue
            table, rows = output
            if rows.num_rows and (self.tables is None or table in self.tables):
                by = read_by if TABLES[table].kind == "history" else None
                yield table, rows if by is None else by.with_audit_ids(rows)

    def _all(self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]) -> Iterator[Output | Fact]:
        replay = self._replay(reader, offsets_partition, parts)
        yield from replay.outputs()
        if self.stored is None and replay.mixed:
            yield Fact([(offsets_partition, *each) for each in replay.mixed])
        made = made_by(self.audit_id, self.reason, self.night.release_version)
        yield CHECKPOINTS, checkpoint_rows(saved(replay.state), offsets_partition, self.ends[offsets_partition], made)
        before = [part for part in parts if part.table == EXPIRY]
        if before:
            yield PREVIOUS, decided_before(reader.rows(before, EXPIRY, offsets_partition), self.night.audit_id)
        traffic = [part for part in parts if part.table == TRAFFIC and not part.is_again]
        again = list(self._decoded_again(reader, offsets_partition, parts))
        if traffic or again:
            yield TRAFFIC, summed(pa.concat_tables([reader.rows(traffic, TRAFFIC, offsets_partition), *again]))

    def _decoded_again(
        self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]
    ) -> Iterator[pa.Table]:
        """Rows of group_traffic for records that this audit has decoded again."""
        if self.decoded_again is None:
            return
        table, tasks = self.decoded_again
        rows = reader.stored(table, tasks, offsets_partition)
        ours = rows.filter(pc.field("resolved_by") == self.audit_id)
        for name, counted in decoded_again(ours, offsets_partition, self.audit_id):
            if name == TRAFFIC:
                yield as_table(counted)

    def _replay(
        self, reader: PartReader, offsets_partition: int, parts: Sequence[HistoryPart]
    ) -> HistoryReplay | CorrectedReplay:
        if self.stored is not None:
            return self._replay_of_stored(self.stored.shard(reader, offsets_partition))
        new = [part for part in parts if not part.is_again]
        ranges = reader.ranges(parts, offsets_partition)
        entries = reader.rows([part for part in new if part.table == CHECKPOINTS], CHECKPOINTS, offsets_partition)
        entries = entries.slice(0, 0) if self.state_of is None else entries_of_night(entries, self.state_of)
        state = loaded(entries, self.night.release)
        of = (offsets_partition, self.night, state, reader.history(new, offsets_partition))
        if offsets_partition in self.read_again:
            again = reader.history([part for part in parts if part.is_again], offsets_partition)
            return CorrectedReplay(*of, again, self.read_again[offsets_partition], ranges)
        return HistoryReplay(*of, ranges=ranges)

    def _replay_of_stored(self, shard: StoredShard) -> HistoryReplay:
        number, state = shard.offsets_partition, loaded(shard.state(), self.night.release)
        history, corrections = shard.history(), shard.corrections()
        return HistoryReplay(number, self.night, state, history, corrections, shard.ranges(), shard.begins)


def shards_of_parts(tasks: Sequence[Sequence[int]], parts: Sequence[HistoryPart]) -> list[pa.Table]:
    """Rows of SHARDS for parts in files; each shard gets those that may have rows of it. `tasks`: the shards of each
    task."""

    def rows(shard: int) -> list[tuple[Any, ...]]:
        found = [(shard, part.table, part.is_again, part.place) for part in parts if part.may_have(shard)]
        return found or [(shard, None, None, None)]

    return [_shard_rows([row for shard in shards for row in rows(shard)]) for shards in tasks]


def _shard_rows(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), SHARDS, strict=True)]
    return pa.table(columns, schema=SHARDS)


def replay_shards(shard_task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[TaskOutput]:
    """Rows of SHARDS -> the outputs of one shard after the other."""
    reader = PartReader()
    with no_cycle_collector():
        for offsets_partition, parts in shards_in(batches):
            yield from shard_task.outputs(reader, offsets_partition, parts)


def shards_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[HistoryPart]]]:
    """Rows of SHARDS -> each offsets partition and its parts."""
    rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
    for offsets_partition, of_one in itertools.groupby(rows, key=itemgetter("offsets_partition")):
        yield offsets_partition, [_part(row) for row in of_one if row["part_table"] is not None]


def _part(row: dict[str, Any]) -> HistoryPart:
    """The part that a row of SHARDS names."""
    return HistoryPart(row["part_table"], row["uri"], row["is_again"])
