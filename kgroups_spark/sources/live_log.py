"""A partition's log as brokers give it: fixed where it is planned, fetched later and elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.number_ranges import number_ranges
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.segment import scan_batches
from kgroups_spark.sources.client_properties import ClientProperties
from kgroups_spark.sources.cluster import EARLIEST, LATEST, Cluster, TopicMetadata
from kgroups_spark.sources.fetch import FetchedLog, FetchLimits
from kgroups_spark.sources.kafka_errors import not_authorized
from kgroups_spark.sources.partition_log import FetchPiece, PartitionLog

# What an offset weighs before any was seen: an offset commit with its share of a batch, compaction left aside.
BYTES_PER_OFFSET = 100.0
# Of so many partitions the newest batch is asked for.
APPENDED_ASKED = 3


class NoOffsetsTopic(UsageError):
    """A cluster on which no consumer group has ever committed or joined."""


@dataclass(frozen=True)
class LiveLog(PartitionLog):
    """One partition of a live topic from its log start to its high watermark, both as they were at planning."""

    cluster: Cluster
    topic: TopicMetadata
    number: int
    start: int
    high_watermark: int
    leader_epoch: int  # the leader's own; -1: not known

    @property
    def partition(self) -> int:
        return self.number

    @property
    def topic_id(self) -> str | None:
        return self.topic.topic_id

    @property
    def cluster_id(self) -> str | None:
        return self.cluster.cluster_id

    @property
    def where(self) -> str:
        return f"partition {self.number} of the cluster's {self.topic.name}"

    @property
    def is_there(self) -> bool:
        return True

    @property
    def log_start_offset(self) -> int:
        return self.start

    @property
    def end_offset(self) -> int:
        return self.high_watermark

    def leader_epoch_behind(self, offset: int) -> int:
        return self.leader_epoch

    @property
    def newest_timestamp(self) -> int | None:
        return None

    def headers_at(self, base_offset: int) -> BatchColumns:
        if not self.start <= base_offset < self.high_watermark:
            return BatchColumns.empty()
        return self._headers(base_offset, base_offset + 1)

    def headers_from(self, offset: int) -> BatchColumns:
        """Fetches all of it."""
        return self._headers(max(offset, self.start), self.high_watermark)

    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[FetchPiece, ...]:
        return self.pieces(start_offset, self.high_watermark)

    def pieces_before(self, start_offset: int) -> tuple[FetchPiece, ...]:
        return self.pieces(self.start, start_offset)

    def pieces(self, start: int, end: int) -> tuple[FetchPiece, ...]:
        """All of start .. end - 1 as one piece; none, if that is nothing."""
        if start >= end:
            return ()
        leader = self.topic.partitions[self.number].leader
        return (FetchPiece(self.topic.name, self.number, self.topic_id, start, end, True, leader, BYTES_PER_OFFSET),)

    def _headers(self, start: int, end: int) -> BatchColumns:
        if start >= end:
            return BatchColumns.empty()
        limits = FetchLimits(timeout_ms=self.cluster.timeout_ms)
        log = FetchedLog(
            self.cluster, self.topic.name, self.number, start, end, limits, topic_id=self.topic_id, keep_first=True
        )
        return scan_batches(log)


@dataclass(frozen=True)
class LiveLogs:
    """The logs of a topic's partitions, by number; `notes` says which could not be asked for."""

    topic: TopicMetadata
    logs: list[LiveLog]
    notes: list[str]


def live_logs(cluster: Cluster, topic_name: str, partitions: Collection[int] | None = None) -> LiveLogs:
    """The topic's logs (`partitions`: only these), with end offsets fixed now, at the high watermarks.

    A partition without a leader is left out, with a note. Raises NoOffsetsTopic, NotAuthorized, UsageError for a
    partition that is not there, and KgroupsError where no partition can be read.
    """
    topic = _topic(cluster, topic_name)
    wanted = _wanted(topic, partitions)
    places = [(topic_name, number) for number in wanted]
    starts = cluster.list_offsets(places, EARLIEST)
    # Who did not answer has been waited for once.
    ends = cluster.list_offsets([place for place in places if starts[place].offset is not None], LATEST)
    logs: list[LiveLog] = []
    errors: dict[str, list[int]] = {}
    for place in places:
        start, end = starts[place], ends.get(place, starts[place])
        if start.offset is None or end.offset is None:
            errors.setdefault(end.error or "no answer", []).append(place[1])
            continue
        epoch = topic.partitions[place[1]].leader_epoch
        logs.append(LiveLog(cluster, topic, place[1], start.offset, end.offset, epoch))
    if "TOPIC_AUTHORIZATION_FAILED" in errors:
        raise not_authorized("DESCRIBE", f"topic {topic_name}")
    said = "; ".join(f"partition {number_ranges(numbers)}: {error}" for error, numbers in sorted(errors.items()))
    if not logs:
        raise KgroupsError(f"no partition of {topic_name} can be read now ({said}): are its brokers up?")
    _require_readable(logs)
    return LiveLogs(topic, logs, [f"not read, their leaders did not answer: {said}"] if errors else [])


def times_appended(cluster: Cluster, logs: Sequence[LiveLog]) -> list[int]:
    """Times (ms) of what brokers appended to the logs since these were planned, from the last batch of each of the few
    partitions that got the most."""
    starts = {(log.topic.name, log.number): log for log in logs}
    found = cluster.list_offsets(starts, LATEST)
    ends = {place: answer.offset for place, answer in found.items() if answer.offset is not None}
    grown = sorted((log.high_watermark - ends[place], place) for place, log in starts.items() if place in ends)
    times: list[int] = []
    for growth, place in grown[:APPENDED_ASKED]:
        if growth < 0:
            headers = replace(starts[place], high_watermark=ends[place]).headers_at(ends[place] - 1)
            times += headers.max_timestamp[headers.last_offset >= starts[place].high_watermark].tolist()
    return times


def _topic(cluster: Cluster, name: str) -> TopicMetadata:
    topic = cluster.topics([name])[name]
    if topic.error == "TOPIC_AUTHORIZATION_FAILED":
        raise not_authorized("DESCRIBE", f"topic {name}")
    if topic.error == "UNKNOWN_TOPIC_OR_PARTITION" or (topic.error is None and not topic.partitions):
        raise NoOffsetsTopic(
            f"the cluster has no topic {name}: Kafka makes it when the first consumer group joins or commits"
        )
    if topic.error is not None:
        raise KgroupsError(f"the cluster says {topic.error} of topic {name}: try again")
    return topic


def _wanted(topic: TopicMetadata, partitions: Collection[int] | None) -> list[int]:
    there = sorted(topic.partitions)
    if partitions is None:
        return there
    if missing := sorted(set(partitions) - set(there)):
        raise UsageError(f"{topic.name} has no partition {missing[0]}; there are partitions {number_ranges(there)}")
    return sorted(set(partitions))


def _require_readable(logs: Sequence[LiveLog]) -> None:
    """Asks for one batch, so that a missing permission is told before anything is written."""
    log = next((log for log in logs if log.start < log.high_watermark), None)
    if log is not None:
        log.headers_at(log.start)


@dataclass(frozen=True)
class Fetcher:
    """What a task needs to fetch pieces. Printed it names no secret."""

    client: ClientProperties
    limits: FetchLimits

    @contextmanager
    def connected(self) -> Iterator[PieceOpener]:
        """One connection for all pieces that are opened meanwhile."""
        with Cluster(self.client, timeout_ms=self.limits.timeout_ms) as cluster:
            yield PieceOpener(cluster, self.limits)


@dataclass(frozen=True)
class PieceOpener:
    """Opens pieces over one connection."""

    cluster: Cluster
    limits: FetchLimits

    @contextmanager
    def __call__(self, piece: FetchPiece) -> Iterator[FetchedLog]:
        """What the brokers give of the piece, to be read once from front to back."""
        yield FetchedLog(
            self.cluster,
            piece.topic,
            piece.partition,
            piece.start_offset,
            piece.end_offset,
            self.limits,
            topic_id=piece.topic_id,
            keep_first=piece.keep_first,
        )
