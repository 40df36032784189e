"""The logs in which Kafka's coordinators keep their state: the differences between them, as data.

| log | coordinator | a record belongs to the partition of |
|---|---|---|
| `__consumer_offsets` | group (GroupCoordinatorService.partitionFor) | the group id |
| `__share_group_state` | share (ShareCoordinatorService.partitionFor, 4.0 to 4.4) | the text `groupId:topicId:partition` (SharePartitionKey.asCoordinatorKey) |
| `__transaction_state` | transaction (TransactionStateManager.partitionFor, 0.11 to 4.4) | the transactional id |

All three take Utils.abs(String.hashCode) modulo the topic's partition count. The keys of every record type of a log
have the fields that determine its partition.
"""  # noqa: E501  a table's row is a line

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kgroups_spark.messages.group_partition import offsets_partition
from kgroups_spark.messages.record_types import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, RecordType

Key = Mapping[str, Any]


@dataclass(frozen=True)
class CoordinatorLog:
    """One of the topics. `partition_by`: the key's fields whose texts, joined by colons, are hashed."""

    topic: str
    coordinator: Literal["group", "share", "transaction"]
    record_types: Mapping[int, RecordType]
    partition_by: tuple[str, ...]
    # `compact`: the cleaner drops records that newer ones replace. `delete`: DeleteRecords moves the log's start.
    clean_up_policy: Literal["compact", "delete"]

    def partition_key(self, key: Key) -> str:
        """The text that is hashed, from the fields of a record's key."""
        # GroupMetadataKey and the offset commits' keys call the group `group`, all others `groupId`.
        return ":".join(str(key["group" if name not in key else name]) for name in self.partition_by)

    def partition_of(self, key: Key, partition_count: int) -> int:
        """The partition of the topic that a record with this key belongs to."""
        return offsets_partition(self.partition_key(key), partition_count)


GROUP_LOG = CoordinatorLog("__consumer_offsets", "group", CONSUMER_OFFSETS, ("groupId",), "compact")
SHARE_LOG = CoordinatorLog(
    "__share_group_state", "share", SHARE_GROUP_STATE, ("groupId", "topicId", "partition"), "delete"
)
TRANSACTION_LOG = CoordinatorLog(
    "__transaction_state", "transaction", TRANSACTION_STATE, ("transactionalId",), "compact"
)
COORDINATOR_LOGS = {log.topic: log for log in (GROUP_LOG, SHARE_LOG, TRANSACTION_LOG)}
