"""Segments of `__consumer_offsets` as a busy cluster leaves them before compaction, as many records as asked for.

A `hard` log is the default. It has about 989 offset commits in 1,000 records (version 3, then 4; one in seven with
metadata; 11 a batch). The others are 5 of the metadata of classic groups (5 to 50 members; a third of the bytes), 2 of
KIP-848 groups, 2 tombstones and 2 that end transactions. In a `usual` log one record in 5,000 belongs to a group.

3 % of the commit batches are transactional: two thirds by producers that return with every transaction, as in Kafka
Streams and Connect, the others by producers that never return. One transaction in ten aborts, a few stay open. The same
shape gives the same bytes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import wire
from kgroups_spark.messages.coordinator_records import absolute_hashes

SEGMENT_BYTES = 100 << 20
FIRST_TIMESTAMP_MS = 1_760_000_000_000
SLOTS_PER_GROUP = 50
LARGEST_BATCH = 50
WITH_METADATA, ABORTED, COMES_AGAIN = 0.15, 0.1, 0.67
# Batches in 10,000 that are not commits: a classic group's metadata (1 record), a member's step (4), tombstones (4). A
# commit batch has 11 records.
OTHER_BATCHES = {"hard": (550, 60, 50), "usual": (10, 3, 50)}
LIVE_MEMBERS = 3
TEAMS = ("payments", "orders", "inventory", "search", "ledger", "shipping", "pricing", "fraud")
ROLES = ("indexer", "enricher", "projection", "notifier", "aggregator", "sink", "audit-writer")
EVENTS = ("created.v1", "updated.v2", "events", "snapshots.compacted")


@dataclass(frozen=True)
class Shape:
    """The log to generate. `transactional`: share of the commit batches. `skew`: the first partition's share of the
    records, while all others have equal shares; 0: all shares are equal. `slots`: the offsets of a group of
    generate_live. `members`: those of a group of generate_rebalance."""

    records: int
    partitions: int = 8
    codec: str = "none"
    transactional: float = 0.03
    groups: int = 2000
    seed: int = 1
    kind: str = "hard"
    skew: float = 0.0
    slots: int = SLOTS_PER_GROUP
    members: int = 0

    def shares(self) -> list[int]:
        """The records of each partition."""
        first = self.skew or 1 / self.partitions
        bounds = [0.0, *(first + (1 - first) * n / max(1, self.partitions - 1) for n in range(self.partitions))]
        ends = [round(self.records * bound) for bound in bounds]
        return [end - start for start, end in itertools.pairwise(ends)]


@dataclass
class Slot:
    """One group, topic and partition: its key after its length, and the group's committed offset."""

    topic: str
    partition: int
    key: bytes
    topic_id: bytes
    metadata: bytes
    position: int = 0


@dataclass
class Group:
    group_id: str
    slots: list[Slot]
    topics: list[str]
    producers: list[int]  # the producers that return with its transactions
    generation: int = 0
    epoch: int = 0


def generate(folder: Path, shape: Shape) -> int:
    """Writes the segments below the folder; returns the number of records."""
    placed, shares = _groups(shape), shape.shares()
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(partial(_write, folder, shape), placed, placed.values(), shares))


def generate_nights(folder: Path, shape: Shape, nights: int) -> int:
    """Writes one log as so many nights left it, `shape.records` each: the segments that night n added are below
    `folder/n`. Returns the number of records."""
    placed, shares = _groups(shape), shape.shares()
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(partial(_write_nights, folder, shape, nights), placed, placed.values(), shares))


def _write_nights(folder: Path, shape: Shape, nights: int, partition: int, groups: list[Group], records: int) -> int:
    log = PartitionLog(folder, shape, partition, groups)
    for night in range(1, nights + 1):
        log.folder = folder / str(night) / f"__consumer_offsets-{partition}"
        log.write(records * night)
    return log.write(0)


def generate_live(folder: Path, shape: Shape) -> int:
    """Writes two nights of a log in which every commit of the first is a live offset: `shape.groups` groups with
    `shape.slots` each, of which the second night commits those of each hundredth group again. The segments of night
    n are below `folder/n`. Returns the number of records."""
    placed: dict[int, list[str]] = {p: [] for p in range(shape.partitions)}
    names = [f"{TEAMS[n % len(TEAMS)]}-{ROLES[n % len(ROLES)]}-{n}" for n in range(shape.groups)]
    for name, partition in zip(names, (absolute_hashes(names) % shape.partitions).tolist(), strict=True):
        placed[partition].append(name)
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(partial(_write_live, folder, shape), placed, placed.values()))


def _write_live(folder: Path, shape: Shape, partition: int, names: list[str]) -> int:
    log = PartitionLog(folder, shape, partition, [])
    for night, chosen in enumerate((names, names[::100]), 1):
        log.folder = folder / str(night) / f"__consumer_offsets-{partition}"
        log.write_live(chosen, with_members=night == 1)
    return log.write(0)


def generate_rebalance(folder: Path, shape: Shape) -> int:
    """Writes a log of classic groups that never stop rebalancing: snapshots with the same `shape.members` members, of
    one group after the other, `shape.records` of members in all. Returns the number of records."""
    (groups,) = _groups(replace(shape, partitions=1)).values()
    return PartitionLog(folder / "__consumer_offsets-0", shape, 0, groups).write_rebalance()


def _write(folder: Path, shape: Shape, partition: int, groups: list[Group], records: int) -> int:
    if not groups:  # some of very many partitions
        return 0
    return PartitionLog(folder / f"__consumer_offsets-{partition}", shape, partition, groups).write(records)


def _groups(shape: Shape) -> dict[int, list[Group]]:
    """All groups, by their offsets partition."""
    rng = random.Random(shape.seed)
    placed: dict[int, list[Group]] = {p: [] for p in range(shape.partitions)}
    for number in range(shape.groups):
        name = f"{rng.choice(TEAMS)}-{rng.choice(ROLES)}-{number}"
        group_id = f"connect-{name}" if number % 10 == 0 else name
        partition = int(absolute_hashes([group_id])[0] % shape.partitions)
        placed[partition].append(_group(rng, group_id, number))
    return placed


def _group(rng: random.Random, group_id: str, number: int) -> Group:
    count = rng.randint(1, len(EVENTS))
    topics = [f"{rng.choice(TEAMS)}.{EVENTS[t]}-{rng.randrange(40)}" for t in range(count)]
    slots = [slot for topic in topics for slot in _slots(group_id, topic, SLOTS_PER_GROUP // count)]
    return Group(group_id, slots, topics, [4000 + 10 * number + i for i in range(rng.randint(1, 3))])


def _slots(group_id: str, topic: str, partitions: int) -> list[Slot]:
    id_ = topic_id(topic)
    keys = [wire.with_length(wire.offset_commit_key(group_id, topic, number)) for number in range(partitions)]
    of = [f"host-{number}/task-{number % 7}@{group_id}".encode() for number in range(partitions)]
    return [Slot(topic, number, keys[number], id_, of[number]) for number in range(partitions)]


def topic_id(topic: str) -> bytes:
    """16 bytes that are the topic's id."""
    return random.Random(topic).randbytes(16)


class PartitionLog:
    """The log of one offsets partition, written batch by batch."""

    def __init__(self, folder: Path, shape: Shape, partition: int, groups: list[Group]) -> None:
        self.folder = folder
        self._shape = shape
        self._groups = groups
        self._rng = random.Random(shape.seed * 1_000_003 + partition)
        self._single_producers = 1_000_000 * (partition + 1)
        self._open: dict[int, int] = {}  # producer id -> batches until its marker
        self._offset = 0
        self._now = FIRST_TIMESTAMP_MS

    def write(self, records: int) -> int:
        """Writes on, into a new segment, until the log has about as many records. Returns the number of its records."""
        self.folder.mkdir(parents=True, exist_ok=True)
        version_4_from = records // 2
        while self._offset < records:
            with open(self.folder / f"{self._offset:020d}.log", "wb") as segment:
                while self._offset < records and segment.tell() < SEGMENT_BYTES:
                    is_v4 = (self._offset >= version_4_from) != (self._rng.random() < 0.1)
                    segment.write(self._batch(is_v4))
                    segment.write(self._markers())
        return self._offset

    def write_live(self, names: Sequence[str], with_members: bool) -> None:
        """Writes a commit of each offset of these groups, and after them the groups' records."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f"{self._offset:020d}.log", "wb") as segment:
            for name in names:
                group = Group(
                    name, _slots(name, f"{TEAMS[0]}.{EVENTS[0]}-{self._rng.randrange(40)}", self._shape.slots), [], []
                )
                group.topics = [group.slots[0].topic]
                self._now += self._rng.randrange(40)
                segment.write(self._records(self._commits_of(group, group.slots, True, True)))
                if with_members:
                    segment.write(self._records([self._generation(group, LIVE_MEMBERS)]))

    def write_rebalance(self) -> int:
        """Writes the snapshots, into one segment. Returns their number."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f"{0:020d}.log", "wb") as segment:
            for number in range(self._shape.records // self._shape.members):
                group = self._groups[number % len(self._groups)]
                self._rng = random.Random(group.group_id)  # the same ids and hosts in each snapshot
                self._now += 1000
                segment.write(self._records([self._generation(group, self._shape.members)]))
        return self._offset

    def _batch(self, is_v4: bool) -> bytes:
        rng = self._rng
        self._now += rng.randrange(40)
        # Skewed: a few groups make most commits.
        group = self._groups[int(len(self._groups) * rng.random() ** 2)]
        dice = rng.randrange(10_000)
        generations, member_steps, expiries = OTHER_BATCHES[self._shape.kind]
        if dice < generations:
            return self._records([self._generation(group, rng.randint(5, 50))])
        if dice < generations + member_steps:
            return self._records(self._member_step(group))
        if dice < generations + member_steps + expiries:
            first = rng.randrange(len(group.slots) - 3)
            return self._records([slot.key + wire.with_length(None) for slot in group.slots[first : first + 4]])
        if rng.random() < self._shape.transactional:
            return self._records(self._commits(group, is_v4, False), self._producer(group), wire.TRANSACTIONAL)
        return self._records(self._commits(group, is_v4, is_v4))

    def _records(self, records: Sequence[bytes], producer_id: int = -1, flags: int = 0) -> bytes:
        base_offset = self._offset
        self._offset += len(records)
        return wire.batch(base_offset, self._now, records, self._shape.codec, producer_id, flags)

    def _commits(self, group: Group, is_v4: bool, with_topic_id: bool) -> list[bytes]:
        slots, count = group.slots, 1 + int(LARGEST_BATCH * self._rng.random() ** 3.4)
        first = self._rng.randrange(len(slots))
        return self._commits_of(group, (slots[first:] + slots[:first])[:count], is_v4, with_topic_id)

    def _commits_of(self, group: Group, slots: Sequence[Slot], is_v4: bool, with_topic_id: bool) -> list[bytes]:
        now, random_of = self._now, self._rng.random
        records = []
        for slot in slots:
            slot.position += int(5000 * random_of())
            metadata = slot.metadata if random_of() < WITH_METADATA else b""
            leader_epoch = int(4 * random_of()) - 1
            if is_v4:
                id_ = slot.topic_id if with_topic_id else b""
                value = wire.offset_commit_v4(slot.position, leader_epoch, metadata, now, id_)
            else:
                value = wire.offset_commit_v3(slot.position, leader_epoch, metadata, now)
            records.append(slot.key + wire.VARINTS[len(value)] + value)
        return records

    def _producer(self, group: Group) -> int:
        """The producer of a transaction; also plans its marker."""
        if self._rng.random() < COMES_AGAIN:
            producer_id = self._rng.choice(group.producers)
        else:
            self._single_producers += 1
            producer_id = self._single_producers
        self._open.setdefault(producer_id, self._rng.randrange(6))
        return producer_id

    def _markers(self) -> bytes:
        """Markers of the transactions that end now; those still open at the end of the log stay open."""
        written = b""
        for producer_id, batches_left in list(self._open.items()):
            if batches_left:
                self._open[producer_id] = batches_left - 1
                continue
            del self._open[producer_id]
            outcome = wire.ABORT if self._rng.random() < ABORTED else wire.COMMIT
            written += wire.marker(self._offset, self._now, producer_id, outcome)
            self._offset += 1
        return written

    def _generation(self, group: Group, size: int) -> bytes:
        """The metadata of a classic group after a rebalance, with its partitions divided among `size` members."""
        group.generation += 1
        member_ids = [f"consumer-{group.group_id}-{m}-{uuid_text(self._digits())}" for m in range(size)]
        members = [self._classic_member(group, member_id, m, size) for m, member_id in enumerate(member_ids)]
        value = wire.group_metadata("cooperative-sticky", group.generation, member_ids[0], self._now, members)
        return wire.with_length(b"\0\2" + wire.string(group.group_id)) + wire.with_length(value)

    def _classic_member(self, group: Group, member_id: str, number: int, size: int) -> bytes:
        owned = dealt(group.slots, number, size)
        return wire.classic_member(
            member_id,
            f"{group.group_id}-{number}" if number % 3 == 0 else None,
            f"consumer-{group.group_id}-{number}",
            f"/10.1.{number}.{self._rng.randrange(250)}",
            wire.subscription(group.topics, owned, group.generation - 1, "rack-a"),
            wire.assignment(owned),
        )

    def _digits(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def _member_step(self, group: Group) -> list[bytes]:
        """The records of a member that joins a KIP-848 group: metadata, epoch, target and current assignment."""
        group.epoch += 1
        group_id, member, id_ = f"{group.group_id}-next", uuid_text(self._digits()), group.slots[0].topic_id
        # Two partitions that no other member has, because a load must not fail.
        owned = [2 * group.epoch, 2 * group.epoch + 1]
        pairs = (
            (wire.member_key(5, group_id, member), wire.consumer_member(f"c-{group_id}", group.topics[:1])),
            (b"\0\3" + wire.string(group_id), wire.consumer_epoch(group.epoch, self._rng.getrandbits(63))),
            (wire.member_key(7, group_id, member), wire.target_assignment(id_, owned)),
            (wire.member_key(8, group_id, member), wire.current_assignment(group.epoch, id_, owned)),
        )
        return [wire.with_length(key) + wire.with_length(value) for key, value in pairs]


def dealt(slots: Sequence[Slot], number: int, size: int) -> list[tuple[str, list[int]]]:
    """The partitions of the `number`-th of `size` members, by topic."""
    owned: dict[str, list[int]] = {}
    for slot in slots[number::size]:
        owned.setdefault(slot.topic, []).append(slot.partition)
    return list(owned.items())


def uuid_text(digits: str) -> str:
    """32 hexadecimal digits as Kafka's clients write them in member ids."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
