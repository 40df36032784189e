"""Names of topic ids, and ids of topic names, as far as the log has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgroups_spark.coordinator.rows import AssignedPartition

# The assignment of a modern member: {topic id: {partition: assignment epoch or None}}.
Partitions = dict[str, dict[int, int | None]]


class Topics:
    """Topic ids in the log. An id keeps its first name; a name has the id that was seen last."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, int | None, str]] = {}
        self.ids: dict[str, str] = {}

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        """Notes that a record names the topic. Only the first record that names an id counts."""
        named = self.names.setdefault(topic_id, (topic, log_timestamp, source))
        if named[0] == topic:
            self.ids[topic] = topic_id

    def of_ids(self, partitions: Partitions) -> list[AssignedPartition]:
        """An assignment by topic ids, sorted, with names (None: unknown)."""
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
        """An assignment by topic names, sorted, with ids (None: unknown)."""
        return sorted(
            (
                AssignedPartition(entry["topic"], self.ids.get(entry["topic"]), partition, None)
                for entry in assignment
                for partition in entry["partitions"]
            ),
            key=lambda assigned: (assigned.topic or "", assigned.partition),
        )
