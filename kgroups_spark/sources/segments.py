"""Folders of log segments: which partitions are there, in which copies, and which of a partition's files are its log.

    <folder>/meta.properties                     cluster.id=...
    <folder>/<topic>-<partition>/partition.metadata      topic_id: ...
    <folder>/<topic>-<partition>/<20 digits>.log         batches; the digits are the base offset
                                 <20 digits>.log.swap    a cleaned segment that was to take the place of others when
                                 the broker stopped

A broker deletes the segments that a swap file covers when it starts (Kafka: LogLoader.scala 3.9): so does this
listing. Other files (`.deleted`, `.cleaned`, indexes) and other folders (`<topic>-<partition>.<uuid>-delete`,
`-future`, `-stray`) are no part of the log.

Folders are local paths or URIs of any file system that pyarrow.fs opens. Spark's own file sources hide names that
start with `_`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.segment import scan_batches
from kgroups_spark.sources.files import Entry, list_folder, open_file, read_text

OFFSETS_TOPIC = "__consumer_offsets"
SEGMENT_NAME = re.compile(r"(\d{20})\.log(\.swap)?")


class NoPartitions(UsageError):
    """A folder without a partition of the topic."""


class MixedClusters(UsageError):
    """Folders that come from different clusters, or from a topic that was deleted and made again."""


class UnreadableSegment(KgroupsError):
    """A segment file that the file system does not give."""


@dataclass(frozen=True)
class SegmentFile:
    path: str  # opens in every process: an absolute path or a URI
    base_offset: int  # from the file's name
    size: int  # bytes


@dataclass(frozen=True)
class PartitionCopy:
    """One copy of a partition's log; segments in log order, possibly none."""

    topic: str
    partition: int
    folder: str
    segments: tuple[SegmentFile, ...]
    topic_id: str | None = None  # as Kafka prints it, 22 characters; None: written before 2.8, or not copied
    cluster_id: str | None = None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def segments_from(self, offset: int) -> tuple[SegmentFile, ...]:
        """The segments that may hold records from `offset` on."""
        before = sum(segment.base_offset <= offset for segment in self.segments)
        return self.segments[max(before - 1, 0) :]


def find_partitions(folders: Sequence[str], topic: str = OFFSETS_TOPIC) -> list[PartitionCopy]:
    """Every copy of every partition of the topic in these folders, by partition, then in the folders' order.

    A folder holds folders of partitions, or is one. Raises FolderNotFound, NoPartitions, MixedClusters,
    UnreadableFolder, UnreadableSegment.
    """
    copies: dict[str, PartitionCopy] = {}
    for folder in folders:
        for copy in _partitions_in(folder, topic):
            copies.setdefault(copy.folder, copy)
    found = sorted(copies.values(), key=lambda copy: copy.partition)
    _check_one_cluster(found)
    return found


def _partitions_in(folder: str, topic: str) -> list[PartitionCopy]:
    name = re.compile(re.escape(topic) + r"-(\d+)")
    entries = list_folder(folder)
    if itself := name.fullmatch(folder.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]):
        return [_partition(folder, topic, int(itself[1]), None)]
    matches = [(entry, match) for entry in entries if not entry.is_file and (match := name.fullmatch(entry.name))]
    if not matches:
        raise NoPartitions(f"{folder} has no folder named {topic}-<partition>; it has {_some_names(entries)}")
    cluster_id = _property(entries, "meta.properties", "cluster.id", "=")
    return [_partition(entry.path, topic, int(match[1]), cluster_id) for entry, match in matches]


def _partition(folder: str, topic: str, partition: int, cluster_id: str | None) -> PartitionCopy:
    entries = list_folder(folder)
    topic_id = _property(entries, "partition.metadata", "topic_id", ":")
    return PartitionCopy(topic, partition, folder, _live_segments(entries), topic_id, cluster_id)


def _live_segments(entries: Sequence[Entry]) -> tuple[SegmentFile, ...]:
    """The segments a broker would have after its start. Raises UnreadableSegment rather than leave one out."""
    segments: dict[int, SegmentFile] = {}
    swaps: list[SegmentFile] = []
    for entry in entries:
        if match := SEGMENT_NAME.fullmatch(entry.name):
            if not entry.is_file:
                raise UnreadableSegment(f"{entry.path} is no file: a folder, or a link to what is not there")
            segment = SegmentFile(entry.path, int(match[1]), entry.size)
            if match[2]:
                swaps.append(segment)
            else:
                segments[segment.base_offset] = segment
    for swap in swaps:
        next_offset = _next_offset(swap)
        for base_offset in [base for base in segments if swap.base_offset <= base < next_offset]:
            del segments[base_offset]
    segments |= {swap.base_offset: swap for swap in swaps}
    return tuple(segments[base_offset] for base_offset in sorted(segments))


def _next_offset(segment: SegmentFile) -> int:
    batches = scan_segment(segment)
    return int(batches.last_offset[-1]) + 1 if len(batches) else segment.base_offset


def scan_segment(segment: SegmentFile) -> BatchColumns:
    """The headers of a segment's sound batches. Raises UnreadableSegment."""
    try:
        with open_file(segment.path) as file:
            return scan_batches(file)
    except OSError as err:
        raise UnreadableSegment(f"{segment.path} cannot be read: {err}") from err


def last_batch(copy: PartitionCopy) -> BatchColumns:
    """The header of the last sound batch of a log; empty if it has none."""
    for segment in reversed(copy.segments):
        batches = scan_segment(segment)
        if len(batches):
            return batches[-1:]
    return BatchColumns.empty()


@dataclass(frozen=True)
class Choice:
    """One copy per partition, by partition; `notes` has a sentence per partition about the copies left out."""

    copies: list[PartitionCopy]
    notes: list[str]


def choose_copies(copies: Iterable[PartitionCopy]) -> Choice:
    """Of several copies of a partition the one with the highest last leader epoch, then the furthest end, then the
    first given.

    A follower can be behind, and hold a tail that was never committed: the higher epoch has the truth (KIP-101).
    """
    by_partition: dict[tuple[str, int], list[PartitionCopy]] = defaultdict(list)
    for copy in copies:
        by_partition[copy.topic, copy.partition].append(copy)
    chosen: list[PartitionCopy] = []
    notes: list[str] = []
    for (topic, partition), candidates in sorted(by_partition.items()):
        ends = [_end(copy) for copy in candidates] if len(candidates) > 1 else [(-1, 0)]
        best = max(range(len(candidates)), key=lambda i: (ends[i], -i))
        chosen.append(candidates[best])
        if len(candidates) > 1:
            others = ", ".join(_described(candidates[i], ends[i]) for i in range(len(candidates)) if i != best)
            notes.append(
                f"{topic}-{partition} is read from {_described(candidates[best], ends[best])}; not from {others}"
            )
    return Choice(chosen, notes)


def _end(copy: PartitionCopy) -> tuple[int, int]:
    """Last leader epoch and next offset; -1 and 0 of an empty log."""
    last = last_batch(copy)
    return (int(last.leader_epoch[0]), int(last.last_offset[0]) + 1) if len(last) else (-1, 0)


def _described(copy: PartitionCopy, end: tuple[int, int]) -> str:
    return f"{copy.folder} (leader epoch {end[0]}, ends before offset {end[1]})"


def _check_one_cluster(copies: Sequence[PartitionCopy]) -> None:
    for what in ("cluster_id", "topic_id"):
        known = {getattr(copy, what): copy.folder for copy in copies if getattr(copy, what)}
        if len(known) > 1:
            found = ", ".join(f"{value} in {folder}" for value, folder in sorted(known.items()))
            raise MixedClusters(f"the folders are not of one log: {what.replace('_', ' ')} {found}")


def _property(entries: Sequence[Entry], file_name: str, key: str, separator: str) -> str | None:
    """The value of `key` in a small properties file among the entries, or None."""
    for entry in entries:
        if entry.name == file_name:
            for line in read_text(entry.path).splitlines():
                name, _, value = line.partition(separator)
                if name.strip() == key:
                    return value.strip() or None
    return None


def _some_names(entries: Sequence[Entry]) -> str:
    names = sorted(entry.name for entry in entries)
    if not names:
        return "nothing"
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
