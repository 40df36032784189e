"""The form of a command. Each module of this folder is one:

its docstring   the help: a summary, a description, examples
OPTIONS         its options, in the order of the help
SCREEN          the columns of a table on the screen; JSON and CSV have all columns of the answer
run             opens the lake, asks it in SQL, writes rows on stdout and sentences on stderr
"""

from __future__ import annotations

import argparse
import os
import re
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from itertools import groupby
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from kgroups_spark.cli.output import FORMATS, Column, Row, say, until_closed, write_rows
from kgroups_spark.coordinator import releases
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.sql.reader import LakeReader, Rows, SqlCondition, TopicPartitions
from kgroups_spark.words import (
    FromAsOf,
    counted,
    format_utc,
    group_count,
    parse_duration,
    parse_moment,
    patterns_of,
    suggested,
    to_datetime,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Prose is filled to the width of the screen. A wider example can still be copied: its note is below it, and a long
    command goes on after a backslash."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        written, lines = text.splitlines(), list[str]()
        if all(len(line) <= width for line in written):
            return super()._fill_text(text, width, indent)
        for is_prose, some in groupby(written, lambda line: not line.startswith(" ") and bool(line)):
            part = list(some)
            filled = self._split_lines(" ".join(part), width) if is_prose else None
            lines += filled or [each for line in part for each in self._example(line, width)]
        return "\n".join(indent + line for line in lines).replace("\xa0", " ")

    def _example(self, line: str, width: int) -> list[str]:
        if len(line) <= width:
            return [line]
        command, _, note = line[2:].partition("   ")
        whole = re.sub(r"'.*?'|\".*?\"", lambda quoted: quoted[0].replace(" ", "\xa0"), command)
        lines = self._split_lines(whole, width - 8)
        goes_on = " \\" if command.startswith("kgroups") else ""
        lines = [f"{each}{goes_on}" for each in lines[:-1]] + lines[-1:] + self._split_lines(note.strip(), width - 8)
        return [f"{'      ' if number or not command else '  '}{each}" for number, each in enumerate(lines)]

    def _split_lines(self, text: str, width: int) -> list[str]:
        """argparse's own method would break `share-state` at its hyphen."""
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


T = TypeVar("T")
Given = TypeVar("Given", bound="DataclassInstance")

ENGINES = ("auto", "duckdb", "spark")
# Those that write a lake, or replay its history.
WRITERS = ("spark", "local")
GROUP_TYPES = ("classic", "consumer", "share", "streams")
GROUP_TYPE_ALIASES = {"generic": "classic"}  # the early name in KIP-848
_STATES = "Empty PreparingRebalance CompletingRebalance Stable Assigning Reconciling NotReady Dead"
GROUP_STATES = tuple(_STATES.split())


class OptionParser(argparse.ArgumentParser):
    """argparse with UsageError, without abbreviated options or empty paths; it names the nearest command."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", HelpFormatter)
        kwargs.setdefault("allow_abbrev", False)  # an abbreviation may become ambiguous with the next new option
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.register("type", None, path_value)
        # argparse takes -1 for a value and -1h for an option, after which it misses the value.
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Checks a command name: only these have choices. argparse's own text lists all of them and suggests none."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(None, f"unknown command {value}{suggested(str(value), known)}")

    def option_strings(self) -> list[str]:
        """Every option that this parser knows and shows."""
        shown = (action for action in self._actions if action.help is not argparse.SUPPRESS)
        return [option for action in shown for option in action.option_strings if option.startswith("-")]


def option_value(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A reader whose ValueError argparse shows unchanged."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


moment_value = option_value(parse_moment)
duration_value = option_value(parse_duration)


@option_value
def time_value(text: str) -> int:
    """A time, where no audit of a lake counts: a relative one is from now."""
    moment = parse_moment(text)
    return int(time.time() * 1000) + moment if isinstance(moment, FromAsOf) else moment


@option_value
def positive_duration_value(text: str) -> int:
    if (duration_ms := parse_duration(text)) == 0:
        raise ValueError("must be longer than 0")
    return duration_ms


@option_value
def text_value(text: str) -> str:
    """A name or a query. Python has bytes of a command line that are no UTF-8 as characters that no engine takes."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{text!r} is not UTF-8 text")
    return text


@option_value
def path_value(text: str) -> str:
    """A path, an address or a title: the text of an option that has no other reader."""
    if not text.strip():
        raise ValueError("the value is empty")
    return text


@option_value
def release_value(text: str) -> str:
    """A Kafka release whose rules are known, as typed."""
    releases.release(text)
    return text


@option_value
def partition_values(text: str) -> list[int]:
    """Partition numbers with commas between them."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise ValueError(f"invalid partition {text!r}: use 17 or 3,17")
    return [int(word) for word in words]


def _count_value(what: str, most: int, note: str = "") -> Callable[[str], int]:
    """A reader of a whole number, at least 1."""

    @option_value
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= most):
            raise ValueError(f"invalid {what} {text!r}: expected 1 to {most}{note}")
        return int(text)

    return read


partition_count_value = _count_value("number of partitions", 999_999, " (Kafka's default is 50)")
delivery_count_value = _count_value("number of deliveries", 32_767)
positive_count_value = _count_value("number", 999_999_999_999)


@option_value
def byte_count_value(text: str) -> int:
    """A number of bytes, at least 1: plain, or with the suffix k, m or g (powers of ten)."""
    match = re.fullmatch(r"([0-9]{1,15})([kmg]?)b?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"invalid number of bytes {text!r}: use 5000000, 5000k or 5m, which are the same")
    return int(match[1]) * {"": 1, "k": 1000, "m": 1_000_000, "g": 1_000_000_000}[match[2]]


def names_value(known: Sequence[str], aliases: Mapping[str, str] | None = None) -> Callable[[str], list[str]]:
    """A reader of names with commas between them, ignoring case, in the spelling of `known`."""
    read = option_value(lambda text: [_known_name(word.strip(), known, aliases or {}) for word in text.split(",")])
    return _completed_by(read, known)


def name_value(known: Sequence[str]) -> Callable[[str], str]:
    """A reader of one name, ignoring case, in the spelling of `known`."""
    return _completed_by(option_value(lambda text: _known_name(text.strip(), known, {})), known)


def _completed_by(read: Callable[[str], T], known: Sequence[str]) -> Callable[[str], T]:
    """The reader, with the names that a shell can complete (completion.py)."""
    read.known = known  # type: ignore[attr-defined]
    return read


def _known_name(word: str, known: Sequence[str], aliases: Mapping[str, str]) -> str:
    spelling = {name.lower(): name for name in known} | dict(aliases)
    name = spelling.get(word.lower())
    if name is None:
        raise ValueError(f"{word!r} is unknown{suggested(word, known, aliases)}")
    return name


def fail_if_any(arguments: argparse.Namespace, found: object) -> int:
    """The exit code of a command that has `--fail-if-any`; `found`: false if there is nothing to report."""
    return 4 if arguments.fail_if_any and found else 0


def options_of(kind: type[Given], arguments: argparse.Namespace, **others: Any) -> Given:
    """A command's options as a dataclass, field by field (`retention_ms`: --retention); `others` are given."""
    names = (field.name for field in fields(kind))
    return kind(
        **{name: getattr(arguments, name.removesuffix("_ms")) for name in names if name not in others}, **others
    )


def lake_location(arguments: argparse.Namespace, default: str | None = None) -> str:
    """The value of --lake or $KGROUPS_LAKE. Raises UsageError if both are missing and there is no default."""
    location = getattr(arguments, "lake", None) or os.environ.get("KGROUPS_LAKE") or default
    if not location:
        raise UsageError("no lake given: --lake DIR, or KGROUPS_LAKE in the environment")
    return str(location)


def topic_partitions_value(text: str) -> TopicPartitions:
    """`orders`, `orders:3` or `orders:0,1`. Raises argparse.ArgumentTypeError."""
    topic, colon, numbers = text.partition(":")
    name = text_value(topic)
    if topic or not text:
        with suppress(argparse.ArgumentTypeError):
            return TopicPartitions(name, tuple(partition_values(numbers)) if colon else ())
    raise argparse.ArgumentTypeError(f"{text!r} is no topic (orders) or partitions of one (orders:0,1)")


def asked_groups(arguments: argparse.Namespace) -> list[str] | None:
    """The named groups, each once; None: all. Raises UsageError."""
    groups = list(dict.fromkeys(arguments.group))
    if groups and arguments.all_groups:
        raise UsageError("--group and --all-groups are two choices: give one of them")
    if not groups and not arguments.all_groups:
        raise UsageError("no group given: --group G, or --all-groups (kgroups groups lists them)")
    return None if arguments.all_groups else groups


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
GROUP = Option("--group G ...", "the group; may be repeated", text_value, [])
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
    """The rows; those of groups that were made for one run each are one, at the place of the first: `report-<uuid> (698
    groups)` with common values, the first row's in the columns `first`, and the sum of the column `total`. `groups`:
    all groups of that time (group_id, member_count)."""
    pattern_of = patterns_of(groups)
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


def _incomplete(incomplete_to: datetime) -> str:
    return (
        f"offsets are missing in the log up to {format_utc(incomplete_to)} (compacted before it was read, or damaged): "
        "as of an earlier moment, groups, members and offsets may be missing or stale (view known_history)"
    )


def incomplete_history(reader: LakeReader) -> list[str]:
    """Notes for as-of functions in SQL: the time up to which their answers may be incomplete."""
    [row] = reader.sql("SELECT incomplete_to FROM known_history")
    return [] if row["incomplete_to"] is None else [_incomplete(row["incomplete_to"])]


# The newest log time below which history is reduced in the groups' partitions: the last record always stays.
_REDUCED_TO = """
SELECT max(log_timestamp) AS moment
FROM log_times AS records
JOIN (
  SELECT offsets_partition, max(log_offset) AS reduced_to FROM checkpoints
  WHERE reason = 'keep' AND log IS NULL AND record_offset IS NULL
    AND offsets_partition IN (SELECT offsets_partition FROM group_versions WHERE {groups})
  GROUP BY offsets_partition
) AS reduced ON reduced.offsets_partition = records.partition AND log_offset < reduced_to
WHERE records.log = '__consumer_offsets'
  AND (log_timestamp > (SELECT max(believed_until) FROM last_audit)) IS NOT TRUE"""


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


class Moment(NamedTuple):
    """The moment of an answer: `as_of`, for which the log up to then counts; None: the last audit. Then the log times
    that history covers (the view known_history); None: none, or the last audit's state was asked for."""

    reader: LakeReader
    as_of: datetime | None
    begins: datetime | None = None
    reduced_to: datetime | None = None
    incomplete_to: datetime | None = None
    ends: datetime | None = None

    @classmethod
    def of(cls, reader: LakeReader, as_of_ms: int | None) -> Moment:
        """The moment of --as-of. Raises KgroupsError if no audit has finished, or if history begins later. (Where it
        has been reduced, its oldest record is not its beginning, and the functions fail with the reason.)"""
        reader.require_audit()
        if as_of_ms is None:
            return cls(reader, None)
        as_of = to_datetime(as_of_ms)
        [row] = reader.sql("SELECT begins, reduced_to, incomplete_to, ends FROM known_history")
        if row["reduced_to"] is None and row["begins"] is not None and as_of < row["begins"]:
            raise KgroupsError(
                f"{format_utc(as_of)} is before the history of this lake, which begins at {format_utc(row['begins'])}: "
                "nothing is known about that time"
            )
        return cls(reader, as_of, **row)

    @property
    def later(self) -> str | None:
        """A note on a moment after the history; None: it is not."""
        if self.as_of is None or self.ends is None or self.as_of <= self.ends:
            return None
        return (
            f"{format_utc(self.as_of)} is after the history of this lake, which ends at {format_utc(self.ends)}: later "
            "states are unknown"
        )

    @property
    def known(self) -> str | None:
        """How well history covers the moment, in the words of the function known_as_of."""
        if self.as_of is None:
            return None
        if self.later is not None:
            return "after"
        if self.reduced_to is not None and self.as_of < self.reduced_to:
            return "reduced"
        return "complete" if self.incomplete_to is None or self.as_of >= self.incomplete_to else "incomplete"

    @property
    def notes(self) -> list[str]:
        """Notes for people on an answer as of the moment."""
        if self.later is not None:
            return [self.later]
        if self.as_of is None or self.incomplete_to is None or self.as_of >= self.incomplete_to:
            return []
        return [_incomplete(self.incomplete_to)]

    @property
    def log(self) -> str | None:
        """The part of the log that counted; None: all that the last audit knows."""
        if self.as_of is None:
            return None
        return f"the log up to {format_utc(self.as_of if self.ends is None else min(self.as_of, self.ends))}"

    def rows(self, table: str) -> Rows:
        """All rows of a small table."""
        if self.as_of is None:
            return self.reader.rows(table)
        return self.reader.sql(f"SELECT * FROM {table}_as_of(:as_of)", as_of=self.as_of)

    def closing(self, found: str) -> list[str]:
        """The closing line: the part of the log in which this was found; notes on that part."""
        return [f"{found} ({self.log or self.reader.known_as_of()})", *self.notes]
