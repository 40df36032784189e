"""The replay of one offsets partition through its coordinator shard: history in, rows of the tables and new state out.

It has the form of Spark's mapGroupsWithState: a key (the offsets partition), its values in log order, a state that goes
in and a state that is returned. It is pure: no Spark, no files, no clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgroups_spark.coordinator import rows as shard_rows
from kgroups_spark.coordinator.events import Rules as EventRules
from kgroups_spark.coordinator.group_snapshots import GroupSnapshots
from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.releases import Release, Topics, expiry_rules, release
from kgroups_spark.coordinator.versions import MemberVersions
from kgroups_spark.offsets.columns import SlotRange
from kgroups_spark.offsets.effects import Mixed
from kgroups_spark.offsets.expiry import HELD_GROUPS, CleanUp, columns_needed
from kgroups_spark.offsets.replay import (
    ALL_SLOTS,
    OffsetHistory,
    ReplayedOffsets,
    climb_events,
    fold_range,
    replay_offsets,
)
from kgroups_spark.replay import rows as offset_rows
from kgroups_spark.replay.groups import GroupReplay, GroupTimes, HeldByColumns, PlacedRecord, ShardHistory, offset_steps
from kgroups_spark.replay.rows import event_batches, member_batches, member_version_batches, move_event_rows
from kgroups_spark.replay.state import ShardState
from kgroups_spark.tables.definitions import LOAD_WOULD_FAIL, MISREAD_COLUMNS
from kgroups_spark.tables.rows import by_name, table_batch, with_columns

# Versions and events are returned in lots, one for the changes of this many records.
RECORDS_AT_ONCE = 8192
ROWS_AT_ONCE = 16384
HELD_GROUPS_COLUMNS = columns_needed(HELD_GROUPS).names

# By offsets partition: the log offset at which each audit ended and its retention in ms, ascending.
AuditSpans = Mapping[int, Sequence[tuple[int, int]]]
Output = tuple[str, pa.RecordBatch | pa.Table]
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


class ShardReplay:
    """The replay of one offsets partition.

    replay = ShardReplay(17, night, state, history)
    for table, rows in replay.outputs(): ...
    replay.state    the state from which the next replay goes on

    Four attributes are set once all changes have been taken: state, failures (group records at which a load fails),
    unreadable (commits of versions that the release does not read, OFFSET_RECORDS) and mixed (groups that the history
    commits both in transactions and outside them).
    """

    def __init__(
        self,
        offsets_partition: int,
        night: Night,
        state: ShardState,
        history: ShardHistory,
        ranges: Sequence[SlotRange] = ALL_SLOTS,
    ) -> None:
        self.offsets_partition = offsets_partition
        self.night = night
        self.failures: list[Failure] = []
        self._release = night.release
        self._saved = state
        self._history = history
        self._ranges = ranges
        self._constants = {"audit_id": night.audit_id, "offsets_partition": offsets_partition}
        self._offsets: ReplayedOffsets | None = None
        self._replayed_groups: Groups | None = None

    @property
    def state(self) -> ShardState:
        offsets, groups = self._replayed
        return ShardState(offsets.state, groups.groups, groups.removed_groups)

    @property
    def unreadable(self) -> pa.Table:
        return self._replayed[0].unreadable

    @property
    def mixed(self) -> Sequence[Mixed]:
        return self._replayed[0].mixed

    @property
    def _replayed(self) -> tuple[ReplayedOffsets, Groups]:
        assert self._offsets is not None and self._replayed_groups is not None, "not all changes have been taken"
        return self._offsets, self._replayed_groups

    def outputs(self) -> Iterator[Output]:
        """(table, rows): changes, then the current tables, then the decisions on expiry."""
        yield from self.changes()
        yield from self.current()

    def changes(self) -> Iterator[Output]:
        """(table, rows): versions and events in lots, then markers and records at which a load would fail."""
        history = self._history.offsets()
        offsets = replay_offsets(self._saved.offsets, history, self._release, self._ranges)
        groups = yield from self._groups(offsets, history)
        if len(self._history.markers):
            ended = offset_rows.ended_columns(offsets.transactions, history.markers)
            yield "transaction_markers", with_columns(self._history.markers, **by_name(ended))
        self._offsets, self._replayed_groups = offsets, groups

    def _groups(self, offsets: ReplayedOffsets, history: OffsetHistory) -> Generator[Output, None, Groups]:
        held = HeldByColumns(offsets.holdings)
        groups = Groups(self._release, self.offsets_partition, held, recording=True)
        groups.groups, groups.removed_groups = dict(self._saved.groups), dict(self._saved.removed_groups)
        events, times = groups.record_events(self.night.event_rules(self.offsets_partition)), GroupTimes(groups.groups)
        replay = GroupReplay(groups, events, held, times)
        follow = self._release.simple_groups_follow_offsets
        snapshots = GroupSnapshots()
        records = self._history.records(snapshots)
        steps = replay.run(records, offset_steps(offsets, history.markers, follow_offsets=follow))
        for number, _ in enumerate(steps, 1):
            if number % RECORDS_AT_ONCE == 0 or snapshots.is_full:
                yield from self._changes(groups)
                snapshots.shrink()
        yield from self._changes(groups)
        snapshots.shrink()
        moves = pa.concat_tables([offsets.moves, *self._climbs(offsets, history, times)])
        if len(moves) or events.moves:
            yield "group_events", move_event_rows(moves, events.moves, times, **self._constants)
        self.failures = replay.failures
        yield from self._failures(offsets)
        # They refer to each other, and tasks run without Python's cycle collector, so the shard would never be freed.
        groups.events = None
        return groups

    def _climbs(self, offsets: ReplayedOffsets, history: OffsetHistory, times: GroupTimes) -> Iterator[pa.Table]:
        """Moves forward while a group had no members. If there are several ranges, each is folded again."""
        if not times.has_quiet:
            return
        for slots in self._ranges:
            folded = offsets.folded or fold_range(self._saved.offsets, history, self._release, slots)
            names = folded.commits.slots.groups.to_pylist()
            yield climb_events(folded, times.quiet(names), history.markers)

    def _changes(self, groups: Groups) -> Iterator[Output]:
        audit_id = self.night.audit_id
        changes = groups.take_changes()
        for name, kind in shard_rows.VERSIONS.items():
            rows = [change for change in changes if isinstance(change, kind)]
            if rows:
                yield name, table_batch(name, kind._fields, rows, audit_id=audit_id)
        on_demand = [change for change in changes if isinstance(change, MemberVersions)]
        for batch in member_version_batches(on_demand, self._release, audit_id=audit_id):
            yield "group_member_versions", batch
        assert groups.events is not None
        for batch in event_batches(groups.events.take(), **self._constants):
            yield "group_events", batch

    def _failures(self, offsets: ReplayedOffsets) -> Iterator[Output]:
        if len(offsets.unreadable):
            yield "quarantine", offset_rows.failure_rows(offsets, **self._constants)
        if self.failures:
            rows = [
                (
                    placed.log_offset,
                    placed.log_timestamp,
                    placed.record.record_type,
                    placed.record.record_name,
                    placed.record.group_id,
                    placed.record.value_version,
                    placed.producer_id,
                    detail,
                )
                for placed, detail in self.failures
            ]
            yield "quarantine", table_batch("quarantine", MISREAD_COLUMNS, rows, **self._constants, **LOAD_WOULD_FAIL)

    def current(self) -> Iterator[Output]:
        """(table, rows) of the current tables, once all changes have been taken; then the decisions on expiry, if the
        night has a clean-up."""
        clean_up = self.night.clean_up
        if clean_up is None:
            return self._tables()
        return clean_up.after(self.deciding())

    def deciding(self) -> Iterator[Output]:
        """(table, rows) of the current tables, once all changes have been taken, with the other table of DECIDED_BY."""
        # The groups that have noted producers.
        groups = self._replayed[0].state.noted.column("group_id").unique()
        yield HELD_GROUPS, pa.table([pa.repeat(self.offsets_partition, len(groups)), groups], HELD_GROUPS_COLUMNS)
        yield from self._tables()

    def _tables(self) -> Iterator[Output]:
        offsets, groups = self._replayed
        night, constants = self.night, self._constants
        as_of_ms = night.clean_up.as_of if night.clean_up else None
        groups.topics = night.topics
        for name, row_type, rows in (
            ("groups", shard_rows.GroupRow, groups.group_rows(night.offsets_partitions)),
            ("group_members", shard_rows.MemberRow, groups.member_rows(on_demand=False)),
        ):
            for some in in_lots(rows):
                yield name, table_batch(name, row_type._fields, some, audit_id=night.audit_id)
        for batch in member_batches(groups.groups_on_demand(), groups.topics, self._release, **constants):
            yield "group_members", batch
        for name, table in (
            ("committed_offsets", offset_rows.committed_rows(offsets, groups.groups, **constants)),
            ("pending_offsets", offset_rows.pending_rows(offsets, **constants)),
            ("open_transactions", offset_rows.open_transaction_rows(offsets, as_of_ms, **constants)),
        ):
            if len(table):
                yield name, table


def in_lots(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The rows in lists of a limited length."""
    rows = iter(rows)
    while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
        yield some


# Which audit read each log offset: the audit_id of rows that are rebuilt from history.


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

    def with_audit_ids(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """Rows of one table and one offsets partition, with the audits that read them as audit_id."""
        if not rows.num_rows:
            return rows
        number = int(rows.column("offsets_partition")[0].as_py())
        return with_columns(rows, audit_id=pa.array(self._at(number, rows.column("log_offset").to_numpy())))

    def _at(self, number: int, log_offset: NDArray[np.int64]) -> NDArray[np.int64]:
        ends = self._ends[number]
        # An offset in a gap counts with the span after it, one after the last end with the last span.
        at = np.minimum(np.searchsorted(ends, log_offset, side="right"), len(ends) - 1)
        return self._audit_ids[number][at]
