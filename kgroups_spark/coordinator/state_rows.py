"""A shard's state as rows and back, exactly: what a replay goes on from (internal table checkpoints).

Kinds of rows (`entry_type`), their payload JSON:

    group         by group_id: the group object (null: orphans only) and the group's committed offsets
    producer      by producer id: what it has pending, and its open transaction (null: none)
    noted         3.8 to 4.0.0: producer ids noted per group (KAFKA-19164)
    removed       by group_id: offsets that were removed, for the first commit after it; those of which nobody knows
                  what they were (`unknown`); where the group itself was removed (null: it was not). Older states have
                  neither of the latter two
    topics        up to TOPICS_PER_ROW topic ids, their names and where they were seen
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.consumer_group import ConsumerGroup, ConsumerMember
from kgroups_spark.coordinator.conversions import Group
from kgroups_spark.coordinator.offset_metadata import OffsetAndMetadata, OffsetCommit, Slot, TopicPartition
from kgroups_spark.coordinator.releases import RULES_VERSION, Release
from kgroups_spark.coordinator.rows import Task
from kgroups_spark.coordinator.shard_events import RemovedOffset
from kgroups_spark.coordinator.share_group import ShareGroup, ShareMember
from kgroups_spark.coordinator.streams_group import StreamsGroup, StreamsMember
from kgroups_spark.coordinator.transactions import OpenTransaction

if TYPE_CHECKING:
    from kgroups_spark.coordinator.shard import Shard

# Raised when the form of these rows changes: what is not among STATE_FORMATS is rebuilt from history. Since 2 an offset
# is a row of its own (replay/state_rows.py); corrections have it in the entry of its group or producer, as 1 had.
STATE_FORMAT = 2
STATE_FORMATS = (1, STATE_FORMAT)
TOPICS_PER_ROW = 1000
Json = dict[str, Any]
# An offset of an entry: its slot but for the group, its record (-1: no epoch), its value (-1: no commit timestamp).
OFFSET_FIELDS = ("topic", "partition", *OffsetCommit._fields[:3], *OffsetAndMetadata._fields)


class StateRow(NamedTuple):
    """An entry of the state, in columns of checkpoints."""

    entry_type: str
    group_id: str | None
    payload: str


# An entry that every checkpoint has, so that an empty state has a row, too.
MARK = StateRow("topics", None, '{"topics": []}')


def made_by(audit_id: int, reason: str, release_version: str) -> dict[str, int | str]:
    """The columns of checkpoints that say who saved a state, why, and by which rules: today's."""
    return {
        "audit_id": audit_id,
        "reason": reason,
        "state_format": STATE_FORMAT,
        "release_version": release_version,
        "rules_version": RULES_VERSION,
    }


def save(shard: Shard) -> Iterator[StateRow]:
    """Rows that `load` makes the same state of."""
    for group_id in sorted(shard.groups.keys() | shard.offsets.committed.keys()):
        yield group_entry(group_id, shard.groups.get(group_id), shard.offsets.committed.get(group_id, {}))
    waiting = {producer_id for producer_id, pending in shard.offsets.pending.items() if pending}
    for producer_id in sorted(waiting | shard.transactions.by_producer.keys()):
        yield producer_entry(shard, producer_id)
    for group_id, producers in sorted(shard.offsets.noted_producers.items()):
        yield noted_entry(group_id, producers)
    yield from removed_entries(shard.removed.items(), shard.removed_groups)
    ids = shard.topics.ids
    topics = [
        [topic_id, topic, seen, source, ids[topic] == topic_id]
        for topic_id, (topic, seen, source) in shard.topics.names.items()
    ]
    for start in range(0, len(topics), TOPICS_PER_ROW):
        yield _row("topics", None, {"topics": topics[start : start + TOPICS_PER_ROW]})


def removed_entries(offsets: Iterable[tuple[Slot, RemovedOffset]], groups: Mapping[str, int]) -> Iterator[StateRow]:
    """The rows of removed offsets and groups (by the log offset of their removal), the oldest first."""
    by_group: dict[str, Json] = {}

    def of(group_id: str) -> Json:
        return by_group.setdefault(group_id, {"group": None, "offsets": [], "unknown": []})

    for (group_id, topic, partition), removed in offsets:
        if removed.committed_offset is None:
            of(group_id)["unknown"].append([topic, partition, removed.log_offset])
        else:
            of(group_id)["offsets"].append([topic, partition, *removed])
    for group_id, log_offset in groups.items():
        of(group_id)["group"] = log_offset
    for group_id in sorted(by_group):
        yield _row("removed", group_id, by_group[group_id])


def group_entry(group_id: str, group: Group | None, offsets: Mapping[TopicPartition, OffsetCommit]) -> StateRow:
    """The row of a group, or (None) of orphans alone, and of its committed offsets."""
    return group_row(group_id, group, [(*slot, *commit[:3], *commit[3]) for slot, commit in offsets.items()])


def group_row(group_id: str, group: Group | None, offsets: Sequence[Sequence[Any]]) -> StateRow:
    """The same from offsets as OFFSET_FIELDS."""
    return _row("group", group_id, {"group": None if group is None else _group_json(group), "offsets": offsets})


def producer_entry(shard: Shard, producer_id: int) -> StateRow:
    """The row of a producer that has something pending or a transaction open."""
    open_ = shard.transactions.by_producer.get(producer_id)
    transaction = None
    if open_ is not None:
        place = (open_.transaction_start_offset, open_.open_since, open_.producer_epoch)
        transaction = (*place, open_.offset_count, sorted(open_.group_ids))
    pending = shard.offsets.pending.get(producer_id) or {}
    commits = [(*slot, *commit[:3], *commit[3]) for slot, commit in pending.items()]
    return producer_row(producer_id, transaction, commits)


def producer_row(producer_id: int, transaction: Sequence[Any] | None, pending: Sequence[Sequence[Any]]) -> StateRow:
    """The same from a transaction (start offset, open since, epoch or -1, offset count, group ids) and pending offsets,
    their group before OFFSET_FIELDS."""
    payload = {"producer_id": producer_id, "transaction": transaction, "pending": pending or None}
    return _row("producer", None, payload)


def noted_entry(group_id: str, producers: set[int]) -> StateRow:
    """The row of the producer ids noted for a group."""
    return _row("noted", group_id, {"producers": sorted(producers)})


def saved_and_loaded(group: Group) -> Group:
    """The group as a saved state gives it back: equal groups are made of equal values, however they were decoded."""
    return group_of(group.release, group.group_id, orjson.loads(orjson.dumps(_group_json(group), default=list)))


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
    # The oldest removals are forgotten first.
    shard.removed.update(sorted(removed, key=lambda each: each[1].log_offset))
    shard.removed_groups.update((group_id, log_offset) for log_offset, group_id in sorted(removed_groups))


def replace_entry(shard: Shard, entry_type: str, group_id: str | None, payload: str | None) -> None:
    """Puts another payload in the place of what the shard has of that entry; None: the entry is gone.

    A producer's payload says which one; without transaction and pending offsets it is gone.
    """
    fields: Json = {} if payload is None else orjson.loads(payload)
    match entry_type:
        case "group":
            shard.groups.pop(group_id or "", None)
            shard.removed_groups.pop(group_id or "", None)
            shard.offsets.committed.pop(group_id or "", None)
        case "producer":
            shard.transactions.by_producer.pop(fields["producer_id"], None)
            shard.offsets.drop_pending(fields["producer_id"])
        case "noted":
            shard.offsets.noted_producers.pop(group_id or "", None)
    if payload is not None:
        load(shard, [StateRow(entry_type, group_id, payload)])


def _row(entry_type: str, group_id: str | None, payload: Json) -> StateRow:
    return StateRow(entry_type, group_id, orjson.dumps(payload, default=list).decode())


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


def _group_json(group: Group) -> Json:
    common = {"type": group.group_type, "log_offset": group.log_offset, "state_since": group.state_since}
    if isinstance(group, ClassicGroup):
        members = group.members_on_demand
        value = group.value if members is None else orjson.Fragment(members.value_json())
        return {**common, "value": value, "value_version": group.value_version}
    modern = {
        **common,
        "state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "metadata_hash": group.metadata_hash,
    }
    if isinstance(group, StreamsGroup):
        return {
            **modern,
            "members": list(group.members.values()),
            "target": group.target,
            "topology": group.topology,
            "validated_topology_epoch": group.validated_topology_epoch,
            "stored_description_epoch": group.stored_description_epoch,
        }
    return {**modern, **_partitions_json(group)}


def _partitions_json(group: ConsumerGroup | ShareGroup) -> Json:
    target = {member_id: _pairs(partitions) for member_id, partitions in group.target.items()}
    if isinstance(group, ShareGroup):
        members = [[*member._replace(assigned=_pairs(member.assigned))] for member in group.members.values()]
        return {"target": target, "members": members}
    return {
        "target": target,
        "members": [
            [*member._replace(assigned=_pairs(member.assigned), pending_revocation=_pairs(member.pending_revocation))]
            for member in group.members.values()
        ],
        "regexes": group.regexes,
        "partition_epochs": _pairs(group.partition_epochs.epochs),
    }


def group_of(release: Release, group_id: str, payload: Json) -> Group:
    """The group object of an entry's `group`."""
    kind = payload["type"]
    group: Group
    if kind == "classic":
        group = ClassicGroup(release, group_id, payload["value"], payload["value_version"])
    elif kind == "streams":
        group = _streams_group(release, group_id, payload)
    else:
        group = _partitions_group(release, group_id, payload)
    group.log_offset, group.state_since = payload["log_offset"], payload["state_since"]
    return group


def _streams_group(release: Release, group_id: str, payload: Json) -> StreamsGroup:
    group = StreamsGroup(release, group_id)
    group.restore(payload)
    group.topology = payload["topology"]
    group.validated_topology_epoch = payload["validated_topology_epoch"]
    group.stored_description_epoch = payload["stored_description_epoch"]
    for fields in payload["members"]:
        member = StreamsMember(*fields)
        group.members[member.member_id] = member._replace(
            assigned=_tasks(member.assigned), pending_revocation=_tasks(member.pending_revocation)
        )
    group.target = {member_id: _tasks(tasks) or [] for member_id, tasks in payload["target"].items()}
    return group


def _partitions_group(release: Release, group_id: str, payload: Json) -> ConsumerGroup | ShareGroup:
    group: ConsumerGroup | ShareGroup
    if payload["type"] == "share":
        group = ShareGroup(release, group_id)
        for fields in payload["members"]:
            share_member = ShareMember(*fields)
            group.members[share_member.member_id] = share_member._replace(assigned=_by_topic(share_member.assigned))
    else:
        group = ConsumerGroup(release, group_id)
        for fields in payload["members"]:
            member = ConsumerMember(*fields)
            group.members[member.member_id] = member._replace(
                assigned=_by_topic(member.assigned), pending_revocation=_by_topic(member.pending_revocation)
            )
        group.regexes = payload["regexes"]
        group.partition_epochs.epochs = _by_topic(payload["partition_epochs"])
    group.restore(payload)
    group.target = {member_id: _by_topic(pairs) for member_id, pairs in payload["target"].items()}
    return group


def _pairs(partitions: Any) -> Any:
    """{topic id: {partition: epoch}} as JSON has no integer keys: [[topic id, [[partition, epoch], ...]], ...]."""
    return [[topic_id, list(epochs.items())] for topic_id, epochs in partitions.items()]


def _by_topic(pairs: Any) -> Any:
    return {topic_id: dict(epochs) for topic_id, epochs in pairs}


def _tasks(tasks: Any) -> list[Task] | None:
    return None if tasks is None else [Task(*task) for task in tasks]
