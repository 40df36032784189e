"""Stage 1 as Spark runs it: tasks that write Parquet parts, or hand their rows to Spark's writer.

Both call the same pure function (decoding/range_decoder.py). A task gets its ranges by its partition id: the hands are
small and travel with the function.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from kgroups_spark.decoding.hand_reader import readings
from kgroups_spark.decoding.log_times import log_times_from_json
from kgroups_spark.decoding.range_decoder import RangeDecoder, RangeProgress, ReadContext
from kgroups_spark.decoding.ranges import LogRange
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.parts_writer import Part
from kgroups_spark.replay.history_parts import HistoryPart
from kgroups_spark.sources.partition_log import LeaderLost
from kgroups_spark.storage.s3 import with_storage
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.tasks.cycle_collector import no_cycle_collector
from kgroups_spark.tasks.outputs import (
    MANIFEST,
    Mark,
    PartCollector,
    manifest_batch,
)
from kgroups_spark.tasks.packed_rows import PACKED_BY_SHARD, packed, packed_of_shard, packed_outputs, unpacked

Hand = Sequence[LogRange]
# Everything that a replay writes.
CURRENT = (
    "groups",
    "group_members",
    "committed_offsets",
    "pending_offsets",
    "open_transactions",
    "offset_expiry",
    "group_expiry",
)
REPLAY_TABLES = (
    "group_versions",
    "group_member_versions",
    "group_events",
    "group_traffic",
    "transaction_markers",
    "quarantine",
    *CURRENT,
    "previous_offset_expiry",
    "coordinator_state",
    "state_corrections",
)
# What travels with them: the progress of each range as JSON.
PROGRESS = "progress"
PROGRESS_TEXT = StructType([StructField(PROGRESS, StringType(), False)])


@dataclass
class ReadResult:
    """The result of stage 1, and the partitions that it gave up (see their progress).

    `parts`: rows of tables, for the driver to commit. `history`: these and what else the replay needs.
    """

    progress: list[RangeProgress] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    history: list[HistoryPart] = field(default_factory=list)

    def add(self, later: ReadResult) -> None:
        """Takes in what was read behind it."""
        self.progress += later.progress
        self.parts += later.parts
        self.history += later.history


def read_by_parts(
    spark: SparkSession, hands: Sequence[Hand], context: ReadContext, lake_uri: str, work_uri: str
) -> ReadResult:
    """Stage 1 in one action: tasks write history as parts of the lake, and below `work_uri` as parts that nobody
    commits what the replay completes (PASSED_ON) and what is read again."""
    hands = [list(hand) for hand in hands]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            with no_cycle_collector(), context.connected() as reading:
                lines = list(_read_hand(hands[number], reading, lake_uri, work_uri))
            yield manifest_batch(lines)

    lines = _one_per_hand(spark, len(hands)).mapInArrow(with_storage(task), MANIFEST).collect() if hands else []
    result = ReadResult()
    for line in lines:
        payload = json.loads(line.payload)
        if line.kind == "progress":
            result.progress.append(progress_from_json(payload))
        else:
            part = Part(**payload)
            if line.kind == "part":
                result.parts.append(part)
            uri = f"{_folders(lake_uri, work_uri)[line.kind]}/{part.table}/{part.path}"
            result.history.append(HistoryPart(part.table, uri, line.kind == "again"))
    return result


# Rows that only the replay completes: markers with what they ended, and counts that several ranges have of one hour.
PASSED_ON = ("transaction_markers", "group_traffic")
AGAIN = "again"


def work_folders(folder: str) -> list[str]:
    """Folders that the tasks of read_by_parts write to, below `work_uri`."""
    names = [*PASSED_ON, *(f"{AGAIN}/{name}" for name in LOG_TABLES)]
    return [f"{folder}/{name}" for name in names]


def _folders(lake_uri: str, work_uri: str) -> dict[str, str]:
    """Where the parts of each kind are: for the driver to commit, for the replay to complete, and read again."""
    return {"part": lake_uri, "passed_on": work_uri, "again": f"{work_uri}/{AGAIN}"}


@dataclass
class _TaskParts:
    """The parts of one task: rows of the lake, rows that the replay completes, and rows that were read again."""

    collectors: dict[str, PartCollector]

    @classmethod
    def of(cls, lake_uri: str, work_uri: str, audit_id: int) -> _TaskParts:
        return cls({kind: PartCollector(uri, audit_id) for kind, uri in _folders(lake_uri, work_uri).items()})

    def add(self, table: str, rows: pa.Table | pa.RecordBatch, *, is_again: bool) -> Iterator[tuple[str, Any]]:
        """Takes rows in; gives the lines of parts that are full."""
        kind = "again" if is_again else "passed_on" if table in PASSED_ON else "part"
        yield from ((kind, asdict(part)) for part in self.collectors[kind].add(table, rows))

    def mark(self) -> dict[str, Mark]:
        """The rows that are waiting now, for `back_to`."""
        return {kind: collector.mark() for kind, collector in self.collectors.items()}

    def back_to(self, marks: dict[str, Mark]) -> None:
        """Drops all rows that came after the mark."""
        for kind, mark in marks.items():
            self.collectors[kind].back_to(mark)

    def rest(self) -> Iterator[tuple[str, Any]]:
        """The lines of what is left."""
        for kind, collector in self.collectors.items():
            yield from ((kind, asdict(part)) for part in collector.rest())


def _read_hand(hand: Hand, context: ReadContext, lake_uri: str, work_uri: str) -> Iterator[tuple[str, Any]]:
    parts = _TaskParts.of(lake_uri, work_uri, context.audit_id)
    for reading in readings(hand, context):
        mark = parts.mark()
        try:
            lines = [line for decoder in reading.decoders() for line in _read_range(decoder, parts)]
        except LeaderLost as err:
            # Parts that have left with rows of this partition hold what is in the mark, too: nobody will name them.
            parts.back_to(mark)
            context.lose_patience()
            lines = [("progress", progress_to_json(reading.given_up(str(err))))]
        yield from lines
    yield from parts.rest()


def _read_range(reading: RangeDecoder, parts: _TaskParts) -> Iterator[tuple[str, Any]]:
    for table, rows in reading.outputs():
        yield from parts.add(table, rows, is_again=reading.progress.number < 0)
    yield "progress", progress_to_json(reading.progress)


def read_frame(spark: SparkSession, hands: Sequence[Hand], context: ReadContext) -> DataFrame:
    """Stage 1 for Spark's writer, as PACKED_BY_SHARD: rows of the history tables, what the replay completes of them
    (PASSED_ON), rows of ranges that are read again, and the progress of each range."""
    hands = [list(hand) for hand in hands]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for progress, name, rows in _outputs(hands, _numbers(batches), context):
            outputs = [packed(name, _text_of(rows))] if name == PROGRESS else packed_outputs([(name, rows)])
            for each in outputs:
                yield packed_of_shard(progress.offsets_partition, each, is_again=progress.number < 0)

    return _one_per_hand(spark, len(hands)).mapInArrow(with_storage(task), PACKED_BY_SHARD)


def _text_of(progress: RangeProgress) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([json.dumps(progress_to_json(progress))])], names=PROGRESS_TEXT.names)


def progress_in(read: DataFrame) -> list[RangeProgress]:
    """The progress that the tasks of `read_frame` report; also of partitions that they gave up."""
    texts = unpacked(read, PROGRESS, PROGRESS_TEXT).collect()
    return [progress_from_json(json.loads(row.progress)) for row in texts]


def require_read_once(told: Sequence[str], once_more: Sequence[str]) -> None:
    """Raises KgroupsError if ranges were read again after a lost executor: the log has grown or was compacted in
    between, so that not all tables were written from the same records."""
    if sorted(told) != sorted(once_more):
        raise KgroupsError(
            "a task had to run twice, and the log had changed in between. Nothing of this audit counts; run it again"
        )


def _outputs(
    hands: Sequence[Hand], numbers: Iterable[int], context: ReadContext
) -> Iterator[tuple[RangeProgress, str, Any]]:
    for number in numbers:
        with context.connected() as connected:
            for reading in readings(hands[number], connected):
                try:
                    for decoder in reading.decoders():
                        for name, rows in decoder.outputs():
                            yield decoder.progress, name, rows
                        yield decoder.progress, PROGRESS, decoder.progress
                except LeaderLost as err:
                    connected.lose_patience()
                    given_up = reading.given_up(str(err))
                    yield given_up, PROGRESS, given_up


def _one_per_hand(spark: SparkSession, hands: int) -> DataFrame:
    return spark.range(0, hands, 1, numPartitions=max(hands, 1))


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def progress_to_json(progress: RangeProgress) -> dict[str, Any]:
    """The progress as something JSON can hold."""
    counts = [(record_type, version, count) for (record_type, version), count in progress.record_counts.items()]
    return {**vars(progress), "record_counts": counts, "log_times": vars(progress.log_times)}


def progress_from_json(payload: dict[str, Any]) -> RangeProgress:
    """The inverse of progress_to_json, after JSON."""
    counts = Counter({(record_type, version): count for record_type, version, count in payload["record_counts"]})
    return RangeProgress(
        **{
            **payload,
            "record_counts": counts,
            "log_times": log_times_from_json(payload["log_times"]),
            "quarantined": Counter(payload["quarantined"]),
            "rows": Counter(payload["rows"]),
            "topics": [tuple(row) for row in payload["topics"]],
            "damage": [tuple(place) for place in payload["damage"]],
        }
    )
