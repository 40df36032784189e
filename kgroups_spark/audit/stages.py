"""The two stages as Spark runs them: in tasks that write Parquet parts, or as DataFrames that Spark's writer takes.

Both call the same pure functions (decode_range.py, replay.py). A task gets its work by its partition id: the hands are
small and travel with the function, so that nothing needs to be shuffled to place a shard.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kgroups_spark.audit.cycle_collector import no_cycle_collector
from kgroups_spark.audit.decode_range import CLIMBS, REPLAY, RangeDecoder, RangeProgress, ReadContext
from kgroups_spark.audit.log_times import log_times_from_json
from kgroups_spark.audit.outputs import (
    MANIFEST,
    PartCollector,
    manifest_batch,
    part_line,
)
from kgroups_spark.audit.packed_rows import PACKED, packed, packed_outputs, unpacked
from kgroups_spark.audit.ranges import LogRange
from kgroups_spark.audit.read_hand import readings
from kgroups_spark.audit.replay import ReplayContext, replay_partitions
from kgroups_spark.audit.replay_rows import (
    FILE,
    MARKER,
    REPLAY_ROWS,
    REPLAY_ROWS_SPARK,
    STATE,
    TRAFFIC,
    UNREADABLE,
    replay_batch,
)
from kgroups_spark.sources.partition_log import LeaderLost
from kgroups_spark.sources.s3 import with_storage
from kgroups_spark.tables.parts_writer import Part, lake_file_system
from kgroups_spark.tables.schemas import LOG_TABLES

Hand = Sequence[LogRange]
# Where a range's replay rows are, and its climbs (None: there are none).
ReplayFile = tuple[str, str | None]
# Everything that a replay writes.
REPLAY_TABLES = (
    "group_versions",
    "group_member_versions",
    "group_events",
    "group_traffic",
    "transaction_markers",
    "quarantine",
    "groups",
    "group_members",
    "committed_offsets",
    "pending_offsets",
    "open_transactions",
    "coordinator_state",
    "state_corrections",
)
# What travels with them: the progress of each range as JSON.
PROGRESS = "progress"
PROGRESS_TEXT = StructType([StructField(PROGRESS, StringType(), False)])


@dataclass
class ReadResult:
    """What stage 1 has read, and the partitions that it gave up (see their progress). `parts` and `replay_files` (by
    offsets partition, in log order) only where tasks wrote them."""

    progress: list[RangeProgress] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    replay_files: dict[int, list[ReplayFile]] = field(default_factory=dict)

    def add(self, later: ReadResult) -> None:
        """Takes in what was read behind it."""
        self.progress += later.progress
        self.parts += later.parts
        for offsets_partition, files in later.replay_files.items():
            self.replay_files.setdefault(offsets_partition, []).extend(files)


def open_uri(path: str) -> BinaryIO:
    """A file on any file system that pyarrow opens, for reading from the start or anywhere."""
    file_system, local = lake_file_system(path)
    return file_system.open_input_file(local)  # type: ignore[no-any-return]


def read_by_parts(
    spark: SparkSession, hands: Sequence[Hand], context: ReadContext, lake_uri: str, work_uri: str
) -> ReadResult:
    """Stage 1 in one action: tasks write history as parts and replay rows as files below `work_uri`."""
    hands = [list(hand) for hand in hands]
    context = replace(context, climbs=True)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            with no_cycle_collector(), context.connected() as reading:
                lines = list(_read_hand(hands[number], reading, lake_uri, work_uri))
            yield manifest_batch(lines)

    lines = _one_per_hand(spark, len(hands)).mapInArrow(with_storage(task), MANIFEST).collect() if hands else []
    result = ReadResult()
    files: list[tuple[int, int, str, str | None]] = []
    for line in lines:
        payload = json.loads(line.payload)
        if line.kind == "part":
            result.parts.append(Part(**payload))
        elif line.kind == "progress":
            result.progress.append(progress_from_json(payload))
        else:
            files.append(tuple(payload))
    for offsets_partition, _, path, climbs in sorted(files):
        result.replay_files.setdefault(offsets_partition, []).append((path, climbs))
    return result


def _read_hand(hand: Hand, context: ReadContext, lake_uri: str, work_uri: str) -> Iterator[tuple[str, Any]]:
    collector = PartCollector(lake_uri, context.audit_id)
    for reading in readings(hand, context):
        mark = collector.mark()
        try:
            lines = [line for decoder in reading.decoders() for line in _read_range(decoder, collector, work_uri)]
        except LeaderLost as err:
            # Parts that have left with rows of this partition hold what is in the mark, too: nobody will name them.
            collector.back_to(mark)
            context.lose_patience()
            lines = [("progress", progress_to_json(reading.given_up(str(err))))]
        yield from lines
    yield from map(part_line, collector.rest())


def _read_range(reading: RangeDecoder, collector: PartCollector, work_uri: str) -> Iterator[tuple[str, Any]]:
    partition, number = reading.progress.offsets_partition, reading.progress.number
    path = posixpath.join(work_uri, f"range-{partition}-{number}-{uuid.uuid4()}.arrow")
    file_system, local = lake_file_system(path)
    with ExitStack() as stack:
        sink = stack.enter_context(file_system.open_output_stream(local))
        writer, climbs = stack.enter_context(_replay_writer(sink)), None
        for table, rows in reading.outputs():
            if table == REPLAY:
                writer.write_batch(_with_partition(rows, partition))
            elif table == CLIMBS:
                if climbs is None:
                    sink = stack.enter_context(file_system.open_output_stream(f"{local}.climbs"))
                    climbs = stack.enter_context(pa.ipc.new_stream(sink, rows.schema, options=_LZ4))
                climbs.write_batch(rows)
            else:
                yield from map(part_line, collector.add(table, rows))
    yield "replay", (partition, number, path, None if climbs is None else f"{path}.climbs")
    yield "progress", progress_to_json(reading.progress)


_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


def _replay_writer(sink: pa.NativeFile) -> pa.RecordBatchFileWriter:
    return pa.ipc.new_file(sink, REPLAY_ROWS, options=_LZ4)


def _with_partition(rows: pa.RecordBatch, offsets_partition: int) -> pa.RecordBatch:
    column = pa.array([offsets_partition], pa.int32()).take(pa.nulls(rows.num_rows, pa.int32()).fill_null(0))
    return rows.set_column(0, REPLAY_ROWS.field(0), column)


def replay_by_parts(
    spark: SparkSession,
    hands: Sequence[Sequence[int]],
    replay_files: dict[int, list[ReplayFile]],
    state_files: Sequence[str],
    state_audit_id: int | None,
    context: ReplayContext,
    lake_uri: str,
) -> list[Part]:
    """Stage 2 in one action: each hand is offsets partitions, which a task replays one by one from files."""
    hands = [list(hand) for hand in hands]
    if not hands:
        return []

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in _numbers(batches):
            collector = PartCollector(lake_uri, context.audit_id)
            rows = _rows_from_files(hands[number], replay_files, state_files, state_audit_id)
            lines = [
                part_line(part)
                for name, batch in replay_partitions(rows, context)
                for part in collector.add(name, batch)
            ]
            yield manifest_batch(lines + [part_line(part) for part in collector.rest()])

    lines = _one_per_hand(spark, len(hands)).mapInArrow(with_storage(task), MANIFEST).collect()
    return [Part(**json.loads(line.payload)) for line in lines]


def _rows_from_files(
    hand: Sequence[int],
    replay_files: dict[int, list[ReplayFile]],
    state_files: Sequence[str],
    state_audit_id: int | None,
) -> Iterator[pa.RecordBatch]:
    for offsets_partition in sorted(hand):
        mine = [("audit_id", "=", state_audit_id), ("offsets_partition", "=", offsets_partition)]
        for path in () if state_audit_id is None else state_files:
            file_system, local = lake_file_system(path)
            saved = pq.read_table(local, filesystem=file_system, filters=mine)
            if saved.num_rows:
                yield _state_rows(offsets_partition, saved)
        files = replay_files.get(offsets_partition, [])
        yield replay_batch(
            len(files),
            {
                "offsets_partition": pa.array([offsets_partition] * len(files), pa.int32()),
                "kind": pa.array([FILE] * len(files), pa.int8()),
                "text": pa.array([path for path, _ in files], pa.string()),
                "outcome": pa.array([climbs for _, climbs in files], pa.string()),
            },
        )


def _state_rows(offsets_partition: int, saved: pa.Table) -> pa.RecordBatch:
    saved = saved.combine_chunks()
    return replay_batch(
        saved.num_rows,
        {
            "offsets_partition": pa.array([offsets_partition] * saved.num_rows, pa.int32()),
            "kind": pa.array([STATE] * saved.num_rows, pa.int8()),
            "outcome": saved.column("entry_type").chunk(0),
            "group_id": saved.column("group_id").chunk(0),
            "text": saved.column("payload").chunk(0),
        },
    )


def read_frame(spark: SparkSession, hands: Sequence[Hand], context: ReadContext) -> DataFrame:
    """Stage 1 for Spark's writer, packed (packed_rows.py): the rows of the history tables, the replay rows that no
    history table gets (`replay`), and what was read (`progress`)."""
    hands = [list(hand) for hand in hands]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for decoder, name, rows in _outputs(hands, _numbers(batches), context):
            if name in LOG_TABLES:
                yield from packed_outputs([(name, rows)])
            elif name == REPLAY and decoder is not None:
                # Nothing of what is read again is added to history: the replay finds it here alone.
                kept = rows if decoder.progress.number < 0 else rows.filter(_only_here(rows))
                if kept.num_rows:
                    yield packed(REPLAY, kept)
            elif name == PROGRESS:
                text = json.dumps(progress_to_json(rows))
                yield packed(PROGRESS, pa.RecordBatch.from_arrays([pa.array([text])], names=PROGRESS_TEXT.names))

    return _one_per_hand(spark, len(hands)).mapInArrow(with_storage(task), PACKED)


def progress_in(read: DataFrame) -> list[RangeProgress]:
    """What the tasks of `read_frame` say that they read; also of partitions that they gave up."""
    texts = unpacked(read, PROGRESS, PROGRESS_TEXT).collect()
    return [progress_from_json(json.loads(row.progress)) for row in texts]


def replay_rows_in(read: DataFrame) -> DataFrame:
    """The replay rows among `read_frame`."""
    return unpacked(read, REPLAY, REPLAY_ROWS_SPARK)


def _only_here(rows: pa.RecordBatch) -> pa.Array:
    """Replay rows that cannot be made from the history tables: counts, markers that the replay completes, unreadable
    records."""
    kind, deferred = rows.column("kind").to_pylist(), rows.column("is_deferred").to_pylist()
    return pa.array(
        [k in (TRAFFIC, UNREADABLE) or (k == MARKER and bool(d)) for k, d in zip(kind, deferred, strict=True)]
    )


def _outputs(
    hands: Sequence[Hand], numbers: Iterable[int], context: ReadContext
) -> Iterator[tuple[RangeDecoder | None, str, Any]]:
    for number in numbers:
        with context.connected() as connected:
            for reading in readings(hands[number], connected):
                try:
                    for decoder in reading.decoders():
                        for name, rows in decoder.outputs():
                            rows = _with_partition(rows, reading.offsets_partition) if name == REPLAY else rows
                            yield decoder, name, rows
                        yield decoder, PROGRESS, decoder.progress
                except LeaderLost as err:
                    connected.lose_patience()
                    yield None, PROGRESS, reading.given_up(str(err))


def replay_frame(rows: DataFrame, shards: int, context: ReplayContext) -> DataFrame:
    """Stage 2 for Spark's writer: replay rows in any order -> the rows of REPLAY_TABLES, packed (packed_rows.py).

    One shard is one offsets partition, as in Kafka: partitions are placed by range and come sorted by log offset.
    """
    placed = rows.repartitionByRange(max(shards, 1), "offsets_partition")
    in_order = placed.sortWithinPartitions("offsets_partition", F.col("log_offset").asc_nulls_first(), "kind")

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from packed_outputs(replay_partitions(batches, context))

    return in_order.select(REPLAY_ROWS.names).mapInArrow(with_storage(task), PACKED)


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
