"""Random logs with many events: groups are created, removed and changed; offsets rise, are rewound, removed and
restarted.

Each batch has its own time, like the records of one act of a coordinator. As bytes of segments.
"""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.findings.record_bytes import Json, blob, record
from tests.logs.dense_logs import CONTROL, TRANSACTIONAL
from tests.logs.log_files import Files
from tests.records.build import KeyValue, batch

MINUTE = 60_000
GROUPS, TOPICS, PARTITIONS, PRODUCERS = ("a", "b", "c"), ("t", "u"), 2, (1, 2)
TOPIC_IDS = [base64.urlsafe_b64encode(bytes(15) + bytes([number])).decode().rstrip("=") for number in (1, 2)]


@dataclass
class EventLog:
    """One offsets partition. `retention_ms`: the retention by which the log's offsets expire."""

    seed: int
    batches: int = 60
    retention_ms: int = 60 * MINUTE
    now: int = 1_000_000_000_000
    offset: int = 0
    data: bytes = b""
    position: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng, self.other_rng = random.Random(self.seed), random.Random(self.seed)
        self.topic_id = dict.fromkeys(TOPICS, TOPIC_IDS[0])
        acts: dict[Callable[[], None], int] = {
            self.commits: 14,
            self.pending: 6,
            self.marker: 6,
            self.snapshot: 4,
            self.modern_group: 3,
            self.tombstones_of_offsets: 2,
            self.group_deleted: 2,
            self.topic_deleted: 1,
            self.conversion: 1,
            self.two_groups_of_tombstones: 1,
        }
        for _ in range(self.batches):
            self.now += self.rng.choice([1, 1000, MINUTE, 20 * MINUTE, 45 * MINUTE])
            self.rng.choices(list(acts), list(acts.values()))[0]()

    @property
    def files(self) -> Files:
        return {"__consumer_offsets-0/00000000000000000000.log": self.data}

    # The acts of a coordinator: each appends one batch.

    def commits(self) -> None:
        group = self.rng.choice(GROUPS)
        self.append([self.value(group) for _ in range(self.rng.choice([1, 2, 4]))])

    def pending(self) -> None:
        group = self.rng.choice(GROUPS)
        self.append([self.value(group) for _ in range(self.rng.choice([1, 2]))], producer=self.rng.choice(PRODUCERS))

    def marker(self) -> None:
        control = struct.pack(">hh", 0, self.rng.choice([0, 1, 1])), struct.pack(">hi", 0, 4)
        self.append([control], producer=self.rng.choice(PRODUCERS), attributes=TRANSACTIONAL | CONTROL)

    def snapshot(self) -> None:
        self.append([self.classic(self.rng.choice(GROUPS))])

    def modern_group(self) -> None:
        group, member = self.rng.choice(GROUPS), self.rng.choice("mn")
        epoch = self.rng.randrange(1, 5)
        records = self.rng.choice(
            [
                [self.member(group, member), self.epoch(group, epoch), self.assigned(group, member, epoch)],
                [self.assigned(group, member, epoch)],
                [self.gone(8, group, member), self.gone(7, group, member), self.gone(5, group, member)],
                [self.gone(6, group), self.gone(3, group)],
            ]
        )
        if self.other_rng.random() < 0.3:  # a static member comes back under another id
            old, new = self.other_rng.choice(["no", "on"])
            records = [*(self.gone(kind, group, old) for kind in (8, 7, 5)), self.member(group, new)]
        self.append(records)

    def tombstones_of_offsets(self) -> None:
        group, topic = self.rng.choice(GROUPS), self.rng.choice(TOPICS)
        self.append([self.tombstone(group, topic, number) for number in range(self.rng.choice([1, PARTITIONS]))])

    def group_deleted(self) -> None:
        group = self.rng.choice(GROUPS)
        slots = [self.tombstone(group, topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        self.append([*slots, self.gone(2, group)])

    def topic_deleted(self) -> None:
        topic = self.rng.choice(TOPICS)
        self.append([self.tombstone(group, topic, number) for group in GROUPS for number in range(PARTITIONS)])
        if self.rng.random() < 0.7:
            self.topic_id[topic] = self.rng.choice(TOPIC_IDS)
            self.position = {slot: at for slot, at in self.position.items() if slot[1] != topic}

    def conversion(self) -> None:
        group = self.rng.choice(GROUPS)
        self.append([self.gone(2, group), self.member(group, "m"), self.epoch(group, 3), self.assigned(group, "m", 3)])

    def two_groups_of_tombstones(self) -> None:
        self.append([self.tombstone(group, "t", 0) for group in GROUPS[:2]] + [self.gone(2, GROUPS[0])])

    # Records.

    def value(self, group: str) -> KeyValue:
        topic, partition = self.rng.choice(TOPICS), self.rng.randrange(PARTITIONS)
        slot = (group, topic, partition)
        step = -self.rng.randrange(1, 50) if self.rng.random() < 0.08 else self.rng.choice([0, 1, 5, 40])
        at = self.position[slot] = max(0, self.position.get(slot, self.rng.randrange(200)) + step)
        if self.other_rng.random() < 0.02:
            at = self.position[slot] = -1
        version = self.rng.choice([1, 3, 4, 4, 4, 4])
        committed = self.now - self.rng.choice([0, 0, 0, 30 * MINUTE])
        value = {"offset": at, "leaderEpoch": 7, "commitTimestamp": committed, "topicId": self.topic_id[topic]}
        if version == 1:
            value["expireTimestamp"] = self.rng.choice([-1, self.now + 30 * MINUTE])
        return record(1, {"group": group, "topic": topic, "partition": partition}, value, version)

    def tombstone(self, group: str, topic: str, partition: int) -> KeyValue:
        return record(1, {"group": group, "topic": topic, "partition": partition}, None)

    def classic(self, group: str) -> KeyValue:
        """GroupMetadata with some of three members, each with one of the partitions."""
        members = []
        ids = sorted(self.rng.sample("xyz", self.rng.choice([0, 0, 1, 2])))
        for number, member in enumerate(ids):
            subscription = {"topics": [self.rng.choice(TOPICS)], "userData": None, "ownedPartitions": []}
            assigned = {"assignedPartitions": [{"topic": "t", "partitions": [number]}], "userData": None}
            is_static = number == 0 and self.other_rng.random() < 0.4
            facts = {"memberId": member, "groupInstanceId": "k" if is_static else None, "clientId": "c"}
            facts |= {"clientHost": "/h", "rebalanceTimeout": 9000, "sessionTimeout": 9000}
            facts |= {"subscription": blob("ConsumerProtocolSubscription", subscription, 1)}
            members.append(facts | {"assignment": blob("ConsumerProtocolAssignment", assigned, 1)})
        kind = self.rng.choice(["consumer", "consumer", "consumer", "connect" if not ids else "consumer", ""])
        value: Json = {"protocolType": kind if not ids or kind else "consumer", "generation": self.rng.randrange(4)}
        value |= {"protocol": "range", "leader": ids[0]} if ids else {"protocol": None, "leader": None}
        value["currentStateTimestamp"] = self.rng.choice([self.now, self.now - MINUTE, -1])
        return record(2, {"group": group}, value | {"members": members}, 3)

    def member(self, group: str, member: str) -> KeyValue:
        value = {"instanceId": None if member == "m" else "j", "rackId": None, "clientId": "c", "clientHost": "/h"}
        value |= {"subscribedTopicNames": [self.rng.choice(TOPICS)], "subscribedTopicRegex": ""}
        value |= {"rebalanceTimeoutMs": 9000, "serverAssignor": None, "classicMemberMetadata": None}
        return record(5, {"groupId": group, "memberId": member}, value)

    def epoch(self, group: str, epoch: int) -> KeyValue:
        return record(3, {"groupId": group}, {"epoch": epoch})

    def assigned(self, group: str, member: str, epoch: int) -> KeyValue:
        partitions = list(range(self.rng.randrange(3)))
        value = {"memberEpoch": epoch, "previousMemberEpoch": epoch - 1, "state": 0, "partitionsPendingRevocation": []}
        topics = [{"topicId": TOPIC_IDS[0], "partitions": partitions}] if partitions else []
        return record(8, {"groupId": group, "memberId": member}, value | {"assignedPartitions": topics})

    def gone(self, record_type: int, group: str, member: str | None = None) -> KeyValue:
        key = {"group" if record_type == 2 else "groupId": group}
        return record(record_type, key if member is None else key | {"memberId": member}, None)

    def append(self, records: list[KeyValue], producer: int = -1, attributes: int = TRANSACTIONAL) -> None:
        transactional = {} if producer < 0 else {"attributes": attributes, "producer_epoch": 0, "producer_id": producer}
        self.data += batch(self.offset, records, base_timestamp=self.now, max_timestamp=self.now, **transactional)
        self.offset += len(records) + self.rng.choice([0, 0, 2])
