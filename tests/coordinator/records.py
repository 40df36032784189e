"""Hand-made records, as short as a line each: a log that is replayed up to its end whenever it is asked."""

from __future__ import annotations

from typing import Any

from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.replay.shard import Night
from kgroups_spark.replay.state import LogState, loaded, saved
from tests.coordinator.log_rows import OffsetAndMetadata, ReplayRow
from tests.coordinator.oracle_answers import Tables
from tests.replay.replayed_shards import Shard

T = 1_000_000_000_000
X, Y = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


class Log:
    """Records at offsets 0, 1, 2, ..., replayed when something is asked: all since the last time together.

    Record n has the log timestamp T + n.
    """

    def __init__(self, version: str = "4.3", offsets_partitions: int | None = None) -> None:
        self._shard = Shard(Night(1, version, offsets_partitions, Topics()))
        self._replayed = -1
        self.rows: list[ReplayRow] = []

    def append(self, kind: str, **fields: Any) -> Log:
        self.rows.append(ReplayRow(len(self.rows), T + len(self.rows), kind, **fields))  # type: ignore[arg-type]
        return self

    @property
    def tables(self) -> Tables:
        if self._replayed < len(self.rows):
            self._shard.replay(self.rows[max(self._replayed, 0) :])
            self._replayed = len(self.rows)
        return self._shard.tables

    @property
    def state(self) -> LogState:
        assert self.tables
        return self._shard.state

    @property
    def failed(self) -> dict[int, str]:
        """Offset -> message of the records at which a load fails."""
        return {row["log_offset"]: row["detail"] for row in self.tables.rows("quarantine")}

    def reload(self) -> Log:
        """Goes on from the saved state."""
        self._shard.state = loaded(saved(self.state), self._shard.night.release)
        return self

    def commit(self, offset: int, topic: str = "t", partition: int = 0, group: str = "g", **fields: Any) -> Log:
        """A value of type 1, plain; with `producer` a transactional one."""
        names = ("leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id", "value_version")
        value = {
            "leader_epoch": None,
            "metadata": "",
            "commit_timestamp": T,
            "expire_timestamp": None,
            "topic_id": None,
        }
        value = {**value, "value_version": 3, **{name: fields.pop(name) for name in names if name in fields}}
        slot = {"group_id": group, "topic": topic, "partition": partition}
        record_type = fields.pop("record_type", 1)
        commit = OffsetAndMetadata(offset, **value)
        return self.append("offset_commit", record_type=record_type, **slot, commit=commit, **_producer(fields))

    def tombstone(self, topic: str = "t", partition: int = 0, group: str = "g", **fields: Any) -> Log:
        slot = {"group_id": group, "topic": topic, "partition": partition}
        record_type = fields.pop("record_type", 1)
        return self.append("offset_commit", record_type=record_type, **slot, **_producer(fields))

    def end(self, producer: int, outcome: str | None) -> Log:
        return self.append("marker", producer_id=producer, outcome=outcome)

    def record(
        self, record_type: int, value: dict | None, member: str | None = None, group: str = "g", **fields: Any
    ) -> Log:
        """A record of types 2 to 23; for type 16 `member` is the regular expression."""
        is_regex = record_type == 16
        names: dict[str, Any] = {
            "member_id": None if is_regex else member,
            "regular_expression": member if is_regex else None,
        }
        names |= {"value_version": None if value is None else 0} | fields
        return self.append("group_record", record_type=record_type, group_id=group, value=value, **names)

    def group(self, group: str = "g") -> Any:
        """The group's row; None: there is none."""
        return next((row for row in self.tables.groups() if row.group_id == group), None)

    def states(self) -> dict[str, str]:
        return {row.group_id: f"{row.group_type} {row.state}" for row in self.tables.groups()}

    def members(self, group: str = "g") -> dict[str, Any]:
        return {row.member_id: row for row in self.tables.members() if row.group_id == group}

    def offsets(self) -> list[tuple[str, int, bool]]:
        """Topic, committed offset and whether the group is missing."""
        rows = self.tables.offsets("committed_offsets")
        return [(row.topic, row.committed_offset, row.is_orphan) for row in rows]


def _producer(fields: dict[str, Any]) -> dict[str, Any]:
    producer = fields.pop("producer", None)
    if producer is None:
        return fields
    return {"producer_id": producer, "producer_epoch": 0, "is_transactional": True, **fields}


def classic(
    members: list[dict] | None = None,
    *,
    protocol_type: str = "consumer",
    protocol: str | None = "range",
    generation: int = 3,
    leader: str | None = None,
    timestamp: int = -1,
) -> dict:
    """A GroupMetadata value."""
    return {
        "protocolType": protocol_type,
        "generation": generation,
        "protocol": protocol if members else None,
        "leader": leader,
        "currentStateTimestamp": timestamp,
        "members": members or [],
    }


def classic_member(member_id: str = "m1", topics: list[str] | None = None, **fields: Any) -> dict:
    """A member of one, subscribed to `topics` (default: t)."""
    member = {
        "memberId": member_id,
        "groupInstanceId": None,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 60000,
        "sessionTimeout": 10000,
        "subscription": {"version": 3, "topics": topics or ["t"], "userData": None, "rackId": None},
        "assignment": {"version": 1, "assignedPartitions": [{"topic": "t", "partitions": [0]}], "userData": None},
        **fields,
    }
    raw = {name for name in fields if name.endswith("Raw")}
    return {name: value for name, value in member.items() if f"{name}Raw" not in raw}


def epoch(number: int, **fields: Any) -> dict:
    """A value of type 3, 11 or 17."""
    return {"epoch": number, "metadataHash": 0, "validatedTopologyEpoch": -1, "lastAssignmentConfigs": None, **fields}


def target_epoch(number: int) -> dict:
    """A value of type 6, 12 or 20."""
    return {"assignmentEpoch": number, "assignmentTimestamp": 0}


def target(*partitions: int, topic_id: str = X) -> dict:
    """A value of type 7 or 13."""
    return {"topicPartitions": [{"topicId": topic_id, "partitions": list(partitions)}] if partitions else []}


def consumer_member(topics: list[str] | None = None, **fields: Any) -> dict:
    """A value of type 5."""
    return {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "subscribedTopicNames": topics or ["t"],
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": 300000,
        "serverAssignor": None,
        "classicMemberMetadata": None,
        **fields,
    }


def current(member_epoch: int, *partitions: int, state: int = 0, previous: int = 0, **fields: Any) -> dict:
    """A value of type 8 or 14."""
    assigned = [{"topicId": X, "partitions": list(partitions), "assignmentEpochs": None}] if partitions else []
    return {
        "memberEpoch": member_epoch,
        "previousMemberEpoch": previous,
        "state": state,
        "assignedPartitions": assigned,
        "partitionsPendingRevocation": [],
        **fields,
    }


def share_member(topics: list[str] | None = None) -> dict:
    """A value of type 10."""
    return {"rackId": None, "clientId": "c", "clientHost": "/h", "subscribedTopicNames": topics or ["t"]}


def streams_member(**fields: Any) -> dict:
    """A value of type 19."""
    return {
        "instanceId": None,
        "rackId": None,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeoutMs": 300000,
        "topologyEpoch": 1,
        "processId": "p",
        "userEndpoint": None,
        "clientTags": [],
        **fields,
    }


def tasks(*partitions: int, subtopology: str = "0") -> list[dict]:
    return [{"subtopologyId": subtopology, "partitions": list(partitions), "assignmentEpochs": None}]


def streams_current(member_epoch: int, *partitions: int, state: int = 1) -> dict:
    """A value of type 22 with active tasks."""
    empty = {f"{role}Tasks{end}": [] for role in ("active", "standby", "warmup") for end in ("", "PendingRevocation")}
    return {
        **empty,
        "memberEpoch": member_epoch,
        "previousMemberEpoch": 0,
        "state": state,
        "activeTasks": tasks(*partitions) if partitions else [],
    }


def streams_target(*partitions: int) -> dict:
    """A value of type 21 with active tasks."""
    return {"activeTasks": tasks(*partitions), "standbyTasks": [], "warmupTasks": []}


def topology(number: int, source: str = "src") -> dict:
    """A value of type 23."""
    subtopology = {"subtopologyId": "0", "sourceTopics": [source], "repartitionSourceTopics": []}
    return {"epoch": number, "subtopologies": [{**subtopology, "stateChangelogTopics": []}]}


# All that a shard's state holds.


def everything(version: str = "4.3") -> Log:
    """A log with something of every kind in its state."""
    log = Log(version).commit(1, topic_id=X).commit(2, "u", producer=1).commit(9, producer=2).tombstone()
    log.record(2, classic([classic_member("m1")]), group="classic").commit(5, group="classic")
    log.record(2, classic(), group="gone").commit(6, group="gone").record(2, None, group="gone")
    log.record(5, consumer_member(), "m", group="c").record(7, target(0), "m", group="c")
    log.record(8, current(1, 0), "m", group="c").record(16, {"topics": ["t"]}, "r", group="c")
    log.record(10, share_member(), "m", group="s").record(14, current(1, 0), "m", group="s")
    log.record(13, target(1), "m", group="s").record(12, target_epoch(3), group="s")
    log.record(19, streams_member(), "m", group="st").record(23, topology(1), group="st")
    log.record(17, epoch(2, validatedTopologyEpoch=1), group="st").record(22, streams_current(2, 0), "m", group="st")
    return log.record(21, streams_target(0), "m", group="st")
