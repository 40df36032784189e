"""Committed and pending offsets of one shard.

A plain value is committed at once. A transactional value is pending under its producer id until that producer's next
marker: COMMIT commits it, if no record with a greater log offset has committed the slot since (T19, T20; not checked in
3.7), ABORT drops it. A record is transactional by its producer id in Java (T28), by its batch's bit in Scala. A
tombstone removes the committed offset, and in Java since 3.8 also all pending offsets of the slot, at once (T21, T22).
In Scala a transactional tombstone removes only the pending offset of its own transaction.

A coordinator keeps a separate list of groups with an open transaction (`groups_in_transactions`). In 3.8 to 4.0.0 a
producer id noted for a group stays noted if a tombstone removes its last offset before the marker (KAFKA-19164), and
the group is then never deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kgroups_spark.coordinator.events import Slot
from kgroups_spark.coordinator.releases import Release

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
    """The offsets of all groups of a shard, whether the groups exist or not."""

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
