"""every record of segment files as JSON lines; no Spark, no JVM

Prints every record in the order of the log, one JSON object a line: its offset, its batch, its type, its key and
its value with Kafka's own field names. A record that cannot be decoded has a reason, a detail and its bytes in base64;
a damaged batch has its file and position. The log's last batch has "unconfirmed" and a reason if nothing confirms its
offset: audits wait for the batch after it. Decodes the logs of all three coordinators: __consumer_offsets,
__share_group_state and __transaction_state. The folder's name, else --topic, says which log
it is; else it is taken for the first. Uses no lake.

examples:
  kgroups dump /var/lib/kafka/__consumer_offsets-7/00000000000000000000.log
  kgroups dump /var/lib/kafka --group my-service | tail -3      its last three records
  kgroups dump copy/__consumer_offsets-7 | grep '"reason"'       what cannot be decoded
  kgroups dump /var/lib/kafka --topic __transaction_state       what the transaction coordinator wrote"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgroups_spark.cli.form import UNUSED_LAKE, Option, name_value, text_value
from kgroups_spark.cli.output import json_line, say
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.messages.coordinator_records import (
    GROUP_LOG,
    CoordinatorLog,
    CoordinatorRecordDecoder,
    GroupRecordDecoder,
    Undecodable,
)
from kgroups_spark.records.columns import (
    BatchColumns,
    CorruptBatch,
    RecordColumns,
    control_type,
    control_type_name,
    coordinator_epoch,
)
from kgroups_spark.words import did_you_mean, format_time, quoted, shell_word

if TYPE_CHECKING:
    from kgroups_spark.sources.segments import PartitionCopy


Line = dict[str, Any]
OF_LEGACY_COMMITS, OF_COMMITS = b"\0\0", b"\0\1"  # how keys of these types begin
NO_TOPIC_ID = "A" * 22


class RecordLines:
    """Lines of one partition of a coordinator's log, segment by segment; its decoders keep their caches in between."""

    def __init__(self, topic: str | None, partition: int | None, log: CoordinatorLog) -> None:
        self._place = {"topic": topic, "partition": partition}
        self.log = log
        self._records = GroupRecordDecoder() if log is GROUP_LOG else CoordinatorRecordDecoder(log)

    def of(self, file: str, item: RecordColumns | CorruptBatch) -> Iterator[Line]:
        """The line of a batch of the file that cannot be read, or a line for each record, in log order."""
        if isinstance(item, CorruptBatch):
            yield self._place | {
                "offset": item.base_offset,
                "last_offset": item.last_offset,
                "record_count": item.record_count,
                "reason": "corrupt_batch",
                "detail": item.detail,
                "file": file,
                "file_position": item.position,
                "size_bytes": item.size,
            }
            return
        is_control, facts = item.is_control, _batch_facts(item.batches)
        places = zip(item.offset.tolist(), item.timestamp.tolist(), item.batch.tolist(), strict=True)
        for row, (offset, timestamp, batch) in enumerate(places):
            decoded = _marker(item, row) if is_control[row] else _record(item, row, self._records)
            yield self._place | {"offset": offset, "timestamp": _time(timestamp)} | facts[batch] | decoded


def _record(records: RecordColumns, row: int, decoder: CoordinatorRecordDecoder) -> Line:
    key, value = records.key(row), records.value(row)
    # Both types of offset commits have the same keys, and values of all versions.
    is_legacy = decoder.log is GROUP_LOG and key is not None and key[:2] == OF_LEGACY_COMMITS
    outcome = decoder.decode(OF_COMMITS + key[2:] if is_legacy and key else key, value)
    record_type = 0 if is_legacy else outcome.record_type
    if isinstance(outcome, Undecodable):
        return _undecodable(records, row, outcome) | {"record_type": record_type}
    key_fields, fields = outcome.key, outcome.value
    if outcome.record_name == "OffsetCommit" and fields is not None and fields["topicId"] == NO_TOPIC_ID:
        fields = fields | {"topicId": None}
    return {
        "record_type": record_type,
        "record_name": outcome.record_name,
        **_whose(key_fields.get("groupId", key_fields.get("group")), key_fields.get("transactionalId")),
        "key": key_fields,
        "value_version": outcome.value_version,
        "value": fields,
        **(_raw(records, row) if outcome.keeps_raw else {}),
    }


def _whose(group_id: str | None, transactional_id: str | None) -> Line:
    return {"group_id": group_id} if transactional_id is None else {"transactional_id": transactional_id}


def _undecodable(records: RecordColumns, row: int, outcome: Undecodable) -> Line:
    return {
        "record_type": outcome.record_type,
        "record_name": outcome.record_name,
        **_whose(outcome.group_id, outcome.transactional_id),
        "value_version": outcome.value_version,
        "reason": outcome.reason,
        "detail": outcome.detail,
        **_raw(records, row),
    }


def _batch_facts(batches: BatchColumns) -> list[Line]:
    """The fields of each batch that its records have; Kafka's -1 for none is null."""
    columns = {
        "timestamp_type": ["LogAppendTime" if kind else "CreateTime" for kind in batches.timestamp_type.tolist()],
        "batch_base_offset": batches.base_offset.tolist(),
        "batch_magic": batches.magic.tolist(),
        "leader_epoch": map(_known, batches.leader_epoch.tolist()),
        "producer_id": map(_known, batches.producer_id.tolist()),
        "producer_epoch": map(_known, batches.producer_epoch.tolist()),
        "is_transactional": batches.is_transactional.tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _marker(records: RecordColumns, row: int) -> Line:
    number = control_type(records.key(row))
    return {
        "control_type": None if number is None else control_type_name(number),
        "coordinator_epoch": coordinator_epoch(records.value(row)),
    }


def _raw(records: RecordColumns, row: int) -> Line:
    """The bytes, if the decoded key and value lack some of their contents."""
    return {"raw_key": records.key(row), "raw_value": records.value(row)}


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _time(time_ms: int) -> str | int | None:
    """ISO 8601; a time beyond any calendar remains a number; -1 becomes null."""
    if time_ms == -1:
        return None
    try:
        return format_time(time_ms)
    except OverflowError:
        return time_ms


# The coordinators' logs, as in messages/coordinator_records.py, which is not imported because options need no decoders.
TOPICS = ("__consumer_offsets", "__share_group_state", "__transaction_state")
_PARTITION_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")


@dataclass(frozen=True)
class Segments:
    """Files of one partition in log order; topic and partition None: the folder's name does not contain them.

    `log`: one of TOPICS; None: the first, as nothing says which. `copy`: the whole partition in its folder; None: the
    files were named one by one."""

    topic: str | None
    partition: int | None
    files: tuple[str, ...]
    log: str | None = None
    copy: PartitionCopy | None = None


OPTIONS = (
    Option(
        "paths FILE|DIR",
        "a segment (*.log), a folder of segments, or a folder with folders such as __consumer_offsets-7 in it",
        more={"nargs": "+"},
    ),
    Option(
        "--topic T",
        f"which log: {', '.join(TOPICS)} (default: by the folders' names, else the first)",
        name_value(TOPICS),
    ),
    Option(
        "--group G ...",
        "only records of this group, the markers that end its transactions, and damaged batches; may be repeated",
        text_value,
    ),
    UNUSED_LAKE,
    Option("--format json", "json, always", name_value(("json",)), "json"),
)


def run(arguments: argparse.Namespace) -> int:
    """Prints the records. Returns the exit code: a failure if there are only damaged batches."""
    found = [segments for path in arguments.paths for segments in segments_at(path, arguments.topic)]
    groups = set(arguments.group or [])
    seen = Seen()
    for segments in found:
        for line in chosen_lines(_lines(segments), groups, seen):
            sys.stdout.write(json_line(line))
    for group in sorted(groups - seen.groups):
        say(f"no record of the group {quoted(group)}{did_you_mean(group, seen.groups, shell_word)}")
    if not any(segments.files for segments in found):
        raise KgroupsError(f"{' '.join(arguments.paths)}: no segment file (*.log)")
    if seen.damaged_batches and not seen.records:
        raise KgroupsError(
            f"no record in {' '.join(arguments.paths)} can be read: is it a segment of {_one_of(TOPICS)}?"
        )
    return 0


def segments_at(path: str, topic: str | None = None) -> list[Segments]:
    """The logs that a path on the command line names. In a folder of partitions, those of the topic (None: of all
    TOPICS).

    Raises UsageError if there is no segment of a coordinator's log."""
    from kgroups_spark.sources.segments import NoPartitions

    local = Path(path)
    if local.is_file():
        return [_of_folder(local.absolute().parent, (path,), topic)]
    try:
        return _partitions_in(path, TOPICS if topic is None else (topic,))
    except NoPartitions:
        files = tuple(sorted(str(file) for file in local.glob("*.log")))
        if not files:
            raise
        return [_of_folder(local.absolute(), files, topic)]


def _partitions_in(folder: str, topics: tuple[str, ...]) -> list[Segments]:
    """Partitions by topic. Raises NoPartitions if there is none of any topic."""
    from kgroups_spark.sources.segments import NoPartitions, find_partitions, require_listed

    found: list[Segments] = []
    missing: NoPartitions | None = None
    for topic in topics:
        try:
            copies = find_partitions([folder], topic)
            require_listed(copies)
        except NoPartitions as error:
            missing = missing or error
            continue
        found += [Segments(c.topic, c.partition, tuple(file.path for file in c.segments), topic, c) for c in copies]
    if missing is not None and not found:
        raise missing
    return found


def _of_folder(folder: Path, files: tuple[str, ...], topic: str | None) -> Segments:
    """Segments named one by one, or copied. Topic and partition come from the folder's name if it is Kafka's."""
    match = _PARTITION_FOLDER.fullmatch(folder.name)
    if match is None:
        return Segments(topic, None, files, topic)
    named = match["topic"]
    if named in TOPICS and match["partition"] != str(int(match["partition"])):
        raise UsageError(f"{folder} is no folder of a broker, which writes no zeros before the partition: rename it")
    if named not in TOPICS and topic is None:
        raise UsageError(f"{folder} holds {named}; only {_one_of(TOPICS, 'and')} can be decoded (--topic says which)")
    if named in TOPICS and topic not in (None, named):
        raise UsageError(f"{folder} holds {named}, not {topic}")
    return Segments(named, int(match["partition"]), files, named if named in TOPICS else topic)


def _one_of(names: Iterable[str], joined_by: str = "or") -> str:
    *others, last = names
    return f"{', '.join(others)} {joined_by} {last}"


def _lines(segments: Segments) -> Iterator[Line]:
    from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS
    from kgroups_spark.sources.partition_log import SegmentPiece
    from kgroups_spark.sources.segment_log import SegmentReading, Span

    lines = RecordLines(segments.topic, segments.partition, COORDINATOR_LOGS[segments.log or TOPICS[0]])

    if segments.copy is not None:
        lots = [[SegmentPiece(file.path, 0, file.size, file) for file in segments.copy.segments]]
    else:
        lots = [[SegmentPiece(path, 0, Path(path).stat().st_size)] for path in segments.files]
    for pieces in lots:
        span = Span(segments.topic or TOPICS[0], segments.partition or 0, pieces)
        reading = SegmentReading(span)
        for path, item in reading.items():
            yield from lines.of(path, item)
        if reading.held_back is not None:
            say(f"{reading.unconfirmed}; audits read it once another batch follows it")
            for path, item in SegmentReading(span._replace(pieces=[reading.held_back])).items():
                yield from (line | {"unconfirmed": reading.unconfirmed} for line in lines.of(path, item))
        if reading.half_written is not None:
            path, position, why = reading.half_written
            say(f"{path}: reading ended at byte {position}: {why}")


@dataclass
class Seen:
    """The counts of records, printed or not."""

    records: int = 0
    damaged_batches: int = 0
    groups: set[str] = field(default_factory=set)


def chosen_lines(lines: Iterable[Line], groups: set[str], seen: Seen) -> Iterator[Line]:
    """The lines of the groups (empty: all lines), of markers of their producers, and of damaged batches."""
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
