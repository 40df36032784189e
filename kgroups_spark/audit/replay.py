"""Stage 2: one offsets partition after the other through its shard, in log order.

Rows come sorted by offsets partition and log offset, the saved state first. What comes out are rows of the lake's
tables: the current ones, the versions, the markers that only the replay can complete, what a real coordinator would
have failed to load, what the ranges counted, and the state that the next audit goes on from.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, BinaryIO

import pyarrow as pa

from kgroups_spark.audit.climbs import Climbs
from kgroups_spark.audit.cycle_collector import no_cycle_collector
from kgroups_spark.audit.history_rows import MARKER_COLUMNS
from kgroups_spark.audit.member_blocks import MemberBlocks
from kgroups_spark.audit.replay_rows import CORRECTION, FILE, MARKER, RECORD, STATE, TOMBSTONE, TRAFFIC, VALUE
from kgroups_spark.audit.row_replay import (
    CONTROL_TYPE,
    COORDINATOR_EPOCH,
    DEFERRED,
    EPOCH,
    GROUP,
    KIND,
    LOG_OFFSET,
    OUTCOME,
    PARTITION,
    PRODUCER,
    RAW_VALUE,
    TEXT,
    TIMESTAMP,
    TOPIC,
    TOPIC_PARTITION,
    TYPE,
    VERSION,
    Row,
    RowReplay,
    rows_in_log_order,
    rows_of,
    time_ms,
)
from kgroups_spark.audit.traffic import added_up
from kgroups_spark.coordinator import rows as shard_rows
from kgroups_spark.coordinator.expiry_rules import expiry_rules
from kgroups_spark.coordinator.group_events import GroupEvents
from kgroups_spark.coordinator.group_events import Rules as EventRules
from kgroups_spark.coordinator.releases import RULES_VERSION, release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.coordinator.state_difference import WAIT, Correction, corrections
from kgroups_spark.coordinator.state_rows import STATE_FORMAT, StateRow
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.coordinator.transactions import EndedTransaction
from kgroups_spark.coordinator.versions import MemberVersions
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.replay.event_rows import event_batches
from kgroups_spark.replay.member_columns import member_batches, member_version_batches
from kgroups_spark.replay.read_again import ReadAgain
from kgroups_spark.tables.rows import table_batch

CHANGES_AT_ONCE = 8192

Output = tuple[str, pa.RecordBatch | pa.Table]


# Log offset at which an audit ended and its retention in ms, by offsets partition, ascending.
AuditSpans = Mapping[int, Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class ReplayContext:
    """What a replay needs besides its rows. `topics` names topic ids, as far as any partition's log does.

    `history_from`: per offsets partition where this audit's part of the log begins; versions, markers and failures
    before it stand in the history already (a rebuild replays them again).
    `audits`, `retention_ms`: what events are told by (coordinator/group_events.py): in a rebuild the end and the
    retention of every audit by offsets partition, in an audit its own retention (None: the release's default).
    `read_again`: offsets partitions that are replayed twice, because of them all records come: the saved state with
    those from `history_from` on, as ever, and all of them from nothing. Where the two differ the log is right.
    """

    audit_id: int
    release_version: str
    offsets_partitions: int | None
    topics: Topics
    open_file: Callable[[str], BinaryIO]
    history_from: dict[int, int] = field(default_factory=dict)
    read_again: dict[int, ReadAgain] = field(default_factory=dict)
    audits: AuditSpans = field(default_factory=dict)
    retention_ms: int | None = None

    def event_rules(self, offsets_partition: int) -> EventRules:
        """By what the causes of removals are told there."""
        expiry = expiry_rules(self.release_version)
        if self.audits:
            spans = self.audits.get(offsets_partition, ())
            starts = [0, *(end for end, _ in spans)]
            retention = tuple((start, ms) for start, (_, ms) in zip(starts, spans, strict=False))
            return EventRules(expiry, retention, tuple(end for end, _ in spans))
        retention_ms = expiry.default_retention_ms if self.retention_ms is None else self.retention_ms
        return EventRules(expiry, ((0, retention_ms),))


class NoTopics(Topics):
    """Versions say what the record says: names learnt later must not depend on where a night ended."""

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        pass


def replay_partitions(batches: Iterable[pa.RecordBatch], context: ReplayContext) -> Iterator[Output]:
    """(table name, rows) of every offsets partition among the replay rows."""
    rows, decoder = itertools.chain.from_iterable(map(rows_of, batches)), GroupRecordDecoder()
    with no_cycle_collector():
        for offsets_partition, of_one in itertools.groupby(rows, key=itemgetter(PARTITION)):
            yield from _ShardReplay(offsets_partition, context, decoder).run(of_one)


class _ShardReplay:
    def __init__(self, offsets_partition: int, context: ReplayContext, decoder: GroupRecordDecoder) -> None:
        self._partition = offsets_partition
        self._context = context
        self._history_from = context.history_from.get(offsets_partition, -1)
        self._release = release(context.release_version)
        self._shard = Shard(self._release, offsets_partition)
        self._decoder = decoder
        self._replay = RowReplay(self._shard, decoder)
        self._blocks = MemberBlocks(decoder)
        self._failures: list[Row] = []
        self._markers: list[Row] = []
        self._traffic: list[bytes] = []
        self._events: GroupEvents | None = None
        self._again = context.read_again.get(offsets_partition)
        # What the log alone says, from its start.
        self._told = Shard(self._release, offsets_partition)
        self._told.topics = NoTopics()

    def run(self, rows: Iterator[Row]) -> Iterator[Output]:
        """Replays the rows of the partition; the versions leave as they come, everything else at the end."""
        state: list[StateRow] = []
        flat = self._flat(rows, state)
        if self._again is not None:
            flat = self._also_told(flat)
        first = next(flat, None)
        self._shard = Shard.load(self._release, self._partition, state, recording=True)
        self._shard.topics = NoTopics()
        self._events = events = self._shard.tell_events(self._context.event_rules(self._partition))
        self._replay = RowReplay(self._shard, self._decoder)
        replay, pending = self._replay.replay, 0
        for row in itertools.chain([first] if first else [], flat):
            if row[KIND] == CORRECTION:
                self._shard.correct(row[LOG_OFFSET], row[OUTCOME], row[GROUP], row[TEXT])
                continue
            if pending >= CHANGES_AT_ONCE:
                # Not before a correction: it takes the place of versions of the record before it.
                pending = 0
                yield from self._changes()
            try:
                ended = replay(row)
                if ended is not None:
                    self._marker(row, ended)
            except ReplayFailure as failure:
                self._failed(row, failure)
            pending += 1
        if self._again is not None:
            yield from self._corrected(self._again)
        events.close()
        yield from self._changes()
        yield from self._current()

    def _flat(self, rows: Iterator[Row], state: list[StateRow]) -> Iterator[Row]:
        """Records and corrections in log order; the saved state goes into `state` before the first of them."""
        waiting: deque[Row] = deque()
        for row in rows:
            if row[KIND] == STATE:
                state.append(StateRow(row[OUTCOME], row[GROUP], row[TEXT]))
            elif row[KIND] == TRAFFIC:
                self._traffic.append(row[RAW_VALUE])
            elif row[KIND] == CORRECTION:
                waiting.append(row)
            elif row[KIND] == FILE:
                yield from _with_corrections(self._rows_of_file(row[TEXT], row[OUTCOME]), waiting)
            elif waiting:
                yield from _with_corrections(iter((row,)), waiting)
            else:
                yield row
        yield from waiting

    def _also_told(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows that are new; all of them are replayed into a shard that began empty."""
        replay = RowReplay(self._told, self._decoder).replay
        for number, row in enumerate(rows, 1):
            # A record that fails here has failed before, or fails on the saved state, where it is told.
            with suppress(ReplayFailure):
                replay(row)
            if row[LOG_OFFSET] >= self._history_from:
                yield row
            if number % CHANGES_AT_ONCE == 0:
                self._blocks.shrink()

    def _corrected(self, again: ReadAgain) -> Iterator[Output]:
        """Makes the state the one that the log tells; the rows of state_corrections."""
        found = list(corrections(self._shard, self._told, again.waiting))
        for correction in found:
            if correction.correction != WAIT:
                self._shard.correct(again.end_offset, *correction[1:])
        # Where nothing was new their versions stand below this audit's part of the log.
        self._history_from = min(self._history_from, again.end_offset - 1)
        constants = {
            "audit_id": self._context.audit_id,
            "offsets_partition": self._partition,
            "log_offset": again.end_offset,
            "state_format": STATE_FORMAT,
            "release_version": self._context.release_version,
            "rules_version": RULES_VERSION,
        }
        for some in _in_lots(found):
            yield "state_corrections", table_batch("state_corrections", Correction._fields, some, **constants)

    def _rows_of_file(self, path: str, climbs: str | None) -> Iterator[Row]:
        with ExitStack() as stack:
            reader = stack.enter_context(pa.ipc.open_file(stack.enter_context(self._context.open_file(path))))
            batches = map(reader.get_batch, range(reader.num_record_batches))
            rows = rows_in_log_order(self._without_traffic(batches), self._blocks.rows_of)
            if climbs is None:
                yield from rows
                return
            source = stack.enter_context(self._context.open_file(climbs))
            found: Climbs | None = None
            for row in rows:
                # Not before the first row: events are told once the state is loaded.
                if found is None and self._events is not None:
                    found = Climbs(stack.enter_context(pa.ipc.open_stream(source)), self._events)
                if row[KIND] == RECORD and found is not None:
                    found.before_record(row[LOG_OFFSET], row[GROUP])
                yield row
            if found is None and self._events is not None:
                found = Climbs(stack.enter_context(pa.ipc.open_stream(source)), self._events)
            if found is not None:
                found.finish()

    def _without_traffic(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches of a range without its counts for group_traffic, which come in batches of their own."""
        for batch in batches:
            if batch.num_rows and batch.column(KIND)[0].as_py() == TRAFFIC:
                self._traffic += batch.column(RAW_VALUE).to_pylist()
            else:
                yield batch

    def _marker(self, row: Row, ended: EndedTransaction) -> None:
        if row[DEFERRED] and row[LOG_OFFSET] >= self._history_from:
            named = row[OUTCOME] is not None
            self._markers.append(
                (
                    row[LOG_OFFSET],
                    time_ms(row[TIMESTAMP]),
                    None if row[PRODUCER] < 0 else row[PRODUCER],
                    None if row[EPOCH] < 0 else row[EPOCH],
                    row[COORDINATOR_EPOCH],
                    row[CONTROL_TYPE],
                    row[OUTCOME],
                    ended.transaction_start_offset,
                    ended.offset_count if named else None,
                    ended.group_ids if named else None,
                )
            )

    def _failed(self, row: Row, failure: ReplayFailure) -> None:
        if row[LOG_OFFSET] < self._history_from:
            return
        is_commit = row[KIND] in (VALUE, TOMBSTONE)
        record = None if is_commit or row[KIND] == MARKER else self._replay.record(row)
        record_type = row[TYPE] if record is None else record.record_type
        name = None if record_type is None else CONSUMER_OFFSETS[record_type].name
        self._failures.append(
            (
                row[LOG_OFFSET],
                time_ms(row[TIMESTAMP]),
                record_type,
                name,
                row[GROUP] if record is None else record.group_id,
                row[TOPIC],
                row[TOPIC_PARTITION],
                row[VERSION] if record is None else record.value_version,
                None if row[PRODUCER] is None or row[PRODUCER] < 0 else row[PRODUCER],
                "load_would_fail",
                str(failure),
            )
        )

    def _changes(self) -> Iterator[Output]:
        changes = [c for c in self._shard.take_changes() if c.log_offset >= self._history_from]
        for name, kind in (
            ("group_versions", shard_rows.GroupVersion),
            ("group_member_versions", shard_rows.MemberVersion),
        ):
            rows = [c for c in changes if isinstance(c, kind)]
            if rows:
                yield name, table_batch(name, kind._fields, rows, audit_id=self._context.audit_id)
        on_demand = [c for c in changes if isinstance(c, MemberVersions)]
        for batch in member_version_batches(on_demand, self._release, audit_id=self._context.audit_id):
            yield "group_member_versions", batch
        del changes, on_demand
        told = [
            event for event in (self._events.take() if self._events else ()) if event.log_offset >= self._history_from
        ]
        constants = {"audit_id": self._context.audit_id, "offsets_partition": self._partition}
        for batch in event_batches(told, **constants):
            yield "group_events", batch
        self._blocks.shrink()

    def _current(self) -> Iterator[Output]:
        shard, context = self._shard, self._context
        shard.topics = context.topics
        for name, row_type, rows in (
            ("groups", shard_rows.GroupRow, shard.group_rows(context.offsets_partitions)),
            ("group_members", shard_rows.MemberRow, shard.member_rows(on_demand=False)),
            ("committed_offsets", shard_rows.CommittedRow, shard.committed_rows()),
            ("pending_offsets", shard_rows.PendingRow, shard.pending_rows()),
            ("open_transactions", shard_rows.OpenTransactionRow, shard.open_transaction_rows()),
        ):
            for some in _in_lots(rows):
                yield name, table_batch(name, row_type._fields, some, audit_id=context.audit_id)
        constants = {"audit_id": context.audit_id, "offsets_partition": self._partition}
        for batch in member_batches(shard.groups_on_demand(), shard.topics, self._release, **constants):
            yield "group_members", batch
        shard.topics = NoTopics()  # the table `topics` has them
        for some in _in_lots(shard.save()):
            yield "coordinator_state", table_batch("coordinator_state", StateRow._fields, some, **constants)
        if self._traffic:
            yield "group_traffic", added_up(self._traffic)
        if self._markers:
            yield (
                "transaction_markers",
                table_batch("transaction_markers", MARKER_COLUMNS, self._markers, **constants),
            )
        if self._failures:
            unknown = {"record_count": 0, "coordinator_fails": True, "file": None, "file_position": None}
            unknown |= {"is_transactional": None, "raw_key": None, "raw_value": None, "resolved_by": None}
            yield (
                "quarantine",
                table_batch("quarantine", _FAILURE_COLUMNS, self._failures, **constants, **unknown),
            )


_FAILURE_COLUMNS = (
    "log_offset",
    "log_timestamp",
    "record_type",
    "record_name",
    "group_id",
    "topic",
    "partition",
    "value_version",
    "producer_id",
    "reason",
    "detail",
)


def _with_corrections(rows: Iterator[Row], waiting: deque[Row]) -> Iterator[Row]:
    """The rows, and before each the waiting corrections (by log offset) that come before it."""
    while waiting:
        row = next(rows, None)
        if row is None:
            return
        while waiting and waiting[0][LOG_OFFSET] <= row[LOG_OFFSET]:
            yield waiting.popleft()
        yield row
    yield from rows


def _in_lots(rows: Iterable[Any]) -> Iterator[list[Any]]:
    rows = iter(rows)
    while some := list(itertools.islice(rows, 16384)):
        yield some
