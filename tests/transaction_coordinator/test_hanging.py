"""Hanging transactions: the rule of kafka-transactions find-hanging, and what it cannot say without the log."""

from __future__ import annotations

import pytest

from kgroups_spark.coordinator.transaction_shard import (
    TWO_PHASE_TIMEOUT_MS,
    Listings,
    OpenOnPartition,
    TopicPartition,
    TransactionalIdRow,
    Verdict,
    verdict,
)
from tests.recorded_state_logs import answers
from tests.transaction_coordinator.histories import WITH_TRANSACTIONS, rows_of

HERE, THERE = TopicPartition("__consumer_offsets", 3), TopicPartition("orders", 0)
NOW, MAXIMUM = 1_000_000, 900_000


def row(producer_id=7, state="Ongoing", partitions=(HERE,), timeout_ms=60_000, name="etl"):
    return TransactionalIdRow(
        0, name, producer_id, 0, None, None, None, state, timeout_ms, list(partitions), 0, 0, None, 0
    )


def of(rows, *, last=0, now=NOW, **known):
    return verdict(OpenOnPartition(HERE, 7, last), None if rows is None else Listings(rows, **known), now, MAXIMUM)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row()], Verdict.LISTED),
        ([row(state="PrepareAbort")], Verdict.LISTED),
        ([row(partitions=[THERE])], Verdict.PARTITION_NOT_LISTED),
        ([row(state="Empty", partitions=[])], Verdict.PARTITION_NOT_LISTED),
        ([row(producer_id=8)], Verdict.PRODUCER_UNKNOWN),
        ([], Verdict.PRODUCER_UNKNOWN),
        ([row(state="Dead")], Verdict.PRODUCER_UNKNOWN),
        ([row(timeout_ms=TWO_PHASE_TIMEOUT_MS)], Verdict.TWO_PHASE),
        ([row(timeout_ms=TWO_PHASE_TIMEOUT_MS, partitions=[])], Verdict.TWO_PHASE),
        ([row(partitions=[]), row(name="other")], Verdict.LISTED),
        (None, Verdict.NOT_KNOWN),
    ],
)
def test_the_coordinators_list_of_partitions_decides(rows, expected):
    assert of(rows) == expected
    assert expected.is_hanging == (expected in (Verdict.PARTITION_NOT_LISTED, Verdict.PRODUCER_UNKNOWN))


@pytest.mark.parametrize("rows", [[], [row(partitions=[])], None])
def test_a_transaction_is_open_for_too_long_one_millisecond_after_the_maximum(rows):
    assert of(rows, last=NOW - MAXIMUM) == Verdict.WITHIN_MAXIMUM
    assert of(rows, last=NOW - MAXIMUM - 1) != Verdict.WITHIN_MAXIMUM
    assert of([], last=None) == Verdict.PRODUCER_UNKNOWN  # Kafka's -1


def test_a_log_that_was_read_in_part_or_not_far_enough_proves_nothing():
    assert of([], is_complete=False) == Verdict.NOT_KNOWN
    assert of([row(partitions=[])], is_complete=False) == Verdict.PARTITION_NOT_LISTED
    assert of([row(partitions=[])], last=50, known_until=49) == Verdict.NOT_KNOWN
    assert of([], last=50, known_until=50) == Verdict.PRODUCER_UNKNOWN
    assert of([row()], last=50, known_until=49) == Verdict.LISTED


def test_a_producer_has_the_name_of_its_transactional_id():
    listings = Listings([row(), row(producer_id=None, name="never used")])
    assert (listings.transactional_id(7), listings.transactional_id(8)) == ("etl", None)


def find_hanging(reported, now, maximum_ms):
    """TransactionsCommand.filterHangingTransactions, 4.3.1, over what brokers answered: (partition, producer id)."""
    described = {one["producer_id"]: one for one in reported["transactions"]}
    candidates = [
        (int(partition), one["producer_id"])
        for partition, producers in reported["producers"].items()
        for one in producers
        if one["transaction_start_offset"] is not None and now - one["last_timestamp"] > maximum_ms
    ]
    return {
        (partition, producer_id)
        for partition, producer_id in candidates
        if ["__consumer_offsets", partition] not in described.get(producer_id, {"partitions": []})["partitions"]
    }


def test_hanging_transactions_in_recordings_equal_those_of_find_hanging():
    found = 0
    for recording in WITH_TRANSACTIONS:
        reported, listings = answers()[recording], Listings(rows_of(recording))
        for maximum_ms in (0, 5_000, 900_000):
            open_now = [
                OpenOnPartition(TopicPartition("__consumer_offsets", int(p)), one["producer_id"], one["last_timestamp"])
                for p, producers in reported["producers"].items()
                for one in producers
                if one["transaction_start_offset"] is not None
            ]
            hanging = {
                (one.topic_partition.partition, one.producer_id)
                for one in open_now
                if verdict(one, listings, reported["asked_at_ms"], maximum_ms).is_hanging
            }
            assert hanging == find_hanging(reported, reported["asked_at_ms"], maximum_ms), (recording, maximum_ms)
            found += len(hanging)
    assert found
