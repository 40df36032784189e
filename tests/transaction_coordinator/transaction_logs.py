"""Recorded logs of the transaction coordinator, and their rows."""

from __future__ import annotations

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.transaction_shard import TransactionCoordinatorShard, transaction_rules
from kgroups_spark.messages.coordinator_records import TRANSACTION_LOG
from tests.recorded_state_logs import answers, decoded

WITH_TRANSACTIONS = [name for name, one in answers().items() if one.get("transactions")]


def shards_of(recording):
    """The shards of a recording, by partition of `__transaction_state`."""
    shards = {}
    for partition, offset, log_timestamp, record in decoded(recording, TRANSACTION_LOG):
        shard = shards.get(partition)
        if shard is None:
            rules = transaction_rules(release(answers()[recording]["release"]))
            shard = shards[partition] = TransactionCoordinatorShard(rules, partition, reporting=True)
        assert TRANSACTION_LOG.partition_of(record.key, 2) == partition
        shard.replay(offset, log_timestamp, record.key["transactionalId"], record.value_version, record.value)
    return shards


def rows_of(recording):
    """Rows of `transactional_ids`."""
    return [row for shard in shards_of(recording).values() for row in shard.transactional_id_rows()]
