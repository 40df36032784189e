"""One coordinator shard: the state of one partition of __consumer_offsets, record by record.

    shard = Shard(release("4.3"), offsets_partition=17)
    shard.replay(row)                                            in log order
    shard.group_rows(), .member_rows(), .committed_rows(), ...   the current tables

It is pure: no Spark, no files, no clock. Times are milliseconds, None if a record has none. Where a real coordinator's
load would fail, ReplayFailure is raised after the changes that Kafka's classes had made by then, and the next record
may follow.

This is the slow, obvious twin of the package's replay, which has offsets as columns: here each offset is an object. The
groups are the package's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kgroups_spark.coordinator.events import RecordPlace, Slot
from kgroups_spark.coordinator.events import Rules as EventRules
from kgroups_spark.coordinator.groups import Groups, Value
from kgroups_spark.coordinator.releases import Release, ReplayFailure, unknown_version
from kgroups_spark.coordinator.state_entries import StateRow
from tests.coordinator.replay_row import ReplayRow
from tests.twin import saved_shards
from tests.twin.offset_metadata import OffsetCommit, OffsetMetadata
from tests.twin.shard_events import RemovedOffset, ShardEvents
from tests.twin.shard_rows import CommittedRow, OpenTransactionRow, PendingRow, TopicRow
from tests.twin.transactions import EndedTransaction, OpenTransactions

# Called for every record: this way takes a third of the time.
_commit = partial(tuple.__new__, OffsetCommit)
_committed_row = partial(tuple.__new__, CommittedRow)


class Shard(Groups):
    """The state of one partition. `recording`: keep version rows for `take_changes`."""

    def __init__(self, release: Release, offsets_partition: int, *, recording: bool = False) -> None:
        self.offsets = OffsetMetadata(release)
        super().__init__(release, offsets_partition, self.offsets, recording=recording)
        self.transactions = OpenTransactions()
        # Offsets that were removed, for the first commit after it. Kept only where events are reported.
        self.removed: dict[Slot, RemovedOffset] = {}
        self.events: ShardEvents | None = None
        # Asked of every value: type and version of offset commits that the release reads.
        self._readable = {(t, v) for t in (0, 1) for v in range(16) if not release.fails_to_read(t, v)}

    def replay(self, row: ReplayRow) -> None:
        """Applies the next record of the log."""
        if row.kind == "marker":
            self.end_transaction(row.log_offset, row.log_timestamp, row.producer_id, row.outcome)
            return
        if row.is_transactional and row.kind != "offset_commit":
            # Also one that cannot be decoded or is of an unknown type belongs to its producer's transaction.
            self.transactions.record(row.log_offset, row.log_timestamp, row.producer_id, -1)
        if row.kind == "offset_commit":
            self._offset_commit(row)
        elif row.kind == "group_record":
            if row.value is not None:
                self._learn_topics(row.record_type or 0, row.value, row.log_timestamp)
            self.replay_group_record(
                row.log_offset,
                row.log_timestamp,
                row.record_type or 0,
                row.group_id or "",
                row.member_id,
                row.regular_expression,
                row.value,
                row.value_version,
                row.batch_offset,
            )

    def _offset_commit(self, row: ReplayRow) -> None:
        log_offset, log_timestamp, value = row.log_offset, row.log_timestamp, row.commit
        record_type = row.record_type or 0
        group_id, topic, partition = row.group_id or "", row.topic or "", row.partition or 0
        producer_id, producer_epoch, is_transactional = row.producer_id, row.producer_epoch, row.is_transactional
        slot = (group_id, topic, partition)
        if value is None:
            if is_transactional:
                self.transactions.record(log_offset, log_timestamp, producer_id, producer_epoch)
            is_of_transaction = is_transactional and self.release.tombstone_removes_pending == "of_its_transaction"
            place = RecordPlace(log_offset, log_timestamp, row.batch_offset)
            if self.events is not None:
                self.events.place = place
                if not is_of_transaction:
                    self.events.tombstone(place, None)
            had_offsets = self.has_offsets(group_id)
            self.offsets.remove(slot, producer_id, is_transactional)
            if self.events is not None and is_of_transaction and had_offsets and not self.has_offsets(group_id):
                self.events.tombstone(place, None)
            self.remove_simple_groups([group_id], place)
            return
        if value.topic_id is not None:
            self.topics.learn(value.topic_id, topic, log_timestamp, "offset_commit")
        if is_transactional:
            self.transactions.value(log_offset, log_timestamp, producer_id, producer_epoch, group_id)
        if (record_type, value.value_version) not in self._readable:
            raise ReplayFailure(unknown_version(record_type, value.value_version))
        if value.topic_id is not None and not self.release.has_topic_ids:
            value = value._replace(topic_id=None)
        events = self.events
        if events is not None:
            events.at(log_offset, log_timestamp)
        if group_id not in self.groups:
            self.keep_group(log_offset, log_timestamp, group_id)
        commit = _commit((log_offset, record_type, producer_epoch, value))
        self.offsets.put(slot, commit, producer_id, is_transactional)
        if events is not None and events.moves:
            events.ended()

    def end_transaction(
        self, log_offset: int, log_timestamp: int | None, producer_id: int, outcome: str | None
    ) -> EndedTransaction:
        """Replays a control record: `committed`, `aborted`, or None for another type. Returns the transaction that it
        ended, for its row."""
        if outcome is None and not self.release.unknown_marker_ends_transaction:
            return EndedTransaction(None, 0, [])
        events = self.events
        if events is not None:
            events.marker(log_offset, log_timestamp)
        groups = self.offsets.end_transaction(producer_id, outcome == "committed")
        self.remove_simple_groups(groups, RecordPlace(log_offset, log_timestamp), by_marker=True)
        if events is not None:
            events.ended()
        # Scala's loader drops pending offsets at any marker; the log's own transaction ends only at COMMIT and ABORT.
        return EndedTransaction(None, 0, []) if outcome is None else self.transactions.end(producer_id)

    def committed_rows(self) -> Iterator[CommittedRow]:
        for (group_id, topic, partition), commit in self.offsets.committed_offsets():
            value = commit.value
            is_orphan = group_id not in self.groups
            place = (commit.record_type, value.value_version, commit.log_offset, is_orphan)
            yield _committed_row((self.offsets_partition, group_id, topic, partition, *value[:6], *place))

    def pending_rows(self) -> Iterator[PendingRow]:
        for producer_id, (group_id, topic, partition), commit in self.offsets.pending_offsets():
            transaction = self.transactions.by_producer.get(producer_id)
            yield PendingRow(
                self.offsets_partition,
                producer_id,
                None if commit.producer_epoch == -1 else commit.producer_epoch,
                group_id,
                topic,
                partition,
                *commit.value[:6],
                commit.log_offset,
                None if transaction is None else transaction.transaction_start_offset,
                None if transaction is None else transaction.open_since,
                None,
            )

    def open_transaction_rows(self) -> Iterator[OpenTransactionRow]:
        return self.transactions.rows(self.offsets_partition)

    def topic_rows(self) -> Iterator[TopicRow]:
        for topic_id, (topic, seen, source) in sorted(self.topics.names.items()):
            yield TopicRow(topic_id, topic, seen, source)

    def groups_in_transactions(self) -> set[str]:
        """Groups that this release believes to have an open transaction (3.8 to 4.0.0: including leaked ones)."""
        return self.offsets.groups_in_transactions()

    def record_events(self, rules: EventRules) -> ShardEvents:
        """Starts recording events of groups and offsets, and returns their recorder."""
        self.events = self.offsets.observer = ShardEvents(self, rules)
        return self.events

    def save(self) -> Iterator[StateRow]:
        """The whole state."""
        return saved_shards.save(self)

    def _learn_topics(self, record_type: int, value: Value, log_timestamp: int | None) -> None:
        fields = {4: ["topics"], 9: ["topics"], 15: ["initializingTopics", "initializedTopics", "deletingTopics"]}
        for field in fields.get(record_type, ()):
            for topic in value[field]:
                self.topics.learn(topic["topicId"], topic["topicName"], log_timestamp, "group_record")
