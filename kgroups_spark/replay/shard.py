"""The replay of a log through its coordinator shards: history in, rows of the tables and new state out.

The log is an offsets partition, or several small ones that are laid end to end (offsets.columns.JoinedLog). It has the
form of Spark's mapGroupsWithState: values in log order, a state that goes in and a state that is returned. It is pure:
no Spark, no files, no clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.coordinator import rows as shard_rows
from kgroups_spark.coordinator.events import GroupEvent, GroupEvents, MemberEvents
from kgroups_spark.coordinator.events import Rules as EventRules
from kgroups_spark.coordinator.group_snapshots import GroupSnapshots
from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.releases import Release, Topics, expiry_rules, release
from kgroups_spark.coordinator.versions import MemberVersions, Version
from kgroups_spark.messages.coordinator_records import absolute_hashes
from kgroups_spark.offsets.columns import JoinedLog, SlotRange
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS, CleanUp
from kgroups_spark.offsets.replay import (
    ALL_SLOTS,
    OffsetHistory,
    ReplayedOffsets,
    climb_events,
    fold_range,
    replay_offsets,
)
from kgroups_spark.replay import rows as offset_rows
from kgroups_spark.replay.groups import GroupReplay, HeldByColumns, PlacedRecord, ShardHistory, offset_steps
from kgroups_spark.replay.rows import event_batches, member_batches, member_version_batches, move_event_rows
from kgroups_spark.replay.state import LogState, ShardGroups
from kgroups_spark.tables.definitions import LOAD_WOULD_FAIL, MISREAD_COLUMNS
from kgroups_spark.tables.rows import by_name, no_rows, numbers, table_of_rows, with_columns
from kgroups_spark.tables.schemas import GROUP, arrow_schema

# Versions and events are returned in lots, one for the changes of this many records.
RECORDS_AT_ONCE = 8192
ROWS_AT_ONCE = 16384

# By offsets partition: the log offset at which each audit ended and its retention in ms, ascending.
AuditSpans = Mapping[int, Sequence[tuple[int, int]]]
Output = tuple[str, pa.Table]
# A group record at which a coordinator's load fails, and the reason.
Failure = tuple[PlacedRecord, str]


@dataclass(frozen=True)
class Night:
    """The settings of a replay, besides state and history.

    offsets_partitions     the partition count, which shows which groups are misplaced; None: not known
    topics                 names of topic ids, from the logs of all partitions
    audits, retention_ms   decide the causes of removals (EventRules). In a rebuild: the end and the retention of every
                           audit by offsets partition. In an audit: its own retention (None: the release's default)
    tried                  rules of no release, which a comparison tries; None: those of the release
    clean_up               decides which offsets and groups expire; None: no decisions
    """

    audit_id: int
    release_version: str
    offsets_partitions: int | None
    topics: Topics
    retention_ms: int | None = None
    audits: AuditSpans = field(default_factory=dict)
    tried: Release | None = None
    clean_up: CleanUp | None = None

    @property
    def release(self) -> Release:
        return release(self.release_version) if self.tried is None else self.tried

    def event_rules(self, offsets_partition: int) -> EventRules:
        """The rules that decide the causes of removals in an offsets partition."""
        expiry = expiry_rules(self.release_version)
        if self.audits:
            spans = self.audits.get(offsets_partition, ())
            starts = [0, *(end for end, _ in spans)]
            retention = tuple((start, ms) for start, (_, ms) in zip(starts, spans, strict=False))
            return EventRules(expiry, retention, tuple(end for end, _ in spans))
        retention_ms = expiry.default_retention_ms if self.retention_ms is None else self.retention_ms
        return EventRules(expiry, ((0, retention_ms),))


@dataclass(eq=False)
class ShardReplay:
    """The replay of a log, which `history` names, from its state on.

    replay = ShardReplay(night, saved, history)
    for table, rows in replay.outputs(): ...
    replay.state    the state from which the next replay goes on

    Three attributes are set once all changes have been taken: state, failures (group records at which a load fails) and
    unreadable (commits of versions that the release does not read, OFFSET_RECORDS). Log offsets are the log's own.
    `deciding` has the tables of DECIDED_BY once all current tables have been taken.
    """

    night: Night
    saved: LogState
    history: ShardHistory
    ranges: Sequence[SlotRange] = ALL_SLOTS
    failures: list[Failure] = field(default_factory=list, init=False)
    unreadable: pa.Table = field(default=None, init=False)
    deciding: dict[str, pa.Table] = field(default_factory=dict, init=False)
    _offsets: ReplayedOffsets = field(init=False, repr=False)  # once all changes have been taken
    _shards: list[Groups] = field(default_factory=list, init=False)

    @property
    def log(self) -> JoinedLog:
        return self.history.log

    @property
    def state(self) -> LogState:
        shards = [ShardGroups(each.groups, each.removed_groups) for each in self._shards]
        return LogState(self._offsets.state, shards, self.log)

    def outputs(self) -> Iterator[Output]:
        """(table, rows): changes, then the current tables, then the decisions on expiry."""
        yield from self.changes()
        yield from self.current()

    def changes(self) -> Iterator[Output]:
        """(table, rows): versions and events in lots, then markers and records at which a load would fail."""
        history = self.history.offsets()
        offsets = replay_offsets(self.saved.offsets, history, self.night.release, self.ranges)
        yield from self._groups(offsets, history)
        if len(markers := self.history.markers):
            ended = offset_rows.ended_columns(offsets.transactions, history.markers)
            yield "transaction_markers", with_columns(markers, **self.log.parted(markers) | by_name(ended))
        self._offsets, self.unreadable = offsets, offsets.unreadable

    def _groups(self, offsets: ReplayedOffsets, history: OffsetHistory) -> Iterator[Output]:
        audit_id, held = self.night.audit_id, HeldByColumns(offsets.holdings, self.log)
        for number, shard in zip(self.log.partitions.tolist(), self.saved.shards, strict=True):
            groups = Groups(self.night.release, number, held)
            groups.groups, groups.removed_groups = dict(shard.groups), dict(shard.removed)
            groups.events = GroupEvents(groups, self.night.event_rules(number))
            self._shards.append(groups)
        replay, snapshots = GroupReplay(self.log, self._shards, held), GroupSnapshots()
        follow = self.night.release.simple_groups_follow_offsets
        records = self.history.records(snapshots)
        steps = replay.run(records, offset_steps(offsets, history.markers, follow_offsets=follow))
        for number, _ in enumerate(steps, 1):
            if number % RECORDS_AT_ONCE == 0 or snapshots.is_full:
                yield from self._changes()
                snapshots.shrink()
        yield from self._changes()
        snapshots.shrink()
        climbs = list[pa.Table]()  # moves forward while a group had no members
        for slots in self.ranges if replay.times.has_quiet else ():
            # If there are several ranges, each is folded again.
            folded = offsets.folded or fold_range(self.saved.offsets, history, self.night.release, slots)
            climbs.append(climb_events(folded, replay.times.quiet(folded.commits.slots.keys()), history.markers))
        moves = pa.concat_tables([offsets.moves, *climbs])
        of_groups = []
        for start, groups in zip(self.log.starts.tolist(), self._shards, strict=True):
            assert groups.events is not None
            of_groups += [each._replace(log_offset=start + each.log_offset) for each in groups.events.moves]
            # They refer to each other, and tasks run without Python's cycle collector, so they would never be freed.
            groups.events = None
        if len(moves) or of_groups:
            yield "group_events", move_event_rows(moves, of_groups, replay.times, self.log, audit_id=audit_id)
        self.failures = replay.failures
        if len(offsets.unreadable):
            yield "quarantine", offset_rows.failure_rows(offsets, audit_id=audit_id)
        if self.failures:
            names = MISREAD_COLUMNS[2:6]
            rows = [
                (*self.log.place_at(at), time, *(getattr(record, name) for name in names), producer_id, detail)
                for (at, time, _, producer_id, record), detail in self.failures
            ]
            columns = ("offsets_partition", *MISREAD_COLUMNS)
            yield "quarantine", table_of_rows("quarantine", columns, rows, audit_id=audit_id, **LOAD_WOULD_FAIL)

    def _changes(self) -> Iterator[Output]:
        audit_id = self.night.audit_id
        changes, events = list[Version](), list[tuple[int, GroupEvent | MemberEvents]]()
        for groups in self._shards:
            assert groups.events is not None
            changes += groups.take_changes()
            events += [(groups.offsets_partition, event) for event in groups.events.take()]
        for name, kind in shard_rows.VERSIONS.items():
            rows = [change for change in changes if isinstance(change, kind)]
            if rows:
                yield name, table_of_rows(name, kind._fields, rows, audit_id=audit_id)
        on_demand = [change for change in changes if isinstance(change, MemberVersions)]
        for batch in member_version_batches(on_demand, self.night.release, audit_id=audit_id):
            yield "group_member_versions", batch
        for batch in event_batches(events, audit_id=audit_id):
            yield "group_events", batch

    def current(self) -> Iterator[Output]:
        """(table, rows) of the current tables, after all changes; then the decisions, if the night has a clean-up."""
        needed = {name: list[pa.Table]() for name in DECIDED_BY}
        for name, rows in self._tables():
            if name in needed:
                needed[name].append(rows.select(DECIDED_BY[name]))
            yield name, rows
        # The groups that have noted producers.
        noted = self._offsets.state.noted
        partitions = pa.array(self.log.partitions[numbers(noted["number"])], pa.int32())
        needed[HELD_GROUPS].append(pa.table([partitions, noted["group_id"]], GROUP))
        self.deciding = {n: pa.concat_tables(tables or [no_rows(arrow_schema(n))]) for n, tables in needed.items()}
        if self.night.clean_up is not None:
            yield from self.night.clean_up.decided(self.deciding)

    def _tables(self) -> Iterator[Output]:
        offsets, night, shards = self._offsets, self.night, self._shards
        audit_id = night.audit_id
        as_of_ms = night.clean_up.as_of if night.clean_up else None
        for groups in shards:
            groups.topics = night.topics
        for name, row_type, rows in (
            ("groups", shard_rows.GroupRow, (each.group_rows() for each in shards)),
            ("group_members", shard_rows.MemberRow, (each.member_rows(on_demand=False) for each in shards)),
        ):
            all_rows = itertools.chain.from_iterable(rows)
            while some := list(itertools.islice(all_rows, ROWS_AT_ONCE)):
                table = table_of_rows(name, row_type._fields, some, audit_id=audit_id)
                if name == "groups" and night.offsets_partitions is not None:
                    belongs_in = absolute_hashes(table["group_id"].to_pylist()) % night.offsets_partitions
                    is_misplaced = pa.array(belongs_in != numbers(table["offsets_partition"]))
                    table = with_columns(table, is_misplaced=is_misplaced)
                yield name, table
        on_demand = ((each.offsets_partition, group) for each in shards for group in each.groups_on_demand())
        for batch in member_batches(on_demand, night.topics, self.night.release, audit_id=audit_id):
            yield "group_members", batch
        known = [(number, group_id) for number, groups in enumerate(shards) for group_id in groups.groups]
        yield "committed_offsets", offset_rows.committed_rows(offsets, known, audit_id=audit_id)
        if offsets.is_pending.any():
            yield "pending_offsets", offset_rows.pending_rows(offsets, audit_id=audit_id)
        if len(offsets.state.transactions):
            yield "open_transactions", offset_rows.open_transaction_rows(offsets, as_of_ms, audit_id=audit_id)


@dataclass(frozen=True)
class ReadBy:
    """The ledger's spans, as plain arrays that can be sent to tasks."""

    _ends: dict[int, NDArray[np.int64]]
    _audit_ids: dict[int, NDArray[np.int64]]

    @classmethod
    def of(cls, read: pa.Table) -> ReadBy:
        """From the spans that finished audits read (ledger_rows.what_was_read)."""
        columns = [read[name].to_numpy() for name in ("offsets_partition", "audit_id", "start_offset", "end_offset")]
        numbers, audit_ids, starts, ends = columns
        in_order = np.lexsort((audit_ids, numbers))
        in_order = in_order[ends[in_order] > starts[in_order]]
        partitions, first = np.unique(numbers[in_order], return_index=True)
        spans = np.split(in_order, first[1:]) if len(partitions) else []
        of_partition = dict(zip(partitions.tolist(), spans, strict=True))
        return cls(
            {number: ends[span] for number, span in of_partition.items()},
            {number: audit_ids[span] for number, span in of_partition.items()},
        )

    def with_audit_ids(self, rows: pa.Table) -> pa.Table:
        """Rows of one table and one offsets partition, with the audits that read them as audit_id."""
        if not rows.num_rows:
            return rows
        number = int(rows.column("offsets_partition")[0].as_py())
        ends, log_offset = self._ends[number], rows.column("log_offset").to_numpy()
        # An offset in a gap counts with the span after it, one after the last end with the last span.
        at = np.minimum(np.searchsorted(ends, log_offset, side="right"), len(ends) - 1)
        return with_columns(rows, audit_id=pa.array(self._audit_ids[number][at]))
