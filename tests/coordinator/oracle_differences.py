"""Differences between Kafka's own classes of two releases: two recorded answers about one partition, compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgroups_spark.coordinator.releases import Release
from tests.coordinator.oracle_answers import _group_said, _member_said, fails

Json = dict[str, Any]
Place = tuple[Any, ...]

OF_GROUP = {
    "state": "state",
    "members": "member_count",
    "protocolType": "protocol_type",
    "protocol": "protocol",
    "generation": "generation",
    "leader": "leader",
    "timestamp": "current_state_timestamp",
    "groupEpoch": "group_epoch",
    "assignmentEpoch": "assignment_epoch",
    "regexes": "resolved_regex_topics",
}
OF_MEMBER = {
    "instance": "group_instance_id",
    "rebalance": "rebalance_timeout_ms",
    "session": "session_timeout_ms",
    "rack": "rack_id",
    "state": "member_state",
    "topics": "subscribed_topics",
    "regex": "subscribed_regex",
    "assignor": "server_assignor",
    "classic": "uses_classic_protocol",
    "topology": "topology_epoch",
    "process": "process_id",
}
OF_OFFSET = {
    "offset": "committed_offset",
    "leaderEpoch": "leader_epoch",
    "metadata": "metadata",
    "commitTimestamp": "commit_timestamp",
    "expireTimestamp": "expire_timestamp",
    "orphan": "is_orphan",
}


def expected(a: Json, b: Json, rules_a: Release, rules_b: Release) -> set[Place]:
    """(kind, what, group, member, producer, topic, partition, value of A, value of B), with values of offsets alone."""
    if fails(a) and fails(b):
        return set()
    if fails(a) or fails(b):
        # Only the answer of the release that loads the partition says which groups it has.
        serving = b if fails(a) else a
        groups = {("group", "group", each["group"]) for each in serving["groups"]}
        return {_place(*each) for each in groups | {("load", "load", None)}}
    return {*_groups(a, b, rules_a, rules_b), *_offsets("committed_offset", a, b), *_offsets("pending_offset", a, b)}


def _place(kind: str, what: str, group: str | None, *rest: Any, values: tuple[Any, ...] = (None, None)) -> Place:
    return (kind, what, group, *rest, *[None] * (4 - len(rest)), *values)


def _groups(a: Json, b: Json, rules_a: Release, rules_b: Release) -> Iterator[Place]:
    groups_a, groups_b = ({group["group"]: group for group in each["groups"]} for each in (a, b))
    for name in groups_a.keys() ^ groups_b.keys():
        yield _place("group", "group", name)
    for name in groups_a.keys() & groups_b.keys():
        group, other = groups_a[name], groups_b[name]
        said, of_other = _group_said(group), _group_said(other)
        if said["type"] != of_other["type"]:
            yield _place("group", "group_type", name)
            continue
        for field, what in OF_GROUP.items():
            if said.get(field) != of_other.get(field):
                yield _place("group", what, name)
        yield from _members(name, group, other, rules_a, rules_b)


def _members(name: str, group: Json, other: Json, rules_a: Release, rules_b: Release) -> Iterator[Place]:
    of_a = {m["memberId"]: _member_said(group, m, rules_a) for m in group["members"]}
    of_b = {m["memberId"]: _member_said(other, m, rules_b) for m in other["members"]}
    for member in of_a.keys() ^ of_b.keys():
        yield _place("member", "member", name, member)
    for member in of_a.keys() & of_b.keys():
        for what in _differing_fields(of_a[member], of_b[member]):
            yield _place("member", what, name, member)


def _differing_fields(said: Json, other: Json) -> Iterator[str]:
    pairs = {what: (said.get(field), other.get(field)) for field, what in OF_MEMBER.items()}
    for at, names in (("client", ("client_id", "client_host")), ("epochs", ("member_epoch", "previous_member_epoch"))):
        for number, what in enumerate(names):
            pairs[what] = tuple(each[at][number] if at in each else None for each in (said, other))
    kind = "tasks" if "process" in said else "partitions"
    for field, what in (("assigned", "assigned"), ("target", "target"), ("pending", "pending_revocation")):
        pairs[f"{what}_{kind}"] = (said.get(field), other.get(field))
    yield from (what for what, (one, two) in pairs.items() if one != two)


def _offsets(kind: str, a: Json, b: Json) -> Iterator[Place]:
    name = "offsets" if kind == "committed_offset" else "pending"
    of_a, of_b = (
        {(each.get("producerId"), each["group"], each["topic"], each["partition"]): each for each in answer[name]}
        for answer in (a, b)
    )
    for key in of_a.keys() | of_b.keys():
        producer, group, topic, partition = key
        one, other = of_a.get(key), of_b.get(key)
        for field, what in OF_OFFSET.items():
            values = tuple(None if each is None else each.get(field, False) for each in (one, other))
            if values[0] != values[1]:
                reported = tuple(None if value is None else str(value) for value in values) if field == "offset" else ()
                yield _place(kind, what, group, None, producer, topic, partition, values=reported or (None, None))
                if field == "offset":
                    break
