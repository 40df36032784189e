"""`kgroups groups`: the groups that exist, or that existed at a moment."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from kgroups_spark.commands.moments import times_as_of
from kgroups_spark.counts import counted, group_count
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import LakeReader, Rows
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.terminal.options import (
    GROUP_STATES,
    GROUP_TYPE_ALIASES,
    GROUP_TYPES,
    add_as_of_option,
    add_engine_option,
    add_format_option,
    add_lake_option,
    names_value,
)
from kgroups_spark.terminal.output import Column, say, say_lines, table_columns, write_rows
from kgroups_spark.times import to_datetime

NAME = "groups"
SUMMARY = "the groups that exist, or existed at a moment"
DESCRIPTION = """\
Prints one row for each group of the last audit, or of the log up to --as-of. A group exists if it has records of its
own or committed offsets; a group without members is Empty. A group in two offsets partitions has two rows, and counts
once."""
EXAMPLES = """\
examples:
  kgroups groups --lake ./lake
  kgroups groups --lake ./lake --state empty --type classic,consumer
  kgroups groups --lake ./lake --as-of '2026-11-14 03:00' --format json"""

COLUMNS = (
    *table_columns(
        "groups",
        offsets_partition="OFFSETS-PARTITION",
        group_id="GROUP",
        group_type="TYPE",
        state="STATE",
        protocol_type="PROTOCOL-TYPE",
        generation="GENERATION",
        group_epoch="EPOCH",
        state_since="STATE-SINCE (UTC)",
        member_count="#MEMBERS",
    ),
    Column("known"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_lake_option(parser)
    parser.add_argument(
        "--state",
        type=names_value(GROUP_STATES),
        metavar="STATE,...",
        help=f"only groups in these states, ignoring case: {', '.join(GROUP_STATES)}",
    )
    parser.add_argument(
        "--type",
        type=names_value(GROUP_TYPES, GROUP_TYPE_ALIASES),
        metavar="TYPE,...",
        help="only groups of these types: classic (or generic), consumer, share, streams",
    )
    add_as_of_option(parser)
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    reader = open_lake(arguments)
    reader.require_audit()
    as_of = None if arguments.as_of is None else to_datetime(arguments.as_of)
    times = None if as_of is None else times_as_of(reader, as_of)
    known = None if times is None or as_of is None else times.known(as_of)
    found = reader.rows("groups") if as_of is None else _groups_as_of(reader, as_of)
    rows = [dict.fromkeys((column.name for column in COLUMNS), None) | row | {"known": known} for row in found]
    chosen = choose(rows, arguments.state, arguments.type)
    write_rows(chosen, COLUMNS, arguments.format)
    part_of = "" if len(chosen) == len(rows) else f"{group_count(chosen):,} of "
    found_groups = f"{part_of}{counted(group_count(rows), 'group')}"
    if times is None or as_of is None:
        say(f"{found_groups} ({reader.known_as_of()})")
    else:
        say_lines([f"{found_groups} ({times.closing(as_of)})", *times.notes(as_of)])
    return 0


def _groups_as_of(reader: LakeReader, as_of: datetime) -> Rows:
    """The groups as of a moment. Raises SqlError if `kgroups maintain --keep` has reduced the history needed."""
    names = ", ".join(column.name for column in COLUMNS if column.name in TABLES["group_versions"].columns.names)
    return reader.sql(f"SELECT {names} FROM groups_as_of(:moment)", moment=as_of)


def choose(rows: list[dict[str, Any]], states: list[str] | None, types: list[str] | None) -> list[dict[str, Any]]:
    """The rows with one of the states and one of the types (None: any), ordered by group."""
    chosen = [
        row
        for row in rows
        if (states is None or row["state"] in states) and (types is None or row["group_type"] in types)
    ]
    return sorted(chosen, key=lambda row: (row["group_id"], row["offsets_partition"]))
