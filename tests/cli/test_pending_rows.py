from datetime import UTC, datetime, timedelta

from kgroups_spark.commands.pending import COLUMNS, CONTRACT_COLUMNS, pending_rows
from kgroups_spark.tables.current import OPEN_TRANSACTIONS, PENDING_OFFSETS
from kgroups_spark.times import to_epoch_ms

AS_OF = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def transaction(producer_id, open_since, partition=3):
    return {
        "offsets_partition": partition,
        "producer_id": producer_id,
        "producer_epoch": 5,
        "transaction_start_offset": 100,
        "open_since": open_since,
        "transactional_id": None,
        "group_ids": ["billing"],
        "offset_count": 1,
    }


def offset(producer_id, topic_partition, partition=3):
    return {
        "offsets_partition": partition,
        "producer_id": producer_id,
        "group_id": "billing",
        "topic": "orders",
        "partition": topic_partition,
        "committed_offset": 42,
        "log_offset": 101,
    }


def found(transactions, offsets, minutes=15):
    rows = pending_rows(transactions, offsets, as_of_ms=to_epoch_ms(AS_OF), max_transaction_timeout_ms=minutes * 60_000)
    return [(row["producer_id"], row["partition"], row["age"], row["is_hanging"]) for row in rows]


def test_one_row_an_offset_the_longest_open_transaction_first():
    transactions = [transaction(7, AS_OF - 2 * MINUTE), transaction(8, AS_OF - 20 * MINUTE)]
    assert found(transactions, [offset(7, 1), offset(7, 0), offset(8, 5)]) == [
        (8, 5, "20m", True),
        (7, 0, "2m", False),
        (7, 1, "2m", False),
    ]


def test_a_transaction_whose_offsets_were_removed_is_still_a_row():
    assert found([transaction(7, AS_OF - 20 * MINUTE)], []) == [(7, None, "20m", True)]


def test_hanging_is_older_than_the_longest_timeout_not_as_old():
    assert found([transaction(7, AS_OF - 15 * MINUTE)], []) == [(7, None, "15m", False)]
    assert found([transaction(7, AS_OF - 15 * MINUTE)], [], minutes=14) == [(7, None, "15m", True)]


def test_one_producer_can_have_a_transaction_on_two_partitions():
    transactions = [transaction(7, AS_OF - MINUTE, partition=3), transaction(7, AS_OF - 3 * MINUTE, partition=4)]
    assert found(transactions, [offset(7, 0, partition=3), offset(7, 1, partition=4)]) == [
        (7, 1, "3m", False),
        (7, 0, "1m", False),
    ]


def test_an_unknown_beginning_is_last_without_an_age_and_does_not_hang():
    transactions = [transaction(7, None), transaction(8, AS_OF - MINUTE), transaction(9, None)]
    assert found(transactions, []) == [(8, None, "1m", False), (7, None, None, False), (9, None, None, False)]


def test_column_names_are_those_of_the_tables():
    contract = {*OPEN_TRANSACTIONS.names, *PENDING_OFFSETS.names}
    assert {column.name for column in COLUMNS} - contract == {"age", "age_ms", "is_hanging"}
    assert set(PENDING_OFFSETS.names) <= {column.name for column in CONTRACT_COLUMNS}
