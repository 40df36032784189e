"""Shards that have loaded a log, by two releases."""

from __future__ import annotations

from functools import cache

from kgroups_spark.compare.differences import (
    Difference,
    Loaded,
    LoadFailure,
    LoadFailures,
)
from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.shard import Shard
from tests.coordinator.generated_logs import logs
from tests.coordinator.oracle_answers import replay_all
from tests.coordinator.oracle_differences import Place


@cache
def loaded(log: str, partition: int, version: str) -> Loaded:
    shard, failures = Shard(release(version), partition), LoadFailures()
    for log_offset in replay_all(shard, logs()[log][partition]):
        failures.failed(LoadFailure(log_offset, "fails"))
    return Loaded(shard, failures)


def place(each: Difference) -> Place:
    """As oracle_differences.py tells it: values of offsets alone."""
    values = (each.value_a, each.value_b) if each.what == "committed_offset" else (None, None)
    where = (each.member_id, each.producer_id, each.topic, each.partition)
    return (each.difference, each.what, each.group_id, *where, *values)
