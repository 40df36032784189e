from datetime import UTC, datetime, timedelta

from kgroups_spark.cli.pending import COLUMNS, PENDING, SCREEN, about_other_partitions
from kgroups_spark.cli.pending import judged as judged_row
from kgroups_spark.findings.finders import listings
from kgroups_spark.sql.reader import about_hanging, held_back, waiting_groups
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import to_epoch_ms
from tests.cli.story_reader import ArrowReader
from tests.lake.table_rows import rows_of

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


def pending_rows(transactions, offsets, *, as_of_ms, max_transaction_timeout_ms, listed=None):
    tables = {"open_transactions": transactions, "pending_offsets": offsets}
    reader = ArrowReader({name: rows_of(name, *rows) for name, rows in tables.items()}, AS_OF)
    return [judged_row(row, listed, as_of_ms, max_transaction_timeout_ms) for row in reader.sql(PENDING)]


def found(transactions, offsets, minutes=15):
    rows = pending_rows(transactions, offsets, as_of_ms=to_epoch_ms(AS_OF), max_transaction_timeout_ms=minutes * 60_000)
    return [(row["producer_id"], row["partition"], row["age"], row["is_hanging"]) for row in rows]


def test_each_offset_is_a_row_with_the_longest_open_transaction_first():
    transactions = [transaction(7, AS_OF - 2 * MINUTE), transaction(8, AS_OF - 20 * MINUTE)]
    assert found(transactions, [offset(7, 1), offset(7, 0), offset(8, 5)]) == [
        (8, 5, "20m", True),
        (7, 0, "2m", False),
        (7, 1, "2m", False),
    ]


def test_a_transaction_whose_offsets_were_removed_is_still_a_row():
    assert found([transaction(7, AS_OF - 20 * MINUTE)], []) == [(7, None, "20m", True)]


def test_a_transaction_hangs_once_it_is_older_than_the_longest_timeout():
    assert found([transaction(7, AS_OF - 15 * MINUTE)], []) == [(7, None, "15m", False)]
    assert found([transaction(7, AS_OF - 15 * MINUTE)], [], minutes=14) == [(7, None, "15m", True)]


def test_one_producer_can_have_a_transaction_on_two_partitions():
    transactions = [transaction(7, AS_OF - MINUTE, partition=3), transaction(7, AS_OF - 3 * MINUTE, partition=4)]
    assert found(transactions, [offset(7, 0, partition=3), offset(7, 1, partition=4)]) == [
        (7, 1, "3m", False),
        (7, 0, "1m", False),
    ]


def test_a_transaction_of_unknown_beginning_is_last_without_an_age_and_does_not_hang():
    transactions = [transaction(7, None), transaction(8, AS_OF - MINUTE), transaction(9, None)]
    assert found(transactions, []) == [(8, None, "1m", False), (7, None, None, False), (9, None, None, False)]


def test_column_names_are_those_of_the_tables():
    contract = {*TABLES["open_transactions"].columns.names, *TABLES["pending_offsets"].columns.names}
    assert {column.name for column in SCREEN} - contract == {"age"}
    assert set(TABLES["pending_offsets"].columns.names) <= set(COLUMNS)


def test_offsets_after_a_transaction_count_from_its_first_record():
    """300 log offsets, each counted as a record of 150 bytes."""
    read = {"end_offset": 400, "records": 200, "bytes": 30_000}
    behind = held_back(transaction(7, AS_OF) | {"is_hanging": True}, read)
    assert behind == {
        "log_offsets_behind": 300,
        "bytes_behind": 45_000,
        "abort_command": "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic __consumer_offsets "
        "--partition 3 --start-offset 100",
    }
    behind = held_back(transaction(7, AS_OF) | {"is_hanging": False}, read | {"records": 0, "bytes": 0})
    assert (behind["bytes_behind"], behind["abort_command"]) == (None, None)


def test_waiting_groups_and_hanging_transactions_are_reported_once():
    transactions = [transaction(7, AS_OF - 20 * MINUTE), transaction(8, AS_OF - MINUTE)]
    offsets = [offset(7, 0), offset(7, 1), offset(8, 5)]
    rows = pending_rows(transactions, offsets, as_of_ms=to_epoch_ms(AS_OF), max_transaction_timeout_ms=900_000)
    behind = {"log_offsets_behind": 300, "bytes_behind": 45_000, "abort_command": "the command"}
    reported = about_hanging([row | behind for row in rows])
    assert reported[0] == (
        "producer 7 on __consumer_offsets-3, open for 20m: likely hanging; "
        "the cleaner cannot pass 100: 300 offsets, about 45.0 kB, to the log's end"
    )
    assert [line.split("   ")[-1].strip() for line in reported[1:]] == [
        "kafka-transactions.sh --bootstrap-server HOST:PORT find-hanging --topic __consumer_offsets --partition 3",
        "the command",
    ]
    (waiting,) = waiting_groups(rows)
    assert waiting.startswith("members of billing (3 offsets) wait for these offsets: ")
    assert waiting_groups(pending_rows(transactions, [], as_of_ms=0, max_transaction_timeout_ms=1)) == []


HERE = {"topic": "__consumer_offsets", "partition": 3}


def listed(*rows, read=(0,), until=None):
    """The command's listings from rows of transactional_ids: (name, producer, state, timeout, partitions) each."""
    names = ("transactional_id", "producer_id", "state", "timeout_ms", "topic_partitions")
    given = [dict(zip(names, row, strict=True)) | {"state_partition": 0, "log_offset": 9} for row in rows]
    return listings(lambda columns, conditions: given, {7}, set(read), until)


def judged(known, minutes=20):
    rows = pending_rows(
        [transaction(7, AS_OF - minutes * MINUTE)],
        [offset(7, 0)],
        as_of_ms=to_epoch_ms(AS_OF),
        max_transaction_timeout_ms=900_000,
        listed=known,
    )
    return rows[0]["verdict"], rows[0]["is_hanging"]


def test_hanging_follows_kafkas_rule_where_transaction_state_was_read():
    ongoing = ("billing-0", 7, "Ongoing", 60_000)
    assert judged(listed((*ongoing, [HERE]))) == ("listed", False)
    assert judged(listed((*ongoing, [{"topic": "orders", "partition": 3}]))) == ("partition_not_listed", True)
    assert judged(listed(("billing-0", 8, "Ongoing", 60_000, [HERE]))) == ("producer_unknown", True)
    assert judged(listed((*ongoing[:3], 2**31 - 1, [HERE]))) == ("two_phase", False)
    assert judged(listed((*ongoing[:3], 2**31 - 1, []))) == ("two_phase", False)
    assert judged(listed((*ongoing, [])), minutes=15) == ("within_maximum", False)


def test_a_verdict_without_the_needed_log_is_not_known():
    assert judged(None) == ("not_known", True)
    assert listed(read=()) is None
    # Partition 1 of the log is missing; or it was read before the transaction began.
    assert judged(listed(read=(0, 2))) == ("not_known", True)
    assert judged(listed(until=AS_OF - 30 * MINUTE)) == ("not_known", True)
    # `billing-1` belongs to partition 1 of two, so the topic must have another number of partitions.
    misplaced = ("billing-1", 8, "Ongoing", 60_000, [])
    assert judged(listed(misplaced, read=(0, 1))) == ("not_known", True)


def test_other_partitions_that_a_transaction_holds_back_are_reported():
    known = listed(("billing-0", 7, "Ongoing", 60_000, [HERE, {"topic": "orders", "partition": 5}]))
    opened = [transaction(7, AS_OF), transaction(9, AS_OF)]
    rows = pending_rows(opened, [], as_of_ms=to_epoch_ms(AS_OF), max_transaction_timeout_ms=1, listed=known)
    assert [row["other_partitions"] for row in rows] == [["orders-5"], None]
    assert about_other_partitions(rows) == [
        "producer 7 has written to orders-5, too: read_committed consumers of those partitions wait for it as well"
    ]


def test_a_certainly_hanging_transaction_is_reported_with_its_transactional_id():
    rows = pending_rows(
        [transaction(7, AS_OF - 20 * MINUTE) | {"transactional_id": "billing-0"}],
        [],
        as_of_ms=to_epoch_ms(AS_OF),
        max_transaction_timeout_ms=900_000,
        listed=listed(),
    )
    behind = {"log_offsets_behind": 300, "bytes_behind": None, "abort_command": "the command"}
    assert about_hanging([row | behind for row in rows]) == [
        "producer 7 (billing-0) on __consumer_offsets-3, open for 20m: hanging, the transaction coordinator does not "
        "know the producer; the cleaner cannot pass 100: 300 offsets to the log's end",
        "  this ends it: the command",
    ]
