"""Topic names of a shard that must learn none."""

from __future__ import annotations

from kgroups_spark.coordinator.releases import Topics


class NoTopics(Topics):
    """Versions say what the record says: names learnt later must not depend on where a night ended."""

    def learn(self, topic_id: str, topic: str, log_timestamp: int | None, source: str) -> None:
        pass
