"""Group records, and the offsets that matter to groups, replayed through the coordinator's groups in log order."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.events import RecordPlace, RemovedCommit, RemovedValue
from kgroups_spark.coordinator.group_snapshots import GroupSnapshots
from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.releases import ReplayFailure
from kgroups_spark.coordinator.versions import Group, member_count
from kgroups_spark.messages.coordinator_records import EARLY_ACCESS, JsonRecord, layout_of
from kgroups_spark.offsets.columns import (
    I64,
    NEVER,
    GroupKey,
    JoinedLog,
    Markers,
    SlotRange,
    latest_at,
    milliseconds,
)
from kgroups_spark.offsets.effects import Quiet
from kgroups_spark.offsets.replay import OffsetHistory, ReplayedOffsets, group_ends, markers_of, other_records
from kgroups_spark.tables.rows import flags, numbers, sorted_by


class GroupFacts(NamedTuple):
    """`is_emptied`: the group has members at times, and none now. `is_self_assigned`: no record shows a protocol type,
    so its consumers assign themselves, or are not known."""

    group_type: str | None
    has_members: bool
    is_emptied: bool
    is_self_assigned: bool


NO_GROUP = GroupFacts(None, False, False, False)


def facts_of(group: Group | None) -> GroupFacts:
    """The facts of a group in its present state; None: the group does not exist."""
    if group is None:
        return NO_GROUP
    has_members = member_count(group) > 0
    # Up to 1.0.0 an Empty group forgets its protocol type, but its record has it.
    has_type = not isinstance(group, ClassicGroup) or bool(group.value and group.value["protocolType"])
    is_self_assigned = not has_members and not has_type
    return GroupFacts(group.group_type, has_members, not has_members and not group.is_simple, is_self_assigned)


class GroupTimes:
    """The facts of a log's groups by log offset: after which record they changed. g is a GroupKey.

    GroupTimes(); changed(g, -1, stable); changed(g, 12, empty); changed(g, 15, None)
        at([g, g, h], [11, 14, 20])  ->  stable, empty, NO_GROUP
        quiet([g])                   ->  group [0], since [12], until [15]
    """

    def __init__(self) -> None:
        self._numbers: dict[GroupKey, int] = {}
        self._group: list[int] = []
        self._since: list[int] = []
        self._facts: list[GroupFacts] = []
        self._newest: dict[GroupKey, GroupFacts] = {}

    def changed(self, key: GroupKey, log_offset: int, group: Group | None) -> None:
        """Notes the group after the record at `log_offset`; None: it does not exist. Log offsets must ascend."""
        facts = facts_of(group)
        if self._newest.get(key, NO_GROUP) != facts:
            self._newest[key] = facts
            self._group.append(self._numbers.setdefault(key, len(self._numbers)))
            self._since.append(log_offset)
            self._facts.append(facts)

    @property
    def has_quiet(self) -> bool:
        """Whether any group was ever emptied."""
        return any(facts.is_emptied for facts in self._facts)

    def at(self, keys: Iterable[GroupKey], log_offset: I64) -> list[GroupFacts]:
        """The facts of each group after the record at its log offset; NO_GROUP if there is no group."""
        group = np.array([self._numbers.get(key, len(self._numbers)) for key in keys], np.int64)
        own, since, order = self._rows()
        found = latest_at(own, since, group, log_offset).tolist()
        return [NO_GROUP if row < 0 else self._facts[order[row]] for row in found]

    def quiet(self, groups: Sequence[GroupKey]) -> Quiet:
        """The spans of log offsets in which each group was emptied; groups are numbered by their place in the list."""
        asked = {self._numbers[key]: number for number, key in enumerate(groups) if key in self._numbers}
        own, since, order = self._rows()
        until = np.full(len(own), NEVER)
        if len(own):
            until[:-1] = np.where(own[1:] == own[:-1], since[1:], NEVER)
        emptied = np.array([self._facts[row].is_emptied for row in order.tolist()], np.bool_)
        some = [at for at in np.flatnonzero(emptied).tolist() if int(own[at]) in asked]
        number = np.array([asked[int(own[at])] for at in some], np.int64)
        order = np.lexsort((since[some], number))
        return Quiet(number[order], since[some][order], until[some][order])

    def _rows(self) -> tuple[I64, I64, I64]:
        """Group number and log offset of each change, sorted by both, and its index in the lists."""
        own, since = np.array(self._group, np.int64), np.array(self._since, np.int64)
        order = np.lexsort((since, own))
        return own[order], since[order], order


class HeldByColumns:
    """Whether groups hold offsets at the log offset last given to `at`. `holdings`: sorted by group and log offset."""

    def __init__(self, holdings: pa.Table, log: JoinedLog) -> None:
        self._holdings, self._log, self._place = holdings, log, (-1, -1)

    def at(self, log_offset: int, number: int) -> None:
        """Moves to the state after the record at `log_offset`, in the partition of that number."""
        self._place = log_offset, number

    def held(self, group_id: str) -> tuple[bool, bool]:
        log_offset, number = self._place
        rows = self._rows.get((number, group_id), [])
        row = bisect_right(rows, log_offset, key=itemgetter(0)) - 1
        return rows[row][1:] if row >= 0 else (False, False)

    @cached_property
    def _rows(self) -> dict[GroupKey, list[tuple[int, bool, bool]]]:
        """By group: since when it holds any committed and pending offsets, or none. Few nights ask for it."""
        since = numbers(self._holdings["since"])
        rows = zip(
            *(self._holdings[name].to_pylist() for name in ("since", "has_committed", "has_pending")), strict=True
        )
        names = self._holdings["group_id"].cast(pa.string()).to_pylist()
        found = defaultdict[GroupKey, list[tuple[int, bool, bool]]](list)
        for number, name, row in zip(self._log.number_at(since).tolist(), names, rows, strict=True):
            found[number, name].append(row)
        return found


# Steps of offsets that matter to groups, in log order.
#
# Values create groups, tombstones remove offsets, and in the Scala coordinator a marker may remove a group's last
# offset.


class ValueStep(NamedTuple):
    """A value that may create a simple group."""

    log_offset: int
    log_timestamp: int | None
    group_id: str


class TombstoneStep(NamedTuple):
    """A tombstone. `removed` None: it is not reported. `takes_last`: the group holds no more offsets then."""

    log_offset: int
    log_timestamp: int | None
    group_id: str
    batch_offset: int | None
    removed: RemovedCommit | None
    takes_last: bool


class MarkerStep(NamedTuple):
    """A marker after which groups hold no more offsets."""

    log_offset: int
    log_timestamp: int | None
    group_ids: list[str]


OffsetStep = ValueStep | TombstoneStep | MarkerStep


def offset_steps(replayed: ReplayedOffsets, markers: Markers, *, follow_offsets: bool) -> Iterator[OffsetStep]:
    """The steps in log order. `follow_offsets`: groups without metadata exist exactly as long as they hold offsets
    (Scala coordinator); otherwise only a group's first values count."""
    # The groups that hold no more offsets from a log offset on, by that offset.
    emptied: dict[int, list[str]] = {}
    if follow_offsets:
        has_any = flags(replayed.holdings["has_committed"]) | flags(replayed.holdings["has_pending"])
        gone = replayed.holdings.filter(pa.array(~has_any))
        for log_offset, group_id in zip(gone["since"].to_pylist(), gone["group_id"].to_pylist(), strict=True):
            emptied.setdefault(log_offset, []).append(group_id)
    values = replayed.turns.filter(pc.invert(replayed.turns["is_tombstone"]))
    steps: list[OffsetStep] = [*map(ValueStep, *(values[name].to_pylist() for name in ValueStep._fields))]
    for row in _with_batches(replayed.tombstones).to_pylist():
        removed = None
        if row["is_reported"]:
            value = None
            if row["removed_log_offset"] is not None:
                commit_timestamp = -1 if row["commit_timestamp"] is None else row["commit_timestamp"]
                fields = row | {"commit_timestamp": commit_timestamp}
                value = RemovedValue(*(fields[name] for name in RemovedValue._fields))
            slot = (row["group_id"], row["topic"], row["partition"])
            removed = RemovedCommit(slot, value, row["is_pending"], row["is_topic_left"], row["is_group_left"])
        takes_last = row["group_id"] in emptied.get(row["log_offset"], ())
        place = (row["log_offset"], row["log_timestamp"], row["group_id"], row["batch_offset"])
        steps.append(TombstoneStep(*place, removed, takes_last))
    # Scala coordinator: tombstones in a transaction that removed a group's last offset, one pending in it.
    turns = replayed.turns.filter(replayed.turns["is_tombstone"])
    is_plain = pc.is_in(turns["log_offset"], replayed.tombstones["log_offset"].combine_chunks())
    for row in _with_batches(turns.filter(pc.invert(is_plain))).to_pylist():
        place = (row["log_offset"], row["log_timestamp"], row["group_id"], row["batch_offset"])
        steps.append(TombstoneStep(*place, None, takes_last=True))
    at = np.flatnonzero(np.isin(markers.log_offset, np.array(list(emptied))))
    for log_offset, time in zip(markers.log_offset[at].tolist(), markers.log_timestamp[at].tolist(), strict=True):
        steps.append(MarkerStep(log_offset, None if time == -1 else time, sorted(emptied[log_offset])))
    return iter(sorted(steps, key=lambda step: step.log_offset))


def _with_batches(rows: pa.Table) -> pa.Table:
    """The rows with the base offsets of their batches; null: not known."""
    return rows.append_column("batch_offset", pc.subtract(rows.column("log_offset"), rows.column("offset_delta")))


# The number of group records that become objects together.
ROWS_AT_ONCE = 4096


class PlacedRecord(NamedTuple):
    """A record of types 2 to 23 with its log offset; the time is in epoch ms, None: none."""

    log_offset: int
    log_timestamp: int | None
    batch_offset: int | None
    producer_id: int | None
    record: JsonRecord


class ShardHistory(NamedTuple):
    """Rows of a log, with its log offsets. Group records and markers are sorted by log offset.

    commits  a range of slots -> its rows of `offset_commits`
    """

    log: JoinedLog
    commits: Callable[[SlotRange], pa.Table]
    group_records: pa.Table
    markers: pa.Table
    quarantine: pa.Table

    @classmethod
    def of(cls, log: JoinedLog, commits: Callable[[SlotRange], pa.Table], *others: pa.Table) -> ShardHistory:
        """The history of rows in any order, with the log offsets of their partitions."""
        group_records, markers, quarantine = (sorted_by(log.joined(rows), "log_offset") for rows in others)
        return cls(log, lambda slots: log.joined(commits(slots)), group_records, markers, quarantine)

    def offsets(self) -> OffsetHistory:
        """The part that a replay of offsets needs."""
        return OffsetHistory(
            self.commits,
            markers_of(self.markers, self.log),
            other_records(self.group_records, self.quarantine),
            group_ends(self.group_records, self.log),
        )

    def records(self, snapshots: GroupSnapshots) -> Iterator[PlacedRecord]:
        """The group records in log order, decoded by `snapshots`."""
        for start in range(0, len(self.group_records), ROWS_AT_ONCE):
            table = self.group_records.slice(start, ROWS_AT_ONCE)  # of several row groups: blocks are full
            times = milliseconds(table.column("log_timestamp")).to_pylist()
            decoded = snapshots.records(table)
            offsets, producers = table.column("log_offset"), table.column("producer_id").to_pylist()
            batches = pc.subtract(offsets, table.column("offset_delta")).to_pylist()
            yield from map(PlacedRecord, offsets.to_pylist(), times, batches, producers, decoded)

    def between(self, start: int | None, end: int | None) -> ShardHistory:
        """The rows with start <= log offset < end; None: without that bound."""

        def some(rows: pa.Table) -> pa.Table:
            offsets = rows.column("log_offset")
            rows = rows if start is None else rows.filter(pc.greater_equal(offsets, start))
            return rows if end is None else rows.filter(pc.less(rows.column("log_offset"), end))

        others = map(some, (self.group_records, self.markers, self.quarantine))
        return ShardHistory(self.log, lambda slots: some(self.commits(slots)), *others)

    def after(self, earlier: ShardHistory) -> ShardHistory:
        """The rows of both, of one partition."""
        one, other = ((each.group_records, each.markers, each.quarantine) for each in (earlier, self))
        others = map(pa.concat_tables, zip(one, other, strict=True))
        return ShardHistory.of(
            self.log, lambda slots: pa.concat_tables([earlier.commits(slots), self.commits(slots)]), *others
        )


@dataclass(eq=False)
class GroupReplay:
    """A replay into groups that were loaded from their saved state. `failures`: records at which a coordinator's load
    would have failed, with the reason. `shards`: the groups of each partition of the log; they record events."""

    log: JoinedLog
    shards: Sequence[Groups]
    held: HeldByColumns
    times: GroupTimes = field(default_factory=GroupTimes)
    failures: list[tuple[PlacedRecord, str]] = field(default_factory=list)

    def run(self, records: Iterable[PlacedRecord], steps: Iterable[OffsetStep]) -> Iterator[None]:
        """Replays both in log order; yields after each of them. A record that fails goes to `failures`."""
        for number, groups in enumerate(self.shards):
            for group_id, group in groups.groups.items():
                self.times.changed((number, group_id), int(self.log.starts[number]) - 1, group)
        self._enter(0)
        for step in heapq.merge(records, steps, key=itemgetter(0)):
            if step.log_offset >= self._end:
                self._events.close()
                self._enter(bisect_right(self.log.starts, step.log_offset) - 1)
            self.held.at(step.log_offset, self._number)
            if isinstance(step, PlacedRecord):
                self._record(step)
            elif isinstance(step, ValueStep):
                self._groups.keep_group(step.log_offset - self._start, *step[1:])
                self._changed(step.group_id, step.log_offset)
            elif isinstance(step, TombstoneStep):
                place = RecordPlace(step.log_offset - self._start, step.log_timestamp, step.batch_offset)
                self._events.tombstone(place, step.removed)
                if step.takes_last:
                    self._groups.remove_simple_groups([step.group_id], place)
                    self._changed(step.group_id, step.log_offset)
            else:
                place = RecordPlace(step.log_offset - self._start, step.log_timestamp)
                self._groups.remove_simple_groups(step.group_ids, place, by_marker=True)
                for group_id in step.group_ids:
                    self._changed(group_id, step.log_offset)
            yield
        self._events.close()

    def _enter(self, number: int) -> None:
        """The next steps are of the partition of this number."""
        self._number, self._groups = number, self.shards[number]
        self._start, self._end = (int(at) for at in np.append(self.log.starts, NEVER)[number : number + 2])
        assert self._groups.events is not None
        self._events = self._groups.events

    def _record(self, placed: PlacedRecord) -> None:
        record, log_offset = placed.record, placed.log_offset - self._start
        names = (record.group_id, record.member_id, record.regular_expression)
        value = record.value
        more = (value, record.value_version, placed.batch_offset)
        try:
            self._groups.replay_group_record(log_offset, placed.log_timestamp, record.record_type, *names, *more)
            failure, release = None, self._groups.release
            if value is not None and record.record_type in EARLY_ACCESS and record.record_type in release.record_types:
                # A load fails at a value in an early-access layout that the release does not read (T58).
                layout = layout_of(record.record_type, value)
                if not release.reads_layout(layout):
                    what = f"{record.record_name}Value has the early-access layout of Kafka {layout}"
                    failure = f"{what}, which {release.name} does not read"
        except ReplayFailure as error:
            failure = str(error)
        if failure is not None:
            self.failures.append((placed, failure))
        self._changed(record.group_id, placed.log_offset)

    def _changed(self, group_id: str, log_offset: int) -> None:
        self.times.changed((self._number, group_id), log_offset, self._groups.groups.get(group_id))
