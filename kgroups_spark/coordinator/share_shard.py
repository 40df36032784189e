"""One shard of the share coordinator: the state of one partition of `__share_group_state`, record by record.

    shard = ShareCoordinatorShard(share_rules(release("4.4")), state_partition=3)
    shard.replay(log_offset, log_timestamp, record_type, group_id, topic_id, partition, value)   in log order
    shard.share_partition_rows(), .share_batch_rows(), .take_events()

Rules (ShareCoordinatorShard 4.3.1, handleShareSnapshot, handleShareUpdate, merge):

1. A snapshot replaces the state of its share partition, with its batches as written. Its tombstone removes the state.
2. An update changes the state: start offset and leader epoch unless they are -1, the delivery complete count even if it
   is -1; the state epoch, the snapshot epoch and both times stay. Batches are combined.
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

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import orjson

from kgroups_spark.coordinator.releases import Release, ReplayFailure
from kgroups_spark.coordinator.rows import none_if_unset
from kgroups_spark.coordinator.state_entries import StateRow

# The rows of `share_partitions` and `share_batches`, and events of share partitions, as plain tuples.
#
# Times are milliseconds. `state_partition`: the partition of `__share_group_state`.


class SharePartitionRow(NamedTuple):
    """A row of `share_partitions`: the persisted state of a share group's partition. Null where Kafka stores no value
    (-1, for times 0). Records in flight and the end of the window are never stored."""

    state_partition: int | None  # null: the group coordinator lists it, but the log has no state of it
    group_id: str
    topic_id: str
    topic: str | None
    partition: int
    start_offset: int | None  # null: not set yet
    state_epoch: int | None
    leader_epoch: int | None
    snapshot_epoch: int | None
    delivery_complete_count: int | None  # null: unknown, or a release before 4.2
    init_state: str | None  # initializing, initialized, deleting; null: the group coordinator does not list it
    create_timestamp: int | None  # of the state in the newest snapshot
    write_timestamp: int | None  # of the newest snapshot
    log_timestamp: int | None  # of the newest record
    log_offset: int | None


class ShareBatchRow(NamedTuple):
    """A row of `share_batches`: offsets from first to last (inclusive) with a delivery state within the window."""

    state_partition: int
    group_id: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    delivery_state: str  # available, acknowledged, archiving, archived; never written: acquired; else the number
    delivery_count: int
    attempts_left: int | None  # null: there is no further attempt, or the limit is unknown
    archived_as: str | None  # attempts_used_up, rejected_or_gap; null: neither archiving nor archived, or unknown


class ShareEvent(NamedTuple):
    """The effect of a record on a share partition: one of EVENTS. Fields are None if they are unknown or not set."""

    log_offset: int
    log_timestamp: int | None
    group_id: str
    topic_id: str
    partition: int
    event: str
    offset_before: int | None
    offset_after: int | None
    state_epoch_before: int | None
    state_epoch_after: int | None


EVENTS = ("share_partition_initialized", "share_offset_reset", "share_offsets_deleted")


# How each Kafka release replays `__share_group_state`: data only.
#
# Sources: ShareCoordinatorShard, ShareGroupOffset and PersisterStateBatchCombiner of 4.0.2, 4.1.2, 4.2.1, 4.3.1, 4.4.0.


class ShareRules(NamedTuple):
    """The replay rules of one release."""

    # Layout of version 0 of both values; early access (4.0) had other layouts.
    layout: str = ""
    # A tag that is new in 4.2. Without it the count is -1, unknown.
    has_delivery_complete_count: bool = True
    # 4.0 writes no tombstones, and fails at one.
    tombstone_removes: bool = True
    # The state epoch of a share partition whose snapshot the log no longer has.
    unknown_state_epoch: int = 0
    # How batches are combined. `pairs`: the combination of two batches may touch an equal batch before it and stay
    # separate until the next update. `sweep` (4.4): equal adjacent batches always become one.
    combines: Literal["pairs", "sweep"] = "sweep"

    def fails_at(self, reason: str) -> bool:
        """Whether its load fails at a record that cannot be decoded for that reason (messages/coordinator_records.py).
        Releases skip types that they do not know (CoordinatorLoaderImpl), and nothing else."""
        return reason != "unknown_record_type"

    def reads_layout(self, layout: str) -> bool:
        """Whether it reads values in that layout: "" is that of 4.1 and newer; "?4.0" fits this one and 4.0's."""
        return layout == self.layout or layout.startswith("?")


_V4_4 = ShareRules()
_V4_2 = _V4_4._replace(combines="pairs")
_V4_1 = _V4_2._replace(has_delivery_complete_count=False)
_V4_0 = _V4_1._replace(layout="4.0", tombstone_removes=False, unknown_state_epoch=-1)
# The first version with these rules, newest first.
_SINCE = (((4, 4), _V4_4), ((4, 2), _V4_2), ((4, 1), _V4_1), ((4, 0), _V4_0))


def share_rules(release: Release) -> ShareRules | None:
    """The rules of a release. None: it has no share coordinator (before 4.0)."""
    return next((rules for first, rules in _SINCE if release.version >= first), None)


# Delivery states of a share partition's records, as batches of offsets, and their combination with those of an update.
#
# If several batches have an offset, the one with the larger (delivery count, delivery state) counts. Offsets below the
# start offset are dropped, unless that is -1. The work is by batch, never by offset: a batch of 10^12 offsets costs the
# same as one of 10, and the cost of an update depends on the batches that it overlaps or touches, not on all batches.
#
#     there    [0..9 available, 1]   [10..19 available, 1]        start offset 5
#     update           [7..12 acknowledged, 1]
#     combined [5..6 available, 1]   [7..12 acknowledged, 1]   [13..19 available, 1]
#
# (PersisterStateBatchCombiner. The class was rewritten in 4.4; both give the same state of each offset, but may differ
# in whether equal adjacent batches are one batch: see `merge_pairs` and `sweep`.)


UNSET_START_OFFSET = -1
_LONG_MAX = (1 << 63) - 1


class StateBatch(NamedTuple):
    """Offsets from first to last, both included. The order of the fields is that of PersisterStateBatch.compareTo."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int  # Kafka's RecordState: 0 available, 2 acknowledged, 4 archived; no other is written

    @property
    def priority(self) -> tuple[int, int]:
        return self.delivery_count, self.delivery_state


class StateBatches(NamedTuple):
    """Batches in Kafka's order. `settled`: sorted, disjoint, none empty, and no equal adjacent ones."""

    batches: Sequence[StateBatch]
    settled: bool


def state_batches(values: Iterable[dict[str, Any]]) -> list[StateBatch]:
    return [StateBatch(v["firstOffset"], v["lastOffset"], v["deliveryCount"], v["deliveryState"]) for v in values]


def as_written(batches: Sequence[StateBatch]) -> StateBatches:
    """The batches of a snapshot, which are not combined."""
    return StateBatches(batches, _is_settled(batches))


def combine(there: StateBatches, update: Sequence[StateBatch], start_offset: int, rules: ShareRules) -> StateBatches:
    """The present batches combined with those of an update. Raises ReplayFailure (see `_check`)."""
    new = _pruned(update, start_offset)
    if not there.settled:
        return as_written(_combined([*_pruned(there.batches, start_offset), *new], rules))
    old = _pruned_settled(there.batches, start_offset)
    if len(old) + len(new) > 1:
        _check([*old[-1:], *new], rules)
    if not new:
        return StateBatches(old, True)
    # Batches that neither overlap nor touch a new one stay as they are.
    begin = bisect_left(old, min(b.first_offset for b in new) - 1, key=attrgetter("last_offset"))
    end = bisect_right(old, max(b.last_offset for b in new) + 1, key=attrgetter("first_offset"))
    middle = _combined([*old[begin:end], *new], rules)
    return StateBatches([*old[:begin], *middle, *old[end:]], _is_settled(middle))


def merge_pairs(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """4.0 to 4.3: the first two batches that overlap, or are equal and adjacent, are replaced by their combination.

    Batches before such a pair are not checked again: one that now equals and touches the result stays separate.

        [0..4 available, 1] [5..9 available, 2] + [5..9 acknowledged, 2]   2 batches, though ...
        [0..4 acknowledged, 2] [5..9 available, 2] + [5..9 acknowledged, 2]   ... here one would do
    """
    heap = list(batches)
    heapify(heap)
    done: list[StateBatch] = []
    previous = heappop(heap)
    while heap:
        candidate = heap[0]
        touch = previous.last_offset + 1 == candidate.first_offset and previous.priority == candidate.priority
        if candidate.first_offset <= previous.last_offset or touch:
            heappop(heap)
            for piece in _pieces(previous, candidate):
                heappush(heap, piece)
        else:
            done.append(previous)
        previous = heappop(heap)
    return [*done, previous]


def sweep(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """4.4: from border to border, the active batch with the highest priority."""
    borders = sorted({offset for b in batches for offset in (b.first_offset, b.last_offset + 1)})
    begins = sorted(batches)
    active: list[tuple[int, int, int]] = []  # heap of (-count, -state, last offset)
    out: list[StateBatch] = []
    at = 0
    for border, following in pairwise(borders):
        while at < len(begins) and begins[at].first_offset == border:
            batch = begins[at]
            heappush(active, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            at += 1
        while active and active[0][2] < border:
            heappop(active)
        if active:
            batch = StateBatch(border, following - 1, -active[0][0], -active[0][1])
            # A batch extends the one before it if they are equal and adjacent.
            if out and out[-1].last_offset + 1 == border and out[-1].priority == batch.priority:
                out[-1] = out[-1]._replace(last_offset=batch.last_offset)
            else:
                out.append(batch)
    return out


def _combined(batches: list[StateBatch], rules: ShareRules) -> list[StateBatch]:
    if len(batches) < 2:
        return batches
    _check(batches, rules)
    return merge_pairs(batches) if rules.combines == "pairs" else sweep(batches)


def _check(batches: Sequence[StateBatch], rules: ShareRules) -> None:
    """Raises ReplayFailure for batches that no coordinator writes and none can combine. If one ends before it begins,
    4.4 has a NullPointerException and older releases may loop forever; if one ends at the greatest offset, so does 4.4,
    because the next offset is negative."""
    for batch in batches:
        if batch.last_offset < batch.first_offset:
            raise ReplayFailure(f"A state batch ends at {batch.last_offset}, before it begins at {batch.first_offset}")
        if batch.last_offset == _LONG_MAX and rules.combines == "sweep":
            raise ReplayFailure(f"A state batch ends at {_LONG_MAX}: there is no offset after it")


def _pieces(previous: StateBatch, candidate: StateBatch) -> list[StateBatch]:
    """The combination of two batches that overlap, or are equal and adjacent; `candidate` is not before `previous`."""
    first, last = candidate.first_offset, candidate.last_offset
    if previous.priority == candidate.priority:
        return [previous._replace(last_offset=max(previous.last_offset, last))]
    if candidate.priority < previous.priority:
        rest = [candidate._replace(first_offset=previous.last_offset + 1)] if last > previous.last_offset else []
        return [previous, *rest]
    before = [previous._replace(last_offset=first - 1)] if first > previous.first_offset else []
    after = [previous._replace(first_offset=last + 1)] if last < previous.last_offset else []
    return [*before, candidate, *after]


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """The batches without offsets below the start offset; -1: there is none, so nothing is dropped."""
    if start_offset == UNSET_START_OFFSET:
        return list(batches)
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _pruned_settled(batches: Sequence[StateBatch], start_offset: int) -> Sequence[StateBatch]:
    """The same for sorted batches."""
    if start_offset == UNSET_START_OFFSET or not batches or batches[0].first_offset >= start_offset:
        return batches
    kept = batches[bisect_left(batches, start_offset, key=attrgetter("last_offset")) :]
    return [*_pruned(kept[:1], start_offset), *kept[1:]]


def _is_settled(batches: Sequence[StateBatch]) -> bool:
    return all(b.first_offset <= b.last_offset for b in batches) and all(
        one.last_offset + (one.priority == other.priority) < other.first_offset for one, other in pairwise(batches)
    )


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


class SharePartition(NamedTuple):
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
        state = (self.leader_epoch, self.delivery_complete_count, len(self.batches.batches), self.updates)
        return state == (_UNINITIALIZED_EPOCH, count, 0, 0) and self.create_timestamp == self.write_timestamp


_NUMBERS = attrgetter("start_offset", "state_epoch", "leader_epoch", "snapshot_epoch", "delivery_complete_count")
BATCHES = SharePartition._fields.index("batches")


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
            if record_type == SHARE_UPDATE or not self.rules.tombstone_removes:
                raise ReplayFailure("A tombstone where only values are written")
            self.share_partitions.pop(key, None)
        else:
            if not self.rules.reads_layout(layout):
                raise ReplayFailure(f"The value is in the layout of {layout or '4.1 and newer'}, which is not read")
            if record_type == SHARE_SNAPSHOT or before is None:
                after = self._of_value(record_type, value, log_offset, log_timestamp)
            else:
                after = self._updated(before, value, log_offset, log_timestamp)
            self.share_partitions[key] = after
        if self.reporting and (event := _event(record_type, before, after)) is not None:
            offsets = (None if each is None else none_if_unset(each.start_offset) for each in (before, after))
            epochs = (None if each is None else none_if_unset(each.state_epoch) for each in (before, after))
            self._events.append(ShareEvent(log_offset, log_timestamp, *key, event, *offsets, *epochs))

    def take_events(self) -> list[ShareEvent]:
        """Events since the last call, in log order."""
        events, self._events = self._events, []
        return events

    def share_partition_rows(self) -> Iterator[SharePartitionRow]:
        """Rows of `share_partitions`, by key; topic and init_state are filled by `listed_share_partitions`."""
        for key, state in sorted(self.share_partitions.items()):
            of = (self.state_partition, key.group_id, key.topic_id, None, key.partition)
            times = (state.create_timestamp or None, state.write_timestamp or None, state.log_timestamp)
            numbers = map(none_if_unset, _NUMBERS(state))
            yield SharePartitionRow._make((*of, *numbers, None, *times, state.log_offset))

    def share_batch_rows(self, limit_of: Callable[[str], int | None] = lambda _: None) -> Iterator[ShareBatchRow]:
        """Rows of `share_batches`, in order. `limit_of`: the most deliveries of a record by group; None: unknown."""
        for key, state in sorted(self.share_partitions.items()):
            for batch in state.batches.batches:
                yield _batch_row(self.state_partition, key, batch, limit_of(key.group_id))

    def save(self) -> Iterator[StateRow]:
        """Rows from which `load` restores the same state."""
        for key, state in sorted(self.share_partitions.items()):
            fields = [getattr(state, name) for name in SharePartition._fields]
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

    def _of_value(self, record_type: int, value: Value, log_offset: int, log_timestamp: int | None) -> SharePartition:
        """The state of a snapshot, or of an update without a state before it, which has no state epoch or times."""
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
        return before._replace(
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


def _event(record_type: int, before: SharePartition | None, after: SharePartition | None) -> str | None:
    if after is None:
        return "share_offsets_deleted"
    if before is None:
        is_first = record_type == SHARE_SNAPSHOT and after.snapshot_epoch == 0
        return "share_partition_initialized" if is_first else None
    is_other = after.start_offset != before.start_offset or len(before.batches.batches) > 0
    is_initialized_again = after.is_as_initialized and before.updates == 0 and is_other
    is_reset = after.state_epoch > before.state_epoch or is_initialized_again
    return "share_offset_reset" if is_reset else None


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


# The share partitions that the group coordinator lists (type 15: initializing, initialized, deleting), with the state
# that the share coordinator keeps: two logs, one table. `listShareGroupOffsets` asks the second for those that the
# first has initialized (GroupCoordinatorService.describeShareGroupAllOffsets, 4.3).


INITIALIZING, INITIALIZED, DELETING = "initializing", "initialized", "deleting"


class ListedTopic(NamedTuple):
    """A topic in record type 15; `partitions` None: all partitions with state (deleting)."""

    group_id: str
    topic_id: str
    topic: str
    init_state: str
    partitions: tuple[int, ...] | None


def listed_topics(group_id: str, value: Mapping[str, Any] | None) -> Iterator[ListedTopic]:
    """The partitions that a value of record type 15 lists; None: it is a tombstone, or there is none."""
    if value is None:
        return
    for field, init_state in (("initializingTopics", INITIALIZING), ("initializedTopics", INITIALIZED)):
        for topic in value[field]:
            partitions = tuple(topic["partitions"])
            yield ListedTopic(group_id, topic["topicId"], topic["topicName"], init_state, partitions)
    for topic in value["deletingTopics"]:
        yield ListedTopic(group_id, topic["topicId"], topic["topicName"], DELETING, None)


def listed_share_partitions(
    rows: Iterable[SharePartitionRow], listed: Iterable[ListedTopic], topics: Mapping[str, str]
) -> list[SharePartitionRow]:
    """The rows with init_state and topic, and a row for each listed partition without state; by key. `topics`: names
    of ids that no group lists. A partition listed twice has the later state: initializing, initialized, deleting."""
    names = dict(topics)
    of_partition: dict[SharePartitionKey, str] = {}
    deleting: set[tuple[str, str]] = set()
    for one in listed:
        names[one.topic_id] = one.topic
        if one.partitions is None:
            deleting.add((one.group_id, one.topic_id))
            continue
        for partition in one.partitions:
            key = SharePartitionKey(one.group_id, one.topic_id, partition)
            if of_partition.get(key) != INITIALIZED:
                of_partition[key] = one.init_state
    found = {SharePartitionKey(row.group_id, row.topic_id, row.partition): row for row in rows}
    for key in of_partition.keys() - found.keys():
        found[key] = SharePartitionRow(None, key.group_id, key.topic_id, None, key.partition, *[None] * 10)
    return [
        row._replace(
            topic=names.get(key.topic_id),
            init_state=DELETING if key[:2] in deleting else of_partition.get(key),
        )
        for key, row in sorted(found.items())
    ]
