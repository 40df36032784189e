"""open transactions and the offsets that are pending in them

Prints one row for each offset in a transaction that was still open at the end of the log. Until the transaction ends, a
consumer that fetches the group's offsets gets UNSTABLE_OFFSET_COMMIT and waits (Java consumers since 2.5 do), and the
log cleaner cannot pass it. A transaction whose offsets were removed since is one row without an offset: it still blocks
the cleaner. AGE counts up to the end of the log that the last audit read. A transaction that is open for longer than
the brokers' transaction.max.timeout.ms hangs if the transaction coordinator does not list the partition or does not
know the producer. This is Kafka's own rule (kafka-transactions find-hanging), applied to __transaction_state as the
last audit read it; without that log only the age counts. Two-phase transactions never hang. stderr shows Kafka's
commands that end hanging transactions (brokers from 3.0 on).

examples:
  kgroups pending --lake ./lake
  kgroups pending --lake ./lake --hanging --max-transaction-timeout 1h
  kgroups pending --lake ./lake --hanging --fail-if-any --format json     exit 4 if there is one"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from kgroups_spark.cli.form import FAIL_IF_ANY, LAKE, ROWS, Option, duration_value, fail_if_any, screen, write
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import say, say_lines
from kgroups_spark.coordinator.transaction_shard import (
    MAX_TRANSACTION_TIMEOUT_MS,
    Listings,
    OpenOnPartition,
    TopicPartition,
    Verdict,
    verdict,
)
from kgroups_spark.findings.finders import listings
from kgroups_spark.sql.reader import (
    LakeReader,
    Row,
    Rows,
    about_hanging,
    to_rows,
    waiting_groups,
    with_what_is_held_back,
)
from kgroups_spark.tables.columns import Condition
from kgroups_spark.words import counted, format_duration, to_epoch_ms

OPTIONS = (
    LAKE,
    Option("--hanging", "only hanging transactions"),
    Option(
        "--max-transaction-timeout D",
        "the brokers' transaction.max.timeout.ms: a younger transaction does not hang (default: 15m)",
        duration_value,
        MAX_TRANSACTION_TIMEOUT_MS,
    ),
    Option("--verbose", "also show what else each transaction blocks"),
    FAIL_IF_ANY,
    *ROWS,
)
# `age` is age_ms for the screen.
SCREEN = screen(
    "group_id=GROUP topic partition committed_offset=PENDING-OFFSET open_since* age is_hanging=HANGING producer_id* "
    "producer_epoch=EPOCH* transactional_id* transaction_start_offset=START-OFFSET* offsets_partition*"
)
_COLUMNS = """
    audit_id offsets_partition producer_id producer_epoch transactional_id transaction_start_offset open_since
    age_ms is_hanging verdict group_id topic partition committed_offset leader_epoch metadata commit_timestamp
    expire_timestamp topic_id log_offset log_offsets_behind bytes_behind abort_command other_partitions
"""
COLUMNS = _COLUMNS.split()

# A row for each offset of each open transaction, the longest open first; one row if it has no offsets left.
PENDING = """
SELECT open.audit_id, open.offsets_partition, open.producer_id, open.producer_epoch, open.transactional_id,
  open.transaction_start_offset, open.open_since, pending.group_id, pending.topic, pending.partition,
  pending.committed_offset, pending.leader_epoch, pending.metadata, pending.commit_timestamp, pending.expire_timestamp,
  pending.topic_id, pending.log_offset,
  max(pending.commit_timestamp) OVER (PARTITION BY open.offsets_partition, open.producer_id) AS last_commit
FROM open_transactions AS open
LEFT JOIN pending_offsets AS pending
  ON pending.offsets_partition = open.offsets_partition AND pending.producer_id = open.producer_id
ORDER BY open.open_since NULLS LAST, open.offsets_partition, open.producer_id, group_id, topic, partition"""


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    found = reader.sql(PENDING)
    listed = listed_of(reader, {row["producer_id"] for row in found})
    rows = [judged(row, listed, reader.as_of_ms, arguments.max_transaction_timeout) for row in found]
    wanted = [row for row in rows if row["is_hanging"] or not arguments.hanging]
    chosen = with_what_is_held_back(reader, wanted)
    write(chosen, COLUMNS, SCREEN, arguments)
    also = about_other_partitions(chosen) if arguments.verbose else ()
    say_lines([*waiting_groups(chosen), *about_hanging(chosen), *also])
    say(f"{_summary(chosen, is_listed=listed is not None)} ({reader.known_as_of()})")
    return fail_if_any(arguments, chosen)


def listed_of(reader: LakeReader, producers: set[int]) -> Listings | None:
    """The transaction coordinator's listing of these producers; None: its log was not read."""
    audit = reader.last_audit
    read = [each for each in audit["partitions"] or () if each.get("topic") == "__transaction_state"]
    times = [each["newest_log_timestamp"] for each in read if each["newest_log_timestamp"] is not None]

    def ask(columns: Sequence[str], conditions: Sequence[Condition]) -> Sequence[dict[str, Any]]:
        return to_rows(reader.table_rows("transactional_ids", columns, conditions))

    # A rebuild reads no log: the listing is as old as the last read.
    until = None if audit["source"] == "kafka" else max(times, default=None)
    return listings(ask, producers, {each["offsets_partition"] for each in read}, until)


def judged(row: Row, listed: Listings | None, as_of_ms: int, maximum_ms: int) -> Row:
    """The row with the transaction's age, its verdict, and the other partitions that it has written to (null: unknown).
    Without `__transaction_state` age alone decides; a transaction of unknown beginning has no verdict."""
    here, producer = TopicPartition("__consumer_offsets", row["offsets_partition"]), row["producer_id"]
    age_ms = found = None
    if row["open_since"] is not None:
        since = to_epoch_ms(row["open_since"])
        age_ms = as_of_ms - since
        last = since if listed is None or row["last_commit"] is None else max(since, to_epoch_ms(row["last_commit"]))
        found = verdict(OpenOnPartition(here, producer, last), listed, as_of_ms, maximum_ms)
    known = [] if listed is None else listed.of_producer(producer)
    return row | {
        "age_ms": age_ms,
        "age": None if age_ms is None else format_duration(age_ms),
        "is_hanging": found is not None and (found.is_hanging or found is Verdict.NOT_KNOWN),
        "verdict": None if found is None else found.name.lower(),
        "other_partitions": [f"{each.topic}-{each.partition}" for each in known[0].topic_partitions if each != here]
        if known
        else None,
    }


def about_other_partitions(rows: Iterable[Row]) -> list[str]:
    """A sentence for each transaction that also holds back partitions of other topics."""
    others = {row["producer_id"]: row for row in rows if row["other_partitions"]}
    return [
        f"{row['transactional_id'] or f'producer {producer}'} has written to {', '.join(row['other_partitions'])}, "
        "too: read_committed consumers of those partitions wait for it as well"
        for producer, row in others.items()
    ]


def _summary(rows: Rows, *, is_listed: bool) -> str:
    transactions = {(row["offsets_partition"], row["producer_id"]): row for row in rows}
    offsets = sum(row["log_offset"] is not None for row in rows)
    found = [f"{counted(offsets, 'pending offset')} in {counted(len(transactions), 'open transaction')}"]
    likely = sum(row["verdict"] == "not_known" for row in transactions.values())
    hanging = sum(row["is_hanging"] for row in transactions.values()) - likely
    if is_listed and (hanging or not likely):
        found.append(f"{hanging} hanging by Kafka's rule")
    if likely or not is_listed:
        part = " in full" if is_listed else ""
        found.append(f"{likely} likely hanging (by age alone: __transaction_state was not read{part})")
    return ", ".join(found)
