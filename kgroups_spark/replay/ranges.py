"""Contiguous pieces of the offsets partitions' logs, the tasks that read them, and which log times count.

Coordinators stamp their records with their own clock, so a log's newest time shows when it was last written. A log time
counts if it lies between 1970 and a day after the clock of the audit's machine (a wrong time zone makes up to 14
hours). So one record stamped 2040 moves nothing that depends on the newest time: `as_of`, expiry decisions, findings,
delete.retention.ms. A wrong time that is not ahead of the clock cannot be distinguished from a log that paused.

A segment is never cut inside a file. A partition is cut only if it alone would keep one task busy while the others
wait, into at most twice as many ranges as there are slots. A live partition is never cut: one task reads it
(replay/range_decoder.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.records.segment import CHUNK_BYTES, read_segment
from kgroups_spark.replay.counts import Large, Off
from kgroups_spark.sources.partition_log import FETCHERS_PER_BROKER, FetchPiece, Piece, SegmentPiece
from kgroups_spark.sources.segment_log import Damage, SegmentReading, Span
from kgroups_spark.words import DAY_MS, LAST_MS, UNITS_MS, by_weight, counted, format_duration, format_utc, to_epoch_ms

if TYPE_CHECKING:
    from kgroups_spark.cluster.live_log import Fetcher, PieceOpener


# The greatest difference between the clocks of the audit and a broker.
CLOCKS_DIFFER_MS = DAY_MS
# The moment of an audit's decisions, ms, and notes on it.
Judged = tuple[int, Sequence[str]]
# Clocks that differ by no more than this count as equal.
CLOCKS_AGREE_MS = UNITS_MS["m"]
# offsets.retention.check.interval.ms: expiry is no more exact than this.
CHECK_MS = 10 * UNITS_MS["m"]


@dataclass
class LogTimes:
    """The newest log time of one range that counts, and the times ahead of the clock. All fields have types of JSON.

    `latest_ms`: later times do not count. `newest_ms` None: no time counts. `ahead_ms`, `ahead_offset`: the latest time
    that does not count, and its record's log offset; `ahead_records`: the number of records with such times.
    """

    latest_ms: int = LAST_MS
    newest_ms: int | None = None
    ahead_ms: int = -1
    ahead_offset: int = -1
    ahead_records: int = 0

    def add(self, records: RecordColumns) -> None:
        if not len(records):
            return
        time = records.timestamp
        if int(time.max()) > self.latest_ms:
            last = int(time.argmax())
            if int(time[last]) > self.ahead_ms:
                self.ahead_ms, self.ahead_offset = int(time[last]), int(records.offset[last])
            self.ahead_records += int((time > self.latest_ms).sum())
            time = time[time <= self.latest_ms]
        newest = int(time.max(initial=-1))
        if newest >= 0:
            self.newest_ms = max(newest, self.newest_ms or 0)


def newest_time(times: Iterable[LogTimes], known: Iterable[int] = ()) -> int | None:
    """The newest time that counts, ms, of the ranges and of earlier audits (`known`); None: there is none."""
    return max([*(each.newest_ms for each in times if each.newest_ms is not None), *known], default=None)


def ahead_notes(
    times: Sequence[tuple[int, LogTimes]], clock_ms: int, newest_ms: int | None, before_ms: int | None
) -> list[str]:
    """A note on the records that are ahead of `clock_ms`, the audit's clock: the latest of them, and their number.

    `times`: those of the ranges, with their offsets partitions. `newest_ms`: the newest time that counts, None: none
    does. `before_ms`: the one of the audit before, None: there was none.
    """
    ahead = [(each.ahead_ms, partition, each.ahead_offset) for partition, each in times if each.ahead_records]
    clock = f"more than a day ahead of this machine's clock ({format_utc(clock_ms)})"
    if newest_ms is None and (ahead or before_ms is not None):
        return [f"all log times are {clock}, so none counts: set the clock, or give --as-of"]
    if not ahead:
        return []
    ms, partition, offset = max(ahead)
    count = sum(each.ahead_records for _, each in times)
    others = f" (one of {count:,} such records)" if count > 1 else ""
    stamp = format_utc(ms) if ms <= LAST_MS else f"{ms} ms, which is after the year 9999"
    return [
        f"the record at offset {offset} of partition {partition}{others} is stamped {stamp}, {clock}: its time does "
        "not count"
    ]


def live_as_of(clock_ms: int, newest_ms: int | None, appended_ms: int | None, before_ms: int | None) -> Judged:
    """The moment of a live audit's decisions, ms, and notes on how the clocks were weighed. A broker's answers do not
    contain its time; its records do.

    `clock_ms`: this machine's clock when the log ends were requested. `newest_ms`: the newest time in the log that
    counts. `appended_ms`: the newest time of the records appended since then; None: there are none. `before_ms`: as_of
    of the previous audit.

    The result is never before `newest_ms`, and never before `before_ms` unless that is more than a day ahead of the
    clock. It is not after `appended_ms`, because that was stamped later. An idle cluster gives no time: then this
    machine's clock is believed, with a note if the log's newest time is more than ten minutes old.
    """
    newest = clock_ms if newest_ms is None else newest_ms
    as_of, note = max(clock_ms, newest), None
    if newest > clock_ms + CLOCKS_AGREE_MS:
        note = (
            f"this machine's clock is behind the brokers': the newest record is {format_duration(newest - clock_ms)} "
            "ahead of it, and as_of is that record's time"
        )
    elif appended_ms is None and clock_ms - newest > CHECK_MS:
        note = (
            "as_of is this machine's clock, which nothing confirms: the newest record is "
            f"{format_duration(clock_ms - newest)} old, and none came while this audit was reading"
        )
    elif appended_ms is not None and appended_ms < clock_ms:
        as_of = max(newest, appended_ms)
        if clock_ms - as_of > CLOCKS_AGREE_MS:
            note = (
                f"this machine's clock is {format_duration(clock_ms - as_of)} ahead of the brokers': a record that "
                f"came while this audit was reading is stamped {format_utc(appended_ms)}; as_of goes by the brokers"
            )
    notes = [] if note is None else [note]
    if before_ms is not None and as_of < before_ms <= clock_ms + CLOCKS_DIFFER_MS:
        notes.append(
            f"as_of stays at {format_utc(before_ms)}, that of the audit before: by the clocks it is {format_utc(as_of)}"
        )
        as_of = before_ms
    return as_of, notes


def believed_until(audit: AuditRow) -> int:
    """The epoch ms above which log times count nowhere after that audit."""
    newest = audit.newest_log_timestamp or audit.started_at
    return max(to_epoch_ms(newest), to_epoch_ms(audit.started_at) + CLOCKS_DIFFER_MS)


def known_times(audit: AuditRow | None, clock_ms: int) -> dict[int, int]:
    """The newest log time (epoch ms) of each partition, without those ahead of the clock, which make all else old."""
    partitions = (audit.partitions or ()) if audit else ()
    known = {p.offsets_partition: to_epoch_ms(p.newest_log_timestamp) for p in partitions if p.newest_log_timestamp}
    return {number: ms for number, ms in known.items() if ms <= clock_ms + CLOCKS_DIFFER_MS}


Offset = TypeVar("Offset", int, None)


class LogRange(NamedTuple):
    """Consecutive segments or offsets of one offsets partition, its `number`-th range, without records below
    `start_offset` and from `end_offset` on (None: to the log's end).

    `known_corrupt`: file name and position of corrupt batches that quarantine has already. `is_reread`: an earlier
    audit read the range, and only the replay needs it again. `ends_log`: its last segment is the log's last, which may
    have a half-written tail. `only_if_missing`: it is read only if offsets are missing in the new span of the
    partition.
    """

    offsets_partition: int
    number: int
    start_offset: int
    pieces: tuple[Piece, ...]
    known_corrupt: frozenset[tuple[str, int]] = frozenset()
    is_reread: bool = False
    ends_log: bool = True
    only_if_missing: bool = False
    end_offset: int | None = None

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)

    def without_deleted(self, log_start: int) -> LogRange:
        """The range of a live log that begins at `log_start` now; it may be empty."""
        pieces = tuple(p.without_deleted(log_start) if isinstance(p, FetchPiece) else p for p in self.pieces)
        return self._replace(start_offset=max(self.start_offset, log_start), pieces=pieces)


# Smaller ranges are not cut: every range keeps the last value of each of its slots.
SMALLEST_CUT_BYTES = 64 << 20


def cut(whole: Sequence[LogRange], slots: int) -> list[LogRange]:
    """The same ranges, with large ones cut between segments, so that `slots` tasks can share the work."""
    share = max(sum(log_range.size_bytes for log_range in whole) // max(slots, 1), SMALLEST_CUT_BYTES)
    return [piece for log_range in whole for piece in _cut_one(log_range, share, 2 * slots)]


def _cut_one(log_range: LogRange, share: int, most: int) -> list[LogRange]:
    if log_range.size_bytes <= share * 5 // 4 or log_range.is_reread:
        return [log_range]
    target = max(share // 2, log_range.size_bytes // most)
    ranges: list[list[Piece]] = [[]]
    for piece in log_range.pieces:
        if ranges[-1] and sum(p.size_bytes for p in ranges[-1]) >= target:
            ranges.append([])
        ranges[-1].append(piece)
    return [
        log_range._replace(
            number=number,
            pieces=tuple(pieces),
            start_offset=log_range.start_offset if number == 0 else _first_offset(pieces, log_range.start_offset),
            end_offset=log_range.end_offset if number == len(ranges) - 1 else _first_offset(ranges[number + 1], None),
            ends_log=number == len(ranges) - 1,
        )
        for number, pieces in enumerate(ranges)
    ]


def _first_offset(pieces: Sequence[Piece], unknown: Offset) -> int | Offset:
    """The base offset of the first piece's segment; `unknown` for spans of a live log, which have their own ends."""
    first = pieces[0]
    return first.file.base_offset if isinstance(first, SegmentPiece) and first.file is not None else unknown


# The heaviest task may be heavier by this factor if its partitions are neighbours.
WORTH_NEIGHBOURS = 1.2


def ranges_by_task(ranges: Sequence[LogRange], tasks: int) -> list[list[LogRange]]:
    """The ranges of each of at most `tasks` tasks, with about the same number of bytes; no task is empty.

    A task gets neighbouring offsets partitions if that costs little: its parts are then about few partitions, and a
    query for one partition opens few files. Otherwise only the weight decides.
    """
    if not ranges:
        return []
    tasks = max(1, min(tasks, len(ranges)))
    in_order = sorted(ranges, key=lambda log_range: (log_range.offsets_partition, log_range.number))
    balanced = by_weight(in_order, lambda log_range: log_range.size_bytes, tasks)
    neighbours = _neighbours(in_order, tasks, int(max(map(_weight, balanced)) * WORTH_NEIGHBOURS))
    return balanced if neighbours is None else neighbours


def ranges_by_fetcher(ranges: Sequence[LogRange]) -> list[list[LogRange]]:
    """The ranges of live partitions of each task, with about the same number of bytes. A task reads from one broker, a
    broker has at most FETCHERS_PER_BROKER tasks, and a task has all ranges of its partitions.

    So no broker has more fetchers than that, whatever the number of slots.
    """
    by_partition: dict[int, list[LogRange]] = {}
    for log_range in ranges:
        by_partition.setdefault(log_range.offsets_partition, []).append(log_range)
    by_leader: dict[int | None, list[LogRange]] = {}
    for of_one in by_partition.values():
        whole = of_one[0]._replace(pieces=tuple(piece for log_range in of_one for piece in log_range.pieces))
        by_leader.setdefault(leader(whole), []).append(whole)
    return [
        [log_range for whole in of_task for log_range in by_partition[whole.offsets_partition]]
        for of_one in by_leader.values()
        for of_task in ranges_by_task(of_one, FETCHERS_PER_BROKER)
    ]


def leader(log_range: LogRange) -> int | None:
    """The id of the partition's leader at planning; None: it had none, or the range is read from files."""
    piece = log_range.pieces[0]
    return piece.leader if isinstance(piece, FetchPiece) else None


def _neighbours(ranges: Sequence[LogRange], tasks: int, most: int) -> list[list[LogRange]] | None:
    """The ranges, in order, in tasks of nearly equal weight; None: a task would be heavier than `most`."""
    found: list[list[LogRange]] = []
    left, waiting = sum(map(_weight, ([r] for r in ranges))), list(ranges)
    for tasks_left in range(tasks, 0, -1):
        share, of_task = left / tasks_left, [waiting.pop(0)]
        # The task takes the next range if that brings it nearer to its share, and enough are left for the other tasks.
        while len(waiting) >= tasks_left and _weight(of_task) + _weight(waiting[:1]) / 2 <= share:
            of_task.append(waiting.pop(0))
        if tasks_left == 1:
            of_task += waiting
        left -= _weight(of_task)
        found.append(of_task)
    return found if all(_weight(of_task) <= most for of_task in found) else None


def _weight(ranges: Sequence[LogRange]) -> int:
    # One more than the bytes, so that empty ranges are spread, too.
    return sum(log_range.size_bytes + 1 for log_range in ranges)


class ReadContext(NamedTuple):
    """The context of reading. `chunk_bytes`: bytes decoded at once; the rows do not depend on it."""

    audit_id: int
    release_version: str
    open_file: Callable[[str], Any]  # a segment, as files.open_file opens one
    fetcher: Fetcher | None = None  # how to reach the cluster
    opener: PieceOpener | None = None  # connected to it
    chunk_bytes: int = CHUNK_BYTES
    latest_ms: int = LAST_MS  # log times after it are ahead of the audit's clock

    @contextmanager
    def connected(self) -> Iterator[ReadContext]:
        """The context with a connection to the cluster, if pieces must be fetched."""
        if self.fetcher is None:
            yield self
            return
        with self.fetcher.connected() as opener:
            yield self._replace(opener=opener)

    @property
    def live(self) -> PieceOpener:
        """The connection, for pieces that must be fetched."""
        assert self.opener is not None, "a piece to fetch, without a cluster"
        return self.opener


@dataclass
class RangeProgress:
    """The result of reading one range; offsets and counts as the ledger has them."""

    offsets_partition: int
    number: int
    start_offset: int
    next_offset: int
    records: int = 0
    size_bytes: int = 0
    last_batch_offset: int | None = None
    last_leader_epoch: int | None = None
    epoch_before: int | None = None  # of the batch before the last one; None: the range has one batch
    last_batch_crc: int | None = None
    log_times: LogTimes = field(default_factory=LogTimes)
    record_counts: Counter[tuple[int, int | None]] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    topics: list[tuple[str, str, int | None, str]] = field(default_factory=list)
    # Numbers of partitions of the offsets topic that fit the groups seen here.
    partition_counts: list[int] = field(default_factory=list)
    # For the findings.
    large_records: list[Large] = field(default_factory=list)
    times_off: list[Off] = field(default_factory=list)
    # Why no record of this partition counts, and whether its leader was lost during the read. None: they count.
    given_up: str | None = None
    leader_lost: bool = False

    @classmethod
    def of(cls, log_range: LogRange, **known: Any) -> RangeProgress:
        """The progress at the start of a range."""
        start = log_range.start_offset
        return cls(log_range.offsets_partition, log_range.number, start, start, **known)

    @property
    def is_reread(self) -> bool:
        """Whether an earlier audit had read the range (LogRange)."""
        return self.number < 0

    @property
    def missing(self) -> int:
        """The number of the range's offsets that no longer have a record."""
        return max(0, self.next_offset - self.start_offset - self.records)

    # Only for segments: the log's end when its files were listed again after a change; whether a batch was at or above
    # the high watermark; the corrupt batches.
    listed_to: int | None = None
    is_cut_short: bool = False
    unconfirmed: str | None = None  # position of the log's last batch, and why it was held back; None: it was not
    damage: list[Damage] = field(default_factory=list)

    def note(self, records: RecordColumns) -> None:
        """Adds a chunk: its records and the offset after its last batch."""
        batches = records.batches
        self.records += len(records)
        if len(batches):
            self.next_offset = max(self.next_offset, int(batches.last_offset[-1]) + 1)
            self.last_batch_offset = int(batches.base_offset[-1])
            self.epoch_before = int(batches.leader_epoch[-2]) if len(batches) > 1 else self.last_leader_epoch
            self.last_leader_epoch = int(batches.leader_epoch[-1])
            self.last_batch_crc = int(batches.crc[-1])
        self.log_times.add(records)


def newly_quarantined(progress: Iterable[RangeProgress]) -> Counter[str]:
    """The number of new rows of quarantine by reason. Records that are read again have theirs already."""
    return sum((each.quarantined for each in progress if not each.is_reread), Counter[str]())


def damaged_when_read_again(progress: Iterable[RangeProgress]) -> dict[int, int]:
    """By partition, the number of corrupt batches in the records read again."""
    counts = {p.offsets_partition: p.quarantined["corrupt_batch"] for p in progress if p.is_reread}
    return {number: count for number, count in counts.items() if count}


def not_corrected_notes(progress: Iterable[RangeProgress]) -> list[str]:
    """A note on each partition that was read again in vain: damage proves nothing about the records that it hides."""
    return [
        f"partition {number} was not corrected: the log that was read again is damaged in {counted(count, 'place')}"
        for number, count in sorted(damaged_when_read_again(progress).items())
    ]


# The path of the file (None: fetched), and a part of its content.
Item = tuple[str | None, RecordColumns | CorruptBatch]


class RangeReader:
    """Reads one range of the log `topic`; `progress` is complete when `items` has ended."""

    def __init__(self, log_range: LogRange, context: ReadContext, topic: str, progress: RangeProgress) -> None:
        self.topic = topic
        self.progress = progress
        self._range = log_range
        self._context = context
        self._damaged_to = log_range.start_offset
        self._places_of_damage: dict[int, int] = {}  # taken log offsets, each with the next one that may be free

    def items(self) -> Iterator[Item]:
        """Chunks in log order, and the damage between them. The caller gives each chunk to `RangeProgress.note`."""
        for piece in self._range.pieces:
            if isinstance(piece, FetchPiece):
                yield from self._fetched(piece)
        log, progress = self._range, self.progress
        span = Span(
            self.topic,
            log.offsets_partition,
            [piece for piece in log.pieces if isinstance(piece, SegmentPiece)],
            log.start_offset,
            log.end_offset,
            log.ends_log,
            log.known_corrupt,
            end_moves=log.ends_log and not log.is_reread,
        )
        reading = SegmentReading(span, self._context.open_file, chunk_bytes=self._context.chunk_bytes)
        yield from reading.items()
        progress.size_bytes += reading.size_bytes
        progress.listed_to, progress.damage = reading.listed_to, reading.damage
        progress.is_cut_short, progress.unconfirmed = reading.is_cut_short, reading.unconfirmed

    def _fetched(self, piece: FetchPiece) -> Iterator[Item]:
        with self._context.live(piece) as file:
            reader = read_segment(file, from_offset=self._range.start_offset, chunk_bytes=self._context.chunk_bytes)
            for item in reader:
                yield None, item
            self.progress.size_bytes += reader.position
            if left := file.given_bytes - reader.position:
                detail = f"{left} bytes at the end of what the broker has are no whole batch"
                yield None, CorruptBatch(reader.position, left, None, None, 1, detail, b"")
        # A broker returns whole batches up to its high watermark. If there are none at the end, because the cleaner
        # took the last ones or because they are damaged, there is nothing to wait for.
        self.progress.next_offset = max(self.progress.next_offset, piece.end_offset)

    def place_of(self, batch: CorruptBatch, path: str | None) -> int | None:
        """The log offset under which a corrupt batch is quarantined; None: quarantine has it already."""
        progress = self.progress
        log_offset = max(progress.next_offset, self._damaged_to) if batch.base_offset is None else batch.base_offset
        # The first offset from there on without damage so far, because keys of quarantine are unique: damage at an
        # unknown offset takes the offset of the batch after it.
        places, free = self._places_of_damage, log_offset
        while free in places:
            free = places[free]
        places[log_offset] = places[free] = free + 1
        log_offset = free
        # Only sound batches move next_offset: a broker that recovers truncates a damaged tail and writes there again.
        self._damaged_to = max(self._damaged_to, log_offset + 1 if batch.last_offset is None else batch.last_offset + 1)
        if path is not None and (path.rsplit("/", 1)[-1], batch.position) in self._range.known_corrupt:
            return None
        progress.records += batch.record_count
        progress.quarantined["corrupt_batch"] += 1
        return log_offset
