"""The state of a shard of objects in the package's form, by way of state format 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import orjson

from kgroups_spark.coordinator.state_entries import StateRow, group_row, noted_row, producer_row, removed_rows
from kgroups_spark.coordinator.versions import Group
from kgroups_spark.replay.state import LogState, loaded, plain_entries
from tests.twin.offset_metadata import OffsetCommit, TopicPartition

if TYPE_CHECKING:
    from tests.twin.shard import Shard

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
