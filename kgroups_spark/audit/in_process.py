"""The state at the end of a log, in one process: both stages of an audit without Spark, history and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from kgroups_spark.audit.cycle_collector import no_cycle_collector
from kgroups_spark.audit.decode_range import REPLAY, RangeDecoder, ReadContext
from kgroups_spark.audit.ranges import LogRange
from kgroups_spark.audit.replay import NoTopics
from kgroups_spark.audit.row_replay import RowReplay, rows_in_log_order
from kgroups_spark.coordinator.releases import NEWEST, release
from kgroups_spark.coordinator.replay_failure import ReplayFailure
from kgroups_spark.coordinator.shard import Shard
from kgroups_spark.messages.group_records import GroupRecordDecoder
from kgroups_spark.sources.files import OpenFile, open_file
from kgroups_spark.sources.segment_log import SegmentLog
from kgroups_spark.sources.segments import PartitionCopy


def whole_log(copy: PartitionCopy) -> LogRange:
    """All of an offsets partition's log as one range."""
    return LogRange(copy.partition, 0, 0, SegmentLog(copy).new_pieces(0, ()), begins_log=True)


class LogReplay:
    """Replays whole logs of offsets partitions. `records`: how many have been read."""

    def __init__(
        self, release_version: str = NEWEST, *, groups: bool = True, open_file: Callable[[str], OpenFile] = open_file
    ) -> None:
        """`groups=False`: records of types 2 to 23 are decoded, but only offsets and transactions are replayed, which
        none of them touches."""
        self._release = release(release_version)
        self._context = ReadContext(0, release_version, open_file, history=False, replay_groups=groups)
        self._decoder = GroupRecordDecoder()
        self.records = 0

    def shards(self, logs: Iterable[LogRange]) -> Iterator[Shard]:
        """The shard of each log, at the log's end. Records that a real coordinator's load would fail at change what
        they change there."""
        for log in logs:
            shard = Shard(self._release, log.offsets_partition)
            if not self._context.replay_groups:
                shard.topics = NoTopics()
            replay = RowReplay(shard, self._decoder).replay
            with no_cycle_collector():
                for row in rows_in_log_order(self._rows(log)):
                    try:
                        replay(row)
                    except ReplayFailure:
                        continue
            yield shard

    def _rows(self, log: LogRange) -> Iterator[pa.RecordBatch]:
        decoder = RangeDecoder(log, self._context, self._decoder)
        for name, rows in decoder.outputs():
            if name == REPLAY:
                yield rows
        self.records += decoder.progress.records
