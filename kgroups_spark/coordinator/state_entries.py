"""A shard's state as rows and back, exactly: the start of the next replay (internal table checkpoints).

Kinds of rows (`entry_type`), their payload JSON:

    group         by group_id: the group object (null: orphans only) and the group's committed offsets
    producer      by producer id: its pending offsets, and its open transaction (null: none)
    noted         3.8 to 4.0.0: producer ids noted per group (KAFKA-19164)
    removed       by group_id: removed offsets, until they are committed again; removed offsets with an unknown value
                  (`unknown`); the log offset of the group's own removal (null: it was not removed). Older states have
                  neither of the latter two
    topics        empty; in older states topic ids, their names and sources, which the table `topics` has
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from kgroups_spark.coordinator.classic_group import ClassicGroup
from kgroups_spark.coordinator.consumer_group import ConsumerGroup, ConsumerMember
from kgroups_spark.coordinator.group_snapshots import values_of
from kgroups_spark.coordinator.releases import RULES_VERSION, Release
from kgroups_spark.coordinator.rows import Task
from kgroups_spark.coordinator.share_group import ShareGroup, ShareMember, StreamsGroup, StreamsMember
from kgroups_spark.coordinator.versions import Group, Modern

# To be increased if the form of these rows changes. A state in a format that is not in STATE_FORMATS is rebuilt from
# history. Since 2 each offset has its own row (replay/state.py); corrections have offsets in the entry of
# their group or producer, as in 1.
STATE_FORMAT = 1
Json = dict[str, Any]
# The fields of an offset in an entry: topic, partition, record (-1: no epoch), value (-1: no commit timestamp).
OFFSET_FIELDS = (
    "topic",
    "partition",
    "log_offset",
    "record_type",
    "producer_epoch",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp",
    "expire_timestamp",
    "topic_id",
    "value_version",
)
# The payload of a classic group with its value, as `_group_json` makes it.
_CLASSIC, _VALUE, _VALUE_VERSION = '{"group":{"type":"classic","log_offset":', ',"value":', ',"value_version":'

# The fields that only groups of a type have.
OWN_FIELDS: dict[str, tuple[str, ...]] = {
    "consumer": ("regexes",),
    "share": (),
    "streams": ("topology", "validated_topology_epoch", "stored_description_epoch"),
}


class StateRow(NamedTuple):
    """An entry of the state, in columns of checkpoints."""

    entry_type: str
    group_id: str | None
    payload: str


# An entry in every checkpoint, so that an empty state has a row, too.
MARK = StateRow("topics", None, '{"topics": []}')


def made_by(audit_id: int, reason: str, release_version: str) -> dict[str, int | str]:
    """The columns of checkpoints for the audit that saved a state, its reason, and the rules: the present ones."""
    return {
        "audit_id": audit_id,
        "reason": reason,
        "state_format": STATE_FORMAT,
        "release_version": release_version,
        "rules_version": RULES_VERSION,
    }


def removed_rows(offsets: Iterable[Sequence[Any]], groups: Mapping[str, int]) -> Iterator[StateRow]:
    """The rows of removed offsets (REMOVED_OFFSETS) and of removed groups (log offset by group), oldest first."""
    by_group: dict[str, Json] = {}

    def of(group_id: str) -> Json:
        return by_group.setdefault(group_id, {"group": None, "offsets": [], "unknown": []})

    for group_id, topic, partition, committed_offset, topic_id, log_offset in offsets:
        if committed_offset is None:
            of(group_id)["unknown"].append([topic, partition, log_offset])
        else:
            of(group_id)["offsets"].append([topic, partition, committed_offset, topic_id, log_offset])
    for group_id, log_offset in groups.items():
        of(group_id)["group"] = log_offset
    for group_id in sorted(by_group):
        yield _row("removed", group_id, by_group[group_id])


def group_row(group_id: str, group: Group | None, offsets: Sequence[Sequence[Any]]) -> StateRow:
    """The row of a group (None: orphaned offsets only) with its committed offsets (OFFSET_FIELDS)."""
    return _row("group", group_id, {"group": None if group is None else _group_json(group), "offsets": offsets})


def producer_row(producer_id: int, transaction: Sequence[Any] | None, pending: Sequence[Sequence[Any]]) -> StateRow:
    """The row of a producer: its open transaction (start offset, open since, epoch or -1, offset count, group ids) and
    its pending offsets, each a group id and OFFSET_FIELDS."""
    payload = {"producer_id": producer_id, "transaction": transaction, "pending": pending or None}
    return _row("producer", None, payload)


def noted_row(group_id: str, producers: set[int]) -> StateRow:
    return _row("noted", group_id, {"producers": sorted(producers)})


def saved_and_loaded(group: Group) -> Group:
    """The group after a save and load: groups with equal values become equal, however they were decoded."""
    return group_of(group.release, group.group_id, orjson.loads(orjson.dumps(_group_json(group), default=list)))


def _row(entry_type: str, group_id: str | None, payload: Json) -> StateRow:
    return StateRow(entry_type, group_id, orjson.dumps(payload, default=list).decode())


def _group_json(group: Group) -> Json:
    common = {"type": group.group_type, "log_offset": group.log_offset, "state_since": group.state_since}
    if isinstance(group, ClassicGroup):
        members = group.members_on_demand
        value = group.value if members is None else orjson.Fragment(members.value_json())
        return {**common, "value": value, "value_version": group.value_version}
    payload = {
        **common,
        "state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "metadata_hash": group.metadata_hash,
        "members": [[*_with_held(member, _packed)] for member in group.members.values()],
        "target": {member_id: _packed(held) for member_id, held in group.target.items()},
        **{name: getattr(group, name) for name in OWN_FIELDS[group.group_type]},
    }
    if isinstance(group, ConsumerGroup):
        payload["partition_epochs"] = _packed(group.partition_epochs.epochs)
    return payload


def loaded_payloads(rows: Sequence[StateRow]) -> Iterator[Json]:
    """The payload of each row. Values of classic groups are decoded together, with their members on demand."""
    parted: list[tuple[Json, str] | None] = []
    for row in rows:
        # {"group":{...,"value":{"protocolType":...},"value_version":3},"offsets":[]}
        #     ->  the same with "value": None, and the text {"protocolType":...}
        # No key inside a value has these names, and texts escape quotes.
        head, name, rest = row.payload.partition(_VALUE)
        text, version, tail = rest.partition(_VALUE_VERSION)
        has_value = head.startswith(_CLASSIC) and text != "null"
        parted.append((orjson.loads(f"{head}{name}null{version}{tail}"), text) if has_value else None)
    found = [each for each in parted if each is not None]
    values = values_of([text for _, text in found], [rest["group"]["value_version"] for rest, _ in found])
    for row, each in zip(rows, parted, strict=True):
        if each is None:
            yield orjson.loads(row.payload)
        else:
            each[0]["group"]["value"] = next(values)
            yield each[0]


def group_of(release: Release, group_id: str, payload: Json) -> Group:
    """The group object of an entry's `group`."""
    group: Group
    if payload["type"] == "classic":
        group = ClassicGroup(release, group_id, payload["value"], payload["value_version"])
    else:
        group_class, member_class, unpacked = _MODERN[payload["type"]]
        modern: Modern = group_class(release, group_id)
        modern.restore(payload)
        for name in OWN_FIELDS[modern.group_type]:
            setattr(modern, name, payload[name])
        if isinstance(modern, ConsumerGroup):
            modern.partition_epochs.epochs = _by_topic(payload["partition_epochs"])
        for fields in payload["members"]:
            member = _with_held(member_class(*fields), unpacked)
            modern.members[member.member_id] = member
        modern.target = {member_id: unpacked(held) for member_id, held in payload["target"].items()}
        group = modern
    group.log_offset, group.state_since = payload["log_offset"], payload["state_since"]
    return group


def _with_held(member: Any, converted: Callable[[Any], Any]) -> Any:
    """The member with its partitions or tasks converted."""
    held = [name for name in ("assigned", "pending_revocation") if name in member._fields]
    return member._replace(**{name: converted(getattr(member, name)) for name in held})


def _packed(held: Any) -> Any:
    """{topic id: {partition: epoch}} as [[topic id, [[partition, epoch], ...]], ...]: JSON keys are texts."""
    if not isinstance(held, dict):
        return held
    return [[topic_id, list(epochs.items())] for topic_id, epochs in held.items()]


def _by_topic(pairs: Any) -> Any:
    return {topic_id: dict(epochs) for topic_id, epochs in pairs}


def _tasks(tasks: Any) -> list[Task] | None:
    return None if tasks is None else [Task(*task) for task in tasks]


# By group type: the classes of groups and members, and how the partitions or tasks of members are unpacked.
_MODERN: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {
    "consumer": (ConsumerGroup, ConsumerMember, _by_topic),
    "share": (ShareGroup, ShareMember, _by_topic),
    "streams": (StreamsGroup, StreamsMember, _tasks),
}
