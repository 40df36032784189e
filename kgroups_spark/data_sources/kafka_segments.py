"""The PySpark data source `kafka-segments`: records of log segments, with the columns that consumers hide."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kgroups_spark.data_sources.read_options import SHARED, BadOption, ReadOptions, require_known, shared_options, short
from kgroups_spark.data_sources.record_frame import RECORDS, record_batches
from kgroups_spark.errors import KgroupsError
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.sources.copies import choose_copies
from kgroups_spark.sources.partition_log import SegmentPiece
from kgroups_spark.sources.segment_file import SegmentFile
from kgroups_spark.sources.segment_reading import SegmentReading, Span
from kgroups_spark.sources.segments import PartitionCopy, find_partitions, require_listed


class CorruptLog(KgroupsError):
    """Damage in a segment while failOnDataLoss is on."""


@dataclass(frozen=True)
class SegmentRange(InputPartition):
    """Consecutive segments of one partition, and the end of the wanted records (`end_offset` None: all)."""

    span: Span
    end_offset: int | None


@dataclass(frozen=True)
class Options(ReadOptions):
    folders: tuple[str, ...]


class KafkaSegmentsDataSource(DataSource):
    """Records of Kafka log segments: folders of `<topic>-<partition>/<20 digits>.log`, such as a broker's log
    directory.

    The source returns every record, including control records and records of aborted transactions, of all message
    formats and codecs.

    Options (names as in Spark's Kafka source; unknown ones are refused):

    ==================  ==========================  ==================================================================
    path, paths         (required)                  a folder, or a JSON list of folders: local, or a URI of pyarrow.fs
    subscribe           `__consumer_offsets`        topics, separated by commas
    startingOffsets     `earliest`                  `earliest`, or JSON: {"topic": {"0": 23, "1": -2}}, -2 is earliest
    endingOffsets       `latest`                    `latest`, or JSON: {"topic": {"0": 50, "1": -1}}, -1 is latest;
                                                    the offset itself is not read
    minPartitions       number of log partitions    least number of Spark partitions, if there are enough segments
    failOnDataLoss      `true`                      `false`: skip batches that cannot be read
    ==================  ==========================  ==================================================================

    A Spark partition is a run of segments of one log partition. The best of several copies is read
    (`kgroups_spark.sources.copies.choose_copies`). Columns: see RECORDS in record_frame.py.

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

    def streamReader(self, schema: StructType) -> Any:
        raise BadOption("kafka-segments reads the files that there are: spark.read, not spark.readStream")


class KafkaSegmentsReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[SegmentRange]:
        """The segments of each task. Raises the errors of find_partitions."""
        return plan_ranges(self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches of at most 65,536 rows and about 32 MiB. Raises CorruptLog."""
        assert isinstance(partition, SegmentRange)
        span, end_offset = partition.span, partition.end_offset
        reading = SegmentReading(span)
        for path, item in reading.items():
            if isinstance(item, RecordColumns):
                if end_offset is not None:
                    item = item.take(item.offset < end_offset)
                yield from record_batches(span.topic, span.partition, item)
            elif self._options.fail_on_data_loss and not _is_past(item, end_offset):
                raise CorruptLog(
                    f"{path}, byte {item.position}: {item.size} bytes cannot be read: {item.detail}; "
                    "failOnDataLoss=false passes over them"
                )
        if reading.unconfirmed is not None and self._options.fail_on_data_loss:
            raise CorruptLog(f"{reading.unconfirmed}; failOnDataLoss=false passes over the batch")


def _is_past(item: CorruptBatch, end_offset: int | None) -> bool:
    return end_offset is not None and item.base_offset is not None and item.base_offset >= end_offset


def plan_ranges(options: Options) -> list[SegmentRange]:
    """Each chosen log partition as one range, or cut between segments if minPartitions is higher."""
    copies = [copy for topic in options.topics for copy in _copies(topic, options)]
    share = sum(copy.size for copy in copies) // max(options.min_partitions, 1)
    ranges: list[SegmentRange] = []
    for copy in copies:
        place = (copy.topic, copy.partition)
        start, end = options.starting_offsets.get(place, 0), options.ending_offsets.get(place)
        is_cut = options.min_partitions > len(copies)
        runs = _runs(copy, start, end, share if is_cut else copy.size)
        borders = [start, *(run[0].base_offset for run in runs[1:]), None]
        for run, (first, end_offset) in zip(runs, pairwise(borders), strict=False):
            pieces = [SegmentPiece(segment.path, 0, segment.size, segment) for segment in run]
            span = Span(copy.topic, copy.partition, pieces, first or 0, end_offset, run[-1].is_last)
            ranges.append(SegmentRange(span, end))
    return ranges


def _copies(topic: str, options: Options) -> list[PartitionCopy]:
    copies = choose_copies(find_partitions(options.folders, topic)).copies
    require_listed(copies)
    options.require_partitions(topic, [copy.partition for copy in copies])
    return copies


def _runs(copy: PartitionCopy, start: int, end: int | None, share: int) -> list[list[SegmentFile]]:
    """The segments with offsets start .. end - 1 (end None: all), in runs of at most about `share` bytes."""
    runs: list[list[SegmentFile]] = []
    filled = 0
    for segment in copy.segments_from(start):
        if end is not None and segment.base_offset >= end:
            break
        if not runs or (filled and filled + segment.size > share):
            runs.append([])
            filled = 0
        runs[-1].append(segment)
        filled += segment.size
    return runs


def parse_options(options: Mapping[str, str]) -> Options:
    """The parsed options. Raises BadOption for unknown names and impossible values."""
    given = {name.lower(): value for name, value in options.items()}
    require_known("kafka-segments", options, ("path", "paths", *SHARED))
    return Options(**shared_options(given), folders=_folders(given.get("path"), given.get("paths")))


def _folders(path: str | None, paths: str | None) -> tuple[str, ...]:
    folders = [path] if path else []
    if paths:
        folders += _listed(paths)
    if not folders:
        raise BadOption("kafka-segments needs a folder: .load(folder)")
    return tuple(folders)


def _listed(paths: str) -> list[str]:
    with suppress(ValueError, RecursionError):
        listed = json.loads(paths)
        if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
            return listed
    raise BadOption(f"paths is a JSON list of folders, not {short(paths)}")
