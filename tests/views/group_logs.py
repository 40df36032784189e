"""Logs of groups made by hand, record by record, and the tables that an audit makes of them: history and versions."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.rows import GroupVersion
from kgroups_spark.messages.coordinator_records import CONSUMER_OFFSETS
from tests.lake.table_rows import rows_of
from tests.twin.offset_metadata import OffsetAndMetadata
from tests.twin.shard import Shard
from tests.views.recorded import EPOCH

Json = dict[str, Any]
T0 = datetime(2026, 11, 16, tzinfo=EPOCH.tzinfo)
T0_MS = int(T0.timestamp() * 1000)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


class GroupLog:
    """One offsets partition. Every record has the next log offset, and the time that was set last."""

    def __init__(self, offsets_partition: int = 0, release_version: str = "4.3") -> None:
        self.offsets_partition = offsets_partition
        self.log_offset = -1
        self.seconds: float | None = 0
        self._shard = Shard(release(release_version), offsets_partition, recording=True)
        self._rows: dict[str, list[Json]] = {"group_records": [], "group_versions": [], "group_member_versions": []}

    def at(self, seconds: float | None) -> GroupLog:
        self.seconds = seconds
        return self

    def record(self, record_type: int, group_id: str, value: Json | None, member_id: str | None = None) -> GroupLog:
        """A record of types 2 to 23; None: its tombstone."""
        self.log_offset += 1
        time = None if self.seconds is None else T0_MS + round(self.seconds * 1000)
        version = None if value is None else 3 if record_type == 2 else 0
        self._shard.replay_group_record(
            self.log_offset, time, record_type, group_id, member_id, None, value, value_version=version
        )
        self._add(
            "group_records",
            {
                "log_offset": self.log_offset,
                "log_timestamp": None if self.seconds is None else at(self.seconds),
                "record_type": record_type,
                "record_name": CONSUMER_OFFSETS[record_type].name,
                "group_id": group_id,
                "member_id": member_id,
                "value_version": version,
                "value": None if value is None else json.dumps(value),
            },
        )
        return self

    def commit(self, group_id: str) -> GroupLog:
        """An offset commit, which makes a simple group where there is none; its row is in no table here."""
        self.log_offset += 1
        value = OffsetAndMetadata(1, None, "", 0, None, None, 3)
        time = None if self.seconds is None else T0_MS + round(self.seconds * 1000)
        self._shard.replay_offset_commit(self.log_offset, time, 1, group_id, "t", 0, value)
        return self

    def rows(self) -> dict[str, list[Json]]:
        self._collect()
        return self._rows

    def _collect(self) -> None:
        for version in self._shard.take_changes():
            name = "group_versions" if isinstance(version, GroupVersion) else "group_member_versions"
            row = version._asdict()
            for column in ("log_timestamp", "current_state_timestamp", "state_since"):
                if row.get(column) is not None:
                    row[column] = EPOCH + timedelta(milliseconds=row[column])
            for column in ("assigned_partitions", "pending_revocation_partitions", "target_partitions"):
                row |= {column: None if not row.get(column) else [each._asdict() for each in row[column]]}
            self._add(name, row)

    def _add(self, name: str, row: Json) -> None:
        self._rows[name].append({**row, "offsets_partition": self.offsets_partition, "audit_id": 1})


def tables_of(*logs: GroupLog) -> dict[str, pa.Table]:
    """The tables of a lake with these logs."""
    rows: dict[str, list[Json]] = {}
    for log in logs:
        for name, its in log.rows().items():
            rows.setdefault(name, []).extend(its)
    return {name: rows_of(name, *its) for name, its in rows.items()}


# ---- classic groups


def generation(number: int, *members: Json, protocol: str = "range", protocol_type: str = "consumer") -> Json:
    """A GroupMetadata value; its members had joined 2 s before T0 + `number` minutes, whatever the record's time is."""
    return {
        "protocolType": protocol_type,
        "generation": number,
        "protocol": protocol if members else None,
        "leader": members[0]["memberId"] if members else None,
        "currentStateTimestamp": T0_MS + 60_000 * number - 2_000,
        "members": list(members),
    }


PLACEHOLDER = generation(0, protocol_type="")


def classic_member(member_id: str, assigned: str = "", topics: str = "t", instance: str | None = None) -> Json:
    """A member of a GroupMetadata value. `assigned`: as "t:0 t:1"; `topics`: as "t u"."""
    partitions: dict[str, list[int]] = {}
    for topic, partition in (each.split(":") for each in assigned.split()):
        partitions.setdefault(topic, []).append(int(partition))
    of = [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]
    blob = {"version": 0, "userData": None}
    subscription = {**blob, "topics": topics.split(), "ownedPartitions": [], "generationId": -1, "rackId": None}
    return {
        "memberId": member_id,
        "groupInstanceId": instance,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 10_000,
        "subscription": subscription,
        "assignment": {**blob, "assignedPartitions": of},
    }


# ---- consumer, share and streams groups


def member(topics: str = "t", *, regex: str = "", instance: str | None = None, assignor: str | None = None) -> Json:
    """The value of type 5, or 10."""
    return {
        "instanceId": instance,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "subscribedTopicNames": topics.split(),
        "subscribedTopicRegex": regex,
        "rebalanceTimeoutMs": 1000,
        "serverAssignor": assignor,
        "classicMemberMetadata": None,
    }


def streams_member() -> Json:
    """The value of type 19."""
    value = {"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h", "rebalanceTimeoutMs": 1000}
    return value | {"topologyEpoch": 0, "processId": "p", "userEndpoint": None, "clientTags": []}


def epoch(number: int, metadata_hash: int = 7) -> Json:
    """The value of type 3, 11 or 17."""
    streams = {"validatedTopologyEpoch": 0, "lastAssignmentConfigs": None}
    return {"epoch": number, "metadataHash": metadata_hash, **streams}


def target(number: int) -> Json:
    """The value of type 6, 12 or 20."""
    return {"assignmentEpoch": number, "assignmentTimestamp": 0}


NO_TARGET: Json = {"topicPartitions": []}


def current(number: int, state: int = 0) -> Json:
    """The value of type 8 or 14: the member's epoch, and 0 stable, 1 has to give up, 2 waits for others."""
    value = {"memberEpoch": number, "previousMemberEpoch": number - 1, "state": state}
    return value | {"assignedPartitions": [], "partitionsPendingRevocation": []}


def current_tasks(number: int, state: int = 1) -> Json:
    """The value of type 22, whose states count from 1."""
    roles = ("activeTasks", "standbyTasks", "warmupTasks")
    tasks: Json = {name: [] for role in roles for name in (role, f"{role}PendingRevocation")}
    return {"memberEpoch": number, "previousMemberEpoch": number - 1, "state": state, **tasks}
