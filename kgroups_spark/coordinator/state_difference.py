"""The differences between a state that was carried from audit to audit and the log as it is now.

Tombstones and markers may be compacted away between two audits: what they ended then lives on in the carried state,
and a replay of the log from its start does not know it. Both are states of one log at one offset; what the log says
is right.

Differences are those of substance. Where a group is the same but for where and since when the log said it
(`log_offset`, `state_since`), the carried group stays: it has seen records that the log no longer has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import orjson

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.consumer_group import ConsumerGroup
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.coordinator.state_rows import (
    group_entry,
    noted_entry,
    producer_entry,
    saved_and_loaded,
)
from kgroups_spark.coordinator.streams_group import StreamsGroup

# The type of an entry of a group that is another in the log, but cannot be corrected yet.
WAITING = "waiting"


class Correction(NamedTuple):
    """An entry of the carried state that is to be another, or (`payload` None) to go; see state_rows.replace_entry."""

    entry_type: str
    group_id: str | None
    payload: str | None

    @property
    def is_gone(self) -> bool:
        """Whether the log has nothing of the entry."""
        if self.entry_type == "producer":
            return "transaction" not in orjson.loads(self.payload or "{}")
        return self.payload is None

    @property
    def entry(self) -> tuple[str, str | None, int | None]:
        """Which entry it is of: its type, its group, its producer."""
        producer_id = orjson.loads(self.payload or "{}").get("producer_id") if self.entry_type == "producer" else None
        return self.entry_type, self.group_id, producer_id


def corrections(carried: Shard, reported: Shard, waiting: Collection[str] = ()) -> Iterator[Correction]:
    """The changes that make the carried state that of the log, in an order of its own.

    Groups in `waiting` stay as they are; their offsets are corrected all the same.
    """
    known, offsets = carried.groups.keys() | reported.groups.keys(), carried.offsets.committed
    for group_id in sorted(known | offsets.keys() | reported.offsets.committed.keys()):
        yield from _of_group(group_id, carried, reported, group_id in waiting)
    yield from _of_producers(carried, reported)
    yield from _of_noted_producers(carried, reported)


def _of_group(group_id: str, carried: Shard, reported: Shard, is_waiting: bool) -> Iterator[Correction]:
    group, reported_group = carried.groups.get(group_id), reported.groups.get(group_id)
    offsets, reported_offsets = (
        carried.offsets.committed.get(group_id, {}),
        reported.offsets.committed.get(group_id, {}),
    )
    is_same = _is_same(group, reported_group)
    if is_waiting and not is_same:
        yield Correction(WAITING, group_id, None)
    if (is_same or is_waiting) and offsets == reported_offsets:
        return
    stays = group if is_same or is_waiting else reported_group
    if stays is None and not reported_offsets:
        yield Correction("group", group_id, None)
    else:
        yield Correction(*group_entry(group_id, stays, reported_offsets))


def _of_producers(carried: Shard, reported: Shard) -> Iterator[Correction]:
    for producer_id in sorted(_producers(carried) | _producers(reported)):
        if _producer_facts(carried, producer_id) == _producer_facts(reported, producer_id):
            continue
        if producer_id in _producers(reported):
            yield Correction(*producer_entry(reported, producer_id))
        else:
            payload = orjson.dumps({"producer_id": producer_id}).decode()
            yield Correction("producer", None, payload)


def _of_noted_producers(carried: Shard, reported: Shard) -> Iterator[Correction]:
    noted, reported_noted = carried.offsets.noted_producers, reported.offsets.noted_producers
    for group_id in sorted(noted.keys() | reported_noted.keys()):
        if group_id not in reported_noted:
            yield Correction("noted", group_id, None)
        elif noted.get(group_id) != reported_noted[group_id]:
            yield Correction(*noted_entry(group_id, reported_noted[group_id]))


def _producers(shard: Shard) -> set[int]:
    return shard.offsets.pending.keys() | shard.transactions.by_producer.keys()


def _producer_facts(shard: Shard, producer_id: int) -> tuple[Any, ...]:
    """The pending offsets, and the open transaction. Nothing pending any more is the same as nothing ever."""
    transaction = shard.transactions.by_producer.get(producer_id)
    facts = () if transaction is None else tuple(getattr(transaction, name) for name in transaction.__slots__)
    return shard.offsets.pending.get(producer_id) or {}, facts


def _is_same(one: Group | None, other: Group | None) -> bool:
    """Whether the groups are the same in substance."""
    if one is None or other is None:
        return one is other
    if isinstance(one, ClassicGroup) and isinstance(other, ClassicGroup):
        # A classic group is one record of the log, or none.
        return one.log_offset == other.log_offset or _facts(one) == _facts(other)
    return type(one) is type(other) and _facts(one) == _facts(other)


def _facts(group: Group) -> tuple[Any, ...]:
    """All that the log says of the group, but not where and since when."""
    group = saved_and_loaded(group)
    if isinstance(group, ClassicGroup):
        return group.value, group.value_version
    members = {member_id: member[:-1] for member_id, member in group.members.items()}
    common = (group.state, group.group_epoch, group.assignment_epoch, group.metadata_hash, members, group.target)
    if isinstance(group, StreamsGroup):
        return *common, group.topology, group.validated_topology_epoch, group.stored_description_epoch
    if isinstance(group, ConsumerGroup):
        return *common, group.regexes, {topic: owned for topic, owned in group.partition_epochs.epochs.items() if owned}
    return common
