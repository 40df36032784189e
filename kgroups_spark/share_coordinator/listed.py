"""The share partitions that the group coordinator lists, together with their state: two logs, one table.

The group coordinator's record type 15 (ShareGroupStatePartitionMetadata, in `__consumer_offsets`) lists the share
partitions of a group that are being initialized, are initialized, or are being deleted. The share coordinator keeps
their state. `listShareGroupOffsets` asks the second for partitions that are initialized in the first
(GroupCoordinatorService.describeShareGroupAllOffsets, 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kgroups_spark.share_coordinator.rows import SharePartitionRow
from kgroups_spark.share_coordinator.shard import SharePartitionKey

INITIALIZING, INITIALIZED, DELETING = "initializing", "initialized", "deleting"


class ListedTopic(NamedTuple):
    """A topic in record type 15; `partitions` None: all partitions with state (deleting)."""

    group_id: str
    topic_id: str
    topic: str
    init_state: str
    partitions: tuple[int, ...] | None


def listed_topics(group_id: str, value: Mapping[str, Any] | None) -> Iterator[ListedTopic]:
    """The partitions that a value of record type 15 lists; None: it is a tombstone, or there is none."""
    if value is None:
        return
    for field, init_state in (("initializingTopics", INITIALIZING), ("initializedTopics", INITIALIZED)):
        for topic in value[field]:
            partitions = tuple(topic["partitions"])
            yield ListedTopic(group_id, topic["topicId"], topic["topicName"], init_state, partitions)
    for topic in value["deletingTopics"]:
        yield ListedTopic(group_id, topic["topicId"], topic["topicName"], DELETING, None)


def listed_share_partitions(
    rows: Iterable[SharePartitionRow], listed: Iterable[ListedTopic], topics: Mapping[str, str]
) -> list[SharePartitionRow]:
    """The rows with their init_state and topic, and a row without state for each listed partition that has none; by
    key.

    `topics`: names of topic ids, for partitions that no group lists. For a partition that is listed twice the later
    state in the order initializing, initialized, deleting counts.
    """
    names = dict(topics)
    of_partition: dict[SharePartitionKey, str] = {}
    deleting: set[tuple[str, str]] = set()
    for one in listed:
        names[one.topic_id] = one.topic
        if one.partitions is None:
            deleting.add((one.group_id, one.topic_id))
            continue
        for partition in one.partitions:
            key = SharePartitionKey(one.group_id, one.topic_id, partition)
            if of_partition.get(key) != INITIALIZED:
                of_partition[key] = one.init_state
    found = {SharePartitionKey(row.group_id, row.topic_id, row.partition): row for row in rows}
    for key in of_partition.keys() - found.keys():
        found[key] = SharePartitionRow(None, key.group_id, key.topic_id, None, key.partition, *[None] * 10)
    return [
        row._replace(
            topic=names.get(key.topic_id),
            init_state=DELETING if key[:2] in deleting else of_partition.get(key),
        )
        for key, row in sorted(found.items())
    ]


def share_lag(start_offset: int | None, delivery_complete_count: int | None, log_end_offset: int | None) -> int | None:
    """The number of records that a share group still has to finish, as brokers compute it from 4.2 on; None: unknown.

    (GroupCoordinatorService.computeShareGroupLagAndBuildResponse, 4.3: with the end of read_uncommitted.)
    """
    if start_offset is None or delivery_complete_count is None or log_end_offset is None:
        return None
    return log_end_offset - start_offset - delivery_complete_count
