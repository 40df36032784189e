"""The replay of a shard, beside the law of tests/offsets/test_law.py."""

from __future__ import annotations

import gc

from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.replay.shard import ShardReplay
from kgroups_spark.replay.stages import no_cycle_collector
from tests.coordinator.replay_row import ReplayRow
from tests.offsets.random_logs import random_log
from tests.replay.replayed_shards import RELEASES, assert_as_objects, replayed
from tests.twin.offset_metadata import OffsetAndMetadata


def test_a_tombstone_of_the_last_pending_offset_is_an_act_of_its_own_batch():
    """Also if the batch before it has the same time (Scala coordinator)."""

    def record(log_offset, topic, commit=None, **of_transaction):
        facts = {"record_type": 1, "group_id": "a", "topic": topic, "partition": 0, "batch_offset": log_offset}
        return ReplayRow(log_offset, 1_700_000_000_000, "offset_commit", commit=commit, **facts, **of_transaction)

    in_transaction = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    never_due = OffsetAndMetadata(1, None, "", 1_700_000_000_000, 1 << 50, None, 1)
    log = [
        record(0, "u", never_due),
        record(1, "t", OffsetAndMetadata(5, None, "", 1_600_000_000_000, None, None, 0), **in_transaction),
        record(2, "u"),
        record(3, "t", **in_transaction),
    ]
    assert_as_objects(log, "2.8")
    found, _ = replayed(log, "2.8")
    assert [(row["event"], row["cause"]) for row in found["group_events"]][-1] == ("group_removed", "expired")


def test_a_replayed_shard_is_freed_without_the_cycle_collector(chosen):
    """Tasks run without it: reference cycles would stay until the last shard of the task."""
    log = random_log(chosen.random.randrange(1 << 32), records=200)
    gc.collect()
    with no_cycle_collector():
        replayed(log, chosen.one(RELEASES))
        assert [each for each in gc.get_objects() if type(each) in (Groups, ShardReplay)] == []
