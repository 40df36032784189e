"""One shard of the share coordinator: the state of one partition of `__share_group_state`, record by record.

    shard = ShareCoordinatorShard(share_rules(release("4.4")), state_partition=3)
    shard.replay(log_offset, log_timestamp, record_type, group_id, topic_id, partition, value)   in log order
    shard.share_partition_rows(), .share_batch_rows(), .take_events()

Rules (ShareCoordinatorShard 4.3.1, handleShareSnapshot, handleShareUpdate, merge):

1. A snapshot replaces the state of its share partition, with its batches as written. Its tombstone removes the state.
2. An update changes the state: start offset and leader epoch unless they are -1, the delivery complete count even if it
   is -1; the state epoch, the snapshot epoch and both times stay. Batches are combined (state_batches.py).
3. An update of a share partition without state becomes the state (DeleteRecords took its snapshot).
4. Where a coordinator's load would fail, ReplayFailure is raised without any change, and the next record may follow.

It is pure: no Spark, no files, no clock. Events:

- share_partition_initialized: a snapshot with snapshot epoch 0 where there was no state. A later one shows the state of
  a share partition whose first snapshot the log no longer has.
- share_offset_reset: the state epoch increased; or a snapshot has the form that InitializeShareGroupState writes,
  follows no update, and changes the start offset or drops batches. The state epoch is the group's epoch, so a second
  admin reset does not change it if no member has joined in between (seen on 4.3.1 and 4.4.0).
- share_offsets_deleted: a tombstone, also of a state that the log no longer has. Whether the offsets, the group or the
  topic were deleted is in other logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.rows import none_if_unset
from kgroups_spark.coordinator.state_entries import StateRow
from kgroups_spark.share_coordinator.rows import ShareBatchRow, ShareEvent, SharePartitionRow
from kgroups_spark.share_coordinator.rules import ShareRules
from kgroups_spark.share_coordinator.state_batches import StateBatch, StateBatches, as_written, combine, state_batches

SHARE_SNAPSHOT, SHARE_UPDATE = 0, 1
# Kafka's RecordState, in lower case. 1 is never written (KIP-932); 3 only by 4.4, for a dead-letter queue (KIP-1191).
DELIVERY_STATES = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}
AVAILABLE, ARCHIVING, ARCHIVED = 0, 3, 4
_UNSET = -1
_NO_TIMESTAMP = 0
_UNINITIALIZED_EPOCH = 0

Value = dict[str, Any]


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class SharePartition:
    """The state of one share partition, with Kafka's -1 and 0 for none, and its newest record."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp: int
    write_timestamp: int
    batches: StateBatches
    updates: int  # since the newest snapshot
    log_offset: int
    log_timestamp: int | None

    @property
    def is_as_initialized(self) -> bool:
        """Whether it could have been written by InitializeShareGroupState (ShareGroupOffset.fromRequest, 4.3)."""
        count = _UNSET if self.start_offset == _UNSET else 0
        return (self.leader_epoch, self.delivery_complete_count, len(self.batches.batches), self.updates) == (
            _UNINITIALIZED_EPOCH,
            count,
            0,
            0,
        ) and self.create_timestamp == self.write_timestamp


BATCHES = SharePartition.__slots__.index("batches")


class ShareCoordinatorShard:
    """The state of one partition of `__share_group_state`. `reporting`: keep events for `take_events`."""

    def __init__(self, rules: ShareRules, state_partition: int, *, reporting: bool = False) -> None:
        self.rules = rules
        self.state_partition = state_partition
        self.reporting = reporting
        self.share_partitions: dict[SharePartitionKey, SharePartition] = {}
        self._events: list[ShareEvent] = []

    def replay(
        self,
        log_offset: int,
        log_timestamp: int | None,
        record_type: int,
        group_id: str,
        topic_id: str,
        partition: int,
        value: Value | None,
        layout: str = "",
    ) -> None:
        """Replays a record of type 0 or 1; `value` None is a tombstone. `layout`: as in CoordinatorRecord. Raises
        ReplayFailure if a coordinator's load fails at it."""
        key = SharePartitionKey(group_id, topic_id, partition)
        before = self.share_partitions.get(key)
        if value is None:
            after = None
            self._check_tombstone(record_type)
            self.share_partitions.pop(key, None)
        else:
            if not self.rules.reads_layout(layout):
                raise ReplayFailure(f"The value is in the layout of {layout or '4.1 and newer'}, which is not read")
            if record_type == SHARE_SNAPSHOT or before is None:
                after = self._of_value(record_type, value, log_offset, log_timestamp)
            else:
                after = self._updated(before, value, log_offset, log_timestamp)
            self.share_partitions[key] = after
        if self.reporting:
            self._report(log_offset, log_timestamp, key, record_type, before, after)

    def take_events(self) -> list[ShareEvent]:
        """Events since the last call, in log order."""
        events, self._events = self._events, []
        return events

    def share_partition_rows(self) -> Iterator[SharePartitionRow]:
        """Rows of `share_partitions`, by key; topic and init_state are filled by `listed_share_partitions`."""
        for key, state in sorted(self.share_partitions.items()):
            yield SharePartitionRow(
                self.state_partition,
                key.group_id,
                key.topic_id,
                None,
                key.partition,
                none_if_unset(state.start_offset),
                none_if_unset(state.state_epoch),
                none_if_unset(state.leader_epoch),
                none_if_unset(state.snapshot_epoch),
                none_if_unset(state.delivery_complete_count),
                None,
                state.create_timestamp if state.create_timestamp != _NO_TIMESTAMP else None,
                state.write_timestamp if state.write_timestamp != _NO_TIMESTAMP else None,
                state.log_timestamp,
                state.log_offset,
            )

    def share_batch_rows(self, limit_of: Callable[[str], int | None] = lambda _: None) -> Iterator[ShareBatchRow]:
        """Rows of `share_batches`, in order. `limit_of`: the most deliveries of a record by group; None: unknown."""
        for key, state in sorted(self.share_partitions.items()):
            for batch in state.batches.batches:
                yield _batch_row(self.state_partition, key, batch, limit_of(key.group_id))

    def save(self) -> Iterator[StateRow]:
        """Rows from which `load` restores the same state."""
        for key, state in sorted(self.share_partitions.items()):
            fields = [getattr(state, name) for name in SharePartition.__slots__]
            fields[BATCHES] = [tuple(batch) for batch in state.batches.batches]
            payload = [key.topic_id, key.partition, *fields]
            yield StateRow("share_partition", key.group_id, orjson.dumps(payload).decode())

    @classmethod
    def load(
        cls, rules: ShareRules, state_partition: int, rows: Iterable[StateRow], *, reporting: bool = False
    ) -> ShareCoordinatorShard:
        shard = cls(rules, state_partition, reporting=reporting)
        for row in rows:
            topic_id, partition, *state = orjson.loads(row.payload)
            state[BATCHES] = as_written([StateBatch(*batch) for batch in state[BATCHES]])
            key = SharePartitionKey(row.group_id or "", topic_id, partition)
            shard.share_partitions[key] = SharePartition(*state)
        return shard

    def _check_tombstone(self, record_type: int) -> None:
        if record_type == SHARE_UPDATE or not self.rules.tombstone_removes:
            raise ReplayFailure("A tombstone where only values are written")

    def _of_value(self, record_type: int, value: Value, log_offset: int, log_timestamp: int | None) -> SharePartition:
        """The state of a snapshot, or of an update without a state before it, which has neither state epoch nor
        times."""
        return SharePartition(
            value["snapshotEpoch"],
            value.get("stateEpoch", self.rules.unknown_state_epoch),
            value["leaderEpoch"],
            value["startOffset"],
            self._delivery_complete_count(value),
            value.get("createTimestamp") or _NO_TIMESTAMP,
            value.get("writeTimestamp") or _NO_TIMESTAMP,
            as_written(state_batches(value["stateBatches"])),
            int(record_type == SHARE_UPDATE),
            log_offset,
            log_timestamp,
        )

    def _updated(
        self, before: SharePartition, value: Value, log_offset: int, log_timestamp: int | None
    ) -> SharePartition:
        start_offset = before.start_offset if value["startOffset"] == _UNSET else value["startOffset"]
        return replace(
            before,
            leader_epoch=before.leader_epoch if value["leaderEpoch"] == _UNSET else value["leaderEpoch"],
            start_offset=start_offset,
            delivery_complete_count=self._delivery_complete_count(value),
            batches=combine(before.batches, state_batches(value["stateBatches"]), start_offset, self.rules),
            updates=before.updates + 1,
            log_offset=log_offset,
            log_timestamp=log_timestamp,
        )

    def _delivery_complete_count(self, value: Value) -> int:
        count = value["deliveryCompleteCount"]
        return _UNSET if count is None or not self.rules.has_delivery_complete_count else int(count)

    def _report(
        self,
        log_offset: int,
        log_timestamp: int | None,
        key: SharePartitionKey,
        record_type: int,
        before: SharePartition | None,
        after: SharePartition | None,
    ) -> None:
        event = _event(record_type, before, after)
        if event is not None:
            self._events.append(
                ShareEvent(
                    log_offset,
                    log_timestamp,
                    *key,
                    event,
                    None if before is None else none_if_unset(before.start_offset),
                    None if after is None else none_if_unset(after.start_offset),
                    None if before is None else none_if_unset(before.state_epoch),
                    None if after is None else none_if_unset(after.state_epoch),
                )
            )


def _event(record_type: int, before: SharePartition | None, after: SharePartition | None) -> str | None:
    if after is None:
        return "share_offsets_deleted"
    if before is None:
        is_first = record_type == SHARE_SNAPSHOT and after.snapshot_epoch == 0
        return "share_partition_initialized" if is_first else None
    return "share_offset_reset" if _is_reset(before, after) else None


def _is_reset(before: SharePartition, after: SharePartition) -> bool:
    if after.state_epoch > before.state_epoch:
        return True
    is_other = after.start_offset != before.start_offset or len(before.batches.batches) > 0
    return after.is_as_initialized and before.updates == 0 and is_other


def _batch_row(state_partition: int, key: SharePartitionKey, batch: StateBatch, limit: int | None) -> ShareBatchRow:
    state = batch.delivery_state
    is_used_up = limit is not None and batch.delivery_count >= limit
    is_given_up = limit is not None and state in (ARCHIVING, ARCHIVED)
    return ShareBatchRow(
        state_partition,
        *key,
        batch.first_offset,
        batch.last_offset,
        DELIVERY_STATES.get(state, str(state)),
        batch.delivery_count,
        max(limit - batch.delivery_count, 0) if limit is not None and state == AVAILABLE else None,
        None if not is_given_up else "attempts_used_up" if is_used_up else "rejected_or_gap",
    )
