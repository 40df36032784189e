"""`kgroups pending`: open transactions on __consumer_offsets, with the offsets pending in them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.findings.listings import listings, open_on_partition
from kgroups_spark.reading.held_back import (
    abort_command,
    about_hanging,
    bytes_behind,
    log_offsets_behind,
    logs_read,
    waiting_groups,
)
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import LakeReader, to_rows
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.terminal.options import (
    add_engine_option,
    add_fail_if_any_option,
    add_format_option,
    add_lake_option,
    duration_value,
    fail_if_any,
)
from kgroups_spark.terminal.output import Column, say, say_lines, until_closed, write_rows
from kgroups_spark.times import to_epoch_ms
from kgroups_spark.transaction_coordinator.hanging import Listings, Verdict, verdict
from kgroups_spark.transaction_coordinator.rules import MAX_TRANSACTION_TIMEOUT_MS

NAME = "pending"
SUMMARY = "open transactions and the offsets that are pending in them"
DESCRIPTION = """\
Prints one row for each offset in a transaction that was still open at the end of the log. Until the transaction ends, a
consumer that fetches the group's offsets gets UNSTABLE_OFFSET_COMMIT and waits (Java consumers since 2.5 do), and the
log cleaner cannot pass it. A transaction whose offsets were removed since is one row without an offset: it still blocks
the cleaner. AGE counts up to the end of the log that the last audit read. A transaction that is open for longer than
the brokers' transaction.max.timeout.ms hangs if the transaction coordinator does not list the partition or does not
know the producer. This is Kafka's own rule (kafka-transactions find-hanging), applied to __transaction_state as the
last audit read it; without that log only the age counts. Two-phase transactions never hang. stderr shows Kafka's
commands that end hanging transactions."""
EXAMPLES = """\
examples:
  kgroups pending --lake ./lake
  kgroups pending --lake ./lake --hanging --max-transaction-timeout 1h
  kgroups pending --lake ./lake --hanging --fail-if-any --format json     exit 4 if there is one"""

COLUMNS = (
    Column("audit_id"),
    Column("offsets_partition", "OFFSETS-PARTITION"),
    Column("producer_id", "PRODUCER-ID"),
    Column("producer_epoch", "EPOCH"),
    Column("transactional_id", "TRANSACTIONAL-ID"),
    Column("transaction_start_offset", "START-OFFSET"),
    Column("open_since", "OPEN-SINCE (UTC)"),
    Column("age", "AGE"),
    Column("age_ms"),
    Column("is_hanging", "HANGING"),
    Column("verdict"),
    Column("group_id", "GROUP"),
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("committed_offset", "PENDING-OFFSET"),
    Column("leader_epoch"),
    Column("metadata"),
    Column("commit_timestamp"),
    Column("expire_timestamp"),
    Column("topic_id"),
    Column("log_offset"),
)
# `age` is age_ms for the screen, which has sentences in place of HELD_BACK.
HELD_BACK = ("log_offsets_behind", "bytes_behind", "abort_command", "other_partitions")
CONTRACT_COLUMNS = (
    *(column for column in COLUMNS if column.name != "age"),
    *(Column(name) for name in HELD_BACK),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_lake_option(parser)
    parser.add_argument("--hanging", action="store_true", help="only hanging transactions")
    parser.add_argument(
        "--max-transaction-timeout",
        type=duration_value,
        default=MAX_TRANSACTION_TIMEOUT_MS,
        metavar="D",
        help="the brokers' transaction.max.timeout.ms: a younger transaction does not hang (default: 15m)",
    )
    parser.add_argument("--verbose", action="store_true", help="also show what else each transaction blocks")
    add_fail_if_any_option(parser)
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    opened = reader.rows("open_transactions")
    listed = listed_of(reader, {row["producer_id"] for row in opened})
    rows = pending_rows(
        opened,
        reader.rows("pending_offsets"),
        as_of_ms=reader.as_of_ms,
        max_transaction_timeout_ms=arguments.max_transaction_timeout,
        listed=listed,
    )
    wanted = [row for row in rows if row["is_hanging"] or not arguments.hanging]
    chosen = with_other_partitions(with_what_is_held_back(reader, wanted), listed)
    with until_closed():
        write_rows(chosen, COLUMNS if arguments.format == "table" else CONTRACT_COLUMNS, arguments.format)
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


def with_other_partitions(rows: list[dict[str, Any]], listed: Listings | None) -> list[dict[str, Any]]:
    """The rows with the other partitions that their transactions have written to; null: `__transaction_state` was not
    read, or does not know the producer."""
    return [row | {"other_partitions": _others(row, listed)} for row in rows]


def _others(row: dict[str, Any], listed: Listings | None) -> list[str] | None:
    known = [] if listed is None else listed.of_producer(row["producer_id"])
    if not known:
        return None
    here = ("__consumer_offsets", row["offsets_partition"])
    return [f"{topic}-{number}" for topic, number in known[0].topic_partitions if (topic, number) != here]


def about_other_partitions(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A sentence for each transaction that also holds back partitions of other topics."""
    said = {}
    for row in rows:
        if row["other_partitions"]:
            name = row["transactional_id"] or f"producer {row['producer_id']}"
            said[row["producer_id"]] = (
                f"{name} has written to {', '.join(row['other_partitions'])}, too: read_committed consumers of those "
                "partitions wait for it as well"
            )
    return list(said.values())


def with_what_is_held_back(reader: LakeReader, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with HELD_BACK: the records after the first record of each transaction, and the command that ends
    hanging ones."""
    if not rows:
        return []
    logs = logs_read(reader, {row["offsets_partition"] for row in rows})
    release, epochs = reader.last_audit["release_version"], _coordinator_epochs(reader)
    return [
        row
        | {
            "log_offsets_behind": log_offsets_behind(row, logs[row["offsets_partition"]]),
            "bytes_behind": bytes_behind(row, logs[row["offsets_partition"]]),
            "abort_command": abort_command(row, release, epochs) if row["is_hanging"] else None,
        }
        for row in rows
    ]


def _coordinator_epochs(reader: LakeReader) -> dict[tuple[int, int], int]:
    """The newest epoch of a transaction coordinator in the markers of producers that have a transaction open."""
    rows = reader.sql(
        "SELECT offsets_partition, producer_id, max(coordinator_epoch) AS epoch FROM transaction_markers "
        "WHERE producer_id IN (SELECT producer_id FROM open_transactions) GROUP BY offsets_partition, producer_id"
    )
    return {(row["offsets_partition"], row["producer_id"]): row["epoch"] for row in rows if row["epoch"] is not None}


def pending_rows(
    open_transactions: list[dict[str, Any]],
    pending_offsets: list[dict[str, Any]],
    *,
    as_of_ms: int,
    max_transaction_timeout_ms: int,
    listed: Listings | None = None,
) -> list[dict[str, Any]]:
    """A row for each offset of each open transaction, the longest open first; one row if it has no offsets left.

    `listed`: the transaction coordinator's listing of the producers; None: not known, and age alone decides.
    """
    offsets: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for offset in pending_offsets:
        offsets.setdefault((offset["offsets_partition"], offset["producer_id"]), []).append(offset)
    rows: list[dict[str, Any]] = []
    for transaction in sorted(open_transactions, key=lambda row: (row["open_since"] is None, row["open_since"])):
        age_ms = _age_ms(transaction, as_of_ms)
        mine = offsets.get((transaction["offsets_partition"], transaction["producer_id"]), [{}])
        opened = open_on_partition(transaction, () if listed is None else mine)
        found = None if age_ms is None else verdict(opened, listed, as_of_ms, max_transaction_timeout_ms)
        facts = transaction | {
            "age_ms": age_ms,
            "age": None if age_ms is None else format_duration(age_ms),
            "is_hanging": found is not None and (found.is_hanging or found is Verdict.NOT_KNOWN),
            "verdict": None if found is None else found.name.lower(),
        }
        rows.extend(_pending_row(facts, offset) for offset in sorted(mine, key=_slot))
    return rows


def _age_ms(transaction: dict[str, Any], as_of_ms: int) -> int | None:
    since = transaction["open_since"]
    return None if since is None else as_of_ms - to_epoch_ms(since)


def _slot(offset: dict[str, Any]) -> tuple[str, str, int]:
    return offset.get("group_id", ""), offset.get("topic", ""), offset.get("partition", 0)


def _pending_row(transaction: dict[str, Any], offset: dict[str, Any]) -> dict[str, Any]:
    return {column.name: transaction.get(column.name, offset.get(column.name)) for column in COLUMNS}


def _summary(rows: list[dict[str, Any]], *, is_listed: bool) -> str:
    transactions = {(row["offsets_partition"], row["producer_id"]) for row in rows}
    hanging = {(row["offsets_partition"], row["producer_id"]) for row in rows if row["is_hanging"]}
    offsets = sum(row["log_offset"] is not None for row in rows)
    found = f"{counted(offsets, 'pending offset')} in {counted(len(transactions), 'open transaction')}"
    how = "by Kafka's rule" if is_listed else "(by age alone: __transaction_state was not read)"
    return f"{found}, {len(hanging)} {'hanging' if is_listed else 'likely hanging'} {how}"
