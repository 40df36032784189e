"""Records of an offsets partition one by one through a shard of objects: what a rebuild and a baseline still replay.

Rows come sorted by offsets partition and log offset, the saved state first. The results are rows of the lake's
tables: the current ones, the versions, events, markers, what a real coordinator would have failed to load, and the
state that the next audit goes on from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

import pyarrow as pa

from kgroups_spark.audit.cycle_collector import no_cycle_collector
from kgroups_spark.audit.history_rows import MARKER_COLUMNS
from kgroups_spark.audit.replay_rows import CORRECTION, STATE
from kgroups_spark.audit.row_replay import (
    CONTROL_TYPE,
    COORDINATOR_EPOCH,
    EPOCH,
    GROUP,
    KIND,
    LOG_OFFSET,
    OUTCOME,
    PARTITION,
    PRODUCER,
    TEXT,
    TIMESTAMP,
    TOPIC,
    TOPIC_PARTITION,
    TYPE,
    VERSION,
    Row,
    RowReplay,
    rows_of,
    time_ms,
)
from kgroups_spark.coordinator import rows as shard_rows
from kgroups_spark.coordinator.group_events import GroupEvents
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.coordinator.state_rows import StateRow
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.coordinator.transactions import EndedTransaction
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS
from kgroups_spark.replay.event_rows import event_batches
from kgroups_spark.replay.replay_shard import Night, Output, in_lots
from kgroups_spark.tables.rows import table_batch

CHANGES_AT_ONCE = 8192


@dataclass(frozen=True)
class ReplayContext:
    """The settings of a replay, besides its rows.

    `history_from`: per offsets partition where the part of the log begins that is reported; versions, markers and
    failures before it stand in the history already.
    """

    night: Night
    history_from: Mapping[int, int] = field(default_factory=dict)


class NoTopics(Topics):
    """Versions say what the record says: names learnt later must not depend on where a night ended."""

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        pass


def replay_partitions(batches: Iterable[pa.RecordBatch], context: ReplayContext) -> Iterator[Output]:
    """(table name, rows) of every offsets partition among the replay rows."""
    rows = itertools.chain.from_iterable(map(rows_of, batches))
    with no_cycle_collector():
        for offsets_partition, of_one in itertools.groupby(rows, key=itemgetter(PARTITION)):
            yield from _ShardReplay(offsets_partition, context).run(of_one)


class _ShardReplay:
    def __init__(self, offsets_partition: int, context: ReplayContext) -> None:
        self._partition = offsets_partition
        self._night = context.night
        self._history_from = context.history_from.get(offsets_partition, -1)
        self._release = context.night.release
        self._shard = Shard(self._release, offsets_partition)
        self._replay = RowReplay(self._shard)
        self._failures: list[Row] = []
        self._markers: list[Row] = []
        self._events: GroupEvents | None = None

    def run(self, rows: Iterator[Row]) -> Iterator[Output]:
        """Replays the rows of the partition; the versions leave as they come, everything else at the end."""
        state: list[StateRow] = []
        records = _records(rows, state)
        first = next(records, None)
        self._shard = Shard.load(self._release, self._partition, state, recording=True)
        self._shard.topics = NoTopics()
        self._events = events = self._shard.tell_events(self._night.event_rules(self._partition))
        self._replay = RowReplay(self._shard)
        replay, pending = self._replay.replay, 0
        for row in itertools.chain([first] if first else [], records):
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
        events.close()
        yield from self._changes()
        yield from self._current()

    def _marker(self, row: Row, ended: EndedTransaction) -> None:
        if row[LOG_OFFSET] >= self._history_from:
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
        record_type = row[TYPE]
        self._failures.append(
            (
                row[LOG_OFFSET],
                time_ms(row[TIMESTAMP]),
                record_type,
                None if record_type is None else CONSUMER_OFFSETS[record_type].name,
                row[GROUP],
                row[TOPIC],
                row[TOPIC_PARTITION],
                row[VERSION],
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
                yield name, table_batch(name, kind._fields, rows, audit_id=self._night.audit_id)
        told = [
            event for event in (self._events.take() if self._events else ()) if event.log_offset >= self._history_from
        ]
        constants = {"audit_id": self._night.audit_id, "offsets_partition": self._partition}
        for batch in event_batches(told, **constants):
            yield "group_events", batch

    def _current(self) -> Iterator[Output]:
        shard, night = self._shard, self._night
        shard.topics = night.topics
        for name, row_type, rows in (
            ("groups", shard_rows.GroupRow, shard.group_rows(night.offsets_partitions)),
            ("group_members", shard_rows.MemberRow, shard.member_rows()),
            ("committed_offsets", shard_rows.CommittedRow, shard.committed_rows()),
            ("pending_offsets", shard_rows.PendingRow, shard.pending_rows()),
            ("open_transactions", shard_rows.OpenTransactionRow, shard.open_transaction_rows()),
        ):
            for some in in_lots(rows):
                yield name, table_batch(name, row_type._fields, some, audit_id=night.audit_id)
        constants = {"audit_id": night.audit_id, "offsets_partition": self._partition}
        shard.topics = NoTopics()  # the table `topics` has them
        for some in in_lots(shard.save()):
            yield "coordinator_state", table_batch("coordinator_state", StateRow._fields, some, **constants)
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


def _records(rows: Iterator[Row], state: list[StateRow]) -> Iterator[Row]:
    """Records and corrections in log order; the saved state goes into `state` before the first of them."""
    for row in rows:
        if row[KIND] == STATE:
            state.append(StateRow(row[OUTCOME], row[GROUP], row[TEXT]))
        else:
            yield row
