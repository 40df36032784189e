"""Random logs of offset commits, markers and group records, small enough that everything odd meets everything else."""

from __future__ import annotations

import random
from typing import Any

from kgroups_spark.offsets.columns import Border
from tests.coordinator.log_rows import OffsetAndMetadata, ReplayRow
from tests.coordinator.records import X, Y, classic, classic_member, epoch

T = 1_700_000_000_000
GROUPS, TOPICS, PRODUCERS = ("a", "g", "gé", "z"), ("t", "u"), (7, 8, 9)
# Borders of ranges of slots: between groups, within groups, and around each slot.
BORDERS = (
    [],
    [Border("g")],
    [Border("a"), Border("b"), Border("g"), Border("gé"), Border("h")],
    [Border("zz")],
    [Border("a", "t", 3), Border("g", "u"), Border("gé", "t", 1)],
    [Border(group, topic, partition) for group in GROUPS for topic in TOPICS for partition in (0, 3)],
)
KINDS = ("value", "tombstone", "marker", "group", "undecodable")
# Times that no TIMESTAMP holds.
TOO_LATE, TOO_EARLY = 1 << 60, -(1 << 60)


def random_log(seed: int, *, records: int = 45) -> list[ReplayRow]:
    """Up to so many records, with gaps between them."""
    maker = _Maker(random.Random(seed))
    rows = [maker.record() for _ in range(maker.random.randint(1, records))]
    return [row for row in rows if row is not None]


class _Maker:
    """Each log leans to something of its own."""

    def __init__(self, rnd: random.Random) -> None:
        self.random = rnd
        self.weights = [rnd.choice([2, 6, 18]), *(rnd.choice([1, 3, 9]) for _ in KINDS[1:])]
        self.transactional = rnd.choice([0.0, 0.3, 0.8])
        self.without_bit = rnd.choice([0.0, 0.1, 0.5])
        self.groups, self.topics = GROUPS[: rnd.randint(1, 4)], TOPICS[: rnd.randint(1, 2)]
        self.versions = rnd.choice([(0, 1, 2, 3, 4), (3,), (4,)])
        self.log_offset = rnd.choice([0, 1000, 1 << 40])
        # Records of a log in few batches or many, or of one whose batches are unknown.
        self.ends_batch, self.batch_offset = rnd.choice([0.3, 0.8, 1.0]), self.log_offset
        self.has_batches, self.ends_time = rnd.random() < 0.8, rnd.choice([0.5, 1.0])
        self.time = T

    def record(self) -> ReplayRow | None:
        rnd = self.random
        self.log_offset += rnd.choice([1, 1, 1, 5])
        kind = rnd.choices(KINDS, self.weights)[0]
        if rnd.random() < self.ends_batch or kind == "marker":
            self.batch_offset = self.log_offset
            if rnd.random() < self.ends_time:
                self.time = T + self.log_offset % 97
        time = rnd.choice([None, *[self.time] * 9])
        fields: dict[str, Any] = {"log_offset": self.log_offset, "log_timestamp": time}
        fields["batch_offset"] = self.batch_offset if self.has_batches else None
        if kind == "marker":
            self.batch_offset = self.log_offset + 1
            outcome = rnd.choice(["committed", "committed", "committed", "aborted", None])
            return ReplayRow(kind="marker", producer_id=rnd.choice(PRODUCERS), outcome=outcome, **fields)
        if rnd.random() < self.transactional:
            fields |= {"producer_id": rnd.choice(PRODUCERS), "producer_epoch": rnd.randrange(3)}
            fields["is_transactional"] = rnd.random() >= self.without_bit
        group_id = rnd.choice(self.groups)
        if kind in ("value", "tombstone"):
            commit = self._value() if kind == "value" else None
            slot = {"group_id": group_id, "topic": rnd.choice(self.topics), "partition": rnd.choice([0, 0, 3])}
            record_type = rnd.choice([0, 1, 1, 1])
            return ReplayRow(kind="offset_commit", record_type=record_type, commit=commit, **slot, **fields)
        # History does not keep the epoch of others.
        fields["producer_epoch"] = -1
        if kind == "group":
            return self._group_record(group_id, fields)
        is_transactional = fields.get("is_transactional", False)
        return ReplayRow(kind="undecodable", group_id=group_id, **fields) if is_transactional else None

    def _value(self) -> OffsetAndMetadata:
        rnd = self.random
        version = rnd.choice(self.versions)
        time = rnd.choice([T + rnd.randrange(5), T, -1, TOO_LATE, TOO_EARLY])
        topic_id = rnd.choice([None, X, Y]) if version == 4 else None
        if topic_id is not None:
            # Such a value's bytes are not kept: its times are ones that a TIMESTAMP holds.
            time = T
        expire = rnd.choice([None, T + 50, TOO_LATE]) if version == 1 else None
        leader_epoch = rnd.choice([None, 0, 4]) if version >= 3 else None
        return OffsetAndMetadata(rnd.randrange(6), leader_epoch, rnd.choice(["", "m"]), time, expire, topic_id, version)

    def _group_record(self, group_id: str, fields: dict[str, Any]) -> ReplayRow:
        values = [(2, None), (2, classic()), (2, classic()), (2, classic([classic_member()])), (3, None), (3, epoch(4))]
        record_type, value = self.random.choice(values)
        names = {"record_type": record_type, "group_id": group_id, "value_version": None if value is None else 0}
        return ReplayRow(kind="group_record", value=value, **names, **fields)
