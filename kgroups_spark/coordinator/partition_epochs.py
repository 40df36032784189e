"""The member epoch at which each partition of a consumer group is owned.

The load fails if two members own one partition at the same epoch, or if a later record has a smaller epoch (Kafka
ConsumerGroup.addPartitionEpochs). Before KAFKA-19862 (4.0.2, 4.1.2, 4.2.0) it fails if a partition has an owner
already, at any epoch, and if a partition is given up at another epoch than the owned one. Changes before the failure
stay, in the order of Java's hash maps.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TypeVar

from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.topics import Partitions

Key = TypeVar("Key")


class PartitionEpochs:
    """{topic id: {partition: member epoch}}."""

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        self.epochs: dict[str, dict[int, int]] = {}

    def remove(self, assigned: Partitions, epoch: int) -> None:
        """Removes the partitions that are owned at `epoch`. Strict: raises ReplayFailure if one is not."""
        for topic_id in in_hash_order(assigned):
            owned = self.epochs.get(topic_id)
            if owned is None:
                if self.is_strict:
                    raise ReplayFailure(
                        f"Cannot remove the epoch {epoch} from {topic_id} because it does not have any epoch"
                    )
                continue
            self._remove(owned, assigned[topic_id], epoch, topic_id)
            if not owned:
                del self.epochs[topic_id]

    def _remove(self, owned: dict[int, int], partitions: Iterable[int], epoch: int, topic_id: str) -> None:
        for partition in integers_in_hash_order(partitions):
            owner = owned.get(partition)
            if owner == epoch:
                del owned[partition]
            elif self.is_strict:
                owned.pop(partition, None)
                raise ReplayFailure(
                    f"Cannot remove the epoch {epoch} from {topic_id}-{partition} because the partition is "
                    f"still owned at a different epoch {owner}"
                )

    def add(self, assigned: Partitions, epoch: int) -> None:
        """Notes that the partitions are owned at `epoch`. Unless strict, a greater epoch replaces a smaller one."""
        for topic_id in in_hash_order(assigned):
            owned = self.epochs.setdefault(topic_id, {})
            for partition in integers_in_hash_order(assigned[topic_id]):
                owner = owned.get(partition)
                if owner is not None and (self.is_strict or owner >= epoch):
                    if self.is_strict:
                        owned[partition] = epoch
                    raise ReplayFailure(
                        f"Cannot set the epoch of {topic_id}-{partition} to {epoch} because the partition is "
                        f"still owned at epoch {owner}"
                    )
                owned[partition] = epoch


def in_hash_order(topic_ids: Iterable[str]) -> list[str]:
    """Topic ids in the iteration order of a java.util.HashMap."""
    ids = list(topic_ids)
    return ids if len(ids) < 2 else _by_bucket(ids, [_uuid_hash(topic_id) for topic_id in ids])


def integers_in_hash_order(numbers: Iterable[int]) -> list[int]:
    """Integers in the iteration order of a java.util.HashMap."""
    keys = list(numbers)
    return keys if len(keys) < 2 else _by_bucket(keys, keys)


def _by_bucket(keys: list[Key], hashes: list[int]) -> list[Key]:
    capacity = 16
    while capacity * 3 // 4 < len(keys):
        capacity *= 2
    buckets = [((h & 0xFFFFFFFF) ^ ((h & 0xFFFFFFFF) >> 16)) & (capacity - 1) for h in hashes]
    return [key for _, _, key in sorted(zip(buckets, range(len(keys)), keys, strict=True), key=lambda item: item[:2])]


def _uuid_hash(topic_id: str) -> int:
    raw = base64.urlsafe_b64decode(topic_id + "==")
    bits = int.from_bytes(raw[:8], "big") ^ int.from_bytes(raw[8:16], "big")
    return (bits >> 32) ^ (bits & 0xFFFFFFFF)
