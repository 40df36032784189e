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

from collections import Counter, namedtuple
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import orjson

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.events import (
    UNKNOWN,
    GroupEvent,
    GroupEvents,
    RecordPlace,
    RemovedCommit,
    RemovedValue,
    Rules,
    Slot,
    remember,
)
from kgroups_spark.coordinator.events import Rules as EventRules
from kgroups_spark.coordinator.groups import Groups, Value
from kgroups_spark.coordinator.releases import Release, ReplayFailure, Topics, unknown_version
from kgroups_spark.coordinator.state_entries import StateRow, group_row, noted_row, producer_row, removed_rows
from kgroups_spark.coordinator.versions import Group, member_count
from kgroups_spark.replay.state import LogState, loaded, plain_entries
from kgroups_spark.tables.schemas import TABLES

TopicPartition = tuple[str, int]


class OffsetAndMetadata(NamedTuple):
    """The value of an offset commit (record types 0 and 1). Times are milliseconds; None: the value has none."""

    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    expire_timestamp: int | None
    topic_id: str | None
    value_version: int


class OffsetCommit(NamedTuple):
    """An offset and its record; `producer_epoch` is -1 if the record has none."""

    log_offset: int
    record_type: int
    producer_epoch: int
    value: OffsetAndMetadata


class OffsetObserver(Protocol):
    """Is notified of changes of committed offsets. `removed_by`: at a tombstone. `commit` None: there was no committed
    offset. `is_pending`: an open transaction held an offset of the slot."""

    def committed(self, slot: Slot, before: OffsetCommit | None, commit: OffsetCommit) -> None: ...
    def removed_by(self, slot: Slot, commit: OffsetCommit | None, *, is_pending: bool) -> None: ...


class OffsetMetadata:
    """The offsets of all groups of a shard, whether the groups exist or not.

    A plain value is committed at once. A transactional value is pending under its producer id until that producer's
    next marker: COMMIT commits it, if no record with a greater log offset has committed the slot since (T19, T20; not
    checked in 3.7), ABORT drops it. A record is transactional by its producer id in Java (T28), by its batch's bit in
    Scala. A tombstone removes the committed offset, and in Java since 3.8 also all pending offsets of the slot, at once
    (T21, T22). In Scala a transactional tombstone removes only the pending offset of its own transaction.

    A coordinator keeps a separate list of groups with an open transaction (`groups_in_transactions`). In 3.8 to 4.0.0 a
    producer id noted for a group stays noted if a tombstone removes its last offset before the marker (KAFKA-19164),
    and the group is then never deleted.
    """

    def __init__(self, release: Release) -> None:
        self.release = release
        self.by_producer_id = release.transactional_by == "producer_id"
        self.committed: dict[str, dict[TopicPartition, OffsetCommit]] = {}
        self.pending: dict[int, dict[Slot, OffsetCommit]] = {}
        self.pending_producers: dict[Slot, set[int]] = {}
        # Offsets pending per group, and the 3.8 to 4.0.0 bookkeeping of producer ids per group.
        self.pending_count: dict[str, int] = {}
        self.noted_producers: dict[str, set[int]] = {}
        self.observer: OffsetObserver | None = None

    def put(self, slot: Slot, commit: OffsetCommit, producer_id: int, is_transactional: bool) -> None:
        """Applies a value."""
        if producer_id == -1 if self.by_producer_id else not is_transactional:
            self._commit(slot, commit)
            return
        pending = self.pending.setdefault(producer_id, {})
        if slot not in pending:
            self.pending_producers.setdefault(slot, set()).add(producer_id)
            self.pending_count[slot[0]] = self.pending_count.get(slot[0], 0) + 1
        pending[slot] = commit
        if self.release.open_transactions_by == "group":
            self.noted_producers.setdefault(slot[0], set()).add(producer_id)

    def remove(self, slot: Slot, producer_id: int, is_transactional: bool) -> None:
        """Applies a tombstone."""
        removes = self.release.tombstone_removes_pending
        if removes == "of_its_transaction" and is_transactional:
            self._drop(producer_id, slot)
            return
        offsets = self.committed.get(slot[0])
        gone = None if offsets is None else offsets.pop(slot[1:], None)
        if gone is not None and not offsets:
            del self.committed[slot[0]]
        if self.observer is not None:
            self.observer.removed_by(slot, gone, is_pending=bool(self.pending_producers.get(slot)))
        if removes == "of_all_producers":
            for producer in list(self.pending_producers.get(slot, ())):
                self._drop(producer, slot)

    def end_transaction(self, producer_id: int, is_commit: bool) -> list[str]:
        """Commits or drops the producer's pending offsets; returns their groups."""
        pending = self.pending.get(producer_id)
        if pending is None:
            return []
        groups = sorted({slot[0] for slot in pending})
        for slot, commit in list(pending.items()):
            self._drop(producer_id, slot)
            if is_commit:
                self._commit_if_newer(slot, commit)
        del self.pending[producer_id]
        for group_id in groups:
            self._forget_producer(group_id, producer_id)
        return groups

    def has_committed(self, group_id: str) -> bool:
        """Whether the group has committed offsets."""
        return group_id in self.committed

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction holds offsets of the group."""
        return group_id in self.pending_count

    def groups_in_transactions(self) -> set[str]:
        """Groups that the coordinator believes to have an open transaction, and therefore does not delete."""
        if self.release.open_transactions_by == "group":
            return set(self.noted_producers)
        return set(self.pending_count)

    def committed_offsets(self) -> Iterator[tuple[Slot, OffsetCommit]]:
        for group_id, offsets in sorted(self.committed.items()):
            for (topic, partition), commit in sorted(offsets.items(), key=lambda item: item[0]):
                yield (group_id, topic, partition), commit

    def pending_offsets(self) -> Iterator[tuple[int, Slot, OffsetCommit]]:
        for producer_id, pending in sorted(self.pending.items()):
            for slot, commit in sorted(pending.items(), key=lambda item: item[0]):
                yield producer_id, slot, commit

    def _commit(self, slot: Slot, commit: OffsetCommit) -> None:
        offsets = self.committed.get(slot[0])
        if offsets is None:
            offsets = self.committed[slot[0]] = {}
        # Committed offsets keep no producer epoch.
        if commit.producer_epoch != -1:
            commit = OffsetCommit(commit.log_offset, commit.record_type, -1, commit.value)
        if self.observer is not None:
            self.observer.committed(slot, offsets.get(slot[1:]), commit)
        offsets[slot[1:]] = commit

    def _commit_if_newer(self, slot: Slot, commit: OffsetCommit) -> None:
        existing = self.committed.get(slot[0], {}).get(slot[1:])
        if existing is None or not self.release.commit_needs_newer_record or existing.log_offset < commit.log_offset:
            self._commit(slot, commit)

    def _drop(self, producer_id: int, slot: Slot) -> None:
        """Removes a pending offset. The producer's entry stays for its marker, as in Kafka."""
        if self.pending.get(producer_id, {}).pop(slot, None) is None:
            return
        producers = self.pending_producers[slot]
        producers.discard(producer_id)
        if not producers:
            del self.pending_producers[slot]
        self.pending_count[slot[0]] -= 1
        if not self.pending_count[slot[0]]:
            del self.pending_count[slot[0]]

    def _forget_producer(self, group_id: str, producer_id: int) -> None:
        producers = self.noted_producers.get(group_id)
        if producers is not None:
            producers.discard(producer_id)
            if not producers:
                del self.noted_producers[group_id]


# One record as the replay takes it.
Kind = Literal["offset_commit", "group_record", "marker", "undecodable"]


class ReplayRow(NamedTuple):
    """One record of the log, in log order. Fields that its kind has no use for are left at their default.

    kind            what it is                                  what counts
    offset_commit   type 0 or 1, decoded; value None: tombstone group, topic, partition, value
    group_record    types 2 to 23, decoded; None: tombstone     group, member or regular expression, value
    marker          control record                              outcome (committed, aborted; None: neither)
    undecodable     anything that cannot be used                group where its key can be read
    """

    log_offset: int
    log_timestamp: int | None
    kind: Kind
    record_type: int | None = None
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    member_id: str | None = None
    regular_expression: str | None = None
    commit: OffsetAndMetadata | None = None
    value: dict[str, Any] | None = None
    value_version: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    outcome: Literal["committed", "aborted"] | None = None
    batch_offset: int | None = None

    @property
    def slot(self) -> tuple[str | None, str | None, int | None]:
        """Group, topic and partition of an offset commit: types 0 and 1 share it (T1)."""
        return (self.group_id, self.topic, self.partition)


# The state of a shard of objects in the package's form, by way of state format 1.
TOPICS_PER_ROW = 1000


def save(shard: Shard) -> Iterator[StateRow]:
    """Its entries; the offsets of a group and of a producer are in their payloads."""
    for group_id in sorted(shard.groups.keys() | shard.offsets.committed.keys()):
        yield group_entry(group_id, shard.groups.get(group_id), shard.offsets.committed.get(group_id, {}))
    waiting = {producer_id for producer_id, pending in shard.offsets.pending.items() if pending}
    for producer_id in sorted(waiting | shard.transactions.by_producer.keys()):
        yield producer_entry(shard, producer_id)
    for group_id, producers in sorted(shard.offsets.noted_producers.items()):
        yield noted_row(group_id, producers)
    yield from removed_rows(((*slot, *offset) for slot, offset in shard.removed.items()), shard.removed_groups)
    ids = shard.topics.ids
    topics = [
        [topic_id, topic, seen, source, ids[topic] == topic_id]
        for topic_id, (topic, seen, source) in shard.topics.names.items()
    ]
    for start in range(0, len(topics), TOPICS_PER_ROW):
        payload = orjson.dumps({"topics": topics[start : start + TOPICS_PER_ROW]}).decode()
        yield StateRow("topics", None, payload)


def group_entry(group_id: str, group: Group | None, offsets: Mapping[TopicPartition, OffsetCommit]) -> StateRow:
    """The row of a group (None: orphaned offsets only) with its committed offsets."""
    return group_row(group_id, group, [(*slot, *commit[:3], *commit[3]) for slot, commit in offsets.items()])


def producer_entry(shard: Shard, producer_id: int) -> StateRow:
    """The row of a producer with pending offsets or an open transaction."""
    open_ = shard.transactions.by_producer.get(producer_id)
    transaction = None
    if open_ is not None:
        place = (open_.transaction_start_offset, open_.open_since, open_.producer_epoch)
        transaction = (*place, open_.offset_count, sorted(open_.group_ids))
    pending = shard.offsets.pending.get(producer_id) or {}
    commits = [(*slot, *commit[:3], *commit[3]) for slot, commit in pending.items()]
    return producer_row(producer_id, transaction, commits)


def state_of(shard: Shard) -> LogState:
    """The state of the shard in the package's form."""
    return loaded(plain_entries([(0, row) for row in save(shard)]), shard.release)


# Events of the groups and the offsets of a shard of objects: group_events.py, and moves of offsets.
#
# Each value that takes effect is compared with the committed offset that it replaces, and with the group's members at
# that place of the log. The shard remembers removed offsets, so that each removal is reported once.


class RemovedOffset(NamedTuple):
    """The value of a slot before a tombstone, for the first commit after it. `committed_offset` None: unknown."""

    committed_offset: int | None
    topic_id: str | None
    log_offset: int


class ShardEvents(GroupEvents):
    """Reports the events of one shard, and observes its offsets."""

    def __init__(self, shard: Shard, rules: Rules) -> None:
        super().__init__(shard, rules)
        # The value, tombstone or marker that is being replayed.
        self.place = RecordPlace(-1, None)
        self._shard = shard
        self._is_marker = False
        # The number of committed offsets by topic.
        self._offsets_of: Counter[str] = Counter()
        self.count_offsets()

    def count_offsets(self) -> None:
        """Counts the shard's offsets again, after a load or a correction."""
        self._offsets_of = Counter(topic for offsets in self._shard.offsets.committed.values() for topic, _ in offsets)

    def at(self, log_offset: int, log_timestamp: int | None) -> None:
        """A value comes next."""
        self.place = RecordPlace(log_offset, log_timestamp)
        self._is_marker = False

    def marker(self, log_offset: int, log_timestamp: int | None) -> None:
        """A control record comes next."""
        self.at(log_offset, log_timestamp)
        self._is_marker = True

    def ended(self) -> None:
        """The value or marker has been replayed."""
        if self.moves:
            moves = self.moves
            if self._is_marker:
                moves.sort(key=_in_order)
            self._reported += [move._replace(event_index=index) for index, move in enumerate(moves)]
            self.moves = []

    def committed(self, slot: Slot, before: OffsetCommit | None, commit: OffsetCommit) -> None:
        """The offset has taken effect and replaced `before`."""
        value = commit.value
        after, topic_id = value.committed_offset, value.topic_id
        if before is None:
            self._offsets_of[slot[1]] += 1
            gone = self._shard.removed.pop(slot, None)
            if gone is None or gone.committed_offset is None:
                return
            offset, known_id = gone.committed_offset, gone.topic_id
        else:
            offset, known_id = before.value.committed_offset, before.value.topic_id
        is_recreated = topic_id != known_id and topic_id is not None and known_id is not None
        if not is_recreated and before is not None:
            # A hot path: most records end here.
            if after == offset or (after > offset and self._is_marker):
                return
            if after > offset and self.type_of_emptied(slot[0]) is None:
                return
        if is_recreated:
            event = self._event(slot[0], "topic_recreated", topic=slot[1], partition=slot[2])
            self.moves.append(event._replace(value_before=known_id, value_after=topic_id))
        if offset < 0:
            return
        if after < 0:
            name = "offset_unset"
        elif before is None:
            name = "offset_restarted"
        elif after < offset:
            name = "offset_rewound"
        elif after > offset and not is_recreated:
            name = "offset_skipped"
        else:
            return
        cause = "topic_recreated" if is_recreated else self._cause_of_move(slot[0])
        cause = None if after < 0 else cause
        event = self._event(slot[0], name, topic=slot[1], partition=slot[2])
        when = event.event_timestamp if self._is_marker else commit.value.commit_timestamp
        self.moves.append(event._replace(offset_before=offset, offset_after=after, cause=cause, event_timestamp=when))

    def removed_by(self, slot: Slot, commit: OffsetCommit | None, *, is_pending: bool) -> None:
        """A tombstone has removed the committed offset; `commit` None: the log does not have it."""
        remembered = self._shard.removed
        log_offset = self.place.log_offset
        if commit is None:
            # The removal is remembered: another tombstone is no event.
            if slot in remembered:
                return
            remember(remembered, slot, RemovedOffset(None, None, log_offset))
            if not is_pending:
                self.tombstone(
                    self.place, RemovedCommit(slot, None, is_pending=False, is_topic_left=False, is_group_left=False)
                )
            return
        value = commit.value
        remember(remembered, slot, RemovedOffset(value.committed_offset, value.topic_id, log_offset))
        self._offsets_of[slot[1]] -= 1
        left = (self._offsets_of[slot[1]] > 0, slot[0] in self._shard.offsets.committed)
        of_value = (value.committed_offset, value.topic_id, value.commit_timestamp, value.expire_timestamp)
        removed = RemovedCommit(slot, RemovedValue(*of_value, value.value_version), is_pending, *left)
        self.tombstone(self.place, removed)

    def type_of_emptied(self, group_id: str) -> str | None:
        """The type of a group that has members at times and has none now; None: it is not one."""
        group = self._groups.groups.get(group_id)
        return None if group is None or group.is_simple or member_count(group) else group.group_type

    def _event(self, group_id: str, name: str, **fields: Any) -> GroupEvent:
        log_offset, log_timestamp, _ = self.place
        group = self._groups.groups.get(group_id)
        group_type = None if group is None else group.group_type
        return GroupEvent(log_offset, 0, log_timestamp, log_timestamp, group_id, group_type, name, **fields)

    def _cause_of_move(self, group_id: str) -> str:
        if self._is_marker:
            return "transaction"
        group = self._groups.groups.get(group_id)
        if group is None:
            return UNKNOWN
        if member_count(group):
            return "with_members"
        value = group.value if isinstance(group, ClassicGroup) else {"protocolType": "consumer"}
        return "no_members" if value and value["protocolType"] else "self_assigned"


def _in_order(event: GroupEvent) -> tuple[str, str, int, str]:
    return event.group_id, event.topic or "", -1 if event.partition is None else event.partition, event.event


# Rows of the tables of offsets, transactions and topics from the shard of objects: the columns of the tables, without
# that of the audit.


def rows_of(table: str, **defaults: Any) -> Any:
    names = [name for name in TABLES[table].columns.names if name != "audit_id"]
    return namedtuple(table, names, defaults=defaults.values())


CommittedRow = rows_of("committed_offsets")
PendingRow = rows_of("pending_offsets")
OpenTransactionRow = rows_of("open_transactions", is_hanging=None)  # without the moment of an audit
TopicRow = rows_of("topics")


class EndedTransaction(NamedTuple):
    """The transaction that a marker ended. `transaction_start_offset` None: no transactional record of the producer
    before it."""

    transaction_start_offset: int | None
    offset_count: int
    group_ids: list[str]


class OpenTransaction:
    """A transaction without its marker. `offset_count` counts the values written in it, not the slots."""

    __slots__ = ("group_ids", "offset_count", "open_since", "producer_epoch", "transaction_start_offset")

    def __init__(self, transaction_start_offset: int, open_since: int | None, producer_epoch: int) -> None:
        self.transaction_start_offset = transaction_start_offset
        self.open_since = open_since
        self.producer_epoch = producer_epoch
        self.offset_count = 0
        self.group_ids: set[str] = set()


class OpenTransactions:
    """The open transactions of an offsets partition, as in the log, whatever the coordinator's state; by producer id.

    A transaction begins with a producer's first transactional record after its last marker and ends with its next
    marker, of any epoch (T25). Producer ids without the transactional bit open none (T28). An open transaction holds
    back the last stable offset and the cleaner, even if tombstones have removed all its offsets.
    """

    def __init__(self) -> None:
        self.by_producer: dict[int, OpenTransaction] = {}

    def record(
        self, log_offset: int, log_timestamp: int | None, producer_id: int, producer_epoch: int
    ) -> OpenTransaction:
        """The transaction of a transactional record; the record begins a new one if none is open.

        Its epoch is that of its first offset commit: history keeps no epoch of other records, which pass -1.
        """
        transaction = self.by_producer.get(producer_id)
        if transaction is None:
            transaction = OpenTransaction(log_offset, log_timestamp, producer_epoch)
            self.by_producer[producer_id] = transaction
        elif transaction.producer_epoch == -1:
            transaction.producer_epoch = producer_epoch
        return transaction

    def value(
        self, log_offset: int, log_timestamp: int | None, producer_id: int, producer_epoch: int, group_id: str
    ) -> None:
        """The same for the value of an offset commit."""
        transaction = self.record(log_offset, log_timestamp, producer_id, producer_epoch)
        transaction.offset_count += 1
        transaction.group_ids.add(group_id)

    def end(self, producer_id: int) -> EndedTransaction:
        transaction = self.by_producer.pop(producer_id, None)
        if transaction is None:
            return EndedTransaction(None, 0, [])
        return EndedTransaction(
            transaction.transaction_start_offset, transaction.offset_count, sorted(transaction.group_ids)
        )

    def rows(self, offsets_partition: int) -> Iterator[OpenTransactionRow]:
        for producer_id, transaction in sorted(self.by_producer.items()):
            yield OpenTransactionRow(
                offsets_partition,
                producer_id,
                None if transaction.producer_epoch == -1 else transaction.producer_epoch,
                transaction.transaction_start_offset,
                transaction.open_since,
                transaction.offset_count,
                sorted(transaction.group_ids),
                None,
            )


# Called for every record: this way takes a third of the time.
_commit = partial(tuple.__new__, OffsetCommit)
_committed_row = partial(tuple.__new__, CommittedRow)


class Shard(Groups):
    """The state of one partition, and version rows for `take_changes`."""

    def __init__(self, release: Release, offsets_partition: int) -> None:
        self.offsets = OffsetMetadata(release)
        super().__init__(release, offsets_partition, self.offsets)
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
        return save(self)

    def _learn_topics(self, record_type: int, value: Value, log_timestamp: int | None) -> None:
        fields = {4: ["topics"], 9: ["topics"], 15: ["initializingTopics", "initializedTopics", "deletingTopics"]}
        for field in fields.get(record_type, ()):
            for topic in value[field]:
                self.topics.learn(topic["topicId"], topic["topicName"], log_timestamp, "group_record")


# Topic names of a shard that must learn none.


class NoTopics(Topics):
    """Versions say what the record says: names learnt later must not depend on where a night ended."""

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        pass
