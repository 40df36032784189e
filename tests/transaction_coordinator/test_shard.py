"""The transaction log's replay against Kafka's own classes, every cut, and what brokers answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroups_spark.coordinator.releases import ReplayFailure, release
from kgroups_spark.coordinator.transaction_shard import (
    EXPIRING_STATES,
    STATES,
    TWO_PHASE_TIMEOUT_MS,
    TopicPartition,
    TransactionCoordinatorShard,
    TransactionEvent,
    expires_at,
    transaction_rules,
)
from kgroups_spark.messages.coordinator_records import TRANSACTION_LOG, CoordinatorRecordDecoder, Undecodable
from tests.chosen import some_of
from tests.recorded_state_logs import answers, decoded
from tests.transaction_coordinator.histories import WITH_TRANSACTIONS, history, key_bytes, rows_of, value, value_bytes

# (transactional id, value, what TransactionLog of 3.9.2, 4.0.2, 4.3.1 (and 4.4.0) made of it): producer id, previous
# and next one, epoch, timeout, state, start, last update, two-phase, if the state expires, partitions; `-`: unknown.
KAFKA = json.loads((Path(__file__).parent / "data" / "kafka-transaction-state.json").read_text())


def shard_of(version, **arguments):
    return TransactionCoordinatorShard(transaction_rules(release(version)), 0, **arguments)


def replay(shard, offset, transactional_id, data, log_timestamp=None):
    """Decodes and replays the bytes of one record; its outcome: ok, tombstone, fail, skip."""
    found = CoordinatorRecordDecoder(TRANSACTION_LOG).decode(key_bytes(transactional_id), data)
    if isinstance(found, Undecodable):
        return "fail" if shard.rules.fails_at(found.reason) else "skip"
    try:
        shard.replay(offset, log_timestamp, found.key["transactionalId"], found.value_version, found.value)
    except ReplayFailure:
        return "fail"
    return "tombstone" if found.is_tombstone else "ok"


def text_of(known):
    """A transactional id as the data file has it."""
    partitions = ";".join(sorted(f"{topic}-{partition}" for topic, partition in known.topic_partitions))
    numbers = [known.producer_id, known.previous_producer_id, known.next_producer_id, known.producer_epoch]
    numbers += [known.timeout_ms, known.state, known.start_timestamp, known.last_update_timestamp]
    flags = [known.is_two_phase, known.state in EXPIRING_STATES]
    return [*map(str, numbers), *(str(flag).lower() for flag in flags), partitions]


@pytest.mark.parametrize(("version", "answer"), [("3.9", 2), ("4.0", 3), ("4.2", 3), ("4.3", 4), ("4.4", 4)])
def test_every_record_becomes_what_kafkas_own_class_makes_of_it(version, answer):
    shard = shard_of(version)
    for offset, row in enumerate(KAFKA):
        transactional_id, data = row[0], None if row[1] is None else bytes.fromhex(row[1])
        before = shard.transactional_ids.get(transactional_id)
        outcome = replay(shard, offset, transactional_id, data)
        after = shard.transactional_ids.get(transactional_id)
        if outcome != "ok":
            assert outcome == row[answer] and after is (None if outcome == "tombstone" else before)
            continue
        reported = row[answer].split(",")
        assert [mine for mine, its in zip(text_of(after), reported, strict=True) if its != "-"] == [
            its for its in reported if its != "-"
        ]


def test_before_3_4_1_version_1_and_unknown_types_end_the_load():
    assert replay(shard_of("3.4.0"), 0, "a", value_bytes(value(), 1)) == "fail"
    assert replay(shard_of("3.4"), 0, "a", value_bytes(value(), 1)) == "ok"
    rules = {name: transaction_rules(release(name)) for name in ("0.11", "3.4.0", "3.4.1", "4.2", "4.3")}
    types = {name: rule.fails_at("unknown_record_type") for name, rule in rules.items()}
    assert types == {"0.11": True, "3.4.0": True, "3.4.1": False, "4.2": False, "4.3": False}
    versions = {name: rule.fails_at("unknown_value_version") for name, rule in rules.items()}
    assert versions == {"0.11": True, "3.4.0": True, "3.4.1": True, "4.2": True, "4.3": False}
    assert all(rule.fails_at(reason) for rule in rules.values() for reason in ("truncated", "empty_value", "null_key"))
    assert transaction_rules(release("0.10.2")) is None


@pytest.mark.parametrize("version", ["2.8", "3.9", "4.0", "4.4"])
@pytest.mark.parametrize("seed", some_of(3, *range(10)))
def test_a_history_cut_anywhere_gives_the_whole(seed, version):
    whole, cut, events = shard_of(version, reporting=True), shard_of(version, reporting=True), []
    for offset, (transactional_id, _, data) in enumerate(history(seed, 60)):
        replay(whole, offset, transactional_id, data)
        cut = TransactionCoordinatorShard.load(cut.rules, 0, list(cut.save()), reporting=True)
        replay(cut, offset, transactional_id, data)
        events += cut.take_events()
    assert cut.transactional_ids == whole.transactional_ids and events == whole.take_events()
    assert list(cut.transactional_id_rows()) == list(whole.transactional_id_rows())


def test_a_row_has_the_partitions_once_in_order_and_null_for_unset_fields():
    shard = shard_of("4.4")
    data = value_bytes(value(1, [("b", [2, 0, 2]), ("a", [1])], nextProducerEpoch=0, clientTransactionVersion=2), 1)
    assert replay(shard, 7, "etl", data) == "ok"
    (row,) = shard.transactional_id_rows()
    assert row.topic_partitions == [TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 2)]
    assert (row.producer_id, row.producer_epoch, row.previous_producer_id, row.next_producer_id) == (7, 0, None, None)
    assert (row.next_producer_epoch, row.state, row.expires_at, row.log_offset) == (0, "Ongoing", None, 7)
    replay(shard, 8, "etl", value_bytes(value(0, None, transactionStartTimestampMs=-1), 0))
    (row,) = shard.transactional_id_rows(500)
    assert (row.state, row.start_timestamp, row.expires_at, row.topic_partitions) == ("Empty", None, 1_500, [])


def test_an_id_expires_at_the_millisecond_at_which_kafka_lets_it():
    # TransactionStateManager.shouldExpire of 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0, with 500 ms: states 0 to 7,
    # each with a last update at -1, 0 and 1000, asked 499, 500 and 501 ms later.
    kafka = "011011011 000000000 000000000 000000000 011011011 011011011 000000000 000000000"
    asked = [(last, last + passed) for last in (-1, 0, 1000) for passed in (499, 500, 501)]
    due = [[(expires_at(state, last, 500), now) for last, now in asked] for state in STATES.values()]
    mine = ["".join(str(int(at is not None and at <= now)) for at, now in each) for each in due]
    assert " ".join(mine) == kafka


OPEN = {"transactionStartTimestampMs": 900, "transactionTimeoutMs": 60_000, "producerEpoch": 3}


@pytest.mark.parametrize(
    ("opened", "ended", "event"),
    [
        ({}, {"producerEpoch": 4, "transactionLastUpdateTimestampMs": 60_901}, "transaction_timed_out"),
        ({}, {"producerEpoch": 4, "transactionLastUpdateTimestampMs": 60_900}, "producer_fenced"),
        ({}, {"producerEpoch": 3, "transactionLastUpdateTimestampMs": 90_000}, None),  # the producer's own abort
        # A producer of version 2 takes a new epoch with every end; its coordinator writes 2 into all of its own aborts.
        ({"clientTransactionVersion": 2}, {"producerEpoch": 4, "clientTransactionVersion": 2}, None),
        ({}, {"producerEpoch": 4, "clientTransactionVersion": 2}, "producer_fenced"),
        (
            {},
            {"producerEpoch": 4, "clientTransactionVersion": 2, "transactionLastUpdateTimestampMs": 99_000},
            "transaction_timed_out",
        ),
        (
            {"transactionTimeoutMs": TWO_PHASE_TIMEOUT_MS},
            {"producerEpoch": 4, "transactionLastUpdateTimestampMs": 1 << 40},
            "producer_fenced",
        ),
        ({"transactionStatus": 0}, {"producerEpoch": 4}, None),
        ({}, {"producerEpoch": 4, "transactionStatus": 2}, None),
    ],
)
def test_an_abort_by_the_coordinator_is_distinguished_from_the_producers_own(opened, ended, event):
    shard = shard_of("4.4", reporting=True)
    assert replay(shard, 0, "etl", value_bytes(value(**OPEN | opened), 1)) == "ok"
    assert replay(shard, 1, "etl", value_bytes(value(**OPEN | {"transactionStatus": 3} | ended), 1), 5) == "ok"
    partition = TopicPartition("t", 0)
    timeout = opened.get("transactionTimeoutMs", 60_000)
    expected = [] if event is None else [TransactionEvent(1, 5, "etl", event, 7, 3, 900, timeout, [partition])]
    assert shard.take_events() == expected and shard.take_events() == []


@pytest.mark.parametrize("recording", WITH_TRANSACTIONS)
def test_the_brokers_admin_api_describes_the_same_transactions(recording):
    mine = {
        row.transactional_id: {
            "transactional_id": row.transactional_id,
            "producer_id": row.producer_id,
            "producer_epoch": row.producer_epoch,
            "state": row.state,
            "timeout_ms": row.timeout_ms,
            "start_time_ms": row.start_timestamp,
            "partitions": [list(each) for each in row.topic_partitions],
        }
        for row in rows_of(recording)
    }
    reported = {
        one["transactional_id"]: one | {"partitions": sorted(one["partitions"])}
        for one in answers()[recording]["transactions"]
    }
    assert {name: mine[name] for name in reported} == reported and mine.keys() == reported.keys()


def test_the_recordings_cover_both_value_versions_and_every_state_that_lasts():
    versions, states = set(), set()
    for recording in answers():
        if not recording.startswith("share"):
            versions |= {record.value_version for *_, record in decoded(recording, TRANSACTION_LOG)}
            states |= {row.state for row in rows_of(recording)}
    assert versions >= {0, 1} and states == {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}
