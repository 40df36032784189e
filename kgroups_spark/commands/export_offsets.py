"""`kgroups export-offsets`: committed offsets as the CSV that Kafka's own tools import.

The form is that of CsvUtils and OffsetsUtils.parseResetPlan of Kafka's tools (4.3.1; unchanged since 2.0): no heading,
`topic,partition,offset` where one group is named, else `group,topic,partition,offset`; a field is quoted as in RFC 4180
where it must be. The tool cuts the file at line feeds before it looks at quotes, so no name may hold one; a carriage
return in quotes it reads as it stands (tried with 4.3.1).
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from kgroups_spark.commands.group_options import (
    add_group_options,
    add_topic_option,
    asked_groups,
    of_groups,
    of_topics,
    require_known,
    require_known_topics,
)
from kgroups_spark.commands.moments import known_times
from kgroups_spark.commands.options import add_engine_option, add_lake_option, time_value
from kgroups_spark.commands.output import csv_rows, say_lines
from kgroups_spark.commands.reading import LakeReader, Rows, open_lake
from kgroups_spark.counts import counted
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.escapes import printable, shell_word
from kgroups_spark.times import format_time_for_people, to_datetime

NAME = "export-offsets"
SUMMARY = "committed offsets as CSV that Kafka's tools import"
DESCRIPTION = """\
Writes committed offsets as CSV for kafka-consumer-groups.sh --reset-offsets --from-file: topic,partition,offset for
one --group, group,topic,partition,offset for several and for --all-groups. With --as-of, those of the log up to that
moment, also of groups that are gone since. The command that imports them is told on stderr. A file that is there is not
overwritten: somebody may be about to import it."""
EXAMPLES = """\
examples:
  kgroups export-offsets --lake ./lake --group orders-etl --output offsets.csv
  kgroups export-offsets --lake ./lake --group orders-etl --as-of '2026-11-10 09:00' --topic orders:0,1
  kgroups export-offsets --lake ./lake --all-groups --output before-the-upgrade.csv"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups export-offsets`."""
    add_lake_option(parser)
    add_group_options(parser)
    add_topic_option(parser)
    parser.add_argument("--as-of", type=time_value, metavar="T", help="the log up to T and nothing after")
    parser.add_argument("--output", metavar="F", help="a file that is not there yet (default: stdout)")
    add_engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the CSV and tells how it is imported."""
    groups = asked_groups(arguments)
    if arguments.output is not None and Path(arguments.output).exists():
        raise UsageError(f"{arguments.output} is there already: name another file, or remove it")
    reader = open_lake(arguments)
    reader.require_audit()
    require_known(reader, groups or ())
    require_known_topics(reader, arguments.topic, groups)
    as_of = None if arguments.as_of is None else to_datetime(arguments.as_of)
    unsure = _known_or_refused(reader, as_of)
    found = _committed_offsets(reader, groups, arguments, as_of)
    offsets, notes = importable(found, partitions_of_groups(reader, found))
    if not offsets:
        raise KgroupsError(_nothing(reader, groups, arguments, as_of), *notes)
    is_single = groups is not None and len(groups) == 1
    _write(csv_text(offsets, is_single=is_single), arguments.output)
    say_lines([*notes, *unsure])
    say_lines(_how_to_import(reader, offsets, arguments, is_single=is_single))
    return 0


def csv_text(offsets: Iterable[dict[str, Any]], *, is_single: bool) -> str:
    """The lines for Kafka's tool: of a single group without its name."""
    out = io.StringIO()
    write = csv_rows(out)
    for row in offsets:
        group = () if is_single else (row["group_id"],)
        write((*group, row["topic"], row["partition"], row["committed_offset"]))
    return out.getvalue()


def importable(rows: Rows, right_partitions: dict[str, int]) -> tuple[Rows, list[str]]:
    """What Kafka's tool takes, by group, topic and partition, and sentences about the rest. Where a group stands in two
    offsets partitions the one that its name belongs to counts, else the one with the newer commit."""
    notes = []
    chosen: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: _rank(row, right_partitions)):
        key = row["group_id"], row["topic"], row["partition"]
        where = f"group {row['group_id']!r}, {row['topic']}-{row['partition']}"
        if row["committed_offset"] < 0:
            notes.append(f"left out: {where}: Kafka's tool takes no negative offset ({row['committed_offset']})")
        elif "\n" in row["group_id"] or "\n" in row["topic"]:
            notes.append(f"left out: {where}: Kafka's tool cannot read a name with a line feed in it")
        else:
            before = chosen.get(key)
            if before is not None:
                notes.append(
                    f"{where} stands in two offsets partitions: taken from {row['offsets_partition']} "
                    f"({row['committed_offset']}), not from {before['offsets_partition']} "
                    f"({before['committed_offset']})"
                )
            chosen[key] = row
    return [chosen[key] for key in sorted(chosen)], notes


def _rank(row: dict[str, Any], right_partitions: dict[str, int]) -> tuple[bool, int]:
    """The last one counts."""
    is_right = right_partitions.get(row["group_id"]) == row["offsets_partition"]
    commit_timestamp: datetime | None = row["commit_timestamp"]
    return is_right, 0 if commit_timestamp is None else int(commit_timestamp.timestamp() * 1000)


def partitions_of_groups(reader: LakeReader, rows: Rows) -> dict[str, int]:
    """Of groups that stand in more than one offsets partition, the one that the name belongs to, where it is known."""
    places: dict[str, set[int]] = {}
    for row in rows:
        places.setdefault(row["group_id"], set()).add(row["offsets_partition"])
    split = [group for group, partitions in places.items() if len(partitions) > 1]
    if not split:
        return {}
    chosen = of_groups(split)
    found = reader.sql(
        f"SELECT group_id, offsets_partition_of(group_id) AS here FROM committed_offsets WHERE {chosen.sql}",
        **chosen.parameters,
    )
    return {row["group_id"]: row["here"] for row in found if row["here"] is not None}


def _known_or_refused(reader: LakeReader, as_of: datetime | None) -> list[str]:
    """What a person should know about offsets as of the moment. Raises KgroupsError for one outside of the history: a
    reset to offsets of another time is no reset to that moment."""
    if as_of is None:
        return []
    times = known_times(reader)
    why = times.outside(as_of)
    if why is not None:
        raise KgroupsError(f"nothing is exported: {why}")
    return times.notes(as_of)


def _committed_offsets(
    reader: LakeReader, groups: list[str] | None, arguments: argparse.Namespace, as_of: datetime | None
) -> Rows:
    chosen, topics = of_groups(groups), of_topics(arguments.topic)
    source = "committed_offsets" if as_of is None else "committed_offsets_as_of(:as_of)"
    parameters = {} if as_of is None else {"as_of": as_of}
    return reader.sql(
        "SELECT offsets_partition, group_id, topic, partition, committed_offset, commit_timestamp "
        f"FROM {source} WHERE {chosen.sql} AND {topics.sql}",
        **chosen.parameters,
        **topics.parameters,
        **parameters,
    )


def _write(text: str, output: str | None) -> None:
    if output is None:
        if sys.stdout.isatty():
            text = "".join(f"{printable(line)}\n" for line in text.split("\n")[:-1])
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        with Path(output).open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{output} has come to be there meanwhile: name another file, or remove it") from None


def _nothing(
    reader: LakeReader,
    groups: list[str] | None,
    arguments: argparse.Namespace,
    as_of: datetime | None,
) -> str:
    who = "no group" if groups is None else f"group {', '.join(map(repr, groups))}"
    has = "has" if groups is None or len(groups) == 1 else "have"
    of_topic = " of these topics" if arguments.topic else ""
    when = reader.known_as_of() if as_of is None else f"as of {format_time_for_people(as_of)} UTC"
    negation = "a" if groups is None else "no"
    advice = "" if groups is None else f": kgroups describe --group {shell_word(groups[0])} tells what it had, and when"
    return f"{who} {has} {negation} committed offset{of_topic} ({when}){advice}; nothing was written"


def _how_to_import(reader: LakeReader, offsets: Rows, arguments: argparse.Namespace, *, is_single: bool) -> list[str]:
    """Kafka's command, and what it does with them."""
    names = {row["group_id"] for row in offsets}
    groups = sorted(names)
    types = {
        row["group_id"]: row["group_type"]
        for row in reader.sql("SELECT group_id, group_type, state, member_count FROM groups")
        if row["group_id"] in names
    }
    when = reader.known_as_of() if arguments.as_of is None else f"as of {format_time_for_people(arguments.as_of)} UTC"
    lines = [f"{counted(len(offsets), 'offset')} of {counted(len(groups), 'group')} ({when})"]
    file = shell_word(arguments.output or "FILE")
    streams = [group for group in groups if types.get(group) == "streams"]
    others = [group for group in groups if types.get(group) != "streams"]
    for tool, its in (("kafka-consumer-groups.sh", others), ("kafka-streams-groups.sh", streams)):
        if its:
            # Named one by one: --all-groups would miss those that are gone.
            named = " ".join(f"--group {shell_word(group)}" for group in its[:_NAMED])
            more = f" --group ... ({len(its) - _NAMED:,} more)" if len(its) > _NAMED else ""
            lines.append(
                f"to import: {tool} --bootstrap-server HOST:PORT {named}{more} --reset-offsets --from-file {file} "
                "--dry-run"
            )
    lines.append(
        "then --execute in place of --dry-run. Only while no member is in the group; offsets beyond an end of the "
        "topic's log are moved to that end"
    )
    if not is_single:
        # OffsetsUtils.parseResetPlan of 4.3.1 prints why its first try failed, by the form without groups.
        lines.append("the tool prints a stack trace and goes on: it first takes the file for one without groups")
    return lines


_NAMED = 20
