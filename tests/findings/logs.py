"""Logs of one offsets partition, written record by record as coordinators write them: bytes of segments."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime
from typing import Any

from tests.findings.record_bytes import Json, blob, record
from tests.logs.log_files import Files
from tests.records.build import KeyValue, batch

START = 1_760_000_000_000  # 2025-10-09 08:53:20 UTC
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
TRANSACTIONAL, CONTROL = 0x10, 0x20
TOPIC_IDS = {
    name: base64.urlsafe_b64encode(bytes(15) + bytes([n])).decode().rstrip("=") for n, name in enumerate("?tuv")
}


class Log:
    """A log. Appended records have its time, which `later` moves. Methods return the log, to be chained."""

    def __init__(self, offsets_partition: int = 0, now: int = START) -> None:
        self.offsets_partition = offsets_partition
        self.now = now
        self.offset = 0
        self._batches: list[dict[str, Any]] = []

    @property
    def files(self) -> Files:
        """One segment, whose bytes are made here: an hour's commits take as long as a hundred other logs."""
        return {f"__consumer_offsets-{self.offsets_partition}/{0:020d}.log": self.data}

    @property
    def data(self) -> bytes:
        return b"".join(batch(**each) for each in self._batches)

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now / 1000, UTC)

    def later(self, ms: int) -> Log:
        self.now += ms
        return self

    def tick(self, ms: int) -> Log:
        """Moves the time, and leaves a record of it."""
        return self.later(ms).commit("clock")

    def append(self, *records: KeyValue, **fields: Any) -> Log:
        """One batch."""
        times = {"base_timestamp": self.now, "max_timestamp": self.now}
        self._batches.append({"base_offset": self.offset, "records": records, **times, **fields})
        self.offset += len(records)
        return self

    # Offsets.

    def commit(
        self,
        group: str,
        topic: str = "t",
        partition: int = 0,
        *,
        offset: int = 5,
        producer: int | None = None,
        in_transaction: bool = True,
        committed_ago: int = 0,
        topic_id: str | None = None,
        times: int = 1,
    ) -> Log:
        """An offset, `times` times; with `producer` in a transaction of it, or idempotently."""
        value = {"offset": offset, "commitTimestamp": self.now - committed_ago}
        if topic_id is not None:
            value["topicId"] = topic_id
        key = {"group": group, "topic": topic, "partition": partition}
        one = record(1, key, value, version=3 if topic_id is None else 4)
        fields = {}
        if producer is not None:
            bits = TRANSACTIONAL if in_transaction else 0
            fields = {"attributes": bits, "producer_id": producer, "producer_epoch": 0}
        return self.append(*[one] * times, **fields)

    def remove_offset(self, group: str, topic: str = "t", partition: int = 0) -> Log:
        return self.append(record(1, {"group": group, "topic": topic, "partition": partition}, None))

    def end(self, producer: int, *, commit: bool = True) -> Log:
        marker = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 4)
        bits = TRANSACTIONAL | CONTROL
        return self.append(marker, attributes=bits, producer_id=producer, producer_epoch=0)

    # Classic groups.

    def classic(
        self,
        group: str,
        *members: Json,
        protocol_type: str = "consumer",
        since: int | None = None,
        generation: int = 1,
    ) -> Log:
        value: Json = {"protocolType": protocol_type, "generation": generation}
        value["currentStateTimestamp"] = since or self.now
        value |= (
            {"protocol": "range", "leader": members[0]["memberId"]} if members else {"protocol": None, "leader": None}
        )
        return self.append(record(2, {"group": group}, value | {"members": list(members)}, version=3))

    # Consumer, share and streams groups; tests/logs/in_words.py has them in words.

    def group_epoch(self, group: str, epoch: int, record_type: int = 3) -> Log:
        return self.append(record(record_type, {"groupId": group}, {"epoch": epoch}))

    def member(self, group: str, member: str, *topics: str, record_type: int = 5, **fields: Any) -> Log:
        return self.append(member_record(member, *topics, group=group, record_type=record_type, **fields))

    def current(self, group: str, member: str, *, epoch: int = 2, state: int = 0, record_type: int = 8) -> Log:
        value = {"memberEpoch": epoch, "previousMemberEpoch": epoch - 1, "state": state, "assignedPartitions": []}
        return self.append(record(record_type, {"groupId": group, "memberId": member}, value))

    def gone(self, record_type: int, group: str, member: str | None = None) -> Log:
        key = {"group" if record_type == 2 else "groupId": group}
        return self.append(record(record_type, key if member is None else key | {"memberId": member}, None))


def member_record(member: str, *topics: str, group: str = "g", record_type: int = 5, **fields: Any) -> KeyValue:
    value: Json = {"clientId": f"client-{member}", "clientHost": "/10.0.0.7", "rackId": None}
    if record_type != 10:
        value["instanceId"] = None
    if record_type != 19:
        value["subscribedTopicNames"] = list(topics)
    if record_type == 5:
        value |= {"rebalanceTimeoutMs": 300_000, "subscribedTopicRegex": "", "classicMemberMetadata": None}
        value["serverAssignor"] = None
    return record(record_type, {"groupId": group, "memberId": member}, value | fields)


def classic_member(member: str, *partitions: int, topics: tuple[str, ...] = ("t",), **fields: Any) -> Json:
    assigned = [{"topic": topics[0], "partitions": list(partitions)}] if topics and partitions else []
    return {
        "memberId": member,
        "groupInstanceId": None,
        "clientId": f"client-{member}",
        "clientHost": "/10.0.0.7",
        "rebalanceTimeout": 300_000,
        "sessionTimeout": 45_000,
        "subscription": blob("ConsumerProtocolSubscription", {"topics": list(topics), "userData": None}),
        "assignment": blob("ConsumerProtocolAssignment", {"assignedPartitions": assigned, "userData": None}),
        **fields,
    }
