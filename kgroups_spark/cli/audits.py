"""`kgroups audits`: the ledger."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.options import add_engine_option, add_format_option, add_lake_option, positive_count_value
from kgroups_spark.cli.output import Column, say, say_lines, table_columns, write_rows
from kgroups_spark.lake.claim import Owner
from kgroups_spark.lake.last_finished import (
    ABANDONED,
    RUNNING,
    STATUSES,
    Removal,
    is_of_log,
    maintenances,
    removed_up_to,
)
from kgroups_spark.sql.reader import LakeReader, to_rows
from kgroups_spark.tables.columns import Condition
from kgroups_spark.words import counted

Row = dict[str, Any]

NAME = "audits"
SUMMARY = "the ledger: what each audit read, added and rejected"
DESCRIPTION = """\
Prints one row for each of the newest 20 audits, the newest last. An audit that is `running` has claimed its number and
has not finished; nothing that it wrote counts until it does. It is `interrupted` if its process, on this host, has
ended, and `abandoned` once another audit has taken over. The notes tell what needs attention."""
EXAMPLES = """\
examples:
  kgroups audits --lake ./lake
  kgroups audits --lake ./lake --format json --limit 1      everything about the last one
  kgroups audits --lake ./lake --format csv --all           the whole ledger"""

COLUMNS = table_columns(
    "audits",
    audit_id="AUDIT",
    status="STATUS",
    started_at="STARTED (UTC)",
    finished_at="FINISHED (UTC)",
    as_of="AS-OF (UTC)",
    release_version="RELEASE",
    source="SOURCE",
)
# A screen is too narrow for lists and maps; it has their sums instead.
SCREEN_COLUMNS = (
    *COLUMNS,
    Column("partition_count", "#PARTITIONS"),
    Column("records_read", "#RECORDS"),
    Column("quarantine_count", "#QUARANTINED"),
    Column("note_count", "#NOTES"),
)

# Their ledger columns.
ON_THE_SCREEN = (
    *(column.name for column in COLUMNS if column.heading is not None),
    "partitions",
    "quarantined",
    "notes",
    "owner",
)

# A status that only this command knows: the ledger has `running`.
INTERRUPTED = "interrupted"
# The number of audits on a screen; also of those that become Python objects together.
LIMIT = 20
AT_ONCE = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    add_lake_option(parser)
    how_many = parser.add_mutually_exclusive_group()
    how_many.add_argument(
        "--limit", type=positive_count_value, default=LIMIT, metavar="N", help=f"only the newest N (default: {LIMIT})"
    )
    how_many.add_argument("--all", action="store_true", help="all audits")
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    numbers = reader.table_rows("audits", ["audit_id"])["audit_id"].unique().sort().to_pylist()
    chosen = numbers if arguments.all else numbers[-arguments.limit :]
    if arguments.format == "table":
        rows = [row | counts(row) for row in ledger_rows(reader, chosen, ON_THE_SCREEN)]
        write_rows(rows, SCREEN_COLUMNS, arguments.format)
        for line in note_lines(rows):
            say(line)
    else:
        write_rows(ledger_rows(reader, chosen), COLUMNS, arguments.format)
    if numbers and len(numbers) < numbers[-1]:
        say_lines(removal_lines(reader))
    if len(chosen) < len(numbers):
        say(f"the newest {len(chosen):,} of {counted(len(numbers), 'audit')} (--all shows all)")
    return 0


def removal_lines(reader: LakeReader) -> list[str]:
    """Lines about the audits that maintenance has removed; an empty list if there are none."""
    removals = [Removal(removed_up_to(row["notes"]), row["audit_id"]) for row in maintenances(reader.table_rows)]
    up_to, by = max(removals, default=Removal(0, 0))
    if not up_to:
        return []
    return [
        f"kgroups maintain --keep (audit {by}) removed old audits up to {up_to} and their findings; their totals are "
        "included in the audits that remain"
    ]


def ledger_rows(reader: LakeReader, numbers: list[int], columns: Sequence[str] | None = None) -> Iterator[Row]:
    """A row of the ledger for each of these audits. They are read in lots, because an audit has an entry for each
    partition, and those of ten years of nights are a gigabyte. `columns`: only these, with sums in place of the entries
    (`with_sums`)."""
    for first in range(0, len(numbers), AT_ONCE):
        some = numbers[first : first + AT_ONCE]
        span = [Condition("audit_id", ">=", some[0]), Condition("audit_id", "<=", some[-1])]
        rows = reader.table_rows("audits", columns, span)
        yield from one_row_an_audit(to_rows(rows if columns is None else with_sums(rows)), numbers[-1])


def one_row_an_audit(ledger: Iterable[dict[str, Any]], newest: int) -> list[dict[str, Any]]:
    """The last row of each audit, in the order of their numbers: `finished`, `abandoned`, or, only for the newest
    audit, `running`, or `interrupted` if its process is known to have ended.

    An audit that was killed before the ledger had rows `abandoned` also gets that status.
    """
    rows: dict[int, dict[str, Any]] = {}
    for row in sorted(ledger, key=lambda row: (row["audit_id"], STATUSES.index(row["status"]))):
        rows[row["audit_id"]] = row
    return [row | {"status": _unfinished(row, newest)} if row["status"] == RUNNING else row for row in rows.values()]


def _unfinished(row: Row, newest: int) -> str:
    if row["audit_id"] < newest:
        return ABANDONED
    return INTERRUPTED if Owner.parse(row["owner"]).is_alive is False else RUNNING


def with_sums(rows: pa.Table) -> pa.Table:
    """The ledger's rows with the screen's figures in place of their lists and maps; null if the audit has not finished.

    Drops `partitions`, whose entries cost a hundred times as much as everything else as Python objects.
    """
    lists = rows["partitions"].combine_chunks()
    entries = pc.list_flatten(lists)
    records = pa.table({"row": pc.list_parent_indices(lists), "records": pc.struct_field(entries, "records")})
    sums = records.filter(is_of_log(entries)).group_by("row").aggregate([("records", "sum"), ("records", "count")])
    read, partitions = np.zeros(rows.num_rows, np.int64), np.zeros(rows.num_rows, np.int32)
    read[sums["row"].to_numpy()] = sums["records_sum"].to_numpy()
    partitions[sums["row"].to_numpy()] = sums["records_count"].to_numpy()
    is_unknown = pc.is_null(lists).to_numpy(zero_copy_only=False)
    rows = rows.append_column("partition_count", pa.array(partitions, mask=is_unknown))
    return rows.append_column("records_read", pa.array(read, mask=is_unknown)).drop_columns(["partitions"])


def counts(row: Row) -> Row:
    """The number of quarantined rows and of notes in a row of `with_sums`; nulls if the audit has not finished."""
    is_running = row["partition_count"] is None
    return {
        "quarantine_count": None if is_running else sum((row["quarantined"] or {}).values()),
        "note_count": None if is_running else len(row["notes"] or []),
    }


def note_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A line for every note: `audit 3: partition 7 is missing`."""
    return [f"audit {row['audit_id']}: {note}" for row in rows for note in row["notes"] or []]
