"""KIP-447's story of the zombie, step by step: an instance that lost its partition while its transaction was open.

`a` has read input partition 0, writes its results and its offset in a transaction, and stops answering. The group gives
the partition to `b`. A consumer that asks for the offset must not get the one before a's results, because these may
still be committed, nor the one after them, because these may be aborted. It waits (UNSTABLE_OFFSET_COMMIT) until the
transaction has ended. Later requests of the zombie have an old generation or an old producer epoch: the coordinator
refuses them, and no log has them.
"""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.releases import release
from kgroups_spark.coordinator.transaction_shard import (
    Listings,
    OpenOnPartition,
    TopicPartition,
    TransactionCoordinatorShard,
    Verdict,
    transaction_rules,
    verdict,
)
from tests.coordinator.records import Log
from tests.transaction_coordinator.histories import value

A, B = 7, 8
ABORT, COMMIT = "aborted", "committed"
TIMEOUT_MS = 60_000
OFFSETS = ("__consumer_offsets", (0,))
ONGOING, PREPARE_ABORT, COMPLETE_ABORT, PREPARE_COMMIT, COMPLETE_COMMIT = 1, 3, 5, 2, 4


class Story:
    """Both logs, and what may be read of them after each step."""

    def __init__(self, version):
        self.groups = Log(version)
        self.transactions = TransactionCoordinatorShard(transaction_rules(release(version)), 0, reporting=True)
        self._value_version = 1 if version >= "4" else 0  # KIP-890 made flexible ones
        self._records = 0

    def state(self, name, producer, epoch, status, now, partitions=(OFFSETS,)):
        fields = {"producerId": producer, "producerEpoch": epoch, "transactionTimeoutMs": TIMEOUT_MS}
        times = {"transactionStartTimestampMs": 1_000, "transactionLastUpdateTimestampMs": now}
        topics = [{"topic": topic, "partitionIds": list(numbers)} for topic, numbers in partitions]
        tags = {"previousProducerId": -1, "nextProducerId": -1, "nextProducerEpoch": -1, "clientTransactionVersion": 0}
        record = {**value(status, topics), **fields, **times, **tags}
        self.transactions.replay(self._records, now, name, self._value_version, record)
        self._records += 1

    @property
    def committed(self):
        """The offsets that a consumer gets if it does not wait."""
        return [row.committed_offset for row in self.groups.shard.committed_rows()]

    @property
    def unstable(self):
        """Which offsets wait for which producers' transactions."""
        return [(row.producer_id, row.committed_offset) for row in self.groups.shard.pending_rows()]

    @property
    def states(self):
        return {row.transactional_id: row.state for row in self.transactions.transactional_id_rows()}

    def judged(self, producer, now):
        rows = list(self.transactions.transactional_id_rows())
        opened = OpenOnPartition(TopicPartition("__consumer_offsets", 0), producer, 1_000)
        return verdict(opened, Listings(rows), now, 900_000)


@pytest.mark.parametrize("version", ["2.5", "3.9", "4.0", "4.4"])
def test_the_new_owner_of_the_partition_waits_for_the_end_of_the_zombies_transaction(version):
    story = Story(version)

    # Before the story: the group has committed 10.
    story.groups.commit(10)
    assert (story.committed, story.unstable) == ([10], [])

    # a begins, writes its results, and sends its offset to the transaction. Then it stops answering.
    story.state("a", A, 0, ONGOING, 1_000)
    story.groups.commit(20, producer=A)
    assert (story.committed, story.unstable) == ([10], [(A, 20)])
    assert story.states == {"a": "Ongoing"}

    # The group gives the partition to b, which asks for the offset and must wait: 20 is pending, 10 may be too old.
    assert story.unstable == [(A, 20)]
    assert story.judged(A, 2_000) is Verdict.WITHIN_MAXIMUM

    # The transaction times out: its coordinator takes a new epoch, so that the zombie is fenced, and aborts.
    story.state("a", A, 1, PREPARE_ABORT, 1_000 + TIMEOUT_MS + 1)
    (event,) = story.transactions.take_events()
    assert (event.event, event.transactional_id, event.producer_epoch) == ("transaction_timed_out", "a", 0)
    assert story.unstable == [(A, 20)]
    # However long that takes: the partition is listed, so its marker will come.
    assert story.judged(A, 10_000_000) is Verdict.LISTED

    # The marker: now nothing is pending, and b gets 10. It does a's work again.
    story.groups.end(A, ABORT)
    story.state("a", A, 1, COMPLETE_ABORT, 1_000 + TIMEOUT_MS + 2, ())
    assert (story.committed, story.unstable) == ([10], [])

    # b commits its own results and offset.
    story.state("b", B, 0, ONGOING, 70_000)
    story.groups.commit(20, producer=B)
    assert (story.committed, story.unstable) == ([10], [(B, 20)])
    story.state("b", B, 0, PREPARE_COMMIT, 70_001)
    story.groups.end(B, COMMIT)
    story.state("b", B, 0, COMPLETE_COMMIT, 70_002, ())
    assert (story.committed, story.unstable) == ([20], [])
    assert story.states == {"a": "CompleteAbort", "b": "CompleteCommit"}
    assert story.transactions.take_events() == []

    # Had a's marker never come and no coordinator listed it, it would hang: what Kafka's find-hanging is for.
    assert story.judged(A, 10_000_000) is Verdict.PARTITION_NOT_LISTED
