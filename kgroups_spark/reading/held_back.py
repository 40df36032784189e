"""The part of the log that an open transaction keeps from being cleaned, and Kafka's command that ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.counts import counted, sized
from kgroups_spark.durations import format_duration
from kgroups_spark.lake.last_finished import is_of_log, lots_backwards
from kgroups_spark.reading.reader import LakeReader
from kgroups_spark.transaction_coordinator.hanging import Verdict

Row = dict[str, Any]
Producer = tuple[int, int]  # offsets partition, producer id


class LogRead(NamedTuple):
    """For a partition of __consumer_offsets: the next offset to read, and the records and bytes of the last audit that
    read any; 0: none has."""

    end_offset: int
    records: int
    bytes: int


def logs_read(reader: LakeReader, wanted: Collection[int]) -> dict[int, LogRead]:
    """LogRead of these partitions, from the ledger's newest audits back until each partition has one with records."""
    found: dict[int, LogRead] = {}
    names = ("offsets_partition", "end_offset", "records", "bytes")
    for audits in lots_backwards(partial(reader.table_rows, "audits"), ["partitions"], reader.audit_id):
        entries = pc.list_flatten(audits["partitions"].combine_chunks())
        entries = entries.filter(is_of_log(entries))
        table = pa.table({name: pc.struct_field(entries, name) for name in names})
        ours = table.filter(pc.field("offsets_partition").isin(list(wanted)))
        for number, *read in zip(*(column.to_pylist() for column in ours.columns), strict=True):
            newer = found.setdefault(number, LogRead(*read))
            if not newer.records:
                found[number] = LogRead(newer.end_offset, *read[1:])
        if all(number in found and found[number].records for number in wanted):
            break
    return found


def log_offsets_behind(transaction: Row, log: LogRead) -> int:
    """The number of log offsets from the transaction's first record on, which the cleaner cannot reach."""
    return int(log.end_offset - transaction["transaction_start_offset"])


def bytes_behind(transaction: Row, log: LogRead) -> int | None:
    """Their estimated bytes, by the partition's average record; None: no record of it was read."""
    return int(log.bytes * log_offsets_behind(transaction, log) / log.records) if log.records else None


def with_what_is_held_back(reader: LakeReader, rows: list[Row]) -> list[Row]:
    """The rows with the log offsets and bytes after the first record of each transaction, and the command that ends
    hanging ones."""
    release = reader.last_audit["release_version"]
    logs = logs_read(reader, {row["offsets_partition"] for row in rows}) if rows else {}
    epochs = _coordinator_epochs(reader) if _is_before_3(release) and any(row["is_hanging"] for row in rows) else {}
    return [
        row
        | {
            "log_offsets_behind": log_offsets_behind(row, logs[row["offsets_partition"]]),
            "bytes_behind": bytes_behind(row, logs[row["offsets_partition"]]),
            "abort_command": abort_command(row, release, epochs) if row["is_hanging"] else None,
        }
        for row in rows
    ]


def _is_before_3(release_version: str) -> bool:
    return int(release_version.split(".")[0]) < 3


def _coordinator_epochs(reader: LakeReader) -> dict[Producer, int]:
    """The newest epoch of a transaction coordinator in the markers of producers that have a transaction open."""
    rows = reader.sql(
        "SELECT offsets_partition, producer_id, max(coordinator_epoch) AS epoch FROM transaction_markers "
        "WHERE producer_id IN (SELECT producer_id FROM open_transactions) GROUP BY offsets_partition, producer_id"
    )
    return {(row["offsets_partition"], row["producer_id"]): row["epoch"] for row in rows if row["epoch"] is not None}


def abort_command(transaction: Row, release_version: str, coordinator_epochs: Mapping[Producer, int]) -> str:
    """The command of Kafka's TransactionsCommand that ends the transaction (KIP-664).

    Brokers from 3.0 on give the tool all other values. Older ones do not: they need a coordinator epoch that is not
    below that of the producer's last marker. Without such a marker it is 0, as in the tool.
    """
    partition = transaction["offsets_partition"]
    command = f"{_tool('abort')} --topic __consumer_offsets --partition {partition}"
    if not _is_before_3(release_version):
        return f"{command} --start-offset {transaction['transaction_start_offset']}"
    epoch = max(0, coordinator_epochs.get((partition, transaction["producer_id"]), 0))
    producer = f"--producer-id {transaction['producer_id']} --producer-epoch {transaction['producer_epoch']}"
    return f"{command} {producer} --coordinator-epoch {epoch}"


def _tool(action: str) -> str:
    return f"kafka-transactions.sh --bootstrap-server HOST:PORT {action}"


def waiting_groups(rows: Iterable[Row]) -> list[str]:
    """A sentence with the groups that have offsets in open transactions; empty if there are none."""
    groups = Counter(row["group_id"] for row in rows if row["group_id"] is not None)
    if not groups:
        return []
    names = ", ".join(f"{group} ({counted(count, 'offset')})" for group, count in sorted(groups.items()))
    return [
        f"members of {names} wait for these offsets: a consumer that asks for stable ones gets "
        "UNSTABLE_OFFSET_COMMIT (Java consumers since 2.5 always ask so)"
    ]


def _producer(row: Row) -> str:
    name = "" if row["transactional_id"] is None else f" ({row['transactional_id']})"
    return f"producer {row['producer_id']}{name}"


def _hangs(row: Row) -> str:
    why = Verdict[row["verdict"].upper()]
    return f"hanging, {why.value}" if why.is_hanging else "likely hanging"


def about_hanging(rows: Iterable[Row]) -> list[str]:
    """For each hanging transaction: the size of the uncleaned log, how to check it, and the command that ends it."""
    lines: list[str] = []
    reported: set[Producer] = set()
    for row in rows:
        producer = row["offsets_partition"], row["producer_id"]
        if not row["is_hanging"] or producer in reported:
            continue
        reported.add(producer)
        partition = f"__consumer_offsets-{row['offsets_partition']}"
        size = "" if row["bytes_behind"] is None else f", about {sized(row['bytes_behind'])},"
        behind = counted(row["log_offsets_behind"], "offset")
        find = f"{_tool('find-hanging')} --topic __consumer_offsets --partition {row['offsets_partition']}"
        known = [] if row["verdict"] != "not_known" else [f"  does its coordinator know it?   {find}"]
        lines += [
            f"{_producer(row)} on {partition}, open for {format_duration(row['age_ms'])}: {_hangs(row)}; "
            f"the cleaner cannot pass {row['transaction_start_offset']}: {behind}{size} to the log's end",
            *known,
            f"  {'if not, ' if known else ''}this ends it:{'          ' if known else ''} {row['abort_command']}",
        ]
    return lines
