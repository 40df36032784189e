"""Folders of log segments: their partitions, and the files that are a partition's log.

    <folder>/meta.properties                     cluster.id=...
    <folder>/<topic>-<partition>/partition.metadata      topic_id: ...
    <folder>/<topic>-<partition>/<20 digits>.log         batches; the digits are the base offset
                                 <20 digits>.log.swap    a cleaned segment that was about to replace others when the
                                 broker stopped
                                 <20 digits>.log.cleaned one that was not complete

A broker that starts deletes the segments that a swap file covers, and the swap files from the first `.cleaned` file on:
the other part of a segment that it was splitting (Kafka: LogLoader.scala 3.9, KAFKA-6264). This listing leaves them
out, too. Other files (`.deleted`, indexes) and other folders (`<topic>-<partition>.<uuid>-delete`, `-future`, `-stray`)
are not part of the log. A compressed segment is (`<20 digits>.log.gz`, of a copy): it is refused unless the segment
itself is there, too.

A running broker's cleaner replaces, merges and deletes segments while they are read. So a listing has the identity of
each segment's file (`FileVersion`), which is checked when a segment is opened: see sources/partition_log.py,
sources/segment_log.py and `settled`.

Folders are local paths or URIs of any file system that pyarrow.fs opens. Spark's own file sources hide names that
start with `_`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from kgroups_spark.errors import NotReadable, UsageError
from kgroups_spark.sources.files import (
    Entry,
    UnreadableFolder,
    folder_of,
    is_local,
    list_folder,
    name_of,
    parse_properties,
    path_in,
    read_text,
    read_text_if_there,
)
from kgroups_spark.sources.partition_log import (
    LARGEST_OFFSET,
    SegmentChanged,
    SegmentFile,
    scan_segment,
)
from kgroups_spark.words import first_of

# The committed offsets of the replicas in a broker's log directory: records above them may be lost if a leader fails.
#
#     replication-offset-checkpoint       high watermark of each replica in the directory, written every 5 seconds
#                                         (replica.high.watermark.checkpoint.interval.ms)
#     cleaner-offset-checkpoint           the offset to which the cleaner has cleaned each log; it cleans only committed
#                                         records
#
# Both are text: a version (0), the number of entries, then a line `topic partition offset` for each. Kafka:
# CheckpointFile.java 4.3.1, OffsetCheckpointFile.java; the broker takes a directory with a malformed one out of
# service.


HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_TO = "cleaner-offset-checkpoint"

Place = tuple[str, int]  # topic and partition


def committed_offsets(log_dir: str) -> dict[Place, int] | None:
    """By topic and partition the offset below which all is committed, from a log directory's checkpoints: the high
    watermark, up to five seconds old, and the cleaned range, where records were dropped for newer ones. None: there is
    no high watermark (power failure). Raises UsageError, UnreadableFolder."""
    path = path_in(log_dir, HIGH_WATERMARKS)
    text = read_text_if_there(path)
    found = None if text is None else parse_checkpoint(text, path)
    if found is None:
        return None
    path = path_in(log_dir, CLEANED_TO)
    cleaned = read_text_if_there(path)
    for place, offset in (parse_checkpoint(cleaned or "", path) or {}).items():
        if place in found:
            found[place] = max(found[place], offset)
    return found


def parse_checkpoint(text: str, path: str) -> dict[Place, int] | None:
    """The entries of a checkpoint file; None: it is empty. Raises UsageError, which names `path`."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    if lines[0].strip() != "0":
        raise _bad(path, f"line 1 is {lines[0][:40]!r}, version 0 is known")
    if len(lines) < 2 or not is_number(lines[1].strip()):
        raise _bad(path, f"line 2 is {lines[1][:40]!r}, not a number of entries" if len(lines) > 1 else "it ends early")
    entries: dict[Place, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        words = line.split()
        if len(words) != 3 or not is_number(words[1]) or not is_number(words[2]):
            raise _bad(path, f"line {number} is {line[:80]!r}, not a topic, a partition and an offset")
        entries[words[0], int(words[1])] = int(words[2])
    if not len(entries) == len(lines) - 2 == int(lines[1]):
        raise _bad(path, f"it has {len(lines) - 2} entries, of {len(entries)} partitions, and says {int(lines[1])}")
    return entries


def is_number(word: str) -> bool:
    """Whether the word of a checkpoint file is a number of at most 19 digits, as a long has."""
    return word.isascii() and word.isdigit() and len(word) < 20


def _bad(path: str, why: str) -> UsageError:
    return UsageError(
        f"{path} is damaged: {why}. It says which records are committed: copy it again. Without the file everything "
        "is read, also what may vanish when a leader fails"
    )


OFFSETS_TOPIC = "__consumer_offsets"
SEGMENT_NAME = re.compile(r"(\d{20})\.log(\.swap)?")
_CLEANED_NAME = re.compile(r"(\d{20})\..*\.cleaned")
_COMPRESSED_NAME = re.compile(r"(\d{20}\.log)\.(gz|zst|bz2|xz|lz4|zip)")


class NoPartitions(UsageError):
    """A folder without a partition of the topic."""


# How long to wait before a partition whose files changed is listed again, seconds. Kafka's cleaner needs milliseconds
# for a swap, and at least seconds until the next one of the same segment.
WAITS_S = (0.0, 0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)

Answer = TypeVar("Answer")


class PartitionCopy(NamedTuple):
    """A copy of a partition's log; segments in log order, if any. `unreadable`: why it could not be listed."""

    topic: str
    partition: int
    folder: str
    segments: tuple[SegmentFile, ...]
    topic_id: str | None = None  # as Kafka prints it, 22 characters; None: written before 2.8, or not copied
    cluster_id: str | None = None
    committed_to: int | None = None  # records at or above this offset may be lost; None: unknown
    has_checkpoint: bool = False  # whether the log directory has checkpoints of high watermarks
    unreadable: str | None = None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def segments_from(self, offset: int) -> tuple[SegmentFile, ...]:
        """The segments that may have records from `offset` on."""
        before = sum(segment.base_offset <= offset for segment in self.segments)
        return self.segments[max(before - 1, 0) :]


def find_partitions(folders: Sequence[str], topic: str = OFFSETS_TOPIC) -> list[PartitionCopy]:
    """Every copy of every partition of the topic in these folders (of partitions, or of one), by partition, then in the
    folders' order. Raises NoPartitions, UsageError, UnreadableFolder."""
    return _of_one_cluster([copy for folder in folders for copy in _partitions_in(folder, topic)])


def find_any_partitions(folders: Sequence[str], topic: str) -> list[PartitionCopy]:
    """As find_partitions, but folders without partitions of the topic are allowed; empty if there are none."""
    copies = list[PartitionCopy]()
    for folder in folders:
        with suppress(NoPartitions):
            copies += _partitions_in(folder, topic)
    return _of_one_cluster(copies)


def _partitions_in(folder: str, topic: str) -> list[PartitionCopy]:
    name = re.compile(re.escape(topic) + r"-(0|[1-9]\d*)")  # no broker writes -002
    entries = list_folder(folder)
    if itself := name.fullmatch(name_of(folder)):
        return _with_committed([_listed(folder, topic, int(itself[1]), None)], folder_of(folder))
    matches = [(entry, match) for entry in entries if not entry.is_file and (match := name.fullmatch(entry.name))]
    if not matches:
        raise NoPartitions(f"{folder} has no folder named {topic}-<partition>; it {_contents(entries)}")
    cluster_id = _property(entries, "meta.properties", "cluster.id")
    copies = [_listed(entry.path, topic, int(match[1]), cluster_id) for entry, match in matches]
    return _with_committed(copies, folder)


def _with_committed(copies: Iterable[PartitionCopy], log_dir: str) -> list[PartitionCopy]:
    """The copies with committed offsets, read after the listing: all that the cleaner has done is below them."""
    committed = committed_offsets(log_dir)
    if committed is None:
        return list(copies)
    return [_committed(copy, committed.get((copy.topic, copy.partition))) for copy in copies]


def _committed(copy: PartitionCopy, committed_to: int | None) -> PartitionCopy:
    segments = tuple(segment._replace(committed_to=committed_to) for segment in copy.segments)
    return copy._replace(segments=segments, committed_to=committed_to, has_checkpoint=True)


def _listed(folder: str, topic: str, partition: int, cluster_id: str | None) -> PartitionCopy:
    """The partition in a folder, or the reason why its files cannot be listed: the others can be read."""
    try:
        return _list_partition(folder, topic, partition, cluster_id)
    except NotReadable as error:
        return PartitionCopy(topic, partition, folder, (), cluster_id=cluster_id, unreadable=str(error))


def require_listed(copies: Iterable[PartitionCopy]) -> None:
    """Raises NotReadable if the files of a copy could not be listed."""
    for copy in copies:
        if copy.unreadable is not None:
            raise NotReadable(copy.unreadable)


def list_partition(folder: str, topic: str, partition: int, cluster_id: str | None) -> PartitionCopy:
    """The partition in a folder, listed now. Raises NotReadable, UsageError."""
    (copy,) = _with_committed([_list_partition(folder, topic, partition, cluster_id)], folder_of(folder))
    return copy


def _list_partition(folder: str, topic: str, partition: int, cluster_id: str | None) -> PartitionCopy:
    """The partition in a folder, without checkpoints. A local folder is listed until it has the same files twice in a
    row: one that is renamed meanwhile may be missing under both names."""
    for wait in _waits(folder):
        time.sleep(wait)
        entries = list_folder(folder)
        if is_local(folder) and _segment_files(list_folder(folder)) != _segment_files(entries):
            continue
        try:
            segments = _live_segments(entries)
        except SegmentChanged:
            continue
        topic_id = _property(entries, "partition.metadata", "topic_id")
        return PartitionCopy(topic, partition, folder, segments, topic_id, cluster_id)
    raise AssertionError("_waits ends with an error")


def settled(copy: PartitionCopy, ask: Callable[[PartitionCopy], Answer]) -> tuple[PartitionCopy, Answer]:
    """The files and `ask`'s answer about them; listed again if one has changed. Raises as list_partition does."""
    for wait in _waits(copy.folder):
        try:
            return copy, ask(copy)
        except SegmentChanged:
            time.sleep(wait)
            copy = list_partition(copy.folder, copy.topic, copy.partition, copy.cluster_id)
    raise AssertionError("_waits ends with an error")


def _waits(folder: str) -> Iterator[float]:
    yield from WAITS_S
    raise keeps_changing(folder)


def keeps_changing(folder: str) -> NotReadable:
    """The error, with advice."""
    return NotReadable(
        f"the segments in {folder} changed each time they were listed: something writes them. Give a copy that nobody "
        "writes, or read the live cluster (--bootstrap-server)"
    )


def _segment_files(entries: Sequence[Entry]) -> set[tuple[str, object]]:
    return {
        (entry.name, entry.version.inode if entry.version else None)
        for entry in entries
        if SEGMENT_NAME.fullmatch(entry.name)
    }


def _live_segments(entries: Sequence[Entry]) -> tuple[SegmentFile, ...]:
    """The segments that a broker would have after a start. Raises NotReadable instead of leaving one out."""
    segments: dict[int, SegmentFile] = {}
    swaps: list[SegmentFile] = []
    cleaned = [int(match[1]) for entry in entries if (match := _CLEANED_NAME.fullmatch(entry.name))]
    for entry in entries:
        if match := SEGMENT_NAME.fullmatch(entry.name):
            if not entry.is_file:
                raise NotReadable(f"{entry.path} is not a file: it is a folder, or a link to a missing file")
            segment = SegmentFile(entry.path, int(match[1]), entry.size, entry.version)
            if match[2]:
                swaps.append(segment)
            else:
                segments[segment.base_offset] = segment
    swaps = [swap for swap in swaps if swap.base_offset < min(cleaned, default=LARGEST_OFFSET + 1)]
    for swap in swaps:
        batches, _ = scan_segment(swap)
        end = int(batches.last_offset[-1]) + 1 if len(batches) else swap.base_offset
        for base_offset in [base for base in segments if swap.base_offset <= base < end]:
            del segments[base_offset]
    segments |= {swap.base_offset: swap for swap in swaps}
    _require_not_compressed(entries)
    bases = sorted(segments)
    return tuple(
        segments[base]._replace(
            is_last=following is None,
            next_base_offset=following,
            ends_log=not any(segments[later].size for later in bases if later > base),
        )
        for base, following in zip(bases, [*bases[1:], None], strict=False)
    )


def _require_not_compressed(entries: Sequence[Entry]) -> None:
    """Raises NotReadable if a segment is only there compressed: its records would seem to be compacted away."""
    names = {entry.name for entry in entries}
    for entry in entries:
        if (match := _COMPRESSED_NAME.fullmatch(entry.name)) and match[1] not in names:
            raise NotReadable(
                f"{entry.path} is a compressed segment, and there is no {match[1]}: decompress it, or move it away"
            )


def _of_one_cluster(copies: Sequence[PartitionCopy]) -> list[PartitionCopy]:
    """The copies by partition, those of a folder that was given twice once."""
    by_folder: dict[str, PartitionCopy] = {}
    for copy in copies:
        by_folder.setdefault(copy.folder, copy)
    found = sorted(by_folder.values(), key=lambda copy: copy.partition)
    for what in ("cluster_id", "topic_id"):
        known = {getattr(copy, what): copy.folder for copy in found if getattr(copy, what)}
        if len(known) > 1:
            places = ", ".join(f"{value} in {folder}" for value, folder in sorted(known.items()))
            raise UsageError(f"the folders are not of one log: {what.replace('_', ' ')} {places}")
    return found


def _property(entries: Sequence[Entry], file_name: str, key: str) -> str | None:
    """The value of `key` in a small properties file among the entries, or None. Java escapes `=` and `:` in values."""
    for entry in entries:
        if entry.name == file_name:
            return parse_properties(read_text(entry.path)).get(key, "").strip() or None
    return None


def _contents(entries: Sequence[Entry]) -> str:
    names = sorted(entry.name for entry in entries)
    if not names:
        return "is empty"
    return f"has {first_of(names, 5)}"


# Leader epochs of a partition, from the file that its broker keeps in the folder of the segments.
#
#     <folder>/<topic>-<partition>/leader-epoch-checkpoint
#
# A text: a version (0), the number of entries, then a line `epoch start_offset` for each leader (Kafka:
# LeaderEpochCheckpointFile.java 4.3.1). It can only confirm a batch's epoch, because a broker may write it later than
# the batch.


LEADER_EPOCHS = "leader-epoch-checkpoint"


def epoch_by_checkpoint(folder: str, offset: int) -> int | None:
    """The leader epoch of that offset, from the folder's file. None: the file does not have the offset, is damaged,
    cannot be read, or does not exist. An audit asks after it has read the log, so a bad file must not end it."""
    with suppress(UnreadableFolder):
        return epoch_in(read_text_if_there(path_in(folder, LEADER_EPOCHS)) or "", offset)
    return None


def epoch_in(text: str, offset: int) -> int | None:
    """The leader epoch of that offset; None: the file does not have it, or is damaged."""
    lines = [line.split() for line in text.splitlines()]
    if lines[:1] != [["0"]] or not all(is_number(word) for line in lines for word in line):
        return None
    entries = [(int(start), int(epoch)) for epoch, start in (line for line in lines[2:] if len(line) == 2)]
    return max((each for each in entries if each[0] <= offset), default=(0, None))[1]
