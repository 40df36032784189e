"""Names of topic ids, and ids of topic names, as far as the records say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgroups_spark.coordinator.rows import AssignedPartition

# {topic id: {partition: assignment epoch or None}}, what modern members are assigned.
Partitions = dict[str, dict[int, int | None]]


class Topics:
    """Topic ids that were seen. An id has one name for ever; a name has the id that was seen last."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, int | None, str]] = {}
        self.ids: dict[str, str] = {}

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        """Notes that a record names the topic. The first one that does is the one that counts."""
        named = self.names.setdefault(topic_id, (topic, log_timestamp, source))
        if named[0] == topic:
            self.ids[topic] = topic_id

    def of_ids(self, partitions: Partitions) -> list[AssignedPartition]:
        """An assignment by topic ids, with names where they are known; sorted."""
        return sorted(
            (
                AssignedPartition(
                    self.names[topic_id][0] if topic_id in self.names else None, topic_id, partition, epoch
                )
                for topic_id, epochs in partitions.items()
                for partition, epoch in epochs.items()
            ),
            key=lambda assigned: (assigned.topic or "", assigned.topic_id or "", assigned.partition),
        )

    def of_names(self, assignment: Iterable[dict[str, Any]]) -> list[AssignedPartition]:
        """An assignment by topic names, with ids where they are known; sorted."""
        return sorted(
            (
                AssignedPartition(entry["topic"], self.ids.get(entry["topic"]), partition, None)
                for entry in assignment
                for partition in entry["partitions"]
            ),
            key=lambda assigned: (assigned.topic or "", assigned.partition),
        )
