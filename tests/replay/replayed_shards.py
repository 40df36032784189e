"""Settings of nights that are replayed."""

from __future__ import annotations

from kgroups_spark.coordinator.releases import Topics
from kgroups_spark.offsets.expiry import CleanUp
from kgroups_spark.replay.shard import Night
from tests.offsets.random_logs import T

RELEASES = ("4.4", "4.3", "4.1", "4.0.0", "3.8-java", "3.7-java", "3.9", "2.8", "0.11")
AS_OF = T + 1500


def night(version: str) -> Night:
    return Night(1, version, 50, Topics(), retention_ms=1000, clean_up=CleanUp(AS_OF, 1000, version, 1))
