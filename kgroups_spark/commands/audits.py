"""`kgroups audits`: the ledger."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from kgroups_spark.commands.options import add_engine_option, add_format_option, add_lake_option
from kgroups_spark.commands.output import Column, say, write_rows
from kgroups_spark.commands.reading import open_lake

NAME = "audits"
SUMMARY = "the ledger: what each audit read, added and could not use"
DESCRIPTION = """\
Prints one row for each audit, the newest last. An audit that is only `running` was claimed and has not finished: what
it has written counts for nothing until it does. The notes say what a person should know."""
EXAMPLES = """\
examples:
  kgroups audits --lake ./lake
  kgroups audits --lake ./lake --format json | tail -1      everything about the last one"""

COLUMNS = (
    Column("audit_id", "AUDIT"),
    Column("status", "STATUS"),
    Column("owner"),
    Column("started_at", "STARTED (UTC)"),
    Column("finished_at", "FINISHED (UTC)"),
    Column("as_of", "AS-OF (UTC)"),
    Column("retention_ms"),
    Column("retention_source"),
    Column("release_version", "RELEASE"),
    Column("rules_version"),
    Column("state_format"),
    Column("source", "SOURCE"),
    Column("cluster_id"),
    Column("software_version"),
    Column("lake_version"),
    Column("newest_log_timestamp"),
    Column("partitions"),
    Column("rows_added"),
    Column("quarantined"),
    Column("record_counts"),
    Column("notes"),
)
# Lists and maps are too wide for a screen: their sums stand there instead.
SCREEN_COLUMNS = (
    *COLUMNS,
    Column("partition_count", "#PARTITIONS"),
    Column("records_read", "#RECORDS"),
    Column("quarantine_count", "#QUARANTINED"),
    Column("note_count", "#NOTES"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups audits`."""
    add_lake_option(parser)
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the ledger."""
    reader = open_lake(arguments)
    rows = one_row_an_audit(reader.rows("audits"))
    if arguments.format == "table":
        write_rows([row | sums(row) for row in rows], SCREEN_COLUMNS, arguments.format)
        for line in note_lines(rows):
            say(line)
    else:
        write_rows(rows, COLUMNS, arguments.format)
    return 0


def one_row_an_audit(ledger: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ledger's row `finished` of each audit, of the others the row `running`; in the order of their numbers."""
    rows: dict[int, dict[str, Any]] = {}
    for row in sorted(ledger, key=lambda row: (row["audit_id"], row["status"] == "finished")):
        rows[row["audit_id"]] = row
    return list(rows.values())


def sums(row: dict[str, Any]) -> dict[str, int | None]:
    """What the screen shows of a ledger row's lists and maps; nulls where the audit has not finished."""
    if row["partitions"] is None:
        return dict.fromkeys(("partition_count", "records_read", "quarantine_count", "note_count"))
    return {
        "partition_count": len(row["partitions"]),
        "records_read": sum(partition["records"] for partition in row["partitions"]),
        "quarantine_count": sum((row["quarantined"] or {}).values()),
        "note_count": len(row["notes"] or []),
    }


def note_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    """`audit 3: partition 7 is missing`, for every note."""
    return [f"audit {row['audit_id']}: {note}" for row in rows for note in row["notes"] or []]
