"""the groups that exist, or existed at a moment

Prints one row for each group of the last audit, or of the log up to --as-of. A group exists if it has records of its
own or committed offsets; a group without members is Empty. A group in two offsets partitions has two rows, and counts
once.

examples:
  kgroups groups --lake ./lake
  kgroups groups --lake ./lake --state empty --type classic,consumer
  kgroups groups --lake ./lake --as-of '2026-11-14 03:00' --format json"""

from __future__ import annotations

import argparse
from operator import itemgetter

from kgroups_spark.cli.form import (
    ALL,
    AS_OF,
    GROUP_STATES,
    LAKE,
    ROWS,
    TYPES,
    Moment,
    Option,
    folded_for,
    names_value,
    screen,
    write,
)
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import say_lines
from kgroups_spark.sql.reader import Rows
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import counted, group_count

OPTIONS = (
    LAKE,
    Option(
        "--state STATE,...",
        f"only groups in these states, ignoring case: {', '.join(GROUP_STATES)}",
        names_value(GROUP_STATES),
    ),
    TYPES,
    AS_OF,
    ALL,
    *ROWS,
)
SCREEN = screen(
    "group_id=GROUP group_type=TYPE state generation* group_epoch=EPOCH* state_since member_count=#MEMBERS "
    "protocol_type* offsets_partition*"
)
COLUMNS = (*TABLES["groups"].columns.names, "known")


def run(arguments: argparse.Namespace) -> int:
    moment = Moment.of(open_lake(arguments), arguments.as_of)
    rows = [dict.fromkeys(COLUMNS) | row | {"known": moment.known} for row in moment.rows("groups")]
    chosen = chosen_of(rows, arguments)
    write(folded_for(chosen, rows, arguments), COLUMNS, SCREEN, arguments)
    part_of = "" if len(chosen) == len(rows) else f"{group_count(chosen):,} of "
    say_lines(moment.closing(f"{part_of}{counted(group_count(rows), 'group')}"))
    return 0


def chosen_of(rows: Rows, arguments: argparse.Namespace) -> Rows:
    """The rows of --state and --type, ordered by group."""
    states, types = arguments.state, arguments.type
    chosen = (
        row
        for row in rows
        if (states is None or row["state"] in states) and (types is None or row["group_type"] in types)
    )
    return sorted(chosen, key=itemgetter("group_id", "offsets_partition"))
