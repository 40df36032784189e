"""The saved state as rows of the internal table `coordinator_state`, and back (coordinator/state_rows.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator import state_rows
from kgroups_spark.coordinator.offset_metadata import OffsetAndMetadata, OffsetCommit, Slot
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.coordinator.shard_events import RemovedOffset
from kgroups_spark.coordinator.state_rows import StateRow
from kgroups_spark.coordinator.transactions import OpenTransaction
from kgroups_spark.offsets.records import OFFSET_RECORDS
from kgroups_spark.offsets.state import NOTED_PRODUCERS, OPEN_TRANSACTIONS, REMOVED_OFFSETS, OffsetState
from kgroups_spark.replay.shard_state import ShardState

_VALUE = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")
_OFFSET = ("group_id", "topic", "partition", "log_offset", "record_type", "producer_epoch", *_VALUE, "value_version")


def loaded(rows: Iterable[StateRow], release: Release, offsets_partition: int) -> ShardState:
    """The state that the rows say."""
    return state_of(Shard.load(release, offsets_partition, rows))


def saved(state: ShardState, release: Release, offsets_partition: int) -> Iterator[StateRow]:
    """Rows that `loaded` makes the same state of."""
    return state_rows.save(shard_of(state, release, offsets_partition))


def state_of(shard: Shard) -> ShardState:
    """The state of a shard of objects."""
    committed = [(None, slot, commit) for slot, commit in shard.offsets.committed_offsets()]
    pending = [(producer, slot, commit) for producer, slot, commit in shard.offsets.pending_offsets()]
    noted = shard.offsets.noted_producers
    offsets = OffsetState(
        _table(OFFSET_RECORDS, [_record(*each) for each in (*committed, *pending)]),
        _table(REMOVED_OFFSETS, [(*slot, *removed) for slot, removed in shard.removed.items()]),
        _table(NOTED_PRODUCERS, [(group, each) for group, of in sorted(noted.items()) for each in sorted(of)]),
        _table(OPEN_TRANSACTIONS, [row[1:-1] for row in shard.open_transaction_rows()]),
    )
    return ShardState(offsets, shard.groups, shard.removed_groups)


def shard_of(state: ShardState, release: Release, offsets_partition: int, *, recording: bool = False) -> Shard:
    """A shard of objects in the state."""
    shard = Shard(release, offsets_partition, recording=recording)
    shard.groups, shard.removed_groups = dict(state.groups), dict(state.removed_groups)
    pending: dict[int, dict[Slot, OffsetCommit]] = {}
    rows = state.offsets.offsets
    for producer, slot, commit in zip(rows.column("producer_id").to_pylist(), *_commits(rows), strict=True):
        if producer is None:
            shard.offsets.committed.setdefault(slot[0], {})[slot[1:]] = commit
        else:
            pending.setdefault(producer, {})[slot] = commit
    for producer, offsets in pending.items():
        shard.offsets.restore_pending(producer, offsets)
    for group_id, topic, partition, *removed in _tuples(state.offsets.removed):
        shard.removed[group_id, topic, partition] = RemovedOffset(*removed)
    for group_id, producer in _tuples(state.offsets.noted):
        shard.offsets.noted_producers.setdefault(group_id, set()).add(producer)
    for producer, epoch, start, since, count, group_ids in _tuples(state.offsets.transactions):
        transaction = OpenTransaction(start, since, -1 if epoch is None else epoch)
        transaction.offset_count, transaction.group_ids = count, set(group_ids)
        shard.transactions.by_producer[producer] = transaction
    return shard


def _record(producer_id: int | None, slot: Slot, commit: OffsetCommit) -> tuple[Any, ...]:
    """A row of OFFSET_RECORDS; when it was appended nobody asks any more."""
    value = commit.value
    epoch = None if commit.producer_epoch == -1 else commit.producer_epoch
    times = [None if ms == -1 else ms for ms in (value.commit_timestamp, value.expire_timestamp)]
    of_value = (value.committed_offset, value.leader_epoch, value.metadata, *times, value.topic_id)
    of_record = (commit.record_type, value.value_version, producer_id, epoch, producer_id is not None)
    return (commit.log_offset, None, *slot, *of_value, *of_record)


def _commits(rows: pa.Table) -> tuple[list[Slot], list[OffsetCommit]]:
    slots, commits = [], []
    for group_id, topic, partition, log_offset, record_type, epoch, *value in _tuples(rows.select(_OFFSET)):
        value[3] = -1 if value[3] is None else value[3]
        slots.append((group_id, topic, partition))
        commits.append(OffsetCommit(log_offset, record_type, -1 if epoch is None else epoch, OffsetAndMetadata(*value)))
    return slots, commits


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [
        pa.array(list(values), f.type.value_type).dictionary_encode()
        if pa.types.is_dictionary(f.type)
        else pa.array(list(values), f.type)
        for values, f in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)
