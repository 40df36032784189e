"""Shards that have loaded a log, by two releases."""

from __future__ import annotations

from functools import cache

from kgroups_spark.audit.differences import Difference, Loaded, LoadFailure, LoadFailures
from kgroups_spark.coordinator.releases import release
from tests.coordinator.generated_logs import rows_of
from tests.coordinator.oracle_answers import replay_all
from tests.coordinator.oracle_differences import Place
from tests.twin.shard import Shard, state_of


@cache
def loaded_shard(log: str, partition: int, version: str) -> tuple[Shard, LoadFailures]:
    shard = Shard(release(version), partition)
    return shard, failures_at(replay_all(shard, rows_of(log, partition)))


def failures_at(log_offsets: list[int]) -> LoadFailures:
    return LoadFailures(LoadFailure(min(log_offsets), "fails"), len(log_offsets)) if log_offsets else LoadFailures()


@cache
def loaded(log: str, partition: int, version: str) -> Loaded:
    return as_loaded(*loaded_shard(log, partition, version))


def as_loaded(shard: Shard, failures: LoadFailures) -> Loaded:
    return Loaded(shard.offsets_partition, shard.release, state_of(shard), failures)


def place(each: Difference) -> Place:
    """As oracle_differences.py has it: only the values of offsets."""
    values = (each.value_a, each.value_b) if each.what == "committed_offset" else (None, None)
    where = (each.member_id, each.producer_id, each.topic, each.partition)
    return (each.difference, each.what, each.group_id, *where, *values)
