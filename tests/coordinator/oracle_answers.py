"""Our tables against what Kafka's own coordinator classes hold: answers recorded as JSON, one document per log.

`differences(answer, tables, failed)` is empty where both agree. Values that a table has in another form change
their form alone here: Kafka's -1 to None, names of enums. Blobs, which the answers have in hex, are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.coordinator.rows import AssignedPartition, GroupRow, MemberRow, Task
from kgroups_spark.tables.rows import FIRST_MS
from kgroups_spark.words import LAST_MS

Json = dict[str, Any]
TIMES = ("commitTimestamp", "expireTimestamp", "currentStateTimestamp")
UNLOADED_AT_THE_END = "Unexpected unload of active group"  # thrown when everything is in the cache (Scala)


class Tables:
    """The tables of one offsets partition, with times in milliseconds. `rows_of`: the rows of a table as dicts."""

    def __init__(self, release: Release, rows_of: Callable[[str], Iterable[Json]]) -> None:
        self.release, self._rows_of = release, rows_of

    def rows(self, table: str) -> list[Json]:
        """Without audit_id."""
        rows = self._rows_of(table)
        return [{name: in_ms(value) for name, value in row.items() if name != "audit_id"} for row in rows]

    def groups(self, table: str = "groups") -> list[GroupRow]:
        return [GroupRow(**row) for row in self.rows(table)]

    def members(self, table: str = "group_members") -> list[MemberRow]:
        return [_member(row) for row in self.rows(table)]

    def offsets(self, table: str) -> list[Any]:
        """The rows of committed_offsets or pending_offsets."""
        return [SimpleNamespace(**row) for row in self.rows(table)]

    def failed(self) -> list[int]:
        """Log offsets of records that a real coordinator would refuse to load."""
        return sorted({row["log_offset"] for row in self.rows("quarantine") if row["coordinator_fails"]})


def _member(row: Json) -> MemberRow:
    for name, value in row.items():
        if value is not None and name.endswith("_partitions"):
            row[name] = [AssignedPartition(**each) for each in value]
        if value is not None and name.endswith("_tasks"):
            row[name] = [Task(**each) for each in value]
    return MemberRow(**row)


def in_ms(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


def fails(answer: Json) -> bool:
    """Whether the release does not load the partition (an answer says so, or which records it went on after)."""
    failed = answer["failed"]
    if failed is not None:
        return not (failed["message"] or "").startswith(UNLOADED_AT_THE_END)
    return any(each["stage"] in ("replay", "deserialize") for each in answer.get("errors", []))


def reported_otherwise(answer: Json, tables: Tables) -> list[str]:
    """One line per thing that differs between a partition's recorded answer and the tables."""
    failed: list[int] | None = tables.failed()
    if tables.release.coordinator == "scala":  # its loader does not go on after a failure
        if failed or fails(answer):
            return [] if bool(failed) == fails(answer) else [f"Kafka fails {answer['failed']}, ours {failed}"]
        failed = None
    return differences(as_table_times(answer), tables, failed)


def as_table_times(answer: Any) -> Any:
    """The answer with its times as a TIMESTAMP column has them: -1 is none, others the nearest that it can hold."""
    if isinstance(answer, list):
        return [as_table_times(each) for each in answer]
    if isinstance(answer, dict):
        return {name: _table_time(value) if name in TIMES else as_table_times(value) for name, value in answer.items()}
    return answer


def _table_time(ms: int | None) -> int | None:
    return None if ms is None or ms == -1 else min(max(ms, FIRST_MS), LAST_MS)


def differences(answer: Json, tables: Tables, failed: list[int] | None) -> list[str]:
    """`failed` are the log offsets of failing records; None: the answer does not have them."""
    is_scala = tables.release.coordinator == "scala"
    found: list[str] = []
    if failed is not None:
        said = {e["offset"]: e["message"] for e in answer.get("errors", []) if e["stage"] in ("replay", "deserialize")}
        for offset in sorted(said.keys() ^ set(failed)):
            found.append(f"record {offset}: Kafka {said.get(offset, 'replays it')!r}")
    groups = {row.group_id: row for row in tables.groups()}
    _compare("groups", sorted(g["group"] for g in answer["groups"]), sorted(groups), found)
    members: dict[str, dict[str, Any]] = {group_id: {} for group_id in groups}
    for member in tables.members():
        members[member.group_id][member.member_id] = member
    for group in answer["groups"]:
        row = groups.get(group["group"])
        if row is not None:
            _compare(f"group {row.group_id}", _group_said(group), _group_ours(row), found)
            said_members = {m["memberId"]: _member_said(group, m, tables.release) for m in group["members"]}
            ours = {k: _member_ours(m, group) for k, m in members[row.group_id].items()}
            _compare(f"members of {row.group_id}", said_members, ours, found)
            if group["type"] == "classic":
                _compare(f"topics of {row.group_id}", group["subscribedTopics"], _topics(row, members), found)
    for what, name in (("offsets", "committed_offsets"), ("pending", "pending_offsets")):
        offsets = {_offset_key(each): _offset_said(each, is_scala) for each in answer[what]}
        ours = {
            (getattr(row, "producer_id", None), row.group_id, row.topic, row.partition): _offset_ours(row, is_scala)
            for row in tables.offsets(name)
        }
        _compare(what, offsets, ours, found)
    return found


def _offset_key(offset: Json) -> tuple[Any, ...]:
    return offset.get("producerId"), offset["group"], offset["topic"], offset["partition"]


def _compare(what: str, said: Any, ours: Any, found: list[str]) -> None:
    if said == ours:
        return
    if isinstance(said, dict) and isinstance(ours, dict):
        for key in sorted(said.keys() | ours.keys(), key=str):
            _compare(f"{what} {key}", said.get(key), ours.get(key), found)
        return
    found.append(f"{what}: Kafka {said!r}, ours {ours!r}")


def _none(number: int | None) -> int | None:
    return None if number == -1 else number


def _group_said(group: Json) -> Json:
    said = {"type": group["type"], "state": group.get("stateNow", group["state"]), "members": len(group["members"])}
    if group["type"] == "classic":
        return {
            **said,
            "simple": group["simple"],
            "protocolType": group["protocolType"],
            "protocol": group["protocolName"],
            "generation": group["generation"],
            "leader": group["leader"],
            "timestamp": group["currentStateTimestamp"],
        }
    topology = group.get("topology")
    return {
        **said,
        "groupEpoch": group["groupEpoch"],
        "assignmentEpoch": _none(group["assignmentEpoch"]),
        "hash": group.get("metadataHash"),
        "regexes": {k: v["topics"] for k, v in group.get("resolvedRegexes", {}).items()},
        "topology": None if topology is None else topology["epoch"],
    }


def _group_ours(row: Any) -> Json:
    ours = {"type": row.group_type, "state": row.state, "members": row.member_count}
    if row.group_type == "classic":
        return {
            **ours,
            # The coordinator's word means: without members, too. Ours is about expiry, where members do not count.
            "simple": row.is_simple,
            "protocolType": row.protocol_type,
            "protocol": row.protocol,
            "generation": row.generation,
            "leader": row.leader,
            "timestamp": row.current_state_timestamp,
        }
    return {
        **ours,
        "groupEpoch": row.group_epoch,
        "assignmentEpoch": row.assignment_epoch,
        "hash": row.metadata_hash,
        "regexes": row.resolved_regex_topics or {},
        "topology": None if row.topology is None else json.loads(row.topology)["epoch"],
    }


def _topics(row: Any, members: dict[str, dict[str, Any]]) -> list[str] | None:
    """Topics that spare offsets of a classic group: None, where they are unknown (T15) or there is no such thing."""
    if row.protocol_type != "consumer":
        return None
    lists = [member.subscribed_topics for member in members[row.group_id].values()]
    if lists and (row.protocol is None or any(topics is None for topics in lists)):
        return None
    return sorted({topic for topics in lists for topic in topics})


def _member_said(group: Json, m: Json, release: Release) -> Json:
    said = {
        "client": (m["clientId"], m["clientHost"]),
        "instance": m["instanceId"],
        "rebalance": _none(m.get("rebalanceTimeoutMs")),
        "session": m.get("sessionTimeoutMs"),
    }
    if group["type"] == "classic":
        return said
    said |= {
        "epochs": (_none(m["memberEpoch"]), _none(m["previousMemberEpoch"])),
        "state": m["state"],
        "rack": m["rackId"],
        "assigned": _parts(m["assigned"]),
        "target": _parts(m["targetAssignment"]),
        "pending": _parts(m.get("pendingRevocation")),
    }
    if group["type"] == "streams":
        return said | {"topology": _none(m["topologyEpoch"]), "process": m["processId"]}
    said["topics"] = m["subscribedTopics"]
    if group["type"] == "consumer":
        said |= {
            "regex": m["regex"] or None,
            "assignor": m["serverAssignor"],
            "classic": m["classicProtocols"] is not None,
            "epochsOfPartitions": _epochs(m.get("assignedEpochs")) if release.has_assignment_epochs else {},
        }
    return said


def _parts(parts: Json | None) -> Json:
    """{topic id or role: ...} without what is empty."""
    if parts is None:
        return set()
    if "active" in parts:
        return {
            (role, sub, p) for role in ("active", "standby", "warmup") for sub, ps in parts[role].items() for p in ps
        }
    return {(topic_id, partition) for topic_id, partitions in parts.items() for partition in partitions}


def _epochs(epochs: Json | None) -> Any:
    return {(t, int(p)): e for t, ps in (epochs or {}).items() for p, e in ps.items()}


def _member_ours(m: Any, group: Json) -> Json:
    ours = {
        "client": (m.client_id, m.client_host),
        "instance": m.group_instance_id,
        "rebalance": m.rebalance_timeout_ms,
        "session": m.session_timeout_ms,
    }
    if group["type"] == "classic":
        return ours
    ours |= {
        "epochs": (m.member_epoch, m.previous_member_epoch),
        "state": m.member_state,
        "rack": m.rack_id,
        "assigned": _ours(m.assigned_partitions, m.assigned_tasks),
        "target": _ours(m.target_partitions, m.target_tasks),
        "pending": _ours(m.pending_revocation_partitions, m.pending_revocation_tasks),
    }
    if group["type"] == "streams":
        return ours | {"topology": m.topology_epoch, "process": m.process_id}
    ours["topics"] = m.subscribed_topics
    if group["type"] == "consumer":
        epochs = {(p.topic_id, p.partition): p.assignment_epoch for p in m.assigned_partitions}
        ours |= {
            "regex": m.subscribed_regex,
            "assignor": m.server_assignor,
            "classic": m.uses_classic_protocol,
            "epochsOfPartitions": {slot: epoch for slot, epoch in epochs.items() if epoch is not None},
        }
    return ours


def _ours(partitions: Any, tasks: Any) -> Any:
    if tasks is not None:
        return {tuple(task) for task in tasks}
    return {(p.topic_id, p.partition) for p in partitions or ()}


def _offset_said(o: Json, is_scala: bool) -> Json:
    fields = ("offset", "leaderEpoch", "metadata", "commitTimestamp", "expireTimestamp")
    said = {name: o[name] for name in fields} | {"orphan": o.get("orphan", False)}
    return said if is_scala else said | {"topicId": o["topicId"], "recordOffset": o["recordOffset"]}


def _offset_ours(r: Any, is_scala: bool) -> Json:
    ours = {
        "offset": r.committed_offset,
        "leaderEpoch": r.leader_epoch,
        "metadata": r.metadata,
        "commitTimestamp": r.commit_timestamp,
        "expireTimestamp": r.expire_timestamp,
        "orphan": getattr(r, "is_orphan", False),
    }
    return ours if is_scala else ours | {"topicId": r.topic_id, "recordOffset": r.log_offset}
