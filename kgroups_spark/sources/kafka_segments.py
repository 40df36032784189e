"""The PySpark data source `kafka-segments`: records of log segments, with the columns that consumers hide."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.records.slices import binary_array
from kgroups_spark.sources.files import open_file
from kgroups_spark.sources.segments import OFFSETS_TOPIC, PartitionCopy, choose_copies, find_partitions

ROWS_PER_BATCH = 1 << 16
BYTES_PER_BATCH = 32 << 20
LARGEST_TIMESTAMP_MS = (2**63 - 1) // 1000
EARLIEST, LATEST = -2, -1  # in JSON offsets, as in Spark's Kafka source


class BadOption(UsageError):
    """An option that is unknown, or whose value cannot be meant."""


class CorruptLog(KgroupsError):
    """Damage in a segment, where failOnDataLoss is on."""


def _column(name: str, kind: Any, comment: str, *, nullable: bool = True) -> StructField:
    return StructField(name, kind, nullable, {"comment": comment})


RECORDS = StructType(
    [
        _column("topic", StringType(), "topic of the log", nullable=False),
        _column("partition", IntegerType(), "partition of the log", nullable=False),
        _column("offset", LongType(), "offset of the record", nullable=False),
        _column("timestamp", TimestampType(), "of the record, to the millisecond; null: none (message format 0)"),
        _column("timestamp_type", IntegerType(), "0: create time, 1: log append time; null: none (message format 0)"),
        _column("leader_epoch", IntegerType(), "leader epoch of the batch; null: none (message formats 0 and 1)"),
        _column("producer_id", LongType(), "null: not from a transactional or idempotent producer"),
        _column("producer_epoch", ShortType(), "null: not from a transactional or idempotent producer"),
        _column("is_transactional", BooleanType(), "part of a transaction, committed or not", nullable=False),
        _column("control_type", StringType(), "COMMIT, ABORT, or the number of another; null: not a control record"),
        _column("key", BinaryType(), "null: no key"),
        _column("value", BinaryType(), "null: tombstone"),
    ]
)


ARROW_RECORDS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestamp_type", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("producer_id", pa.int64()),
        pa.field("producer_epoch", pa.int16()),
        pa.field("is_transactional", pa.bool_(), nullable=False),
        pa.field("control_type", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


@dataclass(frozen=True)
class SegmentRange(InputPartition):
    """Consecutive segments of one partition; records start_offset .. end_offset - 1 of them."""

    topic: str
    partition: int
    paths: tuple[str, ...]
    start_offset: int
    end_offset: int | None  # None: to the end


@dataclass(frozen=True)
class Options:
    """The options of a read, parsed. Offsets: by topic and partition; those that are absent are 0 and None."""

    folders: tuple[str, ...]
    topics: tuple[str, ...]
    starting_offsets: Mapping[tuple[str, int], int]
    ending_offsets: Mapping[tuple[str, int], int]
    min_partitions: int
    fail_on_data_loss: bool


class KafkaSegmentsDataSource(DataSource):
    """Records of Kafka log segments: folders of `<topic>-<partition>/<20 digits>.log`, such as a broker's log
    directory.

    Every record comes, control records and records of aborted transactions too, of all message formats and codecs.

    Options (names as in Spark's Kafka source; unknown ones are refused):

    ==================  ==========================  ==================================================================
    path, paths         (needed)                    a folder, or a JSON list of folders: local, or a URI of pyarrow.fs
    subscribe           `__consumer_offsets`        topics, separated by commas
    startingOffsets     `earliest`                  `earliest`, or JSON: {"topic": {"0": 23, "1": -2}}, -2 is earliest
    endingOffsets       `latest`                    `latest`, or JSON: {"topic": {"0": 50, "1": -1}}, -1 is latest;
                                                    the offset itself is not read
    minPartitions       number of log partitions    Spark partitions at least, as far as there are segments
    failOnDataLoss      `true`                      `false`: pass over batches that cannot be read
    ==================  ==========================  ==================================================================

    A Spark partition is a run of segments of one log partition. Of several copies of one the best is read
    (`kgroups_spark.sources.segments.choose_copies`). Columns: see RECORDS.

        spark.dataSource.register(KafkaSegmentsDataSource)
        spark.read.format("kafka-segments").load("/var/kafka-logs").where("control_type = 'ABORT'").show()
    """

    @classmethod
    def name(cls) -> str:
        return "kafka-segments"

    def schema(self) -> StructType:
        return RECORDS

    def reader(self, schema: StructType) -> KafkaSegmentsReader:
        if schema != RECORDS:
            raise BadOption("kafka-segments has a schema of its own: leave .schema(...) out and select what you need")
        return KafkaSegmentsReader(parse_options(self.options))


class KafkaSegmentsReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[SegmentRange]:
        """What one task reads each. Raises the errors of find_partitions."""
        return plan_ranges(self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 65,536 rows and about 32 MiB. Raises CorruptLog."""
        assert isinstance(partition, SegmentRange)
        for path in partition.paths:
            with open_file(path) as file:
                for item in read_segment(file, from_offset=partition.start_offset):
                    if isinstance(item, RecordColumns):
                        if partition.end_offset is not None:
                            item = item.take(item.offset < partition.end_offset)
                        yield from record_batches(partition.topic, partition.partition, item)
                    elif self._options.fail_on_data_loss and not _is_behind(item, partition.end_offset):
                        raise CorruptLog(
                            f"{path}, byte {item.position}: {item.size} bytes cannot be read: {item.detail}; "
                            "failOnDataLoss=false passes over them"
                        )


def _is_behind(item: CorruptBatch, end_offset: int | None) -> bool:
    return end_offset is not None and item.base_offset is not None and item.base_offset >= end_offset


def plan_ranges(options: Options) -> list[SegmentRange]:
    """Every chosen log partition as one range, or, where minPartitions asks for more, cut between segments."""
    copies = [
        copy for topic in options.topics for copy in choose_copies(find_partitions(options.folders, topic)).copies
    ]
    share = sum(copy.size for copy in copies) // max(options.min_partitions, 1)
    ranges: list[SegmentRange] = []
    for copy in copies:
        place = (copy.topic, copy.partition)
        start, end = options.starting_offsets.get(place, 0), options.ending_offsets.get(place)
        is_cut = options.min_partitions > len(copies)
        for paths in _runs(copy, start, end, share if is_cut else copy.size):
            ranges.append(SegmentRange(copy.topic, copy.partition, paths, start, end))
    return ranges


def _runs(copy: PartitionCopy, start: int, end: int | None, share: int) -> list[tuple[str, ...]]:
    """Paths of the segments with offsets start .. end - 1, in runs of about `share` bytes at most."""
    runs: list[list[str]] = []
    filled = 0
    for segment in copy.segments_from(start):
        if end is not None and segment.base_offset >= end:
            break
        if not runs or (filled and filled + segment.size > share):
            runs.append([])
            filled = 0
        runs[-1].append(segment.path)
        filled += segment.size
    return [tuple(run) for run in runs]


def record_batches(topic: str, partition: int, records: RecordColumns) -> Iterator[pa.RecordBatch]:
    """The records in order as Arrow batches of the columns RECORDS, none larger than the limits unless one record
    is."""
    size = np.maximum(records.key_length, 0) + np.maximum(records.value_length, 0)
    behind = np.cumsum(size)
    start = 0
    while start < len(records):
        full = int(np.searchsorted(behind, (behind[start - 1] if start else 0) + BYTES_PER_BATCH, side="right"))
        stop = min(max(full, start + 1), start + ROWS_PER_BATCH)
        yield _record_batch(topic, partition, records.take(slice(start, stop)))
        start = stop


def _record_batch(topic: str, partition: int, records: RecordColumns) -> pa.RecordBatch:
    count = len(records)
    columns = [
        pa.repeat(pa.scalar(topic), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        pa.array(records.offset),
        _timestamps(records.timestamp),
        _nullable(records.timestamp_type, pa.int32()),
        _nullable(records.leader_epoch, pa.int32()),
        _nullable(records.producer_id, pa.int64()),
        _nullable(records.producer_epoch, pa.int16()),
        pa.array(records.is_transactional),
        control_types(records),
        binary_array(records.data, records.key_start, records.key_length),
        binary_array(records.data, records.value_start, records.value_length),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_RECORDS)


def _timestamps(ms: NDArray[np.int64]) -> pa.Array:
    """Kafka's milliseconds; null: none, or more than a microsecond timestamp can hold (292,000 years)."""
    is_null = (ms == -1) | (ms > LARGEST_TIMESTAMP_MS) | (ms < -LARGEST_TIMESTAMP_MS)
    return pa.array(np.where(is_null, 0, ms) * 1000, pa.timestamp("us", "UTC"), mask=is_null)


def _nullable(numbers: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Kafka's -1 as null."""
    return pa.array(numbers, mask=numbers == -1).cast(kind)


def control_types(records: RecordColumns) -> pa.Array:
    """COMMIT, ABORT, the number as text, or null for what is not a control record. The key is version i16, type i16."""
    rows = np.flatnonzero(records.is_control)
    types: list[str | None] = [None] * len(records)
    for row in rows.tolist():
        key = records.key(row) or b""
        number = int.from_bytes(key[2:4], "big", signed=True) if len(key) >= 4 else -1
        types[row] = {0: "ABORT", 1: "COMMIT"}.get(number, str(number))
    return pa.array(types, pa.string())


def parse_options(options: Mapping[str, str]) -> Options:
    """Raises BadOption for unknown names and impossible values."""
    given = {name.lower(): value for name, value in options.items()}
    known = ("path", "paths", "subscribe", "startingOffsets", "endingOffsets", "minPartitions", "failOnDataLoss")
    if unknown := sorted(set(given) - {name.lower() for name in known}):
        raise BadOption(f"kafka-segments has no option {', '.join(unknown)}; there are {', '.join(known)}")
    return Options(
        folders=_folders(given.get("path"), given.get("paths")),
        topics=tuple(topic.strip() for topic in given.get("subscribe", OFFSETS_TOPIC).split(",") if topic.strip()),
        starting_offsets=_offsets("startingOffsets", given.get("startingoffsets", "earliest"), "earliest", EARLIEST),
        ending_offsets=_offsets("endingOffsets", given.get("endingoffsets", "latest"), "latest", LATEST),
        min_partitions=_number("minPartitions", given.get("minpartitions", "0")),
        fail_on_data_loss=_truth("failOnDataLoss", given.get("failondataloss", "true")),
    )


def _folders(path: str | None, paths: str | None) -> tuple[str, ...]:
    folders = [path] if path else []
    if paths:
        try:
            folders += [str(each) for each in json.loads(paths)]
        except (ValueError, TypeError) as err:
            raise BadOption(f"paths is a JSON list of folders, not {paths!r}") from err
    if not folders:
        raise BadOption("kafka-segments needs a folder: .load(folder)")
    return tuple(folders)


def _offsets(name: str, text: str, word: str, number: int) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition without those that `word` or `number` stand for."""
    if text == word:
        return {}
    try:
        by_topic = json.loads(text)
        offsets = {(topic, int(p)): int(o) for topic, by_partition in by_topic.items() for p, o in by_partition.items()}
    except (ValueError, TypeError, AttributeError) as err:
        raise BadOption(f'{name} is "{word}" or JSON like {{"topic": {{"0": 23}}}}, not {text!r}') from err
    if wrong := [offset for offset in offsets.values() if offset < 0 and offset != number]:
        raise BadOption(f"{name} has the offset {wrong[0]}; 0 or more, or {number} for {word}, is meant")
    return {place: offset for place, offset in offsets.items() if offset != number}


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise BadOption(f"{name} is a number, not {text!r}")
    return int(text)


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadOption(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"
