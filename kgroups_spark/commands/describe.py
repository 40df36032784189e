"""`kgroups describe`: the output of kafka-consumer-groups.sh --describe, from the log alone, now or as of a moment,
also for groups that no longer exist."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from kgroups_spark.commands.describe_notes import notes_on
from kgroups_spark.commands.describe_rows import KINDS
from kgroups_spark.commands.describe_tables import table_columns
from kgroups_spark.commands.moments import times_as_of
from kgroups_spark.counts import counted
from kgroups_spark.reading.group_description import Description, describe_groups
from kgroups_spark.reading.group_facts import What
from kgroups_spark.reading.group_options import add_group_options, asked_groups
from kgroups_spark.reading.open_lake import open_lake
from kgroups_spark.reading.reader import LakeReader
from kgroups_spark.terminal.options import (
    add_as_of_option,
    add_engine_option,
    add_format_option,
    add_lake_option,
)
from kgroups_spark.terminal.output import Column, say_lines, show, write_rows
from kgroups_spark.times import to_datetime

NAME = "describe"
SUMMARY = "offsets, members or state of a group, even a deleted one"
DESCRIPTION = """\
Prints what kafka-consumer-groups.sh (kafka-share-groups.sh, kafka-streams-groups.sh) --describe prints, in its columns,
from the log: without a cluster, as of any moment, and for deleted groups. CONSUMER-ID, HOST and CLIENT-ID show the
owner of the partition; the log does not record who committed. LOG-END-OFFSET and LAG are known where an audit of a live
cluster saw the ends of the topics' logs. EXPIRES-AT is when the offset expires if the group stays as it is, PENDING an
offset in an open transaction. The log does not name the coordinator."""
EXAMPLES = """\
examples:
  kgroups describe --lake ./lake --group orders-etl
  kgroups describe --lake ./lake --group orders-etl --as-of '2026-11-15 08:00'    what did it look like then?
  kgroups describe --lake ./lake --group orders-etl --members --verbose           who has which partitions
  kgroups describe --lake ./lake --all-groups --state --format json"""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_lake_option(parser)
    add_group_options(parser)
    add_as_of_option(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--offsets", action="store_true", help="one row a partition (default)")
    what.add_argument("--members", action="store_true", help="one row a member")
    what.add_argument("--state", action="store_true", help="one row a group")
    parser.add_argument("--verbose", action="store_true", help="more columns, as in Kafka's tools")
    add_format_option(parser)
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    groups = asked_groups(arguments)
    reader = open_lake(arguments)
    reader.require_audit()
    as_of = None if arguments.as_of is None else to_datetime(arguments.as_of)
    what = _what(arguments)
    times = None if as_of is None else times_as_of(reader, as_of)
    known = None if times is None or as_of is None else times.known(as_of)
    is_table = arguments.format == "table"
    descriptions = Counted(describe_groups(reader, groups, as_of, what, times_as_text=not is_table))
    if is_table:
        _print_tables(arguments, reader, descriptions)
    else:
        _, names = KINDS[what]
        rows = _rows_of(arguments, reader, descriptions, known)
        write_rows(rows, [Column(name) for name in names], arguments.format)
    if times is None or as_of is None:
        say_lines([f"{counted(len(descriptions.groups), 'group')} ({reader.known_as_of()})"])
    else:
        unknown = "" if arguments.members else "; log ends and expiry are known for the current state only"
        say_lines([f"{times.closing(as_of)}{unknown}", *times.notes(as_of)])
    return 0


class Counted:
    """Passes descriptions on and collects the names of their groups."""

    def __init__(self, descriptions: Iterable[Description]) -> None:
        self._descriptions = descriptions
        self.groups: set[str] = set()

    def __iter__(self) -> Iterator[Description]:
        for description in self._descriptions:
            self.groups.add(description.group_id)
            yield description


def _rows_of(
    arguments: argparse.Namespace, reader: LakeReader, descriptions: Iterable[Description], known: str | None
) -> Iterator[dict[str, Any]]:
    """The rows of JSON and CSV; the notes on a group follow its rows."""
    rows_of, _ = KINDS[_what(arguments)]
    for description in descriptions:
        for row in rows_of(description):
            row["known"] = known
            yield row
        say_lines(notes_on(reader, description, arguments))


def _what(arguments: argparse.Namespace) -> What:
    return "members" if arguments.members else "state" if arguments.state else "offsets"


def _print_tables(arguments: argparse.Namespace, reader: LakeReader, descriptions: Iterable[Description]) -> None:
    """A table for each group, as Kafka prints it; for states, one for all groups with the same columns. The notes on a
    group precede its table."""
    rows_of, _ = KINDS[_what(arguments)]
    states: dict[tuple[Column, ...], list[dict[str, Any]]] = {}
    is_first = True
    for description in descriptions:
        say_lines(notes_on(reader, description, arguments))
        rows = rows_of(description)
        if not rows:
            continue
        columns = table_columns(_what(arguments), description.group_type, rows, arguments.verbose)
        if description.is_split:
            columns = (*columns, Column("offsets_partition", "OFFSETS-PARTITION"))
        if arguments.state:
            states.setdefault(columns, []).extend(rows)
        else:
            _print_table(rows, columns, is_first=is_first)
            is_first = False
    for columns, rows in states.items():
        _print_table(rows, columns, is_first=is_first)
        is_first = False


def _print_table(rows: list[dict[str, Any]], columns: tuple[Column, ...], *, is_first: bool) -> None:
    if not is_first:
        show("")
    write_rows(rows, columns, "table")
    sys.stdout.flush()  # before the next group's notes on stderr
