"""Logs for the tests of history: recorded from brokers, and random ones, each audited in nights of several ranges."""

from __future__ import annotations

import io
import json
import random
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from crc32c import crc32c

from kgroups_spark.audit.work import known_topics
from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.coordinator.rows import AssignedPartition, MemberRow
from kgroups_spark.replay.shard import Night
from tests.chosen import some_of
from tests.coordinator.log_rows import ReplayRow, replay_rows
from tests.logs.dense_logs import dense_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import Files, of_one_leader, random_cuts, read_zip, segments_of
from tests.nights.nights_here import Audited, How, audit_nights
from tests.recorded_logs import CORPORA
from tests.replay.replayed_shards import Shard
from tests.views.arrow_tables import with_known_history

# Logs replayed record by record: what the views of history should have.
#
# Nothing here knows the views' rules, nor the tables of history: records come from the bytes, states from the current
# tables after each record.


Slot = tuple[str, str, int]  # group, topic, partition
STATES = ("committed_offsets", "pending_offsets", "groups", "group_members")
GROUP_COLUMNS = slice(1, 16)  # those that versions have, without the partition


class Owner(NamedTuple):
    member_id: str
    client_id: str | None
    client_host: str | None


class Span(NamedTuple):
    """A partition with a member, from one record of the group to another (null: to the end)."""

    offsets_partition: int
    group_id: str
    topic: str | None
    topic_id: str | None
    partition: int
    owner: Owner
    valid_from: int | None
    valid_to: int | None
    log_offset: int
    released_log_offset: int | None


class Effect(NamedTuple):
    """A record that became the committed offset, or removed it; `place`: where."""

    log_offset: int
    place: int
    timestamp: int | None
    committed_offset: int | None
    previous: int | None


@dataclass
class ReplayedPartition:
    """One offsets partition's log. `moments`: for each the state of the log before its first later record is kept."""

    offsets_partition: int
    rows: list[ReplayRow]
    version: str
    topics: Topics
    moments: list[int]
    states: dict[tuple[int, str], set[tuple[Any, ...]]] = field(default_factory=dict)
    # By slot what took effect, one after the other; by group its partitions' owners after each record about it.
    effects: dict[Slot, list[Effect]] = field(default_factory=lambda: defaultdict(list))
    owners: dict[str, list[tuple[int, int | None, set[tuple[AssignedPartition, Owner]]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    # By group and member, the partitions of its tasks by the topology at its last record.
    partitions_of_tasks: dict[tuple[str, str], set[AssignedPartition]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._night = Night(1, self.version, None, Topics())
        self.shard = Shard(self._night, self.offsets_partition)
        waiting = list(reversed(self.moments))
        for row in self.rows:
            while waiting and row.log_timestamp is not None and row.log_timestamp > waiting[-1]:
                self._keep(waiting.pop())
            self._replay(row)
        while waiting:
            self._keep(waiting.pop())

    def _keep(self, moment: int) -> None:
        # The names of topics are those of the whole log.
        self.shard.night = replace(self._night, topics=self.topics)
        self.shard.replay([])
        tables = self.shard.tables
        for name in ("committed_offsets", "pending_offsets"):
            self.states[moment, name] = {tuple(map(plain, row.values())) for row in tables.rows(name)}
        groups = ((self.offsets_partition, *row[GROUP_COLUMNS]) for row in tables.groups())
        self.states[moment, "groups"] = {tuple(map(plain, row)) for row in groups}
        self.states[moment, "group_members"] = {tuple(map(plain, row[:-5])) for row in tables.members()}
        self.shard.night = self._night

    def _replay(self, row: ReplayRow) -> None:
        before = self._committed()
        self.shard.replay([row])
        if row.kind == "group_record":
            assert row.group_id is not None
            self._place_tasks(row)
            self.owners[row.group_id].append((row.log_offset, row.log_timestamp, self._owners(row.group_id)))
            return
        now = self._committed()
        for slot in now.keys() | before.keys():
            old, new = before.get(slot), now.get(slot)
            if new is not None and new != old:
                offset, value = new
                self.effects[slot].append(Effect(offset, row.log_offset, row.log_timestamp, value, old and old[1]))
        if row.kind == "offset_commit" and row.commit is None:
            slot = (row.group_id or "", row.topic or "", row.partition or 0)
            old = before.get(slot)
            self.effects[slot].append(Effect(row.log_offset, row.log_offset, row.log_timestamp, None, old and old[1]))

    def _committed(self) -> dict[Slot, tuple[int, int]]:
        """By slot the log offset of the record, and the committed offset."""
        rows = self.shard.tables.offsets("committed_offsets")
        return {(row.group_id, row.topic, row.partition): (row.log_offset, row.committed_offset) for row in rows}

    def _members(self, group_id: str) -> list[MemberRow]:
        return [row for row in self.shard.tables.members() if row.group_id == group_id]

    def _owners(self, group_id: str) -> set[tuple[AssignedPartition, Owner]]:
        return {
            (partition._replace(assignment_epoch=None), Owner(row.member_id, row.client_id, row.client_host))
            for row in self._members(group_id)
            for partition in (
                *(row.assigned_partitions or ()),
                *(row.pending_revocation_partitions or ()),
                *self.partitions_of_tasks.get((group_id, row.member_id), ()),
            )
        }

    def _place_tasks(self, record: ReplayRow) -> None:
        """An active task has its partition of each source and repartition topic of its subtopology."""
        topics: dict[str, list[str]] = {}
        for group in self.shard.tables.groups():
            if group.group_id == record.group_id and group.topology is not None:
                for each in json.loads(group.topology)["subtopologies"]:
                    repartition = [topic["name"] for topic in each["repartitionSourceTopics"]]
                    topics[each["subtopologyId"]] = [*each["sourceTopics"], *repartition]
        for row in self._members(record.group_id or ""):
            if record.member_id == row.member_id:
                self.partitions_of_tasks[row.group_id, row.member_id] = {
                    AssignedPartition(topic, None, task.partition, None)
                    for task in (*(row.assigned_tasks or ()), *(row.pending_revocation_tasks or ()))
                    if task.role == "active"
                    for topic in topics.get(task.subtopology_id, ())
                }

    def owners_at(self, slot: Slot, place: int) -> set[Owner]:
        """The owners of the slot's partition there."""
        reported = self.owners.get(slot[0], [])
        at = bisect_right([log_offset for log_offset, _, _ in reported], place) - 1
        held = reported[at][2] if at >= 0 else set()
        return {owner for partition, owner in held if (self.name(partition), partition.partition) == slot[1:]}

    def name(self, partition: AssignedPartition) -> str | None:
        named = self.topics.names.get(partition.topic_id or "")
        return partition.topic or (named[0] if named else None)

    def spans(self) -> Iterator[Span]:
        for group_id, reported in self.owners.items():
            begun: dict[tuple[AssignedPartition, Owner], tuple[int, int | None]] = {}
            for log_offset, timestamp, held in reported:
                for key in held - begun.keys():
                    begun[key] = (log_offset, timestamp)
                for key in begun.keys() - held:
                    yield self._span(group_id, key, begun.pop(key), (log_offset, timestamp))
            for key, start in begun.items():
                yield self._span(group_id, key, start, (None, None))

    def _span(
        self,
        group_id: str,
        key: tuple[AssignedPartition, Owner],
        start: tuple[int, int | None],
        end: tuple[int | None, int | None],
    ) -> Span:
        partition, owner = key
        place = (self.offsets_partition, group_id, self.name(partition), partition.topic_id, partition.partition)
        return Span(*place, owner, start[1], end[1], start[0], end[0])

    def marker_of(self, row: ReplayRow) -> ReplayRow | None:
        """The producer's next marker."""
        markers = self._markers.get(row.producer_id, [])
        at = bisect_right([marker.log_offset for marker in markers], row.log_offset)
        return markers[at] if at < len(markers) else None

    @cached_property
    def _markers(self) -> dict[int, list[ReplayRow]]:
        markers = defaultdict(list)
        for row in self.rows:
            if row.kind == "marker" and row.outcome is not None:
                markers[row.producer_id].append(row)
        return markers

    def transactions(self) -> Iterator[tuple[Any, ...]]:
        """Rows of the view without offsets_partition."""
        begun: dict[int, list[ReplayRow]] = defaultdict(list)
        for row in self.rows:
            if row.kind != "marker":
                if row.is_transactional:
                    begun[row.producer_id].append(row)
            elif row.outcome is not None and row.producer_id in begun:
                yield _transaction(begun.pop(row.producer_id), row)
        for rows in begun.values():
            yield _transaction(rows, None)


def _transaction(rows: list[ReplayRow], marker: ReplayRow | None) -> tuple[Any, ...]:
    first, values = rows[0], [row for row in rows if row.kind == "offset_commit" and row.commit is not None]
    epochs = [row.producer_epoch for row in rows if row.kind == "offset_commit"]
    ended = None if marker is None else marker.log_timestamp
    known = ended is not None and first.log_timestamp is not None and ended >= first.log_timestamp
    return (
        first.producer_id,
        marker.producer_epoch if marker is not None else epochs[0] if epochs else None,
        first.log_offset,
        first.log_timestamp,
        ended,
        ended - first.log_timestamp if known else None,
        None if marker is None else marker.outcome,
        None if marker is None else marker.log_offset,
        tuple(sorted({row.group_id for row in values})),
        len(values),
    )


@dataclass
class ReplayedLog:
    """A whole log: all its offsets partitions."""

    files: Files
    version: str
    topics: Topics = field(default_factory=Topics)

    @cached_property
    def rows(self) -> dict[int, list[ReplayRow]]:
        segments = segments_of(self.files)
        return {p: list(replay_rows(io.BytesIO(self.files[path]) for path in paths)) for p, paths in segments.items()}

    @cached_property
    def moments(self) -> list[int]:
        """Some of the times at which the log's end as of then is another, in ms: one before all, and that of a record
        each."""
        times = {row.log_timestamp for rows in self.rows.values() for row in rows} - {None}
        return sorted(times | {min(times) - 1})[:: -(-(len(times) + 1) // MOMENTS)]

    @cached_property
    def partitions(self) -> dict[int, ReplayedPartition]:
        return {p: ReplayedPartition(p, rows, self.version, self.topics, self.moments) for p, rows in self.rows.items()}

    def state(self, moment: int, name: str) -> set[tuple[Any, ...]]:
        return set().union(*(each.states[moment, name] for each in self.partitions.values()))


def plain(value: Any) -> Any:
    """The value as something that can be compared: times in ms, lists as tuples, structs and maps as pairs."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return tuple((key, plain(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    return value


NIGHTS, RANGES = 2, 3
# At most so many moments of a log are checked.
MOMENTS = 20
# The length of random logs, in which transactions go on and on.
BATCHES = 60
# It reads what dense logs hold of records of type 0; like all since 3.8 it lets in what the views say.
READS_ALL = "4.0"
RECORDED = {
    "classic-4.3": "4.3",
    "expiry-4.3-after": "4.3",
    "kip848-4.3": "4.3",
    "legacy-2.8-upgraded": "2.8",
    "mixed-upgrade": "4.3",
    "share-4.3": "4.3",
    "streams-4.3": "4.3",
    "transactions-4.3": "4.3",
}
GENERATED = ("wellformed-1001", "wellformed-2001", "compacted-3001", "adversarial-loadable-5001")
DENSE = tuple(f"dense-{seed}" for seed in range(6))
SOME_LOGS = [*some_of(1, *RECORDED, *GENERATED), *some_of(1, *DENSE)]
# 2040, and the first year that no TIMESTAMP is printed of.
AHEAD = (2_208_988_800_000, 253_402_300_800_000)


@dataclass(frozen=True, eq=False)
class HistoryLog:
    """A log, its audits, and its replay. `version`: the release whose rules apply."""

    files: Files
    version: str
    seed: int = 0

    @cached_property
    def audited(self) -> Audited:
        """In nights of ranges, so that markers are read apart from what they end."""
        cuts = random_cuts(self.files, np.random.default_rng(self.seed), NIGHTS, RANGES)
        return audit_nights(self.files, cuts, How(self.version))

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        return self.audited.tables()

    @cached_property
    def replayed(self) -> ReplayedLog:
        return ReplayedLog(self.files, self.version, known_topics(self.audited.topic_names()))

    @cached_property
    def views(self) -> duckdb.DuckDBPyConnection:
        return with_known_history(self.tables)


@cache
def history_log(name: str) -> HistoryLog:
    if name in RECORDED:
        return HistoryLog(read_zip(CORPORA)[name], RECORDED[name], len(name))
    if name.startswith("dense"):
        seed = int(name.split("-")[1])
        return HistoryLog(with_times(dense_log(seed, BATCHES), seed), READS_ALL, seed)
    if name.startswith("ahead"):
        return HistoryLog(ahead_log(1, AHEAD[0]), READS_ALL, 1)
    return HistoryLog(of_one_leader(read_zip(LOGS)[name]), "4.3", 7)


def ahead_log(seed: int, time: int) -> Files:
    """A dense log, some batches of which are stamped with that time."""
    return with_times(dense_log(seed, BATCHES), seed, time)


def with_times(files: Files, seed: int, odd: int = -1) -> Files:
    """The log with times of its own: some batches have the same, in some the clock steps back, and some have none (or
    another `odd` time)."""
    rng, stamped = random.Random(seed), {}
    for path, data in files.items():
        position, now, batches = 0, 1_000_000, b""
        while position < len(data):
            (length,) = struct.unpack_from(">i", data, position + 8)
            batch = bytearray(data[position : position + 12 + length])
            position += len(batch)
            now += rng.choice([0, 1, 5, 5, -3])
            struct.pack_into(">q", batch, 27, now if rng.random() < 0.9 else odd)
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
            batches += bytes(batch)
        stamped[path] = batches
    return stamped
