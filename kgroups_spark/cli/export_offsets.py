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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from kgroups_spark.cli.describe import ABOUT_SHARE_STATE
from kgroups_spark.cli.form import AS_OF, ENGINE, GROUPS, LAKE, TOPIC, Option, times_as_of
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.cli.options import asked_groups
from kgroups_spark.cli.output import STDOUT, csv_rows, new_file, require_place, say, say_lines
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.messages.coordinator_records import offsets_partition
from kgroups_spark.sql.reader import ROWS_AT_ONCE, LakeReader, of_groups, of_topics, require_known, require_known_topics
from kgroups_spark.words import (
    cell_text,
    counted,
    format_time,
    format_utc,
    printable,
    quoted,
    shell_option,
    shell_word,
    to_datetime,
)

# The form is that of CsvUtils and OffsetsUtils.parseResetPlan of Kafka's tools (4.3.1; unchanged since 2.0): no
# heading, `topic,partition,offset` if one group is named, else `group,topic,partition,offset`; a field is quoted as in
# RFC 4180 if necessary. The tool splits the file at line feeds before it looks at quotes, so no name may have one. It
# reads a carriage return in quotes unchanged (tried with 4.3.1).
_TOOLS = ("kafka-consumer-groups.sh", "kafka-streams-groups.sh")
# Kafka's tool of share groups (4.4.0) reads no file. Their slots are in no offsets partition.
_SHARE_TOOL = "kafka-share-groups.sh"
_OF_SHARE = -1
_NAMED = 20  # groups for each tool


OPTIONS = (
    LAKE,
    *GROUPS,
    TOPIC,
    AS_OF,
    Option("--output F", "a file that does not exist yet (default, and -: stdout)"),
    ENGINE,
)


def run(arguments: argparse.Namespace) -> int:
    """Writes the CSV and prints the command that imports it."""
    groups = asked_groups(arguments)
    if arguments.output == STDOUT:
        arguments.output = None
    if arguments.output is not None:
        require_place(arguments.output, "offsets.csv")
        if Path(arguments.output).exists():
            raise UsageError(f"{arguments.output} already exists: name another file, or remove it")
    reader = open_lake(arguments)
    reader.require_audit()
    require_known(reader, groups or ())
    require_known_topics(reader, arguments.topic, groups)
    as_of = None if arguments.as_of is None else to_datetime(arguments.as_of)
    unsure = _known_or_refused(reader, as_of)
    # Queried before the offsets: during that query the reader can run no other.
    streams, right_partitions = _streams_groups(reader), partitions_of_groups(reader, groups, as_of)
    slots = importable(_committed_offsets(reader, groups, arguments, as_of), right_partitions, say)
    first = next(slots, None)
    if first is None:
        raise KgroupsError(_nothing(reader, groups, arguments, as_of))
    is_single = groups is not None and len(groups) == 1
    exported = Exported(streams)
    _write(csv_lines(exported.of(itertools.chain([first], slots)), is_single=is_single), arguments.output)
    say_lines(unsure)
    say_lines(_how_to_import(reader, exported, arguments, is_single=is_single))
    if exported.shares and as_of is not None:
        [known] = reader.sql("SELECT min(known) AS known FROM share_partitions_as_of(:as_of)", as_of=as_of)
        say_lines(ABOUT_SHARE_STATE.get(known["known"], []))
    return 0


class Slot(NamedTuple):
    """A committed offset in an offsets partition; `commit_us`: in us since 1970, null: not known."""

    group_id: str
    topic: str
    partition: int
    offsets_partition: int
    committed_offset: int
    commit_us: int | None

    @property
    def key(self) -> tuple[str, str, int]:
        """The columns by which Kafka's tool identifies a slot."""
        return self[:3]


@dataclass
class Exported:
    """The number of offsets so far, and by Kafka's tool the number of groups and the first of them; `streams`: names of
    streams groups."""

    streams: frozenset[str]
    offsets: int = 0
    groups: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=lambda: {tool: [] for tool in _TOOLS})
    shares: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # partitions by share group and topic

    def of(self, slots: Iterable[Slot]) -> Iterator[Slot]:
        """The same slots, counted group by group as they pass."""
        group_id = None
        for slot in slots:
            self.offsets += 1
            if slot.offsets_partition == _OF_SHARE:
                partitions = self.shares.setdefault(slot.group_id, {}).setdefault(slot.topic, [])
                partitions.append(slot.partition)
                self.groups[_SHARE_TOOL] = len(self.shares)
            elif slot.group_id != group_id:
                group_id = slot.group_id
                tool = _TOOLS[group_id in self.streams]
                self.groups[tool] += 1
                if self.groups[tool] <= _NAMED:
                    self.named[tool].append(group_id)
            yield slot


def csv_lines(slots: Iterable[Slot], *, is_single: bool) -> Iterator[str]:
    """Lines for Kafka's tool, several in one text; `is_single`: there is only one group, so its name is left out."""
    out = io.StringIO()
    write = csv_rows(out)
    first = 1 if is_single else 0
    for some in _lots(slots):
        for group_id, topic, partition, _, committed_offset, _ in some:
            write((group_id, topic, partition, committed_offset)[first:])
        yield out.getvalue()
        out.seek(0)
        out.truncate()


def _lots(slots: Iterable[Slot]) -> Iterator[list[Slot]]:
    rest = iter(slots)
    while some := list(itertools.islice(rest, ROWS_AT_ONCE)):
        yield some


def importable(
    slots: Iterable[Slot], right_partitions: Mapping[str, int], note: Callable[[str], object]
) -> Iterator[Slot]:
    """The slots that Kafka's tool accepts, in order of group, topic and partition; `note` is called with a sentence on
    the others.

    If a slot is in two offsets partitions, the one that the group's name belongs to counts, else the one with the newer
    commit. Such slots are neighbours, so only the current one is kept in memory.
    """

    def noted(slot: Slot) -> Slot:
        place = slot.offsets_partition
        if right_partitions.get(slot.group_id, place) != place:
            note(f"{_named(slot)} is from offsets partition {place}, where clients do not find the group")
        return slot

    best: Slot | None = None
    for slot in slots:
        if slot.committed_offset < 0:
            note(f"left out: {_named(slot)}: Kafka's tool takes no negative offset ({slot.committed_offset})")
        elif "\n" in slot.group_id or "\n" in slot.topic:
            note(f"left out: {_named(slot)}: Kafka's tool cannot read a name with a line feed in it")
        elif best is not None and best.key == slot.key:
            less, best = sorted((best, slot), key=lambda each: _rank(each, right_partitions))
            note(
                f"{_named(best)} is in two offsets partitions: taken from {best.offsets_partition} "
                f"({best.committed_offset}), not from {less.offsets_partition} ({less.committed_offset})"
            )
        else:
            if best is not None:
                yield noted(best)
            best = slot
    if best is not None:
        yield noted(best)


def _named(slot: Slot) -> str:
    return f"group {quoted(slot.group_id)}, {cell_text(slot.topic)}-{slot.partition}"


def _rank(slot: Slot, right_partitions: Mapping[str, int]) -> tuple[bool, int]:
    """The sort key of slots with the same name; the greatest counts."""
    return right_partitions.get(slot.group_id) == slot.offsets_partition, slot.commit_us or 0


def partitions_of_groups(reader: LakeReader, groups: list[str] | None, as_of: datetime | None) -> dict[str, int]:
    """For groups in more than one offsets partition, the one that the name belongs to; empty if that is not known."""
    # History has every group that ever existed and is read once; a query as of a moment takes far longer.
    source, chosen = "committed_offsets" if as_of is None else "offset_commits", of_groups(groups)
    split = reader.sql(
        f"SELECT group_id FROM {source} WHERE group_id IS NOT NULL AND {chosen.sql} "
        "GROUP BY group_id HAVING min(offsets_partition) <> max(offsets_partition)",
        **chosen.parameters,
    )
    if not split:
        return {}
    names = sorted({row["group_id"] for row in split})
    # The partition count costs more than everything else, so it is queried once.
    [count] = reader.sql("SELECT offsets_partition_count() AS partitions")
    return {} if count["partitions"] is None else {name: offsets_partition(name, count["partitions"]) for name in names}


def _streams_groups(reader: LakeReader) -> frozenset[str]:
    return frozenset(row["group_id"] for row in reader.sql("SELECT group_id FROM groups WHERE group_type = 'streams'"))


def _known_or_refused(reader: LakeReader, as_of: datetime | None) -> list[str]:
    """Notes for people on offsets as of the moment. Raises KgroupsError for a moment outside of the history, because a
    reset to offsets of another time is not a reset to that moment."""
    if as_of is None:
        return []
    times = times_as_of(reader, as_of)
    later = times.later(as_of)
    if later is not None:
        raise KgroupsError(f"nothing is exported: {later}")
    return times.notes(as_of)


def _committed_offsets(
    reader: LakeReader, groups: list[str] | None, arguments: argparse.Namespace, as_of: datetime | None
) -> Iterator[Slot]:
    """The slots in the order that `importable` needs. Columns become Python values one by one; dicts cost twice as
    much."""
    chosen, topics = of_groups(groups), of_topics(arguments.topic)
    source = "committed_offsets" if as_of is None else "committed_offsets_as_of(:as_of)"
    shares = "share_partitions" if as_of is None else "share_partitions_as_of(:as_of)"
    parameters = {} if as_of is None else {"as_of": as_of}
    batches = reader.batches(
        "SELECT group_id, topic, partition, offsets_partition, committed_offset, commit_timestamp "
        f"FROM {source} WHERE {chosen.sql} AND {topics.sql} "
        f"UNION ALL SELECT group_id, topic, partition, {_OF_SHARE}, start_offset, write_timestamp FROM {shares} "
        f"WHERE {chosen.sql} AND {topics.sql} AND start_offset IS NOT NULL AND topic IS NOT NULL "
        "ORDER BY group_id, topic, partition, offsets_partition",
        chosen.parameters | topics.parameters | parameters,
    )
    for batch in batches:
        *values, commit_timestamp = batch.columns
        commit_us = commit_timestamp.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        yield from map(Slot._make, zip(*(each.to_pylist() for each in (*values, commit_us)), strict=True))


def _write(lines: Iterable[str], output: str | None) -> None:
    if output is None:
        is_seen = sys.stdout.isatty()
        for text in lines:
            if is_seen:
                text = "".join(f"{printable(line)}\n" for line in text.split("\n")[:-1])
            sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        with new_file(Path(output)) as file:
            file.writelines(lines)
    except FileExistsError:
        raise UsageError(f"{output} was created in the meantime: name another file, or remove it") from None
    except OSError as error:
        error.filename = output  # Python sets it only if opening failed
        raise


def _nothing(
    reader: LakeReader,
    groups: list[str] | None,
    arguments: argparse.Namespace,
    as_of: datetime | None,
) -> str:
    who = "no group" if groups is None else f"group {', '.join(map(repr, groups))}"
    has = "has" if groups is None or len(groups) == 1 else "have"
    of_topic = " of these topics" if arguments.topic else ""
    when = reader.known_as_of() if as_of is None else f"as of {format_utc(as_of)}"
    if next(_committed_offsets(reader, groups, arguments, as_of), None) is not None:
        return f"Kafka's tool takes none of the offsets ({when}); nothing was written"
    negation = "a" if groups is None else "no"
    describe = f"kgroups describe --lake {shell_word(reader.location)}"
    advice = "" if groups is None else f": {describe} {shell_option('--group', groups[0])} shows what it had, and when"
    return f"{who} {has} {negation} committed offset{of_topic} ({when}){advice}; nothing was written"


def _how_to_import(
    reader: LakeReader, exported: Exported, arguments: argparse.Namespace, *, is_single: bool
) -> list[str]:
    """Kafka's command, and its effect on the offsets."""
    when = reader.known_as_of() if arguments.as_of is None else f"as of {format_utc(arguments.as_of)}"
    lines = [
        f"{counted(exported.offsets, 'offset')} of {counted(exported.groups.total(), 'group')} ({when}); to import:"
    ]
    file = shell_word(arguments.output or "FILE")
    for tool, first in exported.named.items():
        if not first:
            continue
        # Groups are named one by one, because --all-groups would miss deleted groups.
        named = " ".join(f"--group {shell_word(group)}" for group in first)
        others = exported.groups[tool] - len(first)
        more = f" --group ... ({others:,} more)" if others else ""
        lines.append(
            f"  {tool} --bootstrap-server HOST:PORT {named}{more} --reset-offsets --from-file {file} --dry-run"
        )
    lines += _how_to_reset_shares(exported.shares, reader.as_of_ms if arguments.as_of is None else arguments.as_of)
    if len(exported.shares) == exported.groups.total():
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
