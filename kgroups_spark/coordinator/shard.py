"""One coordinator shard: the state of one partition of __consumer_offsets, record by record.

    shard = Shard(release("4.3"), offsets_partition=17)
    shard.replay_offset_commit(...), .replay_group_record(...), .end_transaction(...)   in log order
    shard.group_rows(), .member_rows(), .committed_rows(), ...                          the current tables

It is pure: no Spark, no files, no clock. Times are milliseconds, None where a record has none. Where a real
coordinator's load would fail, ReplayFailure is raised after what Kafka's classes had changed by then, and the next
record may follow.

In Java a value makes a simple group exist where there is none (T18, T29) and only a group tombstone ends it, offsets
or not (T30); Scala joins groups and offsets at the end of its load, so that a group without metadata is there exactly
as long as it has offsets. Either way the state is at any time that of a load up to the last record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kgroups_spark.coordinator import state_rows
from kgroups_spark.coordinator.classic_group import ClassicGroup, check_members, check_subscriptions
from kgroups_spark.coordinator.conversions import Group, persisted_group
from kgroups_spark.coordinator.group_events import GroupEvents, RemovedOffset
from kgroups_spark.coordinator.group_events import Rules as EventRules
from kgroups_spark.coordinator.offset_metadata import OffsetAndMetadata, OffsetCommit, OffsetMetadata, Slot
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.rows import (
    CommittedRow,
    GroupRow,
    GroupVersion,
    MemberRow,
    OpenTransactionRow,
    PendingRow,
    TopicRow,
)
from kgroups_spark.coordinator.share_group import check_hash_as_tags
from kgroups_spark.coordinator.topics import Topics
from kgroups_spark.coordinator.transactions import EndedTransaction, OpenTransactions
from kgroups_spark.coordinator.versions import Before, Place, Version, before, changes, last_at
from kgroups_spark.messages.group_partition import offsets_partition

Value = dict[str, Any]
# Of each record one: so they are made in a third of the time.
_commit = partial(tuple.__new__, OffsetCommit)
_committed_row = partial(tuple.__new__, CommittedRow)
GROUP_METADATA = 2
SHARE_GROUP_METADATA = 11


class Shard:
    """The state of one partition. `recording`: keep version rows for `take_changes`."""

    def __init__(self, release: Release, offsets_partition: int, *, recording: bool = False) -> None:
        self.release = release
        self.offsets_partition = offsets_partition
        self.recording = recording
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetMetadata(release)
        self.transactions = OpenTransactions()
        self.topics = Topics()
        # Offsets that were removed, for the first commit after it, and groups with the log offset of their removal.
        # Kept only where events are told.
        self.removed: dict[Slot, RemovedOffset] = {}
        self.removed_groups: dict[str, int] = {}
        self.events: GroupEvents | None = None
        self._versions: list[Version] = []
        self._corrected_at: set[int] = set()
        # Asked of every value: type and version of offset commits that the release reads.
        self._readable = {(t, v) for t in (0, 1) for v in range(16) if not release.fails_to_read(t, v)}

    def replay_offset_commit(
        self,
        log_offset: int,
        log_timestamp: int | None,
        record_type: int,
        group_id: str,
        topic: str,
        partition: int,
        value: OffsetAndMetadata | None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        is_transactional: bool = False,
        *,
        tells_climb: bool = True,
    ) -> None:
        """A record of type 0 or 1; `value` None is a tombstone. `tells_climb`: see GroupEvents.value."""
        slot = (group_id, topic, partition)
        if value is None:
            if is_transactional:
                self.transactions.record(log_offset, log_timestamp, producer_id, producer_epoch)
            if self.events is not None:
                self.events.record(log_offset, log_timestamp)
            self.offsets.remove(slot, producer_id, is_transactional)
            self._remove_simple_groups([group_id], log_offset, log_timestamp)
            return
        if value.topic_id is not None:
            self.topics.learn(value.topic_id, topic, log_timestamp, "offset_commit")
        if is_transactional:
            self.transactions.value(log_offset, log_timestamp, producer_id, producer_epoch, group_id)
        if (record_type, value.value_version) not in self._readable:
            raise ReplayFailure(f"Found an unknown record version {value.value_version} for {record_type} type")
        if value.topic_id is not None and not self.release.has_topic_ids:
            value = value._replace(topic_id=None)
        events = self.events
        if events is not None:
            events.value(log_offset, log_timestamp, tells_climb=tells_climb)
        if group_id not in self.groups:
            self._create_simple_group(group_id, log_offset, log_timestamp)
        commit = _commit((log_offset, record_type, producer_epoch, value))
        self.offsets.put(slot, commit, producer_id, is_transactional)
        if events is not None and events.moves:
            events.ended()

    def replay_group_record(
        self,
        log_offset: int,
        log_timestamp: int | None,
        record_type: int,
        group_id: str,
        member_id: str | None,
        regular_expression: str | None,
        value: Value | None,
        producer_id: int = -1,
        is_transactional: bool = False,
        value_version: int | None = None,
    ) -> None:
        """A record of types 2 to 23; `value` None is a tombstone. Types unknown to the release do nothing.

        `value_version` says whether a GroupMetadata value is of version 0 (T8); None is taken for that.
        """
        if is_transactional:
            self.transactions.record(log_offset, log_timestamp, producer_id, -1)
        if value is not None:
            self._learn_topics(record_type, value, log_timestamp)
        if self._skips(record_type):
            return
        group = self.groups.get(group_id)
        if self.events is not None:
            self.events.record(log_offset, log_timestamp)
            self.events.touches(group_id, member_id, record_type)
        start = before(group, member_id) if self.recording else None
        state = None if group is None else (group.group_type, group.state)
        state_since = None if group is None else group.state_since
        try:
            if record_type == GROUP_METADATA:
                self._replay_group_metadata(log_offset, group_id, value, value_version)
            else:
                self._apply(log_offset, record_type, group_id, member_id or regular_expression, value)
        finally:
            was_there, group = group is not None, self.groups.get(group_id)
            if value is None and not was_there and self.events is not None:
                self.events.unknown_group(group_id, log_offset, log_timestamp, record_type)
            if group is not None:
                unchanged = state == (group.group_type, group.state)
                group.state_since = state_since if unchanged else log_timestamp
            if start is not None:
                self._record(start, group, member_id, log_offset, log_timestamp)

    def end_transaction(
        self, log_offset: int, log_timestamp: int | None, producer_id: int, outcome: str | None
    ) -> EndedTransaction:
        """A control record: `committed`, `aborted`, or None for a type that is neither. What it ended, for its row."""
        if outcome is None and not self.release.unknown_marker_ends_transaction:
            return EndedTransaction(None, 0, [])
        events = self.events
        if events is not None:
            events.marker(log_offset, log_timestamp)
        groups = self.offsets.end_transaction(producer_id, outcome == "committed")
        self._remove_simple_groups(groups, log_offset, log_timestamp, by_marker=True)
        if events is not None:
            events.ended()
        # Scala's loader drops what is pending at any marker; the log's own transaction ends at COMMIT and ABORT alone.
        return EndedTransaction(None, 0, []) if outcome is None else self.transactions.end(producer_id)

    def transactional_record(self, log_offset: int, log_timestamp: int | None, producer_id: int) -> None:
        """A transactional record that cannot be decoded or is of an unknown type: it still belongs to a transaction."""
        self.transactions.record(log_offset, log_timestamp, producer_id, -1)

    def keep_group(self, log_offset: int, log_timestamp: int | None, group_id: str) -> None:
        """The first value of a stretch that `reduce` has left without content: it makes a simple group exist."""
        if group_id not in self.groups:
            if self.events is not None:
                self.events.value(log_offset, log_timestamp)
            self._create_simple_group(group_id, log_offset, log_timestamp)
            if self.events is not None:
                self.events.ended()

    def correct(self, log_offset: int, entry_type: str, group_id: str | None, payload: str | None) -> None:
        """Replaces an entry of the saved state, before the record at `log_offset`; payload None: it is gone.

        Versions of what is different then stand at the offset before, without a time, in place of those that the
        record there left.
        """
        if self.events is not None:
            self.events.close()
        start = before(self.groups.get(group_id or ""), None) if self.recording and entry_type == "group" else None
        state_rows.replace_entry(self, entry_type, group_id, payload)
        if self.events is not None:
            self.events.count_offsets()
        if start is not None:
            self._record(start, self.groups.get(group_id or ""), None, log_offset - 1, None)
            self._corrected_at.add(log_offset - 1)

    def take_changes(self, offsets_partitions: int | None = None) -> list[Version]:
        """Version rows since the last call, in log order; topic names completed as known when they were made."""
        versions, self._versions = last_at(self._corrected_at, self._versions), []
        self._corrected_at = set()
        return [
            version._replace(is_misplaced=self._is_misplaced(version.group_id, offsets_partitions))
            if isinstance(version, GroupVersion)
            else version
            for version in versions
        ]

    def group_rows(self, offsets_partitions: int | None = None) -> Iterator[GroupRow]:
        """Rows of `groups`, by name. `offsets_partitions`: how many there are, to tell which groups are misplaced."""
        for group_id, group in sorted(self.groups.items()):
            row = group.row(self.offsets_partition)
            yield row._replace(is_misplaced=self._is_misplaced(group_id, offsets_partitions))

    def member_rows(self, *, on_demand: bool = True) -> Iterator[MemberRow]:
        """Rows of `group_members`. `on_demand=False`: without those of `groups_on_demand`."""
        for _, group in sorted(self.groups.items()):
            if not on_demand and isinstance(group, ClassicGroup) and group.members_on_demand is not None:
                continue
            for member_id in sorted(group.members):
                yield group.member_row(self.offsets_partition, member_id, self.topics)

    def groups_on_demand(self) -> Iterator[ClassicGroup]:
        """Groups whose members are made on demand, by name."""
        for _, group in sorted(self.groups.items()):
            if isinstance(group, ClassicGroup) and group.members_on_demand is not None:
                yield group

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
        return self.topics.rows()

    def groups_in_transactions(self) -> set[str]:
        """Groups that this release takes to have an open transaction (3.8 to 4.0.0: also those that leaked)."""
        return self.offsets.groups_in_transactions()

    def save(self) -> Iterator[state_rows.StateRow]:
        """The whole state, to go on from with `load`."""
        return state_rows.save(self)

    def tell_events(self, rules: EventRules) -> GroupEvents:
        """From now on what happens to groups is told."""
        self.events = self.offsets.observer = GroupEvents(self, rules)
        return self.events

    @classmethod
    def load(
        cls,
        release: Release,
        offsets_partition: int,
        rows: Iterable[state_rows.StateRow],
        *,
        recording: bool = False,
    ) -> Shard:
        shard = cls(release, offsets_partition, recording=recording)
        state_rows.load(shard, rows)
        return shard

    def _skips(self, record_type: int) -> bool:
        if record_type in self.release.record_types:
            return False
        if record_type in self.release.unreplayable_types:
            raise ReplayFailure(f"Received an unknown record type {record_type}")
        if not self.release.skips_unknown_types:
            raise ReplayFailure(f"Unknown group metadata message version {record_type}")
        return True

    def _apply(self, log_offset: int, record_type: int, group_id: str, name: str | None, value: Value | None) -> None:
        if record_type == SHARE_GROUP_METADATA and value is not None and not self.release.has_metadata_hash:
            check_hash_as_tags(value.get("metadataHash"))
        before_record = self.groups.get(group_id)
        group = persisted_group(self.groups, self.release, record_type, group_id, is_value=value is not None)
        if group is None:
            return
        if group is not before_record:
            group.log_offset = log_offset
        if group.replay(log_offset, record_type, name, value):
            del self.groups[group_id]
        group.log_offset = log_offset

    def _replay_group_metadata(
        self, log_offset: int, group_id: str, value: Value | None, value_version: int | None
    ) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            if self.release.simple_groups_follow_offsets and self.offsets.has_offsets(group_id):
                self.groups[group_id] = ClassicGroup(self.release, group_id)
            return
        check_members(group_id, value)
        if self.release.parses_subscriptions and not self.release.replaces_group_before_parsing:
            check_subscriptions(value)
        group = ClassicGroup(self.release, group_id, value, value_version or 0)
        group.log_offset = log_offset
        self.groups[group_id] = group
        if self.release.parses_subscriptions and self.release.replaces_group_before_parsing:
            check_subscriptions(value)

    def _learn_topics(self, record_type: int, value: Value, log_timestamp: int | None) -> None:
        if record_type in (4, 9):
            self.topics.learn_all(value["topics"], log_timestamp)
        elif record_type == 15:
            for field in ("initializingTopics", "initializedTopics", "deletingTopics"):
                self.topics.learn_all(value[field], log_timestamp)

    def _create_simple_group(self, group_id: str, log_offset: int, log_timestamp: int | None) -> None:
        if self.events is not None:
            self.events.close()
        group = ClassicGroup(self.release, group_id)
        group.state_since = log_timestamp
        self.groups[group_id] = group
        if self.events is not None:
            self.events.created(group_id)
        if self.recording:
            self._record(before(None, None), group, None, log_offset, log_timestamp)

    def _remove_simple_groups(
        self, group_ids: Iterable[str], log_offset: int, log_timestamp: int | None, *, by_marker: bool = False
    ) -> None:
        """Scala: groups without metadata go with their last offset."""
        if not self.release.simple_groups_follow_offsets:
            return
        for group_id in group_ids:
            group = self.groups.get(group_id)
            if isinstance(group, ClassicGroup) and group.value is None and not self.offsets.has_offsets(group_id):
                if self.events is not None:
                    if by_marker:
                        self.events.close()
                    else:
                        self.events.touches(group_id, None, None)
                del self.groups[group_id]
                if self.events is not None and by_marker:
                    self.events.vanished(group)
                if self.recording:
                    self._record(before(group, None), None, None, log_offset, log_timestamp)

    def _record(
        self, start: Before, group: Group | None, member_id: str | None, log_offset: int, log_timestamp: int | None
    ) -> None:
        place = Place(self.offsets_partition, log_offset, log_timestamp)
        versions = changes(start, group, member_id, place, self.topics)
        if versions and self.events is not None:
            self.events.changed(versions[0].group_id, log_offset, log_timestamp)
        self._versions += versions

    def _is_misplaced(self, group_id: str, offsets_partitions: int | None) -> bool | None:
        if offsets_partitions is None:
            return None
        return offsets_partition(group_id, offsets_partitions) != self.offsets_partition
