"""The form of a command. Each module of this folder is one:

its docstring   the help: a summary, a description, examples
OPTIONS         its options, in the order of the help
SCREEN          the columns of a table on the screen; JSON and CSV have all columns of the answer
run             opens the lake, asks it in SQL, writes rows on stdout and sentences on stderr
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from kgroups_spark.counts import counted, group_count
from kgroups_spark.terminal.display import words
from kgroups_spark.terminal.options import (
    ENGINES,
    group_value,
    name_value,
    partition_count_value,
    time_value,
    topic_partitions_value,
)
from kgroups_spark.terminal.output import FORMATS, Column, Row, say, until_closed, write_rows
from kgroups_spark.throwaway import throwaway_groups


class Option(NamedTuple):
    """`--until T`: an option with the placeholder of its value; `--group G ...`: it may be repeated; `--offsets`: a
    switch; `paths FILE`: an argument without a name. `read`: the reader of its value (None: a path); `more`: other
    arguments of `add_argument`."""

    spelled: str
    help: str
    read: Callable[[str], Any] | None = None
    default: Any = None
    more: Mapping[str, Any] = {}

    def add(self, parser: argparse._ActionsContainer) -> None:
        name, _, value = self.spelled.partition(" ")
        metavar = value.removesuffix(" ...")
        action = "store" if metavar == value else "append"
        valued = {"action": action, "type": self.read, "metavar": metavar, "default": self.default}
        how: dict[str, Any] = valued if value else {"action": "store_true"}
        parser.add_argument(name, help=self.help, **how | dict(self.more))


# A tuple of options is a choice: at most one of them.
Options = Sequence["Option | tuple[Option, ...]"]

LAKE = Option(
    "--lake LAKE",
    "the lake's tables: a folder, its URI, or catalog.schema (default: $KGROUPS_LAKE)",
    default=argparse.SUPPRESS,
)
AS_OF = Option("--as-of T", "the log up to T, nothing after it", time_value)
FAIL_IF_ANY = Option("--fail-if-any", "exit 4 if there is a row, for alerting")
FORMAT = Option(
    f"--format {'|'.join(FORMATS)}",
    "table (default), json (one object a line, all columns), csv",
    name_value(FORMATS),
    "table",
)
WIDE = Option("--wide", "print full-width tables with all columns (default on a terminal: a form that fits it)")
ENGINE = Option(
    f"--engine {'|'.join(ENGINES)}",
    "engine that reads the lake: duckdb (about a second, no Java), spark (catalogs, any Delta table); auto: duckdb "
    "if it can",
    name_value(ENGINES),
    "auto",
)
# Every command that prints rows of a lake has these after its own options.
ROWS = (FORMAT, WIDE, ENGINE)
GROUP = Option("--group G ...", "the group; may be repeated", group_value, [])
GROUPS = (GROUP, Option("--all-groups", "every group that exists"))
TOPIC = Option(
    "--topic T[:P,...] ...",
    "only this topic, or these partitions of it (orders:0,1); may be repeated",
    topic_partitions_value,
    [],
)
TAKE_OVER = Option(
    "--take-over",
    "take over the claim of an unfinished audit of another host (only if that audit is dead), or give up audits that "
    "the ledger has lost",
)
OFFSETS_PARTITIONS = Option(
    "--offsets-partitions N",
    "partition count of __consumer_offsets (default: the only number that fits every group's hash)",
    partition_count_value,
)
# Every command accepts --lake, also one that uses no lake.
UNUSED_LAKE = Option("--lake LAKE", argparse.SUPPRESS)

ALL = Option("--all", "a line for each group, also of many that were made for one run each (JSON and CSV always do)")


def add_options(parser: argparse._ActionsContainer, options: Options) -> None:
    for option in options:
        if isinstance(option, Option):
            option.add(parser)
        else:
            assert isinstance(parser, argparse.ArgumentParser)
            add_options(parser.add_mutually_exclusive_group(), option)


def help_of(command: ModuleType) -> dict[str, Any]:
    """The command's help for argparse, from its docstring; `{}` there is filled with EPILOG."""
    summary, text = (command.__doc__ or "").split("\n\n", 1)
    description, examples = text.split("\n\nexamples:\n", 1)
    epilog = f"examples:\n{examples}{getattr(command, 'EPILOG', '')}"
    return {"help": summary, "description": description, "epilog": epilog}


def screen(columns: str) -> tuple[Column, ...]:
    """Columns of a table in order."""
    return tuple(map(column, columns.split()))


def column(spelled: str) -> Column:
    """`state`, headed STATE; `group_id=GROUP`, headed GROUP; `base=THE_BASE`, headed THE BASE; `why~`, a sentence
    that may break between words. Times are headed (UTC)."""
    name, _, heading = spelled.rstrip("~").partition("=")
    heading = heading.replace("_", " ") or name.upper().replace("_", "-")
    heading = f"{heading} (UTC)" if name.endswith(("_at", "_since")) else heading
    return Column(name, heading, words if spelled.endswith("~") else None)


def write(rows: Iterable[Row], names: Iterable[str], screen: Sequence[Column], arguments: argparse.Namespace) -> None:
    """Writes the rows in the form of --format: a table has the columns of the screen, JSON and CSV those of `names`."""
    with until_closed():
        write_rows(rows, screen if arguments.format == "table" else [*map(Column, names)], arguments.format)


def folded_for(
    rows: Iterable[Row],
    groups: Iterable[Row],
    arguments: argparse.Namespace,
    first: Collection[str] = (),
    total: str = "",
) -> Iterable[Row]:
    """The rows `folded` for the screen, without --all, which a line on stderr names."""
    if arguments.format != "table" or arguments.all:
        return rows
    every = list(rows)
    made = folded(every, groups, first, total)
    if len(made) < len(every):
        say("Groups that were made for one run each are one line; --all shows them.")
    return made


def folded(
    rows: Iterable[Row], groups: Iterable[Row], first: Collection[str] = (), total: str = ""
) -> list[dict[str, Any]]:
    """The rows; those of groups that were made for one run each are one, at the place of the first, with
    `report-<uuid> (698 groups)` for a name. It has the values that all of them have, the first row's in the columns
    `first`, and the sum of the column `total`.

    `groups`: all groups of that time (group_id, member_count).
    """
    patterns = throwaway_groups((row["group_id"], bool(row["member_count"])) for row in groups)
    pattern_of = {name: pattern for pattern, names in patterns.items() for name in names}
    lots: dict[str | int, list[Row]] = {}
    for number, row in enumerate(rows):
        lots.setdefault(pattern_of.get(row["group_id"], number), []).append(row)
    made = []
    for pattern, lot in lots.items():
        same = {
            name: value for name, value in lot[0].items() if name in first or all(row[name] == value for row in lot)
        }
        its_total = {total: sum(row[total] for row in lot)} if total else {}
        name = lot[0]["group_id"] if len(lot) == 1 else f"{pattern} ({counted(group_count(lot), 'group')})"
        made.append(dict.fromkeys(lot[0]) | same | its_total | {"group_id": name})
    return made
