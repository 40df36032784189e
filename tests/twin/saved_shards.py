"""The state of a shard of objects: saved and loaded in state format 1, and as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from kgroups_spark.coordinator.events import Slot
from kgroups_spark.coordinator.state_entries import StateRow, group_of, group_row, noted_row, producer_row, removed_rows
from kgroups_spark.coordinator.versions import Group
from kgroups_spark.replay.state import LogState, loaded, plain_entries
from tests.twin.offset_metadata import OffsetAndMetadata, OffsetCommit, TopicPartition
from tests.twin.shard_events import RemovedOffset
from tests.twin.transactions import OpenTransaction

if TYPE_CHECKING:
    from tests.twin.shard import Shard

TOPICS_PER_ROW = 1000
Json = dict[str, Any]


def save(shard: Shard) -> Iterator[StateRow]:
    """Rows from which `load` restores the same state."""
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


def load(shard: Shard, rows: Iterable[StateRow]) -> None:
    """Fills an empty shard. The order of the rows does not matter."""
    removed: list[tuple[Slot, RemovedOffset]] = []
    removed_groups: list[tuple[int, str]] = []
    for row in rows:
        payload = orjson.loads(row.payload)
        match row.entry_type:
            case "group":
                _load_group(shard, row.group_id or "", payload)
            case "producer":
                _load_producer(shard, payload)
            case "noted":
                shard.offsets.noted_producers[row.group_id or ""] = set(payload["producers"])
            case "removed":
                group_id = row.group_id or ""
                for topic, partition, *offset in payload["offsets"]:
                    removed.append(((group_id, topic, partition), RemovedOffset(*offset)))
                for topic, partition, log_offset in payload.get("unknown", ()):
                    removed.append(((group_id, topic, partition), RemovedOffset(None, None, log_offset)))
                if payload.get("group") is not None:
                    removed_groups.append((payload["group"], group_id))
            case "topics":
                for topic_id, topic, seen, source, is_newest in payload["topics"]:
                    shard.topics.names[topic_id] = (topic, seen, source)
                    if is_newest:
                        shard.topics.ids[topic] = topic_id
            case _:
                raise ValueError(f"a saved state has a row of type {row.entry_type!r}, which is unknown")
    # The oldest removals are dropped first.
    shard.removed.update(sorted(removed, key=lambda each: each[1].log_offset))
    shard.removed_groups.update((group_id, log_offset) for log_offset, group_id in sorted(removed_groups))


def _commit(fields: list[Any]) -> OffsetCommit:
    log_offset, record_type, producer_epoch, *value = fields
    return OffsetCommit(log_offset, record_type, producer_epoch, OffsetAndMetadata(*value))


def _load_group(shard: Shard, group_id: str, payload: Json) -> None:
    if payload["group"] is not None:
        shard.groups[group_id] = group_of(shard.release, group_id, payload["group"])
    if payload["offsets"]:
        shard.offsets.committed[group_id] = {
            (topic, partition): _commit(fields) for topic, partition, *fields in payload["offsets"]
        }


def _load_producer(shard: Shard, payload: Json) -> None:
    producer_id = payload["producer_id"]
    if payload.get("transaction") is not None:
        start, since, epoch, offset_count, group_ids = payload["transaction"]
        transaction = OpenTransaction(start, since, epoch)
        transaction.offset_count = offset_count
        transaction.group_ids = set(group_ids)
        shard.transactions.by_producer[producer_id] = transaction
    if payload.get("pending") is not None:
        shard.offsets.restore_pending(
            producer_id,
            {
                (group_id, topic, partition): _commit(fields)
                for group_id, topic, partition, *fields in payload["pending"]
            },
        )


def state_of(shard: Shard) -> LogState:
    """The state of the shard in the package's form."""
    return loaded(plain_entries([(0, row) for row in save(shard)]), shard.release)
