"""`kgroups dump`: every record of segment files as JSON lines; no Spark, no JVM."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroups_spark.commands.options import name_value
from kgroups_spark.commands.output import json_line, say
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.nearest import did_you_mean

if TYPE_CHECKING:
    from kgroups_spark.sources.segments import PartitionCopy

NAME = "dump"
SUMMARY = "every record of segment files as JSON lines; no Spark, no JVM"
DESCRIPTION = """\
Prints every record in the order of the log, one JSON object a line: where it stands, its batch, its type, its key and
its value with Kafka's own field names. What cannot be decoded has a reason, a detail and its bytes in base64; a damaged
batch has its file and position. A lake is neither read nor written."""
EXAMPLES = """\
examples:
  kgroups dump /var/lib/kafka/__consumer_offsets-7/00000000000000000000.log
  kgroups dump /var/lib/kafka --group my-service | tail -3      its last three records
  kgroups dump copy/__consumer_offsets-7 | grep '"reason"'       what cannot be decoded"""

TOPIC = "__consumer_offsets"

Line = dict[str, Any]

_SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")
_PARTITION_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")


@dataclass(frozen=True)
class Segments:
    """Files of one offsets partition in log order; topic and partition None: the folder's name does not say.

    `copy`: the whole partition in its folder; None where files were named one by one."""

    topic: str | None
    partition: int | None
    files: tuple[str, ...]
    copy: PartitionCopy | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `kgroups dump`."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="FILE|DIR",
        help=f"a segment (*.log), a folder of segments, or a folder with {TOPIC}-<p> folders in it",
    )
    parser.add_argument(
        "--group",
        action="append",
        metavar="G",
        help="only records of this group, the markers that end its transactions, and damaged batches; may be repeated",
    )
    parser.add_argument("--lake", help=argparse.SUPPRESS)  # taken by every command; nothing to do with this one
    parser.add_argument("--format", type=name_value(("json",)), default="json", metavar="json", help="json, always")


def run(arguments: argparse.Namespace) -> int:
    """Prints the records; fails if there are only damaged batches."""
    found = [segments for path in arguments.paths for segments in segments_at(path)]
    groups = set(arguments.group or [])
    seen = Seen()
    for segments in found:
        for line in chosen_lines(_lines(segments), groups, seen):
            sys.stdout.write(json_line(line))
    for group in sorted(groups - seen.groups):
        say(f"no record of the group {group}{did_you_mean(group, seen.groups)}")
    if seen.damaged_batches and not seen.records:
        raise KgroupsError(f"nothing in {' '.join(arguments.paths)} can be read: is it a segment of {TOPIC}?")
    return 0


def segments_at(path: str) -> list[Segments]:
    """What a path on the command line means. Raises UsageError if there is no segment of __consumer_offsets."""
    from kgroups_spark.sources.segments import NoPartitions, find_partitions

    local = Path(path)
    if local.is_file():
        return [_of_folder(local.absolute().parent, (path,))]
    try:
        copies = find_partitions([path])
    except NoPartitions:
        files = tuple(sorted(str(file) for file in local.glob("*.log")))
        if not files:
            raise
        return [_of_folder(local.absolute(), files)]
    return [Segments(copy.topic, copy.partition, tuple(file.path for file in copy.segments), copy) for copy in copies]


def _of_folder(folder: Path, files: tuple[str, ...]) -> Segments:
    """Segments named one by one, or copied into a folder of any name; Kafka's own name tells topic and partition."""
    match = _PARTITION_FOLDER.fullmatch(folder.name)
    if match is None:
        return Segments(None, None, files)
    if match["topic"] != TOPIC and match["topic"].startswith("__"):
        raise UsageError(f"{folder} holds {match['topic']}; only {TOPIC} can be decoded")
    return Segments(match["topic"], int(match["partition"]), files)


def _lines(segments: Segments) -> Iterator[Line]:
    from kgroups_spark.commands.dump_lines import RecordLines
    from kgroups_spark.records.columns import CorruptBatch
    from kgroups_spark.sources.partition_log import SegmentPiece
    from kgroups_spark.sources.segment_reading import SegmentReading, Span

    lines = RecordLines(segments.topic, segments.partition)
    if segments.copy is not None:
        lots = [[SegmentPiece(file.path, 0, file.size, file) for file in segments.copy.segments]]
    else:
        lots = [[SegmentPiece(path, 0, Path(path).stat().st_size)] for path in segments.files]
    for pieces in lots:
        reading = SegmentReading(Span(segments.topic or TOPIC, segments.partition or 0, pieces))
        items = reading.items()
        if segments.copy is None and not _is_segment(pieces[0].path):
            items = _with_records(items, pieces[0].path)
        for path, item in items:
            if isinstance(item, CorruptBatch):
                yield lines.of_corrupt_batch(item, path)
            else:
                yield from lines.of_records(item)
        if reading.unconfirmed is not None:
            say(f"{reading.unconfirmed}; it is not shown until another batch stands behind it")
        if reading.half_written is not None:
            path, position, why = reading.half_written
            say(f"{path}: reading ended at byte {position}: {why}")


def _with_records(items: Iterator[tuple[str, Any]], path: str) -> Iterator[tuple[str, Any]]:
    """What is found, and in which file; the damage that comes first is held back until there is a record.

    Raises UsageError if there is none."""
    from kgroups_spark.records.columns import CorruptBatch

    held_back: list[tuple[str, Any]] = []
    for found in items:
        held_back.append(found)
        if not isinstance(found[1], CorruptBatch):
            yield from held_back
            yield from items
            return
    raise UsageError(f"{path} is not a segment: it neither begins as a record batch does, nor is one in it")


def _is_segment(path: str) -> bool:
    """By its name, as Kafka gives it, or by its first bytes; an empty file is one."""
    return _SEGMENT_NAME.fullmatch(Path(path).name) is not None or _may_begin_a_segment(path)


def _may_begin_a_segment(path: str) -> bool:
    """Whether the first bytes can be those of a record batch, as far as they are there: a base offset below 2^56, a
    possible length, a known magic (Kafka: DefaultRecordBatch.java, LegacyRecord.java)."""
    from kgroups_spark.records.headers import LARGEST_BATCH, SMALLEST_LENGTH
    from kgroups_spark.sources.files import open_file

    with open_file(path) as file:
        head = bytes(file.read(17))
    length = int.from_bytes(head[8:12], "big", signed=True)
    is_possible = len(head) < 12 or SMALLEST_LENGTH <= length <= LARGEST_BATCH
    return not any(head) or (head[0] == 0 and is_possible and (len(head) < 17 or head[16] <= 2))


@dataclass
class Seen:
    """What went by, printed or not."""

    records: int = 0
    damaged_batches: int = 0
    groups: set[str] = field(default_factory=set)


def chosen_lines(lines: Iterable[Line], groups: set[str], seen: Seen) -> Iterator[Line]:
    """All lines, or (groups not empty) those of the groups, markers of their producers, and damaged batches."""
    producers: set[int] = set()
    for line in lines:
        is_damage = "file_position" in line
        seen.damaged_batches += is_damage
        seen.records += not is_damage
        group = line.get("group_id")
        if group is not None:
            seen.groups.add(group)
        if not groups or is_damage:
            yield line
        elif group in groups:
            producers.add(line["producer_id"])
            yield line
        elif "control_type" in line and line["producer_id"] in producers:
            yield line
