"""Offsets held by open transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.escapes import shell_word
from kgroups_spark.findings.evidence import Condition, Evidence, Row, listed, some
from kgroups_spark.findings.finding import Finding, at, tool
from kgroups_spark.findings.listings import listings, open_on_partition
from kgroups_spark.tables.schemas import GROUP
from kgroups_spark.times import to_epoch_ms
from kgroups_spark.transaction_coordinator.hanging import Verdict, verdict
from kgroups_spark.transaction_coordinator.rules import MAX_TRANSACTION_TIMEOUT_MS

TOO_LONG_MS = MAX_TRANSACTION_TIMEOUT_MS + 1


def hanging_transaction(evidence: Evidence) -> Iterator[Finding]:
    """A transaction open for longer than any may last, and records of a producer outside a transaction (T28)."""
    limit = evidence.before_until(TOO_LONG_MS)
    columns = ["producer_id", "transaction_start_offset", "open_since", "offset_count", "group_ids", "transactional_id"]
    rows = evidence.tables.rows(
        "open_transactions", ["offsets_partition", *columns], Condition("open_since", "<=", limit)
    )
    rows = evidence.known(rows, "open_since", TOO_LONG_MS)
    in_order = rows.sort_by([("offsets_partition", "ascending"), ("producer_id", "ascending")]).to_pylist()
    judged = verdicts(evidence, in_order)
    for row, judgement in zip(in_order, judged, strict=True):
        if not (judgement.is_hanging or judgement is Verdict.NOT_KNOWN):
            continue
        groups = sorted(row["group_ids"])
        partition, start = row["offsets_partition"], row["transaction_start_offset"]
        yield Finding.of(
            "hanging_transaction",
            row,
            f"Producer {row['producer_id']} opened a transaction on partition {partition} of __consumer_offsets at "
            f"{at(row['open_since'])}, {format_duration(_ms(evidence.known_until, row['open_since']))} ago; "
            f"transaction.max.timeout.ms allows 15m by default{_why(row, judgement)}. Until it ends, consumers get "
            f"UNSTABLE_OFFSET_COMMIT for {counted(row['offset_count'], 'offset')} of {some(groups) or 'no group'}, and "
            "nothing after it in this partition is compacted. If its application is gone: "
            + tool(
                "kafka-transactions", f"abort --topic __consumer_offsets --partition {partition} --start-offset {start}"
            ),
            group_id=groups[0] if len(groups) == 1 else None,
            log_offset=start,
            since=row["open_since"],
        )
    yield from _in_no_transaction(evidence, limit)


def verdicts(evidence: Evidence, transactions: Sequence[Row]) -> list[Verdict]:
    """The verdict on each open transaction, by Kafka's rule (hanging.py)."""
    if not transactions:
        return []

    def ask(columns: Sequence[str], conditions: Sequence[Condition]) -> Sequence[Row]:
        rows: list[Row] = evidence.tables.rows("transactional_ids", columns, *conditions).to_pylist()
        return rows

    state = evidence.transaction_state
    known = listings(ask, {row["producer_id"] for row in transactions}, state.partitions, state.known_until)
    now = to_epoch_ms(evidence.known_until)
    return [verdict(open_on_partition(row, ()), known, now, MAX_TRANSACTION_TIMEOUT_MS) for row in transactions]


def _why(row: Row, judgement: Verdict) -> str:
    name = "" if row["transactional_id"] is None else f" (transactional.id {row['transactional_id']})"
    said = (
        judgement.value
        if judgement.is_hanging
        else "__transaction_state was not read, so the coordinator may know that it is still valid"
    )
    return f"{name}; {said}"


def _in_no_transaction(evidence: Evidence, limit: datetime) -> Iterator[Finding]:
    columns = [*GROUP, "producer_id", "log_offset", "commit_timestamp", "transaction_start_offset"]
    rows = evidence.tables.rows("pending_offsets", columns, Condition("commit_timestamp", "<=", limit))
    rows = rows.filter(pc.field("transaction_start_offset").is_null())
    rows = evidence.known(rows, "commit_timestamp", TOO_LONG_MS)
    keys = [*GROUP, "producer_id"]
    aggregates: list[Any] = [([], "count_all"), ("log_offset", "min"), ("commit_timestamp", "min")]
    for row in listed(rows.group_by(keys).aggregate(aggregates)):
        group_id = row["group_id"]
        yield Finding.of(
            "hanging_transaction",
            row,
            f"{counted(row['count_all'], 'offset')} of {group_id} were written by producer {row['producer_id']} "
            f"outside any transaction, the first at {at(row['commit_timestamp_min'])}. A Java coordinator waits for a "
            "marker that will never be written, and consumers get UNSTABLE_OFFSET_COMMIT. No client may use an "
            "idempotent producer on __consumer_offsets. Deleting the offsets ends the wait: "
            + tool("kafka-consumer-groups", f"--delete-offsets --group {shell_word(group_id)} --topic TOPIC:PARTITION"),
            log_offset=row["log_offset_min"],
            since=row["commit_timestamp_min"],
        )


def _ms(until: datetime, since: datetime) -> int:
    return int((until - since).total_seconds() * 1000)
