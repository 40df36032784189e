"""What an open transaction on __consumer_offsets holds back, and the command of Kafka's that ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kgroups_spark.counts import counted, sized
from kgroups_spark.durations import format_duration

Row = dict[str, Any]
Producer = tuple[int, int]  # offsets partition, producer id


def log_offsets_behind(transaction: Row, health: Row) -> int:
    """How many places of the log lie from the transaction's first record on; the cleaner comes to none of them."""
    return int(health["end_offset"] - transaction["transaction_start_offset"])


def bytes_behind(transaction: Row, health: Row) -> int | None:
    """About how many bytes these are: by the average record of the partition; null: nothing was read of it."""
    if not health["records"]:
        return None
    return int(health["bytes"] * log_offsets_behind(transaction, health) / health["records"])


def abort_command(transaction: Row, release_version: str, coordinator_epochs: Mapping[Producer, int]) -> str:
    """Kafka's command that ends it, as TransactionsCommand takes it (KIP-664).

    Brokers from 3.0 on tell the tool the rest. Older ones do not: they want an epoch of the transaction coordinator
    that is not below that of the producer's last marker; the tool takes 0 where there is none, and so do we.
    """
    partition = transaction["offsets_partition"]
    command = f"{_tool('abort')} --topic __consumer_offsets --partition {partition}"
    if int(release_version.split(".")[0]) >= 3:
        return f"{command} --start-offset {transaction['transaction_start_offset']}"
    epoch = max(0, coordinator_epochs.get((partition, transaction["producer_id"]), 0))
    producer = f"--producer-id {transaction['producer_id']} --producer-epoch {transaction['producer_epoch']}"
    return f"{command} {producer} --coordinator-epoch {epoch}"


def _tool(action: str) -> str:
    return f"kafka-transactions.sh --bootstrap-server HOST:PORT {action}"


def waiting_groups(rows: Iterable[Row]) -> list[str]:
    """A sentence naming the groups that have offsets in open transactions; none: no sentence."""
    groups = Counter(row["group_id"] for row in rows if row["group_id"] is not None)
    if not groups:
        return []
    names = ", ".join(f"{group} ({counted(count, 'offset')})" for group, count in sorted(groups.items()))
    return [
        "waiting for these offsets, told UNSTABLE_OFFSET_COMMIT meanwhile (Java consumers from 2.5 on always are): "
        f"members of {names}"
    ]


def about_hanging(rows: Iterable[Row]) -> list[str]:
    """For each transaction that hangs: how far the cleaner is held back, whether it really hangs, and what ends it."""
    lines: list[str] = []
    told: set[Producer] = set()
    for row in rows:
        producer = row["offsets_partition"], row["producer_id"]
        if not row["is_hanging"] or producer in told:
            continue
        told.add(producer)
        partition = f"__consumer_offsets-{row['offsets_partition']}"
        size = "" if row["bytes_behind"] is None else f", about {sized(row['bytes_behind'])},"
        behind = counted(row["log_offsets_behind"], "offset")
        find = f"{_tool('find-hanging')} --topic __consumer_offsets --partition {row['offsets_partition']}"
        lines += [
            f"producer {row['producer_id']} on {partition}, open for {format_duration(row['age_ms'])}: likely hanging; "
            f"the cleaner cannot pass {row['transaction_start_offset']}: {behind}{size} to the log's end",
            f"  does its coordinator know it?   {find}",
            f"  if not, this ends it:           {row['abort_command']}",
        ]
    return lines
