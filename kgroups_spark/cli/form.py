"""The form of a command. Each module of this folder is one:

its docstring   the help: a summary, a description, examples
OPTIONS         its options, in the order of the help
SCREEN          the columns of a table on the screen; JSON and CSV have all columns of the answer
run             opens the lake, asks it in SQL, writes rows on stdout and sentences on stderr
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, NamedTuple

from kgroups_spark.cli.options import (
    ENGINES,
    GROUP_TYPE_ALIASES,
    GROUP_TYPES,
    WRITERS,
    group_value,
    moment_value,
    name_value,
    names_value,
    partition_count_value,
    topic_partitions_value,
)
from kgroups_spark.cli.output import FORMATS, Column, Row, say, until_closed, write_rows
from kgroups_spark.errors import KgroupsError
from kgroups_spark.sql.reader import LakeReader, Rows, SqlCondition
from kgroups_spark.words import counted, format_utc, group_count, throwaway_groups, to_datetime


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
AS_OF = Option("--as-of T", "the log up to T, nothing after it; -6h: six hours before the audit", moment_value)
FAIL_IF_ANY = Option("--fail-if-any", "exit 4 if there is a row, for alerting")
FORMAT = Option(
    f"--format {'|'.join(FORMATS)}",
    "table (default), json (one object a line, all columns), csv",
    name_value(FORMATS),
    "table",
)
WIDE = Option(
    "--wide", "print full-width tables with all columns (default on a terminal: a form that fits, without minor ones)"
)
ENGINE = Option(
    f"--engine {'|'.join(ENGINES)}",
    "engine that reads the lake: duckdb (about a second, no Java), spark (catalogs, any Delta table); auto: duckdb "
    "if it can",
    name_value(ENGINES),
    "auto",
)
WRITER = Option(
    f"--engine {'|'.join(WRITERS)}",
    "spark (default), or local: processes of this machine, without Spark or Java, for a lake in a folder of it. The "
    "tables are the same, and the next run may use the other engine",
    name_value(WRITERS),
    "spark",
)
# Every command that prints rows of a lake has these after its own options.
ROWS = (FORMAT, WIDE, ENGINE)
GROUP = Option("--group G ...", "the group; may be repeated", group_value, [])
GROUPS = (GROUP, Option("--all-groups", "every group that exists"))
TYPES = Option(
    "--type TYPE,...",
    "only groups of these types: classic (or generic), consumer, share, streams",
    names_value(GROUP_TYPES, GROUP_TYPE_ALIASES),
)
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
    summary, _, text = (command.__doc__ or "").partition("\n\n")
    description, _, examples = text.partition("\n\nexamples:\n")
    epilog = f"examples:\n{examples}{getattr(command, 'EPILOG', '')}"
    return {"help": summary, "description": description, "epilog": epilog}


def screen(columns: str) -> tuple[Column, ...]:
    """Columns of a table in order."""
    return tuple(map(column, columns.split()))


def column(spelled: str) -> Column:
    """`state`, headed STATE; `group_id=GROUP`, headed GROUP; `base=THE_BASE`, headed THE BASE; `why~`, a sentence
    that may break between words; `epoch*`, minor: a narrow screen leaves it out. Times are headed (UTC)."""
    name, _, heading = spelled.rstrip("~*").partition("=")
    heading = heading.replace("_", " ") or name.upper().replace("_", "-")
    heading = f"{heading} (UTC)" if name.endswith(("_at", "_since")) else heading
    return Column(name, heading, "~" in spelled, "*" in spelled)


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


# The moments of --as-of, and whether a lake's history covers them.


@dataclass(frozen=True)
class KnownTimes:
    """The moments that a lake's history covers, in log time; None: the log has no times.

    `begins`: the oldest record. `reduced_to`: the newest of the records that `kgroups maintain --keep` has reduced
    (None: none were); as of an older moment the functions fail for their partitions. `incomplete_to`: the time of the
    newest records when an audit last found offsets missing; None: none has. Records that an older moment needs may have
    been compacted away before they were read, or damaged. `ends`: the newest record; for a live cluster also the time
    of the last read.
    """

    begins: datetime | None
    reduced_to: datetime | None
    incomplete_to: datetime | None
    ends: datetime | None

    def later(self, moment: datetime) -> str | None:
        """A note on a moment after the history; None: it is not."""
        if self.ends is not None and moment > self.ends:
            return (
                f"{format_utc(moment)} is after the history of this lake, which ends at {format_utc(self.ends)}: later "
                "states are unknown"
            )
        return None

    def known(self, moment: datetime) -> str:
        """How well history covers the moment, in the words of the function known_as_of; the history has begun."""
        if self.later(moment) is not None:
            return "after"
        if self.reduced_to is not None and moment < self.reduced_to:
            return "reduced"
        return "complete" if self.incomplete_to is None or moment >= self.incomplete_to else "incomplete"

    def closing(self, moment: datetime) -> str:
        """The part of the log that counted."""
        return f"the log up to {format_utc(moment if self.ends is None else min(moment, self.ends))}"

    def notes(self, moment: datetime) -> list[str]:
        """Notes for people on an answer as of the moment."""
        later = self.later(moment)
        if later is not None:
            return [later]
        if self.incomplete_to is not None and moment < self.incomplete_to:
            return [
                f"offsets are missing in the log up to {format_utc(self.incomplete_to)} (compacted before it was read, "
                "or damaged): as of an earlier moment, groups, members and offsets may be missing or stale (view "
                "known_history)"
            ]
        return []


def incomplete_history(reader: LakeReader) -> list[str]:
    """Notes for as-of functions in SQL: the time up to which their answers may be incomplete."""
    known = replace(known_times(reader), begins=None, reduced_to=None, ends=None)
    return known.notes(datetime.min.replace(tzinfo=UTC))


# The newest log time below the offsets up to which the history of the groups' offsets partitions has been reduced: the
# last record below each always stays.
_REDUCED_TO = """
SELECT max(log_timestamp) AS moment
FROM (
  SELECT offsets_partition, log_offset, log_timestamp FROM offset_commits
  UNION ALL
  SELECT offsets_partition, log_offset, log_timestamp FROM group_records
) AS records
JOIN (
  SELECT offsets_partition, max(log_offset) AS reduced_to FROM checkpoints
  WHERE reason = 'keep' AND log IS NULL AND record_offset IS NULL
    AND offsets_partition IN (SELECT offsets_partition FROM group_versions WHERE {groups})
  GROUP BY offsets_partition
) AS reduced ON reduced.offsets_partition = records.offsets_partition AND log_offset < reduced_to
WHERE (log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE"""


def reduced_history(reader: LakeReader, groups: SqlCondition, since: datetime | None) -> list[str]:
    """A note if `kgroups maintain --keep` has reduced the history of these groups from `since` on (None: from its
    begin): what happened then can no longer be listed."""
    [row] = reader.sql(_REDUCED_TO.format(groups=groups.sql), **groups.parameters)
    if row["moment"] is None or (since is not None and since > row["moment"]):
        return []
    return [
        f"history up to {format_utc(row['moment'])} has been reduced (kgroups maintain --keep): events up to then are "
        "gone, and all but the last commit of each partition"
    ]


def known_times(reader: LakeReader) -> KnownTimes:
    """The times of the lake as its last finished audit left it."""
    [row] = reader.sql("SELECT begins, reduced_to, incomplete_to, ends FROM known_history")
    return KnownTimes(**row)


def times_as_of(reader: LakeReader, moment: datetime) -> KnownTimes:
    """The same, for an answer as of the moment. Raises KgroupsError if the history begins later. (Where it has been
    reduced, its oldest record is not its beginning, and the functions fail with the reason.)"""
    times = known_times(reader)
    if times.reduced_to is None and times.begins is not None and moment < times.begins:
        raise KgroupsError(
            f"{format_utc(moment)} is before the history of this lake, which begins at {format_utc(times.begins)}: "
            "nothing is known about that time"
        )
    return times


@dataclass(frozen=True)
class Moment:
    """The moment of an answer: `as_of`, for which the log up to then counts; None: the last audit. `known`: as in the
    function known_as_of; None: the last audit's state was asked for."""

    reader: LakeReader
    as_of: datetime | None
    times: KnownTimes | None
    known: str | None

    @classmethod
    def of(cls, reader: LakeReader, as_of_ms: int | None) -> Moment:
        """The moment of --as-of. Raises KgroupsError if no audit has finished, or if history begins later."""
        reader.require_audit()
        if as_of_ms is None:
            return cls(reader, None, None, None)
        as_of = to_datetime(as_of_ms)
        times = times_as_of(reader, as_of)
        return cls(reader, as_of, times, times.known(as_of))

    def source(self, table: str) -> str:
        """The table, or its function as of the moment, in SQL."""
        return table if self.as_of is None else f"{table}_as_of(:as_of)"

    @property
    def parameters(self) -> dict[str, Any]:
        return {} if self.as_of is None else {"as_of": self.as_of}

    def rows(self, table: str) -> Rows:
        """All rows of a small table."""
        if self.as_of is None:
            return self.reader.rows(table)
        return self.reader.sql(f"SELECT * FROM {self.source(table)}", **self.parameters)

    def closing(self, found: str) -> list[str]:
        """The closing line: the part of the log in which this was found; notes on that part."""
        if self.times is None or self.as_of is None:
            return [f"{found} ({self.reader.known_as_of()})"]
        return [f"{found} ({self.times.closing(self.as_of)})", *self.times.notes(self.as_of)]
