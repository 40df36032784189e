"""A live partition's log: fixed at planning, fetched later and elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kgroups_spark.cluster.client_properties import ClientProperties
from kgroups_spark.cluster.cluster import EARLIEST, LATEST, Cluster
from kgroups_spark.cluster.fetch import FetchedLog, FetchLimits, Pace
from kgroups_spark.cluster.requests import ClusterUnreachable, Throttled, TopicMetadata, not_authorized, said
from kgroups_spark.errors import KgroupsError, NotReadable, UsageError
from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.segment import scan_batches
from kgroups_spark.sources.partition_log import FetchPiece, LeaderLost, LogStartMoved, PartitionLog
from kgroups_spark.words import named_partitions

# Assumed size of an offset before any is seen: a commit with its share of a batch, compaction left aside.
BYTES_PER_OFFSET = 100.0
# The number of partitions whose newest batch is requested.
APPENDED_ASKED = 3
# Less than most batches have: the request size if one batch is enough.
ONE_BATCH = 4096
# The number of offsets searched first if a log may have been cut back.
FIRST_LOOK_BACK = 4096
# The time to wait for a partition's leader after the loss of another one.
AFTER_A_LOSS_MS = 5_000


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
    pace: Pace = field(default_factory=Pace, compare=False, repr=False)
    headers: dict[int, BatchColumns] = field(default_factory=dict, compare=False, repr=False)  # fetched, by offset

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
    def log_start_offset(self) -> int:
        return self.start

    @property
    def end_offset(self) -> int:
        return self.high_watermark

    def leader_epoch_after(self, offset: int) -> int:
        return self.leader_epoch

    def headers_at(self, base_offset: int) -> BatchColumns:
        """Fetches the batch, once. A broker returns at least one whole batch, however small the request."""
        if not self.start <= base_offset < self.high_watermark:
            return BatchColumns.empty()
        if base_offset not in self.headers:
            try:
                one = self._fetched(base_offset, base_offset + 1, keep_first=True, response_bytes=ONE_BATCH)
                self.headers[base_offset] = scan_batches(one)
            except LogStartMoved:  # after planning
                return BatchColumns.empty()
            except LeaderLost:
                # It probably led other partitions, too.
                self.cluster.timeout_ms = min(self.cluster.timeout_ms, AFTER_A_LOSS_MS)
                raise
        return self.headers[base_offset]

    def headers_back_from(self, end: int) -> Iterator[BatchColumns]:
        """Fetches the batches in growing lots."""
        end, width = min(end, self.high_watermark), FIRST_LOOK_BACK
        while end > self.start:
            start = max(self.start, end - width)
            yield scan_batches(self._fetched(start, end, keep_first=start == self.start))
            end, width = start, width * 4

    def new_pieces(self, start_offset: int, known_corrupt: Collection[tuple[str, int]]) -> tuple[FetchPiece, ...]:
        return self.pieces(start_offset, self.high_watermark)

    def pieces_before(self, start_offset: int) -> tuple[FetchPiece, ...]:
        return self.pieces(self.start, start_offset)

    def pieces(self, start: int, end: int) -> tuple[FetchPiece, ...]:
        """All of start .. end - 1 as one piece; none, if it is empty."""
        return (self._piece(start, end, keep_first=True),) if start < end else ()

    def _piece(self, start: int, end: int, *, keep_first: bool) -> FetchPiece:
        leader = self.topic.partitions[self.number].leader
        return FetchPiece(self.topic.name, self.number, self.topic_id, start, end, keep_first, leader, BYTES_PER_OFFSET)

    def _fetched(self, start: int, end: int, *, keep_first: bool, response_bytes: int | None = None) -> FetchedLog:
        limits = FetchLimits(timeout_ms=self.cluster.timeout_ms)
        piece = self._piece(start, end, keep_first=keep_first)
        return FetchedLog(self.cluster, piece, limits, pace=self.pace, response_bytes=response_bytes)


class LiveLogs(NamedTuple):
    """The logs of a topic's partitions, by number, the partitions whose leaders did not answer, and notes on these."""

    topic: TopicMetadata
    logs: list[LiveLog]
    notes: list[str]
    without_answer: Sequence[int] = ()


def live_logs(
    cluster: Cluster,
    topic_name: str,
    partitions: Collection[int] | None = None,
    *,
    max_bytes_per_second: int | None = None,
) -> LiveLogs:
    """The topic's logs (`partitions`: only these), with end offsets fixed now, at the high watermarks; fetches of all
    share `max_bytes_per_second`. One without a leader is left out, with a note. Raises NoOffsetsTopic, UsageError for a
    partition that does not exist, KgroupsError if none can be read."""
    topic = _topic(cluster, topic_name)
    wanted = _wanted(topic, partitions)
    places = [(topic_name, number) for number in wanted]
    starts = cluster.list_offsets(places, EARLIEST)
    # Do not wait twice for a silent leader.
    ends = cluster.list_offsets([place for place in places if starts[place].offset is not None], LATEST)
    # The first answer may have been an old one: then the leaders have been looked up again.
    topic = _topic(cluster, topic_name)
    pace, logs = Pace(max_bytes_per_second), list[LiveLog]()
    errors: dict[str, list[int]] = {}
    for place in places:
        start, end = starts[place], ends.get(place, starts[place])
        if start.offset is None or end.offset is None or place[1] not in topic.partitions:
            why = end.error or "no answer"
            errors.setdefault(f"{why}, {end.detail}" if end.detail else why, []).append(place[1])
            continue
        epoch = topic.partitions[place[1]].leader_epoch
        logs.append(LiveLog(cluster, topic, place[1], start.offset, end.offset, epoch, pace))
    if "TOPIC_AUTHORIZATION_FAILED" in errors:
        raise not_authorized("DESCRIBE", f"topic {topic_name}")
    failed = "; ".join(f"{named_partitions(numbers)}: {error}" for error, numbers in sorted(errors.items()))
    if not logs:
        raise KgroupsError(f"no partition of {topic_name} can be read now ({failed}): are its brokers up?")
    _require_readable(logs)
    notes = [f"not read, their leaders did not answer: {failed}"] if errors else []
    return LiveLogs(topic, logs, notes, sorted(set(wanted) - {log.number for log in logs}))


def times_appended(cluster: Cluster, logs: Sequence[LiveLog]) -> list[int]:
    """Times (epoch ms) of the last batches of the few partitions with the most offsets appended since planning."""
    starts = {(log.topic.name, log.number): log for log in logs}
    found = cluster.list_offsets(starts, LATEST, timeout_ms=AFTER_A_LOSS_MS)
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
            f"the cluster has no topic {name}: Kafka creates it when the first consumer group joins or commits"
        )
    if topic.error is not None:
        raise KgroupsError(f"the cluster reports {topic.error} for topic {name}: try again")
    return topic


def _wanted(topic: TopicMetadata, partitions: Collection[int] | None) -> list[int]:
    there = sorted(topic.partitions)
    if partitions is None:
        return there
    if missing := sorted(set(partitions) - set(there)):
        raise UsageError(f"{topic.name} has no partition {missing[0]}; found {named_partitions(there)}")
    return sorted(set(partitions))


def _require_readable(logs: Sequence[LiveLog]) -> None:
    """Fetches one batch, so that a missing permission shows before anything is written."""
    log = next((log for log in logs if log.start < log.high_watermark), None)
    if log is not None:
        with suppress(NotReadable):  # the others may be
            log.headers_at(log.start)


class Fetcher(NamedTuple):
    """The settings with which a task fetches pieces. The text of this object shows no secret."""

    client: ClientProperties
    limits: FetchLimits

    @contextmanager
    def connected(self) -> Iterator[PieceOpener]:
        """One connection for all pieces that are opened meanwhile."""
        with Cluster(self.client, timeout_ms=self.limits.timeout_ms) as cluster:
            yield PieceOpener(cluster, self.limits)


@dataclass
class PieceOpener:
    """Opens pieces over one connection, one after the other at one pace."""

    cluster: Cluster
    limits: FetchLimits

    def __post_init__(self) -> None:
        self._pace = self.limits.pace()

    def end_of(self, piece: FetchPiece) -> int:
        """The high watermark of the piece's partition now. Raises LeaderLost."""
        place = (piece.topic, piece.partition)
        try:
            answer = self.cluster.list_offsets([place], LATEST, timeout_ms=self.limits.timeout_ms)[place]
        except (ClusterUnreachable, Throttled) as err:
            raise LeaderLost(str(err)) from err
        if answer.offset is None:
            raise LeaderLost(f"{piece.topic}-{piece.partition} has no leader to report its end: {said(answer)}")
        return answer.offset

    def lose_patience(self) -> None:
        """Waits for leaders only AFTER_A_LOSS_MS from now on: the lost one probably led other partitions, too."""
        self.limits = self.limits._replace(timeout_ms=min(self.limits.timeout_ms, AFTER_A_LOSS_MS))
        self.cluster.timeout_ms = min(self.cluster.timeout_ms, AFTER_A_LOSS_MS)

    @contextmanager
    def __call__(self, piece: FetchPiece) -> Iterator[FetchedLog]:
        """The brokers' bytes of the piece, to be read once from front to back."""
        yield FetchedLog(self.cluster, piece, self.limits, pace=self._pace)
