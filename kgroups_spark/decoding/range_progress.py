"""The context in which a range of a log is read, and the progress of reading it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.counts import counted
from kgroups_spark.decoding.log_times import LogTimes
from kgroups_spark.decoding.odd_records import Large, Off
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import CHUNK_BYTES
from kgroups_spark.sources.segment_reading import Damage
from kgroups_spark.times import LAST_MS

if TYPE_CHECKING:
    from kgroups_spark.cluster.live_log import Fetcher, PieceOpener


@dataclass(frozen=True)
class ReadContext:
    """The context of reading, besides the range. `chunk_bytes`: bytes of a segment that are decoded at once; the rows
    do not depend on it."""

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
            yield replace(self, opener=opener)

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

    def count(self, record_type: NDArray[np.int16], value_version: NDArray[np.int16]) -> None:
        """Counts offset commits by type and version; version -1 is a tombstone."""
        pairs, counts = np.unique(record_type.astype(np.int64) * 256 + value_version + 1, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            version = pair % 256 - 1
            self.record_counts[(pair // 256, None if version < 0 else version)] += count


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
