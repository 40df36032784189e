"""Stage 1 as Spark runs it: tasks read ranges of the log, and return rows of history and the progress of each range.

A task finds its ranges by its number: they are small and part of the function.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.state_entries import made_by
from kgroups_spark.errors import NotReadable
from kgroups_spark.offsets.columns import LARGEST_KEY, compared
from kgroups_spark.replay.corrections import CorrectedReplay, HistoryReplay
from kgroups_spark.replay.counts import summed
from kgroups_spark.replay.range_decoder import decoded_again, readings
from kgroups_spark.replay.ranges import LogRange, LogTimes, RangeProgress, ReadContext
from kgroups_spark.replay.shard import Night, Output, ShardReplay
from kgroups_spark.replay.sinks import Fact, ForReplay, ShardBegins, ShardLost, TaskOutput
from kgroups_spark.replay.state import ENTRIES, checkpoint_rows, loaded, saved
from kgroups_spark.replay.stored_history import (
    ALL_SHARDS,
    PartReader,
    StoredHistory,
    StoredShard,
    StoredTable,
    TaskShards,
)
from kgroups_spark.sources.partition_log import LeaderLost
from kgroups_spark.spark.tasks import numbers_in
from kgroups_spark.tables.definitions import NIGHT
from kgroups_spark.tables.rows import constant, no_rows, numbers, where, with_columns
from kgroups_spark.tables.schemas import CHECKPOINTS


@contextmanager
def no_cycle_collector() -> Iterator[None]:
    """Disables the collector within the block.

    Groups and offsets are trees, freed when their last reference goes. The collector would search a whole shard for
    cycles, again and again while it grows, which costs two fifths of an audit's Python time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


Ranges = Sequence[LogRange]
# Rows that the replay completes: markers get their transaction; counts of one hour are added up.
PASSED_ON = ("transaction_markers", "group_traffic")


def rows_of_ranges(tasks: Sequence[Ranges]) -> list[pa.Table]:
    """A row for each range, in the table of its task; `range` counts all. `end_offset` null: the log's end."""
    numbers = iter(range(sum(map(len, tasks))))
    rows = [
        [(next(numbers), r.offsets_partition, r.start_offset, r.end_offset, r.size_bytes) for r in ranges]
        for ranges in tasks
    ]
    return [pa.Table.from_pylist([dict(zip(RANGE.names, row, strict=True)) for row in each], RANGE) for each in rows]


RANGE = pa.schema(
    {"range": pa.int32(), "offsets_partition": pa.int32()}
    | {name: pa.int64() for name in ("start_offset", "end_offset", "size_bytes")}
)


def read_tasks(ranges: Ranges, context: ReadContext, batches: Iterable[pa.RecordBatch]) -> Iterator[TaskOutput]:
    """Rows of RANGE -> the outputs of a task: rows of history, rows that the replay completes (PASSED_ON), rows that
    are read again, and the progress of each range as a fact."""
    mine = [ranges[number] for number in numbers_in(batches)]
    if not mine:
        return
    with no_cycle_collector(), context.connected() as connected:
        for reading in readings(mine, connected):
            yield ShardBegins(str(reading.offsets_partition))
            try:
                for decoder in reading.decoders():
                    is_again = decoder.progress.is_reread
                    for name, rows in decoder.outputs():
                        passed_on = is_again or name in PASSED_ON
                        yield ForReplay(name, rows, is_again) if passed_on else (name, rows)
                    yield from (Fact(progress_to_json(each)) for each in decoder.progresses)
            except NotReadable as err:
                if isinstance(err, LeaderLost):
                    connected.live.lose_patience()
                yield ShardLost()
                yield Fact(progress_to_json(reading.given_up(err)))


def progress_to_json(progress: RangeProgress) -> dict[str, Any]:
    """The progress as a JSON value."""
    counts = [(record_type, version, count) for (record_type, version), count in progress.record_counts.items()]
    return {**vars(progress), "record_counts": counts, "log_times": vars(progress.log_times)}


def progress_from_json(payload: dict[str, Any]) -> RangeProgress:
    """The inverse of progress_to_json, after JSON."""
    counts = Counter({(record_type, version): count for record_type, version, count in payload["record_counts"]})
    return RangeProgress(
        **{
            **payload,
            "record_counts": counts,
            "log_times": LogTimes(**payload["log_times"]),
            "quarantined": Counter(payload["quarantined"]),
            "topics": [tuple(row) for row in payload["topics"]],
            "damage": [tuple(place) for place in payload["damage"]],
        }
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


# A task's work on the shards of a reader: rows of their tables, and facts.
Task = Callable[[PartReader], Iterator[TaskOutput]]


@dataclass(frozen=True)
class ShardTask:
    """All settings of a task besides its shards.

    ends          by offsets partition the end of the replayed history
    stored        the replayed history
    is_night      the history is new, and goes on from a saved state
    state_of      the audit with that state; None: there is none
    given         other tables of a night: saved states, the previous decisions, traffic
    read_again    by offsets partition the end of a log that was read again, and `again` the history in it
    decoded_again quarantine with records that this audit has decoded again and group_traffic does not count yet
    reason        the reason in the saved state
    """

    night: Night
    ends: Mapping[int, int]
    stored: StoredHistory
    is_night: bool = False
    state_of: int | None = None
    given: Mapping[str, StoredTable] = field(default_factory=dict)
    read_again: Mapping[int, int] = field(default_factory=dict)
    again: StoredHistory | None = None
    decoded_again: StoredTable | None = None
    reason: str = NIGHT

    @property
    def audit_id(self) -> int:
        return self.night.audit_id

    def outputs(self, reader: PartReader) -> Iterator[Output | Fact]:
        """(table, rows) of the reader's shards, including their new state; a night adds as a fact that it replayed
        them. It replays small shards together, if their log offsets laid end to end are numbers."""
        together = self.is_night and sum(map(self.ends.__getitem__, reader.shards)) < LARGEST_KEY
        for only in [ALL_SHARDS] if together else reader.shards:
            replay = self._replay(reader, only)
            yield from replay.outputs()
            made = made_by(self.audit_id, self.reason, self.night.release_version)
            yield CHECKPOINTS, checkpoint_rows(saved(replay.state), self.ends, made)
            if EXPIRY in self.given:
                before = reader.rows(self.given[EXPIRY], only)
                ours = with_columns(before, audit_id=constant(self.audit_id, len(before), pa.int64()))
                yield PREVIOUS, ours.append_column("decided_by", before["audit_id"])
            traffic = [reader.rows(self.given[TRAFFIC], only)] if TRAFFIC in self.given else []
            if self.decoded_again is not None:
                for number in reader.shards if only == ALL_SHARDS else (only,):
                    rows = reader.rows(self.decoded_again, number)
                    rows = rows.filter(pc.field("resolved_by") == self.audit_id)
                    decoded = decoded_again(rows, number, self.audit_id)
                    traffic += [counted for name, counted in decoded if name == TRAFFIC]
            if traffic:
                yield TRAFFIC, summed(pa.concat_tables(traffic))
        if self.is_night:
            yield Fact({"shards": reader.shards})

    def _replay(self, reader: PartReader, only: int) -> ShardReplay:
        shard = StoredShard(self.stored, reader, only)
        history = shard.history(self.ends)
        if not self.is_night:
            entries = shard.state()
        elif self.state_of is None:
            entries = no_rows(ENTRIES)
        else:
            rows = reader.rows(self.given[CHECKPOINTS], only)
            # The same files may hold other audits' rows.
            is_it = (numbers(rows["audit_id"]) == self.state_of) & (compared(rows["reason"], NIGHT) == 0)
            entries = where(rows, is_it).select(ENTRIES.names)
        of = (self.night, loaded(entries, self.night.release, history.log), history)
        ranges = shard.ranges()
        if read_again := [number for number in history.log.partitions.tolist() if number in self.read_again]:
            assert self.again is not None
            (number,) = read_again
            again = StoredShard(self.again, reader, only).history(self.ends)
            return CorrectedReplay(*of, ranges, again=again, end_offset=self.read_again[number])
        corrections = shard.corrections()
        return HistoryReplay(*of, ranges, corrections, shard.begins) if corrections else ShardReplay(*of, ranges)


def replay_shards(task: Task, tasks: TaskShards, batches: Iterable[pa.RecordBatch]) -> Iterator[TaskOutput]:
    """Rows with a shard each -> the outputs of these shards, one after the other."""
    with no_cycle_collector():
        for reader in tasks.readers(numbers_in(batches)):
            yield from task(reader)
