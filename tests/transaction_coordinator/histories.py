"""Generated records of `__transaction_state`, as bytes, some of them odd."""

from __future__ import annotations

import random

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.transaction_shard import TransactionCoordinatorShard, transaction_rules
from kgroups_spark.messages.coordinator_records import TRANSACTION_LOG, TRANSACTION_STATE
from tests.findings.record_bytes import message
from tests.recorded_state_logs import answers, decoded
from tests.slow_messages import offsets_partition

IDS = ("etl-0_1", "etl-0_2", "café", "")


OF_LOG = TRANSACTION_STATE[0]


def key_bytes(transactional_id):
    return b"\0\0" + message(OF_LOG.key, {"transactionalId": transactional_id}, 0)


def value_bytes(value, version):
    """Kafka's bytes of a value of version 0 or 1; other versions look like 1."""
    topics, layout = value["transactionPartitions"], OF_LOG.layouts[0]
    topics = None if topics is None else [{"topic": topic, "partitionIds": numbers} for topic, numbers in topics]
    return version.to_bytes(2, "big") + message(layout, value | {"transactionPartitions": topics}, min(version, 1))


def value(status=1, partitions=(("t", (0,)),), **fields):
    """A value's fields."""
    return {
        "producerId": 7,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": status,
        "transactionPartitions": partitions,
        "transactionLastUpdateTimestampMs": 1_000,
        "transactionStartTimestampMs": 900,
    } | fields


def history(seed, length=30):
    """(transactional id, value version, value bytes or None) of records in log order."""
    generator = random.Random(seed)
    return [_record(generator) for _ in range(length)]


def _record(generator):
    transactional_id = generator.choice(IDS)
    if generator.random() < 0.1:
        return transactional_id, None, None
    version = generator.choices([0, 1, 2], [10, 20, 1])[0]
    status = generator.choices([*range(8), -1, 9], [9, 9, 9, 9, 9, 9, 1, 1, 0.5, 0.5])[0]
    topics = [
        (t, [generator.randrange(5) for _ in range(generator.randrange(4))]) for t in generator.choices("abb", k=2)
    ]
    partitions = generator.choices([None, [], topics], [1, 3, 10])[0]
    fields = {
        "producerId": generator.choice([-1, 0, 5, 2**63 - 1]),
        "producerEpoch": generator.choice([-1, 0, 3, 2**15 - 1]),
        "transactionTimeoutMs": generator.choice([1, 60_000, 2**31 - 1]),
        "transactionLastUpdateTimestampMs": generator.choice([-1, 0, 1_700_000_000_000]),
        "transactionStartTimestampMs": generator.choice([-1, 0, 1_600_000_000_000]),
    }
    tags = {
        "previousProducerId": generator.choice([-1, 4]),
        "nextProducerId": generator.choice([-1, 6]),
        "nextProducerEpoch": generator.choice([-1, 0]),
        "clientTransactionVersion": generator.choices([0, 1, 2, 3, -1], [5, 5, 5, 0.3, 0.3])[0],
    }
    return transactional_id, version, value_bytes(value(status, partitions, **fields, **tags), version)


# Recorded logs of the transaction coordinator, and their rows.
WITH_TRANSACTIONS = [name for name, one in answers().items() if one.get("transactions")]


def shards_of(recording):
    """The shards of a recording, by partition of `__transaction_state`."""
    shards = {}
    for partition, offset, log_timestamp, record in decoded(recording, TRANSACTION_LOG):
        shard = shards.get(partition)
        if shard is None:
            rules = transaction_rules(release(answers()[recording]["release"]))
            shard = shards[partition] = TransactionCoordinatorShard(rules, partition, reporting=True)
        assert offsets_partition(record.key["transactionalId"], 2) == partition
        shard.replay(offset, log_timestamp, record.key["transactionalId"], record.value_version, record.value)
    return shards


def rows_of(recording):
    """Rows of `transactional_ids`."""
    return [row for shard in shards_of(recording).values() for row in shard.transactional_id_rows()]
