"""committed offsets as CSV that Kafka's tools import

Writes committed offsets as CSV for kafka-consumer-groups.sh --reset-offsets --from-file: topic,partition,offset for
one --group, group,topic,partition,offset for several and for --all-groups. With --as-of, the offsets as of that moment,
even of groups deleted since then; of share groups, their start offsets. Prints Kafka's command to stderr. Never
overwrites a file: it may be about to be imported.

examples:
  kgroups export-offsets --lake ./lake --group orders-etl --output offsets.csv
  kgroups export-offsets --lake ./lake --group orders-etl --as-of '2026-11-10 09:00' --topic orders:0,1
  kgroups export-offsets --lake ./lake --all-groups --output before-the-upgrade.csv"""

from __future__ import annotations

import argparse
import io
import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kgroups_spark.cli.describe import ABOUT_SHARE_STATE
from kgroups_spark.cli.form import AS_OF, ENGINE, GROUPS, LAKE, TOPIC, Moment, Option, asked_groups
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.output import STDOUT, csv_rows, require_place, say, say_lines, write_file
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.sql.reader import LakeReader, Row, SqlCondition, of_known
from kgroups_spark.words import (
    cell_text,
    counted,
    format_time,
    format_utc,
    quoted,
    shell_option,
    shell_word,
)

# The form is that of CsvUtils and OffsetsUtils.parseResetPlan of Kafka's tools (4.3.1; unchanged since 2.0): no
# heading, `topic,partition,offset` if one group is named, else `group,topic,partition,offset`; a field is quoted as in
# RFC 4180 if necessary. The tool splits the file at line feeds before it looks at quotes, so no name may have one. It
# reads a carriage return in quotes unchanged (tried with 4.3.1).
_TOOLS = ("kafka-consumer-groups.sh", "kafka-streams-groups.sh")
# Kafka's tool of share groups (4.4.0) reads no file.
_SHARE_TOOL = "kafka-share-groups.sh"
_NAMED = 20  # groups for each tool

# The partitions of the chosen groups in order. A group may be in two partitions of __consumer_offsets: the newer commit
# is the first `copy`. Share partitions are in no offsets partition.
OFFSETS = """
WITH found AS (
  SELECT group_id, topic, partition, offsets_partition, committed_offset, commit_timestamp
  FROM {committed} WHERE {chosen}
  UNION ALL
  SELECT group_id, topic, partition, NULL, start_offset, write_timestamp
  FROM {shares} WHERE {chosen} AND start_offset IS NOT NULL AND topic IS NOT NULL
)
SELECT found.*, streams.group_id IS NOT NULL AS is_streams, row_number() OVER (
    PARTITION BY found.group_id, topic, partition
    ORDER BY committed_offset < 0, commit_timestamp DESC NULLS LAST, offsets_partition
  ) AS copy
FROM found
LEFT JOIN (SELECT DISTINCT group_id FROM groups WHERE group_type = 'streams') AS streams
  ON streams.group_id = found.group_id
ORDER BY group_id, topic, partition, copy"""


OPTIONS = (
    LAKE,
    *GROUPS,
    TOPIC,
    AS_OF,
    Option("--output F", "a file that does not exist yet (default, and -: stdout)", default=STDOUT),
    ENGINE,
)


def run(arguments: argparse.Namespace) -> int:
    """Writes the CSV and prints the command that imports it."""
    groups, is_stdout = asked_groups(arguments), arguments.output == STDOUT
    require_place(arguments.output, "offsets.csv")
    if not is_stdout and Path(arguments.output).exists():
        raise UsageError(f"{arguments.output} already exists: name another file, or remove it")
    reader = open_lake(arguments)
    reader.require_audit()
    chosen = of_known(reader, groups, arguments.topic)
    moment = Moment.of(reader, arguments.as_of)
    as_of = moment.as_of
    # A reset to offsets of another time is not a reset to that moment.
    if moment.later is not None:
        raise KgroupsError(f"nothing is exported: {moment.later}")
    is_single = groups is not None and len(groups) == 1
    exported, out = Exported(), sys.stdout if is_stdout else io.StringIO()
    write = csv_rows(out)
    for row in _offsets(reader, chosen, as_of):
        if why := why_not(row):
            exported.left_out += 1
            say(f"left out: group {quoted(row['group_id'])}, {cell_text(row['topic'])}-{row['partition']}: {why}")
        else:
            exported.add(row)
            write((row["group_id"], row["topic"], row["partition"], row["committed_offset"])[is_single:])
    if not exported.offsets:
        raise KgroupsError(_nothing(reader, groups, arguments, as_of, exported.left_out))
    if isinstance(out, io.StringIO):
        write_file(arguments.output, out.getvalue().encode())
    sys.stdout.flush()
    say_lines(moment.notes)
    say_lines(_how_to_import(reader, exported, arguments, is_single=is_single))
    if exported.shares and as_of is not None:
        [known] = reader.sql("SELECT min(known) AS known FROM share_partitions_as_of(:as_of)", as_of=as_of)
        say_lines(ABOUT_SHARE_STATE.get(known["known"], []))
    return 0


@dataclass
class Exported:
    """The number of offsets, and of those left out; the groups by Kafka's tool; partitions by share group and topic."""

    offsets: int = 0
    left_out: int = 0
    groups: dict[str, dict[str, None]] = field(default_factory=lambda: {tool: {} for tool in _TOOLS})
    shares: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        self.offsets += 1
        if row["offsets_partition"] is None:
            self.shares.setdefault(row["group_id"], {}).setdefault(row["topic"], []).append(row["partition"])
        else:
            self.groups[_TOOLS[row["is_streams"]]][row["group_id"]] = None

    @property
    def group_count(self) -> int:
        return len(self.shares) + sum(map(len, self.groups.values()))


def why_not(row: Row) -> str | None:
    """The reason why an offset is not exported; None: it is."""
    if row["committed_offset"] < 0:
        return f"Kafka's tool takes no negative offset ({row['committed_offset']})"
    if "\n" in row["group_id"] or "\n" in row["topic"]:
        return "Kafka's tool cannot read a name with a line feed in it"
    if row["copy"] > 1:
        return (
            f"{row['committed_offset']} in offsets partition {row['offsets_partition']}: another one has a newer commit"
        )
    return None


def _offsets(reader: LakeReader, chosen: SqlCondition, as_of: datetime | None) -> Iterator[Row]:
    then, parameters = ("", {}) if as_of is None else ("_as_of(:as_of)", {"as_of": as_of})
    tables = {"committed": f"committed_offsets{then}", "shares": f"share_partitions{then}"}
    return reader.ask(OFFSETS.format(chosen=chosen.sql, **tables), chosen.parameters | parameters)


def _nothing(
    reader: LakeReader, groups: list[str] | None, arguments: argparse.Namespace, as_of: datetime | None, left_out: int
) -> str:
    when = reader.known_as_of() if as_of is None else f"as of {format_utc(as_of)}"
    if left_out:
        return f"Kafka's tool takes none of the offsets ({when}); nothing was written"
    of_topic = " of these topics" if arguments.topic else ""
    if groups is None:
        return f"no group has a committed offset{of_topic} ({when}); nothing was written"
    who = f"group {', '.join(map(repr, groups))} {'has' if len(groups) == 1 else 'have'}"
    describe = f"kgroups describe --lake {shell_word(reader.location)} {shell_option('--group', groups[0])}"
    return f"{who} no committed offset{of_topic} ({when}): {describe} shows what it had, and when; nothing was written"


def _how_to_import(
    reader: LakeReader, exported: Exported, arguments: argparse.Namespace, *, is_single: bool
) -> list[str]:
    """Kafka's command, and its effect on the offsets."""
    when = reader.known_as_of() if arguments.as_of is None else f"as of {format_utc(arguments.as_of)}"
    lines = [f"{counted(exported.offsets, 'offset')} of {counted(exported.group_count, 'group')} ({when}); to import:"]
    file = "FILE" if arguments.output == STDOUT else shell_word(arguments.output)
    for tool, groups in exported.groups.items():
        if not groups:
            continue
        # Groups are named one by one, because --all-groups would miss deleted groups.
        named = " ".join(f"--group {shell_word(group)}" for group in itertools.islice(groups, _NAMED))
        more = f" --group ... ({len(groups) - _NAMED:,} more)" if len(groups) > _NAMED else ""
        lines.append(
            f"  {tool} --bootstrap-server HOST:PORT {named}{more} --reset-offsets --from-file {file} --dry-run"
        )
    lines += _how_to_reset_shares(exported.shares, reader.as_of_ms if arguments.as_of is None else arguments.as_of)
    if len(exported.shares) == exported.group_count:
        return lines
    lines.append(
        "then use --execute instead of --dry-run. This works only while the group has no members; the tool moves "
        "offsets beyond an end of the topic's log to that end"
    )
    if not is_single:
        # OffsetsUtils.parseResetPlan of 4.3.1 first tries the form without groups, and prints why that failed.
        lines.append("the tool prints a stack trace and goes on: it first takes the file for one without groups")
    return lines


def _how_to_reset_shares(shares: Mapping[str, Mapping[str, list[int]]], as_of_ms: int) -> Iterator[str]:
    """Kafka's commands for share groups: its tool takes a time, and neither a file nor an offset."""
    moment = format_time(as_of_ms).removesuffix("Z")
    for group, topics in itertools.islice(shares.items(), _NAMED):
        asked = (f"{topic}:{','.join(map(str, of))}" for topic, of in sorted(topics.items()))
        chosen = " ".join(f"--topic {shell_word(each)}" for each in asked)
        yield (
            f"  {_SHARE_TOOL} --bootstrap-server HOST:PORT {shell_option('--group', group)} --reset-offsets {chosen} "
            f"--to-datetime {moment} --dry-run"
        )
    if shares:
        yield (
            "kafka-share-groups.sh reads no file. It goes to the first record written at that time or later, beyond "
            "records that waited then: take an earlier time until its NEW-OFFSET is not above the exported start "
            "offset, or set the exported ones by Admin.alterShareGroupOffsets. The group must be empty"
        )
